"""A trial for a terminal, as Markdown and as JSON. Pure: figures in, text out."""

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

from interlock.compare import SAME, Comparison
from interlock.model import (
    OWN,
    OWN_TWIN,
    BenchmarkProfile,
    Candidate,
    Figure,
    Method,
    Trial,
    TrialSettings,
    engine_line,
)
from interlock.sections import Section, interval, markdown_lines, rich_parts
from interlock.sections import figure as digits
from interlock.statistics import Interval
from interlock.trial import gil
from interlock.trial.verdicts import Judged, Verdict, deciding, inverse, judge, tie, twins

STYLES = {Verdict.SWITCH: "green", Verdict.SAME: "", Verdict.STAY: "red", Verdict.NOT_TRIED: "dim"}
# The column of each figure, and the factor from what is stored; the inverse of a request's seconds is their number.
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
FUTEX_WAITS = ("wait", "wait_bitset", "wait_requeue_pi", "lock_pi", "lock_pi2")
YOURS = {OWN: "yours", OWN_TWIN: "yours, once more"}
BUSIEST_CALLS = 3
LEGEND = (
    "Ratios are to your own Dockerfile, by round: of requests their number per second, above 1 is more; of all else "
    "time or bytes, below 1 is less. [95 % interval.] 'switch' and 'do not switch' need p below 0.01 (adjusted by "
    "Holm's method for all variants), an interval without 1, and a ratio outside of what your own image shows when it "
    "is measured once more (its twin); all else is 'no difference', which means that none was shown."
)


def headline(trial: Trial) -> list[str]:
    """What was tried, on which machine, and the command that repeats it."""
    host, settings = trial.host, trial.settings
    limit = settings.rounds_limit
    until = f" to {limit} until ±{100 * (settings.half_width or 0):g} %" if limit else ""
    pinned = f"service on CPU {settings.service_cpus or 'any'}, load on CPU {settings.load_cpus or 'any'}"
    asked = [f"{what} {text!r}" for what, text in (("load", settings.load), ("tests", settings.test)) if text]
    probe = trial.probe.method.value if trial.probe else trial.no_probe or "none"
    return [
        f"trial    {settings.dockerfile} in {settings.context}, {', '.join(asked) or 'start only'}",
        f"host     {host['cores']} cores {host['cpu']}, {host['memory_bytes'] / 2**30:.0f} GiB, {host['system']}",
        f"engine   {engine_line(host['engine'], f'built by {trial.builder}')}",
        f"settings rounds {settings.rounds}{until}, seed {settings.seed}, {pinned}",
        f"run      {trial.started}, {trial.duration_s:.0f} s, Interlock {trial.tool_version}; probe {probe}",
        f"repeat   {trial.command}",
        *(f"warning  {warning}" for warning in trial.warnings),
    ]


def verdict_section(judged: Sequence[Judged]) -> Section:
    """The answer: a row for each variant."""
    rows = tuple((one.verdict.value, one.candidate.label, one.reason, "; ".join(one.besides)) for one in judged)
    return Section("verdicts", ("verdict", "variant", "why", "what else differs"), rows)


def figure_section(trial: Trial, judged: Sequence[Judged]) -> Section:
    """Every candidate's figures, the user's own first and beside it what it showed once more."""
    taken = [figure for figure in COLUMNS if any(one.values.get(figure) for one in trial.candidates)]
    compared = {one.candidate.label: one.comparisons for one in judged}
    names = ("", *(COLUMNS[figure][0] for figure in taken), "image MB", "tests", "GIL", "state")
    rows = []
    for one in trial.candidates:
        figures = tuple(_value(one, figure, compared.get(one.label, {}).get(figure)) for figure in taken)
        size = f"{one.size_bytes / 1e6:.0f}" if one.size_bytes else "-"
        rows.append(
            (YOURS.get(one.label, one.label), *figures, size, _tests(one), gil.shown(one), one.outcome.state.value)
        )
    return Section(_title(trial), names, tuple(rows))


