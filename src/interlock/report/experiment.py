"""The report of one experiment as tables, for a terminal and as Markdown. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from interlock.analysis import comparison as compare
from interlock.analysis.comparison import Row, Table
from interlock.analysis.not_measured import every_reason
from interlock.analysis.scaling import Curve, CurveGroup, ThroughputPoint, curve_groups
from interlock.analysis.statistics import Interval
from interlock.analysis.verdicts import DIFFERENT, Comparison, Verdict
from interlock.catalog.workloads import Benchmark, Metric
from interlock.report.opening import GOES_ON, NOT_KNOWN, Opening, details, ended_lines, markdown_opening, time_section
from interlock.report.tables import (
    RSS,
    SHARE,
    Section,
    capitalized,
    detail_text,
    figure_text,
    label_text,
    markdown_lines,
    markdown_text,
    one_line,
    ratio_text,
    rich_parts,
    rounds_text,
    share_text,
    value_text,
)
from interlock.report.trials import headline as trial_headline
from interlock.report.why import WHY_COLUMNS, why_cells
from interlock.results.experiments import (
    CellResult,
    Experiment,
    Facts,
    State,
    bases_line,
    engine_line,
    fallback_lines,
    host_line,
)
from interlock.results.profiles import FUTEX_WAITS, FUTEX_WAKES, LOCK_CALLS, BenchmarkProfile, LockCost, Method

MOST_CALLS = 4
LEGEND = (
    "value: median of the blocks' figures, with its standard error. ratio: time per unit of work divided by the "
    "baseline's (or the control's), above 1 is slower. All rows of a table are fitted together, round by round, so "
    "that processes far off move little [95 % t interval; each row's variance is moderated by the others'; what the "
    "adjustments leave undecided has the interval that they make]. 'slower' "
    f"and 'faster': p of equals is below {DIFFERENT:g}, adjusted for the looks taken and for the ratios of the table "
    "(Benjamini and Hochberg). 'same within 5 %': a difference of that size is ruled out (two one-sided tests). "
    "'undecided': neither is shown, with about how many more rounds would show one. lock cost: futex, sched_yield "
    "and the calls of GNU pth's scheduler, and the time in them, waiting included, over all threads. The twin is the"
    " baseline's image measured as if it were another variant: what it shows is noise. summary: geometric mean over "
    "the workloads with a ratio, in each over its benchmarks that count on as many CPUs as the machine has. System "
    "calls are counted in a separate pass. A limit is what the machine does without an interpreter; share of the "
    "limit: the best limit's time per unit of work divided by the row's."
)


def headline(experiment: Experiment) -> list[str]:
    """Return the lines at the top of a report: machine, engine, settings, command and warnings."""
    host, settings, trial = experiment.host, experiment.settings, experiment.trial
    return [
        *(trial_headline(trial) if trial else []),
        f"host     {host_line(host)}",
        f"engine   {engine_line(host['engine'], bases_line(experiment.images))}",
        *(f"version  {one_line(line)}" for line in fallback_lines(experiment.images)),
        f"settings {_rounds(experiment)}{' (quick)' if settings.quick else ''}, seed {settings.seed}, "
        f"baseline {settings.baseline} ({compare.baseline_optimisation(experiment)})",
        f"run      {experiment.started}, {experiment.duration_s:.0f} s, Interlock {experiment.tool_version}",
        *_probe(experiment),
        *_left_out(experiment),
        *_rights(experiment),
        f"repeat   {experiment.command}",
        *(f"warning  {one_line(warning)}" for warning in experiment.warnings),
    ]


def _probe(experiment: Experiment) -> list[str]:
    """Return the lines about the probe and about Interlock's share of the rounds' time."""
    lines = []
    if experiment.probe:
        probe = experiment.probe
        refused = "".join(f", not {method}: {reason}" for method, reason in probe.refused.items())
        perturbs = ", which perturbs threaded work" if probe.method.perturbs else ""
        lines.append(f"probe    {probe.method}{perturbs}{refused}")
    if experiment.measuring_s:
        share = experiment.in_processes_s / experiment.measuring_s
        lines.append(f"harness  {1 - share:.0%} of the rounds' {experiment.measuring_s:.0f} s was Interlock's own")
    return lines


def _left_out(experiment: Experiment) -> list[str]:
    """Return the line about what --quick left out, if it did."""
    named = "; ".join(f"{workload}: {', '.join(names)}" for workload, names in experiment.left_out.items())
    return [f"omitted  {named} (measured without --quick)"] if named else []


def _rights(experiment: Experiment) -> list[str]:
    """Return the line about the further rights that some workloads' cells had, if any had."""
    rights = [
        f"{name}: {', '.join(workload.rights)}" for name, workload in experiment.workloads.items() if workload.rights
    ]
    return [f"rights   {'; '.join(rights)} (other cells have none: docs/workloads.md)"] if rights else []


