"""Findings about claims: for a terminal, as Markdown, for programs, and as a gate. Pure."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from interlock import markdown as md
from interlock.claims import Finding, Verdict, number
from interlock.errors import ClaimError
from interlock.model import Bound, Claim, Experiment

STYLES = {
    Verdict.CONFIRMED: "green",
    Verdict.REFUTED: "red",
    Verdict.NOT_TESTABLE: "",
    Verdict.NO_DATA: "dim",
}


COLUMNS = ("claim", "published", "ours", "verdict")


def terminal(findings: Sequence[Finding]) -> RenderableType:
    """A table, the reasons, and the number of claims by verdict."""
    reasons = [part for finding in findings for part in _reason(finding)]
    return Group(_table(findings), Text(), *reasons, Text(), Text(_total(findings)))


def markdown(experiment: Experiment, findings: Sequence[Finding]) -> str:
    """The same as Markdown."""
    lines = [f"# Claims on experiment {experiment.name}", "", _total(findings) + ".", ""]
    lines += md.table(COLUMNS, map(_cells, findings))
    for finding in findings:
        lines += ["", f"**{finding.claim.name}: {finding.verdict.value}**", ""]
        lines += [f"- {line}" for line in _sentences(finding)]
    return "\n".join(lines) + "\n"


def _total(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.verdict for finding in findings)
    total = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])
    return f"{len(findings)} claims: {total}"


def _cells(finding: Finding) -> tuple[str, ...]:
    return finding.claim.name, _published(finding.claim), finding.figure, finding.verdict.value


def _table(findings: Sequence[Finding]) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False)
    name, published, ours, verdict = COLUMNS
    table.add_column(name, no_wrap=True)
    table.add_column(published, justify="right")
    table.add_column(ours, justify="right")
    table.add_column(verdict)
    for finding in findings:
        table.add_row(*map(Text, _cells(finding)), style=STYLES[finding.verdict])
    return table


def _published(claim: Claim) -> str:
    bound = "" if claim.bound is Bound.EXACT else f"{claim.bound.value.replace('-', ' ')} "
    tolerance = f" ±{100 * claim.tolerance:.3g} %" if claim.tolerance else ""
    return f"{bound}{number(claim.published)}{tolerance}"


def _reason(finding: Finding) -> list[RenderableType]:
    heading = Text(f"{finding.claim.name}: {finding.verdict.value}", style="bold")
    return [heading, Padding(Text("\n".join(_sentences(finding))), (0, 0, 0, 2), expand=False)]


def _sentences(finding: Finding) -> list[str]:
    """What was claimed, what was compared with it, and what came of it."""
    claim = finding.claim
    return [
        f"{claim.statement} ({claim.source.author}, {claim.source.date})",
        f"{_compared(claim)}: {finding.reason}.",
        *([claim.note] if claim.note else []),
    ]


def _compared(claim: Claim) -> str:
    what = f"{', '.join(claim.syscalls) or claim.metric.value} of {claim.variant}"
    where = f"{claim.workload} / {claim.benchmark}"
    if claim.against is None:
        return f"{what} in {where}"
    if claim.against_benchmark is None:
        return f"{what} to {claim.against} in {where}"
    return f"{what} in {where} to {claim.against} in {claim.workload} / {claim.against_benchmark}"


def as_json(experiment: Experiment, findings: Sequence[Finding]) -> str:
    """The same for programs; an interval's end that lies in infinity is null."""
    plain = {"experiment": experiment.name, "host": experiment.host, "findings": [_plain(one) for one in findings]}
    return json.dumps(plain, indent=1)


def _plain(finding: Finding) -> dict[str, Any]:
    ratio = finding.ratio and {key: one if math.isfinite(one) else None for key, one in vars(finding.ratio).items()}
    return {
        "claim": finding.claim.model_dump(mode="json"),
        "verdict": finding.verdict.value,
        "reason": finding.reason,
        "ratio": ratio,
        "count": finding.count,
    }


def check_required(folder: Path, findings: Sequence[Finding]) -> None:
    """ClaimError names the required claims that the experiment in `folder` refutes."""
    refuted = [one for one in findings if one.claim.required and one.verdict is Verdict.REFUTED]
    if refuted:
        raise ClaimError(
            file=str(folder),
            key=", ".join(one.claim.name for one in refuted),
            found=f"refuted, and required: {'; '.join(one.reason for one in refuted)}",
            todo="`interlock claims` shows the figures.",
        )
