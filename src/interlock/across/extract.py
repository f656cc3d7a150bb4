"""What of an experiment can be compared with other experiments: its facts, and ratios to its own baseline. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from interlock.compare import Place, Table
from interlock.errors import KindError
from interlock.model import Benchmark, Experiment, Workload, split_label
from interlock.statistics import Ratio


class Kind(NamedTuple):
    """What two hosts must have in common for a ratio of the one to say something of the other."""

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
    """What experiments must have in common to be compared: the kind of host, the baseline and the compiler flags."""

    kind: Kind
    baseline: str
    profile: str

    def __str__(self) -> str:
        return f"{self.kind}; baseline {self.baseline}, profile {self.profile}"

    @property
    def facts(self) -> dict[str, str]:
        """By the name that a reader knows them by."""
        named = {**self.kind._asdict(), "baseline": self.baseline, "profile": self.profile}
        return {name.replace("_", " "): str(value) for name, value in named.items()}


@dataclass(frozen=True)
class Point:
    """A variant (in a mode) beside the baseline, in one benchmark of one experiment."""

    by_round: tuple[float, ...]
    ratio: Ratio
    verdict: str


@dataclass(frozen=True)
class Measured:
    """One benchmark of one experiment, by label; times are seconds per unit of work, the baseline's among them."""

    benchmark: Benchmark
    does: str
    twin: Ratio | None
    points: Mapping[str, Point]
    seconds: Mapping[str, float]


@dataclass(frozen=True)
class Extract:
    """An experiment without its values."""

    name: str
    host: str
    started: str
    tool_version: str
    cohort: Cohort
    images: Mapping[str, str]  # the content hash by variant; empty where none was recorded
    measured: Mapping[Place, Measured]

    def image(self, label: str) -> str:
        return self.images.get(split_label(label)[0], "")


def extract(experiment: Experiment, tables: Sequence[Table]) -> Extract:
    """Of an experiment and the tables that were made of its values."""
    return Extract(
        name=experiment.name,
        host=str(experiment.host.get("name", experiment.host["folder"])),
        started=experiment.started,
        tool_version=experiment.tool_version,
        cohort=Cohort(kind_of(experiment), experiment.settings.baseline, experiment.settings.profile),
        images={image.variant: image.content_hash for image in experiment.images},
        measured={(table.workload.name, table.benchmark.name): _measured(table) for table in tables},
    )


def kind_of(experiment: Experiment) -> Kind:
    host, engine = experiment.host, experiment.host["engine"]
    return Kind(
        cpu=host["cpu"],
        cores=host["cores"],
        kernel=host["kernel"],
        engine=f"{engine.get('name', 'docker')} {engine['version']}",
        storage_driver=engine["storage_driver"],
    )


def _measured(table: Table) -> Measured:
    return Measured(
        benchmark=table.benchmark,
        does=_does(table.workload, table.benchmark),
        twin=table.twin,
        points={
            row.label: Point(row.to_baseline.by_round, row.to_baseline.ratio, row.to_baseline.verdict)
            for row in table.rows
            if row.to_baseline
        },
        seconds={row.label: row.seconds for row in table.rows if row.seconds is not None},
    )


def _does(workload: Workload, benchmark: Benchmark) -> str:
    """What is run: two benchmarks of one name that do not do the same are not compared."""
    command = benchmark.command or [str(workload.program), *benchmark.arguments]
    served = f", served by {workload.server.environment}" if workload.server else ""
    return f"{' '.join(command)} per {workload.unit} on {benchmark.cpus} of the CPUs{served}"


def by_cohort(extracts: Iterable[Extract]) -> dict[Cohort, list[Extract]]:
    """Those that may be compared with each other, in the order in which they were started."""
    cohorts: dict[Cohort, list[Extract]] = {}
    for one in sorted(extracts, key=lambda one: (one.started, one.name, one.host)):
        cohorts.setdefault(one.cohort, []).append(one)
    return cohorts


def check_alike(what: str, before: Cohort, after: Cohort) -> None:
    """KindError names the facts in which two experiments differ."""
    differ = [
        f"{name} {fact} and {after.facts[name]}" for name, fact in before.facts.items() if fact != after.facts[name]
    ]
    if differ:
        raise KindError(
            key=what,
            found=f"cannot be compared: {'; '.join(differ)}",
            todo="Ratios do not carry over to another kind of host, baseline or profile: measure both on one kind.",
        )