def _rounds(experiment: Experiment) -> str:
    settings = experiment.settings
    if settings.rounds_limit is None:
        return rounds_text(settings.rounds)
    takes = {
        name: workload.quick if settings.quick else workload.full for name, workload in experiment.workloads.items()
    }
    lower = [f"{name} at most {take.rounds_limit}" for name, take in takes.items() if take.rounds_limit]
    but = f" ({', '.join(lower)})" if lower else ""
    return f"rounds {settings.rounds} to {settings.rounds_limit}{but} until decided"


def benchmark_section(table: Table) -> Section:
    """Return the table of a benchmark: value, ratios, calls and memory of every variant."""
    metric, profile = table.benchmark.metric, table.benchmark.profile_metric
    better = "higher" if metric.inverse else "lower"
    twin = f"twin {ratio_text(table.twin)}" if table.twin else "no twin"
    title = f"{table.workload.name}: {table.benchmark.name}, {metric.label}, {better} is better"
    title += f" ({cpus_and_clock_text(table)}, {rounds_text(table.rounds)}, {twin})"
    columns = (
        "variant",
        metric.label,
        f"ratio to {table.baseline}",
        "ratio to control",
        *([SHARE] if table.limits else []),
        profile.label if profile and not shows_lock_cost(table.benchmark) else f"lock cost {per_unit(profile)}",
        RSS,
        "state",
    )
    return Section(title, columns, tuple(_benchmark_row(table, row) for row in (*table.rows, *table.limits)))


def cpus_and_clock_text(table: Table) -> str:
    """Return the CPUs that a benchmark's processes may use, and its clock if that is not the wall clock."""
    clock = ", CPU time" if table.benchmark.clock == "cpu" else ""
    if table.benchmark.cpus == "one":
        return f"pinned to 1 CPU{clock}"
    return f"all {table.cores} CPUs{clock}" if table.cores > 1 else f"1 CPU{clock}"


def _benchmark_row(table: Table, row: Row) -> tuple[str, ...]:
    is_baseline = row.label == table.baseline and row.seconds is not None
    ratio = "baseline" if is_baseline else comparison_text(row.to_baseline)
    control = comparison_text(row.to_control, named=True)
    calls = calls_text(table.benchmark, row.profile)
    rss = "-" if row.max_rss_bytes is None else f"{row.max_rss_bytes / 1e6:.0f}"
    share = [share_text(row.share)] if table.limits else []
    # Their reasons are at the end of the report.
    state = ", ".join((row.outcome.state.value, *row.notes))
    return (label_text(row.label), value_text(table, row), ratio, control, *share, calls, rss, state)


def shows_lock_cost(benchmark: Benchmark) -> bool:
    """Return whether a benchmark's calls are shown as lock cost instead of as the number of calls that it names."""
    return benchmark.profile_metric is None or benchmark.profile_syscalls == LOCK_CALLS


def per_unit(metric: Metric | None) -> str:
    """Return what counts are divided by: 'per 1M imports'."""
    return metric.per if metric else "per unit of work"


def calls_text(benchmark: Benchmark, profile: BenchmarkProfile | None) -> str:
    """Return the lock cost, '0.062 futex + 6.56 sched_yield, 0.0467 ms', or the calls that a benchmark names."""
    if profile is None or benchmark.profile_metric is None:
        return "-"
    if not shows_lock_cost(benchmark):
        counted = profile.calls_shown(benchmark)
        return "-" if counted is None else figure_text(counted)
    return lock_cost_text(profile.lock_cost, benchmark.profile_metric.scale)


def lock_cost_text(cost: LockCost, scale: float = 1.0) -> str:
    """Return the calls by what makes them, each per unit of work times `scale`, and the ms in them if known."""
    calls = " + ".join(f"{figure_text(count * scale)} {name}" for name, count in cost.calls.items() if count)
    if not calls:
        return "0"
    time = "" if cost.ns is None else f", {figure_text(cost.ns * scale / 1e6)} ms"
    return f"{calls}{time}{' (only futex was counted)' if cost.futex_alone else ''}"


def comparison_text(comparison: Comparison | None, *, named: bool = False) -> str:
    """Return a ratio with its verdict, or a dash; with `named` also what it is compared with."""
    if comparison is None:
        return "-"
    text = f"{ratio_text(comparison.ratio)} {comparison.words}"
    if not named:
        return text
    return f"{text} than {comparison.other}" if comparison.verdict.differs else f"{text} ({comparison.other})"


