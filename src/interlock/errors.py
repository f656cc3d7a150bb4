"""Interlock's errors: what was found, where, and how to fix it; and the exit code that `cli` leaves with."""

from __future__ import annotations

import difflib
import importlib
import signal
from collections.abc import Collection, Iterable
from functools import partial
from importlib.util import find_spec
from typing import Any, Self

from interlock.untrusted import printable

# A list of up to this many names helps; a longer one hides the name that is looked for.
FEW = 12
LONGEST_QUOTE = 1000
# Of each part of an error: what was found may be a name of 80,000 characters.
LONGEST_PART = 6000
# Files whose entries are keys. What stands in a folder, or is about no file, is named as it is.
WITH_KEYS = (".toml", ".yml", ".yaml", ".json")


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant by one that does not exist; None if no name is like it.

    A name that has the other as a part between hyphens comes first: '3.14' means 'cpython-3.14'.
    """
    wanted = name.casefold()
    by_folded = {other.casefold(): other for other in sorted(known, reverse=True)}
    with_part = [folded for folded in by_folded if f"-{wanted}-" in f"-{folded}-"]
    if with_part:
        return by_folded[min(with_part, key=lambda folded: (folded.count("-"), folded))]
    close = difflib.get_close_matches(wanted, list(by_folded), n=1)
    return by_folded[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question about the nearest known name; empty if none is like it."""
    close = nearest_name(name, known)
    return f"Did you mean '{close}'?" if close else ""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return what to do about a name that does not exist: the nearest known name, and all of them if they are few."""
    names = sorted(known)
    question = did_you_mean(name, names)
    if question and not 1 < len(names) <= FEW:
        return question
    return f"{question} {_listed(names)}".lstrip()


def _listed(names: list[str]) -> str:
    if len(names) > FEW:
        return f"There are {len(names)}: {', '.join(names[:FEW])} and others."
    return f"There {'are' if len(names) != 1 else 'is'}: {', '.join(names) or 'none'}."


def last_line(printed: str) -> str:
    """Return the last line of what a program printed, which errors quote, without the middle of a very long one."""
    return shortened((printed.strip().splitlines() or ["it printed nothing"])[-1], LONGEST_QUOTE)


def shortened(text: str, longest: int = LONGEST_PART) -> str:
    """Return the text, of a very long one without the middle."""
    return text if len(text) <= longest else f"{text[: longest // 2]} ... {text[-longest // 2 :]}"


class InterlockError(Exception):
    """Something that the user can fix: the file and its key, or the option or name, what was found, and what to do."""

    exit_code = 1

    def __init__(self, *, found: str, todo: str, file: str = "", key: str = "") -> None:
        self.file, self.key, self.found, self.todo = (shortened(printable(part)) for part in (file, key, found, todo))
        where = ", ".join(filter(None, (self.file, self._key_in_words())))
        super().__init__(f"{where + ': ' if where else ''}{self.found.rstrip('.')}.{self.todo and ' '}{self.todo}")

    def _key_in_words(self) -> str:
        """Return "key 'tag'" or 'line 3' of a file, else the option or the name of what the error is about.

        Nothing where there is none, or where `found` names the option: 'missing option --to'.
        """
        if not self.key:
            return ""
        if self.key.startswith("-"):
            return "" if self.found.startswith(f"missing option {self.key}") else self.key
        return f"key '{self.key}'" if self.file.endswith(WITH_KEYS) and not self.key.startswith("line ") else self.key

    def with_todo(self, more: str) -> Self:
        """Return the same error with a further sentence of what to do."""
        return type(self)(file=self.file, key=self.key, found=self.found, todo=f"{self.todo} {more}")

    def __reduce__(self) -> tuple[partial[InterlockError], tuple[()]]:
        """Return how to make the error again in another process."""
        return partial(type(self), found=self.found, todo=self.todo, file=self.file, key=self.key), ()


class UsageError(InterlockError):
    """The command line names something that does not exist, or lacks something."""

    exit_code = 2


def missing_option(option: str, todo: str) -> UsageError:
    """Return the error of a command that cannot do without this option."""
    return UsageError(key=option, found=f"missing option {option}", todo=todo)


def require_known(known: Collection[str], name: str, kind: str, key: str = "") -> None:
    """Raise UsageError for a name that does not exist, as that of one: a word for many is none."""
    if name not in known:
        raise UsageError(key=key, found=f"there is no {kind} '{name}'", todo=nearest(name, known))


class MissingExtraError(UsageError):
    """What was asked for needs a module that the bare package does not bring."""


class KindError(UsageError):
    """Experiments of different kinds of host, or with different baselines, cannot be compared."""


class DriftError(InterlockError):
    """A generated file differs from what the variants and templates give."""


class CatalogError(InterlockError):
    """A file below variants/ or workloads/ does not follow the schema."""

    exit_code = 3


class RequirementsError(InterlockError):
    """A requirements file cannot be read, or pip would refuse a line of it."""

    exit_code = 3


class EngineError(InterlockError):
    """The container engine does not answer, refuses, or has no room left."""

    exit_code = 4


class NoEngineError(EngineError):
    """No container engine can be talked to; what is to be done besides starting one, the command knows."""


class RegistryError(InterlockError):
    """A registry does not answer, refuses, or has another image than it should."""

    exit_code = 4


class TagError(RegistryError):
    """The registry answers, but a tag is missing, or is not the image that this engine pushed or pulled."""


class SignatureError(TagError):
    """An image is not signed with the key that was demanded."""


class TracerError(InterlockError):
    """Another program traces system calls on the engine's machine."""

    exit_code = 4


