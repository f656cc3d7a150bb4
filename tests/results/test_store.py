"""Files are written whole or not at all, and read back as they were."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog.variants import Gil
from interlock.catalog.workloads import Repetition
from interlock.errors import StoreError, UsageError
from interlock.measure import pyperf_runs
from interlock.results import store
from interlock.results.experiments import EXPERIMENT_FILE, BuildRecord, Estimator, Outcome, ProgramOutput, State
from interlock.results.files import remove_folder, write_atomically
from interlock.results.profiles import CellProfile
from tests.builders import (
    make_benchmark,
    make_built,
    make_cell,
    make_cost,
    make_experiment,
    make_profile,
    make_workload,
)
from tests.results.writer import can_mount

SPENT = {"mem_max_rss": 1, "interlock_process_user_s": 1.0, "interlock_process_sys_s": 0.5, "interlock_block": 1}
RUN = {"metadata": SPENT, "values": [1.0]}
SHARED = {"name": "locks pass", "loops": 1, "inner_loops": 1, "unit": "second", "interlock_estimator": "mean"}


def suite_text(**changes: Any) -> str:
    """A cell's file with one run, in which some keys are as given."""
    run = {**RUN, "metadata": {**SPENT, **changes.pop("metadata", {})}, **changes}
    return json.dumps({"version": "1.0", "metadata": SHARED, "benchmarks": [{"runs": [run]}]})


