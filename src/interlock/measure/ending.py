"""Why measuring ends before all is decided, a budget, Ctrl-C, SIGTERM or SIGHUP, and what they may interrupt."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType

from interlock.errors import Interrupted
from interlock.results.experiments import BUDGET_WORDS, Times
from interlock.results.settings import duration_text
from interlock.untrusted import forget_terminal

# Parts of a workload's share of the budget: for the rounds, if a profile follows them, and for the profile.
# They add up to a little more than 1, because seldom does either take all of its part.
ROUNDS_SHARE, PROFILE_SHARE = 5 / 6, 1 / 4
SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}
NO_HANGUP = (signal.SIGHUP, signal.SIG_IGN)


class Ending:
    """The end of an experiment, for whoever measures to ask about.

    A first signal raises Interrupted where `kept` allows it, and elsewhere is only noted, so that what was measured is
    written. A second one raises Interrupted everywhere but in `shielded`.
    """

    def __init__(self, budget_s: float | None = None) -> None:
        self.budget_s = self._left_s = budget_s
        self.signals: list[int] = []
        self._ends_s = float("inf")  # by time.monotonic()
        self._started_s: float | None = None
        self._rounds_end_s = self._profile_ends_s = self._share_s = self._share_ends_s = float("inf")
        self._may_interrupt = self._is_shielded = self._has_stopped = self._has_cut = False

    def start(self, part: float = 1.0) -> None:
        """Start the budget's clock for this part of what is left of it."""
        now, self._has_stopped = time.monotonic(), False
        self._started_s = now
        if self._left_s is not None:
            self._ends_s = now + part * self._left_s

    def pause(self) -> None:
        """Stop the budget's clock until the next start: what this part did not need is the next one's."""
        if self._left_s is not None and self._started_s is not None:
            self._left_s = max(0.0, self._left_s - (time.monotonic() - self._started_s))
        self._started_s, self._ends_s = None, float("inf") if self._left_s != 0 else 0.0

    def share(self, part: float, *, profiled: bool) -> None:
        """Give the next workload this part of what is left (1 for the last one); a profile takes some of it.

        What a workload does not need goes to the next ones.
        """
        self._has_cut = False
        now = time.monotonic()
        self._share_s = (self._ends_s - now) * part
        self._share_ends_s = now + self._share_s
        self._rounds_end_s = now + self._share_s * (ROUNDS_SHARE if profiled else 1)

    def begin_profile(self) -> None:
        """Start the clock of this workload's profile: it has its part of the share, or what the rounds left if more."""
        self._profile_ends_s = max(time.monotonic() + self._share_s * PROFILE_SHARE, self._share_ends_s)

    def stops(self) -> bool:
        """Return whether nothing more is to be started; who asks has more to start, and does not if it stops."""
        return self._remember(bool(self.signals) or time.monotonic() >= self._ends_s)

    def stops_rounds(self, *, needed: bool = False) -> bool:
        """Return the same for the rounds of this workload, which end with its share of the budget.

        Those that are `needed` end with the budget alone.
        """
        return self._remember(self.stops() or (not needed and time.monotonic() >= self._rounds_end_s))

    def stops_profile(self) -> bool:
        """Return the same for the profile of this workload."""
        return self._remember(self.stops() or time.monotonic() >= self._profile_ends_s)

    def _remember(self, stops: bool) -> bool:
        self._has_stopped |= stops
        self._has_cut |= stops
        return stops

    def left_s(self) -> float:
        """Return how much of the budget is left, in seconds; infinity without one."""
        return max(0.0, self._ends_s - time.monotonic())

    @property
    def has_cut(self) -> bool:
        """Return whether some work was ended early since the last share was given."""
        return self._has_cut or bool(self.signals)

    @property
    def reason(self) -> str:
        """Return what ended the work early, in words; empty if nothing has."""
        if self.signals:
            return SIGNALS[signal.Signals(self.signals[0])]
        return f"{BUDGET_WORDS}{duration_text(self.budget_s)}" if self.budget_s and self._has_stopped else ""

    @property
    def exit_code(self) -> int:
        """Return what a command that ended in order leaves with: 128 and the signal, as a shell has it, else 0."""
        return 128 + self.signals[0] if self.signals else 0

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take the signals in the block, and give them back after it; not SIGHUP where `nohup` keeps it away."""
        taken = [number for number in SIGNALS if (number, signal.getsignal(number)) != NO_HANGUP]
        before = {number: signal.signal(number, self._note) for number in taken}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.signals.append(number)
        if number == signal.SIGHUP:
            forget_terminal()
        if self._may_interrupt or (len(self.signals) > 1 and not self._is_shielded):
            raise Interrupted(number)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Leave the block at once at a first signal, and continue after it: what the block made is kept."""
        self._may_interrupt = True
        try:
            yield
        except Interrupted:
            if len(self.signals) != 1:
                raise
        finally:
            self._may_interrupt = False

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Hold signals back until the block, which writes or cleans up, has ended."""
        self._is_shielded = True
        try:
            yield
        finally:
            self._is_shielded = False


def part_of_budget(names: Sequence[str], took: Mapping[str, Times], rows: Mapping[str, int]) -> float:
    """Return which part of the rest of a budget the first of these workloads gets.

    In proportion to what each took in the first look, where that is known of all: a server's takes longer than a start.
    Else in proportion to its `rows`, so that those of a workload with many have as much as others.
    """
    weights: list[float] = [took[name].total_s for name in names if name in took]
    if len(weights) < len(names) or not all(weights):
        weights = [max(1, rows.get(name, 1)) for name in names]
    return weights[0] / sum(weights)
