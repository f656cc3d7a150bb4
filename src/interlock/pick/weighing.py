"""Which experiment has what somebody runs, and how much each of its benchmarks counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from interlock.errors import UsageError, nearest
from interlock.model import Benchmark, Experiment, State, Workload, split_label
from interlock.pick.demands import Demands, Weight

# Workload and benchmark.
Place = tuple[str, str]
Workloads = Mapping[str, Workload]

# What the arguments of benchmarks call their threads.
THREAD_OPTIONS = ("--threads", "--readers", "--workers")
# Experiments that an error names, the latest first.
NAMED = 3


@dataclass(frozen=True)
class Recorded:
    """An experiment and where it is; shipped ones came with Interlock."""

    folder: Path
    experiment: Experiment
    shipped: bool

    @property
    def name(self) -> str:
        return f"{self.experiment.name}{' (shipped)' if self.shipped else ''}"


def choose(recorded: Sequence[Recorded], demands: Demands, known: Workloads) -> Recorded:
    """The first one that has all that is asked for; UsageError says what each lacks, and how to measure it."""
    sets = [known, *(one.experiment.workloads for one in recorded)]
    _check_names(sets, demands.weights)
    _check_threads(sets, demands, known)
    lacking: list[str] = []
    for one in recorded:
        if not (found := lacks(one.experiment, demands, known)):
            return one
        lacking.append(f"{one.name} {found}")
    more = f"; and {len(lacking) - NAMED} more" if len(lacking) > NAMED else ""
    names = ", ".join(weight.name for weight in demands.weights)
    raise UsageError(
        found=f"no experiment can rank by {names}: {'; '.join(lacking[:NAMED]) or 'none is recorded'}{more}",
        todo=_todo(demands, known),
    )


def _check_names(sets: Sequence[Workloads], weights: Sequence[Weight]) -> None:
    """UsageError for a workload or a benchmark that neither the project nor an experiment knows."""
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


def _check_threads(sets: Sequence[Workloads], demands: Demands, known: Workloads) -> None:
    """UsageError if nothing was ever to be measured with so many threads; what has no count runs as it does."""
    if demands.threads is None:
        return
    counts = {
        weight.name: {threads_of(one) for workloads in sets for one in ranked(workloads, known, weight)} - {None}
        for weight in demands.weights
    }
    if not any(counts.values()):
        found = f"no benchmark of {', '.join(counts)} says how many threads it runs"
        raise UsageError(key="--threads", found=found, todo="Leave the option out.")
    for name, found_counts in counts.items():
        if found_counts and demands.threads not in found_counts:
            raise UsageError(
                key="--threads",
                found=f"{name} is measured with {_either(found_counts)} threads, not with {demands.threads}",
                todo=f"Choose {_either(found_counts)}, or leave the option out.",
            )


def lacks(experiment: Experiment, demands: Demands, known: Workloads) -> str:
    """What the experiment has not of what is asked for; empty if it has all."""
    if experiment.settings.profile != demands.profile:
        return f"is of profile {experiment.settings.profile}"
    missing = [weight.name for weight in demands.weights if not ranked(experiment.workloads, known, weight)]
    if missing:
        return f"has not measured {', '.join(missing)}"
    return _lacks_threads(experiment, demands, known) or _lacks_baseline(experiment, demands, known)


def _lacks_threads(experiment: Experiment, demands: Demands, known: Workloads) -> str:
    """The workloads that it has measured with other numbers of threads alone."""
    for weight in demands.weights if demands.threads is not None else ():
        counts = {threads_of(one) for one in ranked(experiment.workloads, known, weight)}
        if not counts & {None, demands.threads}:
            return f"has measured {weight.name} with {_either(counts)} threads"
    return ""


def _either(counts: set[int | None]) -> str:
    return " or ".join(str(count) for count in sorted(count for count in counts if count is not None))


def _lacks_baseline(experiment: Experiment, demands: Demands, known: Workloads) -> str:
    baseline = baseline_of(experiment, demands)
    cells = {(cell.workload, cell.label): cell for cell in experiment.cells}
    for workload, benchmark in shares_of(experiment, demands, known):
        cell = cells.get((workload, baseline))
        if cell is None:
            return f"has not measured {baseline}, the baseline"
        outcome = cell.benchmarks.get(benchmark, cell.outcome)
        if outcome.state is not State.OK:
            return f"has no figure of {baseline}, the baseline: {workload} {benchmark} is {outcome.state.value}"
    return ""


def baseline_of(experiment: Experiment, demands: Demands) -> str:
    """What the others are compared with: what runs now, or the experiment's own baseline."""
    return demands.baseline or experiment.settings.baseline


def shares_of(experiment: Experiment, demands: Demands, known: Workloads) -> dict[Place, float]:
    """How much of the ranking each benchmark is; a workload's weight is shared by its benchmarks. The sum is 1."""
    total = sum(weight.weight for weight in demands.weights)
    shares: dict[Place, float] = {}
    for weight in demands.weights:
        counting = [
            one
            for one in ranked(experiment.workloads, known, weight)
            if demands.threads is None or threads_of(one) in {None, demands.threads}
        ]
        for one in counting:
            place = (weight.workload, one.name)
            shares[place] = shares.get(place, 0.0) + weight.weight / total / len(counting)
    return shares


def ranked(workloads: Workloads, known: Workloads, weight: Weight) -> list[Benchmark]:
    """The benchmarks that a weight is of: the one that it names, or those of the workload that rank.

    Whether a benchmark ranks is what the project says of it today; experiments of earlier days do not say it.
    """
    workload = workloads.get(weight.workload)
    if workload is None:
        return []
    if weight.benchmark is not None:
        return [one for one in workload.benchmarks if one.name == weight.benchmark]
    return [one for one in workload.benchmarks if _ranks(one, known.get(workload.name))]


def _ranks(benchmark: Benchmark, today: Workload | None) -> bool:
    benchmarks = {one.name: one for one in today.benchmarks} if today else {}
    return benchmarks.get(benchmark.name, benchmark).ranks


def threads_of(benchmark: Benchmark) -> int | None:
    """How many threads its arguments ask for; None if they do not say."""
    for option, value in zip(benchmark.arguments, benchmark.arguments[1:], strict=False):
        if option in THREAD_OPTIONS and value.isdecimal():
            return int(value)
    return None


def unranked(experiment: Experiment, demands: Demands, known: Workloads) -> list[str]:
    """The benchmarks of the weighted workloads that do not count, as `--workload` would name them."""
    counting = shares_of(experiment, demands, known)
    return [
        f"{name}/{benchmark.name}"
        for name in dict.fromkeys(weight.workload for weight in demands.weights if weight.benchmark is None)
        for benchmark in experiment.workloads[name].benchmarks
        if (name, benchmark.name) not in counting
    ]


def _todo(demands: Demands, known: Workloads) -> str:
    names = [weight.workload for weight in demands.weights if weight.workload in known]
    return f"Measure it: `{measuring(names, [], demands)}`." if names else "Name one with --experiment."


def measuring(workloads: Sequence[str], labels: Sequence[str], demands: Demands) -> str:
    """The command that measures these labels (all of them if none is named) on these workloads."""
    words = ["interlock", "matrix", "--workloads", ",".join(dict.fromkeys(workloads))]
    words += ["--variants", ",".join(dict.fromkeys(labels))] if labels else []
    words += ["--baseline", split_label(demands.baseline)[0]] if demands.baseline else []
    return " ".join([*words, *(["--release"] if demands.profile == "release" else [])])
