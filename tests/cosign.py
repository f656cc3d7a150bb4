"""A small program in cosign's place, which is not to be had everywhere: it notes its words and answers as told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.builders import make_program

PROGRAM = """\
echo "$@" >> {words}
[ -e {accepted} ] && exit 0
echo 'Error: no matching signatures' >&2
exit 10
"""


class Cosign:
    """What stands on PATH as cosign until the test ends."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder.mkdir()
        self._words, self._accepted = folder / "words", folder / "accepted"
        make_program(folder / "cosign", PROGRAM.format(words=self._words, accepted=self._accepted))
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def accept(self) -> None:
        """From now on every signature is right."""
        self._accepted.touch()

    @property
    def asked(self) -> list[list[str]]:
        """The words of each call."""
        return [line.split() for line in self._words.read_text().splitlines()] if self._words.exists() else []
