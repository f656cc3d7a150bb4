"""What speaks against an image: the constraints that it does not meet, and the risks of a switch to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum

from interlock.analysis.comparison import BenchmarkKey
from interlock.analysis.not_measured import NOT_LACKING
from interlock.analysis.pick.criteria import phase_on
from interlock.analysis.pick.evidence import Evidence
from interlock.catalog.types import MOUNT, split_label
from interlock.catalog.variants import Gil, SourceKind, SupportPhase, Variant
from interlock.results.answers import Origin, PackageAudit, VariantAudit
from interlock.results.experiments import Built, Outcome, State


def exclusion_reasons(evidence: Evidence, label: str) -> list[str]:
    """Return each reason that excludes a variant or mode; none if it meets all constraints."""
    variant, (name, mode) = evidence.variant(label), split_label(label)
    if variant is None:
        return [f"{name} is no longer in variants/"]
    if mode is not None and evidence.mode(label) is None:
        return [f"{name} no longer has a mode '{mode}'"]
    return [
        *_unsupported(evidence, variant),
        *_old_python(evidence, variant),
        *_measuring_mode(evidence, label),
        *(_no_image(evidence, name) or [*_failed_figures(evidence, label), *_too_much_memory(evidence, label)]),
        *_failed_dependencies(evidence, label),
    ]


def _unsupported(evidence: Evidence, variant: Variant) -> Iterator[str]:
    support, criteria = variant.support, evidence.criteria
    phase = phase_on(support, evidence.today)
    is_over = phase is SupportPhase.END_OF_LIFE and phase not in criteria.allowed
    if is_over:
        yield f"end of life{f' since {support.end_of_life}' if support.end_of_life else ''}"
    elif phase is SupportPhase.PRERELEASE and phase not in criteria.allowed:
        yield "a prerelease"
    until = criteria.supported_until
    if until is None:
        return
    if support.end_of_life is None:
        yield f"its end of life is not announced, so support until {until} is not certain"
    elif support.end_of_life[: len(until)] < until and not is_over:
        yield f"supported until {support.end_of_life}, not {until}"


def _old_python(evidence: Evidence, variant: Variant) -> Iterator[str]:
    wanted = evidence.criteria.min_python
    if wanted is not None and version_numbers(variant.version)[: len(wanted)] < wanted:
        yield f"Python {variant.version} is older than {'.'.join(map(str, wanted))}"


def version_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version: (3, 13, 5) of 3.13.5; those of the release for a prerelease."""
    return tuple(map(int, re.findall(r"[0-9]{1,9}", version)[:3]))


def _measuring_mode(evidence: Evidence, label: str) -> Iterator[str]:
    mode = evidence.mode(label)
    if mode and any(value.startswith(f"{MOUNT}/") for value in mode.environment.values()):
        yield "its mode needs a library that is mounted only while measuring: no image has it"


def _no_image(evidence: Evidence, name: str) -> list[str]:
    image = evidence.images.get(name)
    if image is None or image.outcome.state in NOT_LACKING:
        return []
    return [f"{image.outcome.state.value}: {_one_line(image.outcome.reason)}"]


def _failed_figures(evidence: Evidence, label: str) -> Iterator[str]:
    """Yield one reason for all benchmarks that failed for the same cause."""
    by_reason: dict[str, list[BenchmarkKey]] = {}
    for key in evidence.shares:
        outcome = _outcome(evidence, label, key)
        if outcome is not None and outcome.state not in NOT_LACKING:
            by_reason.setdefault(f"{outcome.state.value}: {_one_line(outcome.reason)}", []).append(key)
    for reason, keys in by_reason.items():
        yield f"{', '.join(_benchmark_names(evidence, keys))} {reason}"


def unmeasured(evidence: Evidence, label: str) -> list[str]:
    """Return the weighted benchmarks, or their workload, that a variant or mode was not measured in."""
    keys = [key for key in evidence.shares if evidence.seconds(label, key) is None]
    missing = [
        key for key in keys if (outcome := _outcome(evidence, label, key)) is None or outcome.state in NOT_LACKING
    ]
    return list(_benchmark_names(evidence, missing))


