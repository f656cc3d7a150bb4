"""The answer: which one, what it gains and costs, what speaks against it, and what to do next."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from interlock.model import (
    Built,
    Contender,
    Costs,
    Decision,
    Estimate,
    Exclusion,
    Pick,
    Recommendation,
    Share,
    Standing,
    VariantAudit,
    split_label,
)
from interlock.pick import machines
from interlock.pick.exclusions import broken_imports, reasons
from interlock.pick.machines import Here
from interlock.pick.material import START, Material
from interlock.pick.ranking import Row, rank
from interlock.pick.risks import Local, risks_of
from interlock.pick.weighing import measuring, unranked
from interlock.statistics import Interval, ratio_of

# So many of the best are worth measuring again, besides the baseline.
BEST = 4


@dataclass(frozen=True)
class Ranked:
    """Who meets the demands, in their order; who does not; and what follows from that."""

    rows: list[Row]
    excluded: list[Exclusion]
    decision: Decision
    chosen: Row | None  # whom to switch to


def decide(material: Material) -> Ranked:
    """Excludes, ranks, and says whether to switch.

    The fastest that is shown to be faster than the baseline is chosen: one before it that only seems to be is not. If
    the baseline itself does not meet the demands, staying is no answer, and the fastest of all is chosen.
    """
    found = {label: reasons(material, label) for label in material.labels}
    excluded = [Exclusion(label=label, reasons=why) for label, why in found.items() if why]
    rows = rank(material, [label for label, why in found.items() if not why])
    faster = next((row for row in rows if row.standing is Standing.FASTER), None)
    if not rows:
        return Ranked(rows, excluded, Decision.NOTHING, None)
    if faster is None and any(row.label == material.baseline for row in rows):
        return Ranked(rows, excluded, Decision.STAY, None)
    return Ranked(rows, excluded, Decision.SWITCH, faster or rows[0])


def settle(material: Material, audit: Callable[[str], VariantAudit]) -> tuple[Material, Ranked]:
    """Decides with the dependencies tried on what would be picked, by variant; if they do not fit, on the next one.

    The others cannot be the answer, so nobody waits for them. If a module cannot be imported, the baseline's variant is
    tried too: it tells whether that is the other one's doing.
    """
    ranked = decide(material)
    while ranked.chosen and (name := split_label(ranked.chosen.label)[0]) not in material.audits:
        audits = {**material.audits, name: audit(name)}
        baseline = split_label(material.baseline)[0]
        if broken_imports(audits[name], None) and baseline not in audits:
            audits[baseline] = audit(baseline)
        material = replace(material, audits=audits)
        ranked = decide(material)
    return material, ranked


def advise(material: Material, ranked: Ranked, here: Here, image: Built | None, local: Local) -> Pick:
    """All that there is to say. `image` is the chosen one's, as this engine has it or as it was measured."""
    experiment, demands = material.experiment, material.demands
    apart = machines.apart(experiment.host, here)
    measure = measuring([workload for workload, _ in material.shares], _best(material, ranked), demands)
    recommended = _recommendation(material, ranked.chosen, image, local) if ranked.chosen and image else None
    again = material.recorded.shipped or apart or experiment.settings.quick
    return Pick(
        decision=ranked.decision,
        answer=_answer(material, ranked),
        experiment=experiment.name,
        shipped=material.recorded.shipped,
        profile=demands.profile,
        baseline=material.baseline,
        machine=machines.described(experiment.host),
        apart=apart,
        shares=[Share(workload=at[0], benchmark=at[1], share=share) for at, share in material.shares.items()],
        contenders=[_contender(material, row) for row in ranked.rows],
        excluded=ranked.excluded,
        recommended=recommended,
        audits=list(material.audits.values()),
        notes=[*_notes(material, ranked), *here.notes],
        measure=measure,
        next=_next(material, ranked, local) or [measure] * bool(ranked.rows and again),
    )


def speed_of(ratio: Interval) -> Estimate:
    """Work in the time of 1, from time per work."""
    high = 1 / ratio.low if ratio.low > 0 else None
    return Estimate(estimate=1 / ratio.estimate, low=0.0 if math.isinf(ratio.high) else 1 / ratio.high, high=high)


def _time_of(ratio: Interval) -> Estimate:
    high = None if math.isinf(ratio.high) else ratio.high
    return Estimate(estimate=ratio.estimate, low=ratio.low, high=high)


def _contender(material: Material, row: Row) -> Contender:
    return Contender(
        label=row.label,
        speed=speed_of(row.ratio),
        standing=row.standing,
        tied_with=row.tied_with,
        max_rss_bytes=material.max_rss_bytes(row.label),
        start_s=_start_s(material, row.label),
        image_bytes=_image_bytes(material, row.label),
    )


def _start_s(material: Material, label: str) -> float | None:
    figures = material.medians(label, START)
    return median(figures) if figures else None


