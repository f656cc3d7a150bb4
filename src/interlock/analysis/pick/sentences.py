"""A pick in two sentences: what to run, for what gain and cost, and where the figures are from. Pure.

`pick` prints them first, and a report begins with them.
"""

from __future__ import annotations

from collections.abc import Iterator

from interlock.results.answers import Contender, Costs, Decision, Estimate, Pick, Recommendation, Standing

# Costs within this are the same: memory in MB, a start's time as a ratio.
SAME_MB = 0.5
SAME_START = 0.05
WITHOUT_CONTAINERS = "this machine, without containers"


def recommendation(pick: Pick) -> str:
    """Return what to run, the gain with its interval and CPUs, and the cost, as one sentence."""
    if pick.decision is Decision.NOTHING:
        return f"NOTHING FITS: none of {len(pick.excluded)} variants and modes meets the constraints."
    if pick.decision is Decision.MEASURE:
        if not pick.not_measured:
            return f"MEASURE first: nothing was measured beside {pick.baseline}."
        return f"MEASURE first: only {pick.baseline} has figures for all that you asked for."
    chosen = pick.recommended
    if chosen is None:
        return f"STAY with {pick.baseline}: {_nothing_faster(pick)}."
    row = next(one for one in pick.contenders if one.label == chosen.label)
    gain = f"{throughput_text(chosen.gain, cpus_text(pick.measured_cpus))}, {costs_text(chosen.costs)}"
    if row.standing is Standing.FASTER:
        return f"SWITCH from {pick.baseline} to {chosen.label}: {gain}."
    why = next((one.reasons[0] for one in pick.excluded if one.label == pick.baseline), "it was not measured")
    return (
        f"SWITCH to {chosen.label}, the fastest that meets the constraints: {gain}. {pick.baseline} does not meet "
        f"them: {why}."
    )


def as_measured(chosen: Recommendation) -> str:
    """Return what was measured and why less is announced; empty if the figure is the same."""
    measured = percent(chosen.measured_gain.estimate)
    if percent(chosen.gain.estimate) == measured:
        return ""
    return f"The measured gain is {measured:+d} %: the best of several looks better than it is"


def _nothing_faster(pick: Pick) -> str:
    best = best_text(pick)
    if not best:
        return "nothing else meets the constraints"
    what = "nothing that was measured" if pick.not_measured else "nothing"
    if any(one.built_otherwise and one.standing is Standing.FASTER for one in pick.contenders):
        what = "nothing that is built alike"
    return f"{what} is shown to be faster on {cpus_text(pick.measured_cpus)}. {best}"


def best_text(pick: Pick) -> str:
    """Return what the best of the others had, and whether that may be chance; empty without any."""
    others = [one for one in pick.contenders if one.standing is not Standing.BASELINE]
    if not others:
        return ""
    best: Contender = others[0]
    why = f", which the best of {len(others)} may have by chance" if best.speed.low > 1 else ""
    if best.built_otherwise:
        why = f", built otherwise: {best.built_otherwise}"
    return f"The best, {best.label}, had {throughput_text(best.speed)}{why}"


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
    return f"{costs.start_s * 1e3:+.1f} ms start-up"


def provenance(pick: Pick, *, compared: bool = True) -> str:
    """Return where the figures are from and what they do not say, as one sentence.

    With `compared` also whether this machine is like that one.
    """
    *most, last = dict.fromkeys(one.workload for one in pick.shares)
    workloads = f"{', '.join(most)} and {last}" if most else last
    there = pick.measured_on if pick.in_containers else itself(pick)
    first = f"Measured with {workloads} on {_machine(pick) if compared else there}"
    return f"{'; '.join([first, *_reservations(pick)])}."


def _machine(pick: Pick) -> str:
    there = pick.measured_on if pick.in_containers else f"{pick.measured_on}, without containers"
    apart = {one.what for one in pick.apart} & {"cores", "processor"}
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
        f"on {one.machine} it was slower ({one.experiment})" for one in pick.elsewhere if one.standing == "slower"
    )
    if pick.cpus > pick.measured_cpus:
        yield f"{cpus_text(pick.cpus)} not measured"
    if pick.recommended is not None:
        yield "your dependencies install and import" if pick.audits else "your dependencies are not tested yet"
    if pick.not_measured:
        number = len(pick.not_measured)
        yield f"{number} variant{'s' if number > 1 else ''} not measured"


def cpus_text(count: int) -> str:
    """Return a number of CPUs in words."""
    return f"{count} CPU{'s' if count > 1 else ''}"


def throughput_text(speed: Estimate, on: str = "") -> str:
    """Return a relative throughput in words: '26 % more throughput on 1 CPU (95 % interval 23 to 29 %)'."""
    change = percent(speed.estimate)
    words = f"{abs(change)} % {'more' if change > 0 else 'less'} throughput" if change else "the same throughput"
    words += f" on {on}" if on else ""
    if speed.high is None:
        return f"{words} (one round, so no interval)"
    low, high = percent(speed.low), percent(speed.high)
    if low < 0 < high or not change:
        return f"{words} (95 % interval {low:+d} to {high:+d} %)"
    first, last = sorted((abs(low), abs(high)))
    return f"{words} (95 % interval {first} to {last} %)"


def percent(factor: float) -> int:
    """Return by how many percent a factor is above 1."""
    return round(100 * (factor - 1))


def ratio_text(ratio: Estimate) -> str:
    """Return a ratio with its interval, '1.30 [1.26, 1.35]', or '1.30 [one round]'."""
    if ratio.high is None:
        return f"{ratio.estimate:.2f} [one round]"
    return f"{ratio.estimate:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"
