"""Which experiment answers a pick, how much each benchmark counts, and the figures that it has."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from interlock.analysis.comparison import (
    BenchmarkKey,
    built_otherwise,
    counted,
    is_too_disturbed,
    other_optimisation,
)
from interlock.analysis.pick.criteria import EXCLUDED_PHASES, Criteria, WorkloadWeight, parse_weights
from interlock.analysis.pick.figures import NO_ROWS, RecordedLevels, contending_labels
from interlock.catalog.project import Catalog
from interlock.catalog.types import DEFAULT_BASELINE, split_label
from interlock.catalog.variants import Gil, Mode, SupportPhase, Variant
from interlock.catalog.workloads import Benchmark, Workload
from interlock.errors import UsageError, nearest, require_known
from interlock.results.answers import RecordedFigures, VariantAudit, Whose
from interlock.results.experiments import Built, CellResult, Experiment, State

Workloads = Mapping[str, Workload]
Shares = dict[BenchmarkKey, float]

# How many experiments an error names, the latest first.
MAX_NAMED = 3
# The benchmark of start-up time: `python -c pass`.
START_UP: BenchmarkKey = ("startup", "pass")
# What is asked for who names no workload: a service that answers and fetches, else what there is of it.
USUAL_MIXES = (("service", "download"), ("service",), ("download",), ("startup",))


@dataclass(frozen=True)
class RecordedExperiment:
    """An experiment, its folder, and whose it is."""

    folder: Path
    experiment: Experiment
    whose: Whose

    @property
    def shipped(self) -> bool:
        return self.whose is Whose.PROJECT

    @property
    def name(self) -> str:
        return f"{self.experiment.name}{' (shipped)' if self.shipped else ''}"


def choose_experiment(
    recorded: Sequence[RecordedExperiment], criteria: Criteria, catalog: Catalog
) -> RecordedExperiment:
    """Return the experiment that answers all criteria best; raise UsageError with what each lacks otherwise."""
    known = catalog.workloads
    sets = [known, *(candidate.experiment.workloads for candidate in recorded)]
    _check_names(sets, criteria.weights)
    if answers := answering(recorded, criteria, catalog):
        return answers[0]
    lacking = [f"{each.name} {missing_from(each.experiment, criteria, known)}" for each in recorded]
    more = f"; and {len(lacking) - MAX_NAMED} more" if len(lacking) > MAX_NAMED else ""
    names = ", ".join(weight.name for weight in criteria.weights)
    raise UsageError(
        found=f"no experiment can rank images by {names}: {'; '.join(lacking[:MAX_NAMED]) or 'there is none'}{more}",
        todo=_todo(criteria, known),
    )


def answering(recorded: Iterable[RecordedExperiment], criteria: Criteria, catalog: Catalog) -> list[RecordedExperiment]:
    """Return the experiments that answer all criteria, the best first, whatever their order.

    The user's own come before the shipped ones, those of this folder first. Then come those of builds that are
    optimised as they are now. Of the user's own the latest comes first. Of the shipped ones those with the usual
    baseline, then those whose rounds went on until rows were decided; then of builds as they are now the latest, of
    others those that compare most.
    """
    answers = [answer for answer in recorded if not missing_from(answer.experiment, criteria, catalog.workloads)]
    return sorted(answers, key=lambda answer: _usefulness(answer, criteria, catalog), reverse=True)


def _usefulness(answer: RecordedExperiment, criteria: Criteria, catalog: Catalog) -> tuple[bool | int | str, ...]:
    settings = answer.experiment.settings
    usual, decides, compared, rounds = False, False, 0, 0
    if answer.shipped:
        usual, decides = settings.baseline == DEFAULT_BASELINE, settings.looks
        compared, rounds = len(comparable(answer.experiment, criteria, catalog)), settings.rounds
    as_now = not measured_otherwise(answer.experiment, criteria, catalog)
    when = f"{answer.experiment.started} {answer.experiment.name}"
    latest = when if as_now else ""
    return -list(Whose).index(answer.whose), as_now, usual, decides, latest, compared, rounds, when


def comparable(experiment: Experiment, criteria: Criteria, catalog: Catalog) -> list[str]:
    """Return the variants and modes with figures for all that counts, but those of a phase that is not allowed."""
    keys = shares_of(experiment, criteria, catalog.workloads)
    cells = {(cell.label, cell.workload): cell for cell in experiment.cells}

    def is_ok(label: str, workload: str, benchmark: str) -> bool:
        cell = cells.get((label, workload))
        return cell is not None and cell.outcome_of(benchmark).state is State.OK

    def is_allowed(label: str) -> bool:
        variant = catalog.variants.get(split_label(label)[0])
        phase = variant.support.phase if variant else SupportPhase.END_OF_LIFE
        return phase not in EXCLUDED_PHASES or phase in criteria.allowed

    labels = contending_labels(experiment)
    return [label for label in labels if is_allowed(label) and all(is_ok(label, *key) for key in keys)]


def usual_question(recorded: Sequence[RecordedExperiment], criteria: Criteria, catalog: Catalog) -> Criteria:
    """Return the criteria with weights, for who names no workload: the first usual mix that something answers.

    A mix is answered where a variant besides the baseline has figures for all of it; the user's own experiments are
    asked first, then the shipped ones of builds that are optimised as they are now. If none is, it is the first mix, so
    that an error names what to measure.
    """
    shipped = [candidate for candidate in recorded if candidate.shipped]
    as_now = [candidate for candidate in shipped if not measured_otherwise(candidate.experiment, criteria, catalog)]
    for group in ([candidate for candidate in recorded if not candidate.shipped], as_now, shipped):
        for mix in USUAL_MIXES:
            asked = replace(criteria, weights=parse_weights(mix))
            if any(
                len(comparable(answer.experiment, asked, catalog)) > 1 for answer in answering(group, asked, catalog)
            ):
                return asked
    return replace(criteria, weights=parse_weights(USUAL_MIXES[0]))


def _check_names(sets: Sequence[Workloads], weights: Sequence[WorkloadWeight]) -> None:
    """Raise UsageError for a workload or benchmark that neither the project nor any experiment has."""
    for weight in weights:
        workloads = [known[weight.workload] for known in sets if weight.workload in known]
        require_known({name for known in sets for name in known}, weight.workload, "workload", "--workload")
        benchmarks = {benchmark.name for workload in workloads for benchmark in workload.benchmarks}
        if weight.benchmark is not None and weight.benchmark not in benchmarks:
            raise UsageError(
                key="--workload",
                found=f"{weight.workload} has no benchmark '{weight.benchmark}'",
                todo=nearest(weight.benchmark, benchmarks),
            )


def missing_from(experiment: Experiment, criteria: Criteria, known: Workloads) -> str:
    """Return what the criteria need and the experiment does not have, as the end of a sentence; empty if it has all."""
    missing = [
        weight.name for weight in criteria.weights if not weighted_benchmarks(experiment.workloads, known, weight)
    ]
    if missing:
        return f"did not measure {', '.join(missing)}"
    chosen = experiment.settings.benchmarks
    partly = [weight.name for weight in criteria.weights if weight.benchmark is None and weight.workload in chosen]
    if partly:
        return f"measured chosen benchmarks of {', '.join(partly)} alone"
    return _missing_cpus(experiment, criteria, known) or _missing_baseline(experiment, criteria, known)


def _missing_cpus(experiment: Experiment, criteria: Criteria, known: Workloads) -> str:
    if criteria.cpus > 1 and experiment.host["cores"] == 1:
        return "was measured on a machine with 1 CPU"
    missing = [weight.name for weight in criteria.weights if not _counting(experiment, criteria, known, weight)]
    return f"did not measure {', '.join(missing)} on one CPU" if missing else ""


def _missing_baseline(experiment: Experiment, criteria: Criteria, known: Workloads) -> str:
    baseline = baseline_of(experiment, criteria)
    cells = {(cell.workload, cell.label): cell for cell in experiment.cells}
    for workload, benchmark in shares_of(experiment, criteria, known):
        cell = cells.get((workload, baseline))
        if cell is None:
            return f"did not measure {baseline}, the baseline"
        if is_too_disturbed(experiment, workload):
            return f"measured {workload} while other programs took the processor"
        outcome = cell.outcome_of(benchmark)
        if outcome.state is not State.OK:
            return f"has no figure for {baseline}, the baseline: {workload} {benchmark} is {outcome.state.value}"
    return ""


def baseline_of(experiment: Experiment, criteria: Criteria) -> str:
    """Return the label that the others are compared with: --baseline, or the experiment's own."""
    return criteria.baseline or experiment.settings.baseline


