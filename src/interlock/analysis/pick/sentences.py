"""A pick in two sentences: what to run, for what gain and cost, and where the figures are from. Pure.

`pick` prints them first, and a report begins with them.
"""

from __future__ import annotations

from collections.abc import Iterator

from interlock.analysis.verdicts import MARGIN
from interlock.catalog.types import split_label
from interlock.results.answers import Contender, Costs, Decision, Estimate, Pick, Recommendation, Standing, Whose

# Costs within this are the same: memory in MB, a start's time as a ratio.
SAME_MB = 0.5
SAME_START = 0.05
SAME_WITHIN = f"the same within {100 * MARGIN:g} %"
NOT_TESTED = "your dependencies are not tested yet"
WITHOUT_CONTAINERS = "this machine, without containers"


def recommendation(pick: Pick) -> str:
    """Return what to run, the gain with its interval and CPUs, and the cost, as one sentence."""
    if pick.decision is Decision.NOTHING:
        return f"NOTHING FITS: none of {len(pick.excluded)} variants and modes meets the constraints."
    if pick.decision is Decision.MEASURE:
        return f"MEASURE first: {_lacking(pick)}."
    chosen = pick.recommended
    if chosen is None:
        return f"STAY with {pick.baseline}: {_nothing_faster(pick)}."
    row = next(contender for contender in pick.contenders if contender.label == chosen.label)
    gain = f"{throughput_text(chosen.gain, _on(pick))}, {costs_text(chosen.costs)}"
    if row.standing is Standing.FASTER:
        return f"SWITCH from {pick.baseline} to {chosen.label}: {gain}."
    return f"SWITCH to {chosen.label}, the fastest that meets the constraints: {gain}. {_why_leave(pick)}."


def _lacking(pick: Pick) -> str:
    """Return why nothing can be said before more is measured."""
    if not pick.not_measured:
        return f"nothing was measured beside {pick.baseline}"
    has = f"{pick.baseline} has no" if pick.baseline in pick.not_measured else f"only {pick.baseline} has"
    return f"{has} figures for all that you asked for"


def candidate_lines(pick: Pick) -> list[str]:
    """Return a line for each candidate worth naming: its name, SWITCH or STAY, the gain or loss, and the cost."""
    if pick.decision in {Decision.NOTHING, Decision.MEASURE} or not pick.named:
        return [recommendation(pick)]
    width = max(map(len, pick.named))
    rows = {contender.label: contender for contender in pick.contenders}
    chosen = pick.recommended
    lines = []
    for label in pick.named:
        if chosen is not None and label == chosen.label:
            word, said = "SWITCH", f"{_gain(pick, rows[label], chosen.gain)}, {costs_text(chosen.costs)}"
            said += "" if rows[label].standing is Standing.FASTER else f"; {_why_leave(pick)}"
        else:
            word, said = STANDING_WORDS[rows[label].standing]
            said = _gain(pick, rows[label], rows[label].speed, said)
        said += "; audit your packages first" if rows[label].sides and not pick.audits else ""
        said += f", built otherwise: {rows[label].built_otherwise}" if rows[label].built_otherwise else ""
        lines.append(f"{label:{width}}  {word:6}  {said}")
    return lines


# What is said of a candidate that is not chosen, by how it stands to the baseline.
STANDING_WORDS = {
    Standing.FASTER: ("ALSO", ""),
    Standing.SLOWER: ("STAY", ""),
    Standing.SAME: ("STAY", f"{SAME_WITHIN}: "),
    Standing.UNDECIDED: ("STAY", "not decided: "),
}


def _gain(pick: Pick, row: Contender, speed: Estimate, standing: str = "") -> str:
    """Return the throughput that was asked for, and without a GIL both sides: readers must see which is theirs."""
    asked = f"{standing}{throughput_text(speed, _on(pick), interval='')}"
    if row.sides is None:
        return asked
    computing, elsewhere = (speed if side == row.speed else side for side in (row.sides.computing, row.sides.elsewhere))
    both = f"{throughput_text(computing, 'where threads compute', interval='')}, "
    both += throughput_text(elsewhere, "elsewhere", interval="").replace(" throughput", "", 1)
    return both if row.speed in {row.sides.computing, row.sides.elsewhere} else f"{asked}: {both}"


def _on(pick: Pick) -> str:
    return f"on {cpus_text(pick.measured_cpus)}"


def _why_leave(pick: Pick) -> str:
    """Return why the baseline is no answer, where the fastest of the others is picked without being faster."""
    reasons = (exclusion.reasons[0] for exclusion in pick.excluded if exclusion.label == pick.baseline)
    why = next(reasons, "it was not measured")
    return f"{pick.baseline} does not meet the constraints: {why}"


def origin(pick: Pick) -> str:
    """Return whose figures answer: of which machine, day and kind of build, what they lack, and which others there are.

    A reader who gets two answers in two folders sees here why.
    """
    whose = {
        Whose.HERE: f"yours in this folder ({pick.experiment})",
        Whose.ELSEWHERE: f"yours elsewhere ({pick.experiment})",
        Whose.PROJECT: "the project's figures",
    }[pick.whose]
    facts = [f"{_workloads(pick)} on {_machine(pick)}", pick.measured, f"builds with {pick.built}"]
    is_advised = any(row.sides for row in pick.contenders if row.label in pick.named)
    reservations = [each for each in _reservations(pick) if not (is_advised and each == NOT_TESTED)]
    said = "; ".join([f"{whose}: {', '.join(facts)}", *reservations])
    return f"{said} ({pick.also})" if pick.also else said


