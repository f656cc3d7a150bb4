"""Containers that run: cells of an experiment, services of users, loads, and the profiler beside them."""
