"""The programs of examples/services, and what `nox -s services` does with them before it needs an engine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.catalog.defaults import read_defaults
from interlock.engine.packages import dependency_files
from interlock.results import services
from interlock.results.services import ProofRun, ProofRuns, ServiceRecord
from interlock.untrusted import read_text
from tests import services as runner
from tests.analysis.test_services import make_record
from tests.services import OWN_IMAGE, SERVICES, SLOWER, copy_of, main, proof_path, write

NAMES = sorted(path.name for path in SERVICES.iterdir())


def test_there_are_ten_and_one_of_them_is_a_batch() -> None:
    assert len(NAMES) >= 10
    batches = [name for name in NAMES if read_defaults(SERVICES / name / "interlock.toml").trial.load is None]
    assert len(batches) == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_service_has_an_address_a_load_and_exact_versions(name: str) -> None:
    folder = SERVICES / name
    defaults = read_defaults(folder / "interlock.toml")
    trial = defaults.trial
    assert (trial.http and trial.load and "{url}" in trial.load) or trial.cmd
    assert defaults.variants == ["cpython-3.14", "cpython-3.14t"]
    requirement = folder / "requirements.txt"
    lines = dependency_files.read([str(requirement)], read_text, Path.exists).here().lines
    assert lines
    assert all("==" in line.text for line in lines)
    asked = (folder / "requirements.in").read_text().split()
    assert {word.partition("[")[0] for word in asked} <= {line.name for line in lines}
    title, _, paragraph = (folder / "README.md").read_text().partition("\n\n")
    assert title.startswith(f"# {name}: ")
    assert paragraph.strip()


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_is_on_the_image_that_all_are_compared_with(name: str) -> None:
    with copy_of(name, "localhost/some/python:3.13") as copy:
        text = (copy / "Dockerfile").read_text()
    assert "FROM localhost/some/python:3.13" in text
    assert OWN_IMAGE not in text


def test_the_loop_of_a_slowed_image_takes_its_share_of_all_cpu_time(tmp_path: Path) -> None:
    """Half as much again, so that a busy machine cannot hide it; in a child that was forked too."""
    (tmp_path / "slower.py").write_text(SLOWER.format(share=0.5))
    program = """
import os, signal, time
import slower
def share():
    took, begun = [], time.process_time()
    def timed(number, frame):
        before = time.process_time()
        slower.catch_up(number, frame)
        took.append(time.process_time() - before)
    signal.signal(signal.SIGPROF, timed)
    while time.process_time() - begun < 0.6:
        pass
    return sum(took) / (time.process_time() - begun - sum(took))
if os.fork() == 0:
    print(share(), flush=True)
    os._exit(0)
os.wait()
print(share())
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    shares = [float(line) for line in done.stdout.split()]
    assert len(shares) == 2
    assert all(0.4 < share < 0.6 for share in shares)


def test_a_service_that_is_recorded_is_left_out_unless_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []
    monkeypatch.setattr(runner, "ROOT", tmp_path)

    def record(name: str, *_: object) -> ServiceRecord:
        tried.append(name)
        return make_record(name=name)

    monkeypatch.setattr(runner, "record", record)
    write(tmp_path / services.FOLDER / f"{NAMES[0]}.json", make_record(name=NAMES[0]))
    main([])
    assert tried == NAMES[1:]
    assert [record.name for record in services.read_services(tmp_path)] == NAMES
    tried.clear()
    main([])
    assert tried == []
    main([NAMES[2]])
    assert tried == [NAMES[2]]


def test_equals_are_tried_twice_and_go_on_where_they_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def proved(name: str, *_: object) -> ProofRun:
        return ProofRun(service=name, machine="2 cores", ratio=None, verdict="same", different=[], minutes=1)

    monkeypatch.setattr(runner, "ROOT", tmp_path)
    monkeypatch.setattr(runner, "proved", proved)
    write(proof_path(tmp_path, 0), ProofRuns(slower=0, runs=[proved(NAMES[0])]))
    main(["--equals"])
    (proof,) = services.read_proofs(tmp_path)
    assert sorted(run.service for run in proof.runs) == sorted(NAMES * 2)
    main(["--slower", "10"])
    assert [proof.slower for proof in services.read_proofs(tmp_path)] == [0, 10]


def test_a_wrong_name_is_an_error_that_names_all(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["no-such-service"])
    said = capsys.readouterr().err
    assert all(name in said for name in NAMES)