def _outcome(evidence: Evidence, label: str, key: BenchmarkKey) -> Outcome | None:
    """Return how a benchmark ended; None if it was not measured."""
    cell = evidence.cells.get((label, key[0]))
    return cell.outcome_of(key[1]) if cell else None


def elsewhere_unmeasured(evidence: Evidence) -> list[str]:
    """Return the variants of the project that meet the constraints and that the experiment has not at all.

    A variant that this machine has already, and that stands for another one where there are no containers, is none to
    run in production.
    """
    there = {split_label(label)[0] for label in evidence.labels}
    there |= {name for name, image in evidence.images.items() if image.outcome.state is not State.NOT_MEASURED}
    every = evidence.catalog.variants.values()
    stand_ins = {variant.name for variant in every if variant.stands_for and variant.kind is SourceKind.PREFIX}
    return [name for name in evidence.catalog.variants if name not in there | stand_ins and fits(evidence, name)]


def fits(evidence: Evidence, name: str) -> bool:
    """Return whether the project has this variant and its version meets the constraints."""
    variant = evidence.catalog.variants.get(name)
    return variant is not None and not [*_unsupported(evidence, variant), *_old_python(evidence, variant)]


def _benchmark_names(evidence: Evidence, keys: list[BenchmarkKey]) -> Iterator[str]:
    """Yield the benchmarks' names; a workload stands for its benchmarks if all that are weighted are among them."""
    for workload in dict.fromkeys(workload for workload, _ in keys):
        mine = [benchmark for name, benchmark in keys if name == workload]
        all_ = sum(name == workload for name, _ in evidence.shares)
        yield from [workload] if len(mine) == all_ else [f"{workload}/{benchmark}" for benchmark in mine]


def _too_much_memory(evidence: Evidence, label: str) -> Iterator[str]:
    limit_bytes, rss_bytes = evidence.criteria.max_rss_bytes, evidence.max_rss_bytes(label)
    if limit_bytes is not None and rss_bytes is not None and rss_bytes > limit_bytes:
        yield f"a process uses {rss_bytes / 1e6:.1f} MB, more than {limit_bytes / 1e6:.1f} MB"


def _failed_dependencies(evidence: Evidence, label: str) -> Iterator[str]:
    """Yield what failed when the dependencies were tested; nothing if they were not tested on this variant."""
    audit = evidence.audits.get(split_label(label)[0])
    if audit is None:
        return
    baseline = split_label(evidence.baseline)[0]
    if audit.outcome.state is not State.OK:
        # That the baseline cannot be tried here is no reason to leave it: it runs somewhere.
        if split_label(label)[0] != baseline:
            yield f"its dependencies could not be tested: {_one_line(audit.outcome.reason)}"
        return
    # What fails on the baseline too is not the variant's fault, and no reason to leave the baseline.
    beside = evidence.audits.get(baseline)
    alike = failures(beside).keys() if beside else ()
    yield from (reason for what, reason in failures(audit).items() if what not in alike)
    if evidence.gil(label) is Gil.OFF:
        yield from _gil_switchers(audit)


def failures(audit: VariantAudit) -> dict[str, str]:
    """Return why dependencies fail, by the package that cannot be installed or the module that cannot be imported."""
    reasons: dict[str, str] = {}
    for package in audit.packages:
        if package.origin is Origin.FAILED:
            reasons[package.name] = f"{package_text(package)} cannot be installed: {_one_line(package.reason)}"
        for tried in package.imports:
            if tried.error:
                of = package_text(package)
                reasons[tried.module] = f"'{tried.module}' of {of} cannot be imported: {_one_line(tried.error)}"
    return reasons


def _gil_switchers(audit: VariantAudit) -> Iterator[str]:
    """Yield each extension module that switches the GIL back on, with its package."""
    packages = {package.name: package for package in audit.packages}
    for module, owner in {tried.gil_by: tried.gil_package for tried in audit.every_import if tried.gil_by}.items():
        of = f" of {package_text(packages[owner])}" if owner in packages else ""
        yield f"{module}{of} switches the GIL back on"


def package_text(package: PackageAudit) -> str:
    """Return a package with the requirement line, or the packages, that need it."""
    asked = package.requirement or (f"for {', '.join(package.needed_by)}" if package.needed_by else "")
    return f"{package.name} {package.version}".strip() + (f" ({asked})" if asked else "")


