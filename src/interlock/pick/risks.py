"""What may go wrong with an image after a switch to it."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from interlock.model import Built, Gil, Origin, SupportPhase, Variant, VariantAudit
from interlock.pick.exclusions import broken_imports, described, version_of
from interlock.pick.material import Material


class Local(StrEnum):
    """What the engine here has of the recommended image."""

    MEASURED = "measured"  # made from the very files and parent that the measured one was
    OTHER = "other"
    ABSENT = "absent"
    UNKNOWN = "unknown"  # no engine answers


def image_of(measured: Built, tag: str, here: Built | None, *, answers: bool) -> tuple[Built, Local]:
    """The image to name: the measured one as this engine or a registry has it; what is here; or what a build will make.

    `tag` is what a build makes today, `here` this engine's image of that tag, if it has one and `answers` at all.
    """
    if here and here.content_hash == measured.content_hash:
        return here, Local.MEASURED
    if measured.digest:
        return measured, Local.MEASURED
    if here:
        return here, Local.OTHER
    return measured.model_copy(update={"tag": tag}), Local.ABSENT if answers else Local.UNKNOWN


def risks_of(material: Material, label: str, local: Local) -> Iterator[str]:
    """What may go wrong after a switch, the first things first."""
    variant = material.variant(label)
    if variant is None:  # it would have been excluded
        return
    yield _support(variant)
    yield from _replaced(material, label, variant)
    audit = material.audits.get(variant.name)
    yield from _dependencies(material, label, audit)
    for workload in dict.fromkeys(workload for workload, _ in material.shares):
        yield from (f"{workload}: {note}" for note in material.cells[label, workload].notes)
    if material.demands.profile == "standard" and "release" in variant.profiles:
        yield "built without profile-guided and link-time optimisation: for production measure and pick with --release"
    if local is Local.OTHER:
        yield "the image of this name here is not the measured one: it was made from other files or on another base"
    for key, reason in variant.differences.items():
        yield f"not as in python:X-slim: {key}: {reason}"


def _support(variant: Variant) -> str:
    support = variant.support
    fixes = {
        SupportPhase.PRERELEASE: "a prerelease, which is not for production",
        SupportPhase.BUGFIX: "bugs are still mended",
        SupportPhase.SECURITY: "security fixes alone",
        SupportPhase.END_OF_LIFE: "nobody mends it any more, security holes neither",
    }[support.phase]
    return f"support: {fixes}; end of life {support.end_of_life or 'on no day that upstream names'}"


def _replaced(material: Material, label: str, variant: Variant) -> Iterator[str]:
    """What differs from the baseline's interpreter."""
    old, facts = material.variant(material.baseline), material.experiment.facts.get(label)
    if old is not None and variant.release_line != old.release_line:
        yield f"Python {variant.release_line} instead of {old.release_line}: dependencies must be installed anew"
    if variant.proof.implementation != "cpython":
        yield f"{variant.proof.implementation}, not CPython: extension modules are slow on it, or cannot be had"
    if facts and facts.implementation == "cpython" and version_of(facts.version) != version_of(variant.version):
        yield f"measured as {facts.version}, while variants/{variant.name}.toml makes {variant.version}"


def _dependencies(material: Material, label: str, audit: VariantAudit | None) -> Iterator[str]:
    if audit is None:
        back = ", and whether an extension module switches the GIL back on" if material.gil(label) is Gil.OFF else ""
        yield f"your dependencies were not tried on it{back}: `--needs requirements.txt` does"
        return
    for package in audit.packages:
        if package.origin is Origin.BUILT:
            seconds = "" if package.build_s is None else f" in {package.build_s:.0f} s"
            yield f"no wheel for {described(package)}: built here{seconds}"
    alike = [one.module for _, one in broken_imports(audit, None)]  # what fails here alone would exclude
    if alike:
        yield f"cannot be imported, nor on {material.baseline}: {', '.join(alike)}"
