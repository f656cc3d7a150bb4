"""Makes, finds, writes and reads experiments' folders, with values as pyperf's files, and recovers journals."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from interlock import untrusted
from interlock.catalog.types import first_refusal, label_of, split_label
from interlock.errors import LazyModule, StoreError, UsageError
from interlock.results import files
from interlock.results.experiments import (
    EXPERIMENT_FILE,
    BenchmarkValues,
    BuildRecord,
    CellKey,
    Experiment,
    Outcome,
    Profiles,
    State,
    Values,
)
from interlock.results.journal import JOURNAL_FILE, JournalEntry, JournalHeader, with_entries
from interlock.results.profiles import BenchmarkProfile, CellProfile
from interlock.results.runs import OF_EVERY_WORK, added, parse_pyperf, suite_of
from interlock.results.sums import NO_SUMS, Sums, forget_sums, read_sums

if TYPE_CHECKING:
    import pyperf

    from interlock.results.runs import Runs
else:
    pyperf = LazyModule("pyperf", "measure")

Item = TypeVar("Item", bound=BaseModel)
BUILDS_FILE = "builds.json"
FIGURES_FILE = "figures.json"
# How long each variant's last build took, below the cache.
DURATIONS = "durations.json"
# The longest journal of the reference experiments had less than 5 MiB.
MOST_JOURNAL = 128 * untrusted.MIB
NOTHING: Mapping[str, Collection[str]] = {}
FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def require_name(name: str | None, option: str = "--name") -> None:
    """Raise UsageError unless the name can be a folder's in results/ and an owner's in every engine."""
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
        require_free(folder)
        files.make_folder(folder)
    except OSError as error:
        raise files.cannot_write(folder, error) from None
    return folder


def require_free(folder: Path) -> None:
    """Raise StoreError for a folder with more than a journal, which an experiment that was killed early leaves."""
    if folder.is_dir() and any(path.name != JOURNAL_FILE for path in folder.iterdir()):
        raise StoreError(file=str(folder), found="the folder exists already", todo="Choose another --name.")


def new_experiment(results: Path, day: str) -> Path:
    """Make and return the first free folder of DAY-a, DAY-b ..."""
    try:
        files.make_folder(results)
        for letters in (letters for length in (1, 2, 3) for letters in product(ascii_lowercase, repeat=length)):
            folder = results / f"{day}-{''.join(letters)}"
            try:
                folder.mkdir()
            except FileExistsError:
                continue
            files.sync_folder(results)
            return folder
    except OSError as error:
        raise files.cannot_write(results, error) from None
    raise StoreError(file=str(results), found="18,278 experiments in one day", todo="Remove some, or use --name.")


def cell_path(experiment: Path, host: str, variant: str, mode: str | None, workload: str) -> Path:
    """Return the path of a cell's values, in pyperf's format; StoreError for one outside of the experiment's folder."""
    return files.below(experiment, host, label_of(variant, mode), f"{workload}.json")


def profile_path(cell: Path) -> Path:
    """Return the path of a cell's profile, next to its values."""
    return cell.with_suffix(".profile.json")


def write_json(path: Path, data: BaseModel) -> None:
    """Write a record as JSON."""
    files.write_atomically(path, data.model_dump_json(indent=1) + "\n")


def write_profiles(cell: Path, profiles: CellProfile) -> None:
    """Write a cell's profiles next to its values, on one line: spaces would be a third of a reference's size."""
    files.write_atomically(profile_path(cell), profiles.model_dump_json() + "\n")


def read_experiment(folder: Path) -> Experiment:
    """Return what experiment.json in a folder says; if the experiment was cut short, with what its journal has.

    If this user may not write there, as in another user's folder, the interrupted workload is left out.
    """
    path, journal = folder / EXPERIMENT_FILE, folder / JOURNAL_FILE
    if journal.is_file() and all(os.access(place, os.W_OK) for place in (folder, journal)):
        recover(folder)
    if not path.is_file():
        raise StoreError(
            file=str(path), found="there is no such file", todo=f"Name a folder with an {EXPERIMENT_FILE}."
        )
    experiment = read_json(path, Experiment)
    try:
        experiment.require_whole()
    except ValueError as error:
        problem = f"is incomplete or damaged: {error}"
        raise StoreError(file=str(path), found=problem, todo=f"Restore it, or remove {folder}.") from None
    return experiment


