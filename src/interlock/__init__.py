"""Interlock: which build of the Python interpreter to run, with evidence."""

from importlib.metadata import version

__version__ = version("interlock")
