"""What wrk printed -> throughput, latencies and errors. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from interlock.errors import WorkloadError

RATE = re.compile(r"^Requests/sec:\s+([0-9.]+)", re.MULTILINE)
DONE = re.compile(r"^\s*([0-9]+) requests in ", re.MULTILINE)
LATENCY = re.compile(r"^\s*([0-9]+(?:\.[0-9]+)?)%\s+([0-9.]+)(us|ms|s|m|h)\s*$", re.MULTILINE)
BAD_ANSWERS = re.compile(r"^\s*Non-2xx or 3xx responses: ([0-9]+)", re.MULTILINE)
SOCKETS = re.compile(r"^\s*Socket errors: (.+)$", re.MULTILINE)
UNIT_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
TIMEOUT = "timeout"


@dataclass(frozen=True)
class Load:
    """One run of wrk. Latencies are seconds by percentile; socket errors are counts by wrk's words for them."""

    requests: int
    per_second: float
    latency_s: dict[str, float]
    bad_answers: int
    socket_errors: dict[str, int]

    @property
    def problem(self) -> str:
        """Why its figures are no figures of a service that works; empty if they are.

        An answer that came late is an answer: that is a latency.
        """
        broken = {what: count for what, count in self.socket_errors.items() if count and what != TIMEOUT}
        if self.bad_answers:
            return f"{self.bad_answers} of {self.requests} answers were neither 2xx nor 3xx"
        if broken:
            errors = ", ".join(f"{what} {count}" for what, count in broken.items())
            return f"connections broke under the load ({errors}, beside {self.requests} answers)"
        return "" if self.requests and self.per_second else "not one request was answered within the load's time"


def parse(text: str) -> Load:
    """WorkloadError if it is not what `wrk --latency` prints at its end."""
    rate, done = RATE.search(text), DONE.search(text)
    if rate is None or done is None:
        said = text.strip().splitlines() or ["nothing"]
        raise WorkloadError(key="--load", found=f"wrk printed no figures: {said[-1]}", todo="Correct its options.")
    bad, sockets = BAD_ANSWERS.search(text), SOCKETS.search(text)
    pairs = [pair.rsplit(" ", 1) for pair in sockets[1].split(", ")] if sockets else []
    return Load(
        requests=int(done[1]),
        per_second=float(rate[1]),
        latency_s={percent: float(value) * UNIT_S[unit] for percent, value, unit in LATENCY.findall(text)},
        bad_answers=int(bad[1]) if bad else 0,
        socket_errors={what: int(count) for what, count in pairs},
    )
