"""Everything that the files of variants/ and workloads/ say, and whether it fits together."""

from __future__ import annotations

from interlock.catalog.types import LIMIT, TWIN, Data
from interlock.catalog.variants import Base, Condition, Difference, Family, Profile, Variant
from interlock.catalog.workloads import Workload
from interlock.errors import CatalogError, nearest


class Texts(Data):
    """The files that generated files are made of: their texts by file name."""

    templates: dict[str, str]
    patches: dict[str, str] = {}
    steps: dict[str, str] = {}
    keys: dict[str, str] = {}


class Catalog(Data):
    """Everything that variants/ and workloads/ say, by name."""

    bases: dict[str, Base]
    profiles: dict[str, Profile]
    families: dict[str, Family]
    differences: dict[str, Difference]  # of all images of a kind
    variants: dict[str, Variant]
    workloads: dict[str, Workload]
    conditions: dict[str, Condition]


def check_consistency(catalog: Catalog) -> None:
    """Raise CatalogError for the first reference to nothing, reserved name, tag of two variants or file of two sums."""
    for check in (_check_reserved_names, _check_references, _check_tags, _check_sums, _check_modes):
        check(catalog)


def _check_reserved_names(catalog: Catalog) -> None:
    """Limits and twins are stored under these names, where variants and their modes are."""
    if LIMIT in catalog.variants:
        raise CatalogError(
            file=f"variants/{LIMIT}.toml", key="name", found=f"'{LIMIT}' is reserved", todo="Rename the file."
        )
    if TWIN in catalog.conditions:
        raise CatalogError(
            file="workloads/conditions.toml", key=TWIN, found=f"'{TWIN}' is reserved", todo="Rename the condition."
        )


def _check_references(catalog: Catalog) -> None:
    for variant in catalog.variants.values():
        for key, name, known in (
            ("base", variant.base, catalog.bases.keys()),
            ("family", variant.family, catalog.families.keys()),
            ("control", variant.control, catalog.variants.keys()),
            *((profile, profile, catalog.profiles.keys()) for profile in variant.profiles),
        ):
            if name is not None and name not in known:
                raise CatalogError(
                    file=f"variants/{variant.name}.toml",
                    key=key,
                    found=f"'{name}' does not exist",
                    todo=nearest(name, known),
                )


def _check_tags(catalog: Catalog) -> None:
    owners: dict[str, str] = {}
    for variant in catalog.variants.values():
        tag = variant.image_tag("standard")
        if tag in owners:
            raise CatalogError(
                file=f"variants/{variant.name}.toml",
                key="tag",
                found=f"variants/{owners[tag]}.toml has the tag '{tag}' too",
                todo="Give each variant a tag of its own.",
            )
        owners[tag] = variant.name


def _check_sums(catalog: Catalog) -> None:
    """A file name has one SHA-256, whichever variants use it: a slip in one of several copies is caught."""
    seen: dict[str, tuple[str, str]] = {}
    for variant in catalog.variants.values():
        for part in variant.downloads:
            sha256, owner = seen.setdefault(part.file, (part.sha256, variant.name))
            if sha256 != part.sha256:
                raise CatalogError(
                    file=f"variants/{variant.name}.toml",
                    key="sha256",
                    found=f"{part.file} has another SHA-256 than in variants/{owner}.toml",
                    todo="Use the one that upstream publishes in both.",
                )


def _check_modes(catalog: Catalog) -> None:
    """The name after a variant's name and a plus means one thing: a mode, a condition or the twin."""
    for variant in catalog.variants.values():
        for mode in variant.modes:
            if mode.name in (TWIN, *catalog.conditions):
                owner = "reserved" if mode.name == TWIN else "a condition in workloads/conditions.toml"
                raise CatalogError(
                    file=f"variants/{variant.name}.toml",
                    key="modes",
                    found=f"'{mode.name}' is {owner}",
                    todo="Rename the mode.",
                )
