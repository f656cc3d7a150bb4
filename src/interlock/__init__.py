"""Interlock: which build of the Python interpreter to run, with evidence."""

# pyproject.toml reads it from here: asking the installed package for it would take longer than the rest of `--help`.
__version__ = "0.1.0"
