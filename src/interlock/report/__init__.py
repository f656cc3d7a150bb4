"""Experiments, comparisons, picks, claims and audits as text, Markdown, JSON, a page of charts and tables for export.

What comes in is data of results and analysis; what goes out is text, pictures and files. Nothing here decides anything.
"""
