"""What a trial's report has in addition to tables: verdicts, what each image is, and what to do. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from interlock.analysis.comparison import Table
from interlock.analysis.pick.sentences import cpus_text
from interlock.analysis.trials import (
    GAINS,
    REPORTED,
    Bottleneck,
    Busy,
    Figure,
    JudgedRow,
    TrialChange,
    TrialVerdict,
    best_of,
    busy_of,
    gains_by_cpus,
    gil_text,
    judge,
    own_failure,
)
from interlock.analysis.verdicts import Verdict
from interlock.report.tables import Section, detail_text, ratio_text, rounds_text, value_text
from interlock.results.experiments import Experiment
from interlock.results.trials import OWN, Trial, without_quote

WORDS = {Figure.RATE: "throughput", Figure.CPU: "CPU time", Figure.IMAGE: "image size"}
MARKS = {Verdict.UNDECIDED: "?", Verdict.SAME: " ="}
CONNECTIONS = re.compile(r"(?:^| )(?:-c|--connections[ =]) ?([0-9]{1,6})\b")
# A smaller difference, even if it is shown, is neither a gain nor a price.
LEAST_SHARE = 0.005
# A command has so few details that all are shown; a service shows those that are a gain or a price.
FEW_DETAILS = 2


def headline(trial: Trial) -> list[str]:
    """Return the lines that say what was tried, and with what."""
    asked = [f"{what} {text!r}" for what, text in (("load", trial.load), ("tests", trial.test)) if text]
    limits = [f"service on CPU {trial.service_cpus or 'any'}", *([f"memory {trial.memory}"] if trial.memory else [])]
    return [
        f"trial    {trial.dockerfile} in {trial.context}, {', '.join(asked) or 'start only'}",
        f"images   built by {trial.builder}; {', '.join(limits)}",
    ]


def answer(experiment: Experiment, tables: Sequence[Table]) -> str:
    """Return one sentence for each number of CPUs: what to do, what that gains and what it costs."""
    return " ".join(f"For {cpus_text(table.cores)}: {_advice(experiment, table)}" for table in tables)


def _advice(experiment: Experiment, table: Table) -> str:
    own = next((row for row in table.rows if row.label == OWN), None)
    if own is not None and (failed := own_failure(own.outcome)):
        return f"no answer: {failed}"
    judged = judge(experiment, table)
    by_label = {row.label: row for row in judged}
    still_open = [row.label for row in judged if row.verdict is TrialVerdict.UNDECIDED]
    best, *also = best_of(judged, table) or [""]
    if best:
        with_ = f" (not shown to differ from the best: {', '.join(also)})" if also else ""
        return f"switch to {best}{with_}: {price(by_label[best])}."
    said = "; ".join(f"{row.label}: {_short(row)}" for row in judged if row.problem or row.changes)
    prices = f" {said}." if said else ""
    if still_open:
        ended = f" when {experiment.ended_by} came" if experiment.ended_by else ""
        return f"keep your image, or measure longer: undecided{ended}: {', '.join(still_open)}.{prices}"
    if all(row.verdict is TrialVerdict.NOT_TRIED for row in judged):
        return f"no answer: no variant was tried.{prices}"
    return f"do not switch: no variant is better.{prices}"


def next_commands(experiment: Experiment, tables: Sequence[Table]) -> tuple[str, ...]:
    """Return the commands that change the user's Dockerfile to better variants, one for each variant."""
    best = dict.fromkeys(label for table in tables for label in best_of(judge(experiment, table), table)[:1])
    return tuple(_swap(experiment.trial, label) for label in best if experiment.trial)


def _short(row: JudgedRow) -> str:
    """Return why not to switch to a variant, without pip's own words, and what it gains and costs."""
    problem = without_quote(row.problem)
    return ", ".join([*([problem] if problem else []), *([price(row)] if row.changes else [])])


def price(row: JudgedRow) -> str:
    """Return what a variant is better in and what it is worse in, so that gain and price are read together."""
    better, worse = (
        ", ".join(change_text(change) for change in row.of(verdict) if abs(change.share) >= LEAST_SHARE) or "nothing"
        for verdict in (Verdict.FASTER, Verdict.SLOWER)
    )
    return f"better: {better}; worse: {worse}"


def change_text(change: TrialChange) -> str:
    """Return by how much a figure is more or less than the user's own, in per cent: 'throughput +12 %'."""
    return f"{WORDS.get(change.figure, change.figure)} {_per_cent(change)}"


def _per_cent(change: TrialChange) -> str:
    whole = round(100 * change.share)
    return f"{whole:+d} %" if whole else "0 %"


def busy_text(tables: Sequence[Table]) -> str:
    """Return what bounded the user's own service, which figure therefore decides, and whether threads compute."""
    known = [(busy_of(table), table) for table in tables]
    said = [_bound_text(busy, table) for busy, table in known if busy]
    # If a service leaves its one CPU idle, a second CPU cannot show any use.
    is_filled = any(busy and busy.cpus == 1 and busy.bound is Bottleneck.SERVICE for busy, _ in known)
    return " ".join(filter(None, [*said, _sweep_text(gains_by_cpus(tables)) if is_filled else ""]))


