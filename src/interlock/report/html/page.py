"""The report as one HTML file that fetches nothing.

Pure, but for the copy of Vega in the user's cache.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import jinja2
import vl_convert

from interlock.analysis.claims import ClaimVerdict, Finding, allowed_text, figure_text
from interlock.analysis.comparison import Table, summaries
from interlock.analysis.not_measured import every_reason
from interlock.catalog.project import cache_folder
from interlock.report import experiment as report
from interlock.report.html import charts
from interlock.report.html import frames as figures
from interlock.report.html.drawing import NARROW, WIDE, Chart, token, variables
from interlock.report.html.frames import Frame, top_calls
from interlock.report.html.heat_map import SHADES, heat_map
from interlock.report.opening import (
    CHANGED,
    GOES_ON,
    NOT_KNOWN,
    OPEN,
    ComparedRow,
    Opening,
    differences_section,
    ended_lines,
    time_section,
)
from interlock.report.tables import Section, is_of_numbers, one_line
from interlock.results.experiments import Experiment
from interlock.results.files import write_atomically
from interlock.untrusted import printable

RELOAD_S = 20
SIGNIFICANT_DIGITS = 6
# Of what changed and of what is open the rows that are not folded.
SHOWN_ROWS = 12


def page(
    experiment: Experiment,
    tables: Sequence[Table],
    findings: Sequence[Finding],
    opening: Opening = NOT_KNOWN,
    *,
    goes_on: bool = False,
) -> str:
    """Return the whole report of an experiment as one HTML file, which loads itself again if the experiment goes on."""
    frames = figures.frames(tables)
    drawn = all_charts(tables, frames)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("interlock.report.html"),
        autoescape=True,
        # Of what is safe already the template has the text itself, or it was looked at before.
        finalize=lambda value: printable(value) if type(value) is str else value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.j2").render(
        experiment=experiment,
        tables=tables,
        names=figures.variant_names(experiment),
        charts=drawn,
        workloads=_workloads(tables),
        sections=sections_behind(tables),
        summary=report.summary_section(experiment, tables),
        curves=report.scaling_sections(experiment, tables),
        images=report.image_section(experiment),
        heat=heat_map(tables),
        shades=list(SHADES),
        opening=opening,
        differences=[
            _folded(title, rows, tables, experiment.settings.baseline)
            for title, rows in ((CHANGED, opening.differences), (OPEN, opening.undecided))
        ],
        noise=math.exp(max((abs(table.twin.log) for table in tables if table.twin), default=0.0)),
        machine=machine(experiment),
        warnings=[one_line(warning) for warning in experiment.warnings],
        missing=every_reason(experiment),
        findings=_by_verdict(findings),
        allowed_text=allowed_text,
        number=figure_text,
        legend=report.LEGEND,
        time=time_section(experiment),
        is_of_numbers=is_of_numbers,
        # As a whole: what steers a terminal is not seen in a part of it.
        ended=[] if goes_on else [printable(line) for line in ended_lines(experiment, tables)],
        lacking=printable(opening.lacking),
        goes_on=f"{GOES_ON} The page loads itself again every {RELOAD_S} s." if goes_on else "",
        reload_s=RELOAD_S,
        token=token,
        light=variables("light"),
        dark=variables("dark"),
        payload=_zipped(payload(experiment, tables, frames, drawn, opening)),
        bundle=_zipped_bundle(),
    )


def _zipped(text: str) -> str:
    """Return a text as gzip in base64: the page unpacks it, which takes a tenth of a second and saves two thirds."""
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def _zipped_bundle() -> str:
    """Return Vega as `_zipped` does, from the user's cache if it is there: to bundle it takes two seconds."""
    path = cache_folder() / "vega" / f"{metadata.version('vl-convert-python')}.txt"
    if not path.is_file():
        write_atomically(path, _zipped(_bundle()))
    return path.read_text(encoding="ascii")


@dataclass(frozen=True)
class FoldedRows:
    """Rows that changed or are open: some to be seen at once, and the others by what they are."""

    title: str
    shown: Section
    folded: dict[str, Section]