def recover(folder: Path, ended_by: str = "") -> bool:
    """Write the journal into cells' files and experiment.json (with `ended_by`, if it is known), and remove it.

    A recovery that was itself cut can be repeated: nothing is added twice. Return False, and do nothing, while the
    experiment is measured.
    """
    path = folder / JOURNAL_FILE
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    except OSError as error:
        raise files.cannot_write(path, error) from None
    try:
        if not files.take_lock(descriptor):
            return False
        _recover(folder, _lines(folder, descriptor), ended_by)
        files.remove_temporary(folder)
        path.unlink(missing_ok=True)
        files.sync_folder(folder)
    finally:
        os.close(descriptor)
    return True


def _lines(folder: Path, descriptor: int) -> list[bytes]:
    """Return the lines of an open journal; StoreError for one that is too long, which is not read."""
    if os.fstat(descriptor).st_size > MOST_JOURNAL:
        raise _no_journal(folder, f"has more than {MOST_JOURNAL // untrusted.MIB} MiB")
    with os.fdopen(os.dup(descriptor), "rb") as stream:
        return stream.read(MOST_JOURNAL).split(b"\n")


def _recover(folder: Path, lines: Sequence[bytes], ended_by: str) -> None:
    if not (folder / EXPERIMENT_FILE).is_file():
        return
    before = now = read_json(folder / EXPERIMENT_FILE, Experiment)
    begun = _parsed(lines[0], JournalHeader)
    # What follows the last line break is empty, or a line that was cut: then its block was not complete.
    entries = [entry for line in lines[1:-1] if (entry := _parsed(line, JournalEntry)) is not None]
    if begun is not None and entries and begun.experiment == untrusted.sha256_of(folder / EXPERIMENT_FILE):
        _check_workloads(folder, now, begun, entries)
        try:
            _write_cells(folder, now.host["folder"], begun.workload.name, entries)
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:  # pyperf's, of a run
            raise _no_journal(folder, f"has a line that is not a run ({error})") from None
        now = with_entries(now, begun, entries)
    if ended_by:
        now = now.model_copy(update={"ended_by": ended_by})
    if now != before:
        write_json(folder / EXPERIMENT_FILE, now)


def _check_workloads(folder: Path, before: Experiment, begun: JournalHeader, entries: Sequence[JournalEntry]) -> None:
    """Raise StoreError, before anything is written, if cells are of another workload than the journal."""
    name = begun.workload.name
    named = {name, *(cell.workload for entry in entries for cell in (*entry.cells, *entry.limits))}
    strange = named - {name} or named - {*before.settings.workloads}
    if strange:
        raise _no_journal(folder, f"has a cell of {min(strange)!r}, which is not the workload that it is of")


def _no_journal(folder: Path, problem: str) -> StoreError:
    todo = "Remove it: the experiment is then read without the workload that was interrupted."
    return StoreError(file=str(folder / JOURNAL_FILE), found=problem, todo=todo)


def _parsed(line: bytes, model: type[Item]) -> Item | None:
    try:
        return model.model_validate_json(line)
    except ValidationError:
        return None


def _write_cells(folder: Path, host: str, workload: str, entries: Sequence[JournalEntry]) -> None:
    """Add the values and profiles of the entries to those in the cells' files."""
    forget_sums(folder)
    for label in dict.fromkeys(label for entry in entries for label in (*entry.runs, *entry.profiles)):
        path = cell_path(folder, host, *split_label(label), workload)
        runs: dict[str, list[pyperf.Run]] = {}
        profiles: dict[str, BenchmarkProfile] = {}
        for entry in entries:
            profiles |= entry.profiles.get(label, {})
            for name, more in entry.runs.get(label, {}).items():
                runs.setdefault(name, []).extend(data.run for data in more)
        if runs:
            write_runs(path, added(read_runs(path), runs))
        if profiles:
            both = CellProfile(benchmarks=read_profiles(path) | profiles)
            write_profiles(path, both)


def stale_figures(references: Path) -> dict[Path, str]:
    """Return the experiments below `references` (results/reference) whose figures.json is out of date.

    The value is the SHA-256 of the experiment's record and values, which figures.json names.
    """
    sums = {path.parent: _sum_of(path.parent) for path in sorted(references.glob(f"*/{EXPERIMENT_FILE}"))}
    return {folder: whole for folder, whole in sums.items() if _made_of(folder / FIGURES_FILE) != whole}