def measured_otherwise(experiment: Experiment, criteria: Criteria, catalog: Catalog) -> str:
    """Return what optimised the baseline as it was measured and what as it is built now, if not the same."""
    name = split_label(baseline_of(experiment, criteria))[0]
    variant = catalog.variants.get(name)
    measured = next((image.optimisations for image in experiment.images if image.variant == name), None)
    return other_optimisation(measured, variant.optimisations if variant else None)


def shares_of(experiment: Experiment, criteria: Criteria, known: Workloads) -> Shares:
    """Return each benchmark's share of the ranking; a workload's weight is split evenly. They add up to 1."""
    total = sum(weight.weight for weight in criteria.weights)
    shares: Shares = {}
    for weight in criteria.weights:
        counting = _counting(experiment, criteria, known, weight)
        for benchmark in counting:
            key = (weight.workload, benchmark.name)
            shares[key] = shares.get(key, 0.0) + weight.weight / total / len(counting)
    return shares


def _counting(experiment: Experiment, criteria: Criteria, known: Workloads, weight: WorkloadWeight) -> list[Benchmark]:
    """Return the benchmarks that a weight counts with the wanted number of CPUs."""
    weighted = weighted_benchmarks(experiment.workloads, known, weight)
    return weighted if weight.benchmark is not None else counted(weighted, criteria.cpus)


