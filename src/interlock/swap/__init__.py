"""Replace the Python image in the FROM or image lines of a user's file, and take that back.

In: a file's text and a description of the new image. Out: the changed text with warnings, or a SwapError with the
line that cannot be swapped. All is pure but `read_file` and `replace_file` of `files`.
"""