def _sum_of(folder: Path) -> str:
    whole = hashlib.sha256()
    for path in [folder / EXPERIMENT_FILE, *sorted(folder.glob("*/*/*.json"))]:
        if not path.name.endswith(".profile.json"):
            whole.update(f"{path.relative_to(folder)} {untrusted.sha256_of(path)}\n".encode())
    return whole.hexdigest()


def _made_of(path: Path) -> str:
    """Return the sum of what a figures.json was made from, as it says; empty if it is missing or says nothing."""
    try:
        return str(untrusted.parse_json(untrusted.read_bytes(path))["made_of"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def readable_experiments(folders: Iterable[Path]) -> list[Experiment]:
    """Return the experiments of those folders that can be read; a damaged one is skipped and stops nobody."""
    experiments = []
    for folder in folders:
        with suppress(StoreError):
            experiments.append(read_experiment(folder))
    return experiments


class _Cell(BaseModel):
    """What of a cell says whether its variant ran; the rest of an experiment takes six times as long to read."""

    variant: str
    outcome: Outcome


class _Cells(BaseModel):
    cells: list[_Cell]


def measured_variants(references: Path) -> set[str]:
    """Return the variants that an experiment below `references` (results/reference) has figures of."""
    experiments = [read_json(folder / EXPERIMENT_FILE, _Cells) for folder in experiments_below(references)]
    return {cell.variant for experiment in experiments for cell in experiment.cells if cell.outcome.state is State.OK}


def latest_builds(references: Path) -> BuildRecord | None:
    """Return the latest builds.json below `references` (results/reference); None if there is none."""
    records = [read_json(path, BuildRecord) for path in sorted(references.glob(f"*/{BUILDS_FILE}"))]
    return max(records, key=lambda record: record.started, default=None)


def read_json(path: Path, model: type[Item], *, follow: bool = True, sums: Sums = NO_SUMS) -> Item:
    """Return a record that `write_json` wrote; StoreError if it cannot be read, or is a link that is not followed."""
    try:
        data = untrusted.read_bytes(path, untrusted.MOST_RECORD, follow=follow)
        sums.check(path, data)
        return model.model_validate_json(untrusted.record_of(data, path))
    except (OSError, UnicodeDecodeError) as error:
        raise files.cannot_read(path, error) from None
    except ValidationError as error:
        key, message, value = first_refusal(error)
        raise StoreError(
            file=str(path),
            key=key,
            found=f"{message}{'' if isinstance(value, dict | list) else f', not {value!r:.100}'}",
            todo="Read it with the version of Interlock that wrote it, or measure again.",
        ) from None


def read_values(
    path: Path, reported: Mapping[str, Collection[str]] = NOTHING, sums: Sums = NO_SUMS
) -> dict[str, BenchmarkValues]:
    """Return the benchmarks of a cell's file by name (without the workload's); empty if the cell has no file.

    `reported` names further figures to read of each benchmark's processes. StoreError if the file cannot be read, or
    has another sum than recorded.
    """
    try:
        data = untrusted.read_bytes(path, follow=False)
        sums.check(path, data)
        return parse_pyperf(data, reported)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise StoreError(
            file=str(path),
            found=f"not a pyperf file of this tool ({_in_words(error)})",
            todo="Restore it, or remove it: all other cells are read without it.",
        ) from None


def _in_words(error: Exception) -> str:
    """Return an error in one line; pydantic's have several, with a web address."""
    if isinstance(error, ValidationError):
        return "{}: {}".format(*first_refusal(error))
    return f"{type(error).__name__}: {error}" if not isinstance(error, OSError) else error.strerror or str(error)


def read_profiles(path: Path, sums: Sums = NO_SUMS) -> dict[str, BenchmarkProfile]:
    """Return the profiles of a cell by benchmark; empty if it was not profiled."""
    path = profile_path(path)
    if not os.path.lexists(path):
        return {}
    return read_json(path, CellProfile, follow=False, sums=sums).benchmarks


def read_cells(folder: Path, experiment: Experiment) -> tuple[Values, Profiles]:
    """Return values and profiles of an experiment, by (VARIANT[+MODE], workload) and then by benchmark."""
    values, sums = read_cell_values(folder, experiment), read_sums(folder)
    return values, {key: read_profiles(path, sums) for key, path in _cell_paths(folder, experiment).items()}


def read_cell_values(folder: Path, experiment: Experiment, only: Collection[str] | None = None) -> Values:
    """Return only the values, of all or some workloads; reading profiles too would take files three times as large."""
    reported = {
        name: {
            benchmark.name: {OF_EVERY_WORK, *(detail.of for detail in workload.details_of(benchmark))}
            for benchmark in workload.benchmarks
        }
        for name, workload in experiment.workloads.items()
    }
    sums, paths = read_sums(folder), _cell_paths(folder, experiment)
    wanted = {key: path for key, path in paths.items() if only is None or key[1] in only}
    return {key: read_values(path, reported[key[1]], sums) for key, path in wanted.items()}


def _cell_paths(folder: Path, experiment: Experiment) -> dict[CellKey, Path]:
    host = experiment.host["folder"]
    return {
        (cell.label, cell.workload): cell_path(folder, host, cell.variant, cell.mode, cell.workload)
        for cell in [*experiment.cells, *experiment.limits]
    }


def read_durations(cache: Path) -> dict[str, float]:
    """Return how long each variant's last build took, in seconds; estimates only, so a broken file counts as empty."""
    try:
        data = untrusted.parse_json(untrusted.read_text(cache / DURATIONS))
        return {str(name): float(seconds) for name, seconds in data.items()}
    except (OSError, ValueError, AttributeError, TypeError, ArithmeticError):
        return {}


def write_durations(cache: Path, durations: Mapping[str, float]) -> None:
    """Keep how long each variant's last build took, in seconds; a failure to do so is ignored."""
    with suppress(StoreError):
        files.write_atomically(cache / DURATIONS, json.dumps(durations, indent=1, sort_keys=True) + "\n")


def latest_experiment(results: Path) -> Path:
    """Return the folder of the experiment that was started last and has a figure; StoreError if there is none.

    An experiment that ended before anything was measured counts only if there is no other.
    """
    folders = [path.parent for path in results.glob(f"*/{EXPERIMENT_FILE}")]
    if not folders:
        raise StoreError(file=str(results), found="no experiment is recorded here", todo="Run `interlock matrix`.")

    def has_figures_and_start(folder: Path) -> tuple[bool, str]:
        try:
            experiment = read_experiment(folder)
        except StoreError:  # the error is only shown if no other experiment is there
            return False, ""
        return any(cell.outcome.state is State.OK for cell in experiment.cells), experiment.started

    return max(folders, key=has_figures_and_start)


def has_several_experiments(folder: Path) -> bool:
    """Return whether this is a folder of experiments rather than one."""
    return folder.is_dir() and not (folder / EXPERIMENT_FILE).is_file() and bool(experiments_below(folder))


def experiments_below(folder: Path) -> list[Path]:
    """Return the folders of experiments at most two levels below this one; none if there are none."""
    return sorted(path.parent for pattern in ("*", "*/*") for path in folder.glob(f"{pattern}/{EXPERIMENT_FILE}"))


def experiments_in(folder: Path) -> list[Path]:
    """Return the folder if it is an experiment, else the experiments at most two levels below; StoreError for none."""
    if (folder / EXPERIMENT_FILE).is_file():
        return [folder]
    folders = experiments_below(folder)
    if not folders:
        raise StoreError(
            file=str(folder),
            found="no experiment is recorded here" if folder.is_dir() else "there is no such folder",
            todo="Name a folder with an experiment.json, or a folder of such folders; `interlock matrix` makes one.",
        )
    return folders


def write_runs(path: Path, runs: Runs) -> None:
    """Write a cell's file, whole or not at all; no file if no run has values."""
    suite = suite_of(runs)
    if suite is not None:
        text = io.StringIO()
        suite.dump(text)
        files.write_atomically(path, text.getvalue())


def read_runs(path: Path) -> dict[str, list[pyperf.Run]]:
    """Return the runs of a cell's file by benchmark, as they were added; empty if it has none."""
    try:
        suite = pyperf.BenchmarkSuite.loads(untrusted.as_text(untrusted.read_bytes(path, follow=False)))
        return {benchmark.get_name().split(" ", 1)[1]: benchmark.get_runs() for benchmark in suite}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise files.cannot_read(path, error, "Start a new experiment.") from None
