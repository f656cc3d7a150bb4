"""Live progress of builds, transfers, cells and verdicts: rows on a terminal, elsewhere one line for each event."""

from __future__ import annotations

import io
import math
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

from interlock.analysis.verdicts import Comparison, Verdict
from interlock.cli.options import PlainConsole, console, notes
from interlock.measure.watching import Look, ProgressUpdate
from interlock.report.experiment import comparison_text
from interlock.report.tables import rounds_text
from interlock.results.experiments import State

UNBUILT = {"unchanged", "pulled"}
# The results of `build --verify`; a text after a colon says more.
VERIFIED = {"reproducible", "not verified"}
ENDS = {*UNBUILT, *VERIFIED, *(state.value for state in State)}
# In a log, a line for each process or each part of a download would give thousands of lines.
LOG_EVERY_S = 10.0
AMOUNT = re.compile(r"(\d+) of (\d+) MB")
BAR_WIDTH = 12
# The names of two rows that are not images: what is measured now, and how many of all are done.
STATUS, TOTAL = "", " total"


def clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d}"


@dataclass(frozen=True)
class ProgressRow:
    """What a terminal shows of one piece of work in progress."""

    name: str
    step: str
    since: float | None = None  # time.monotonic() at its start; the clock runs on between steps
    expected_s: float | None = None  # estimate of the whole duration
    done: int = 0
    total: int | None = None  # if set, a download or an upload has a bar

    @property
    def taken(self) -> str:
        """Return how long it has taken so far, and is expected to take; empty before its start."""
        about = f" of about {clock(self.expected_s)}" if self.expected_s else ""
        return "" if self.since is None else f"{clock(time.monotonic() - self.since)}{about}"


class Display:
    """Rows that are redrawn on a terminal. `log` lines stay, and elsewhere are all there is. A quiet one has none."""

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console, self._quiet = console, quiet
        self._rows: dict[str, ProgressRow] = {}
        self._live = Live(console=console, get_renderable=self._drawn, transient=True) if console.is_terminal else None

    def __enter__(self) -> Display:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def _drawn(self) -> Table:
        """Return the rows as they are drawn now, each with a name, a step, a bar and a clock."""
        step = Column(no_wrap=True, overflow="ellipsis", ratio=1)
        table = Table.grid(Column(no_wrap=True), step, Column(), Column(no_wrap=True), padding=(0, 1), expand=True)
        for row in list(self._rows.values()):  # a building thread may add one meanwhile
            bar = ProgressBar(row.total, row.done, BAR_WIDTH) if row.total else ""
            table.add_row(Text(row.name), Text(row.step), bar, Text(row.taken))
        return table

    def show(self, status: str) -> None:
        """Show the work in progress, if there is one piece at a time."""
        self.set_row(STATUS, ProgressRow("", status))

    def set_row(self, key: str, row: ProgressRow) -> None:
        self._rows[key] = row

    def remove_row(self, key: str) -> None:
        self._rows.pop(key, None)

    def log(self, line: str, style: str = "") -> None:
        if not self._quiet:
            self._console.print(Text(line, style), soft_wrap=True)

    @property
    def redraws(self) -> bool:
        return self._live is not None


def open_display(as_json: bool) -> Display:
    """Return the display of a command's progress: with --json only on a terminal, with --quiet nowhere."""
    if notes.quiet:
        return Display(PlainConsole(file=io.StringIO()), quiet=True)
    return Display(PlainConsole(stderr=True), quiet=True) if as_json else Display(console)


class StepProgress:
    """Called for each step of each variant, one after the other: in place on a terminal, else a line."""

    def __init__(self, display: Display, verb: str) -> None:
        self._display, self._verb, self._start = display, verb, time.monotonic()

    def __call__(self, variant: str, step: str) -> None:
        line = f"{self._verb:<7} {variant}  {step} | {clock(time.monotonic() - self._start)} elapsed"
        (self._display.show if self._display.redraws else self._display.log)(line)


