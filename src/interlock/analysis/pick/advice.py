"""The answer of a pick: which image, what it gains and costs, and what to do next."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from interlock.analysis import not_measured
from interlock.analysis.comparison import baseline_optimisation
from interlock.analysis.pick import sentences
from interlock.analysis.pick.evidence import START_UP, Evidence, measuring_command, named_to_measure
from interlock.analysis.pick.exclusions import (
    LocalImage,
    elsewhere_unmeasured,
    exclusion_reasons,
    failures,
    fits,
    other_release,
    risks_of,
    unmeasured,
)
from interlock.analysis.pick.ranking import RankedVariant, announced, rank, switch_elsewhere
from interlock.analysis.pick.sentences import cpus_text, throughput_text
from interlock.analysis.statistics import Interval
from interlock.catalog.types import split_label
from interlock.results.answers import (
    Contender,
    Costs,
    Decision,
    Elsewhere,
    Estimate,
    Exclusion,
    MachineDifference,
    Pick,
    Rank,
    Recommendation,
    Share,
    Sides,
    Standing,
    VariantAudit,
)
from interlock.results.experiments import Built, EngineName

# How a fact is written where its value alone would not be understood.
FACT_FORMATS = {"cores": "{} cores", "kernel": "Linux {}", "storage driver": "storage driver {}"}
# Families that people choose a newer interpreter from.
ASKED_ABOUT = ("release-lines", "free-threading")
# The address and the load that a service is tried with; the reader changes them.
ADDRESS, LOAD, USUAL_PORT = "--http :{port}{path}", "--load 'wrk -t1 -c4 -d3s {url}/'", 8000


@dataclass(frozen=True)
class OwnDockerfile:
    """The Dockerfile of the current folder, and the options that a trial of it needs."""

    file: str = "Dockerfile"
    options: str = f"{ADDRESS.format(port=USUAL_PORT, path='/')} {LOAD}"

    def trial_of(self, label: str) -> str:
        """Return the command that tries a variant with the service of this folder."""
        return f"interlock trial . --variants {label} {self.options}".rstrip()


@dataclass(frozen=True)
class ThisMachine:
    """This machine as an experiment would record it; no engine if none answers."""

    host: Mapping[str, Any]
    engine: Mapping[str, Any] | None = None
    own: OwnDockerfile | None = OwnDockerfile()
    also: str = ""  # which other figures there are, and how they are asked

    @property
    def has_containers(self) -> bool:
        return self.engine is not None and in_containers(self.engine)

    @property
    def notes(self) -> list[str]:
        if self.engine is not None:
            return []
        return ["no container engine answers here: its version and storage driver are not compared"]


def in_containers(engine: Mapping[str, Any]) -> bool:
    """Return whether a recorded engine is one of containers."""
    return bool(engine["name"] != EngineName.HOST)


def machine_text(host: Mapping[str, Any]) -> str:
    """Return a machine's facts in one line."""
    facts = _machine_facts(host, host.get("engine"))
    return ", ".join(FACT_FORMATS.get(what, "{}").format(fact) for what, fact in facts.items())


def short_machine_text(host: Mapping[str, Any]) -> str:
    """Return the cores and processor of a machine: 'a 2-core AMD EPYC'."""
    return f"a {host.get('cores') or '?'}-core {host.get('cpu') or 'machine'}"


def machine_differences(there: Mapping[str, Any], here: ThisMachine) -> list[MachineDifference]:
    """Return the facts that are known of both machines and differ."""
    theirs, ours = _machine_facts(there, there.get("engine")), _machine_facts(here.host, here.engine)
    return [
        MachineDifference(what=what, there=theirs[what], here=ours[what])
        for what in theirs
        if what in ours and theirs[what] != ours[what]
    ]


