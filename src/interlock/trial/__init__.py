"""A user's own Dockerfile as the rows of an experiment: built and proved here, measured and reported as any other.

What comes in are a Dockerfile, options and built variants; what goes out is an experiment.
"""