class BuildProgress:
    """Called by the building threads for each step of each variant."""

    def __init__(self, display: Display, total: int, usual_s: Mapping[str, float]) -> None:
        self._display, self._total, self._usual_s = display, total, usual_s
        self._lock = threading.Lock()
        self._started: dict[str, float] = {}
        self._steps: dict[str, str] = {}
        self._ended: dict[str, str] = {}
        self._start = time.monotonic()
        self._amount_s = self._start

    def __call__(self, variant: str, step: str) -> None:
        with self._lock:
            now = time.monotonic()
            self._started.setdefault(variant, now)
            if variant != "base":
                self._end("base")
            if step.partition(":")[0] in ENDS:
                self._ended[variant] = step
                self._end(variant)
                self._display.log(f"build   {variant}  {step} {clock(now - self._started[variant])}")
            else:
                self._steps[variant] = step
                if not self._display.redraws and self._is_news(step, now):
                    self._display.log(f"build   {variant}  {step} {clock(now - self._started[variant])}")
            self._show(now)

    def _is_news(self, step: str, now: float) -> bool:
        """Return whether to print a step now; the progress of a download is only printed now and then."""
        if not AMOUNT.search(step):
            return True
        if now - self._amount_s < LOG_EVERY_S:
            return False
        self._amount_s = now
        return True

    def _end(self, variant: str) -> None:
        self._steps.pop(variant, None)
        self._display.remove_row(variant)

    def _show(self, now: float) -> None:
        if not self._steps:
            self._display.remove_row(TOTAL)
            return
        self._display.set_row(TOTAL, self.total_row(now))
        for variant in self._steps:
            self._display.set_row(variant, self.row(variant))

    def row(self, variant: str) -> ProgressRow:
        """Return the row of a build in progress."""
        step = self._steps[variant]
        usual_s = self._usual_s.get(variant)
        return ProgressRow(f"build   {variant}", step, self._started[variant], usual_s, *_amount(step))

    def total_row(self, now: float) -> ProgressRow:
        """Return the row of all builds together."""
        ended = len(self._ended.keys() - {"base"})
        left_s = self._left_s(now)
        expected_s = None if left_s is None else now - self._start + left_s
        return ProgressRow("build", f"{ended} of {self._total} done", self._start, expected_s)

    def _left_s(self, now: float) -> float | None:
        """Return how long the rest takes, estimated from earlier builds, else from the pace of this run."""
        ended = self._ended.keys() - {"base"}
        to_come = self._usual_s.keys() - ended
        if to_come and len(to_come) == self._total - len(ended):
            spent_s = sum(now - self._started[variant] for variant in self._steps.keys() & to_come)
            side_by_side = max(1, len(self._steps))
            return max(0, (sum(self._usual_s[variant] for variant in to_come) - spent_s) / side_by_side)
        built = sum(1 for state in self._ended.values() if state not in UNBUILT)
        share = built / max(1, self._total - (len(ended) - built))
        return (now - self._start) * (1 - share) / share if 0 < share < 1 else None


def _amount(step: str) -> tuple[int, int | None]:
    """Return the amounts done and in total, if a step says them."""
    amount = AMOUNT.search(step)
    return (int(amount[1]), int(amount[2])) if amount else (0, None)


class TransferProgress:
    """Called for each step of each image that is pushed or pulled, one after the other."""

    def __init__(self, display: Display, verb: str, total: int) -> None:
        self._display, self._verb, self._total = display, verb, total
        self._start = time.monotonic()
        self._began: dict[str, float] = {}
        self._logged_s = self._start
        self._ended = 0

    def __call__(self, subject: str, step: str) -> None:
        now = time.monotonic()
        began = self._began.setdefault(subject, now)
        done = f"{self._ended} of {self._total} done"
        self._display.set_row(TOTAL, ProgressRow(self._verb, done, self._start))
        self._display.set_row(subject, ProgressRow(f"{self._verb:7} {subject}", step, began, None, *_amount(step)))
        if not self._display.redraws and now - self._logged_s >= LOG_EVERY_S:
            self._logged_s = now
            self._display.log(f"{self._verb:7} {subject}  {step} {clock(now - began)}")

    def skip(self, subject: str) -> None:
        """Count an image that is not moved."""
        self._ended += 1
        self._display.remove_row(subject)

    def end(self, subject: str, state: str) -> None:
        """Count an image that was moved, or could not be; its line stays."""
        self.skip(subject)
        took_s = time.monotonic() - self._began.get(subject, time.monotonic())
        self._display.log(f"{self._verb:7} {subject}  {state} {clock(took_s)}")


