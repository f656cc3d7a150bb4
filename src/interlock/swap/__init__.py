"""Replace the Python image in the FROM or image lines of a user's file, and take that back.

In: a file's text and a description of the new image. Out: the changed text with warnings, or a SwapError with the
line that cannot be swapped. All modules are pure but `user_files`, which reads and replaces files.
"""
