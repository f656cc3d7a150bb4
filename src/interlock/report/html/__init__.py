"""The report as one page that needs no network, and its charts as pictures. Pure: figures in, text and bytes out."""
