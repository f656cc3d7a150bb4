"""What each benchmark requires, installed for each variant before anything is measured; or why it cannot run there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from interlock.engine.host.packages import HostInstaller
from interlock.engine.packages import Installer
from interlock.model import Benchmark, Built, Gil, Outcome, PackageSet, State, Variant, Workload

# A variant, the versions of Python that are admitted, why it needs the GIL, and the packages that are required.
Demand = tuple[str, str, str, tuple[str, ...]]
NOTHING = PackageSet()


@dataclass(frozen=True)
class Provisions:
    """The packages of an experiment's benchmarks, by what asks for them."""

    sets: Mapping[Demand, PackageSet] = field(default_factory=dict)

    def of(self, variant: str, workload: Workload, benchmark: Benchmark) -> PackageSet:
        """None at all, if the benchmark asks for nothing."""
        return self.sets.get(_demand(variant, workload, benchmark), NOTHING)

    def of_workload(self, variant: str, workload: Workload) -> list[PackageSet]:
        """Every set that a cell of the workload mounts."""
        found = [self.of(variant, workload, benchmark) for benchmark in _asking(workload)]
        return list({one.volume: one for one in found if one.volume and one.outcome.state is State.OK}.values())


def provide(installer: Installer | HostInstaller, built: Sequence[Built], workloads: Sequence[Workload]) -> Provisions:
    """Installs what the workloads ask for in each image; what cannot be had is no other's concern."""
    images = {image.variant: image for image in built if image.outcome.state is State.OK}
    demands = dict.fromkeys(_demands(list(images), workloads))
    if any(demand[-1] for demand in demands):
        installer.tidy()
    sets = {}
    for demand in demands:
        variant, admitted, needs_gil, lines = demand
        refusal = _refusal(installer.catalog.variants[variant], admitted, needs_gil)
        if refusal:
            sets[demand] = PackageSet(outcome=Outcome(state=State.UNSUPPORTED, reason=refusal))
        elif lines:
            sets[demand] = installer.ensure(images[variant], lines)
    return Provisions(sets)


def _demands(variants: Sequence[str], workloads: Sequence[Workload]) -> Iterator[Demand]:
    for workload in workloads:
        for benchmark in _asking(workload):
            for variant in variants:
                yield _demand(variant, workload, benchmark)


def _asking(workload: Workload) -> list[Benchmark]:
    """Benchmarks that are found out later ask for what the workload does."""
    unnamed = [Benchmark(name="", metric=workload.metric)] if workload.metric else []
    return workload.benchmarks or unnamed


def _demand(variant: str, workload: Workload, benchmark: Benchmark) -> Demand:
    lines = tuple(workload.requirements_of(benchmark))
    return variant, workload.python_versions_of(benchmark), benchmark.needs_gil, lines


def _refusal(variant: Variant, admitted: str, needs_gil: str) -> str:
    """Why nobody need try; empty if it may work. A pre-release counts as the version that it will be."""
    if not SpecifierSet(admitted).contains(Version(variant.version).base_version):
        return f"it is for Python {admitted}, and this is {variant.version}"
    return needs_gil if variant.proof.gil is Gil.OFF else ""
