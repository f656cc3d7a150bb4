"""Who does not meet the demands, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator

from interlock.model import (
    MOUNT,
    Gil,
    ModuleImport,
    Origin,
    PackageAudit,
    State,
    SupportPhase,
    Variant,
    VariantAudit,
    split_label,
)
from interlock.pick.material import Material
from interlock.pick.weighing import Place


def reasons(material: Material, label: str) -> list[str]:
    """Each reason why a variant or mode cannot be the one; none if it can."""
    variant, (name, mode) = material.variant(label), split_label(label)
    if variant is None:
        return [f"variants/ has no {name} any more"]
    if mode is not None and material.mode(label) is None:
        return [f"{name} has no mode '{mode}' any more"]
    return [
        *_support(material, variant),
        *_python(material, variant),
        *_mode(material, label),
        *(_image(material, name) or [*_cells(material, label), *_memory(material, label)]),
        *_needs(material, label),
    ]


def _support(material: Material, variant: Variant) -> Iterator[str]:
    support, demands = variant.support, material.demands
    over = support.end_of_life is not None and support.end_of_life < material.today.isoformat()
    phase = SupportPhase.END_OF_LIFE if over else support.phase
    if phase is SupportPhase.END_OF_LIFE and phase not in demands.allowed:
        yield f"end of life{f' since {support.end_of_life}' if support.end_of_life else ''}"
    elif phase is SupportPhase.PRERELEASE and phase not in demands.allowed:
        yield "a prerelease"
    until = demands.supported_until
    if until is None:
        return
    if support.end_of_life is None:
        yield f"nobody says that it is supported until {until}"
    elif support.end_of_life[: len(until)] < until and (not over or phase in demands.allowed):
        yield f"supported until {support.end_of_life}, not {until}"


def _python(material: Material, variant: Variant) -> Iterator[str]:
    wanted = material.demands.min_python
    if wanted is not None and version_of(variant.version)[: len(wanted)] < wanted:
        yield f"Python {variant.version} is older than {'.'.join(map(str, wanted))}"


def version_of(version: str) -> tuple[int, ...]:
    """3.13.5 as numbers; of a prerelease its release."""
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def _mode(material: Material, label: str) -> Iterator[str]:
    mode = material.mode(label)
    if mode and any(value.startswith(f"{MOUNT}/") for value in mode.environment.values()):
        yield "its mode needs a library of the measuring instruments, which no image has"


def _image(material: Material, name: str) -> list[str]:
    image = material.images.get(name)
    if image is None or image.outcome.state is State.OK:
        return []
    return [f"{image.outcome.state.value}: {_one_line(image.outcome.reason)}"]


def _cells(material: Material, label: str) -> Iterator[str]:
    """One for each outcome of the benchmarks that count."""
    found: dict[str, list[Place]] = {}
    for place in material.shares:
        if reason := _cell(material, label, place):
            found.setdefault(reason, []).append(place)
    for reason, places in found.items():
        yield f"{', '.join(_names(material, places))} {reason}"


def _cell(material: Material, label: str, place: Place) -> str:
    """Why a benchmark has no figure; empty if it has one."""
    cell = material.cells.get((label, place[0]))
    if cell is None:
        return "was not measured"
    outcome = cell.benchmarks.get(place[1], cell.outcome)
    if outcome.state is not State.OK:
        return f"{outcome.state.value}: {_one_line(outcome.reason)}"
    return "" if material.medians(label, place) else "has no figure"


def _names(material: Material, places: list[Place]) -> Iterator[str]:
    """A workload whose every benchmark that counts is among them stands for these."""
    for workload in dict.fromkeys(workload for workload, _ in places):
        mine = [benchmark for name, benchmark in places if name == workload]
        all_ = sum(name == workload for name, _ in material.shares)
        yield from [workload] if len(mine) == all_ else [f"{workload}/{benchmark}" for benchmark in mine]


def _memory(material: Material, label: str) -> Iterator[str]:
    limit_bytes, rss_bytes = material.demands.max_rss_bytes, material.max_rss_bytes(label)
    if limit_bytes is not None and rss_bytes > limit_bytes:
        yield f"a process takes {rss_bytes / 1e6:.1f} MB, more than {limit_bytes / 1e6:.1f} MB"


def _needs(material: Material, label: str) -> Iterator[str]:
    """What trying the dependencies came to; nothing if they were not tried on this variant."""
    audit = material.audits.get(split_label(label)[0])
    if audit is None:
        return
    if audit.outcome.state is not State.OK:
        yield f"its dependencies could not be tried: {_one_line(audit.outcome.reason)}"
        return
    for package in audit.failed:
        if package.origin is Origin.FAILED:
            yield f"{described(package)} cannot be had: {_one_line(package.reason)}"
    for package, failed in broken_imports(audit, control(material, audit)):
        yield f"'{failed.module}' of {described(package)} cannot be imported: {_one_line(failed.error)}"
    if material.gil(label) is Gil.OFF:
        yield from _switchers(audit)


def control(material: Material, audit: VariantAudit) -> VariantAudit | None:
    """The baseline's, if its dependencies were tried as well: what fails there too is not the other variant's doing."""
    name = split_label(material.baseline)[0]
    return material.audits.get(name) if name != audit.variant else None


def broken_imports(audit: VariantAudit, beside: VariantAudit | None) -> list[tuple[PackageAudit, ModuleImport]]:
    """Modules that cannot be imported, without those that cannot be imported beside it either."""
    alike = {one.module for one in beside.every_import if one.error} if beside else set()
    pairs = [(package, one) for package in audit.packages for one in package.imports]
    return [(package, one) for package, one in pairs if one.error and one.module not in alike]


def _switchers(audit: VariantAudit) -> Iterator[str]:
    """Each extension module that switches the GIL back on, with the package that owns it."""
    packages = {package.name: package for package in audit.packages}
    for module, owner in {one.gil_by: one.gil_package for one in audit.every_import if one.gil_by}.items():
        of = f" of {described(packages[owner])}" if owner in packages else ""
        yield f"{module}{of} switches the GIL back on"


def described(package: PackageAudit) -> str:
    """A package with the line that asks for it, or the packages that do."""
    asked = package.requirement or (f"for {', '.join(package.needed_by)}" if package.needed_by else "")
    return f"{package.name} {package.version}".strip() + (f" ({asked})" if asked else "")


def _one_line(text: str) -> str:
    return " ".join(text.split()).rstrip(".")