def _title(trial: Trial) -> str:
    figure = deciding(trial)
    twin, own = twins(trial).get(figure), trial.of(OWN)
    rounds = len(own.values.get(figure, [])) if own else 0
    noise = f", the same image once more {_shown(figure, twin)}" if twin else ""
    return f"figures ({rounds} round{'' if rounds == 1 else 's'}{noise})"


def _shown(figure: Figure, ratio: Interval) -> str:
    return interval(inverse(ratio) if figure is Figure.REQUEST_S else ratio)


def _value(candidate: Candidate, figure: Figure, comparison: Comparison | None) -> str:
    """The median over the rounds with half their range; beside it the ratio where it is a difference."""
    values = candidate.values.get(figure)
    if not values:
        return "-"
    middle = median(values)
    spread = (max(values) - min(values)) / 2 / middle if middle else 0.0
    shown = 1 / middle if figure is Figure.REQUEST_S else middle * COLUMNS[figure][1]
    apart = ""
    if comparison and comparison.verdict != SAME:
        estimate = comparison.ratio.estimate
        apart = f" {1 / estimate if figure is Figure.REQUEST_S else estimate:.2f}x"
    return f"{digits(shown)} ±{spread:.0%}{apart}"


def _tests(candidate: Candidate) -> str:
    return "-" if candidate.test is None else f"passed in {candidate.test.duration_s:.1f} s"


def call_section(trial: Trial) -> Section | None:
    """What was counted after all timing: per request, or of a whole run."""
    profiled = [(one, one.profile) for one in trial.candidates if one.profile]
    if not profiled:
        return None
    of = "service" if trial.settings.load else "tests"
    unit = "request" if any(profile.units > 1 for _, profile in profiled) else "run"
    per = (f"{what}/{unit}" for what in ("calls", "futex", "futex waits", "waited ms", "woke nobody"))
    rows = tuple((YOURS.get(one.label, one.label), *_calls(profile)) for one, profile in profiled)
    return Section(f"system calls of the {of}, counted after all timing", ("", *per, "most calls"), rows)


def _calls(profile: BenchmarkProfile) -> tuple[str, ...]:
    phase = profile.phases[profile.counted]
    most = sorted(phase.syscalls.items(), key=lambda item: -item[1].calls)[:BUSIEST_CALLS]
    names = ", ".join(f"{name} {digits(counts.calls / profile.units)}" for name, counts in most)
    calls = digits(profile.calls_per_unit(list(phase.syscalls)))
    futex = digits(profile.futex_per_unit)
    if profile.method is not Method.BPF:
        return calls, futex, "-", "-", "-", names
    waits = [counts for name, counts in phase.futex.items() if name in FUTEX_WAITS]
    return (
        calls,
        futex,
        digits(sum(counts.calls for counts in waits) / profile.units),
        digits(sum(counts.ns for counts in waits) / 1e6 / profile.units),
        digits(sum(counts.woke_nobody for counts in phase.futex.values()) / profile.units),
        names,
    )


def notes(trial: Trial) -> list[str]:
    """What a reader must know beside the figures: a line for each sentence, with all that it is true of."""
    said: dict[str, list[str]] = {}
    for one in trial.candidates:
        no_profile = [f"no profile: {one.no_profile}"] if one.no_profile else []
        kept = [f"kept as {one.image_tag}"] if one.image_tag else []
        for sentence in (*one.warnings, *one.notes, *no_profile, *kept):
            said.setdefault(sentence, []).append(YOURS.get(one.label, one.label))
    return [f"{', '.join(labels)}: {sentence}" for sentence, labels in said.items()]


def changes(trial: Trial) -> list[str]:
    """What each Dockerfile had otherwise, as a diff's lines below the names that it is for."""
    made: dict[tuple[str, ...], list[str]] = {}
    for one in trial.candidates:
        if one.changes:
            made.setdefault(tuple(one.changes), []).append(one.label)
    return [line for diff, labels in made.items() for line in (f"{', '.join(labels)}:", *(f"  {one}" for one in diff))]


