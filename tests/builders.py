"""Data for tests: the least that the models accept, with what a test is about as arguments."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, TypeVar

from interlock.catalog.claims import Claim
from interlock.catalog.published import Published
from interlock.catalog.sources import Download, Release
from interlock.catalog.variants import (
    Gil,
    Proof,
    Source,
    ThreadFlavour,
    Variant,
)
from interlock.catalog.workloads import Benchmark, Metric, Repetition, Workload
from interlock.engine.agent import Agent
from interlock.engine.ended import Ended
from interlock.engine.protocol import (
    NOTHING,
    USUAL,
    Surroundings,
)
from interlock.measure import processes
from interlock.measure.sessions import Resources
from interlock.measure.watching import Observers
from interlock.results.experiments import (
    BaseImage,
    BenchmarkValues,
    BuildRecord,
    Built,
    CellResult,
    Estimator,
    Experiment,
    Facts,
    Outcome,
    ProcessCost,
    State,
)
from interlock.results.profiles import BenchmarkProfile, CallCounts, PhaseCounts
from interlock.results.settings import Settings

ROOT = Path(__file__).parents[1]
Entry = Callable[..., tuple[int, str, str]]  # the fixture `entry`
OK = Outcome(state=State.OK)
# The variants that the project promises.
PROMISED = [
    *("cpython-2.5", "cpython-2.5-pth"),
    *("cpython-2.7", "cpython-2.7-mutex", "cpython-2.7-nothreads", "cpython-2.7-pth", "cpython-2.7-pth-plain"),
    *("cpython-3.6", "cpython-3.7", "cpython-3.8"),
    *("cpython-3.9", "cpython-3.9-oxidized", "cpython-3.10"),
    *("cpython-3.11", "cpython-3.11-deepfrozen", "cpython-3.12"),
    *("cpython-3.13", "cpython-3.13-frame-pointers", "cpython-3.13-frozen"),
    *("cpython-3.13-frozen-static", "cpython-3.13-nothreads"),
    *("cpython-3.13-shared", "cpython-3.13-without-pymalloc", "cpython-3.13-zip", "cpython-3.13t"),
    *("cpython-3.14", "cpython-3.14-clang", "cpython-3.14-jit"),
    *("cpython-3.14-nothreads", "cpython-3.14-tailcall", "cpython-3.14t"),
    *("cpython-3.15", "cpython-3.15t"),
    *("debian-3.13", "nogil-3.9", "official-3.13"),
    *("prebuilt-3.11", "prebuilt-3.12", "prebuilt-3.13", "prebuilt-3.13t", "prebuilt-3.14", "prebuilt-3.14t"),
    *("pyenv-3.10", "pyenv-3.12", "pyenv-3.6", "pyenv-3.7", "pyenv-3.8"),
    *("pypy-3.11", "system-3.11", "system-3.12", "system-3.13"),
]
# A variant's interpreter from elsewhere than a source: `make_variant(**changes, interpreter=None)`.
FROM_IMAGE: dict[str, Any] = {"image": {"reference": f"python:x@sha256:{'1' * 64}"}, "interpreter": None}
FROM_PREFIX: dict[str, Any] = {"prefix": {"places": ["/opt/python"]}, "interpreter": None}
ARCHIVE: dict[str, Any] = {
    "file": "python-{machine}.tar.gz",
    "sha256": {"x86_64": "c" * 64, "aarch64": "d" * 64},
    "sum_from": "its publisher",
    "unsigned": "nobody signs it",
    "places": ["https://example.org/{machine}/python-{machine}.tar.gz", "http://example.net/python-{machine}"],
}
FROM_ARCHIVE: dict[str, Any] = {
    "prefix": {"places": ["/opt/{machine}/python"], "archive": ARCHIVE},
    "interpreter": None,
}
FROM_PACKAGES: dict[str, Any] = {"packages": {"names": ["python3"], "python": "/usr/bin/python3"}, "interpreter": None}
METRIC = Metric(label="ns per lock", scale=1e9)
T = TypeVar("T")
PROFILE_METRIC = Metric(label="futex/1M", scale=1e6)


def module_at(path: Path) -> ModuleType:
    """Import a file that is in no package."""
    spec = present(importlib.util.spec_from_file_location(path.stem, path))
    module = importlib.util.module_from_spec(spec)
    present(spec.loader).exec_module(module)
    return module


def present(value: T | None) -> T:
    """What a test needs to be there."""
    assert value is not None
    return value


def make_variant(name: str = "cpython-3.13", **changes: Any) -> Variant:
    data: dict[str, Any] = {
        "name": name,
        "summary": "a variant",
        "version": "3.13.1",
        "base": "trixie",
        "tag": name.removeprefix("cpython-"),
        "family": "release-lines",
        "support": {"phase": "bugfix", "end_of_life": "2029-10-31"},
        "proof": Proof(thread_flavour=ThreadFlavour.PTHREAD, gil=Gil.ON, thread_library="libc.so.6"),
        "interpreter": make_source(),
    }
    return Variant.model_validate(data | changes)


def make_source(file: str = "Python-3.13.1.tgz", **changes: Any) -> Source:
    data: dict[str, Any] = {"file": file, "sha256": "a" * 64, "places": [f"https://example.org/{file}"]}
    return Source.model_validate(data | changes)


def make_release(version: str = "3.13.0", **changes: Any) -> Release:
    source = make_source(f"Python-{version}.tgz", sum_from="a test", unsigned="a test")
    data = {name: getattr(source, name) for name in Download.model_fields}
    return Release.model_validate({**data, "version": version, **changes})


def make_library(file: str = "pth.tgz", **changes: Any) -> dict[str, Any]:
    return {"name": "pth", "source": "pth", **make_source(file, **changes).model_dump()}


def make_download(file: str = "wheel-1.0-cp39-cp39-linux_x86_64.whl", **changes: Any) -> Download:
    data: dict[str, Any] = {"file": file, "sha256": "b" * 64, "places": [f"https://example.org/{file}"]}
    return Download.model_validate(data | changes)


def make_facts(**changes: Any) -> Facts:
    data: dict[str, Any] = {
        "version": "3.13.1",
        "implementation": "cpython",
        "thread_flavour": "pthread",
        "gil": "on",
        "loaded_libraries": ["libc.so.6"],
        "thread_error": None,
        "optimisation": "-O3",
        "prefix": "/usr/local",
        "mapped_files": [],
    }
    return Facts.model_validate(data | changes)


def make_benchmark(name: str = "uncontended", **changes: Any) -> Benchmark:
    data: dict[str, Any] = {"name": name, "metric": METRIC, "profile_metric": PROFILE_METRIC}
    return Benchmark.model_validate(data | changes)


def make_workload(name: str = "locks", **changes: Any) -> Workload:
    data: dict[str, Any] = {
        "name": name,
        "summary": "a workload",
        "program": "locks.py",
        "unit": "lock",
        "deadline_s": 20,
        "quick": Repetition(warmups=1, values=2),
        "full": Repetition(warmups=1, values=3),
        "benchmarks": [make_benchmark()],
    }
    return Workload.model_validate(data | changes)


def make_values(*processes: Sequence[float], rss: int = 10_000_000, gil: Gil | None = None) -> BenchmarkValues:
    return BenchmarkValues(
        processes=[list(process) for process in processes],
        blocks=list(range(len(processes))),
        estimator=Estimator.MEAN,
        max_rss_bytes=rss,
        gil_after=gil,
    )


def make_phase(**calls: int) -> PhaseCounts:
    """A phase of calls by name that add up."""
    return PhaseCounts(
        total=sum(calls.values()), syscalls={name: CallCounts(calls=count) for name, count in calls.items()}
    )


def make_profile(futex_per_unit: float = 0.5, units: int = 1_000_000, **changes: Any) -> BenchmarkProfile:
    """What BPF counted of a program: its futex calls are in its work."""
    phases = {"startup": make_phase(execve=1, futex=1), "work": make_phase(futex=round(futex_per_unit * units))}
    data = {"method": "bpf", "units": units, "phases": phases, "counted": "work"}
    return BenchmarkProfile.model_validate(data | changes)


def make_claim(**changes: Any) -> Claim:
    """Of a ratio of a to b; without `published` it is that a takes half the time, give or take a tenth."""
    data: dict[str, Any] = {
        "name": "half",
        "statement": "a takes half the time.",
        "source": {"author": "somebody", "title": "Something", "date": "2007-10-22"},
        "workload": "locks",
        "benchmark": "uncontended",
        "metric": "time",
        "variant": "a",
        "against": "b",
        "published": 0.5,
        "tolerance": 0.1,
    }
    return Claim.model_validate(data | changes)


def make_cost(wall_s: float = 1.0, **changes: Any) -> ProcessCost:
    data: dict[str, Any] = {
        "wall_s": wall_s,
        "user_s": 0.5,
        "sys_s": 0.25,
        "max_rss_bytes": 9_000_000,
        "voluntary_switches": 3,
        "involuntary_switches": 4,
        "exit_code": 0,
        "signal": 0,
    }
    return ProcessCost.model_validate(data | changes)


def make_ended(stdout: str = "", stderr: str = "", exit_code: int | None = 0, *, timed_out: bool = False) -> Ended:
    return Ended(exit_code, stdout, stderr, timed_out)


def make_base(**changes: Any) -> BaseImage:
    data = {"reference": "trixie", "origin": "mmdebstrap", "image_id": "sha256:base", "chain_id": ""}
    return BaseImage.model_validate({**data, "size_bytes": None} | changes)


def make_built(variant: str, outcome: Outcome = OK, optimisations: list[str] | None = None) -> Built:
    if outcome.state is not State.OK:
        return Built(variant=variant, outcome=outcome)
    return Built(
        variant=variant,
        outcome=outcome,
        tag=f"localhost/interlock/python:{variant}-trixie",
        image_id=f"sha256:{variant}",
        size_bytes=150_000_000,
        base=make_base(),
        duration_s=61.0,
        optimisations=optimisations,
    )


def make_published(name: str, **changes: Any) -> Published:
    """A published image: cpython-3.14t's, unless told otherwise."""
    data = {"registry": "registry.example:5000/team", "tag": "3.14t-trixie", "digest": f"sha256:{'d' * 64}"}
    more = {"platforms": ["linux/amd64"], "version": "3.14.4", "signed": True, "date": "2026-11-28"}
    return Published.model_validate({"name": name, **data, **more, **changes})