class BuildError(InterlockError):
    """A variant did not build, or the image does not show what its file declares."""

    exit_code = 5


class NoProfileError(BuildError):
    """No stored profile of optimisation is of the compiler that builds; `found` names the compiler."""


class SourceUnavailableError(BuildError):
    """No location has a source; `found` starts with the host and the error of the first location asked."""


class WorkloadError(InterlockError):
    """A workload ran but broke the protocol, or did not do its work."""

    exit_code = 6


class FloodError(WorkloadError):
    """A process printed more than is read."""


class UnsupportedHereError(WorkloadError):
    """This machine lacks what a workload needs: its cells are unsupported, the others go on."""


class StoreError(InterlockError):
    """A result could not be written or read."""

    exit_code = 7


class UpstreamError(InterlockError):
    """Nobody who publishes sources answers, or what came is not signed by whom it should be."""

    exit_code = 8


class ClaimError(InterlockError):
    """An experiment contradicts a required claim."""


class PickError(InterlockError):
    """No variant meets the constraints."""


class AuditError(InterlockError):
    """A dependency cannot be installed in a variant, or switches its GIL back on."""


class TrialError(InterlockError):
    """A variant of a trial meets a condition of --fail-on."""


class SwapError(InterlockError):
    """The image in a file cannot be found, swapped or reverted, or differs from the picked one."""


class LeftError(SwapError):
    """A file names or brings a Python where no swap changes it, so that a person wants to hear of the line."""


class UnexpectedError(InterlockError):
    """Something that no code foresees: a defect of Interlock; `todo` names the log with the traceback."""

    exit_code = 70  # EX_SOFTWARE of sysexits.h


class InventoryError(InterlockError):
    """A fleet's inventory cannot be read, or has no hosts."""

    exit_code = 3


class FleetError(InterlockError):
    """A machine could not be made ready, or a host of a fleet did not measure everything."""


# What ends a command before it is done: Ctrl-C, `kill`, and a terminal that goes.
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """One of these signals. Not a KeyboardInterrupt, which the command-line library turns into an exit of its own."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        self.exit_code = 128 + number
        super().__init__("interrupted; what this run had started is removed.")


class OutputError(BaseException):
    """Standard output takes no more: a full disk, or a pipe that nobody reads. Like a signal it ends the command."""

    def __init__(self, error: OSError) -> None:
        self.is_pipe = isinstance(error, BrokenPipeError)
        # As shells say of a program that SIGPIPE ended, and EX_IOERR of sysexits.h.
        self.exit_code = 128 + signal.SIGPIPE if self.is_pipe else 74
        super().__init__(f"what is printed cannot be written: {error.strerror}. Free space there, or print elsewhere.")


# Modules without which a command that needs the extra cannot do its work. An extra may bring more.
EXTRAS = {
    "measure": ("numpy", "scipy", "pyperf"),
    "report": ("numpy", "scipy"),
    "sbom": ("cyclonedx",),
    "update": ("sigstore",),
    "fleet": ("numpy", "scipy", "ansible"),
}


class LazyModule:
    """A module that is imported when something of it is used; MissingExtraError if it is not installed."""

    def __init__(self, name: str, extra: str) -> None:
        self._name, self._extra = name, extra

    def __getattr__(self, attribute: str) -> Any:
        try:
            value = getattr(importlib.import_module(self._name), attribute)
        except ModuleNotFoundError as error:
            if error.name != self._name:
                raise
            raise missing(f"what was asked for needs {self._name}", self._extra) from None
        setattr(self, attribute, value)
        return value


def require(extra: str, command: str) -> None:
    """Raise MissingExtraError if a module of the extra that a command needs is not installed."""
    for name in EXTRAS[extra]:
        if find_spec(name) is None:
            raise missing(f"`interlock {command}` needs {name}", extra)


INSTALL = "Install it, in a clone: pip install '.[{extra}]'"


def missing(what: str, extra: str) -> MissingExtraError:
    """Return the error of something that needs a module of an extra."""
    return MissingExtraError(found=f"{what}, which is not installed", todo=INSTALL.format(extra=extra))
