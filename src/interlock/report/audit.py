"""An audit as a table, as JSON, and as a gate that fails. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from interlock.catalog.variants import Gil
from interlock.errors import AuditError
from interlock.results.answers import Audit, Origin, PackageAudit, VariantAudit
from interlock.results.experiments import State

NOT_AUDITED, NOT_INSTALLABLE, NOT_IMPORTABLE = "Not audited", "Not installable", "Not importable"
GIL_SWITCHED_ON = "The GIL is switched back on"
KINDS = (NOT_AUDITED, GIL_SWITCHED_ON, NOT_INSTALLABLE, NOT_IMPORTABLE)


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong in a variant; with the same kind and name in another variant it is the same fault."""

    kind: str
    name: str  # the name of a package, a module or a variant
    subject: str  # the name with its version or its package
    asked_by: str  # the requirement, or the packages that need it
    reason: str


@dataclass(frozen=True)
class Problem:
    """A fault with the variants that have it, and whether the control has it too: then they do not cause it."""

    fault: Fault
    variants: list[str]
    on_control: bool = False

    @property
    def counts(self) -> bool:
        """Return whether the gate fails on it; a module that the control cannot import either does not count."""
        return not (self.fault.kind == NOT_IMPORTABLE and self.on_control)


def problems(audit: Audit) -> list[Problem]:
    """Return the faults of the audited variants, by kind and name; a fault of the control alone is left out.

    If nothing but the control was audited, its faults are returned.
    """
    by_variant = {variant.variant: list(_faults_of(variant)) for variant in audit.variants}
    control = audit.control if len(by_variant) > 1 else None
    on_control = {(fault.kind, fault.name) for fault in by_variant.get(control or "", [])}
    where: dict[Fault, list[str]] = {}
    for variant, faults in by_variant.items():
        for fault in faults if variant != control else []:
            where.setdefault(fault, []).append(variant)
    rows = [Problem(fault, variants, (fault.kind, fault.name) in on_control) for fault, variants in where.items()]
    return sorted(rows, key=lambda row: (KINDS.index(row.fault.kind), row.fault.name))


def _faults_of(variant: VariantAudit) -> Iterator[Fault]:
    if variant.outcome.state is not State.OK:
        reason = f"{variant.outcome.state.value}: {variant.outcome.reason}"
        yield Fault(NOT_AUDITED, variant.variant, variant.variant, "", reason)
    packages = {package.name: package for package in variant.packages}
    for owner, modules in _switchers(variant).items():
        package = packages.get(owner)
        subject = _name_and_version(package) if package else owner
        yield Fault(GIL_SWITCHED_ON, owner, subject, _asked_by(package), _how_switched(variant, modules))
    for package in variant.packages:
        if package.origin is Origin.FAILED:
            yield Fault(
                NOT_INSTALLABLE, package.name, _name_and_version(package), _asked_by(package), _why_not(package)
            )
        for tried in package.imports:
            if tried.error:
                subject = f"{tried.module} of {_name_and_version(package)}"
                yield Fault(NOT_IMPORTABLE, tried.module, subject, _asked_by(package), tried.error)
    for tried in variant.further:
        if tried.error:
            yield Fault(NOT_IMPORTABLE, tried.module, tried.module, "--import", tried.error)


def _why_not(package: PackageAudit) -> str:
    """Return why a package cannot be installed, and what helps."""
    helps = [f"{package.name} {package.wheel_release} has a wheel"] if package.wheel_release else []
    helps += [f"Debian's {package.system_package} has what the build lacks"] if package.system_package else []
    return "; ".join([package.reason, *helps])


def _switchers(variant: VariantAudit) -> dict[str, list[str]]:
    """Return the extension modules that switched the GIL on, by package, or by their own name without a package."""
    modules_of: dict[str, list[str]] = {}
    for module, owner in sorted({(tried.gil_by, tried.gil_package) for tried in variant.every_import if tried.gil_by}):
        modules_of.setdefault(owner or module, []).append(module)
    return modules_of


def _how_switched(variant: VariantAudit, modules: list[str]) -> str:
    """Return which modules switch the GIL on, and which other imports cause it."""
    importers = [
        tried.module for tried in variant.every_import if tried.gil_by in modules and tried.module not in modules
    ]
    through = f"; so does importing {', '.join(dict.fromkeys(importers))}" if importers else ""
    verb = "switches" if len(modules) == 1 else "switch"
    return f"{', '.join(modules)} {verb} it on{through}"


def _name_and_version(package: PackageAudit) -> str:
    return f"{package.name} {package.version}".strip()


def _asked_by(package: PackageAudit | None) -> str:
    """Return the line of the requirements file that asks for a package, or else the packages that need it."""
    if package is None:
        return ""
    return package.requirement or (f"needed by {', '.join(package.needed_by)}" if package.needed_by else "")


