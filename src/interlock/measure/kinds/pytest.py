"""Suites of pytest-benchmark: each process runs one test of a suite.

Its options: https://pytest-benchmark.readthedocs.io/en/latest/usage.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from interlock.catalog.workloads import Repetition
from interlock.measure.kinds.adapted import Adapted
from interlock.measure.processes import WORKLOADS
from interlock.measure.tracks import Track
from interlock.results.experiments import ProgramOutput

# One of pytest-benchmark's rounds is a value. With no minimum duration it takes the number that the options give.
NO_TIME_S = "0.000001"
# What pytest-benchmark's calibration makes a value take; it may end at ten times as long.
VALUE_S = "0.05"
# Nothing is captured: the report goes to standard output, and CPython's warnings (PEP 703) to standard error.
OPTIONS = ["-q", "-s", "-rfE", "--tb=short", "-p", "no:cacheprovider", "-p", "no:warnings", "--benchmark-only"]
REPORT = ["--benchmark-json", "/dev/stdout", "--benchmark-max-time", NO_TIME_S]
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?::.+?)(?: - .*)?$", re.MULTILINE)


class PytestSuite(Adapted):
    """A file or a folder of tests that take the fixture `benchmark`."""

    @property
    def folder(self) -> str:
        """Return the folder that pytest's names of tests are relative to."""
        program = self.workload.program or ""
        folder = program.rpartition("/")[0] if program.endswith(".py") else program
        return f"{WORKLOADS}/{folder}".rstrip("/")

    def words(self, loops: str, take: Repetition | None) -> list[str]:
        """Return the command line of one test. pytest-benchmark finds the number of loops itself, in every process."""
        warm = ["--benchmark-warmup", "on", "--benchmark-warmup-iterations", "1"] if take and take.warmups else []
        return self._words(
            take.values if take else 1, VALUE_S, *warm, *self.workload.arguments, *self.benchmark.asked_by
        )

    def suite_words(self) -> list[str]:
        """Return the command line that runs a whole suite, each test as briefly as possible, to hear their names."""
        return self._words(1, NO_TIME_S, *self.workload.arguments, self.path)

    def _words(self, values: int, value_s: str, *more: str) -> list[str]:
        options = ["--benchmark-min-rounds", str(values), "--benchmark-min-time", value_s]
        return ["python", "-m", "pytest", *OPTIONS, "--rootdir", self.folder, *REPORT, *options, *more]

    def names(self, track: Track) -> dict[str, list[str]]:
        ended = self.listing(track, self.suite_words())
        selecting = {} if ended.took_sandbox else self.tests_of(ended.stdout)
        if ended.exit_code != 0 and not selecting:
            raise self.not_listed(track, ended)
        return selecting

    def tests_of(self, stdout: str) -> dict[str, list[str]]:
        """Return the arguments that select each test, by name. Those that failed are included: they say why later.

        A test has its short name, unless another file has a test of that name.
        """
        # pytest names the file of a failure from where it was started, which in a cell is the root.
        folder = self.folder.lstrip("/") + "/"
        failed = [name.removeprefix(folder) for name in FAILED.findall(stdout)]
        ids = list(dict.fromkeys([*self.outputs_of(stdout), *failed]))
        short = [test_id.partition("::")[2] for test_id in ids]
        return {
            (name if short.count(name) == 1 else test_id): [f"{self.folder}/{test_id}"]
            for test_id, name in zip(ids, short, strict=True)
        }

    def reports(self, stdout: str) -> dict[str, ProgramOutput]:
        """Read the JSON object that pytest-benchmark writes over many lines, between what pytest prints."""
        start = stdout.find('{\n    "')
        if start < 0:
            return {}
        report, _ = json.JSONDecoder().raw_decode(stdout[start:])
        return {test["fullname"]: _output_of(test["stats"]) for test in report["benchmarks"]}


def _output_of(stats: Mapping[str, Any]) -> ProgramOutput:
    loops = stats["iterations"]
    return ProgramOutput(interlock=1, loops=loops, values=[value * loops for value in stats["data"]])
