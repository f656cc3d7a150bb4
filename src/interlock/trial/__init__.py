"""A user's own Dockerfile, built, started, tested and loaded on variants.

What comes in are a Dockerfile, options and built variants; what goes out are trial.json and a verdict on each variant.
"""
