"""The report as one HTML file: everything in it, nothing fetched. Pure: figures in, text out."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import jinja2
import vl_convert

from interlock import report
from interlock.claims import Finding, Verdict, allowed, number
from interlock.compare import Table, band_of
from interlock.html import charts, columns, figures
from interlock.html.colours import token, variables
from interlock.html.drawing import NARROW, WIDE, Chart
from interlock.html.figures import Frame, Record
from interlock.model import Bound, Claim, Experiment, State
from interlock.sections import one_line

# So many names are listed; more of them can be unfolded.
LISTED = 6
LONG_WARNING = 220
SIGNIFICANT_DIGITS = 6


@dataclass(frozen=True)
class Group:
    """Variants of which the summary says the same."""

    title: str
    says: str
    colour: str
    members: list[Record]


@dataclass(frozen=True)
class Reason:
    """Why there is no figure, and where: variants by the benchmarks; all of them have no name."""

    state: str
    reason: str
    where: dict[str, list[str]]

    @property
    def count(self) -> int:
        return sum(map(len, self.where.values()))


def page(experiment: Experiment, tables: Sequence[Table], findings: Sequence[Finding]) -> str:
    """The whole report of an experiment."""
    frames = figures.frames(experiment, tables, findings)
    drawn = charts.all_charts(tables, frames)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("interlock.html"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.j2").render(
        experiment=experiment,
        tables=tables,
        names=figures.variant_names(experiment),
        listed=LISTED,
        charts={chart.name: chart for chart in drawn},
        by_kind=_by_kind(drawn),
        detailed=columns.detailed(drawn, tables),
        groups=groups(frames["summary"]),
        noise=max((band_of(table.twin) for table in tables), default=1.0),
        machine=machine(experiment),
        warnings=[(one, _short(one)) for one in map(one_line, experiment.warnings)],
        reasons=reasons(experiment, tables),
        findings=_by_verdict(findings),
        allowed_text=allowed_text,
        number=number,
        legend=report.LEGEND,
        token=token,
        light=variables("light"),
        dark=variables("dark"),
        payload=payload(experiment, tables, frames, drawn),
        bundle=_bundle(),
    )


@cache
def _bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed in the versions that Altair's specifications are for."""
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")


def payload(
    experiment: Experiment, tables: Sequence[Table], frames: Mapping[str, Frame], drawn: Sequence[Chart]
) -> str:
    """The data, once, with the charts and tables that read it: JSON that cannot end the element it stands in."""
    texts = columns.profiles(tables) | columns.details(tables)
    data = {
        "variants": figures.variant_names(experiment),
        "means": {one["variant"]: one["ratio"] for one in frames["summary"]} | {experiment.settings.baseline: 1},
        "frames": {name: _packed(frame) for name, frame in (dict(frames) | texts).items()},
        "charts": {chart.name: _chart(chart) for chart in drawn},
        "tables": columns.tables(drawn, texts | dict(frames)),
    }
    return json.dumps(_rounded(data), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _packed(frame: Frame) -> dict[str, Any]:
    """A frame without the repetition of its keys."""
    keys = list(frame[0]) if frame else []
    return {"columns": keys, "rows": [[record[key] for key in keys] for record in frame]}


def _chart(chart: Chart) -> dict[str, Any]:
    return {
        "frame": chart.frame,
        "where": chart.where,
        "row": chart.row,
        "bestFirst": chart.best_first,
        "needs": chart.needs,
        "columns": asdict(chart.columns) if chart.columns else None,
        "stepPx": {"wide": chart.place(WIDE).step_px, "narrow": chart.place(NARROW).step_px},
        "wide": chart.specification(WIDE),
        "narrow": chart.specification(NARROW),
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{SIGNIFICANT_DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in value]
    return value


def _by_kind(drawn: Sequence[Chart]) -> dict[str, list[Chart]]:
    """The charts of which there is one for each benchmark, by the first word of their names."""
    kinds: defaultdict[str, list[Chart]] = defaultdict(list)
    for chart in drawn:
        if chart.where:
            kinds[chart.frame].append(chart)
    return kinds


def groups(summary: Frame) -> list[Group]:
    """The answer in short: who takes less time over all benchmarks, who more, and of whom neither can be said."""
    ranked = sorted((one for one in summary if one["ratio"] is not None), key=lambda one: one["ratio"])
    kinds = [
        ("less time", "Less time", "the whole interval of the mean is below 1", "faster"),
        ("not clear", "No clear change", "the interval of the mean holds 1", "same"),
        ("more time", "More time", "the whole interval of the mean is above 1", "slower"),
    ]
    return [
        Group(title, says, token(colour), [one for one in ranked if one["side"] == side])
        for side, title, says, colour in kinds
    ]


def machine(experiment: Experiment) -> list[tuple[str, str]]:
    """The lines of the report's head, by their first word; warnings and the command have places of their own."""
    lines = (line.split(maxsplit=1) for line in report.headline(experiment))
    return [(word, text) for word, text in lines if word not in {"warning", "repeat"}]


def reasons(experiment: Experiment, tables: Sequence[Table]) -> list[Reason]:
    """Every state that is not ok, with its reason and the variants and benchmarks that have it."""
    found: defaultdict[tuple[str, str], defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for table in tables:
        for row in table.rows:
            if row.outcome.state is not State.OK:
                found[row.outcome.state.value, one_line(row.outcome.reason)][row.label].append(figures.key_of(table))
    for cell in experiment.cells:
        if cell.profile and cell.profile.state is not State.OK:
            found["no profile", one_line(cell.profile.reason)][cell.label].append(cell.workload)
    return [Reason(state, reason, _by_benchmarks(where, len(tables))) for (state, reason), where in found.items()]


def _by_benchmarks(where: Mapping[str, list[str]], of: int) -> dict[str, list[str]]:
    """Benchmarks of each variant -> variants by their benchmarks."""
    grouped: defaultdict[str, list[str]] = defaultdict(list)
    for label, keys in where.items():
        grouped["" if len(keys) == of else ", ".join(keys)].append(label)
    return grouped


def _by_verdict(findings: Sequence[Finding]) -> dict[Verdict, list[Finding]]:
    grouped = {verdict: [one for one in findings if one.verdict is verdict] for verdict in Verdict}
    return {verdict: found for verdict, found in grouped.items() if found}


def allowed_text(claim: Claim) -> str:
    """What agrees with a claim: a figure, a range, or a limit."""
    low, high = (number(end) for end in allowed(claim))
    if claim.bound is Bound.AT_MOST:
        return f"at most {high}"
    if claim.bound is Bound.AT_LEAST:
        return f"at least {low}"
    return low if low == high else f"{low} to {high}"


def _short(warning: str) -> str | None:
    """A long warning with its lists of names counted instead of told; none for one that is short."""
    if len(warning) <= LONG_WARNING:
        return None
    return re.sub(r"\(([^()]*,[^()]*)\)", lambda found: f"({found[1].count(',') + 1} of them)", warning)
