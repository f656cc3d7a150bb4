"""The load on a service at a fixed rate: its command line, and what it printed -> latencies. Pure."""

from __future__ import annotations

import json

from pydantic import Field, ValidationError

from interlock.errors import WorkloadError
from interlock.model import Data

PREFIX = '{"interlock_load"'
# So many answers until one in a thousand is one.
ENOUGH_FOR_P999 = 1000


class FixedRate(Data):
    """Latencies are seconds by percentile, of the nearest rank, counted from when each request was due."""

    requests: int = Field(ge=0)
    unanswered: int = Field(ge=0)
    bad_answers: int = Field(ge=0)
    broken: int = Field(ge=0)
    latency_s: dict[str, float]

    @property
    def problem(self) -> str:
        """Why its latencies are none of a service that works; empty if they are."""
        if self.bad_answers:
            return f"{self.bad_answers} of {self.requests} answers at the fixed rate were neither 2xx nor 3xx"
        if self.broken:
            return f"{self.broken} connections broke at the fixed rate, beside {self.requests} answers"
        return "" if self.requests else "not one request at the fixed rate was answered"

    @property
    def figures(self) -> dict[str, float]:
        """By key of a report's metadata; what too few answers say nothing of is left out."""
        keys = {"50": "latency_p50_s", "99": "latency_p99_s"}
        if self.requests + self.unanswered >= ENOUGH_FOR_P999:
            keys["99.9"] = "latency_p999_s"
        return {key: self.latency_s[percent] for percent, key in keys.items()}


def parse(text: str) -> FixedRate:
    """WorkloadError if it is not what dockerfiles/load/fixed-rate.lua prints at its end."""
    lines = [line for line in text.splitlines() if line.startswith(PREFIX)]
    try:
        return FixedRate.model_validate(json.loads(lines[-1])["interlock_load"])
    except (IndexError, ValueError, KeyError, TypeError, ValidationError):
        said = text.strip().splitlines() or ["nothing"]
        raise WorkloadError(
            found=f"the load at a fixed rate printed no figures: {said[-1]}", todo="See dockerfiles/load/."
        ) from None


def fixed_rate_argv(script: str, url: str, rate_per_s: float, connections: int, duration_s: int) -> list[str]:
    """wrk with a thread for each connection: the script keeps a timetable for each."""
    many = str(connections)
    return [
        "wrk", "-t", many, "-c", many, "-d", f"{duration_s}s", "-s", script, url, "--", f"{rate_per_s:g}", many,
    ]  # fmt: skip


def as_fast_as_answered_argv(url: str, connections: int, duration_s: int) -> list[str]:
    """Each connection asks again once it has its answer."""
    return ["wrk", "-t", "1", "-c", str(connections), "-d", f"{duration_s}s", "--latency", url]


def warm_up_argv(url: str, requests: int) -> list[str]:
    """One after the other, over one connection; ends at the first answer that is none."""
    return ["curl", "-s", "-S", "-f", "--fail-early", "-o", "/dev/null", f"{url}?[1-{requests}]"]
