"""What an audit's containers answered, put together: which imports to ask for, and the row of each package. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from interlock import installed
from interlock.engine.importing import EXTENSIONS_S, IMPORT_S, Answer, Job
from interlock.engine.resolving import Failure, Resolution
from interlock.engine.wheels import Wheel
from interlock.model import Gil, ModuleImport, Origin, PackageAudit
from interlock.requirements import Line, shown

# The loader's words, when an extension module was linked against a library that the image has not.
LACKS_LIBRARY = "cannot open shared object file"


def jobs_of(
    there: Sequence[installed.Distribution], wheels: Sequence[Wheel], gil: Gil, further: Sequence[str]
) -> list[Job]:
    """A process for each top-level module, and for the extension modules of a package together.

    Those are asked where the GIL is off, for they may lie deeper than a plain import reaches; and of what was built
    here, for the builder has libraries that the image may lack.
    """
    wanted = {wheel.package.key: wheel for wheel in wheels if wheel.path}
    jobs: list[Job] = []
    for one in there:
        if one.key in wanted:
            is_swept = gil is Gil.OFF or wanted[one.key].build_s is not None
            jobs += _jobs(one, is_swept=is_swept)
    return [*jobs, *(Job("", [module], IMPORT_S) for module in further)]


def _jobs(one: installed.Distribution, *, is_swept: bool) -> Iterator[Job]:
    modules = installed.top_modules(one.files)
    for module in modules:
        yield Job(one.key, [module], IMPORT_S)
    extensions = [name for name in installed.extension_modules(one.files) if name not in modules]
    if is_swept and extensions:
        yield Job(one.key, extensions, EXTENSIONS_S, is_sweep=True)


def imports_of(
    jobs: Sequence[Job], answers: Sequence[Sequence[Answer]], owned: Mapping[str, str]
) -> dict[str, list[ModuleImport]]:
    """What is worth telling, by package.

    An extension module that cannot be imported by itself is no fault: few are meant to be. One that lacks a library is.
    """
    found: dict[str, list[ModuleImport]] = {}
    for job, row in zip(jobs, answers, strict=True):
        kept = [one for one in row if not job.is_sweep or one.by or LACKS_LIBRARY in one.error]
        found.setdefault(job.package, []).extend(_imported(one, job, owned) for one in kept)
    return found


def _imported(one: Answer, job: Job, owned: Mapping[str, str]) -> ModuleImport:
    owner = (installed.owner_of(one.by, owned) or job.package) if one.by else ""
    error = one.error if not job.is_sweep or LACKS_LIBRARY in one.error else ""
    return ModuleImport(module=one.module, error=error, gil_by=one.by, gil_package=owner)


def packages_of(
    resolution: Resolution,
    wheels: Sequence[Wheel],
    reasons: Mapping[str, str],
    imports: Mapping[str, list[ModuleImport]],
) -> list[PackageAudit]:
    """Every package, by name. `reasons` says of which the wheel could not be installed."""
    lines = {package.key: line for package, line in resolution.packages}
    rows = [_row(wheel, lines[wheel.package.key], reasons, imports) for wheel in wheels]
    rows += [_failed(failure) for failure in resolution.failures]
    return sorted(rows, key=lambda row: row.name)


def _row(
    wheel: Wheel, line: Line | None, reasons: Mapping[str, str], imports: Mapping[str, list[ModuleImport]]
) -> PackageAudit:
    package = wheel.package
    reason = wheel.reason or reasons.get(package.key, "")
    origin = Origin.WHEEL if package.is_wheel else Origin.BUILT
    return PackageAudit(
        name=package.key,
        version=package.version,
        requirement=shown(line),
        needed_by=package.needed_by,
        origin=Origin.FAILED if reason else origin,
        build_s=wheel.build_s,
        reason=reason,
        imports=[] if reason else imports.get(package.key, []),
    )


def _failed(failure: Failure) -> PackageAudit:
    return PackageAudit(
        name=failure.name,
        version=failure.version,
        requirement=shown(failure.line),
        needed_by=failure.needed_by,
        origin=Origin.FAILED,
        reason=failure.words,
    )
