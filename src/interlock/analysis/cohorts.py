"""Which experiments may be compared with each other, and what the hosts of one kind say together.

Kinds of host are never ranked, nor are hosts: each experiment has its own baseline, and a ratio of one host is compared
with the same ratio of the others of its kind. Over several hosts a host is what a round is within an experiment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from interlock.analysis.comparison import BenchmarkKey, Table, baseline_optimisation, counted
from interlock.analysis.statistics import Interval, Ratio, mean_by_group, ratio_over
from interlock.analysis.verdicts import Comparison, Verdict, compared
from interlock.catalog.types import split_label
from interlock.catalog.workloads import Benchmark, Workload
from interlock.errors import KindError
from interlock.results.experiments import Experiment


class KindOfHost(NamedTuple):
    """What two hosts must have in common for a ratio of one to be comparable with a ratio of the other."""

    cpu: str
    cores: int
    kernel: str
    engine: str
    storage_driver: str

    def __str__(self) -> str:
        return (
            f"{self.cores} cores {self.cpu}, Linux {self.kernel}, {self.engine}, storage driver {self.storage_driver}"
        )


class Cohort(NamedTuple):
    """What experiments must have in common to be compared: the kind of host, the baseline and what optimised it."""

    kind: KindOfHost
    baseline: str
    optimised_by: str

    def __str__(self) -> str:
        return f"{self.kind}; baseline {self.built}"

    @property
    def built(self) -> str:
        """Return the baseline and what optimised it."""
        return f"{self.baseline} ({self.optimised_by})"

    @property
    def facts(self) -> dict[str, str]:
        """Return the facts by the names that messages use."""
        named = {**self.kind._asdict(), "baseline": self.built}
        return {name.replace("_", " "): str(value) for name, value in named.items()}


@dataclass(frozen=True)
class BaselineRatio:
    """The ratio of a label to the baseline in one benchmark of one experiment."""

    ratio: Ratio
    verdict: Verdict


@dataclass(frozen=True)
class BenchmarkRatios:
    """The ratios of one benchmark of one experiment, by label."""

    benchmark: Benchmark
    command: str
    twin: Ratio | None
    points: Mapping[str, BaselineRatio]


@dataclass(frozen=True)
class Extract:
    """An experiment without its values: facts, and ratios to its own baseline."""

    name: str
    host: str
    started: str
    tool_version: str
    cohort: Cohort
    images: Mapping[str, str]  # content hashes by variant; empty where none was recorded
    measured: Mapping[BenchmarkKey, BenchmarkRatios]

    def image(self, label: str) -> str:
        return self.images.get(split_label(label)[0], "")


def extract(experiment: Experiment, tables: Sequence[Table]) -> Extract:
    """Return the extract of an experiment, given its tables."""
    return Extract(
        name=experiment.name,
        host=str(experiment.host.get("name", experiment.host["folder"])),
        started=experiment.started,
        tool_version=experiment.tool_version,
        cohort=Cohort(host_kind(experiment), experiment.settings.baseline, baseline_optimisation(experiment)),
        images={image.variant: image.content_hash for image in experiment.images},
        measured={(table.workload.name, table.benchmark.name): _benchmark_ratios(table) for table in tables},
    )


def host_kind(experiment: Experiment) -> KindOfHost:
    host, engine = experiment.host, experiment.host["engine"]
    return KindOfHost(
        cpu=host["cpu"],
        cores=host["cores"],
        kernel=host["kernel"],
        engine=f"{engine['name']} {engine['version']}",
        storage_driver=engine["storage_driver"],
    )


def _benchmark_ratios(table: Table) -> BenchmarkRatios:
    return BenchmarkRatios(
        benchmark=table.benchmark,
        command=_command(table.workload, table.benchmark),
        twin=table.twin,
        points={
            row.label: BaselineRatio(row.to_baseline.ratio, row.to_baseline.verdict)
            for row in table.rows
            if row.to_baseline
        },
    )


def _command(workload: Workload, benchmark: Benchmark) -> str:
    """Return what a benchmark runs: benchmarks of one name that run different commands are not compared."""
    command = benchmark.command or [str(workload.program), *benchmark.arguments]
    served = f", served by {workload.server.environment}" if workload.server else ""
    return f"{' '.join(command)} per {workload.unit} on {benchmark.cpus} of the CPUs{served}"


def by_cohort(extracts: Iterable[Extract]) -> dict[Cohort, list[Extract]]:
    """Group the extracts by cohort, each in the order in which the experiments were started."""
    cohorts: dict[Cohort, list[Extract]] = {}
    for one in sorted(extracts, key=lambda one: (one.started, one.name, one.host)):
        cohorts.setdefault(one.cohort, []).append(one)
    return cohorts


def check_comparable(what: str, before: Cohort, after: Cohort) -> None:
    """Raise KindError, with the facts in which they differ, if two experiments are of different cohorts."""
    differ = [
        f"{name} {fact} and {after.facts[name]}" for name, fact in before.facts.items() if fact != after.facts[name]
    ]
    if differ:
        raise KindError(
            file=what,
            found=f"cannot be compared: {'; '.join(differ)}",
            todo="Measure both on the same kind of host, with the same build of the baseline.",
        )


@dataclass(frozen=True)
class HostRow:
    """One label in one benchmark over the hosts of a kind."""

    label: str
    over: Comparison
    lowest: tuple[float, str]  # the ratio and its host
    highest: tuple[float, str]
    slower: int  # numbers of hosts, by each host's own verdict
    faster: int
    same: int
    undecided: int

    @property
    def hosts(self) -> int:
        return self.slower + self.faster + self.same + self.undecided


@dataclass(frozen=True)
class HostTable:
    """One benchmark of one workload over the hosts of a kind."""

    workload: str
    benchmark: Benchmark
    twin: Ratio | None
    rows: tuple[HostRow, ...]


@dataclass(frozen=True)
class KindSummary:
    """The hosts of one cohort; each counts once, with its latest experiment."""

    cohort: Cohort
    hosts: tuple[str, ...]
    older: int  # experiments left out because their host has a newer one
    tables: tuple[HostTable, ...]
    means: Mapping[str, Interval]  # over all workloads, by label


def kind_summaries(extracts: Iterable[Extract]) -> list[KindSummary]:
    """Return a summary of each cohort, the one with the most hosts first."""
    found = [_summary(cohort, ones) for cohort, ones in by_cohort(extracts).items()]
    return sorted(found, key=lambda one: -len(one.hosts))


def _summary(cohort: Cohort, extracts: Sequence[Extract]) -> KindSummary:
    latest = {one.host: one for one in extracts}
    keys = dict.fromkeys(key for one in latest.values() for key in one.measured)
    tables = [_host_table(cohort, key, latest) for key in keys]
    filled = tuple(table for table in tables if table.rows)
    return KindSummary(cohort, tuple(latest), len(extracts) - len(latest), filled, _means(filled, cohort.kind.cores))


def _host_table(cohort: Cohort, key: BenchmarkKey, latest: Mapping[str, Extract]) -> HostTable:
    measured = {host: one.measured[key] for host, one in latest.items() if key in one.measured}
    last = list(measured.values())[-1]
    measured = {host: one for host, one in measured.items() if one.command == last.command}
    labels = list(dict.fromkeys(label for one in measured.values() for label in one.points))
    points = {
        label: {host: one.points[label] for host, one in measured.items() if label in one.points} for label in labels
    }
    twin = _twin_over_hosts(measured.values())
    over = compared(
        cohort.baseline, {label: _over([point.ratio for point in some.values()]) for label, some in points.items()}
    )
    rows = tuple(_host_row(label, over[label], points[label]) for label in labels)
    return HostTable(key[0], last.benchmark, twin, rows)


def _over(ratios: Sequence[Ratio]) -> Ratio:
    """Return the mean of several hosts' ratios, or that of a single host as its rounds gave it."""
    return ratios[0] if len(ratios) == 1 else ratio_over([ratio.estimate for ratio in ratios])


