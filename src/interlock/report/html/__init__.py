"""The report as one page that needs no network. Pure: figures in, text out."""
