"""Tables of an experiment, for a terminal and as Markdown. Pure: figures in, text out."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from interlock import compare
from interlock.beside import detail_sections, scaling_sections
from interlock.compare import SAME, Comparison, Row, Summary, Table
from interlock.model import BenchmarkProfile, Experiment, Method, Metric, bases_line, engine_line
from interlock.sections import (
    RSS,
    SHARE,
    Section,
    figure,
    interval,
    label_text,
    markdown_lines,
    one_line,
    rich_parts,
    share_text,
)
from interlock.skipped import skipped

__all__ = [
    "Section",
    "figure",
    "headline",
    "image_section",
    "markdown",
    "profile_sections",
    "sections",
    "summary_section",
    "terminal",
]

FUTEX_WAITS = ("wait", "wait_bitset", "wait_requeue_pi", "lock_pi", "lock_pi2")
BUSIEST_CALLS = 4
FUTEX_WAKES = ("wake", "wake_bitset", "wake_op")
LEGEND = (
    "value: median over the processes' medians, with half their range; ratio: time per unit of work divided by the "
    "baseline's (or the control's) of the same round, geometric mean over the rounds, up to a sixth of which is "
    "trimmed from each end (rounded down: none of five, one of ten) [95 % interval, by bootstrap over the rounds], "
    "above 1 is slower. 'slower' and 'faster' need all of: p below 0.01 (trimmed t-test, adjusted by Holm's method "
    "for the ratios of its table), an interval without 1, and a ratio outside the twin's band. The twin is the "
    "baseline's image measured as another variant; its band is the ratio that it shows, in both directions, also "
    "for ratios to the control; without a twin it is 1. 'no difference' means that none was shown. The summary is "
    "the geometric mean over the workloads, and in each over its benchmarks that rank, of those that have a ratio. "
    "Calls are counted in a pass of its own. A limit is what the machine does without an interpreter; a share of it is "
    "the limit's time per unit of work divided by the row's of the same round, with the best limit of the table."
)


def headline(experiment: Experiment) -> list[str]:
    """The machine, what was run on it, and the command that repeats it."""
    host, settings = experiment.host, experiment.settings
    return [
        f"host     {host['cores']} cores {host['cpu']}, {host['memory_bytes'] / 2**30:.0f} GiB, "
        f"Linux {host['kernel']}, {host['system']}",
        f"engine   {engine_line(host['engine'], bases_line(experiment.images))}",
        f"settings profile {settings.profile}, {_rounds(experiment)}{' (quick)' if settings.quick else ''}, "
        f"seed {settings.seed}, baseline {settings.baseline}",
        f"run      {experiment.started}, {experiment.duration_s:.0f} s, Interlock {experiment.tool_version}",
        *_probe(experiment),
        *_left_out(experiment),
        f"repeat   {experiment.command}",
        *(f"warning  {one_line(warning)}" for warning in experiment.warnings),
    ]


def _probe(experiment: Experiment) -> list[str]:
    """What counted the calls, and how much of the time of the rounds the measured processes had."""
    lines = []
    if experiment.probe:
        probe = experiment.probe
        refused = "".join(f", not {method}: {reason}" for method, reason in probe.refused.items())
        perturbs = ", which perturbs threaded work" if probe.method.perturbs else ""
        counters = f"; {probe.no_instructions}" if probe.no_instructions else ""
        lines.append(f"probe    {probe.method}{perturbs}{refused}{counters}")
    if experiment.measuring_s:
        share = experiment.in_processes_s / experiment.measuring_s
        lines.append(f"harness  {1 - share:.0%} of the rounds' {experiment.measuring_s:.0f} s was Interlock's own")
    return lines


def _left_out(experiment: Experiment) -> list[str]:
    """What only an experiment without --quick measures."""
    named = "; ".join(f"{workload}: {', '.join(names)}" for workload, names in experiment.left_out.items())
    return [f"omitted  {named} (measured without --quick)"] if named else []


def _rounds(experiment: Experiment) -> str:
    settings = experiment.settings
    if settings.rounds_limit is None or settings.half_width is None:
        return f"{settings.rounds} rounds"
    takes = {name: one.quick if settings.quick else one.full for name, one in experiment.workloads.items()}
    lower = [f"{name} at most {take.rounds_limit}" for name, take in takes.items() if take.rounds_limit]
    but = f" ({', '.join(lower)})" if lower else ""
    return f"rounds {settings.rounds} to {settings.rounds_limit}{but} until ±{100 * settings.half_width:g} %"


def sections(tables: Sequence[Table]) -> list[Section]:
    return [_section(table) for table in tables]


def _section(table: Table) -> Section:
    metric, profile = table.benchmark.metric, table.benchmark.profile_metric
    better = "higher" if metric.inverse else "lower"
    rounds = f"{table.rounds} round{'' if table.rounds == 1 else 's'}"
    twin = f"twin {interval(table.twin)}" if table.twin else "no twin"
    title = f"{table.workload.name}: {table.benchmark.name}, {metric.label}, {better} is better ({rounds}, {twin})"
    columns = (
        "variant",
        metric.label,
        f"ratio to {table.baseline}",
        "ratio to control",
        *([SHARE] if table.limits else []),
        profile.label if profile else "futex",
        RSS,
        "state",
    )
    return Section(title, columns, tuple(_row(table, row) for row in (*table.rows, *table.limits)))


def value_text(table: Table, row: Row) -> str:
    """A row's figure in the metric's unit, with its spread, or a dash."""
    if row.seconds is None or row.spread is None:
        return "-"
    return f"{figure(table.benchmark.metric.shown(row.seconds))} ±{row.spread:.0%}"


def _row(table: Table, row: Row) -> tuple[str, ...]:
    is_baseline = row.label == table.baseline and row.seconds is not None
    ratio = "baseline" if is_baseline else _compared(row.to_baseline)
    control = _compared(row.to_control, named=True)
    counted = table.benchmark.calls_shown(row.profile)
    calls = "-" if counted is None else figure(counted)
    rss = "-" if row.max_rss_bytes is None else f"{row.max_rss_bytes / 1e6:.0f}"
    share = [share_text(row.share)] if table.limits else []
    return (label_text(row.label), value_text(table, row), ratio, control, *share, calls, rss, _state(row))


def _compared(comparison: Comparison | None, *, named: bool = False) -> str:
    if comparison is None:
        return "-"
    text = f"{interval(comparison.ratio)} {comparison.verdict}"
    return f"{text} {'from' if comparison.verdict == SAME else 'than'} {comparison.other}" if named else text


def _state(row: Row) -> str:
    """In short: the reasons stand together at the end of the report."""
    return ", ".join((row.outcome.state.value, *row.notes))


def markdown(experiment: Experiment, tables: Sequence[Table]) -> str:
    """The whole report as Markdown."""
    lines = [f"# Experiment {experiment.name}", "", "```", *headline(experiment), "```", "", LEGEND, ""]
    for section in (image_section(experiment), summary_section(experiment, tables)):
        lines += markdown_lines(section, section.title.capitalize())
    beside = [*scaling_sections(experiment, tables), *detail_sections(tables)]
    for section in [*sections(tables), *beside, *profile_sections(tables)]:
        lines += markdown_lines(section)
    lines += [
        "## Skipped, and why",
        "",
        *[f"- {one_line(line)}" for line in skipped(experiment) or ["nothing"]],
        "",
    ]
    return "\n".join(lines)


def image_section(experiment: Experiment) -> Section:
    """What was measured: tag, size, and what the interpreter said of itself."""
    rows = []
    for image in experiment.images:
        facts = experiment.facts.get(image.variant)
        rows.append(
            (
                image.variant,
                f"{facts.version}, {facts.thread_flavour.value}, GIL {facts.gil.value}" if facts else "-",
                image.tag or "-",
                f"{image.size_bytes / 1e6:.0f}" if image.size_bytes else "-",
                "reused" if image.reused else f"{image.duration_s:.0f}",
                image.outcome.state.value,
            )
        )
    columns = ("variant", "the interpreter says", "image", "MB", "build s", "state")
    return Section("images", columns, tuple(rows))


def profile_sections(tables: Sequence[Table]) -> list[Section]:
    """What the probe counted per unit of work, for each benchmark that was profiled."""
    sections_ = []
    for table in tables:
        metric = table.benchmark.profile_metric
        rows = [(row.label, row.profile) for row in table.rows if row.profile]
        if metric and rows:
            title = f"{table.workload.name}: {table.benchmark.name}, system calls {metric.per}"
            cells = tuple((label, *_profile(metric, profile)) for label, profile in rows)
            sections_.append(Section(title, PROFILE_COLUMNS, cells))
    return sections_


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
    "instructions",
    "probe",
)


def _profile(metric: Metric, profile: BenchmarkProfile) -> tuple[str, ...]:
    """Counts in the metric's unit of work; a dash where the probe has no such figure."""
    phase = profile.phases[profile.counted]

    def shown(count: float) -> str:
        return figure(metric.shown(count / profile.units))

    calls = figure(metric.shown(profile.calls_per_unit("all"))) if profile.knows("all") else "-"
    most = _most_calls(metric, profile)
    failed = shown(sum(sum(counts.errors.values()) for counts in phase.syscalls.values()))
    instructions = figure(metric.shown(profile.instructions.per_unit)) if profile.instructions else "-"
    if profile.method is not Method.BPF:
        return calls, most, "-", "-", "-", "-", "-", "-", "-", instructions, profile.method
    waits = [counts for name, counts in phase.futex.items() if name in FUTEX_WAITS]
    wakes = [counts for name, counts in phase.futex.items() if name in FUTEX_WAKES]
    return (
        calls,
        most,
        failed,
        shown(sum(counts.calls for counts in waits)),
        shown(sum(counts.calls for counts in wakes)),
        shown(sum(counts.woke_nobody for counts in wakes)),
        shown(sum(counts.ns for counts in waits) / 1e6),
        figure(max((counts.max_ns for counts in waits), default=0) / 1e6),
        str(phase.locks_waited_for),
        instructions,
        profile.method,
    )


