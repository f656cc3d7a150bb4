"""Writes and reads the project's generated and recorded files, each whole or not at all; runs as pyperf's files."""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from interlock import untrusted
from interlock.catalog.types import label_of
from interlock.errors import LazyModule, StoreError, UsageError
from interlock.results.experiments import BenchmarkValues, BuildRecord, CellKey, Experiment, Profiles, Values
from interlock.results.profiles import BenchmarkProfile, CellProfile
from interlock.results.runs import parse_pyperf, suite_of
from interlock.results.sums import NO_SUMS, SUMS_FILE, Sums, read_sums, text_of

if TYPE_CHECKING:
    import pyperf

    from interlock.results.runs import Runs
else:
    pyperf = LazyModule("pyperf", "measure")

Item = TypeVar("Item", bound=BaseModel)
EXPERIMENT_FILE = "experiment.json"
BUILDS_FILE = "builds.json"
FIGURES_FILE = "figures.json"
JOURNAL_FILE = ".journal"  # of the workload that is measured: results.journal
NOTHING: Mapping[str, Collection[str]] = {}


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file with this text (as UTF-8) or these bytes; if that fails, raise StoreError and leave it unchanged."""
    try:
        with replacement(path) as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise cannot_write(path, error) from None


@contextmanager
def replacement(path: Path) -> Iterator[IO[bytes]]:
    """Yield a new file that takes the path's place when the block ends; if anything fails the path stays as it was."""
    make_folder(path.parent)
    with tempfile.NamedTemporaryFile(prefix=f".{path.name}.", dir=path.parent, delete=False) as stream:
        temporary = Path(stream.name)
        try:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            temporary.chmod(0o644)
            temporary.replace(path)
            sync_folder(path.parent)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def take_lock(descriptor: int) -> bool:
    """Take the lock of an open file, which ends with the process; False while another one has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, so that a crash of the machine leaves them."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the entries of a folder are on the disk; some file systems cannot say so."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_temporary(folder: Path) -> None:
    """Remove what `write_atomically` left below an experiment's folder because its process was killed."""
    for path in folder.rglob(".*.json.????????"):
        path.unlink(missing_ok=True)


def cannot_write(path: Path, error: OSError) -> StoreError:
    return StoreError(
        file=str(path),
        found=f"cannot be written: {error.strerror or error}",
        todo=f"Check permissions and free space of {path.parent}.",
    )


FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def require_name(name: str | None, option: str = "--name") -> None:
    """Raise UsageError for a name that cannot be a folder in results/, and an owner's in any engine."""
    if name is not None and not FOLDER_NAME.fullmatch(name):
        raise UsageError(
            key=option, found=f"{name!r} is not a valid folder name", todo="Use only letters, digits, '.', '-' and '_'."
        )


def new_folder(results: Path, name: str | None, day: str) -> Path:
    """Make and return the folder of a new experiment with this name (default: the next one of the day)."""
    require_name(name)
    if name is None:
        return new_experiment(results, day)
    folder = results / name
    try:
        # One that is empty is of an experiment that was killed before it had anything.
        if folder.is_dir() and any(folder.iterdir()):
            raise StoreError(file=str(folder), found="the folder exists already", todo="Choose another --name.")
        make_folder(folder)
    except OSError as error:
        raise cannot_write(folder, error) from None
    return folder


def new_experiment(results: Path, day: str) -> Path:
    """Make and return the first free folder of DAY-a, DAY-b ..."""
    try:
        make_folder(results)
        for number in range(1, 10_000):
            folder = results / f"{day}-{_letters(number)}"
            try:
                folder.mkdir()
            except FileExistsError:
                continue
            sync_folder(results)
            return folder
    except OSError as error:
        raise cannot_write(results, error) from None
    raise StoreError(file=str(results), found="10,000 experiments in one day", todo="Remove some, or use --name.")


