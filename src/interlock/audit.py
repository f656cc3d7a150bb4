"""An audit shown as a table and as JSON, and held to as a gate. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from interlock.errors import AuditError
from interlock.model import Audit, Gil, Origin, PackageAudit, State, VariantAudit

GIL_BACK, NOT_HAD, NOT_IMPORTED = "The GIL comes back", "Cannot be had", "Cannot be imported"
NOT_ASKED = "Cannot be audited"
KINDS = (NOT_ASKED, GIL_BACK, NOT_HAD, NOT_IMPORTED)


@dataclass(frozen=True)
class Found:
    """One thing that is wrong in a variant. What has the same kind and name in another is the same there."""

    kind: str
    name: str  # of a package, a module or a variant
    subject: str  # for people: with its version and its package
    asked_by: str
    reason: str


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, with the variants that have it. On the control as well, it is not their doing."""

    found: Found
    variants: list[str]
    on_control: bool = False

    @property
    def counts(self) -> bool:
        """Whether a gate closes on it: not for a module that the control cannot import either."""
        return not (self.found.kind == NOT_IMPORTED and self.on_control)


def problems(audit: Audit) -> list[Problem]:
    """What is wrong in the audited variants, by kind and name; what the control alone has is nobody's problem.

    If only the control was audited, it is the audited variant.
    """
    by_variant = {one.variant: list(_wrong_in(one)) for one in audit.variants}
    control = audit.control if len(by_variant) > 1 else None
    on_control = {(one.kind, one.name) for one in by_variant.get(control or "", [])}
    where: dict[Found, list[str]] = {}
    for variant, found in by_variant.items():
        for one in found if variant != control else []:
            where.setdefault(one, []).append(variant)
    rows = [Problem(one, variants, (one.kind, one.name) in on_control) for one, variants in where.items()]
    return sorted(rows, key=lambda row: (KINDS.index(row.found.kind), row.found.name))


def _wrong_in(variant: VariantAudit) -> Iterator[Found]:
    if variant.outcome.state is not State.OK:
        reason = f"{variant.outcome.state.value}: {variant.outcome.reason}"
        yield Found(NOT_ASKED, variant.variant, variant.variant, "", reason)
    packages = {one.name: one for one in variant.packages}
    for owner, modules in _switchers(variant).items():
        package = packages.get(owner)
        subject = _named(package) if package else owner
        yield Found(GIL_BACK, owner, subject, _asked_by(package), _switching(variant, modules))
    for package in variant.packages:
        if package.origin is Origin.FAILED:
            yield Found(NOT_HAD, package.name, _named(package), _asked_by(package), package.reason)
        for one in package.imports:
            if one.error:
                subject = f"{one.module} of {_named(package)}"
                yield Found(NOT_IMPORTED, one.module, subject, _asked_by(package), one.error)
    for one in variant.further:
        if one.error:
            yield Found(NOT_IMPORTED, one.module, one.module, "--import", one.error)


def _switchers(variant: VariantAudit) -> dict[str, list[str]]:
    """Each package that switched the GIL on, with the extension modules by which it did; nobody's module for itself."""
    found: dict[str, list[str]] = {}
    for module, owner in sorted({(one.gil_by, one.gil_package) for one in variant.every_import if one.gil_by}):
        found.setdefault(owner or module, []).append(module)
    return found


def _switching(variant: VariantAudit, modules: list[str]) -> str:
    """Who switches it on, and whose import would, without saying so."""
    importers = [one.module for one in variant.every_import if one.gil_by in modules and one.module not in modules]
    through = f"; importing {', '.join(dict.fromkeys(importers))} does it" if importers else ""
    verb = "switches" if len(modules) == 1 else "switch"
    return f"{', '.join(modules)} {verb} it on{through}"


def _named(package: PackageAudit) -> str:
    return f"{package.name} {package.version}".strip()


def _asked_by(package: PackageAudit | None) -> str:
    """The line that asks for it, else the packages that do."""
    if package is None:
        return ""
    return package.requirement or (f"needed by {', '.join(package.needed_by)}" if package.needed_by else "")