@pytest.mark.parametrize(
    "changes",
    [
        *({"values": [one]} for one in (float("inf"), float("nan"), 0.0, -1.0, True, "1", None, 1e300)),
        {"metadata": {"interlock_process_user_s": float("inf")}},
        {"metadata": {"interlock_process_user_s": True}},
        {"metadata": {"mem_max_rss": -1}},
        {"metadata": {"loops": 0}},
        {"metadata": {"loops": 1.5, "inner_loops": 10**399}},
        {"metadata": {"loops": "x", "inner_loops": 10**15}},
        {"metadata": {"interlock_block": True}},
    ],
    ids=lambda changes: str(changes)[:60],
)
def test_a_file_with_a_number_that_is_no_measurement_is_an_error_that_names_it(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "locks.json"
    path.write_text(suite_text())
    assert store.read_values(path)["pass"].processes == [[1.0]]
    path.write_text(suite_text(**changes))
    with pytest.raises(StoreError, match=r"locks\.json") as caught:
        store.read_values(path)
    assert "\n" not in str(caught.value)


FULL_DISK = """
import json, pathlib, subprocess, sys
from interlock.results.files import write_atomically
from interlock.errors import StoreError, UsageError

folder = pathlib.Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", folder], check=True)
write_atomically(folder / "data.json", "old")
try:
    write_atomically(folder / "data.json", "x" * 100_000)
    error = ""
except StoreError as refused:
    error = str(refused)
names = sorted(path.name for path in folder.iterdir())
print(json.dumps([error, (folder / "data.json").read_text(), names]))
"""


@pytest.mark.skipif(not can_mount(), reason="this machine lets nobody mount in a name space of their own")
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    command = ["unshare", "-rm", sys.executable, "-c", FULL_DISK, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    error, content, names = json.loads(done.stdout)
    assert error.startswith(f"{tmp_path}/data.json: ")
    assert "No space left on device" in error
    assert content == "old"
    assert names == ["data.json"]


def test_writing_makes_the_folders_and_a_file_that_all_may_read(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file.txt"
    write_atomically(path, "text\n")
    assert path.read_text(encoding="utf-8") == "text\n"
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(path.parent.iterdir()) == [path]


def test_writing_below_a_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(StoreError, match=r"Not a directory|File exists"):
        write_atomically(tmp_path / "file" / "below", "text")


def test_experiments_of_one_day_are_named_a_to_z_and_then_aa(tmp_path: Path) -> None:
    names = [store.new_experiment(tmp_path, "2026-11-21").name for _ in range(28)]
    assert names[:2] == ["2026-11-21-a", "2026-11-21-b"]
    assert names[25:] == ["2026-11-21-z", "2026-11-21-aa", "2026-11-21-ab"]
    assert store.new_experiment(tmp_path, "2026-11-22").name == "2026-11-22-a"
    # A free letter is taken again.
    remove_folder(tmp_path / "2026-11-21-c")
    assert store.new_experiment(tmp_path, "2026-11-21").name == "2026-11-21-c"


def test_experiments_in_a_place_that_is_a_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("", encoding="utf-8")
    with pytest.raises(StoreError, match="File exists"):
        store.new_experiment(tmp_path / "results", "d")


def test_an_experiment_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    experiment = make_experiment()
    store.write_json(tmp_path / "experiment.json", experiment)
    assert store.read_experiment(tmp_path) == experiment


@pytest.mark.parametrize(
    ("text", "key"), [(None, ""), ('{"schema_version": 1}', "schema_version"), ("{", ""), ("[]", "")]
)
def test_an_experiment_that_is_missing_or_spoilt_is_named_with_its_key(
    tmp_path: Path, text: str | None, key: str
) -> None:
    if text is not None:
        (tmp_path / "experiment.json").write_text(text, encoding="utf-8")
    with pytest.raises(StoreError) as caught:
        store.read_experiment(tmp_path)
    assert (caught.value.file, caught.value.key) == (f"{tmp_path}/experiment.json", key)
    assert caught.value.todo


def test_a_record_of_an_older_format_is_told_what_it_says_and_what_is_read(tmp_path: Path) -> None:
    text = make_experiment().model_dump_json().replace('"schema_version":3', '"schema_version":2')
    (tmp_path / "experiment.json").write_text(text, encoding="utf-8")
    with pytest.raises(StoreError) as caught:
        store.read_experiment(tmp_path)
    assert caught.value.key == "schema_version"
    assert re.findall(r"\d+", caught.value.found) == ["3", "2"]


def measured_runs(factor: float = 1.0, *, gil: bool | None = None) -> dict[str, list[Any]]:
    """The runs of three processes of a program and one row of a command."""
    workload, program = make_workload(), make_benchmark("uncontended")
    metadata: dict[str, Any] = {} if gil is None else {"gil_enabled": gil}
    calibration = ProgramOutput(interlock=1, loops=2, inner_loops=10, calibration=[(1, 0.05), (2, 0.1)])
    runs = [pyperf_runs.program_run(workload, program, calibration, make_cost())]
    for number in range(3):
        raw = [factor * (0.1 + 0.001 * number), factor * 0.102]
        output = ProgramOutput(interlock=1, loops=2, inner_loops=10, warmups=[0.2], values=raw, metadata=metadata)
        run = pyperf_runs.program_run(workload, program, output, make_cost(max_rss_bytes=9_000_000 + number))
        runs.append(pyperf_runs.in_block(run, number, Estimator.MEAN))
    command = make_benchmark("pass", command=["-c", "pass"])
    costs = [make_cost(0.03), make_cost(factor * 0.02), make_cost(factor * 0.021)]
    starts = pyperf_runs.command_run(workload, command, costs, Repetition(warmups=1, values=2))
    return {"uncontended": runs, "pass": [pyperf_runs.in_block(starts, 0, Estimator.MEAN)]}


def written(path: Path, factor: float = 1.0, *, gil: bool | None = None) -> Path:
    store.write_runs(path, measured_runs(factor, gil=gil))
    return path


def test_values_come_back_from_a_pyperf_file_by_benchmark_and_process(tmp_path: Path) -> None:
    values = store.read_values(written(tmp_path / "locks.json", gil=False))
    assert values.keys() == {"uncontended", "pass"}
    assert values["uncontended"].processes == [
        pytest.approx([0.005, 0.0051]),
        pytest.approx([0.00505, 0.0051]),
        pytest.approx([0.0051, 0.0051]),
    ]
    assert values["uncontended"].max_rss_bytes == 9_000_002
    assert values["uncontended"].gil_after is Gil.OFF
    assert values["pass"].processes == [[0.02, 0.021]]
    assert values["pass"].gil_after is None
    # CPU time comes with the work that it was spent on.
    program, command = values["uncontended"], values["pass"]
    assert (program.user_s, program.sys_s, program.units) == ([0.5] * 3, [0.25] * 3, [20] * 3)
    assert (command.user_s, command.sys_s, command.units) == ([0.5], [0.25], [1])


def test_what_the_processes_of_a_command_used_is_what_its_values_did(tmp_path: Path) -> None:
    """Two processes that count, each of half a second and three switches; the warm-up is left out."""
    path = written(tmp_path / "locks.json")
    asked = ["work_user_s", "work_voluntary_switches", "work_sys_s", "work_involuntary_switches"]
    assert store.read_values(path, {"pass": asked})["pass"].reported == {
        "work_user_s": [1.0],
        "work_voluntary_switches": [6],
        "work_sys_s": [0.5],
        "work_involuntary_switches": [8],
    }


def test_a_cell_without_values_has_no_file_no_values_and_no_profile(tmp_path: Path) -> None:
    store.write_runs(tmp_path / "locks.json", {})
    assert not list(tmp_path.iterdir())
    assert store.read_values(tmp_path / "locks.json") == {}
    assert store.read_runs(tmp_path / "locks.json") == {}
    assert store.read_profiles(tmp_path / "locks.json") == {}


def strange(**metadata: object) -> str:
    """A file that pyperf wrote, and Interlock did not: its benchmark has no name that Interlock gives."""
    benchmark = {"metadata": {"unit": "second", "loops": 1, **metadata}, "runs": [{"values": [1.0]}]}
    return json.dumps({"version": "1.0", "benchmarks": [benchmark]})


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "{}", '{"version": "1.0"}', '{"version": "1.0", "benchmarks": 3}'),
        *(strange(), strange(name=7), strange(name="nbody"), strange(name="")),
    ],
)
def test_a_spoilt_file_of_values_or_profiles_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "locks.json"
    for read, of_kind in (
        (store.read_values, path),
        (store.read_runs, path),
        (store.read_profiles, store.profile_path(path)),
    ):
        of_kind.write_text(text, encoding="utf-8")
        with pytest.raises(StoreError) as caught:
            read(path)
        assert caught.value.file == str(of_kind)


