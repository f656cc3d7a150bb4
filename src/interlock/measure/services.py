"""Services under load: whether one is healthy, the command lines of loads, and what they print."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TypeVar
from urllib.parse import urlsplit

from pydantic import Field, NonNegativeInt

from interlock.catalog.types import Data
from interlock.engine.protocol import Answer
from interlock.errors import WorkloadError, last_line
from interlock.untrusted import parse_json

Row = TypeVar("Row")

FIX_PROGRAM = "Correct the workload's program."


class NoAnswerError(WorkloadError):
    """A service that does not answer in time: in some builds its threads never run."""


@dataclass(frozen=True)
class HealthCheck:
    """How a service is asked whether it is healthy: by its first good answer within `limit_s` seconds."""

    url: str
    limit_s: float
    ask: Callable[[str], Answer]  # for about a second
    require_running: Callable[[], None]
    any_answer: bool = False  # whether any status is good, not 2xx alone
    last_lines: Callable[[], str] = lambda: ""  # what is said of it if it is not healthy
    todo: str = FIX_PROGRAM

    def wait(self) -> tuple[Answer, float]:
        """Return the first good answer and the seconds until it came.

        Raise NoAnswerError if there is no answer in time, WorkloadError if there are only bad ones or the service ends.
        """
        start_s = time.monotonic()
        while True:
            answer = self.ask(self.url)
            passed_s = time.monotonic() - start_s
            if answer.is_good or (self.any_answer and answer.status):
                return answer, passed_s
            self.require_running()
            if passed_s > self.limit_s:
                break
        where, lines = f"on port {urlsplit(self.url).port} in {self.limit_s:g} s", self.last_lines()
        if not answer.status:
            raise NoAnswerError(found=f"no answer {where}{lines}", todo=self.todo)
        problem = f"no answer 2xx {where}, the last one has status {answer.status}{lines}"
        raise WorkloadError(found=problem, todo=self.todo)


def in_turns(rows: Sequence[Row], turns: int, rng: random.Random) -> Iterator[Row]:
    """Yield every row once in each turn, in a random order."""
    for _ in range(turns):
        yield from rng.sample(rows, len(rows))


FIXED_RATE_LINE = '{"interlock_load"'
# Latencies of a report's metadata: the percentile, and the least number of requests that it takes.
LATENCIES = {
    "latency_p50_s": (50, 1),
    "latency_p99_s": (99, 1),
    "latency_p999_s": (99.9, 1000),
    "latency_p9999_s": (99.99, 10_000),
}


class FixedRateRun(Data):
    """A load at a fixed rate. Latencies are microseconds, one for each request, counted from when it was due.

    Counting from then includes the time that a request waits for a slow service ("coordinated omission",
    https://github.com/giltene/wrk2#acknowledgements).
    """

    latencies_us: list[NonNegativeInt]
    unanswered: int = Field(ge=0)
    bad_answers: int = Field(ge=0)
    broken: int = Field(ge=0)

    @property
    def requests(self) -> int:
        """Return how many were answered."""
        return len(self.latencies_us) - self.unanswered

    @property
    def problem(self) -> str:
        """Return why these are not latencies of a working service; empty if they are."""
        if self.bad_answers:
            return f"{self.bad_answers} of {self.requests} answers at the fixed rate were neither 2xx nor 3xx"
        if self.broken:
            return f"{self.broken} connections broke at the fixed rate, with {self.requests} answers"
        return "" if self.requests > 0 else "no request at the fixed rate was answered"


def latency_figures(runs: Sequence[FixedRateRun]) -> dict[str, float]:
    """Return latencies of all requests of these runs, in seconds, by key of a report's metadata (nearest rank)."""
    latencies_us = sorted(latency for run in runs for latency in run.latencies_us)
    count = len(latencies_us)
    return {
        key: latencies_us[ceil(count * percent / 100) - 1] / 1e6
        for key, (percent, enough) in LATENCIES.items()
        if count >= enough
    }


def parse_fixed_rate(text: str) -> FixedRateRun:
    """Parse what dockerfiles/load/fixed-rate.lua prints at its end; WorkloadError if it is something else."""
    lines = [line for line in text.splitlines() if line.startswith(FIXED_RATE_LINE)]
    try:
        return FixedRateRun.model_validate(parse_json(lines[-1])["interlock_load"])
    except (IndexError, ValueError, KeyError, TypeError):
        raise WorkloadError(
            found=f"the load at a fixed rate printed no figures: {last_line(text)}",
            todo="Run dockerfiles/load/fixed-rate.lua by hand.",
        ) from None


WRK_RATE = re.compile(r"^Requests/sec:\s+([0-9.]{1,30})", re.MULTILINE)
WRK_REQUESTS = re.compile(r"^[ \t]*+([0-9]{1,18}) requests in ", re.MULTILINE)
WRK_LATENCY = re.compile(r"^[ \t]*+([0-9]+(?:\.[0-9]+)?)%[ \t]++([0-9.]{1,30})(us|ms|s|m|h)[ \t]*+$", re.MULTILINE)
WRK_BAD_ANSWERS = re.compile(r"^[ \t]*+Non-2xx or 3xx responses: ([0-9]{1,18})", re.MULTILINE)
WRK_SOCKET_ERRORS = re.compile(r"^[ \t]*+Socket errors: (.+)$", re.MULTILINE)
UNIT_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
WRK_TIMEOUT = "timeout"


DURATION = ("-d", "--duration")
# Of wrk without the option.
USUAL_DURATION_S = 10


def with_duration(words: Sequence[str], seconds: int) -> list[str]:
    """Return wrk's command line with another duration; what stands after `--` is its script's."""
    return [
        words[0],
        f"-d{seconds}s",
        *(word for words_of, is_duration in _parts(words) if not is_duration for word in words_of),
    ]


def duration_of(words: Sequence[str]) -> int:
    """Return how long a command line of wrk loads, in whole seconds."""
    for option, is_duration in _parts(words):
        text = re.search(r"([0-9]+)(s|m|h)?$", option[-1]) if is_duration else None
        if text:
            return round(int(text[1]) * UNIT_S[text[2] or "s"])
    return USUAL_DURATION_S


def _parts(words: Sequence[str]) -> Iterator[tuple[list[str], bool]]:
    """Yield the words after wrk's name, each option of a duration with its value, and whether it is one."""
    rest = list(words[1:])
    while rest:
        word = rest.pop(0)
        if word == "--":
            yield [word, *rest], False
            return
        if word in DURATION and rest:
            yield [word, rest.pop(0)], True
        else:
            yield [word], word.startswith(("-d", "--duration="))


@dataclass(frozen=True)
class WrkRun:
    """A run of wrk. Latencies are seconds by percentile; socket errors are counts by wrk's names for them."""

    requests: int
    per_second: float
    latency_s: dict[str, float]
    bad_answers: int
    socket_errors: dict[str, int]

    @property
    def problem(self) -> str:
        """Return why these are not figures of a working service; empty if they are.

        A late answer (wrk's timeout) is an answer with a high latency.
        """
        if self.bad_answers:
            return f"{self.bad_answers} of {self.requests} answers were neither 2xx nor 3xx"
        if self._broken:
            errors = ", ".join(f"{what} {count}" for what, count in self._broken.items())
            return f"connections broke under the load ({errors}, with {self.requests} answers)"
        return "no request was answered within the load's time" if self.is_silent else ""

    @property
    def is_silent(self) -> bool:
        """Return whether nothing was answered, though no connection broke."""
        return not (self._broken or (self.requests and self.per_second))

    @property
    def _broken(self) -> dict[str, int]:
        return {what: count for what, count in self.socket_errors.items() if count and what != WRK_TIMEOUT}


def parse_wrk(text: str) -> WrkRun:
    """Parse what `wrk --latency` prints at its end; WorkloadError if it is something else."""
    rate, done = WRK_RATE.search(text), WRK_REQUESTS.search(text)
    bad, sockets = WRK_BAD_ANSWERS.search(text), WRK_SOCKET_ERRORS.search(text)
    errors = [pair.rsplit(" ", 1) for pair in sockets[1].split(", ")] if sockets else []
    try:
        if rate is None or done is None:
            raise ValueError("it has no figures")
        return WrkRun(
            requests=int(done[1]),
            per_second=float(rate[1]),
            latency_s={percent: float(value) * UNIT_S[unit] for percent, value, unit in WRK_LATENCY.findall(text)},
            bad_answers=int(bad[1]) if bad else 0,
            socket_errors={what: int(count) for what, count in errors},
        )
    except ValueError:  # of a line that is missing or is none of wrk's
        printed = f"wrk printed no figures: {last_line(text)}"
        raise WorkloadError(key="--load", found=printed, todo="Correct its options (`wrk --help`).") from None