def weighted_benchmarks(workloads: Workloads, known: Workloads, weight: WorkloadWeight) -> list[Benchmark]:
    """Return the benchmark that a weight names, or those of the workload that need not be named to count.

    What a benchmark counts for is what the project says today, not what the experiment recorded.
    """
    workload = workloads.get(weight.workload)
    if workload is None:
        return []
    if weight.benchmark is not None:
        return [benchmark for benchmark in workload.benchmarks if benchmark.name == weight.benchmark]
    benchmarks = [_as_today(benchmark, known.get(workload.name)) for benchmark in workload.benchmarks]
    return [benchmark for benchmark in benchmarks if benchmark.counts_for != "named"]


def _as_today(benchmark: Benchmark, workload: Workload | None) -> Benchmark:
    today = (
        next((now for now in workload.benchmarks if now.name == benchmark.name), benchmark) if workload else benchmark
    )
    return benchmark.model_copy(update={"counts_for": today.counts_for, "scaling": today.scaling})


def _todo(criteria: Criteria, known: Workloads) -> str:
    names = [named_to_measure(weight, known) for weight in criteria.weights if weight.workload in known]
    return f"Measure it: `{measuring_command(names, [], criteria)}`." if names else "Name an experiment with --from."


def named_to_measure(weight: WorkloadWeight, known: Workloads) -> str:
    """Return what `matrix --workloads` takes for a weight: a workload whose benchmarks its program lists only whole."""
    workload = known.get(weight.workload)
    return weight.name if workload is None or workload.benchmarks else weight.workload


def measuring_command(
    workloads: Sequence[str], labels: Sequence[str], criteria: Criteria, where: Sequence[str] = ()
) -> str:
    """Return the command that measures these workloads, or benchmarks of them, for these labels: first the baseline.

    Without labels it measures the core set; `where` has the options that lead to an engine and a folder.
    """
    words = ["interlock", "matrix", "--workloads", ",".join(dict.fromkeys(workloads))]
    words += ["--variants", ",".join(dict.fromkeys(labels))] if labels else []
    baseline = split_label(criteria.baseline or (labels[0] if labels else DEFAULT_BASELINE))[0]
    words += ["--baseline", baseline] if criteria.baseline or baseline != DEFAULT_BASELINE else []
    return shlex.join([*words, *where])


def _on_side(benchmarks: Iterable[Benchmark], computing: bool) -> list[Benchmark]:
    return [benchmark for benchmark in benchmarks if benchmark.computes_in_threads is computing]