def markdown(
    experiment: Experiment, tables: Sequence[Table], opening: Opening = NOT_KNOWN, *, goes_on: bool = False
) -> str:
    """Return the whole report as Markdown: the answer, what changed, what is open, and all the rest folded."""
    lines = [f"# Experiment {experiment.name}", "", *([GOES_ON, ""] if goes_on else [])]
    lines += markdown_opening(opening, tables, experiment.settings.baseline)
    lines += ["## Machine and settings", "", "```", *headline(experiment), "```", ""]
    section = summary_section(experiment, tables)
    lines += markdown_lines(section, capitalized(section.title))
    lines += details("How to read the tables", [LEGEND])
    lines += ["## All figures", ""]
    curves_and_details = [*scaling_sections(experiment, tables), *detail_sections(tables)]
    sections = [*map(benchmark_section, tables), *curves_and_details, *profile_sections(tables)]
    for workload in dict.fromkeys(table.workload.name for table in tables):
        mine = [section for section in sections if section.title.startswith(f"{workload}: ")]
        lines += details(workload, [line for section in mine for line in markdown_lines(section)])
    images = image_section(experiment)
    lines += details("images", markdown_lines(images, capitalized(images.title)))
    lines += [
        "## Skipped, and why",
        "",
        *[f"- {line}" for line in skipped(experiment)],
        "",
    ]
    time = time_section(experiment)
    lines += markdown_lines(time, capitalized(time.title)) if time else []
    ended = [] if goes_on else ended_lines(experiment, tables)
    lines += ["## What is open", "", *(f"- {line}" for line in ended), ""] if ended else []
    return markdown_text(lines)


def image_section(experiment: Experiment) -> Section:
    """Return the table of images: version, tag, size in MB and seconds of the build."""
    rows = tuple(
        (
            image.variant,
            facts_text(experiment.facts.get(image.variant)),
            image.tag or "-",
            f"{image.size_bytes / 1e6:.0f}" if image.size_bytes else "-",
            "reused" if image.reused else f"{image.duration_s:.0f}",
            image.outcome.state.value,
        )
        for image in experiment.images
    )
    return Section("images", ("variant", "the interpreter says", "image", "MB", "build s", "state"), rows)


def facts_text(facts: Facts | None) -> str:
    """Return an interpreter's version, thread flavour and GIL, or a dash."""
    return f"{facts.version}, {facts.thread_flavour.value}, GIL {facts.gil.value}" if facts else "-"


def profile_sections(tables: Sequence[Table]) -> list[Section]:
    """Return a table for each profiled benchmark: what the probe counted per unit of work."""
    sections_ = []
    for table in tables:
        metric = table.benchmark.profile_metric
        rows = [(row.label, row.profile) for row in table.rows if row.profile]
        if metric and rows:
            title = f"{table.workload.name}: {table.benchmark.name}, system calls {metric.per}"
            cells = tuple((label, *_profile(metric, profile)) for label, profile in rows)
            sections_.append(Section(title, PROFILE_COLUMNS, cells))
            sections_ += _why_sections(table)
    return sections_


def _why_sections(table: Table) -> list[Section]:
    """Return why each row with stacks waits: its costliest sites, with their shares of all time."""
    rows = tuple(
        (row.label, *cells)
        for row in table.rows
        if row.profile and (row.profile.why or row.profile.no_why)
        for cells in why_cells(row.profile)
    )
    title = f"{table.workload.name}: {table.benchmark.name}, why it waits"
    return [Section(title, WHY_COLUMNS, rows)] if rows else []


PROFILE_COLUMNS = (
    "variant",
    "calls",
    "most calls",
    "failed",
    "futex wait",
    "futex wake",
    "woke nobody",
    "waited ms",
    "longest wait ms",
    "locks waited for",
    "probe",
)


def _profile(metric: Metric, profile: BenchmarkProfile) -> tuple[str, ...]:
    """Return counts per unit of work, with dashes for figures that the probe does not have."""
    phase = profile.phases[profile.counted]

    def shown(count: float) -> str:
        return figure_text(metric.shown(count / profile.units))

    calls = figure_text(metric.shown(profile.calls_per_unit("all"))) if profile.knows("all") else "-"
    most = most_calls_text(profile, MOST_CALLS, metric.scale)
    failed = shown(sum(sum(counts.errors.values()) for counts in phase.syscalls.values()))
    if profile.method is not Method.BPF:
        return calls, most, "-", "-", "-", "-", "-", "-", "-", profile.method
    waits, wakes = phase.futex_of(FUTEX_WAITS), phase.futex_of(FUTEX_WAKES)
    return (
        calls,
        most,
        failed,
        shown(sum(counts.calls for counts in waits)),
        shown(sum(counts.calls for counts in wakes)),
        shown(sum(counts.woke_nobody for counts in wakes)),
        shown(sum(counts.ns for counts in waits) / 1e6),
        figure_text(max((counts.max_ns for counts in waits), default=0) / 1e6),
        str(phase.locks_waited_for),
        profile.method,
    )