def _letters(number: int) -> str:
    """Return a number as letters: 1 -> a, 26 -> z, 27 -> aa."""
    text = ""
    while number:
        number, letter = divmod(number - 1, 26)
        text = chr(ord("a") + letter) + text
    return text


def cell_path(experiment: Path, host: str, variant: str, mode: str | None, workload: str) -> Path:
    """Return the path of a cell's values, in pyperf's format; StoreError for one outside of the experiment's folder."""
    return below(experiment, host, label_of(variant, mode), f"{workload}.json")


def below(folder: Path, *names: str) -> Path:
    """Return the path of names below a folder; StoreError if one is no name, or a link on the way leads out of it."""
    path = folder
    for name in names:
        _require_below(folder, path, name)
        path /= name
    return path


def _require_below(folder: Path, parent: Path, name: str) -> None:
    """Raise StoreError for a name that is none of a file, or in a folder that a link has elsewhere."""
    if name in {"", ".", ".."} or "/" in name or "\0" in name:
        found, todo = f"{name!r} is no name of a file", "Read results that Interlock wrote."
    elif parent != folder and parent.is_symlink() and not parent.resolve().is_relative_to(folder.resolve()):
        found, todo = f"{parent.name} is a link that leads out of it", "Copy what it names to where the link is."
    else:
        return
    raise StoreError(file=str(folder), found=found, todo=todo)


def profile_path(cell: Path) -> Path:
    """Return the path of a cell's profile, next to its values."""
    return cell.with_suffix(".profile.json")


def write_json(path: Path, data: BaseModel) -> None:
    """Write a record as JSON."""
    write_atomically(path, data.model_dump_json(indent=1) + "\n")


def read_experiment(folder: Path) -> Experiment:
    """Return what experiment.json in an experiment's folder says, with what its journal has if it was cut short."""
    path = folder / EXPERIMENT_FILE
    if (folder / JOURNAL_FILE).is_file():
        from interlock.results import journal  # noqa: PLC0415  it imports this module, and hardly any experiment has one

        journal.recover(folder)
    if not path.is_file():
        raise StoreError(
            file=str(path), found="there is no such file", todo=f"Name a folder with an {EXPERIMENT_FILE}."
        )
    found = read_json(path, Experiment)
    try:
        found.require_whole()
    except ValueError as error:
        raise StoreError(
            file=str(path),
            found=f"is incomplete or damaged: {error}",
            todo=f"Restore it, or remove {folder}.",
        ) from None
    return found


def stale_figures(references: Path) -> dict[Path, str]:
    """Return the experiments below `references` (results/reference) whose figures.json is not of them as they are.

    The value is the SHA-256 of the experiment's record and values, which figures.json names.
    """
    sums = {path.parent: _sum_of(path.parent) for path in sorted(references.glob(f"*/{EXPERIMENT_FILE}"))}
    return {folder: found for folder, found in sums.items() if _made_of(folder / FIGURES_FILE) != found}


