"""Which experiment answers a pick, how much each benchmark counts, and the figures that it has."""

from __future__ import annotations

import datetime
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from interlock.analysis.comparison import BenchmarkKey, built_otherwise, counted, other_optimisation
from interlock.analysis.pick.criteria import EXCLUDED_PHASES, Criteria, WorkloadWeight, parse_weights
from interlock.analysis.pick.figures import NO_ROWS, RecordedLevels, contending_labels
from interlock.catalog.project import Catalog
from interlock.catalog.types import DEFAULT_BASELINE, TWIN, label_of, split_label
from interlock.catalog.variants import Gil, Mode, SupportPhase, Variant
from interlock.catalog.workloads import Benchmark, Workload
from interlock.errors import UsageError, nearest
from interlock.results.answers import RecordedFigures, VariantAudit
from interlock.results.experiments import Built, CellResult, Experiment, State

Workloads = Mapping[str, Workload]

# Arguments of benchmarks that give the number of threads.
THREAD_OPTIONS = ("--threads", "--readers", "--workers")
# How many experiments an error names, the latest first.
MAX_NAMED = 3
# The benchmark of start-up time: `python -c pass`.
START_UP: BenchmarkKey = ("startup", "pass")
# What is asked for who names no workload: a service that answers and fetches, else what there is of it.
USUAL_MIXES = (("service", "download"), ("service",), ("download",), ("startup",))


@dataclass(frozen=True)
class RecordedExperiment:
    """An experiment, its folder, and whether it came with Interlock."""

    folder: Path
    experiment: Experiment
    shipped: bool

    @property
    def name(self) -> str:
        return f"{self.experiment.name}{' (shipped)' if self.shipped else ''}"


def choose_experiment(
    recorded: Sequence[RecordedExperiment], criteria: Criteria, catalog: Catalog
) -> RecordedExperiment:
    """Return the experiment that answers all criteria best; raise UsageError with what each lacks otherwise."""
    known = catalog.workloads
    sets = [known, *(one.experiment.workloads for one in recorded)]
    _check_names(sets, criteria.weights)
    _check_threads(sets, criteria, known)
    if found := answering(recorded, criteria, catalog):
        return found[0]
    lacking = [f"{one.name} {missing_from(one.experiment, criteria, known)}" for one in recorded]
    more = f"; and {len(lacking) - MAX_NAMED} more" if len(lacking) > MAX_NAMED else ""
    names = ", ".join(weight.name for weight in criteria.weights)
    raise UsageError(
        found=f"no experiment can rank images by {names}: {'; '.join(lacking[:MAX_NAMED]) or 'there is none'}{more}",
        todo=_todo(criteria, known),
    )


def answering(recorded: Iterable[RecordedExperiment], criteria: Criteria, catalog: Catalog) -> list[RecordedExperiment]:
    """Return the experiments that answer all criteria, the best first, whatever their order.

    The user's own come before the shipped ones, then those of builds that are optimised as they are now. Of the user's
    own the latest comes first. Of the shipped ones those with the usual baseline, then those whose rounds went on until
    rows were decided, then those that compare most.
    """
    found = [one for one in recorded if not missing_from(one.experiment, criteria, catalog.workloads)]
    return sorted(found, key=lambda one: _usefulness(one, criteria, catalog), reverse=True)


def _usefulness(one: RecordedExperiment, criteria: Criteria, catalog: Catalog) -> tuple[bool | int | str, ...]:
    settings = one.experiment.settings
    usual, decides, compared, rounds = False, False, 0, 0
    if one.shipped:
        usual, decides = settings.baseline == DEFAULT_BASELINE, settings.looks
        compared, rounds = len(comparable(one.experiment, criteria, catalog)), settings.rounds
    as_now = not measured_otherwise(one.experiment, criteria, catalog)
    when = f"{one.experiment.started} {one.experiment.name}"
    return not one.shipped, as_now, usual, decides, compared, rounds, when


def comparable(experiment: Experiment, criteria: Criteria, catalog: Catalog) -> list[str]:
    """Return the variants and modes with figures for all that counts, but those of a phase that is not allowed."""
    keys = shares_of(experiment, criteria, catalog.workloads)
    cells = {(cell.label, cell.workload): cell for cell in experiment.cells}

    def is_ok(label: str, workload: str, benchmark: str) -> bool:
        cell = cells.get((label, workload))
        return cell is not None and cell.benchmarks.get(benchmark, cell.outcome).state is State.OK

    def is_allowed(label: str) -> bool:
        variant = catalog.variants.get(split_label(label)[0])
        phase = variant.support.phase if variant else SupportPhase.END_OF_LIFE
        return phase not in EXCLUDED_PHASES or phase in criteria.allowed

    labels = dict.fromkeys(label for label, _ in cells if split_label(label)[1] != TWIN)
    return [label for label in labels if is_allowed(label) and all(is_ok(label, *key) for key in keys)]


