"""What a person must know about a swap: a caveat, the line that it is about, and how much it matters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Weight(StrEnum):
    """How much a caveat matters; the first ones come first."""

    BREAKS = "breaks"
    MAY_BREAK = "may break"
    KNOW = "know"


@dataclass(frozen=True)
class Caveat:
    """A warning about a swap, and the line that it is about (0: the whole file)."""

    line: int
    text: str
    weight: Weight = Weight.MAY_BREAK


def by_weight(told: Iterable[Caveat]) -> list[Caveat]:
    """Return the caveats, the heaviest first; those of the whole file are joined into one, and repeated ones too."""
    lines: dict[tuple[str, Weight], list[int]] = {}
    for caveat in told:
        lines.setdefault((caveat.text, caveat.weight), []).append(caveat.line)
    standing = "; ".join(text for (text, weight), held in lines.items() if weight is Weight.KNOW and not min(held))
    once = [Caveat(0, standing, Weight.KNOW)] if standing else []
    for (text, weight), held in lines.items():
        first, *further = sorted(set(held))
        also = f" (and in line {', '.join(map(str, further))})" if further else ""
        if first or weight is not Weight.KNOW:
            once.append(Caveat(first, f"{text}{also}", weight))
    return sorted(once, key=lambda caveat: (list(Weight).index(caveat.weight), caveat.line))
