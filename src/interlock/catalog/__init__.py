"""Variants, workloads and claims as data: their schema, loading and checks, and the build contexts rendered from them.

In: the TOML files of variants/ and workloads/ and the templates of dockerfiles/. Out: frozen models in which every
reference is resolved, and the texts of generated files.
"""