def make_build_record(*builds: Built, **changes: Any) -> BuildRecord:
    data: dict[str, Any] = {
        "name": "2026-11-21-builds",
        "tool_version": "0.1.0",
        "command": "interlock build --force --record results/reference/2026-11-21-builds",
        "started": "2026-11-21T06:00:00+00:00",
        "duration_s": 4321.0,
        "side_by_side": 2,
        "host": make_experiment().host,
        "builds": list(builds),
    }
    return BuildRecord.model_validate(data | changes)


def make_cell(variant: str, workload: str = "locks", outcome: Outcome = OK, **changes: Any) -> CellResult:
    return CellResult.model_validate({"variant": variant, "workload": workload, "outcome": outcome} | changes)


def make_experiment(variants: Sequence[str] = ("cpython-3.13", "cpython-3.14t"), **changes: Any) -> Experiment:
    """One workload over the variants, all of it ok; the first one is the baseline and has a twin."""
    workload = make_workload()
    data: dict[str, Any] = {
        "name": "2026-11-21-a",
        "tool_version": "0.1.0",
        "command": "nox -s matrix -- --quick --seed 7",
        "started": "2026-11-21T06:00:00+00:00",
        "duration_s": 12.5,
        "settings": make_settings(variants),
        "host": {
            "folder": "box",
            "cores": 2,
            "cpu": "Example CPU 9000",
            "memory_bytes": 8 * 2**30,
            "kernel": "6.18.0",
            "system": "Debian 13",
            "engine": {"name": "docker", "version": "28.0", "storage_driver": "overlay2"},
        },
        "images": [make_built(variant) for variant in variants],
        "workloads": {workload.name: workload},
        "controls": {},
        "facts": {variant: make_facts() for variant in variants},
        "cells": [*(make_cell(variant) for variant in variants), make_cell(variants[0], mode="twin")],
        "order": {},
    }
    return Experiment.model_validate(data | changes)