def terminal(audit: Audit) -> RenderableType:
    """Return a table of packages by variants, the faults with their reasons, and a line for each variant."""
    parts: list[RenderableType] = [_table(audit), Text()] if any(variant.packages for variant in audit.variants) else []
    wrong = problems(audit)
    for kind in dict.fromkeys(problem.fault.kind for problem in wrong):
        lines = [line for problem in wrong if problem.fault.kind == kind for line in _lines(problem, audit)]
        parts += [Text(kind, style="bold"), *lines, Text()]
    for variant in audit.variants:
        parts += [
            Text(summary(variant, audit)),
            *(Padding(Text(f"note: {note}"), (0, 0, 0, 2)) for note in variant.notes),
        ]
    return Group(*parts)


def _lines(problem: Problem, audit: Audit) -> list[RenderableType]:
    fault = problem.fault
    heading = f"{fault.subject} ({fault.asked_by})" if fault.asked_by else fault.subject
    if fault.kind != NOT_AUDITED:
        alike = f", as on {audit.control}, so not caused by the variant" if problem.on_control else ""
        heading += f" on {', '.join(problem.variants)}{alike}"
    return [Padding(Text(text), (0, 0, 0, indent), expand=False) for text, indent in ((heading, 2), (fault.reason, 4))]


def _table(audit: Audit) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False)
    table.add_column("package", no_wrap=True)
    for variant in audit.variants:
        table.add_column(f"{variant.variant}{' (control)' if variant.variant == audit.control else ''}")
    by_variant = [{package.name: package for package in variant.packages} for variant in audit.variants]
    for name in sorted({name for packages in by_variant for name in packages}):
        row = [packages.get(name) for packages in by_variant]
        versions = {package.version for package in row if package and package.version}
        label = f"{name} {next(iter(versions))}" if len(versions) == 1 else name
        cells = [_cell(*pair, is_versioned=len(versions) > 1) for pair in zip(row, audit.variants, strict=True)]
        table.add_row(Text(label), *cells)
    return table


def _cell(package: PackageAudit | None, variant: VariantAudit, *, is_versioned: bool) -> Text:
    """Return where the package comes from, with its faults in red."""
    if package is None:
        return Text("-", style="dim")
    wrong = []
    if package.name in _switchers(variant):
        wrong.append("GIL on")
    else:
        switchers = {tried.gil_package for tried in package.imports if tried.gil_by}
        wrong += [f"GIL on by {name}" for name in sorted(switchers)]
    if any(tried.error for tried in package.imports):
        wrong.append("not importable")
    version = f"{package.version} " if is_versioned and package.version else ""
    wheel = [f"{package.wheel_release} has a wheel"] if package.wheel_release else []
    text = ", ".join([version + _origin_text(package), *wheel, *wrong])
    return Text(text, style="red" if wrong or package.origin is Origin.FAILED else "")


def _origin_text(package: PackageAudit) -> str:
    if package.origin is Origin.BUILT:
        return f"built here, {package.build_s:.0f} s" if package.build_s is not None else "built here"
    return "fails" if package.origin is Origin.FAILED else "wheel"


def summary(variant: VariantAudit, audit: Audit) -> str:
    """Return one line: how many packages were installed and from what, and whether the GIL stays off."""
    role = " (control)" if variant.variant == audit.control else ""
    if variant.outcome.state is not State.OK:
        return f"{variant.variant}{role}: {variant.outcome.state.value}"
    by_origin = {origin: [package for package in variant.packages if package.origin is origin] for origin in Origin}
    built_s = sum(package.build_s or 0 for package in by_origin[Origin.BUILT])
    parts = [f"{len(by_origin[Origin.WHEEL])} from wheels"]
    parts += [f"{len(by_origin[Origin.BUILT])} built here ({built_s:.0f} s)"] if by_origin[Origin.BUILT] else []
    parts += [f"{len(by_origin[Origin.FAILED])} not installable"] if by_origin[Origin.FAILED] else []
    return f"{variant.variant}{role}: {len(variant.packages)} packages, {', '.join(parts)}{_gil(variant)}"


def _gil(variant: VariantAudit) -> str:
    if variant.gil is not Gil.OFF:
        return ""
    if switchers := _switchers(variant):
        return f"; the GIL is switched back on by {', '.join(sorted(switchers))}"
    untried = f", but no time was left to try {variant.untried} extension modules" if variant.untried else ""
    return f"; the GIL stays off{untried}"


def require(audit: Audit) -> None:
    """Raise AuditError if the audited variants have faults that count."""
    variants_of: dict[str, dict[str, list[str]]] = {}
    for problem in problems(audit):
        if problem.counts:
            variants_of.setdefault(problem.fault.kind, {}).setdefault(problem.fault.subject, []).extend(
                problem.variants
            )
    parts = [
        f"{kind[0].lower()}{kind[1:]}: "
        + ", ".join(f"{subject} on {' and '.join(variants)}" for subject, variants in subjects.items())
        for kind, subjects in variants_of.items()
    ]
    if parts:
        todo = "The output has the reasons: require another version, or choose another variant with --variants."
        raise AuditError(file=", ".join(audit.requirements), found="; ".join(parts), todo=todo)
