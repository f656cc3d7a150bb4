"""The schema and the files of an experiment, a trial, a pick and an audit.

In: records of measuring. Out: files that are written whole or not at all, and the same records read back.
"""
