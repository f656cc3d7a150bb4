"""Replace the Python image in the FROM or image lines of a user's file, and take that back.

In: a file's text and a description of the new image. Out: the changed text with warnings, or a SwapError with the
line that cannot be swapped. A text is read (`dockerfile`, `yaml_files`, `devcontainer`), its lines are chosen
(`choosing`), the versions that the swap breaks are found (`paths`), the edits are made (`edits`), what lines use is
gathered (`gathering`, `copied`), and caveats are derived from that (`image_caveats`, `needs`, `other_pythons`).

All is pure except what reads and writes files: `writing`, `copied`, `debian` and the walk through a folder in `files`.
"""
