"""Does what the files say fit together? Every reference is resolved; names, tags and sums are one variant's alone."""

from __future__ import annotations

from interlock.errors import CatalogError
from interlock.model import LIMIT, TWIN, Catalog


def check(catalog: Catalog) -> None:
    """CatalogError for the first thing that does not fit, with its file and key."""
    for one in (_check_limits, _check_references, _check_tags, _check_sums, _check_modes):
        one(catalog)


def _check_limits(catalog: Catalog) -> None:
    """A limit is named as if it were a mode of this."""
    if LIMIT in catalog.variants:
        raise CatalogError(
            file=f"variants/{LIMIT}.toml", key="name", found="a variant has the name of limits", todo="Rename the file."
        )


def _check_references(catalog: Catalog) -> None:
    bases, profiles, variants = set(catalog.bases), set(catalog.profiles), set(catalog.variants)
    families = set(catalog.families)
    for variant in catalog.variants.values():
        for key, name, known in (
            ("base", variant.base, bases),
            ("family", variant.family, families),
            ("control", variant.control, variants),
            *((profile, profile, profiles) for profile in variant.profiles),
        ):
            if name is not None and name not in known:
                raise CatalogError(
                    file=f"variants/{variant.name}.toml",
                    key=key,
                    found=f"'{name}' does not exist",
                    todo=f"Name one of: {', '.join(sorted(known))}.",
                )


def _check_tags(catalog: Catalog) -> None:
    owners: dict[str, str] = {}
    for variant in catalog.variants.values():
        tag = variant.image_tag("standard")
        if tag in owners:
            raise CatalogError(
                file=f"variants/{variant.name}.toml",
                key="tag",
                found=f"'{tag}' is the tag of variants/{owners[tag]}.toml too",
                todo="Give each variant a tag of its own.",
            )
        owners[tag] = variant.name


def _check_sums(catalog: Catalog) -> None:
    """One file name has one sum, whichever variants use it: a slip in one of several copies is caught."""
    seen: dict[str, tuple[str, str]] = {}
    for variant in catalog.variants.values():
        for part in variant.downloads:
            sha256, owner = seen.setdefault(part.file, (part.sha256, variant.name))
            if sha256 != part.sha256:
                raise CatalogError(
                    file=f"variants/{variant.name}.toml",
                    key="sha256",
                    found=f"{part.file} has another sum than in variants/{owner}.toml",
                    todo="Use the sum that upstream publishes in both.",
                )


def _check_modes(catalog: Catalog) -> None:
    """What stands behind a variant's name and a plus says one thing: a mode, a condition or the twin."""
    if TWIN in catalog.conditions:
        raise CatalogError(
            file="workloads/conditions.toml",
            key=TWIN,
            found="a condition has the name of the baseline's twin",
            todo="Give it another name.",
        )
    taken = {
        TWIN: "the baseline's twin",
        **dict.fromkeys(catalog.conditions, "a condition of workloads/conditions.toml"),
    }
    for variant in catalog.variants.values():
        for mode in variant.modes:
            if mode.name in taken:
                raise CatalogError(
                    file=f"variants/{variant.name}.toml",
                    key="modes",
                    found=f"'{mode.name}' is the name of {taken[mode.name]} too",
                    todo="Give the mode another name.",
                )