def usual_question(recorded: Sequence[RecordedExperiment], criteria: Criteria, catalog: Catalog) -> Criteria:
    """Return the criteria with weights, for who names no workload: the first usual mix that something answers.

    A mix is answered where a variant besides the baseline has figures for all of it; the user's own experiments are
    asked first, then the shipped ones of builds that are optimised as they are now. If none is, it is the first mix, so
    that an error names what to measure.
    """
    shipped = [one for one in recorded if one.shipped]
    as_now = [one for one in shipped if not measured_otherwise(one.experiment, criteria, catalog)]
    for group in ([one for one in recorded if not one.shipped], as_now, shipped):
        for mix in USUAL_MIXES:
            asked = replace(criteria, weights=parse_weights(mix))
            if any(len(comparable(one.experiment, asked, catalog)) > 1 for one in answering(group, asked, catalog)):
                return asked
    return replace(criteria, weights=parse_weights(USUAL_MIXES[0]))


def _check_names(sets: Sequence[Workloads], weights: Sequence[WorkloadWeight]) -> None:
    """Raise UsageError for a workload or benchmark that neither the project nor any experiment has."""
    for weight in weights:
        workloads = [one[weight.workload] for one in sets if weight.workload in one]
        if not workloads:
            names = {name for one in sets for name in one}
            raise UsageError(
                key="--workload",
                found=f"there is no workload '{weight.workload}'",
                todo=nearest(weight.workload, names),
            )
        benchmarks = {benchmark.name for one in workloads for benchmark in one.benchmarks}
        if weight.benchmark is not None and weight.benchmark not in benchmarks:
            raise UsageError(
                key="--workload",
                found=f"{weight.workload} has no benchmark '{weight.benchmark}'",
                todo=nearest(weight.benchmark, benchmarks),
            )


def _check_threads(sets: Sequence[Workloads], criteria: Criteria, known: Workloads) -> None:
    """Raise UsageError if no benchmark runs that many threads; benchmarks without a thread count are not affected."""
    if criteria.threads is None:
        return
    counts = {
        weight.name: {threads_of(one) for workloads in sets for one in weighted_benchmarks(workloads, known, weight)}
        - {None}
        for weight in criteria.weights
    }
    if not any(counts.values()):
        found = f"no benchmark of {', '.join(counts)} has a number of threads"
        raise UsageError(key="--threads", found=found, todo="Leave out --threads.")
    for name, found_counts in counts.items():
        if found_counts and criteria.threads not in found_counts:
            raise UsageError(
                key="--threads",
                found=f"{name} is measured with {_counts_text(found_counts)} threads, not with {criteria.threads}",
                todo=f"Choose {_counts_text(found_counts)}, or leave out --threads.",
            )


def missing_from(experiment: Experiment, criteria: Criteria, known: Workloads) -> str:
    """Return what the criteria need and the experiment does not have, as the end of a sentence; empty if it has all."""
    missing = [
        weight.name for weight in criteria.weights if not weighted_benchmarks(experiment.workloads, known, weight)
    ]
    if missing:
        return f"did not measure {', '.join(missing)}"
    return (
        _missing_threads(experiment, criteria, known)
        or _missing_cpus(experiment, criteria, known)
        or _missing_baseline(experiment, criteria, known)
    )


def _missing_cpus(experiment: Experiment, criteria: Criteria, known: Workloads) -> str:
    if criteria.cpus > 1 and experiment.host["cores"] == 1:
        return "was measured on a machine with 1 CPU"
    missing = [one.name for one in criteria.weights if not _counting(experiment, criteria, known, one)]
    return f"did not measure {', '.join(missing)} on one CPU" if missing else ""


def _missing_threads(experiment: Experiment, criteria: Criteria, known: Workloads) -> str:
    """Return the first workload that was measured only with other numbers of threads."""
    for weight in criteria.weights if criteria.threads is not None else ():
        counts = {threads_of(one) for one in weighted_benchmarks(experiment.workloads, known, weight)}
        if not counts & {None, criteria.threads}:
            return f"measured {weight.name} with {_counts_text(counts)} threads only"
    return ""


def _counts_text(counts: set[int | None]) -> str:
    return " or ".join(str(count) for count in sorted(count for count in counts if count is not None))


def _missing_baseline(experiment: Experiment, criteria: Criteria, known: Workloads) -> str:
    baseline = baseline_of(experiment, criteria)
    cells = {(cell.workload, cell.label): cell for cell in experiment.cells}
    for workload, benchmark in shares_of(experiment, criteria, known):
        cell = cells.get((workload, baseline))
        if cell is None:
            return f"did not measure {baseline}, the baseline"
        outcome = cell.benchmarks.get(benchmark, cell.outcome)
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
    measured = next((one.optimisations for one in experiment.images if one.variant == name), None)
    return other_optimisation(measured, variant.optimisations if variant else None)


def shares_of(experiment: Experiment, criteria: Criteria, known: Workloads) -> dict[BenchmarkKey, float]:
    """Return each benchmark's share of the ranking; a workload's weight is split evenly. They add up to 1."""
    total = sum(weight.weight for weight in criteria.weights)
    shares: dict[BenchmarkKey, float] = {}
    for weight in criteria.weights:
        counting = _counting(experiment, criteria, known, weight)
        for one in counting:
            key = (weight.workload, one.name)
            shares[key] = shares.get(key, 0.0) + weight.weight / total / len(counting)
    return shares