@dataclass(frozen=True)
class Evidence:
    """An experiment with its figures (of the weighted workloads and of start-up), the catalog and the criteria.

    `audits` has the variants whose dependencies were tested.
    """

    recorded: RecordedExperiment
    figures: RecordedFigures
    catalog: Catalog
    criteria: Criteria
    today: datetime.date
    audits: Mapping[str, VariantAudit] = field(default_factory=dict)

    @property
    def experiment(self) -> Experiment:
        return self.recorded.experiment

    @property
    def measured_otherwise(self) -> str:
        """Return what optimised the measured builds and what today's, if not the same; empty if alike."""
        return measured_otherwise(self.experiment, self.criteria, self.catalog)

    @cached_property
    def baseline(self) -> str:
        return baseline_of(self.experiment, self.criteria)

    @cached_property
    def shares(self) -> Shares:
        return shares_of(self.experiment, self.criteria, self.catalog.workloads)

    @cached_property
    def sides(self) -> tuple[Shares, Shares]:
        """Return the shares where threads compute on more CPUs than one, and elsewhere; empty where nothing is known.

        Of a side that is not asked for they are of what the same workloads have of it.
        """
        return self._side(computing=True), self._side(computing=False)

    def _side(self, *, computing: bool) -> Shares:
        workloads = {workload: self.experiment.workloads[workload] for workload, _ in self.shares}
        names = {
            (name, benchmark.name)
            for name, workload in workloads.items()
            for benchmark in _on_side(workload.benchmarks, computing)
        }
        shares = {key: share for key, share in self.shares.items() if key in names}
        for name, workload in workloads.items() if not shares else ():
            usual = weighted_benchmarks(workloads, self.catalog.workloads, WorkloadWeight(name, None, 1.0))
            if computing:  # known unasked, though it counts where it is named
                usual = [benchmark.model_copy(update={"counts_for": "any"}) for benchmark in workload.benchmarks]
            counting = counted(_on_side(usual, computing), self.criteria.cpus)
            shares |= {(name, benchmark.name): 1 / len(counting) for benchmark in counting}
        total = sum(shares.values())
        return {key: share / total for key, share in shares.items()}

    @cached_property
    def labels(self) -> list[str]:
        return contending_labels(self.experiment)

    @cached_property
    def cells(self) -> dict[tuple[str, str], CellResult]:
        """Return the cells by label and workload."""
        return {(cell.label, cell.workload): cell for cell in self.experiment.cells}

    @cached_property
    def images(self) -> dict[str, Built]:
        """Return the images by variant."""
        return {image.variant: image for image in self.experiment.images}

    @cached_property
    def pinned(self) -> list[str]:
        """Return the workloads of which only benchmarks on one CPU count, though more CPUs are asked for."""
        if self.criteria.cpus == 1:
            return []
        cpus_of: dict[str, set[str]] = {}
        for workload in dict.fromkeys(workload for workload, _ in self.shares):
            own = self.experiment.workloads[workload].benchmarks
            cpus_of[workload] = {benchmark.cpus for benchmark in own if (workload, benchmark.name) in self.shares}
        return [workload for workload, cpus in cpus_of.items() if cpus == {"one"}]

    @property
    def measured_cpus(self) -> int:
        """Return how many CPUs the figures that count are of: one if one was asked for, or if all are pinned."""
        workloads = {workload for workload, _ in self.shares}
        is_one = self.criteria.cpus == 1 or workloads == set(self.pinned)
        return 1 if is_one else int(self.experiment.host["cores"])

    @cached_property
    def counts_otherwise(self) -> bool:
        """Return whether other benchmarks count on the other side of one CPU."""
        other = replace(self.criteria, cpus=2 if self.criteria.cpus == 1 else 1)
        shares = shares_of(self.experiment, other, self.catalog.workloads)
        return bool(shares) and shares.keys() != self.shares.keys()

    def variant(self, label: str) -> Variant | None:
        """Return a label's variant; None if the project no longer has it."""
        return self.catalog.variants.get(split_label(label)[0])

    def mode(self, label: str) -> Mode | None:
        """Return a label's mode; None for a plain variant and for a mode that the project no longer has."""
        variant, name = self.variant(label), split_label(label)[1]
        return next((mode for mode in variant.modes if mode.name == name), None) if variant else None

    def built_otherwise(self, label: str) -> str:
        """Return what optimised a label's interpreter and what the baseline's, if not the same; empty if alike."""
        return built_otherwise(self.images.values(), label, self.baseline)

    def gil(self, label: str) -> Gil | None:
        """Return the GIL state that the variant or mode declares."""
        variant, mode = self.variant(label), self.mode(label)
        return (mode.gil if mode else None) or (variant.proof.gil if variant else None)

    def levels(self, key: BenchmarkKey) -> RecordedLevels:
        """Return the rows of a benchmark that have figures, fitted together."""
        return RecordedLevels(self.figures.tables.get(key[0], {}).get(key[1], NO_ROWS))

    def seconds(self, label: str, key: BenchmarkKey) -> float | None:
        """Return the median over the rounds; None if it was not measured."""
        return self.levels(key).seconds(label)

    def start_s(self, label: str) -> float | None:
        """Return the median time of a start; None if it was not measured, or was disturbed too much."""
        return None if is_too_disturbed(self.experiment, START_UP[0]) else self.seconds(label, START_UP)

    def max_rss_bytes(self, label: str) -> int | None:
        """Return the largest memory of one process in the weighted benchmarks, in bytes; None if none is known."""
        return max((self.levels(key).max_rss_bytes(label) for key in self.shares), default=0) or None