class MeasureProgress:
    """Called before each process of the measuring and profiling passes."""

    def __init__(
        self,
        display: Display,
        workloads: int,
        decided: Callable[[], str] = str,
        budget_left_s: Callable[[], float] = lambda: math.inf,
    ) -> None:
        self._display, self._workloads, self._decided = display, workloads, decided
        self._budget_left_s = budget_left_s
        self._start = time.monotonic()
        self._seen: list[str] = []
        self._logged_s = 0.0
        self._logged_activity = ("", "")
        self._workload_start = self._start

    def __call__(self, update: ProgressUpdate) -> None:
        now = time.monotonic()
        if update.workload and update.activity != "preparing" and [update.workload] != self._seen[-1:]:
            # After everyone's first rounds each workload has its turn again.
            self._seen = [*(self._seen if update.workload not in self._seen else []), update.workload]
            self._workload_start = now
        line = self.status(update, now)
        self._display.show(line)
        activity = (update.workload, update.activity)
        if not self._display.redraws and (activity != self._logged_activity or now - self._logged_s >= LOG_EVERY_S):
            self._logged_s, self._logged_activity = now, activity
            self._display.log(line)

    def status(self, update: ProgressUpdate, now: float) -> str:
        where = " / ".join(part for part in (update.workload, update.subject) if part)
        done = f"{update.number} of {update.total}" if update.total > 1 else ""
        elapsed = f"{clock(now - self._start)} elapsed{self._left(update, now)}"
        parts = [update.activity, where, done, self._decided(), elapsed]
        return "measure " + " | ".join(part for part in parts if part)

    def _left(self, update: ProgressUpdate, now: float) -> str:
        """Return the time left: the rest of this workload at its own pace, later ones at the pace of earlier ones.

        It is an upper bound: rows that are decided before the last round take less, and a budget may end it.
        """
        if update.number == 0 or not update.workload or update.activity == "profile":
            return ""
        in_this = now - self._workload_start
        rest = in_this * (update.total - update.number) / update.number
        to_come = (self._workloads - len(self._seen)) * (now - self._start + rest) / len(self._seen)
        return f", at most {clock(min(rest + to_come, self._budget_left_s()))} left"


# Marks a row whose interpreter was optimised in another way than the baseline's, which its ratio includes.
BUILT_OTHERWISE = "built otherwise"
STYLES = {Verdict.FASTER: "green", Verdict.SLOWER: "red", Verdict.UNDECIDED: "dim"}

# (workload, benchmark, label)
RowKey = tuple[str, str, str]


class DecidedRows:
    """Called after each look: a row is shown once, when it is decided or when it is not measured any more.

    The fastest row of a look comes first, undecided rows come last. Rows of a workload that was disturbed too much to
    decide by count as undecided.
    """

    def __init__(self, display: Display, baseline: str) -> None:
        self.display, self._baseline = display, baseline  # the next stage may have another display
        self._shown: dict[RowKey, Comparison] = {}
        self._open: dict[tuple[str, str], int] = {}
        self._disturbed: set[str] = set()

    def __call__(self, look: Look) -> None:
        place = (look.workload.name, look.benchmark.name)
        rows = {pair[0]: comparison for pair, comparison in look.comparisons.items() if pair[1] == self._baseline}
        new = [
            ((*place, label), comparison)
            for label, comparison in rows.items()
            if (*place, label) not in self._shown and (look.is_last or comparison.verdict is not Verdict.UNDECIDED)
        ]
        new.sort(key=lambda row: (row[1].verdict is Verdict.UNDECIDED, row[1].ratio.estimate))
        for key, comparison in new:
            self._shown[key] = comparison
            said = line(key, comparison, built_otherwise=key[2] in look.built_otherwise)
            self.display.log(said, STYLES.get(comparison.verdict, ""))
        self._open[place] = sum((*place, label) not in self._shown for label in rows)

    def on_disturbed(self, workload: str, sentence: str) -> None:
        """Say at once what makes a workload's rows worthless: it may be stopped before more is measured in vain."""
        self._disturbed.add(workload)
        self.display.log(f"warning {workload}: {sentence}", "yellow")

    @property
    def counts(self) -> str:
        """Return how many of the rows that were looked at are decided; empty before the first look."""
        decided = sum(
            comparison.verdict is not Verdict.UNDECIDED and workload not in self._disturbed
            for (workload, _, _), comparison in self._shown.items()
        )
        total = len(self._shown) + sum(self._open.values())
        return f"{decided} of {total} rows decided" if total else ""


def line(key: RowKey, comparison: Comparison, *, built_otherwise: bool = False) -> str:
    """Return a row as a line of a log."""
    workload, benchmark, label = key
    state = "open   " if comparison.verdict is Verdict.UNDECIDED else "decided"
    last = f" | {BUILT_OTHERWISE}" if built_otherwise else ""
    rounds = rounds_text(comparison.ratio.rounds)
    return f"{state} {workload} / {benchmark} | {label} {comparison_text(comparison)} | {rounds}{last}"