def _most_calls(metric: Metric, profile: BenchmarkProfile) -> str:
    """By name those that are made most often: what stands in for futex where there is none."""
    counts = {name: profile.calls_per_unit([name]) for name in profile.phases[profile.counted].syscalls}
    most = sorted(counts, key=lambda name: (-counts[name], name))[:BUSIEST_CALLS]
    return ", ".join(f"{name} {figure(metric.shown(counts[name]))}" for name in most if counts[name]) or "-"


def summary_section(experiment: Experiment, tables: Sequence[Table]) -> Section:
    """Every variant and mode beside the baseline over all benchmarks."""
    columns = (
        "variant",
        f"ratio to {experiment.settings.baseline}",
        "of benchmarks",
        "slower",
        "faster",
        SAME,
    )
    return Section("summary", columns, tuple(map(_summary, compare.summaries(experiment, tables))))


def _summary(summary: Summary) -> tuple[str, ...]:
    counts = summary.slower, summary.faster, summary.same
    return (
        summary.label,
        interval(summary.ratio) if summary.ratio else "-",
        f"{sum(counts)} of {sum(counts) + summary.missing}",
        *map(str, counts),
    )


def terminal(experiment: Experiment, tables: Sequence[Table]) -> RenderableType:
    """The whole report for a terminal."""
    parts: list[RenderableType] = [Text(line, style="dim") for line in headline(experiment)]
    beside = [*scaling_sections(experiment, tables), *detail_sections(tables)]
    for section in [image_section(experiment), summary_section(experiment, tables), *sections(tables), *beside]:
        parts += rich_parts(section)
    parts += [Text(), Text("skipped, and why", style="bold")]
    parts += [Text(f"  {one_line(line)}") for line in skipped(experiment) or ["nothing"]]
    parts += [Text(), Text(LEGEND, style="dim")]
    return Group(*parts)
