"""Reads users' files and replaces them whole: whatever ends the writing, a revert finds no half-written file."""

from __future__ import annotations

import difflib
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from interlock import untrusted
from interlock.errors import StoreError
from interlock.untrusted import printable_name

LINE = re.compile(r"[^\n]*\n|[^\n]+")
QUOTED_IN_DIFF = re.compile(r'[\x00-\x1f\x7f"\\]')
# The name of a file's new text until it takes the file's place. If the writer is killed it stays until the next write.
TEMPORARY = re.compile(r"\..+\.interlock-[a-z0-9_]{8}")


@dataclass(frozen=True)
class FileChange:
    """A user's file before and after."""

    path: Path
    before: str
    after: str

    @property
    def diff(self) -> str:
        """Return a unified diff for `patch`; only a line feed ends a line."""
        name = _name_in_diff(str(self.path))
        old, new = (LINE.findall(text) for text in (self.before, self.after))
        lines = difflib.unified_diff(old, new, name, name)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _name_in_diff(name: str) -> str:
    """Return a name for `patch`: in quotes if it has line ends or quotes, and with an end mark if it has blanks."""
    if QUOTED_IN_DIFF.search(name):
        quoted = QUOTED_IN_DIFF.sub(lambda sign: "\\" + format(ord(sign[0]), "03o"), name)
        return f'"{quoted}"'
    return f"{name}\t" if " " in name else name


def read_file(path: Path) -> str:
    """Return a user's file as text; bytes that are not UTF-8 are written back as they were."""
    try:
        data = untrusted.read_bytes(path, untrusted.MOST_TEXT)
    except OSError as error:
        raise StoreError(
            file=printable_name(path),
            found=f"cannot be read: {error.strerror or error}",
            todo="Name a file, and check its permissions.",
        ) from None
    if b"\0" in data:
        raise StoreError(
            file=printable_name(path),
            found="is not UTF-8 text (it has zero bytes)",
            todo="Save it as UTF-8, as builders require.",
        )
    return data.decode("utf-8", "surrogateescape")


def replace_files(changes: Sequence[FileChange]) -> None:
    """Replace all files; their modes, owners, attributes and symbolic links to them stay.

    All new texts are on disk before the first one takes its place. So a full disk or a read-only folder changes
    nothing, and a kill leaves each file whole, either old or new.
    """
    with ExitStack() as temporaries:
        ready = [(change, *temporaries.enter_context(_written_beside(change))) for change in changes]
        for change in changes:
            _require_unchanged(change)
        for number, (change, temporary, target) in enumerate(ready):
            try:
                temporary.replace(target)
            except OSError as error:
                raise _unwritable(change.path, error, number, len(changes)) from None


@contextmanager
def _written_beside(change: FileChange) -> Iterator[tuple[Path, Path]]:
    """Yield a temporary file with the new text, and the file itself beside it; remove the temporary one at the end."""
    temporary: Path | None = None
    try:
        try:
            target = change.path.resolve(strict=True)
            descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.interlock-", dir=target.parent)
            temporary = Path(name)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(change.after.encode("utf-8", "surrogateescape"))
                _take_over(target, target.stat(), descriptor)
                stream.flush()
                os.fsync(descriptor)
        except OSError as error:
            raise _unwritable(change.path, error, 0, 1) from None
        yield temporary, target
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _unwritable(path: Path, error: OSError, written: int, many: int) -> StoreError:
    left = f"{written} of {many} files are written: take them back with --revert --write, or repeat the command"
    return StoreError(
        file=printable_name(path),
        found=f"cannot be written: {error.strerror or error}",
        todo=f"Check the permissions and free space of its folder; {left if written else 'no file is changed'}.",
    )


def _require_unchanged(change: FileChange) -> None:
    """Raise StoreError if somebody else has changed the file since it was read."""
    if read_file(change.path) != change.before:
        raise StoreError(
            file=printable_name(change.path),
            found="was changed by another program since it was read; no file is changed",
            todo="Repeat the command.",
        )


def _take_over(source: Path, status: os.stat_result, descriptor: int) -> None:
    """Copy owner, mode and attributes; the owner first, since changing it clears set-user-ID bits."""
    if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        os.fchown(descriptor, status.st_uid, status.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
    names = list[str]()
    with suppress(OSError, AttributeError):  # the file system may have no attributes; macOS has no such function
        names = os.listxattr(source)
    for name in names:
        with suppress(OSError):  # some attributes only the system itself can set
            os.setxattr(descriptor, name, os.getxattr(source, name))