def conclusion(trial: Trial, judged: Sequence[Judged]) -> str:
    """One line: what to do."""
    figure = deciding(trial)
    better = [one for one in judged if one.verdict is Verdict.SWITCH]
    if not better:
        return "Stay where you are: no variant is shown to be better."
    best = min(better, key=lambda one: one.comparisons[figure].ratio.estimate)
    also = [one.candidate.label for one in better if one is not best and tie(one, best, figure)]
    with_ = f" (a tie with {', '.join(also)}: no difference between them is shown)" if also else ""
    return f"Switch to {best.candidate.label}{with_}: {_swap(trial.settings, best.candidate.label)}"


def _swap(settings: TrialSettings, label: str) -> str:
    """The command that makes of the user's Dockerfile what was tried."""
    words = ["interlock", "swap", settings.dockerfile, "--to", label, "--paths"]
    words += ["--stage", settings.stage] if settings.stage else []
    return shlex.join([*words, *(["--release"] if settings.profile == "release" else [])])


def terminal(trial: Trial) -> RenderableType:
    """The whole trial for a terminal, the answer last."""
    judged = judge(trial)
    parts: list[RenderableType] = [Text(line, style="dim") for line in headline(trial)]
    for title, lines in (("what was built otherwise", changes(trial)), ("notes", notes(trial))):
        if lines:
            parts += [Text(), Text(title, style="bold"), Padding(Text("\n".join(lines)), (0, 0, 0, 2), expand=False)]
    for section in _sections(trial, judged):
        parts += rich_parts(section)
    parts += [Text(), Text(LEGEND, style="dim"), Text()]
    parts += [_verdict(one) for one in judged]
    return Group(*parts, Text(), Text(conclusion(trial, judged), style="bold"))


def _sections(trial: Trial, judged: Sequence[Judged]) -> list[Section]:
    calls = call_section(trial)
    return [figure_section(trial, judged), *([calls] if calls else [])]


def _verdict(one: Judged) -> Text:
    text = Text.assemble(
        (f"{one.verdict.value:15}", STYLES[one.verdict]), (one.candidate.label, "bold"), f"  {one.reason}"
    )
    return text.append(f"; besides: {'; '.join(one.besides)}") if one.besides else text


def markdown(trial: Trial) -> str:
    """The same as Markdown, the answer first."""
    judged = judge(trial)
    lines = [f"# Trial {trial.name}", "", f"**{conclusion(trial, judged)}**", "", "```", *headline(trial), "```", ""]
    for section in (verdict_section(judged), *_sections(trial, judged)):
        lines += markdown_lines(section, section.title[:1].upper() + section.title[1:])
    lines += [LEGEND, ""]
    if said := notes(trial):
        lines += ["## Notes", "", *(f"- {line}" for line in said), ""]
    if changed := changes(trial):
        lines += ["## What was built otherwise", "", "```diff", *changed, "```", ""]
    return "\n".join(lines)


def as_json(trial: Trial) -> str:
    """The record with its verdicts, for programs; an interval's end that lies in infinity is null."""
    judged = judge(trial)
    plain = {
        **trial.model_dump(mode="json"),
        "deciding": deciding(trial).value,
        "twin": {figure.value: _plain(ratio) for figure, ratio in twins(trial).items()},
        "verdicts": [_judged(one) for one in judged],
        "conclusion": conclusion(trial, judged),
    }
    return json.dumps(plain, indent=1)


def _judged(one: Judged) -> dict[str, Any]:
    return {
        "label": one.candidate.label,
        "verdict": one.verdict.value,
        "reason": one.reason,
        "besides": list(one.besides),
        "ratios": {
            figure.value: {**_plain(found.ratio), "p_adjusted": found.p, "band": found.band, "verdict": found.verdict}
            for figure, found in one.comparisons.items()
        },
    }


def _plain(ratio: Interval) -> dict[str, float | None]:
    return {key: value if math.isfinite(value) else None for key, value in vars(ratio).items()}