def _one_line(text: str) -> str:
    return " ".join(text.split()).rstrip(".")


class LocalImage(StrEnum):
    """What this machine's engine has of the recommended image."""

    MEASURED = "measured"  # built from the same files and parent as the measured one
    OTHER = "other"  # of the same tag, built from other files
    ABSENT = "absent"
    UNKNOWN = "unknown"  # no engine answers


def image_to_name(measured: Built, tag: str, here: Built | None, *, answers: bool) -> tuple[Built, LocalImage]:
    """Return the image for the FROM line: the measured one, else the one here, else the tag that a build will make.

    `tag` is what a build makes today, `here` is this engine's image of that tag; `answers` says whether an engine is
    there.
    """
    if here and here.content_hash == measured.content_hash:
        return here, LocalImage.MEASURED
    if measured.digest:
        return measured, LocalImage.MEASURED
    if here:
        return here, LocalImage.OTHER
    return measured.model_copy(update={"tag": tag}), LocalImage.ABSENT if answers else LocalImage.UNKNOWN


def risks_of(evidence: Evidence, label: str, local: LocalImage, version: str = "") -> Iterator[str]:
    """Yield what may go wrong after a switch, the most important first; `version` is that of the image here."""
    variant = evidence.variant(label)
    if variant is None:  # it would have been excluded
        return
    yield _support_risk(evidence, variant)
    yield from _other_interpreter(evidence, label, variant)
    audit = evidence.audits.get(variant.name)
    yield from _dependency_risks(evidence, label, audit)
    for workload in dict.fromkeys(workload for workload, _ in evidence.shares):
        yield from (f"{workload}: {note}" for note in evidence.cells[label, workload].notes)
    if local is LocalImage.OTHER:
        of = f", of {version}," if version else ""
        yield f"the local image of this name{of} is not the measured one: it was built from other files or another base"
    for key, reason in variant.differences.items():
        yield f"differs from python:X-slim: {key}: {reason}"


def _support_risk(evidence: Evidence, variant: Variant) -> str:
    fixes = {
        SupportPhase.PRERELEASE: "a prerelease, not for production",
        SupportPhase.BUGFIX: "still gets bug fixes",
        SupportPhase.SECURITY: "gets security fixes only",
        SupportPhase.END_OF_LIFE: "gets no fixes, not even for security",
    }[phase_on(variant.support, evidence.today)]
    return f"support: {fixes}; end of life {variant.support.end_of_life or 'not announced'}"


def _other_interpreter(evidence: Evidence, label: str, variant: Variant) -> Iterator[str]:
    """Yield what differs from the baseline's interpreter."""
    old = evidence.variant(evidence.baseline)
    if old is not None and variant.release_line != old.release_line:
        yield f"Python {variant.release_line} instead of {old.release_line}: reinstall the dependencies"
    if variant.proof.implementation != "cpython":
        yield f"{variant.proof.implementation}, not CPython: extension modules are slow or not available"
    if measured := other_release(evidence, label):
        yield f"measured as {measured}, but {variant.file} now builds {' or else '.join(variant.versions)}"


def other_release(evidence: Evidence, label: str) -> str:
    """Return the release of CPython that was measured, if the variant's file now builds another one first."""
    variant, facts = evidence.variant(label), evidence.experiment.facts.get(label)
    if variant is None or facts is None or facts.implementation != "cpython":
        return ""
    return facts.version if version_numbers(facts.version) != version_numbers(variant.version) else ""


def _dependency_risks(evidence: Evidence, label: str, audit: VariantAudit | None) -> Iterator[str]:
    if audit is None:
        back = ", and one may switch the GIL back on" if evidence.gil(label) is Gil.OFF else ""
        yield f"your dependencies are not tested on it{back}: add `--needs requirements.txt`"
        return
    yield from audit.notes
    for package in audit.packages:
        if package.origin is Origin.BUILT:
            seconds = "" if package.build_s is None else f" in {package.build_s:.0f} s"
            yield f"no wheel for {package_text(package)}: built from source{seconds}"
    if alike := failures(audit):  # what fails only here excludes
        yield f"cannot be installed or imported on it nor on {evidence.baseline}: {', '.join(alike)}"