def _folded(
    title: str, rows_of: Callable[..., list[ComparedRow]], tables: Sequence[Table], baseline: str
) -> FoldedRows:
    rows, asides = rows_of(tables), rows_of(tables, aside=True)
    rest = {"more": rows[SHOWN_ROWS:], "of modes, studies and versions without support": asides}
    return FoldedRows(
        title,
        differences_section(title, rows[:SHOWN_ROWS], baseline),
        {
            f"{len(folded)} {what}": differences_section(title, folded, baseline)
            for what, folded in rest.items()
            if folded
        },
    )


def _bundle() -> str:
    """Return Vega, Vega-Lite and Vega-Embed in the versions that Altair's specifications are for."""
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")


def payload(
    experiment: Experiment,
    tables: Sequence[Table],
    frames: Mapping[str, Frame],
    drawn: Sequence[Chart],
    opening: Opening = NOT_KNOWN,
) -> str:
    """Return the charts and their data as JSON."""
    means = {summary.label: summary.ratio and summary.ratio.estimate for summary in summaries(experiment, tables)}
    data = {
        "variants": figures.variant_names(experiment),
        "asides": sorted(opening.asides),
        "means": means | {experiment.settings.baseline: 1},
        "frames": {name: _packed(frame) for name, frame in frames.items()},
        "charts": {chart.name: _chart(chart) for chart in drawn},
    }
    return json.dumps(_shown(data), separators=(",", ":"), allow_nan=False)


def _packed(frame: Frame) -> dict[str, Any]:
    """Return a frame as columns and rows, without a repetition of keys."""
    keys = list(frame[0]) if frame else []
    return {"columns": keys, "rows": [[record[key] for key in keys] for record in frame]}


def _chart(chart: Chart) -> dict[str, Any]:
    return {
        "frame": chart.frame,
        "where": chart.where,
        "needs": chart.needs,
        "stepPx": {"wide": WIDE.step_px, "narrow": NARROW.step_px},
        "wide": chart.specification(WIDE),
        "narrow": chart.specification(NARROW),
    }


def _shown(value: Any) -> Any:
    """Return data with as many digits as are shown, and texts without what steers a terminal."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, float):
        return float(f"{value:.{SIGNIFICANT_DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: _shown(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(item) for item in value]
    return value


def _workloads(tables: Sequence[Table]) -> dict[str, list[str]]:
    """Return the keys of the benchmarks by workload."""
    keys: defaultdict[str, list[str]] = defaultdict(list)
    for table in tables:
        keys[table.workload.name].append(figures.key_of(table))
    return keys


def sections_behind(tables: Sequence[Table]) -> dict[tuple[str, str], list[Section]]:
    """Return the report's tables by the frame of a chart and what it is of: they stand below it."""
    behind: dict[tuple[str, str], list[Section]] = {}
    for table in tables:
        details = report.detail_section(table)
        behind["ratios", figures.key_of(table)] = [*report.benchmark_sections([table]), *([details] if details else [])]
        if profiled := report.profile_sections([table]):
            behind["calls", figures.key_of(table)] = profiled
    return behind


def machine(experiment: Experiment) -> list[tuple[str, str]]:
    """Return the lines of the report's head by their first word, without warnings and the command."""
    lines = (line.split(maxsplit=1) for line in report.headline(experiment))
    return [(word, text) for word, text in lines if word not in {"warning", "repeat"}]


def _by_verdict(findings: Sequence[Finding]) -> dict[ClaimVerdict, list[Finding]]:
    grouped = {verdict: [finding for finding in findings if finding.verdict is verdict] for verdict in ClaimVerdict}
    return {verdict: of_verdict for verdict, of_verdict in grouped.items() if of_verdict}


def all_charts(tables: Sequence[Table], frames: Mapping[str, Frame]) -> list[Chart]:
    """Return the charts that the experiment has data for, in the order of the page."""
    named = top_calls(frames["calls"])
    charts_or_none = [
        *(charts.benchmark_chart(table, frames["ratios"]) for table in tables),
        *(charts.calls_chart(table, frames["calls"], named) for table in tables),
    ]
    return [chart for chart in charts_or_none if chart]