def _sum_of(folder: Path) -> str:
    whole = hashlib.sha256()
    for path in [folder / EXPERIMENT_FILE, *sorted(folder.glob("*/*/*.json"))]:
        if not path.name.endswith(".profile.json"):
            whole.update(f"{path.relative_to(folder)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return whole.hexdigest()


def _made_of(path: Path) -> str:
    """Return what a figures.json says that it was made of; empty if it is missing or says nothing."""
    try:
        return str(untrusted.parse_json(path.read_bytes())["made_of"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def readable_experiments(folders: Iterable[Path]) -> list[Experiment]:
    """Return the experiments of those folders that can be read: one that is damaged says nothing, and stops nobody."""
    found = []
    for folder in folders:
        with suppress(StoreError):
            found.append(read_experiment(folder))
    return found


def latest_builds(references: Path, profile: str) -> BuildRecord | None:
    """Return the latest builds.json below `references` (results/reference) of this profile; None if there is none."""
    records = [read_json(path, BuildRecord) for path in sorted(references.glob(f"*/{BUILDS_FILE}"))]
    return max((one for one in records if one.profile == profile), key=lambda one: one.started, default=None)


def read_json(path: Path, model: type[Item], *, follow: bool = True, sums: Sums = NO_SUMS) -> Item:
    """Return a record that `write_json` wrote; StoreError if it cannot be read, or is a link that is not followed."""
    try:
        data = untrusted.read_file(path, untrusted.MOST_RECORD, follow=follow)
        sums.check(path, data)
        return model.model_validate_json(untrusted.record_of(data, path))
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(
            file=str(path), found=f"cannot be read: {error}", todo=f"Restore it, or remove {path.parent}."
        ) from None
    except ValidationError as error:
        first = error.errors()[0]
        value = "" if isinstance(first["input"], dict | list) else f", not {first['input']!r:.100}"
        raise StoreError(
            file=str(path),
            key=".".join(str(part) for part in first["loc"]),
            found=f"{first['msg']}{value}",
            todo="Read it with the version of Interlock that wrote it, or measure again.",
        ) from None


def read_values(
    path: Path, reported: Mapping[str, Collection[str]] = NOTHING, sums: Sums = NO_SUMS
) -> dict[str, BenchmarkValues]:
    """Return the benchmarks of a cell's file by name (without the workload's); empty if the cell has no file.

    `reported` names further figures to read of each benchmark's processes. StoreError if it cannot be read, or does not
    have its sum.
    """
    try:
        data = untrusted.read_file(path, follow=False)
        sums.check(path, data)
        return parse_pyperf(data, reported)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise StoreError(
            file=str(path),
            found=f"not a pyperf file of this tool ({_in_words(error)})",
            todo="Restore it, or remove it: all other cells are read without it.",
        ) from None


def _in_words(error: Exception) -> str:
    """Return an error in one line: pydantic's has several, with an address on the web."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return f"{type(error).__name__}: {error}" if not isinstance(error, OSError) else error.strerror or str(error)


def read_profiles(path: Path, sums: Sums = NO_SUMS) -> dict[str, BenchmarkProfile]:
    """Return the profiles of a cell by benchmark; empty if it was not profiled."""
    path = profile_path(path)
    if not os.path.lexists(path):
        return {}
    return read_json(path, CellProfile, follow=False, sums=sums).benchmarks


def read_cells(folder: Path, experiment: Experiment) -> tuple[Values, Profiles]:
    """Return values and profiles of an experiment, by (VARIANT[+MODE], workload) and then by benchmark."""
    sums, paths = read_sums(folder), _cell_paths(folder, experiment)
    values = _cell_values(experiment, paths, sums)
    return values, {key: read_profiles(path, sums) for key, path in paths.items()}


def read_cell_values(folder: Path, experiment: Experiment) -> Values:
    """Return the values alone: the files of profiles are three times as large."""
    return _cell_values(experiment, _cell_paths(folder, experiment), read_sums(folder))


def _cell_values(experiment: Experiment, paths: Mapping[CellKey, Path], sums: Sums) -> Values:
    reported = {
        name: {one.name: {detail.of for detail in workload.details_of(one)} for one in workload.benchmarks}
        for name, workload in experiment.workloads.items()
    }
    return {key: read_values(path, reported[key[1]], sums) for key, path in paths.items()}


def _cell_paths(folder: Path, experiment: Experiment) -> dict[CellKey, Path]:
    host = experiment.host["folder"]
    return {
        (cell.label, cell.workload): cell_path(folder, host, cell.variant, cell.mode, cell.workload)
        for cell in [*experiment.cells, *experiment.limits]
    }


def read_durations(cache: Path, profile: str) -> dict[str, float]:
    """Return how long each variant's last build took, in seconds; estimates only, so a broken file counts as empty."""
    try:
        data = untrusted.parse_json(untrusted.read_text(cache / f"durations-{profile}.json"))
        return {str(name): float(seconds) for name, seconds in data.items()}
    except (OSError, ValueError, AttributeError, TypeError, ArithmeticError):
        return {}


def write_durations(cache: Path, profile: str, durations: Mapping[str, float]) -> None:
    """Keep how long each variant's last build took, in seconds; where nothing can be kept, no build is lost for it."""
    with suppress(StoreError):
        write_atomically(cache / f"durations-{profile}.json", json.dumps(durations, indent=1, sort_keys=True) + "\n")


def latest_experiment(results: Path) -> Path:
    """Return the folder of the experiment that was started last; StoreError if there is none."""
    folders = [path.parent for path in results.glob(f"*/{EXPERIMENT_FILE}")]
    if not folders:
        raise StoreError(file=str(results), found="no experiment is recorded here", todo="Run `interlock matrix`.")
    return max(folders, key=lambda folder: read_experiment(folder).started)


def has_several_experiments(folder: Path) -> bool:
    """Return whether this is a folder of experiments rather than one."""
    return folder.is_dir() and not (folder / EXPERIMENT_FILE).is_file() and bool(experiments_below(folder))


def experiments_below(folder: Path) -> list[Path]:
    """Return the folders of experiments at most two levels below this one; none if there are none."""
    return sorted(path.parent for pattern in ("*", "*/*") for path in folder.glob(f"{pattern}/{EXPERIMENT_FILE}"))


def experiments_in(folder: Path) -> list[Path]:
    """Return the folder if it is an experiment, or else those at most two levels below it; StoreError for none."""
    if (folder / EXPERIMENT_FILE).is_file():
        return [folder]
    found = experiments_below(folder)
    if not found:
        raise StoreError(
            file=str(folder),
            found="no experiment is recorded here" if folder.is_dir() else "there is no such folder",
            todo="Name a folder with an experiment.json, or a folder of such folders; `interlock matrix` makes one.",
        )
    return found


def remove_folder(folder: Path) -> None:
    """Remove a folder with all that is in it."""
    shutil.rmtree(folder, ignore_errors=True)


def check_sums(folder: Path) -> None:
    """Raise StoreError for the first raw file of an experiment that does not have its sum."""
    sums = read_sums(folder)
    for name in sums.known:
        path = below(folder, *name.split("/"))
        try:
            sums.check(path, untrusted.read_file(path, follow=False))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StoreError(file=str(path), found=f"cannot be read: {error}", todo="Restore it.") from None


def forget_sums(folder: Path) -> None:
    """Remove the sums of an experiment whose raw files are about to change."""
    try:
        (folder / SUMS_FILE).unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(folder / SUMS_FILE, error) from None


def write_sums(folder: Path, kept: Mapping[str, str] = NO_SUMS.known) -> None:
    """Write the sums of an experiment's raw files, if it has any; those in `kept` are known."""
    try:
        text = text_of(folder, kept)
    except OSError as error:
        raise cannot_write(folder / SUMS_FILE, error) from None
    if text:
        write_atomically(folder / SUMS_FILE, text)


def write_runs(path: Path, runs: Runs) -> None:
    """Write a cell's file, at once; none if no run has values."""
    suite = suite_of(runs)
    if suite is not None:
        text = io.StringIO()
        suite.dump(text)
        write_atomically(path, text.getvalue())


def read_runs(path: Path) -> dict[str, list[pyperf.Run]]:
    """Return the runs of a cell's file by benchmark, as they were added; empty if it has none."""
    try:
        suite = pyperf.BenchmarkSuite.loads(untrusted.as_text(untrusted.read_file(path, follow=False)))
        return {one.get_name().split(" ", 1)[1]: one.get_runs() for one in suite}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise StoreError(file=str(path), found=f"cannot be read: {error}", todo="Start a new experiment.") from None
