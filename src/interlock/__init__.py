"""Interlock: which build of the Python interpreter to run, with evidence."""

# Asking the installed package for it would take longer than the rest of `--help`.
try:
    from interlock._version import __version__ as __version__
except ImportError:  # a clone that was not installed
    __version__ = "0.1.dev0"
