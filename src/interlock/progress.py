"""Live progress of builds and cells: redrawn in place on a terminal, a line per event elsewhere."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping

from rich.console import Console
from rich.live import Live
from rich.text import Text

from interlock.model import State
from interlock.stage import Step

UNBUILT = {"unchanged", "pulled"}
ENDS = {*UNBUILT, *(state.value for state in State)}
# In a log, a line for each process would be thousands, and so would one for each part of a download.
LOG_EVERY_S = 10.0
AMOUNT = re.compile(r"\d+ of \d+ MB")


def clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d}"


class Display:
    """A status text that is redrawn on a terminal; `log` lines are what stays, and all there is elsewhere."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None

    def __enter__(self) -> Display:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def show(self, status: str) -> None:
        if self._live:
            self._live.update(Text(status, overflow="ellipsis", no_wrap=True))

    def log(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=True)

    @property
    def redraws(self) -> bool:
        return self._live is not None


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
                self._steps.pop("base", None)
            if step in ENDS:
                self._ended[variant] = step
                self._steps.pop(variant, None)
                self._display.log(f"build   {variant}  {step} {clock(now - self._started[variant])}")
            else:
                self._steps[variant] = step
                if not self._display.redraws and self._is_news(step, now):
                    self._display.log(f"build   {variant}  {step} {clock(now - self._started[variant])}")
            self._display.show(self.status(now))

    def _is_news(self, step: str, now: float) -> bool:
        """How far a download is, is told now and then."""
        if not AMOUNT.search(step):
            return True
        if now - self._amount_s < LOG_EVERY_S:
            return False
        self._amount_s = now
        return True

    def status(self, now: float) -> str:
        running = [
            f"{variant}  {step} {clock(now - self._started[variant])}{self._of_about(variant)}"
            for variant, step in self._steps.items()
        ]
        ended = len(self._ended.keys() - {"base"})
        counted = f"{ended} of {self._total} done, {clock(now - self._start)} elapsed{self._left(now)}"
        return "build   " + " | ".join([*running, counted])

    def _of_about(self, variant: str) -> str:
        usual = self._usual_s.get(variant)
        return f" of about {clock(usual)}" if usual else ""

    def _left(self, now: float) -> str:
        """From how long the builds took before; if that is not known of all, from the pace of this run."""
        ended = self._ended.keys() - {"base"}
        to_come = self._usual_s.keys() - ended
        if to_come and len(to_come) == self._total - len(ended):
            spent_s = sum(now - self._started[variant] for variant in self._steps.keys() & to_come)
            side_by_side = max(1, len(self._steps))
            left_s = (sum(self._usual_s[variant] for variant in to_come) - spent_s) / side_by_side
            return f", about {clock(max(0, left_s))} left"
        built = sum(1 for state in self._ended.values() if state not in UNBUILT)
        share = built / max(1, self._total - (len(ended) - built))
        return f", about {clock((now - self._start) * (1 - share) / share)} left" if 0 < share < 1 else ""


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
        line = f"{self._verb:7} {subject}  {step} {clock(now - began)}"
        self._display.show(f"{line} | {self._ended} of {self._total} done, {clock(now - self._start)} elapsed")
        if not self._display.redraws and now - self._logged_s >= LOG_EVERY_S:
            self._logged_s = now
            self._display.log(line)

    def end(self, subject: str, state: str) -> None:
        self._ended += 1
        took_s = time.monotonic() - self._began.get(subject, time.monotonic())
        self._display.log(f"{self._verb:7} {subject}  {state} {clock(took_s)}")


class MeasureProgress:
    """Called before each process of the measuring and profiling passes."""

    def __init__(self, display: Display, workloads: int) -> None:
        self._display, self._workloads = display, workloads
        self._start = time.monotonic()
        self._seen: list[str] = []
        self._logged_s = 0.0
        self._logged_stage = ("", "")
        self._workload_start = self._start

    def __call__(self, step: Step) -> None:
        now = time.monotonic()
        if step.stage != "preparing" and step.workload not in self._seen:
            self._seen.append(step.workload)
            self._workload_start = now
        line = self.status(step, now)
        self._display.show(line)
        stage = (step.workload, step.stage)
        if not self._display.redraws and (stage != self._logged_stage or now - self._logged_s >= LOG_EVERY_S):
            self._logged_s, self._logged_stage = now, stage
            self._display.log(line)

    def status(self, step: Step, now: float) -> str:
        where = " / ".join(part for part in (step.workload, step.subject) if part)
        done = f"{step.number} of {step.total}" if step.total > 1 else ""
        parts = [step.stage, where, done, f"{clock(now - self._start)} elapsed{self._left(step, now)}"]
        return "measure " + " | ".join(part for part in parts if part)

    def _left(self, step: Step, now: float) -> str:
        """The rest of this workload at its own pace, the workloads to come at the pace of those before."""
        if step.number == 0 or step.stage == "profile":
            return ""
        in_this = now - self._workload_start
        rest = in_this * (step.total - step.number) / step.number
        to_come = (self._workloads - len(self._seen)) * (now - self._start + rest) / len(self._seen)
        return f", about {clock(rest + to_come)} left"
