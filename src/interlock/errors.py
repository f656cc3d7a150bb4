"""What Interlock says when it cannot go on: one clear sentence, and the exit code that `cli` leaves with."""

import difflib
from collections.abc import Iterable

# So many names are few.
FEW = 12


def meant(name: str, known: Iterable[str]) -> str:
    """Asks about the known name that is most like one that does not exist; empty if none is like it."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"Did you mean '{close[0]}'?" if close else ""


def nearest(name: str, known: Iterable[str]) -> str:
    """What to do about a name that does not exist: the one that was meant, if one is like it; all, if they are few."""
    names = sorted(known)
    question = meant(name, names)
    every = f"There {'are' if len(names) != 1 else 'is'}: {', '.join(names) or 'none'}."
    return " ".join(filter(None, (question, every if len(names) <= FEW or not question else "")))


class InterlockError(Exception):
    """Something that the user can mend: where it is, what was found there and what to do about it."""

    exit_code = 1

    def __init__(self, *, found: str, todo: str, file: str = "", key: str = "") -> None:
        self.file, self.key, self.found, self.todo = file, key, found, todo
        where = ", ".join(part for part in (file, f"key '{key}'" if key else "") if part)
        super().__init__(f"{where + ': ' if where else ''}{found.rstrip('.')}. {todo}")


class UsageError(InterlockError):
    """The command line names something that does not exist."""

    exit_code = 2


class KindError(UsageError):
    """Experiments that were measured on different kinds of host, or to different baselines, cannot be compared."""


class DriftError(InterlockError):
    """A generated file is not what the variants and templates say."""


class CatalogError(InterlockError):
    """A file under variants/ or workloads/ is not what the schema asks for."""

    exit_code = 3


class RequirementsError(InterlockError):
    """A requirements file cannot be read, or a line of it is none that pip takes."""

    exit_code = 3


class EngineError(InterlockError):
    """The container engine does not answer, refuses, or has no room left."""

    exit_code = 4


class RegistryError(InterlockError):
    """A registry does not answer, refuses, or has another image than it should."""

    exit_code = 4


class TagError(RegistryError):
    """A tag is not there, or not what this engine pushed or pulled by its name; the registry itself is well."""


class TracerError(InterlockError):
    """Another program traces system calls on the engine's machine."""

    exit_code = 4


class BuildError(InterlockError):
    """A variant did not build, or the image is not what its file declares."""

    exit_code = 5


class SourceUnavailableError(BuildError):
    """No place has a source; `found` starts with the host and the error of the first place asked."""


class WorkloadError(InterlockError):
    """A workload ran and did not keep to the protocol, or did not do its work."""

    exit_code = 6


class UnsupportedHereError(WorkloadError):
    """This machine lacks what a workload needs: its cells are unsupported, the others go on."""


class StoreError(InterlockError):
    """A result could not be written or read."""

    exit_code = 7


class ClaimError(InterlockError):
    """An experiment refutes a claim that is required."""


class PickError(InterlockError):
    """Nothing meets the demands."""


class AuditError(InterlockError):
    """A dependency cannot be had in a variant, or switches its GIL back on."""


class SwapError(InterlockError):
    """A file whose image cannot be swapped, taken back or found, or is not the one that was picked."""


class InventoryError(InterlockError):
    """A fleet's inventory cannot be read, or a host in it has no kind."""

    exit_code = 3


class FleetError(InterlockError):
    """A machine could not be made ready, or no host of a fleet measured a workload."""


class Interrupted(BaseException):
    """Ctrl-C or SIGTERM. Not a KeyboardInterrupt, which the command-line library turns into an exit of its own."""
