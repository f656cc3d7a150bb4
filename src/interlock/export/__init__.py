"""Experiments as tidy tables, for programs that read Parquet or CSV."""
