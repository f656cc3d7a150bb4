"""The packages that benchmarks require, installed for each variant before anything is measured; or why not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from interlock.catalog.variants import Gil, Variant
from interlock.catalog.workloads import Benchmark, Workload
from interlock.engine.protocol import Installer
from interlock.results.experiments import Built, Outcome, PackageSet, State

# A variant, the versions of Python that a benchmark supports, why it needs the GIL, and the packages that it requires.
SetKey = tuple[str, str, str, tuple[str, ...]]
NO_PACKAGES = PackageSet()


@dataclass(frozen=True)
class PackageSets:
    """The package sets of an experiment, by key."""

    sets: Mapping[SetKey, PackageSet] = field(default_factory=dict)

    def of(self, variant: str, workload: Workload, benchmark: Benchmark) -> PackageSet:
        """Return a benchmark's package set; empty if it requires nothing."""
        return self.sets.get(_key(variant, workload, benchmark), NO_PACKAGES)

    def of_workload(self, variant: str, workload: Workload) -> list[PackageSet]:
        """Return every package set that a cell of the workload mounts."""
        found = [self.of(variant, workload, benchmark) for benchmark in _benchmarks_of(workload)]
        return list({one.volume: one for one in found if one.volume and one.outcome.state is State.OK}.values())


def install_required(installer: Installer, built: Sequence[Built], workloads: Sequence[Workload]) -> PackageSets:
    """Install what the workloads require for each image. What cannot be installed fails only what requires it."""
    images = {image.variant: image for image in built if image.outcome.state is State.OK}
    keys = dict.fromkeys(_keys(list(images), workloads))
    if any(key[-1] for key in keys):
        installer.tidy()
    sets = {}
    for key in keys:
        variant, admitted, needs_gil, lines = key
        refusal = _refusal(installer.catalog.variants[variant], admitted, needs_gil)
        if refusal:
            sets[key] = PackageSet(outcome=Outcome(state=State.UNSUPPORTED, reason=refusal))
        elif lines:
            sets[key] = installer.ensure(images[variant], lines)
    return PackageSets(sets)


def _keys(variants: Sequence[str], workloads: Sequence[Workload]) -> Iterator[SetKey]:
    for workload in workloads:
        for benchmark in _benchmarks_of(workload):
            for variant in variants:
                yield _key(variant, workload, benchmark)


def _benchmarks_of(workload: Workload) -> list[Benchmark]:
    """Return the benchmarks; those that are discovered later require what the workload does."""
    unnamed = [Benchmark(name="", metric=workload.metric)] if workload.metric else []
    return workload.benchmarks or unnamed


def _key(variant: str, workload: Workload, benchmark: Benchmark) -> SetKey:
    lines = tuple(workload.requirements_of(benchmark))
    return variant, workload.python_versions_of(benchmark), benchmark.needs_gil, lines


def _refusal(variant: Variant, admitted: str, needs_gil: str) -> str:
    """Return why it cannot work; empty if it may. A pre-release counts as its final version."""
    if not SpecifierSet(admitted).contains(Version(variant.version).base_version):
        return f"it needs Python {admitted}, and this is {variant.version}"
    return needs_gil if variant.proof.gil is Gil.OFF else ""
