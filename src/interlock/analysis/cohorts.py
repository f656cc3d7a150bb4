"""Which experiments may be compared with each other, and what the hosts of one kind say together.

Kinds of host are never ranked, nor are hosts: each experiment has its own baseline, and a ratio of one host is compared
with the same ratio of the others of its kind. Over several hosts a host is what a round is within an experiment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from interlock.analysis.comparison import BenchmarkKey, Table, baseline_optimisation, counted
from interlock.analysis.statistics import Interval, Ratio, mean_by_group, ratio_over
from interlock.analysis.verdicts import Comparison, Verdict, compared
from interlock.catalog.types import split_label
from interlock.catalog.workloads import Benchmark, Workload
from interlock.errors import KindError
from interlock.results.experiments import Experiment
from interlock.results.json_documents import KindOfHost

# Comes with Interlock and says how to take a time, not what is measured.
PROTOCOL = "protocol.py"


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
        named = {**dict(self.kind), "baseline": self.built}
        return {name.replace("_", " "): str(value) for name, value in named.items()}


@dataclass(frozen=True)
class BenchmarkRatios:
    """The ratios of one benchmark of one experiment, by label."""

    benchmark: Benchmark
    command: str
    programs: Mapping[str, str]  # sums of what its workload runs, by path below workloads/; empty if none were recorded
    packages: Mapping[str, Mapping[str, str]]  # by label, the baseline's too: installed versions by name
    twin: Ratio | None
    points: Mapping[str, Comparison]

    @property
    def is_disturbed(self) -> bool:
        """Return whether the host was too disturbed meanwhile to decide by it."""
        return any(point.is_disturbed for point in self.points.values())

    def change_since(self, before: BenchmarkRatios) -> str:
        """Return what it does otherwise than it did before, in words; empty if it does the same.

        A file that only one of them has does not count: whatever imports it has changed too.
        """
        if self.command != before.command:
            return f"{before.command}; now {self.command}"
        common = (self.programs.keys() & before.programs.keys()) - {PROTOCOL}
        changed = [f"workloads/{path}" for path in sorted(common) if self.programs[path] != before.programs[path]]
        return f"{', '.join(changed)} changed" if changed else ""


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
        host=host_name(experiment),
        started=experiment.started,
        tool_version=experiment.tool_version,
        cohort=Cohort(host_kind(experiment), experiment.settings.baseline, baseline_optimisation(experiment)),
        images={image.variant: image.content_hash for image in experiment.images},
        measured={
            (table.workload.name, table.benchmark.name): _benchmark_ratios(experiment, table) for table in tables
        },
    )


def host_name(experiment: Experiment) -> str:
    """Return the host's name; a fleet's is in its inventory, as cloned machines have one name."""
    return str(experiment.host.get("name", experiment.host["folder"]))


def host_kind(experiment: Experiment) -> KindOfHost:
    host, engine = experiment.host, experiment.host["engine"]
    return KindOfHost(
        cpu=host["cpu"],
        cores=host["cores"],
        kernel=host["kernel"],
        engine=f"{engine['name']} {engine['version']}",
        storage_driver=engine["storage_driver"],
    )


def _benchmark_ratios(experiment: Experiment, table: Table) -> BenchmarkRatios:
    return BenchmarkRatios(
        benchmark=table.benchmark,
        command=_command(table.workload, table.benchmark),
        programs=experiment.programs.get(table.workload.name, {}),
        packages={
            cell.label: cell.packages.get(table.benchmark.name, {})
            for cell in experiment.cells
            if cell.workload == table.workload.name
        },
        twin=table.twin,
        points={row.label: row.to_baseline for row in table.rows if row.to_baseline},
    )


def _command(workload: Workload, benchmark: Benchmark) -> str:
    """Return what a benchmark runs: benchmarks of one name that run different commands are not compared."""
    command = benchmark.command or [str(workload.program), *benchmark.arguments]
    served = f", served by {workload.server.environment}" if workload.server else ""
    return f"{' '.join(command)} per {workload.unit} on {benchmark.cpus} of the CPUs{served}"


def by_cohort(extracts: Iterable[Extract]) -> dict[Cohort, list[Extract]]:
    """Group the extracts by cohort, each in the order in which the experiments were started."""
    cohorts: dict[Cohort, list[Extract]] = {}
    for extract in sorted(extracts, key=lambda extract: (extract.started, extract.name, extract.host)):
        cohorts.setdefault(extract.cohort, []).append(extract)
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
    """One label in one benchmark over the hosts of a kind.

    A host that was too disturbed to decide by counts as undecided; its ratio is in no figure, unless all were.
    """

    label: str
    over: Comparison
    lowest: tuple[float, str]  # the ratio and its host
    highest: tuple[float, str]
    verdicts: Counter[Verdict]  # of the hosts, each one's own


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
    summaries = [_summary(cohort, ones) for cohort, ones in by_cohort(extracts).items()]
    return sorted(summaries, key=lambda summary: -len(summary.hosts))


def _summary(cohort: Cohort, extracts: Sequence[Extract]) -> KindSummary:
    latest = {extract.host: extract for extract in extracts}
    keys = dict.fromkeys(key for extract in latest.values() for key in extract.measured)
    tables = [_host_table(cohort, key, latest) for key in keys]
    filled = tuple(table for table in tables if table.rows)
    return KindSummary(cohort, tuple(latest), len(extracts) - len(latest), filled, _means(filled, cohort.kind.cores))


def _host_table(cohort: Cohort, key: BenchmarkKey, latest: Mapping[str, Extract]) -> HostTable:
    measured = {host: extract.measured[key] for host, extract in latest.items() if key in extract.measured}
    last = measured[max(measured, key=lambda host: (latest[host].started, latest[host].name))]
    measured = {host: ratios for host, ratios in measured.items() if not last.change_since(ratios)}
    labels = list(dict.fromkeys(label for ratios in measured.values() for label in ratios.points))
    points = {
        label: {host: ratios.points[label] for host, ratios in measured.items() if label in ratios.points}
        for label in labels
    }
    decisive = {label: _decisive(by_host) for label, by_host in points.items()}
    twin = _twin_over_hosts([ratios for ratios in measured.values() if not ratios.is_disturbed] or measured.values())
    over = compared(
        cohort.baseline,
        {
            label: ratio_over([point.ratio.estimate for point in by_host.values()])
            for label, by_host in decisive.items()
            if len(by_host) > 1
        },
    )
    over = {
        label: replace(comparison, is_disturbed=any(point.is_disturbed for point in decisive[label].values()))
        for label, comparison in over.items()
    }
    # A single host says what it said: its rounds and looks are in its own verdict.
    over |= {label: next(iter(by_host.values())) for label, by_host in decisive.items() if len(by_host) == 1}
    rows = tuple(_host_row(label, over[label], decisive[label], points[label].values()) for label in labels)
    return HostTable(key[0], last.benchmark, twin, rows)


def _decisive(by_host: Mapping[str, Comparison]) -> Mapping[str, Comparison]:
    """Return the points of the hosts that were not too disturbed to decide by; all of them if there is no such host."""
    return {host: point for host, point in by_host.items() if not point.is_disturbed} or by_host


def _twin_over_hosts(measured: Iterable[BenchmarkRatios]) -> Ratio | None:
    twins = [ratios.twin for ratios in measured if ratios.twin]
    if len(twins) < 2:
        return twins[0] if twins else None
    return ratio_over([twin.estimate for twin in twins])


def _host_row(
    label: str, over: Comparison, decisive: Mapping[str, Comparison], points: Iterable[Comparison]
) -> HostRow:
    ends = sorted((point.ratio.estimate, host) for host, point in decisive.items())
    return HostRow(label, over, ends[0], ends[-1], Counter(point.verdict for point in points))


def _means(tables: Sequence[HostTable], cores: int) -> dict[str, Interval]:
    """Return, by label, the geometric mean over the workloads of the means over the benchmarks that count there."""
    benchmarks: dict[str, list[Benchmark]] = {}
    for table in tables:
        benchmarks.setdefault(table.workload, []).append(table.benchmark)
    counting = {(name, benchmark.name) for name, group in benchmarks.items() for benchmark in counted(group, cores)}
    ratios: dict[str, dict[str, list[Ratio]]] = {}
    for table in tables:
        for row in table.rows if (table.workload, table.benchmark.name) in counting else ():
            if row.over.is_disturbed:
                continue
            ratios.setdefault(row.label, {}).setdefault(table.workload, []).append(row.over.ratio)
    means = {label: mean_by_group(groups.values()) for label, groups in ratios.items()}
    return {label: mean for label, mean in means.items() if mean}