def make_settings(variants: Sequence[str], **changes: Any) -> Settings:
    data = {
        "quick": True,
        "rounds": 3,
        "seed": 7,
        "baseline": variants[0],
        "variants": list(variants),
        "workloads": ["locks"],
        "profiled": True,
    }
    return Settings.model_validate(data | changes)


class ScriptedChannel:
    """An agent in a sandbox, whose processes end as the sandbox answers; one with --fed repeats its first value."""

    def __init__(self, sandbox: ScriptedSandbox) -> None:
        self._sandbox = sandbox
        self._answers = bytearray()
        self._ends: dict[str, tuple[Ended, int]] = {}

    def send(self, data: bytes) -> None:
        head, _, rest = data.partition(b"\n")
        what, number, _ = head.decode().split()
        if what == "start":
            words = [word.decode() for word in rest.split(b"\0")[:-1]]
            ended = self._sandbox.run(words[words.index("--") + 1 :], 0)
            self._ends[number] = ended, 0
            report = processes.printed_lines(ended.stdout)
            if "--fed" not in words or ended.took_sandbox or not report or not json.loads(report[-1]).get("values"):
                self._end(number)
            else:
                self._say("out", number, "ready\n")
        elif what == "tell":
            ended, given = self._ends[number]
            self._ends[number] = ended, given + 1
            value = json.loads(processes.printed_lines(ended.stdout)[-1])["values"][0]
            self._say("out", number, f"{value} {value}\n")
        elif number in self._ends:
            self._end(number)

    def receive(self, limit_s: float) -> bytes:
        if not self._answers:
            raise TimeoutError
        received = bytes(self._answers)
        self._answers.clear()
        return received

    def _say(self, what: str, number: str, text: str) -> None:
        data = text.encode()
        self._answers += f"{what} {number} {len(data)}\n".encode() + data

    def _end(self, number: str) -> None:
        ended, given = self._ends.pop(number)
        if ended.timed_out:
            return
        report = ended.stdout.partition(processes.PROCESS_LINE)[0]
        if given:
            found = json.loads(report)
            report = json.dumps(found | {"values": found["values"][:1] * given, "cpu": found["values"][:1] * given})
        usage = make_cost(1.5).model_copy(update={"exit_code": ended.exit_code})
        self._say("out", number, report)
        self._say("err", number, ended.stderr)
        self._say("end", number, json.dumps({"interlock_process": usage.model_dump()}) + "\n")


