"""From values to statements: comparisons, intervals, claims, changes over time, and which image to pick.

Pure functions of their arguments: they read and write nothing. What comes in are values of experiments; what goes
out are tables, verdicts and recommendations as data.
"""
