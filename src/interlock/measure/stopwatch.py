"""What the time of a cell or a workload is spent on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from interlock.results.experiments import Times


class Phase(StrEnum):
    """What the time of a cell or a workload is spent on."""

    PREPARING = "preparing"
    MEASURING = "measuring"
    PROFILING = "profiling"


class Stopwatch:
    """Seconds by phase; a phase within another one stops the outer one's clock, so that no second counts twice."""

    def __init__(self) -> None:
        self._spent_s = dict.fromkeys(Phase, 0.0)
        self._phase: Phase | None = None
        self._since_s = 0.0

    def add(self, phase: Phase, seconds: float) -> None:
        """Add what was spent elsewhere."""
        self._spent_s[phase] += seconds

    @contextmanager
    def during(self, phase: Phase) -> Iterator[None]:
        """Count the block's time to this phase."""
        outer = self._phase
        self._switch(phase)
        try:
            yield
        finally:
            self._switch(outer)

    def _switch(self, phase: Phase | None) -> None:
        now = time.monotonic()
        if self._phase is not None:
            self._spent_s[self._phase] += now - self._since_s
        self._phase, self._since_s = phase, now

    @property
    def times(self) -> Times:
        """Return the seconds so far, with those of a phase that goes on."""
        self._switch(self._phase)
        return Times(**{f"{phase.value}_s": round(spent_s, 3) for phase, spent_s in self._spent_s.items()})
