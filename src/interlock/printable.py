"""What may be printed or written for people: text from anywhere, without what would steer a terminal."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress

# ECMA-48: CSI; OSC, DCS, PM, APC and SOS up to their end, if they have one; sequences of two characters. As escapes or
# as C1 characters.
SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x80-\x9f\n]{0,4096}+(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*+[0-~]"
)
# C0 without tab and line feed, DEL, C1, and the marks that turn the order of what is shown (trojansource.codes).
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Half a character, as Python decodes bytes that are no UTF-8: no stream takes it.
HALF = re.compile(r"[\ud800-\udfff]")


def printable(text: str) -> str:
    """Return the text without escape sequences, control characters and marks of direction; lines end with a line feed.

    What a program wrote over with carriage returns stays, a line each.
    """
    if text.isascii() and text.isprintable():
        return text
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return HALF.sub("\ufffd", CONTROL.sub("", SEQUENCE.sub("", lines)))


OUTPUTS = (1, 2)


def forget_terminal() -> None:
    """Write no more to a terminal that is gone: the error of that would end what is still to be written to disk."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in OUTPUTS:
        with suppress(OSError):
            if stat.S_ISCHR(os.fstat(descriptor).st_mode):
                os.dup2(nowhere, descriptor)
    os.close(nowhere)