def as_measured(chosen: Recommendation) -> str:
    """Return what was measured and why less is announced; empty if the figure is the same."""
    measured = percent(chosen.measured_gain.estimate)
    if percent(chosen.gain.estimate) == measured:
        return ""
    return f"The measured gain is {measured:+d} %: the best of several looks better than it is"


def _nothing_faster(pick: Pick) -> str:
    best = next((contender for contender in pick.contenders if contender.standing is not Standing.BASELINE), None)
    if best is None:
        return "nothing else meets the constraints"
    what = "nothing that was measured" if pick.not_measured else "nothing"
    if any(contender.built_otherwise and contender.standing is Standing.FASTER for contender in pick.contenders):
        what = "nothing that is built alike"
    why = f", {SAME_WITHIN}" if best.standing is Standing.SAME else ""
    if best.built_otherwise:
        why = f", built otherwise: {best.built_otherwise}"
    had = f"The best, {best.label}, had {throughput_text(best.speed)}{why}"
    return f"{what} is shown to be faster on {cpus_text(pick.measured_cpus)}. {had}"


def costs_text(costs: Costs) -> str:
    """Return what a switch costs in memory and start-up: '+4 MB memory, same start-up'; what is not known is said."""
    memory = "memory not measured"
    if costs.max_rss_bytes is not None:
        change_mb = costs.max_rss_bytes / 1e6
        memory = "same memory" if abs(change_mb) < SAME_MB else f"{round(change_mb):+d} MB memory"
    return f"{memory}, {_start_text(costs)}"


def _start_text(costs: Costs) -> str:
    ratio = costs.start_ratio
    if costs.start_s is None or ratio is None:
        return "start-up not measured"
    if ratio.high is not None and ratio.low > 1 / (1 + SAME_START) and ratio.high < 1 + SAME_START:
        return "same start-up"
    if ratio.high is None or ratio.low <= 1 <= ratio.high:
        return "start-up undecided"
    return f"{costs.start_s * 1e3:+z.1f} ms start-up"


def provenance(pick: Pick) -> str:
    """Return where the figures of a report are from and what they do not say, as one sentence."""
    there = pick.measured_on if pick.in_containers else itself(pick)
    number = len(pick.not_measured)
    missing = [f"{number} variant{'s' * (number > 1)} not measured"] if number else []
    return f"{'; '.join([f'Measured with {_workloads(pick)} on {there}', *_reservations(pick), *missing])}."


def _workloads(pick: Pick) -> str:
    *most, last = dict.fromkeys(share.workload for share in pick.shares)
    return f"{', '.join(most)} and {last}" if most else last


def _machine(pick: Pick) -> str:
    there = pick.measured_on if pick.in_containers else f"{pick.measured_on}, without containers"
    apart = {difference.what for difference in pick.apart} & {"cores", "processor"}
    if apart:
        return f"{there}, not on yours"
    if not pick.in_containers:
        return itself(pick)
    return f"{there} like yours" if pick.shipped else f"{there}, this machine's kind"


def itself(pick: Pick) -> str:
    """Return where figures are from that the machine itself has, which the report is of."""
    return f"{WITHOUT_CONTAINERS} ({pick.measured_on})"


def _reservations(pick: Pick) -> Iterator[str]:
    """Yield what a reader must know before relying on the figures, the most important first."""
    if pick.measured_otherwise:
        yield f"in builds with {pick.measured_otherwise}"
    yield from (
        f"on {other.machine} it was slower ({other.experiment})"
        for other in pick.elsewhere
        if other.standing == "slower"
    )
    if pick.cpus != pick.measured_cpus:
        yield f"{cpus_text(pick.cpus)} not measured"
    if pick.recommended is not None:
        yield _tested(pick, pick.recommended.label)


def _tested(pick: Pick, label: str) -> str:
    """Return what is known of the dependencies on the chosen image; what fails there fails on the baseline too."""
    audit = next((audit for audit in pick.audits if audit.variant == split_label(label)[0]), None)
    if audit is None:
        return NOT_TESTED
    failed = ", ".join(package.name for package in audit.failed)
    return f"your dependencies install and import{f', but for {failed}, as on {pick.baseline}' if failed else ''}"


def cpus_text(count: int) -> str:
    """Return a number of CPUs in words."""
    return f"{count} CPU{'s' if count > 1 else ''}"


def throughput_text(speed: Estimate, where: str = "", *, interval: str = "95 % interval ") -> str:
    """Return a relative throughput in words: '26 % more throughput on 1 CPU (95 % interval 23 to 29 %)'."""
    change = percent(speed.estimate)
    words = f"{abs(change)} % {'more' if change > 0 else 'less'} throughput" if change else "the same throughput"
    words += f" {where}" if where else ""
    if speed.high is None:
        return f"{words} (one round, so no interval)"
    low, high = percent(speed.low), percent(speed.high)
    if low < 0 < high or not change:
        return f"{words} ({interval}{low:+d} to {high:+d} %)"
    first, last = sorted((abs(low), abs(high)))
    return f"{words} ({interval}{first} to {last} %)"


def percent(factor: float) -> int:
    """Return by how many percent a factor is above 1."""
    return round(100 * (factor - 1))


def ratio_text(ratio: Estimate) -> str:
    """Return a ratio with its interval, '1.30 [1.26, 1.35]', or '1.30 [one round]'."""
    if ratio.high is None:
        return f"{ratio.estimate:.2f} [one round]"
    return f"{ratio.estimate:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"