def test_pyperf_compares_two_of_our_files_and_prints_the_ratio(tmp_path: Path) -> None:
    one = written(tmp_path / "one.json")
    two = written(tmp_path / "two.json", 2.0)
    command = [sys.executable, "-m", "pyperf", "compare_to", str(one), str(two)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("locks ")]
    assert [line.rsplit(": ", 1)[1] for line in lines] == ["2.00x slower", "2.00x slower"]
    assert lines[0].startswith("locks uncontended: Mean +- std dev: [one] 5.07 ms")
    assert "[two] 10.1 ms" in lines[0]


def test_cells_are_read_by_label_and_workload(tmp_path: Path) -> None:
    experiment = make_experiment(["a", "b"], cells=[make_cell("a"), make_cell("b"), make_cell("a", mode="twin")])
    path = store.cell_path(tmp_path, "box", "a", "twin", "locks")
    assert path == tmp_path / "box" / "a+twin" / "locks.json"
    written(path)
    store.write_json(store.profile_path(path), CellProfile(benchmarks={"uncontended": make_profile(0.25)}))
    values, profiles = store.read_cells(tmp_path, experiment)
    assert values.keys() == profiles.keys() == {("a", "locks"), ("b", "locks"), ("a+twin", "locks")}
    assert values["a", "locks"] == {}
    assert values["a+twin", "locks"].keys() == {"uncontended", "pass"}
    assert profiles["a+twin", "locks"]["uncontended"].futex_per_unit == 0.25


def test_durations_are_read_back_and_where_they_cannot_be_kept_nothing_fails_for_them(tmp_path: Path) -> None:
    store.write_durations(tmp_path, {"b": 2.5, "a": 1})
    assert store.read_durations(tmp_path) == {"a": 1.0, "b": 2.5}
    (tmp_path / "file").touch()
    store.write_durations(tmp_path / "file/cache", {"a": 1})
    assert store.read_durations(tmp_path / "file/cache") == {}


@pytest.mark.parametrize(
    "spoilt",
    [b"", b"{", b"[1]", b'{"a": "soon"}', b'{"a": null}', b"\xff\xfe", b'{"a": 1%s}' % (b"0" * 400), b"[" * 20_000],
)
def test_a_spoilt_file_of_durations_is_an_empty_one(tmp_path: Path, spoilt: bytes) -> None:
    (tmp_path / "durations.json").write_bytes(spoilt)
    assert store.read_durations(tmp_path) == {}


def test_the_latest_experiment_is_the_one_that_was_started_last_and_has_a_figure(tmp_path: Path) -> None:
    (tmp_path / "unfinished").mkdir()
    without = make_cell("a", outcome=Outcome(state=State.NOT_MEASURED, reason="Ctrl-C came first"))
    # One without any figure is the latest only where there is no other.
    for name, day, cell, latest in (
        ("empty", 23, without, "empty"),
        ("old", 21, make_cell("a"), "old"),
        ("new", 22, make_cell("a"), "new"),
        ("older", 20, make_cell("a"), "new"),
    ):
        experiment = make_experiment(["a"], cells=[cell], started=f"2026-11-{day}T06:00:00+00:00")
        store.write_json(tmp_path / name / EXPERIMENT_FILE, experiment)
        assert store.latest_experiment(tmp_path) == tmp_path / latest


def test_a_folder_without_experiments_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="`interlock matrix`") as caught:
        store.latest_experiment(tmp_path)
    assert caught.value.file == str(tmp_path)


def test_experiments_are_found_one_or_two_folders_down_by_name(tmp_path: Path) -> None:
    for name in ("b", "fleet/host-1", "fleet/host-2", "a"):
        store.write_json(tmp_path / name / "experiment.json", make_experiment())
    names = [str(path.relative_to(tmp_path)) for path in store.experiments_in(tmp_path)]
    assert names == ["a", "b", "fleet/host-1", "fleet/host-2"]
    assert store.experiments_in(tmp_path / "b") == [tmp_path / "b"]
    assert [store.has_several_experiments(tmp_path / name) for name in ("", "fleet", "b", "missing")] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("name", ["empty", "missing"])
