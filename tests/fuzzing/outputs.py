# ruff: noqa: E501  the texts are what others print
"""What programs print: pip, interpreters, workloads, loads, profilers, builders, and the kernel in its files."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from interlock.catalog.workloads import Benchmark
from interlock.engine.build import base, image, one_build
from interlock.engine.ended import Ended
from interlock.engine.packages import audit, pip_output, pip_report
from interlock.engine.run import user_images
from interlock.engine.run.containers import parse_cpu_used, parse_memory_bytes
from interlock.errors import InterlockError
from interlock.measure import processes, profiling, services, stacks
from interlock.measure.counts import parse_bpf, parse_strace, profile_data
from interlock.measure.kinds.choosing import kind_of
from interlock.measure.kinds.pyperf import PyperfScript
from interlock.measure.kinds.pytest import PytestSuite
from interlock.measure.stacks import Work
from interlock.results.profiles import CallCounts, PhaseCounts
from interlock.trial.gil import gil_states
from tests.builders import make_workload
from tests.engine.packages.test_pip_output import (
    CARGO_FAILED,
    COMPILER_FAILED,
    CONFLICT,
    DENIED,
    OLD_WHEEL_FAILED,
    none_fits,
)
from tests.engine.packages.test_pip_report import GIT, archive, item, report
from tests.fuzzing.damage import Form, Target, each, of_text
from tests.measure.test_counts import REAL, bpf
from tests.measure.test_services import BAD, DROPPED, GOOD, LATE, NONE, printed
from tests.measure.test_stacks import FRAME, PROBED


def _pip(text: str) -> object:
    return pip_output.not_fetched(text), pip_output.last_words(text), pip_output.pip_version(text)


REPORT = report(item("a", archive("a-1.whl"), "b>=1; python_version>'3'"), item("b", GIT, requested_extras=["y"]))
PROGRAM, COMMAND = Benchmark(name="add", metric=make_workload().benchmarks[0].metric), make_workload().benchmarks[0]
SUITE, SCRIPT = (
    make_workload("mine", kind=kind, program="mine.py", metric=COMMAND.metric, benchmarks=[])
    for kind in ("pytest-benchmark", "pyperf")
)


def _said(text: str) -> None:
    processes.parse_costs(text)
    processes.printed_lines(text)
    audit.parse(text, audit.Distribution)
    gil_states(text.splitlines(), [text])


def _judged(text: str) -> None:
    for workload in (make_workload(), SUITE, SCRIPT):
        for ended in (Ended(0, text, text, False), Ended(2, text, text, False), Ended(137, text, text, False)):
            kind_of(workload, PROGRAM).judge(ended, 1)


COST = '{"interlock_process": {"wall_s": 1.0, "user_s": 0.1, "sys_s": 0.1, "max_rss_bytes": 1, "exit_code": 0}}'
SAID = [
    f'{COST}\n{{"loops": 1, "values": [0.1]}}\n',
    f'{{"interlock": 1, "loops": 10, "inner_loops": 2, "warmups": [0.1], "values": [0.1, 0.2], "metadata": {{"a": 1}}}}\n{COST}\n',
    '{"name": "a", "version": "1", "files": ["a/__init__.py"]}\n{"bare": "off"}\n{"module": "a", "error": "", "by": ""}\n',
    "1 0 0 json\n7 0 1 lxml.etree\n",
    "E   assert 1 == 2\nFAILED test_a.py::test_b - no\n",
]
PYPERF = json.dumps(
    {
        "benchmarks": [
            {"runs": [{"metadata": {"loops": 4, "calibrate_loops": 4}, "values": [0.1], "warmups": [[1, 0.2]]}]}
        ],
        "metadata": {"name": "add", "unit": "second", "loops": 4, "inner_loops": 2},
        "version": "1.0",
    }
)
PYTEST = json.dumps(
    {"benchmarks": [{"fullname": "test_a.py::add", "stats": {"data": [0.1, 0.2], "iterations": 3}}]}, indent=4
)
VERSION = "pip 24.0 from /usr/lib/python3/dist-packages/pip (python 3.13)\n"
PIP = [none_fits("numpy==9", "1.0, 2.0"), COMPILER_FAILED, OLD_WHEEL_FAILED, CARGO_FAILED, CONFLICT, DENIED, VERSION]


def _figures(text: str) -> object:
    found = services.parse_wrk(text)
    return found.problem


def _fixed_rate(text: str) -> object:
    found = services.parse_fixed_rate(text)
    return found.problem or services.latency_figures([found])


def _phases(text: str) -> object:
    return profiling.profile_by_phases(parse_bpf(text), 100, "work")


def _stacks(text: str) -> None:
    """The last line of what the profiler prints with stacks."""
    counted = PhaseCounts(total=6, ns=100, syscalls={"futex": CallCounts(calls=6, ns=46)})
    work = Work(
        profile_data(text),
        "work",
        counted,
        3,
        lambda wanted: dict.fromkeys((((one[0], one[1], one[2]), one[3]) for one in wanted), 12),
    )
    for read in (stacks.lock_sites_of, stacks.acquisitions_of):
        with suppress(InterlockError):
            read(work)


class _Answers:
    """A sandbox in which every process prints this."""

    def __init__(self, text: str) -> None:
        self.text = text

    def run(self, *_: Any) -> Ended:
        return Ended(0, self.text, self.text, False)


def _interpreter(text: str) -> None:
    sandbox: Any = _Answers(text)
    asked = stacks.Interpreter(sandbox)
    for ask in (asked.frames, lambda: asked.lines([("/app/a.py", 1, "f", 4), ("/app/a.py", 1, "f", 8)])):
        try:
            ask()
        except InterlockError:
            continue


OFFSETS = json.dumps(
    {"offsets": dict.fromkeys(stacks.OFFSETS, 8), "files": ["/usr/lib/libpython3.13.so"], "missing": ""}
)
PROFILES = [REAL, bpf(), json.dumps(PROBED), OFFSETS, json.dumps([[FRAME[3], 12]])]


KERNEL = [
    "usage_usec 10\nuser_usec 4\nsystem_usec 6\n",
    "123456\n654321\n",
    "anon 4096\nfile 0\ntotal_rss 5\n",
    "2400000\n",
]


def _logs(text: str) -> None:
    image.engine_failure(text, "cpython-3.13", "/x.log")
    one_build.STEP.findall(text)
    one_build.ENDED_WITH.findall(text)
    image.TRIED.findall(text)
    image.no_answer(text, "/x")
    one_build.last_words(text)
    user_images.MADE.findall(text)
    for line in text.splitlines():
        user_images.STEP.match(one_build.COLOUR.sub("", line).rstrip())
    base._failed(text, "nothing can be pulled")


LOGS = [
    "Step 1/3 : FROM python\n ---> 0123456789ab\nStep 2/3 : RUN make\ncc: error: no\n",
    "#7 [2/3] RUN pip install x\n#7 0.312 ERROR: no such package\n------\n > [2/3] RUN pip install x:\n0.312 ERROR: no\n------\nDockerfile:2\n",
    "interlock: step configure\ninterlock: tried https://x/y.tgz: curl: (22) The requested URL returned error: 404\ninterlock: exit 1\n",
    "E: Unable to locate package x\nE: Release file is not valid yet\n",
]


Parser = Callable[[str], object]
LOADS: tuple[Parser, ...] = (
    _figures,
    _fixed_rate,
    PytestSuite(SUITE, PROGRAM).outputs_of,
    PyperfScript(SCRIPT, PROGRAM).outputs_of,
    PytestSuite(SUITE, PROGRAM).tests_of,
    _judged,
)
PROFILERS: tuple[Parser, ...] = (
    _phases,
    parse_strace,
    _stacks,
    _interpreter,
)
OUTPUTS = {
    "pip's output": Target(of_text(_pip), lambda: PIP),
    "pip's report": Target(of_text(pip_report.parse_report), lambda: [REPORT], Form.JSON),
    "a process's output": Target(of_text(_said), lambda: SAID, Form.LINES),
    "an interpreter's facts": Target(of_text(image.parse_facts), lambda: ["version=3.13.1\nimplementation=cpython\nthread_flavour=pthread\ngil=on\noptimisation=-O3\nloaded_libraries=a b\nprefix=/usr\n"], refuses=(ValueError,)),
    "a load's and a benchmark tool's output": Target(each(*map(of_text, LOADS)), lambda: [GOOD, BAD, DROPPED, LATE, NONE, printed(), PYPERF, f"x\n{PYTEST}\ny", *SAID], Form.LINES),
    "profilers' output": Target(each(*map(of_text, PROFILERS)), lambda: PROFILES, Form.LINES),
    "the kernel's tables": Target(each(of_text(parse_cpu_used), of_text(parse_memory_bytes)), lambda: KERNEL),
    "logs of builds": Target(of_text(_logs), lambda: LOGS),
}  # fmt: skip