def _image_bytes(material: Material, label: str) -> int:
    image = material.images.get(split_label(label)[0])
    return image.size_bytes if image else 0


def _recommendation(material: Material, row: Row, image: Built, local: Local) -> Recommendation:
    mode = material.mode(row.label)
    return Recommendation(
        label=row.label,
        reference=image.reference,
        pinned=image.digest is not None,
        environment=mode.environment if mode else {},
        options=mode.options if mode else [],
        gain=speed_of(row.ratio),
        costs=_costs(material, row.label),
        risks=list(risks_of(material, row.label, local)),
    )


def _costs(material: Material, label: str) -> Costs:
    baseline = material.baseline
    mine, theirs = _start_s(material, label), _start_s(material, baseline)
    ratio = ratio_of(material.medians(label, START), material.medians(baseline, START))
    return Costs(
        max_rss_bytes=material.max_rss_bytes(label) - material.max_rss_bytes(baseline),
        image_bytes=_image_bytes(material, label) - _image_bytes(material, baseline),
        start_s=mine - theirs if mine is not None and theirs is not None else None,
        start_ratio=_time_of(ratio) if ratio else None,
    )


def _answer(material: Material, ranked: Ranked) -> str:
    baseline, row = material.baseline, ranked.chosen
    if ranked.decision is Decision.NOTHING:
        return f"none of {len(ranked.excluded)} variants and modes meets the demands"
    if row is None:
        return f"stay with {baseline}: {_nothing_faster(material, ranked)}"
    if row.standing is Standing.FASTER:
        gain = f"{spoken(speed_of(row.ratio))} times its work in the same time"
        return f"switch from {baseline} to {row.label}, which does {gain}"
    why = next((one.reasons[0] for one in ranked.excluded if one.label == baseline), "it was not measured")
    return (
        f"{baseline} does not meet the demands ({why}); the fastest that does is {row.label}, with "
        f"{spoken(speed_of(row.ratio))} times its speed"
    )


def _nothing_faster(material: Material, ranked: Ranked) -> str:
    best = next((row for row in ranked.rows if row.label != material.baseline), None)
    if best is None:
        return "nothing else meets the demands"
    return f"nothing is shown to be faster (the best, {best.label}: {spoken(speed_of(best.ratio))} times its speed)"


def spoken(speed: Estimate) -> str:
    """1.30 [1.26, 1.35]; without an interval it is of one round."""
    if speed.high is None:
        return f"{speed.estimate:.2f} [one round]"
    return f"{speed.estimate:.2f} [{speed.low:.2f}, {speed.high:.2f}]"


def _notes(material: Material, ranked: Ranked) -> Iterator[str]:
    """What a reader must know of how this came about."""
    chosen, experiment = ranked.chosen, material.experiment
    if chosen and chosen.standing is not Standing.FASTER:
        yield "nothing that meets the demands is shown to be faster than the baseline: this switch is for the demands"
    if chosen:
        seeming = [row.label for row in ranked.rows[: ranked.rows.index(chosen)] if row.label != material.baseline]
        if seeming:
            yield f"not shown to be faster than {material.baseline}, however it looks: {', '.join(seeming)}"
        if tied := [row.label for row in ranked.rows if row.tied_with == chosen.label]:
            yield f"not shown to differ from {chosen.label}: {', '.join(tied)}"
    if material.demands.needs and not chosen and not material.audits:
        yield "your dependencies were not tried: only what would be switched to is"
    if left_out := unranked(experiment, material.demands, material.catalog.workloads):
        yield f"without weight unless it is named: {', '.join(left_out)}"
    if experiment.warnings:
        count = f"{len(experiment.warnings)} warning{'s' if len(experiment.warnings) > 1 else ''}"
        yield f"something disturbed the measuring: `interlock report {material.recorded.folder}` has {count}"
    yield "memory is that of the workloads' processes, not of your program's"


def _best(material: Material, ranked: Ranked) -> Sequence[str]:
    """The baseline and the best that are not shown to be slower, for the command that measures them again."""
    rows = [row for row in ranked.rows if row.standing not in {Standing.SLOWER, Standing.BASELINE}]
    chosen = [ranked.chosen.label] if ranked.chosen else []
    best = list(dict.fromkeys([*chosen, *(row.label for row in rows or ranked.rows)]))[:BEST]
    return [material.baseline, *best]


def _next(material: Material, ranked: Ranked, local: Local) -> list[str]:
    """Build it, try it, put it in; nothing if nothing is to change."""
    if ranked.chosen is None:
        return []
    row = ranked.chosen
    variant = split_label(row.label)[0]
    release = " --release" if material.demands.profile == "release" else ""
    build = [f"interlock build {variant}{release}"] if local in {Local.ABSENT, Local.UNKNOWN} else []
    return [
        *build,
        f"interlock trial . --variants {row.label}{release}",
        f"interlock swap Dockerfile --to {row.label}{release}",
    ]
