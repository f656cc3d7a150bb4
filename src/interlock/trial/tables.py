"""A trial as text for a terminal, as Markdown and as JSON. Pure: figures in, text out."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Sequence
from statistics import median
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from interlock.analysis.pick.sentences import cpus_text
from interlock.analysis.statistics import Interval, relative_error
from interlock.analysis.verdicts import Comparison
from interlock.report.experiment import lock_cost_text, most_calls_text
from interlock.report.tables import Section, error_text, markdown_lines, ratio_text, rich_parts
from interlock.report.tables import figure_text as digits
from interlock.report.why import WHY_COLUMNS, why_cells
from interlock.results.answers import OWN, OWN_TWIN, Candidate, Figure, Trial, TrialSettings
from interlock.results.experiments import duration_text, engine_line, host_line
from interlock.results.profiles import BenchmarkProfile, LockSites, Method
from interlock.trial import verdicts
from interlock.trial.verdicts import JudgedCandidate, TrialVerdict, deciding, inverse, judge, not_shown_to_differ, twins
from interlock.untrusted import printable

STYLES = {
    TrialVerdict.SWITCH: "green",
    TrialVerdict.SAME: "",
    TrialVerdict.STAY: "red",
    TrialVerdict.UNDECIDED: "yellow",
    TrialVerdict.NOT_TRIED: "dim",
}
# The heading of each figure and the factor from the stored unit; requests/s is the inverse of the stored seconds.
COLUMNS = {
    Figure.REQUEST_S: ("requests/s", 1.0),
    Figure.LOAD_S: ("load s", 1.0),
    Figure.TEST_S: ("tests s", 1.0),
    Figure.P50_S: ("p50 ms", 1e3),
    Figure.P99_S: ("p99 ms", 1e3),
    Figure.CPU_S: ("CPU ms", 1e3),
    Figure.MEMORY_BYTES: ("memory MB", 1e-6),
    Figure.START_S: ("healthy after s", 1.0),
}
YOURS = {OWN: "yours", OWN_TWIN: "yours, again"}
MOST_CALLS = 3
LEGEND = (
    "Ratios are to your own Dockerfile, by round, with 95 % intervals in brackets: for requests per second above 1 is "
    "better, for times and bytes below 1. 'switch' and 'do not switch': p of equals is below 0.05, adjusted for the "
    "looks taken and for all variants (Benjamini and Hochberg). 'same': a difference of 5 % or more is ruled out. "
    "'undecided': neither is shown."
)


def headline(trial: Trial) -> list[str]:
    """Return lines that say what was tried, on which machine, and how to repeat it."""
    host, settings = trial.host, trial.settings
    limit = settings.rounds_limit
    budget = f", budget {duration_text(settings.budget_s)}" if settings.budget_s else ""
    until = f" to {limit} until decided" if limit else ""
    pinned = f"service on CPU {settings.service_cpus or 'any'}, load on CPU {settings.load_cpus or 'any'}"
    options = [f"{what} {text!r}" for what, text in (("load", settings.load), ("tests", settings.test)) if text]
    probe = trial.probe.method.value if trial.probe else trial.no_probe or "none"
    return [
        f"trial    {settings.dockerfile} in {settings.context}, {', '.join(options) or 'start only'}",
        f"host     {host_line(host)}",
        f"engine   {engine_line(host['engine'], f'built by {trial.builder}')}",
        f"settings rounds {settings.rounds}{until}{budget}, seed {settings.seed}, {pinned}",
        f"run      {trial.started}, {trial.duration_s:.0f} s, Interlock {trial.tool_version}; probe {probe}",
        f"repeat   {trial.command}",
        *([f"ended    by {trial.ended_by}, before all was decided"] if trial.ended_by else []),
        *(f"warning  {warning}" for warning in trial.warnings),
    ]


def verdict_section(judged: Sequence[JudgedCandidate]) -> Section:
    """Return the table of verdicts, a row for each variant."""
    rows = tuple((one.verdict.value, one.candidate.label, one.reason, "; ".join(one.also)) for one in judged)
    return Section("verdicts", ("verdict", "variant", "why", "what else differs"), rows)


def figure_section(trial: Trial, judged: Sequence[JudgedCandidate]) -> Section:
    """Return the table of figures, the user's own image and its twin first."""
    taken = [figure for figure in COLUMNS if any(one.values.get(figure) for one in trial.candidates)]
    compared = {one.candidate.label: one.comparisons for one in judged}
    names = ("", *(COLUMNS[figure][0] for figure in taken), "image MB", "tests", "GIL", "state")
    rows = []
    for one in trial.candidates:
        figures = tuple(_value(one, figure, compared.get(one.label, {}).get(figure)) for figure in taken)
        size = f"{one.size_bytes / 1e6:.0f}" if one.size_bytes else "-"
        rows.append(
            (
                YOURS.get(one.label, one.label),
                *figures,
                size,
                _tests(one),
                verdicts.gil_label(one),
                one.outcome.state.value,
            )
        )
    return Section(_title(trial), names, tuple(rows))


