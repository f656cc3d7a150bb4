"""Verdicts as they fall: a table that fills up on a terminal, a line for each elsewhere."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from interlock.analysis.verdicts import Comparison, Verdict
from interlock.cli.progress import Display
from interlock.measure.cells import Look
from interlock.report.experiment import comparison_text

# Lines of a terminal that the table leaves to what goes on below it.
BELOW = 8
COLUMNS = ("workload", "benchmark", "variant", "ratio to the baseline", "rounds")
STYLES = {Verdict.FASTER: "green", Verdict.SLOWER: "red", Verdict.UNDECIDED: "dim"}

# (workload, benchmark, label)
RowKey = tuple[str, str, str]


class DecidedRows:
    """Called after each look: a row is shown once, when it is decided or when nothing more is measured of it.

    Of one look the fastest row comes first, what stayed undecided last.
    """

    def __init__(self, display: Display, baseline: str) -> None:
        self._display, self._baseline = display, baseline
        self._shown: dict[RowKey, Comparison] = {}
        self._open: dict[tuple[str, str], int] = {}
        self._workload = ""

    def __call__(self, look: Look) -> None:
        place = (look.workload.name, look.benchmark.name)
        rows = {pair[0]: one for pair, one in look.comparisons.items() if pair[1] == self._baseline}
        new = [
            ((*place, label), one)
            for label, one in rows.items()
            if (*place, label) not in self._shown and (look.is_last or one.verdict is not Verdict.UNDECIDED)
        ]
        new.sort(key=lambda row: (row[1].verdict is Verdict.UNDECIDED, row[1].ratio.estimate))
        self._begin(place[0])
        for key, one in new:
            self._shown[key] = one
            if not self._display.redraws:
                self._display.log(line(key, one))
        self._open[place] = sum((*place, label) not in self._shown for label in rows)
        if self._display.redraws:
            self._display.set_table(self._table())

    @property
    def counts(self) -> str:
        """Return how many rows are decided, of those that were looked at; empty before the first look."""
        decided = sum(one.verdict is not Verdict.UNDECIDED for one in self._shown.values())
        total = len(self._shown) + sum(self._open.values())
        return f"{decided} of {total} rows decided" if total else ""

    def end(self) -> None:
        """Leave what the table shows on the terminal."""
        self._begin("")

    def _begin(self, workload: str) -> None:
        """Leave the table of the workload before on the terminal, and begin one for this."""
        if workload != self._workload and self._display.redraws and self._rows():
            self._display.keep(self._table(whole=True))
            self._display.set_table(None)
        self._workload = workload

    def _rows(self) -> list[tuple[RowKey, Comparison]]:
        return [(key, one) for key, one in self._shown.items() if key[0] == self._workload]

    def _table(self, *, whole: bool = False) -> Table:
        """Return the table of this workload; what does not fit the terminal is left out at its top unless `whole`."""
        table = Table(*COLUMNS, box=None, pad_edge=False, header_style="dim")
        rows = self._rows()
        for key, one in rows if whole else rows[-max(1, self._display.height - BELOW) :]:
            cells = (*key, comparison_text(one), str(one.ratio.rounds))
            table.add_row(*map(Text, cells), style=STYLES.get(one.verdict, ""))
        return table


def line(key: RowKey, one: Comparison) -> str:
    """Return a row as a line of a log."""
    workload, benchmark, label = key
    state = "open   " if one.verdict is Verdict.UNDECIDED else "decided"
    return f"{state} {workload} / {benchmark} | {label} {comparison_text(one)} | {one.ratio.rounds} rounds"
