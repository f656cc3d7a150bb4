"""The commands: a module for each group of them, what they print while they work, and the exit codes.

What comes in is a command line; what goes out is text or JSON on the standard output, errors on standard error.
"""