def most_calls_text(profile: BenchmarkProfile, number: int, scale: float = 1.0) -> str:
    """Return the most frequent calls with counts per unit of work, which tell most about locks without futexes."""
    counts = {name: profile.calls_per_unit([name]) for name in profile.phases[profile.counted].syscalls}
    most = sorted(counts, key=lambda name: (-counts[name], name))[:number]
    return ", ".join(f"{name} {figure_text(counts[name] * scale)}" for name in most if counts[name]) or "-"


def summary_section(experiment: Experiment, tables: Sequence[Table]) -> Section:
    """Return the table of means over all benchmarks, a row for each variant and mode; `built` if it is not the same."""
    means = compare.summaries(experiment, tables)
    built = ["built"] if any(mean.built_otherwise for mean in means) else []
    columns = ("variant", f"ratio to {experiment.settings.baseline}", "of benchmarks", *Verdict, *built)
    rows = tuple(
        (
            mean.label,
            ratio_text(mean.ratio),
            f"{mean.verdicts.total()} of {mean.verdicts.total() + mean.missing}",
            *(str(mean.verdicts[verdict]) for verdict in Verdict),
            *("otherwise" if mean.built_otherwise else "alike" for _ in built),
        )
        for mean in means
    )
    return Section("summary", columns, rows)


def terminal(experiment: Experiment, tables: Sequence[Table]) -> RenderableType:
    """Return the whole report for a terminal."""
    parts: list[RenderableType] = [Text(line, style="dim") for line in headline(experiment)]
    curves_and_details = [*scaling_sections(experiment, tables), *detail_sections(tables)]
    for section in [
        image_section(experiment),
        summary_section(experiment, tables),
        *map(benchmark_section, tables),
        *curves_and_details,
    ]:
        parts += rich_parts(section)
    parts += [Text(), Text("skipped, and why", style="bold")]
    parts += [Text(f"  {line}") for line in skipped(experiment)]
    parts += [Text(), Text(LEGEND, style="dim")]
    time = time_section(experiment)
    parts += rich_parts(time) if time else []
    ended = ended_lines(experiment, tables)
    parts += [Text(), Text("what is open", style="bold"), *(Text(f"  {line}") for line in ended)] if ended else []
    return Group(*parts)


def detail_sections(tables: Sequence[Table]) -> list[Section]:
    """Return a table of details for each benchmark that has any."""
    sections = []
    for table in tables:
        labels = (detail.label for detail in table.workload.details_of(table.benchmark))
        rows = [row for row in (*table.rows, *table.limits) if any(row.details)]
        cells = tuple((label_text(row.label), *map(detail_text, row.details)) for row in rows)
        title = f"{table.workload.name}: {table.benchmark.name}, details"
        sections += [Section(title, ("variant", *labels), cells)] if rows else []
    return sections


def scaling_sections(experiment: Experiment, tables: Sequence[Table]) -> list[Section]:
    """Return a table for each group of curves: throughput by workers."""
    return [curves_section(group) for group in curve_groups(experiment, tables)]


def curves_section(of: CurveGroup) -> Section:
    """Return the table of one group of curves, a row for each variant."""
    beyond = [f"{workers} (> {of.cores} cores)" for workers in of.workers if workers > of.cores]
    within = [str(workers) for workers in of.workers if workers <= of.cores]
    columns = ("variant", *within, *beyond, "best gain over 1")
    rows = [(curve.label, *_throughputs(of, curve.points), _gain_text(curve)) for curve in of.curves]
    rows += [("best limit", *_throughputs(of, of.limit), "-")] if of.limit else []
    return Section(f"{of.workload.name}: {of.name}, {of.unit} by workers, higher is better", columns, tuple(rows))


def _gain_text(curve: Curve) -> str:
    best = curve.best
    gain = curve.gain(best)
    return f"{gain:.2f}x at {best.workers}" if gain else "-"


def _throughputs(of: CurveGroup, points: Sequence[ThroughputPoint]) -> Iterator[str]:
    known = {point.workers: point.throughput for point in points}
    return (_throughput(known.get(workers)) for workers in of.workers)


def _throughput(interval: Interval | None) -> str:
    if interval is None:
        return "-"
    ends = "" if math.isinf(interval.high) else f" [{figure_text(interval.low)}, {figure_text(interval.high)}]"
    return f"{figure_text(interval.estimate)}{ends}"


def skipped(experiment: Experiment) -> list[str]:
    """Return a line for each reason why something has no figure or no profile."""
    return [f"{'; '.join(names)}: {reason}" for reason, names in every_reason(experiment).items()] or ["nothing"]


def failed_cells(cells: Sequence[CellResult]) -> list[CellResult]:
    """Return the cells that failed; unsupported, unavailable and timed out are results, not failures."""
    return [cell for cell in cells if cell.outcome.state is State.FAILED]