def terminal(audit: Audit) -> RenderableType:
    """A row for each package and a column for each variant; what is wrong, with reasons; a line for each variant."""
    parts: list[RenderableType] = [_table(audit), Text()] if any(one.packages for one in audit.variants) else []
    wrong = problems(audit)
    for kind in dict.fromkeys(one.found.kind for one in wrong):
        lines = [line for one in wrong if one.found.kind == kind for line in _lines(one, audit)]
        parts += [Text(kind, style="bold"), *lines, Text()]
    return Group(*parts, *(Text(summary(one, audit)) for one in audit.variants))


def _lines(problem: Problem, audit: Audit) -> list[RenderableType]:
    found = problem.found
    heading = f"{found.subject} ({found.asked_by})" if found.asked_by else found.subject
    if found.kind != NOT_ASKED:
        alike = f", and on {audit.control} alike: not their doing" if problem.on_control else ""
        heading += f" on {', '.join(problem.variants)}{alike}"
    return [Padding(Text(text), (0, 0, 0, indent), expand=False) for text, indent in ((heading, 2), (found.reason, 4))]


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
    """How the package gets there; what is wrong with it in red."""
    if package is None:
        return Text("-", style="dim")
    wrong = []
    if package in variant.gil_switchers:
        wrong.append("GIL on")
    else:
        others = {one.gil_package for one in package.imports if one.gil_by}
        wrong += [f"GIL on by {name}" for name in sorted(others)]
    if any(one.error for one in package.imports):
        wrong.append("not importable")
    version = f"{package.version} " if is_versioned and package.version else ""
    text = ", ".join([version + _had(package), *wrong])
    return Text(text, style="red" if wrong or package.origin is Origin.FAILED else "")


def _had(package: PackageAudit) -> str:
    if package.origin is Origin.BUILT:
        return f"built here, {package.build_s:.0f} s" if package.build_s is not None else "built here"
    return "fails" if package.origin is Origin.FAILED else "wheel"


def summary(variant: VariantAudit, audit: Audit) -> str:
    """One line: how many packages got there and how, and what became of the GIL."""
    role = " (control)" if variant.variant == audit.control else ""
    if variant.outcome.state is not State.OK:
        return f"{variant.variant}{role}: {variant.outcome.state.value}"
    by_origin = {one: [package for package in variant.packages if package.origin is one] for one in Origin}
    built_s = sum(package.build_s or 0 for package in by_origin[Origin.BUILT])
    parts = [f"{len(by_origin[Origin.WHEEL])} from wheels"]
    parts += [f"{len(by_origin[Origin.BUILT])} built here ({built_s:.0f} s)"] if by_origin[Origin.BUILT] else []
    parts += [f"{len(by_origin[Origin.FAILED])} cannot be had"] if by_origin[Origin.FAILED] else []
    return f"{variant.variant}{role}: {len(variant.packages)} packages, {', '.join(parts)}{_gil(variant)}"


def _gil(variant: VariantAudit) -> str:
    if variant.gil is not Gil.OFF:
        return ""
    switchers = _switchers(variant)
    return f"; the GIL comes back: {', '.join(sorted(switchers))}" if switchers else "; the GIL stays off"


def as_json(audit: Audit) -> str:
    """The same for programs: docs/audit.md says what the keys mean."""
    return audit.model_dump_json(indent=1)


def require(audit: Audit) -> None:
    """AuditError if a gate must not open, with what is wrong in a few words."""
    found: dict[str, dict[str, list[str]]] = {}
    for one in problems(audit):
        if one.counts:
            found.setdefault(one.found.kind, {}).setdefault(one.found.subject, []).extend(one.variants)
    if found:
        parts = [f"{kind[0].lower()}{kind[1:]}: {_where(subjects)}" for kind, subjects in found.items()]
        raise AuditError(file=", ".join(audit.requirements), found="; ".join(parts), todo="The output has the reasons.")


def _where(subjects: Mapping[str, list[str]]) -> str:
    return ", ".join(f"{subject} on {' and '.join(variants)}" for subject, variants in subjects.items())
