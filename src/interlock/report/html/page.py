"""The report as one HTML file that fetches nothing. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import jinja2

from interlock.analysis.comparison import Table, summaries
from interlock.analysis.not_measured import every_reason
from interlock.catalog.types import TWIN, slug
from interlock.report import experiment as report
from interlock.report.html.colours import variables
from interlock.report.html.dots import Dots, answer_dots, dots_of
from interlock.report.html.heat_map import SHADES, heat_map
from interlock.report.opening import GOES_ON, NOT_KNOWN, Opening, ended_lines, folded_rows, time_section
from interlock.report.tables import Section, capitalized, is_of_numbers, one_line
from interlock.results.experiments import Experiment
from interlock.untrusted import printable

RELOAD_S = 20
# How many rows of what changed, and of what is open, are not folded.
SHOWN_ROWS = 12


def page(
    experiment: Experiment,
    tables: Sequence[Table],
    opening: Opening = NOT_KNOWN,
    *,
    goes_on: bool = False,
) -> str:
    """Return the whole report of an experiment as one HTML file, which loads itself again if the experiment goes on."""
    means = {summary.label: summary.ratio.estimate for summary in summaries(experiment, tables) if summary.ratio}
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("interlock.report.html"),
        autoescape=True,
        # Text that is marked as safe is the template's own, or was checked before.
        finalize=lambda value: printable(value) if type(value) is str else value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.j2").render(
        experiment=experiment,
        tables=tables,
        names=list(dict.fromkeys(cell.label for cell in experiment.cells if cell.mode != TWIN)),
        workloads=_by_workload(tables),
        calls=report.profile_sections(tables),
        means=means | {experiment.settings.baseline: 1.0},
        summary=report.summary_section(experiment, tables),
        curves=report.scaling_sections(experiment, tables),
        images=report.image_section(experiment),
        heat=heat_map(tables),
        shades=list(SHADES),
        opening=opening,
        answered=answer_dots(tables, opening.pick) if opening.pick else None,
        differences=folded_rows(opening, tables, experiment.settings.baseline, SHOWN_ROWS),
        noise=math.exp(max((abs(table.twin.log) for table in tables if table.twin), default=0.0)),
        machine=machine(experiment),
        warnings=[one_line(warning) for warning in experiment.warnings],
        missing=every_reason(experiment),
        legend=report.LEGEND,
        time=time_section(experiment),
        is_of_numbers=is_of_numbers,
        capitalized=capitalized,
        slug=slug,
        # Cleaned as a whole, because a control sequence is not seen in a part of it.
        ended=[] if goes_on else [printable(line) for line in ended_lines(experiment, tables)],
        lacking=printable(opening.lacking),
        goes_on=f"{GOES_ON} The page loads itself again every {RELOAD_S} s until you use it." if goes_on else "",
        reload_s=RELOAD_S,
        light=variables("light"),
        dark=variables("dark"),
    )


@dataclass(frozen=True)
class BenchmarkPart:
    """A benchmark in the page: its chart (None without a ratio), and the report's tables of it."""

    title: str
    dots: Dots | None
    sections: list[Section]


def _by_workload(tables: Sequence[Table]) -> dict[str, list[BenchmarkPart]]:
    """Return the benchmarks by workload."""
    parts: defaultdict[str, list[BenchmarkPart]] = defaultdict(list)
    for table in tables:
        sections = [report.benchmark_section(table), *report.detail_sections([table])]
        title = f"{table.workload.name} {table.benchmark.name}"
        parts[table.workload.name].append(BenchmarkPart(title, dots_of(table), sections))
    return parts


def machine(experiment: Experiment) -> list[tuple[str, str]]:
    """Return the lines of the report's head by their first word, without warnings and the command."""
    lines = (line.split(maxsplit=1) for line in report.headline(experiment))
    return [(word, text) for word, text in lines if word not in {"warning", "repeat"}]