def _bound_text(busy: Busy, table: Table) -> str:
    used = f"Your service used {busy.used:.2f} of {cpus_text(busy.cpus)}, the load {busy.load:.2f} of its own"
    decides = table.workload.of_user.probed.decides
    by_cpu = ", so CPU time per unit of work decides, and latency" if decides == "cpu" else ""
    less = ", or give it less (--cpus 1)" if busy.cpus > 1 else ""
    return {
        Bottleneck.SERVICE: f"{used}: the service is what bounds it.",
        Bottleneck.GIL: f"{used}: one CPU's worth bounds it, as a GIL does.",
        Bottleneck.LOAD: f"{used}: the load's CPU is full{by_cpu}; ask for what costs the service more{less}.",
        Bottleneck.NOTHING: f"{used}: this load does not fill it{by_cpu}; more connections would, such as "
        f"{_more_connections(table)}.",
    }[busy.bound]


def _more_connections(table: Table) -> str:
    """Return wrk's option for four times as many connections; for another load just these words."""
    given = CONNECTIONS.search(" ".join(table.workload.of_user.load or []))
    return f"-c{4 * int(given[1])}" if given else "four times as many"


def _sweep_text(gains: Mapping[str, float]) -> str:
    """Return what a second CPU gives each row, and what that says of the service."""
    own = gains.get(OWN)
    if own is None:
        return ""
    with_threads = [label for label, gain in gains.items() if gain >= GAINS > own]
    said = ", ".join(f"{label} {gain:.2f}x" for label, gain in gains.items())
    if own >= GAINS:
        kind = "its workers are processes, which need no free threading for that"
    elif with_threads:
        kind = f"its threads compute, and {' and '.join(with_threads)} lets them"
    else:
        kind = "neither its threads nor its processes gain from it"
    return f"A second CPU gives {said}: {kind}."


def _swap(trial: Trial, label: str) -> str:
    """Return the command that changes the user's Dockerfile to what was tried."""
    words = ["interlock", "swap", trial.dockerfile, "--to", label, "--paths"]
    words += ["--stage", trial.stage] if trial.stage else []
    return shlex.join(words)


def sections(experiment: Experiment, trial: Trial, tables: Sequence[Table]) -> tuple[Section, ...]:
    """Return the verdicts, the figures in short, how the built Dockerfiles differ, and remarks about them."""
    parts: list[Section] = []
    for table in tables:
        of = f" on {cpus_text(table.cores)}" if len(tables) > 1 else ""
        judged = judge(experiment, table)
        rows = tuple((row.label, why(row), row.verdict.value) for row in judged)
        decides = "CPU time" if any(row.decides_by_cpu for row in judged) else "time"
        parts += [
            Section(f"verdicts{of}", ("variant", f"{decides}, {OWN} is 1 [95 %], and why", "verdict"), rows),
            _prices(judged, of),
            _figures(trial, table, of),
        ]
    return tuple(section for section in (*parts, _changes(trial), _remarks(trial, tables)) if section.rows)


def _prices(judged: Sequence[JudgedRow], of: str) -> Section:
    """Return what each variant gains and costs; undecided figures have a question mark, equal ones a sign."""
    figures = list(dict.fromkeys(change.figure for row in judged for change in row.changes))
    rows = tuple((row.label, *(_price_text(row, figure) for figure in figures)) for row in judged if row.changes)
    return Section(f"gain and price{of}", ("variant", *(WORDS.get(f, f) for f in figures)), rows)


def _price_text(row: JudgedRow, figure: Figure) -> str:
    change = next((change for change in row.changes if change.figure is figure), None)
    if change is None:
        return "-"
    return f"{_per_cent(change)}{MARKS.get(change.verdict, '')}"


def why(row: JudgedRow) -> str:
    """Return the reason of a verdict: what failed, and the ratio to the user's own with its verdict."""
    shown = f"{ratio_text(row.comparison.ratio)} {row.comparison.words}" if row.comparison else ""
    return "; ".join(part for part in (row.problem, shown) if part) or "it has no figure"


def _figures(trial: Trial, table: Table, of: str) -> Section:
    """Return the figures of each row: the one that decides, the further ones, and the state of the GIL."""
    known = table.workload.details_of(table.benchmark)
    shown = [place for place, detail in enumerate(known) if detail.of in REPORTED or len(known) <= FEW_DETAILS]
    details = [known[place].label for place in shown]
    rows = tuple(
        (
            row.label,
            value_text(table, row),
            *(detail_text(row.details[place]) for place in shown),
            gil_text(trial.tried.get(row.label)),
        )
        for row in table.rows
    )
    twin = f", the same image again {ratio_text(table.twin)}" if table.twin else ""
    return Section(
        f"figures{of} ({rounds_text(table.rounds)}{twin})",
        ("variant", table.benchmark.metric.label, *details, "GIL"),
        rows,
    )


def _changes(trial: Trial) -> Section:
    """Return each line that differs, with the variants that have it."""
    lines = {
        label: [line for line in tried.changes if not line.startswith("@@")] for label, tried in trial.tried.items()
    }
    return Section("changes to your build", ("line or option", "variants"), _by_text(lines))


def _remarks(trial: Trial, tables: Sequence[Table]) -> Section:
    """Return what is not drop-in, what never got ready, and where images are kept, with the variants concerned."""
    rows = [row for table in tables for row in table.rows]
    said = {
        label: [
            *tried.warnings,
            *dict.fromkeys(note for row in rows if row.label == label for note in row.notes),
            *([f"kept as {tried.kept_as}"] if tried.kept_as else []),
        ]
        for label, tried in trial.tried.items()
    }
    return Section("remarks", ("remark", "variants"), _by_text(said))


def _by_text(said: Mapping[str, Sequence[str]]) -> tuple[tuple[str, str], ...]:
    labels_of: dict[str, list[str]] = {}
    for label, texts in said.items():
        for text in texts:
            labels_of.setdefault(text, []).append(label)
    return tuple((text, ", ".join(labels)) for text, labels in labels_of.items())