def test_a_folder_without_any_experiment_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreError) as caught:
        store.experiments_in(tmp_path / name)
    assert caught.value.file == str(tmp_path / name)
    assert "experiment.json" in caught.value.todo


def test_values_alone_are_read_without_looking_at_the_profiles(tmp_path: Path) -> None:
    experiment = make_experiment(["a"], cells=[make_cell("a")])
    path = store.cell_path(tmp_path, "box", "a", None, "locks")
    written(path)
    store.profile_path(path).write_text("{", encoding="utf-8")
    assert store.read_cell_values(tmp_path, experiment)["a", "locks"].keys() == {"uncontended", "pass"}


def make_builds(name: str, started: str) -> BuildRecord:
    return BuildRecord(
        name=name,
        tool_version="0.1.0",
        command="interlock build --record",
        started=started,
        duration_s=1.0,
        side_by_side=2,
        host={},
        builds=[make_built("cpython-3.13")],
    )


def test_the_latest_builds_are_those_that_were_started_last(tmp_path: Path) -> None:
    days = {"a": "2026-11-20", "b": "2026-11-22", "c": "2026-11-21"}
    records = {name: make_builds(name, f"{day}T06:00:00+00:00") for name, day in days.items()}
    for name, record in records.items():
        store.write_json(tmp_path / name / store.BUILDS_FILE, record)
    assert store.latest_builds(tmp_path) == records["b"]
    assert store.latest_builds(tmp_path / "missing") is None


def test_a_variant_is_measured_once_one_of_its_cells_has_figures(tmp_path: Path) -> None:
    cells = [
        make_cell("ran"),
        make_cell("absent", outcome=Outcome(state=State.UNAVAILABLE, reason="nobody has it")),
        make_cell("fell", outcome=Outcome(state=State.FAILED, reason="it fell")),
    ]
    store.write_json(tmp_path / "2026-11-21-a" / EXPERIMENT_FILE, make_experiment(["ran"], cells=cells))
    assert store.measured_variants(tmp_path) == {"ran"}
    assert store.measured_variants(tmp_path / "missing") == set()


def test_an_experiment_that_is_named_has_a_folder_of_that_name_and_is_there_once(tmp_path: Path) -> None:
    assert store.new_folder(tmp_path / "results", "tuesday", "2026-11-21") == tmp_path / "results/tuesday"
    # What was killed before it had anything has left an empty one.
    assert store.new_folder(tmp_path / "results", "tuesday", "2026-11-21") == tmp_path / "results/tuesday"
    (tmp_path / "results/tuesday/experiment.json").touch()
    with pytest.raises(StoreError) as caught:
        store.new_folder(tmp_path / "results", "tuesday", "2026-11-21")
    assert caught.value.file == str(tmp_path / "results/tuesday")
    assert store.new_folder(tmp_path, None, "2026-11-21").name == "2026-11-21-a"


@pytest.mark.parametrize(
    "name", ["../../x", "/tmp/x", "é", "", ".", "..", "a/b", "a\n", "-x", "a b", "x" * 300, "\udcff"]
)
def test_a_name_that_leaves_the_results_or_is_no_owners_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        store.new_folder(tmp_path / "results", name, "2026-11-21")
    assert refused.value.key == "--name"
    assert not list(tmp_path.iterdir())


def test_a_damaged_experiment_stops_nobody_who_wants_those_that_can_be_read(tmp_path: Path) -> None:
    whole = make_experiment().model_dump_json()
    for name, text in (("a", whole), ("b", "{"), ("c", whole)):
        (tmp_path / name).mkdir()
        (tmp_path / name / EXPERIMENT_FILE).write_text(text)
    assert len(store.readable_experiments(store.experiments_below(tmp_path))) == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"started": "soon"},
        {"host": {"folder": "box"}},
        {"host": make_experiment().host | {"memory_bytes": "8 GiB"}},
        {"host": make_experiment().host | {"engine": {"name": "none", "version": "", "storage_driver": ""}}},
        {"workloads": {}},
        {"cells": [make_cell("cpython-3.13", "another")]},
    ],
)
def test_a_record_that_no_reader_can_use_is_refused_where_it_is_read(tmp_path: Path, changes: dict[str, Any]) -> None:
    store.write_json(tmp_path / EXPERIMENT_FILE, make_experiment(**changes))
    with pytest.raises(StoreError, match=r"experiment\.json"):
        store.read_experiment(tmp_path)


def test_a_file_of_the_current_folder_that_cannot_be_written_has_its_folder_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said 'free space of ..', which is the folder '.' and a full stop."""
    monkeypatch.chdir(tmp_path)
    Path("page.html").mkdir()
    with pytest.raises(StoreError) as caught:
        write_atomically(Path("page.html"), "")
    assert caught.value.todo == f"Check permissions and free space of {tmp_path}."
