"""What doctor says of this machine, and of machines described by their facts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock import catalog, doctor
from interlock.doctor import Check, Verdict
from interlock.model import Method, Probe
from tests.builders import ROOT

FACTS: dict[str, Any] = {"cores": 4, "load_1min": 0.5, "governor": "performance", "no_turbo": "1"}
ENGINE = {"name": "docker", "version": "28.0", "cgroup_version": "2", "storage_driver": "overlay2", "data_root": "/"}


def tuning(**changes: Any) -> list[Check]:
    return list(doctor._tuning({key: value for key, value in (FACTS | changes).items() if value is not None}))


def test_a_tuned_and_quiet_machine_needs_no_mending() -> None:
    assert tuning() == [
        Check("tuning", Verdict.OK, "governor performance"),
        Check("load", Verdict.OK, "0.5 over the last minute on 4 cores"),
    ]


@pytest.mark.parametrize(
    ("changes", "found", "mend"),
    [
        ({"governor": "powersave"}, "governor powersave, turbo off or unknown", "sudo python -m pyperf system tune"),
        ({"no_turbo": "0"}, "governor performance, turbo on", "sudo python -m pyperf system tune"),
        (
            {"governor": None},
            "the frequency of the processor cannot be seen (a virtual machine): other guests may change it",
            "Trust ratios from one experiment only, or measure on real hardware.",
        ),
    ],
)
def test_a_processor_whose_frequency_may_change_is_warned_of(changes: dict[str, Any], found: str, mend: str) -> None:
    mended = "pyperf" in mend
    assert tuning(**changes)[0] == Check("tuning", Verdict.WARNING, found, mend, by_playbook=mended)


@pytest.mark.parametrize(("load", "verdict"), [(2.0, Verdict.OK), (2.1, Verdict.WARNING)])
def test_a_machine_is_busy_when_half_its_cores_are(load: float, verdict: Verdict) -> None:
    assert tuning(load_1min=load)[1].verdict is verdict


def test_this_machine_is_described_with_cores_tuning_load_and_disk(tmp_path: Path) -> None:
    checks = list(doctor._machine(tmp_path / "not" / "there"))
    assert [check.subject for check in checks] == ["cores", "tuning", "load", "disk for results"]
    assert checks[0].found[0].isdigit()
    assert "GB free at" in checks[3].found


@pytest.mark.parametrize(
    ("driver", "verdict"), [("overlay2", Verdict.OK), ("vfs", Verdict.WARNING), ("fuse-overlayfs", Verdict.WARNING)]
)
def test_a_slow_storage_driver_is_warned_of(driver: str, verdict: Verdict) -> None:
    engine, storage = doctor._engine(ENGINE | {"storage_driver": driver})
    assert engine == Check("engine", Verdict.OK, "Docker API, version 28.0, cgroup v2")
    assert (storage.verdict, storage.found) == (verdict, driver)
    assert bool(storage.mend) is (verdict is Verdict.WARNING)


@pytest.mark.parametrize(
    ("host", "count"), [("unix:///run/docker.sock", 1), ("tcp://10.0.0.1:2375", 0), ("ssh://box", 0), ("", 1)]
)
def test_the_disk_of_an_engine_elsewhere_is_not_looked_at(
    monkeypatch: pytest.MonkeyPatch, host: str, count: int
) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    assert len(list(doctor._engine_disk(ENGINE))) == count


def test_an_engine_that_does_not_answer_comes_first_and_blocks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    checks = doctor.examine(ROOT, catalog.load(ROOT).bases["trixie"], tmp_path)
    assert (checks[0].subject, checks[0].verdict) == ("engine", Verdict.PROBLEM)
    assert checks[0].found.startswith("no container engine answers")
    assert checks[0].mend.startswith("Start Docker")
    assert doctor.blocking(checks) == [checks[0]]


def test_a_warning_does_not_block() -> None:
    assert doctor.blocking([Check("a", Verdict.WARNING, "x"), Check("b", Verdict.OK, "y")]) == []


def test_the_best_probe_needs_no_mending() -> None:
    (probe, counters) = doctor.probe_checks(Probe(method=Method.BPF))
    assert (probe.verdict, probe.mend) == (Verdict.OK, "")
    assert probe.found.startswith("BPF: ")
    assert counters == Check("counters", Verdict.OK, "instructions in user mode can be counted")


def test_a_lesser_probe_says_why_each_better_one_is_not_had() -> None:
    refused = {Method.BPF: "the kernel refuses the BPF program", Method.TRACEPOINTS: "no trace events"}
    (probe, counters) = doctor.probe_checks(
        Probe(method=Method.STRACE_FUTEX, refused=refused, no_instructions="this machine shows no hardware counters")
    )
    assert probe.verdict is counters.verdict is Verdict.WARNING
    assert "not bpf: the kernel refuses the BPF program; not tracepoints: no trace events" in probe.found
    assert counters.found == "this machine shows no hardware counters"
