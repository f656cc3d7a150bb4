"""Which variants are built and measured before the others, so that the first rows are there soon. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from interlock.catalog.types import DEFAULT_BASELINE
from interlock.catalog.variants import SourceKind, SupportPhase, Variant
from interlock.results.experiments import Built, Outcome, State

# To compile fewer than this later gains nothing: a second stage opens all cells again.
LEAST_LATER = 2
WAITING = Outcome(state=State.NOT_MEASURED, reason="it is built after the first look at the first rows")


def first_variants(
    known: Mapping[str, Variant], names: Sequence[str], missing: Collection[str], baseline: str | None
) -> list[str]:
    """Return the variants to build and measure before the others; none where that gains nothing.

    Of the core set they are the baseline, what upstream still mends, and what needs no compiler or is there already.
    """
    wanted = baseline or DEFAULT_BASELINE
    compiled = [name for name in missing if known[name].kind is SourceKind.SOURCE]

    def is_first(name: str) -> bool:
        one = known[name]
        return name == wanted or (one.core and (name not in compiled or one.support.phase is SupportPhase.BUGFIX))

    first = [name for name in names if is_first(name)]
    later = [name for name in compiled if name not in first]
    gains = len(later) >= LEAST_LATER and len(first) > 1 and wanted in first
    return first if gains else []


def waiting(names: Sequence[str], profile: str) -> list[Built]:
    """Return what is recorded of variants that are built later."""
    return [Built(variant=name, profile=profile, outcome=WAITING) for name in names]


def are_enough(built: Sequence[Built], baseline: str | None) -> bool:
    """Return whether there is something to compare: the baseline and another one."""
    ready = {one.variant for one in built if one.outcome.state is State.OK}
    return (baseline or DEFAULT_BASELINE) in ready and len(ready) > 1