def _machine_facts(host: Mapping[str, Any], engine: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the known facts that make figures differ between machines, by name."""
    memory_bytes = host.get("memory_bytes")
    facts = {
        "cores": host.get("cores"),
        "processor": host.get("cpu"),
        "memory": f"{memory_bytes / 2**30:.0f} GiB" if memory_bytes else None,
        "kernel": host.get("kernel"),
        "system": host.get("system"),
        "engine": f"{engine['name']} {engine['version']}" if engine else None,
        "storage driver": engine.get("storage_driver") if engine else None,
    }
    return {what: str(fact) for what, fact in facts.items() if fact is not None}


class ImageHere(NamedTuple):
    """The chosen image, as this engine has it or as it was measured, and which of the two; None if none is chosen."""

    built: Built | None
    local: LocalImage


@dataclass(frozen=True)
class Ranking:
    """The contenders in their order, what is excluded or not measured, and the decision that follows."""

    rows: list[RankedVariant]
    excluded: list[Exclusion]
    not_measured: list[str]
    decision: Decision
    chosen: RankedVariant | None  # the image to switch to


def decide(evidence: Evidence) -> Ranking:
    """Exclude, rank, and decide whether to switch.

    The fastest contender that is shown to be faster than the baseline is chosen, even if another one ranks above it but
    is not shown to be faster. One whose build is optimised otherwise does not compare like with like: it is chosen
    only if nothing else meets the constraints. If the baseline itself fails a constraint, the fastest contender is
    chosen. What was not measured is no reason to stay: if nothing but the baseline was, the answer is to measure.
    """
    reasons = {label: exclusion_reasons(evidence, label) for label in evidence.labels}
    excluded = [Exclusion(label=label, reasons=why) for label, why in reasons.items() if why]
    fit = [label for label, why in reasons.items() if not why]
    lacking = set(fit) if unmeasured(evidence, evidence.baseline) else {x for x in fit if unmeasured(evidence, x)}
    rows = rank(evidence, [label for label in fit if label not in lacking])
    not_measured = [*(label for label in fit if label in lacking), *elsewhere_unmeasured(evidence)]
    return Ranking(rows, excluded, not_measured, *_decision(evidence, rows, not_measured, excluded))


def _decision(
    evidence: Evidence, rows: Sequence[RankedVariant], not_measured: Sequence[str], excluded: Sequence[Exclusion]
) -> tuple[Decision, RankedVariant | None]:
    contenders = [row for row in rows if row.label != evidence.baseline]
    if not rows and not set(not_measured) & set(evidence.labels):
        return Decision.NOTHING, None
    if not contenders and (not_measured or not excluded):
        return Decision.MEASURE, None
    alike = [row for row in rows if not evidence.built_otherwise(row.label)]
    faster = next((row for row in alike if row.standing is Standing.FASTER), None)
    if faster is None and len(contenders) < len(rows):
        return Decision.STAY, None
    return Decision.SWITCH, faster or (alike or rows)[0]


def decide_with_audits(evidence: Evidence, audit: Callable[[str], VariantAudit]) -> tuple[Evidence, Ranking]:
    """Decide with the dependencies tested on the chosen variant and, as long as they fail, on the next one.

    Variants that cannot be the answer are not tested. If a package or a module fails, the baseline's variant is tested
    too, to tell whether the chosen one is the cause.
    """
    ranked = decide(evidence)
    while ranked.chosen and (name := split_label(ranked.chosen.label)[0]) not in evidence.audits:
        audits = {**evidence.audits, name: audit(name)}
        baseline = split_label(evidence.baseline)[0]
        if failures(audits[name]) and baseline not in audits:
            audits[baseline] = audit(baseline)
        evidence = replace(evidence, audits=audits)
        ranked = decide(evidence)
    return evidence, ranked


def advise(
    evidence: Evidence,
    ranked: Ranking,
    here: ThisMachine,
    image: ImageHere,
    elsewhere: Sequence[Evidence] = (),
) -> Pick:
    """Return the whole answer; `elsewhere` are the other shipped experiments with figures for the same question."""
    experiment, criteria = evidence.experiment, evidence.criteria
    apart = machine_differences(experiment.host, here)
    is_here = not (evidence.recorded.shipped or apart)
    # Other machines' figures are soon replaced by quick ones of this one, and those by a full experiment.
    where = experiment.settings.where.words if is_here else ["--quick"]
    weighted = [named_to_measure(weight, evidence.catalog.workloads) for weight in criteria.weights]
    named = _named(evidence, ranked)
    measure = measuring_command(weighted, _to_measure(evidence, ranked, named), criteria, where)
    recommended = None
    if ranked.chosen and image.built:
        recommended = _recommendation(evidence, ranked.rows, ranked.chosen, image.built, image.local)
    is_final = is_here and not experiment.settings.quick and ranked.decision is not Decision.MEASURE
    again = bool(ranked.rows or ranked.not_measured) and not is_final
    same_switch = list(_elsewhere(ranked.chosen, elsewhere))
    pick = Pick(
        decision=ranked.decision,
        answer="",
        experiment=experiment.name,
        whose=evidence.recorded.whose,
        measured=experiment.started[:10],
        built=baseline_optimisation(experiment),
        also=here.also,
        measured_otherwise=evidence.measured_otherwise,
        elsewhere=same_switch,
        cpus=criteria.cpus,
        measured_cpus=evidence.measured_cpus,
        baseline=evidence.baseline,
        machine=machine_text(experiment.host),
        measured_on=short_machine_text(experiment.host),
        apart=apart,
        shares=[Share(workload=at[0], benchmark=at[1], share=share) for at, share in evidence.shares.items()],
        contenders=[_contender(evidence, row) for row in ranked.rows],
        named=named,
        excluded=ranked.excluded,
        not_measured=ranked.not_measured,
        recommended=recommended,
        audits=list(evidence.audits.values()),
        notes=[*_notes(evidence, ranked, same_switch), *here.notes],
        measure=measure,
        next=_next_commands(ranked, image.local, here, [measure] * again),
        in_containers=in_containers(experiment.host["engine"]),
        unmeasured=_unmeasured(evidence),
    )
    return pick.model_copy(update={"answer": sentences.recommendation(pick)})


def _unmeasured(evidence: Evidence) -> dict[str, list[str]]:
    """Return what has no figures of what was asked for, by the reason; of what a constraint excludes nothing."""
    variants = [
        name for name in dict.fromkeys(image.variant for image in evidence.experiment.images) if fits(evidence, name)
    ]
    return not_measured.by_reason(evidence.experiment, variants, {workload for workload, _ in evidence.shares})


def _elsewhere(chosen: RankedVariant | None, elsewhere: Sequence[Evidence]) -> Iterator[Elsewhere]:
    for other in elsewhere:
        if chosen and (switch := switch_elsewhere(other, chosen.label)):
            ratio, standing = switch
            yield Elsewhere(
                experiment=other.experiment.name,
                machine=short_machine_text(other.experiment.host),
                measured_otherwise=other.measured_otherwise,
                speed=speed_of(ratio),
                standing=standing,
            )


def speed_of(ratio: Interval) -> Estimate:
    """Return the relative throughput of a ratio of times: its inverse."""
    high = 1 / ratio.low if ratio.low > 0 else None
    return Estimate(estimate=1 / ratio.estimate, low=0.0 if math.isinf(ratio.high) else 1 / ratio.high, high=high)


def estimate_of(ratio: Interval) -> Estimate:
    """Return a ratio as records have it: an open end is none."""
    high = None if math.isinf(ratio.high) else ratio.high
    return Estimate(estimate=ratio.estimate, low=ratio.low, high=high)


def _contender(evidence: Evidence, row: RankedVariant) -> Contender:
    return Contender(
        label=row.label,
        speed=speed_of(row.ratio),
        standing=row.standing,
        rank=row.rank,
        max_rss_bytes=evidence.max_rss_bytes(row.label),
        start_s=evidence.start_s(row.label),
        image_bytes=_image_bytes(evidence, row.label),
        built_otherwise=evidence.built_otherwise(row.label),
        sides=row.sides and Sides(computing=speed_of(row.sides[0]), elsewhere=speed_of(row.sides[1])),
    )


def _image_bytes(evidence: Evidence, label: str) -> int | None:
    """Return the size of the measured image; None if it is not known."""
    image = evidence.images.get(split_label(label)[0])
    return (image.size_bytes or None) if image else None


def _recommendation(
    evidence: Evidence, rows: Sequence[RankedVariant], row: RankedVariant, built: Built, local: LocalImage
) -> Recommendation:
    mode = evidence.mode(row.label)
    contenders = [contender.ratio for contender in rows if contender.label != evidence.baseline]
    return Recommendation(
        label=row.label,
        reference=built.reference,
        pinned=built.digest is not None,
        environment=mode.environment if mode else {},
        options=mode.options if mode else [],
        gain=speed_of(announced(row.ratio, contenders)),
        measured_gain=speed_of(row.ratio),
        costs=_costs(evidence, row.label),
        risks=list(risks_of(evidence, row.label, local, built.version)),
    )


def _costs(evidence: Evidence, label: str) -> Costs:
    baseline = evidence.baseline
    theirs = evidence.start_s(baseline)
    ratio = evidence.levels(START_UP).ratio(label, baseline) if theirs is not None else None
    return Costs(
        max_rss_bytes=_difference(evidence.max_rss_bytes(label), evidence.max_rss_bytes(baseline)),
        image_bytes=_difference(_image_bytes(evidence, label), _image_bytes(evidence, baseline)),
        # By the ratio, whose rounds are compared with each other: medians may differ the other way.
        start_s=theirs * (ratio.estimate - 1) if ratio and theirs is not None else None,
        start_ratio=estimate_of(ratio) if ratio else None,
    )


def _difference(mine: int | None, theirs: int | None) -> int | None:
    return None if mine is None or theirs is None else mine - theirs


def _notes(evidence: Evidence, ranked: Ranking, same_switch: Sequence[Elsewhere]) -> Iterator[str]:
    """Yield what a reader must know about how the decision was made."""
    chosen, experiment = ranked.chosen, evidence.experiment
    if chosen and chosen.standing is not Standing.FASTER:
        yield "nothing that meets the constraints is shown to be faster than the baseline, which does not meet them"
    if chosen:
        above = ranked.rows[: ranked.rows.index(chosen)]
        seeming = [row.label for row in above if row.standing not in {Standing.FASTER, Standing.BASELINE}]
        if seeming:
            yield f"ranked higher, but not shown to be faster than {evidence.baseline}: {', '.join(seeming)}"
        open_ = [row.label for row in ranked.rows if row.rank is Rank.OPEN and row is not chosen]
        if open_:
            yield f"not shown to differ from the best: {', '.join(open_)}"
    if odd := [row.label for row in ranked.rows if evidence.built_otherwise(row.label)]:
        like = evidence.built_otherwise(odd[0])
        yield f"not built like the baseline, so not chosen: {', '.join(odd)} ({like})"
    if evidence.criteria.needs and not chosen and not evidence.audits:
        yield "your dependencies were not tested: only an image to switch to is tested"
    for other in same_switch:
        of = f"{other.machine}, built otherwise" if other.measured_otherwise else other.machine
        yield f"the same switch in {other.experiment} ({of}): {throughput_text(other.speed)}"
    yield from _notes_on_cpus(evidence)
    others_now = {row.label: other_release(evidence, row.label) for row in ranked.rows}
    if measured := ", ".join(f"{label} as {version}" for label, version in others_now.items() if version):
        yield f"measured before newer releases, which `interlock build` makes now: {measured}"
    if experiment.warnings:
        count = f"{len(experiment.warnings)} warning{'s' if len(experiment.warnings) > 1 else ''}"
        yield f"the measurement was disturbed: `interlock report {evidence.recorded.folder}` shows {count}"
    yield "memory is that of the workloads' processes, not of your program"


def _notes_on_cpus(evidence: Evidence) -> Iterator[str]:
    """Yield what the figures do not show of this number of CPUs."""
    if evidence.counts_otherwise:
        other = 2 if evidence.criteria.cpus == 1 else 1
        yield f"for {cpus_text(other)} other benchmarks count, and the ranking may differ: --cpus {other}"
    for workload in evidence.pinned:
        yield f"{workload} was measured on one CPU only: what more CPUs gain is not in its figures"


def _named(evidence: Evidence, ranked: Ranking) -> list[str]:
    """Return the contenders that people ask about: the chosen one, the newest release and the newest without a GIL.

    Where nothing of them has figures, or is newer than the baseline, it is the best one.
    """
    contenders = [row.label for row in ranked.rows if row.label != evidence.baseline]
    newest: dict[str, str] = {}
    for label in sorted(contenders, key=lambda label: _release(evidence, label), reverse=True):
        variant = evidence.variant(label)
        is_older = _release(evidence, label) < _release(evidence, evidence.baseline)
        if variant is not None and not is_older and split_label(label)[1] is None:
            newest.setdefault(variant.family, label)
    chosen = [ranked.chosen.label] if ranked.chosen else []
    asked_about = [newest[family] for family in ASKED_ABOUT if family in newest]
    return list(dict.fromkeys([*chosen, *asked_about] or contenders[:1]))


def _release(evidence: Evidence, label: str) -> tuple[int, ...]:
    """Return the Python release of a label, to order by."""
    variant = evidence.variant(label)
    return tuple(map(int, variant.release_line.split("."))) if variant else ()


def _to_measure(evidence: Evidence, ranked: Ranking, named: Sequence[str]) -> Sequence[str]:
    """Return the baseline and what the answer names, to be measured again, and what has no figures yet.

    Nothing where nothing was measured beside the baseline: then the core set is to be measured.
    """
    missing = ranked.not_measured if ranked.decision is Decision.MEASURE else []
    labels = [evidence.baseline, *named, *missing]
    return labels if len(set(labels)) > 1 else []


def _next_commands(ranked: Ranking, local: LocalImage, here: ThisMachine, measure: Sequence[str]) -> list[str]:
    """Return commands that work here as they are, the first one first.

    A trial needs a Dockerfile in this folder and containers, and builds what is missing. Without them what is picked by
    other machines' figures is measured here; else its interpreter is built, for tests of one's own.
    """
    if ranked.chosen is None:
        return list(measure)
    label = ranked.chosen.label
    variant = split_label(label)[0]
    if here.own is not None and here.has_containers:
        return [here.own.trial_of(label), *measure, f"interlock swap {shlex.quote(here.own.file)} --to {label}"]
    without = "" if here.has_containers else " --engine host"
    is_there = local not in {LocalImage.ABSENT, LocalImage.UNKNOWN}
    return [*measure, f"interlock check {variant}" if is_there else f"interlock build {variant}{without}"]
