"""The core set without containers: which variants stand in for those of containers, and which are left out and why."""

from __future__ import annotations

from pathlib import Path

from interlock.catalog import selection
from interlock.catalog.project import Catalog
from interlock.catalog.selection import CORE
from interlock.catalog.types import label_of, split_label
from interlock.catalog.variants import SourceKind, Variant
from interlock.engine.build.image import contradictions
from interlock.engine.build.places import Answers
from interlock.engine.host import existing, toolchain
from interlock.engine.host.account import MYSELF, Account
from interlock.engine.host.prefixes import ask_facts
from interlock.engine.protocol import CoreSet
from interlock.errors import BuildError


def core_here(known: Catalog, cache: Path, account: Account = MYSELF) -> CoreSet:
    """Return the core set of this machine as the engine."""
    chosen = CoreSet([], [])
    lacking = toolchain.missing(toolchain.PROGRAMS)
    for label in selection.select_labels(known.variants, [CORE]):
        name, mode = split_label(label)
        variant = known.variants[name]
        if variant.kind is SourceKind.SOURCE:
            reasons, stands_in = [toolchain.cannot_compile(lacking)] if lacking else [], label
        elif variant.prefix is not None:
            reasons, stands_in = list(filter(None, [why_not(variant, cache, account)])), label
        else:
            stands_in, reasons = _stand_in(known, variant, cache, account)
            stands_in = label_of(stands_in, mode) if stands_in and mode else stands_in
        if reasons:
            chosen.left_out.append((label, "; ".join(reasons)))
        else:
            chosen.labels.append(stands_in)
    return chosen


def _stand_in(known: Catalog, variant: Variant, cache: Path, account: Account) -> tuple[str, list[str]]:
    """Return the newest variant here that can replace one that needs containers, or why there is none."""
    reasons = [f"a variant of kind '{variant.kind.value}' needs a container engine"]
    standing = [other for other in known.variants.values() if other.stands_for == variant.name]
    standing.sort(key=lambda other: [int(part) for part in other.release_line.split(".")], reverse=True)
    for other in standing:
        reason = why_not(other, cache, account)
        if not reason:
            return other.name, []
        reasons.append(f"{other.name}, which stands for it: {reason}")
    return "", reasons


def why_not(variant: Variant, cache: Path, account: Account = MYSELF) -> str:
    """Return why an interpreter that others built cannot be used here; an empty text if it can."""
    assert variant.prefix is not None  # noqa: S101  for the type checker: its kind says so
    place, archive = existing.place_of(variant.prefix, account), existing.archive_of(variant.prefix)
    if place is None:
        if archive is None:
            return existing.not_here(variant, variant.prefix).found
        said = Answers().lacking([archive], cache)[archive.sha256]
        return said and f"it cannot be fetched: {said}"
    try:
        wrong = contradictions(variant, ask_facts(place, variant.prefix.python, account))
    except BuildError as error:
        return error.found
    return "".join(f"it is another one ({key} '{answered}', not '{declared}')" for key, declared, answered in wrong[:1])