def _twin_over_hosts(measured: Iterable[BenchmarkRatios]) -> Ratio | None:
    twins = [one.twin for one in measured if one.twin]
    return _over(twins) if twins else None


def _host_row(label: str, over: Comparison, points: Mapping[str, BaselineRatio]) -> HostRow:
    verdicts = Counter(point.verdict for point in points.values())
    ends = sorted((point.ratio.estimate, host) for host, point in points.items())
    counts = (verdicts[one] for one in Verdict)
    return HostRow(label, over, ends[0], ends[-1], *counts)


def _means(tables: Sequence[HostTable], cores: int) -> dict[str, Interval]:
    """Return, by label, the geometric mean over the workloads of the means over the benchmarks that count there."""
    benchmarks: dict[str, list[Benchmark]] = {}
    for table in tables:
        benchmarks.setdefault(table.workload, []).append(table.benchmark)
    counting = {(name, one.name) for name, some in benchmarks.items() for one in counted(some, cores)}
    found: dict[str, dict[str, list[Ratio]]] = {}
    for table in [one for one in tables if (one.workload, one.benchmark.name) in counting]:
        for row in table.rows:
            found.setdefault(row.label, {}).setdefault(table.workload, []).append(row.over.ratio)
    means = {label: mean_by_group(groups.values()) for label, groups in found.items()}
    return {label: mean for label, mean in means.items() if mean}
