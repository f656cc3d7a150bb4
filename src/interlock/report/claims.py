"""Verdicts on claims: for a terminal, as Markdown, as JSON, and as a gate that fails. Pure."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from interlock.analysis.claims import ClaimVerdict, Finding, figure_text
from interlock.catalog.claims import Bound, Claim
from interlock.errors import ClaimError
from interlock.report.tables import markdown_table, markdown_text
from interlock.results.experiments import Experiment
from interlock.results.json_documents import CheckedClaim, CheckedClaims, TestedRatio

STYLES = {
    ClaimVerdict.CONFIRMED: "green",
    ClaimVerdict.STRONGER: "green",
    ClaimVerdict.WEAKER: "yellow",
    ClaimVerdict.NO_EFFECT: "red",
    ClaimVerdict.OPPOSITE: "red",
    ClaimVerdict.UNDECIDED: "",
    ClaimVerdict.NOT_TESTABLE: "",
    ClaimVerdict.NO_DATA: "dim",
}


# How many claims a terminal shows without --full.
MOST_LINES = 35
COLUMNS = ("claim", "published", "ours", "verdict")


def terminal(findings: Sequence[Finding]) -> RenderableType:
    """Return the table of claims, the reasons, and the number of claims by verdict."""
    reasons = [part for finding in findings for part in _reason(finding)]
    return Group(_table(findings), Text(), *reasons, Text(), Text(total(findings)))


def brief(findings: Sequence[Finding]) -> RenderableType:
    """Return the verdicts on the claims in at most forty lines, the contradicted ones first."""
    tested = [finding for finding in findings if not finding.verdict.silent]
    ordered = sorted(tested, key=lambda finding: (not finding.verdict.contradicts, not finding.claim.required))
    parts: list[RenderableType] = [Text(total(findings), style="bold")]
    parts += [_table(ordered[:MOST_LINES])] if ordered else []
    left = f"{len(ordered) - MOST_LINES} more and " if len(ordered) > MOST_LINES else ""
    return Group(*parts, Text(f"{left}the reasons for each with --full", style="dim"))


def markdown(experiment: Experiment, findings: Sequence[Finding]) -> str:
    """Return the table of claims and the reasons as Markdown; claims without data are only named."""
    known = [finding for finding in findings if finding.verdict is not ClaimVerdict.NO_DATA]
    lines = [f"# Claims on experiment {experiment.name}", "", total(findings) + ".", ""]
    if known:
        lines += markdown_table(COLUMNS, map(_cells, known))
    if unknown := [finding.claim.name for finding in findings if finding not in known]:
        lines += ["", f"No data: {', '.join(unknown)}."]
    for finding in known:
        lines += ["", f"**{finding.claim.name}: {finding.verdict.value}**", ""]
        lines += [f"- {line}" for line in _sentences(finding)]
    return markdown_text(lines) + "\n"


def total(findings: Sequence[Finding]) -> str:
    """Return how many claims there are, and how many of each verdict."""
    counts = Counter(finding.verdict for finding in findings)
    total = "; ".join(f"{counts[verdict]} {verdict.value}" for verdict in ClaimVerdict if counts[verdict])
    return f"{len(findings)} claims: {total}"


def _cells(finding: Finding) -> tuple[str, ...]:
    return finding.claim.name, published_text(finding.claim), finding.figure, finding.verdict.value


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


def published_text(claim: Claim) -> str:
    """Return the published figure, its bound and its tolerance."""
    bound = "" if claim.bound is Bound.EXACT else f"{claim.bound.value.replace('-', ' ')} "
    tolerance = f" ±{100 * claim.tolerance:.3g} %" if claim.tolerance else ""
    return f"{bound}{figure_text(claim.published)}{tolerance}"


def _reason(finding: Finding) -> list[RenderableType]:
    heading = Text(f"{finding.claim.name}: {finding.verdict.value}", style="bold")
    return [heading, Padding(Text("\n".join(_sentences(finding))), (0, 0, 0, 2), expand=False)]


def _sentences(finding: Finding) -> list[str]:
    """Return the sentences about a claim: its statement, what was compared with it, and its note."""
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
    """Return the findings as JSON; an infinite end of an interval is null."""
    checked = [
        CheckedClaim(
            claim=finding.claim,
            verdict=finding.verdict.value,
            reason=finding.reason,
            ratio=finding.ratio and TestedRatio(**vars(finding.ratio)),
            count=finding.count,
        )
        for finding in findings
    ]
    return CheckedClaims(experiment=experiment.name, host=experiment.host, findings=checked).model_dump_json(indent=1)


def check_required(folder: Path, findings: Sequence[Finding], file: Path | None = None) -> None:
    """Raise ClaimError if the experiment in `folder` shows no effect, or the opposite, of a required claim.

    `file` has the claims if they are not the project's.
    """
    contradicted = [finding for finding in findings if finding.claim.required and finding.verdict.contradicts]
    if contradicted:
        words = [str(folder), *(["--claims", str(file)] if file else [])]
        shown = f"`interlock claims {shlex.join(words)}` shows the figures"
        raise ClaimError(
            file=str(folder),
            key=", ".join(finding.claim.name for finding in contradicted),
            found=f"required: {'; '.join(f'{finding.verdict}: {finding.reason}' for finding in contradicted)}",
            todo=f"{shown}; correct the claim, or remove its `required`.",
        )