def _title(trial: Trial) -> str:
    figure = deciding(trial)
    twin, own = twins(trial).get(figure), trial.of(OWN)
    rounds = len(own.values.get(figure, [])) if own else 0
    noise = f", the same image again {_shown(figure, twin)}" if twin else ""
    return f"figures ({rounds} round{'' if rounds == 1 else 's'}{noise})"


def _shown(figure: Figure, ratio: Interval) -> str:
    return ratio_text(inverse(ratio) if figure is Figure.REQUEST_S else ratio)


def _value(candidate: Candidate, figure: Figure, comparison: Comparison | None) -> str:
    """Return the median over the rounds with its standard error, and the ratio if it is a difference."""
    values = candidate.values.get(figure)
    if not values:
        return "-"
    middle = median(values)
    shown = 1 / middle if figure is Figure.REQUEST_S else middle * COLUMNS[figure][1]
    apart = ""
    if comparison and comparison.verdict.differs:
        estimate = comparison.ratio.estimate
        apart = f" {1 / estimate if figure is Figure.REQUEST_S else estimate:.2f}x"
    return f"{digits(shown)}{error_text(relative_error(values))}{apart}"


def _tests(candidate: Candidate) -> str:
    return "-" if candidate.test is None else f"passed in {candidate.test.duration_s:.1f} s"


def call_section(trial: Trial) -> Section | None:
    """Return the table of system calls, counted after all timing: per request, or per run of the tests."""
    profiled = [(one, one.profile) for one in trial.candidates if one.profile]
    if not profiled:
        return None
    of = "service" if trial.settings.load else "tests"
    unit = "request" if any(profile.units > 1 for _, profile in profiled) else "run"
    per = (f"{what}/{unit}" for what in ("calls", "lock cost", "futex waits", "waited ms", "woke nobody"))
    rows = tuple((YOURS.get(one.label, one.label), *_calls(profile)) for one, profile in profiled)
    return Section(f"system calls of the {of}, counted after all timing", ("", *per, "most calls"), rows)


def explained(trial: Trial) -> dict[str, LockSites]:
    """Return where each candidate waits, of those whose stacks were taken."""
    return {one.label: one.profile.why for one in trial.candidates if one.profile and one.profile.why}


def why_section(trial: Trial) -> Section | None:
    """Return the costliest sites of each candidate, where stacks were taken."""
    rows = [
        (YOURS.get(one.label, one.label), *cells)
        for one in trial.candidates
        if one.profile and (one.profile.why or one.profile.no_why)
        for cells in why_cells(one.profile)
    ]
    return Section("why it waits", ("", *WHY_COLUMNS[1:]), tuple(rows)) if rows else None


def _calls(profile: BenchmarkProfile) -> tuple[str, ...]:
    phase = profile.phases[profile.counted]
    names = most_calls_text(profile, MOST_CALLS)
    calls = digits(profile.calls_per_unit(list(phase.syscalls)))
    locks = lock_cost_text(profile.lock_cost)
    if profile.method is not Method.BPF:
        return calls, locks, "-", "-", "-", names
    waits = phase.futex_waits
    return (
        calls,
        locks,
        digits(sum(counts.calls for counts in waits) / profile.units),
        digits(sum(counts.ns for counts in waits) / 1e6 / profile.units),
        digits(sum(counts.woke_nobody for counts in phase.futex.values()) / profile.units),
        names,
    )


def notes(trial: Trial) -> list[str]:
    """Return a line for each note, with the candidates that it applies to."""
    labels_of: dict[str, list[str]] = {}
    for one in trial.candidates:
        no_profile = [f"no profile: {one.no_profile}"] if one.no_profile else []
        kept = [f"kept as {one.image_tag}"] if one.image_tag else []
        for sentence in (*one.warnings, *one.notes, *no_profile, *kept):
            labels_of.setdefault(sentence, []).append(YOURS.get(one.label, one.label))
    return [f"{', '.join(labels)}: {sentence}" for sentence, labels in labels_of.items()]


def changes(trial: Trial) -> list[str]:
    """Return how the Dockerfiles that were built differ from the user's: a diff below the names that it applies to."""
    made: dict[tuple[str, ...], list[str]] = {}
    for one in trial.candidates:
        if one.changes:
            made.setdefault(tuple(one.changes), []).append(one.label)
    return [line for diff, labels in made.items() for line in (f"{', '.join(labels)}:", *(f"  {one}" for one in diff))]