@dataclass
class ScriptedSandbox:
    """A sandbox whose processes end as `answer` says of their command line; everything else is not asked of it."""

    id: str
    answer: Callable[[ScriptedSandbox, list[str]], Ended]
    environment: Mapping[str, str] = field(default_factory=dict)  # of the process that it is asked about

    def run(self, argv: list[str], deadline_s: float, environment: Mapping[str, str] = NOTHING) -> Ended:
        self.environment = environment
        return self.answer(self, argv)

    def start_agent(self) -> Agent:
        return Agent(ScriptedChannel(self))

    def has_no_memory_left(self) -> bool:
        return False

    def close(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        """What no test asks of it, which mypy takes for the rest of the protocol."""
        raise AttributeError(name)


@dataclass
class ScriptedNetwork:
    """A network whose sandboxes are scripted; it is its own workspace."""

    answer: Callable[[ScriptedSandbox, list[str]], Ended]
    url: str | None = None
    owner: str = "x"
    helper_ids: Sequence[str] = ()
    is_elsewhere: bool = False
    can_evict: bool = True
    surroundings: list[Surroundings] = field(default_factory=list)  # of the sandboxes that were opened

    def open_sandbox(
        self, image_id: str, surroundings: Surroundings = USUAL, packages: Mapping[str, str] = NOTHING
    ) -> ScriptedSandbox:
        self.surroundings.append(surroundings)
        return ScriptedSandbox(image_id, self.answer)

    def open_limits_sandbox(self, surroundings: Surroundings = USUAL) -> ScriptedSandbox:
        self.surroundings.append(surroundings)
        return ScriptedSandbox("limits", self.answer)

    def open_tools_sandbox(self) -> ScriptedSandbox:
        return ScriptedSandbox("tools", self.answer)

    @contextmanager
    def network(self, server: Mapping[str, str] | None, *, load: bool) -> Iterator[ScriptedNetwork]:
        yield self

    def __getattr__(self, name: str) -> Any:
        """What no test asks of it, which mypy takes for the rest of the protocol."""
        raise AttributeError(name)


def _never(_: ScriptedSandbox, argv: list[str]) -> Ended:
    raise AssertionError(argv)


def make_network(answer: Callable[[ScriptedSandbox, list[str]], Ended] = _never) -> ScriptedNetwork:
    """A network without an engine; without an answer nothing may be started in it."""
    return ScriptedNetwork(answer)


def make_resources(**changes: Any) -> Resources:
    """Where workloads are measured, without an engine."""
    parts = {
        "workspace": make_network(),
        "folder": Path("unused"),
        "host": "box",
        "probe": None,
        "settings": make_settings(["base"]),
        "watching": Observers(lambda _: None),
    }
    return Resources(**{**parts, **changes})


def make_wheel(folder: Path, file: str) -> str:
    """Writes the least that pip takes for a wheel, and returns its SHA-256."""
    name, version, *tags = file.removesuffix(".whl").split("-")
    about = f"{name}-{version}.dist-info"
    members = {
        f"{name}.py": "",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {'-'.join(tags)}\n",
    }
    record = "".join(f"{path},sha256={_sum(text)},{len(text)}\n" for path, text in members.items())
    with zipfile.ZipFile(folder / file, "w") as wheel:
        for path, text in {**members, f"{about}/RECORD": f"{record}{about}/RECORD,,\n"}.items():
            wheel.writestr(path, text)
    return hashlib.sha256((folder / file).read_bytes()).hexdigest()


def _sum(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def make_container(sent: bytes) -> Any:
    """A container that sends these bytes, whichever of its files is asked for."""
    return SimpleNamespace(get_archive=lambda _: (iter([sent]), {}), remove=lambda **_: None)


def make_program(path: Path, text: str, interpreter: str = "/bin/sh") -> None:
    """Writes a program that stands for one of this machine's."""
    path.write_text(f"#!{interpreter}\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


def edit(root: Path, path: str, old: str, new: str) -> None:
    """Replaces a text that must be there, once."""
    text = (root / path).read_text(encoding="utf-8")
    assert old in text, f"{path} has no {old!r}"
    (root / path).write_text(text.replace(old, new, 1), encoding="utf-8")


def clean_environment(**more: str) -> Mapping[str, str]:
    """For a process that must see nothing of this machine but where its programs are."""
    return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", **more}


def extract(tar: tarfile.TarFile, folder: Path) -> None:
    """Extract an archive of ours; Debian 12's Python 3.11.2 knows no filter, and later ones warn without one."""
    if hasattr(tarfile, "data_filter"):
        tar.extractall(folder, filter="data")
    else:
        tar.extractall(folder)  # noqa: S202  our own
