"""Measures cells: runs workloads on every variant in interleaved rounds, profiles them, and reads what processes print.

What comes in are a catalog, built images and an engine; what goes out are the files of an experiment. Trials use the
same rounds, health check, load and profiles for a user's service.
"""