def conclusion(trial: Trial, judged: Sequence[JudgedCandidate]) -> str:
    """Return one line that says what to do, and for how many CPUs."""
    return f"For {cpus_text(trial.service_cpus)}: {_advice(trial, judged)}"


def _advice(trial: Trial, judged: Sequence[JudgedCandidate]) -> str:
    figure = deciding(trial)
    better = [one for one in judged if one.verdict is TrialVerdict.SWITCH]
    still_open = [one.candidate.label for one in judged if one.verdict is TrialVerdict.UNDECIDED]
    if not better and still_open:
        ended = f" when {trial.ended_by} ended" if trial.ended_by else ""
        return f"keep your image, or measure longer: undecided{ended}: {', '.join(still_open)}."
    if not better:
        return "do not switch: no variant is better."
    best, *also = not_shown_to_differ(better, figure)
    labels = ", ".join(one.candidate.label for one in also)
    with_ = f" (not shown to differ from the best: {labels})" if also else ""
    return f"switch to {best.candidate.label}{with_}: {_swap(trial.settings, best.candidate.label)}"


def _swap(settings: TrialSettings, label: str) -> str:
    """Return the command that changes the user's Dockerfile to what was tried."""
    words = ["interlock", "swap", settings.dockerfile, "--to", label, "--paths"]
    words += ["--stage", settings.stage] if settings.stage else []
    return shlex.join([*words, *(["--profile", "standard"] if settings.profile == "standard" else [])])


def terminal(trial: Trial) -> RenderableType:
    """Return the whole trial for a terminal, the answer last."""
    judged = judge(trial)
    parts: list[RenderableType] = [Text(line, style="dim") for line in headline(trial)]
    for title, lines in (("changes to your Dockerfile", changes(trial)), ("notes", notes(trial))):
        if lines:
            parts += [Text(), Text(title, style="bold"), Padding(Text("\n".join(lines)), (0, 0, 0, 2), expand=False)]
    for section in _sections(trial, judged):
        parts += rich_parts(section)
    parts += [Text(), Text(LEGEND, style="dim"), Text()]
    parts += [_verdict(one) for one in judged]
    return Group(*parts, Text(), Text(conclusion(trial, judged), style="bold"))


def _sections(trial: Trial, judged: Sequence[JudgedCandidate]) -> list[Section]:
    rest = (call_section(trial), why_section(trial))
    return [figure_section(trial, judged), *(one for one in rest if one)]


def _verdict(one: JudgedCandidate) -> Text:
    text = Text.assemble(
        (f"{one.verdict.value:15}", STYLES[one.verdict]), (one.candidate.label, "bold"), f"  {one.reason}"
    )
    return text.append(f"; also: {'; '.join(one.also)}") if one.also else text


def markdown(trial: Trial) -> str:
    """Return the trial as Markdown, the answer first."""
    judged = judge(trial)
    lines = [f"# Trial {trial.name}", "", f"**{conclusion(trial, judged)}**", "", "```", *headline(trial), "```", ""]
    for section in (verdict_section(judged), *_sections(trial, judged)):
        lines += markdown_lines(section, section.title[:1].upper() + section.title[1:])
    lines += [LEGEND, ""]
    if noted := notes(trial):
        lines += ["## Notes", "", *(f"- {line}" for line in noted), ""]
    if changed := changes(trial):
        lines += ["## Changes to your Dockerfile", "", "```diff", *changed, "```", ""]
    return printable("\n".join(lines))


def as_json(trial: Trial) -> str:
    """Return the record with its verdicts as JSON; an infinite end of an interval is null."""
    judged = judge(trial)
    plain = {
        **trial.model_dump(mode="json"),
        "deciding": deciding(trial).value,
        "twin": {figure.value: _plain(ratio) for figure, ratio in twins(trial).items()},
        "verdicts": [_judged(one) for one in judged],
        "conclusion": conclusion(trial, judged),
    }
    return json.dumps(plain, indent=1)


def _judged(one: JudgedCandidate) -> dict[str, Any]:
    return {
        "label": one.candidate.label,
        "verdict": one.verdict.value,
        "reason": one.reason,
        "besides": list(one.also),
        "ratios": {
            figure.value: {
                **_plain(found.ratio),
                "p_adjusted": found.p,
                "p_same": found.p_same,
                "verdict": found.verdict,
            }
            for figure, found in one.comparisons.items()
        },
    }


def _plain(ratio: Interval) -> dict[str, float | None]:
    return {key: value if math.isfinite(value) else None for key, value in vars(ratio).items()}