def _counting(experiment: Experiment, criteria: Criteria, known: Workloads, weight: WorkloadWeight) -> list[Benchmark]:
    """Return the benchmarks that a weight counts with the wanted numbers of CPUs and of threads."""
    found = [
        one
        for one in weighted_benchmarks(experiment.workloads, known, weight)
        if criteria.threads is None or threads_of(one) in {None, criteria.threads}
    ]
    return found if weight.benchmark is not None else counted(found, criteria.cpus, criteria.threads)


def weighted_benchmarks(workloads: Workloads, known: Workloads, weight: WorkloadWeight) -> list[Benchmark]:
    """Return the benchmark that a weight names, or those of the workload that need not be named to count.

    What a benchmark counts for is what the project says today, not what the experiment recorded.
    """
    workload = workloads.get(weight.workload)
    if workload is None:
        return []
    if weight.benchmark is not None:
        return [one for one in workload.benchmarks if one.name == weight.benchmark]
    found = [_as_today(one, known.get(workload.name)) for one in workload.benchmarks]
    return [one for one in found if one.counts_for != "named"]


def _as_today(benchmark: Benchmark, workload: Workload | None) -> Benchmark:
    today = (
        next((one for one in workload.benchmarks if one.name == benchmark.name), benchmark) if workload else benchmark
    )
    return benchmark.model_copy(update={"counts_for": today.counts_for, "scaling": today.scaling})


def threads_of(benchmark: Benchmark) -> int | None:
    """Return the number of threads in a benchmark's arguments; None without one."""
    for option, value in zip(benchmark.arguments, benchmark.arguments[1:], strict=False):
        if option in THREAD_OPTIONS and re.fullmatch("[0-9]{1,9}", value):
            return int(value)
    return None


def uncounted(experiment: Experiment, criteria: Criteria, known: Workloads) -> list[str]:
    """Return the benchmarks of the weighted workloads that do not count, as `--workload` names them."""
    counting = shares_of(experiment, criteria, known)
    return [
        f"{name}/{benchmark.name}"
        for name in dict.fromkeys(weight.workload for weight in criteria.weights if weight.benchmark is None)
        for benchmark in experiment.workloads[name].benchmarks
        if (name, benchmark.name) not in counting
    ]


def _todo(criteria: Criteria, known: Workloads) -> str:
    names = [weight.workload for weight in criteria.weights if weight.workload in known]
    return (
        f"Measure it: `{measuring_command(names, [], criteria)}`." if names else "Name an experiment with --experiment."
    )


def measuring_command(
    workloads: Sequence[str], labels: Sequence[str], criteria: Criteria, where: Sequence[str] = ()
) -> str:
    """Return the command that measures these labels, of which the first is the baseline.

    Without labels it measures the core set; `where` has the options that lead to an engine and a folder.
    """
    words = ["interlock", "matrix", "--workloads", ",".join(dict.fromkeys(workloads))]
    words += ["--variants", ",".join(dict.fromkeys(labels))] if labels else []
    baseline = split_label(criteria.baseline or (labels[0] if labels else DEFAULT_BASELINE))[0]
    words += ["--baseline", baseline] if criteria.baseline or baseline != DEFAULT_BASELINE else []
    return shlex.join([*words, *where])


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
    def shares(self) -> dict[BenchmarkKey, float]:
        return shares_of(self.experiment, self.criteria, self.catalog.workloads)

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

    @property
    def cores(self) -> int:
        """Return the number of CPUs that the experiment's machine has."""
        return int(self.experiment.host["cores"])

    @cached_property
    def pinned(self) -> list[str]:
        """Return the workloads of which only benchmarks on one CPU count, though more CPUs are asked for."""
        if self.criteria.cpus == 1:
            return []
        found: dict[str, set[str]] = {}
        for workload, name in self.shares:
            (benchmark,) = (one for one in self.experiment.workloads[workload].benchmarks if one.name == name)
            found.setdefault(workload, set()).add(benchmark.cpus)
        return [workload for workload, cpus in found.items() if cpus == {"one"}]

    @property
    def measured_cpus(self) -> int:
        """Return how many CPUs the figures that count are of: one if one was asked for, or if all are pinned."""
        workloads = {workload for workload, _ in self.shares}
        return 1 if self.criteria.cpus == 1 or workloads == set(self.pinned) else self.cores

    @cached_property
    def counts_otherwise(self) -> bool:
        """Return whether other benchmarks count on the other side of one CPU."""
        other = replace(self.criteria, cpus=2 if self.criteria.cpus == 1 else 1)
        found = shares_of(self.experiment, other, self.catalog.workloads)
        return bool(found) and found.keys() != self.shares.keys()

    @property
    def twin(self) -> str:
        return label_of(self.experiment.settings.baseline, TWIN)

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

    def max_rss_bytes(self, label: str) -> int | None:
        """Return the largest memory of one process in the weighted benchmarks, in bytes; None if none is known."""
        return max((self.levels(key).max_rss_bytes(label) for key in self.shares), default=0) or None
