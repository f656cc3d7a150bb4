"""What somebody wants of an image, from the words of a command line."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from interlock.errors import UsageError
from interlock.model import SupportPhase

WEIGHT = re.compile(r"(?P<workload>[^=/\s]+)(/(?P<benchmark>[^=/\s]+))?(=(?P<weight>.*))?")
SIZE = re.compile(r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>[kKMGT]i?B)")
# Of 1000s and of 1024s, as their names say.
UNITS = {
    f"{prefix}{i}B": base**power for i, base in (("", 1000), ("i", 1024)) for power, prefix in enumerate("kMGT", 1)
}
VERSION = re.compile(r"\d+(\.\d+){0,2}")
MONTH = re.compile(r"\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?")
# Nobody is sent to these who did not ask for them.
NEED_LEAVE = (SupportPhase.END_OF_LIFE, SupportPhase.PRERELEASE)


@dataclass(frozen=True)
class Weight:
    """How much a workload, or one benchmark of it, counts beside the others."""

    workload: str
    benchmark: str | None
    weight: float

    @property
    def name(self) -> str:
        return self.workload if self.benchmark is None else f"{self.workload}/{self.benchmark}"


@dataclass(frozen=True)
class Demands:
    """What an image must meet (None: no such demand), and what it is ranked by."""

    weights: tuple[Weight, ...]
    max_rss_bytes: int | None = None
    min_python: tuple[int, ...] | None = None
    supported_until: str | None = None  # a month, a day or a year, as ISO 8601 writes them
    threads: int | None = None
    allowed: frozenset[SupportPhase] = frozenset()  # of those in NEED_LEAVE
    profile: str = "standard"
    baseline: str | None = None  # what runs now; the experiment's baseline without it
    needs: tuple[str, ...] = ()  # requirements files, which are tried on what would be picked


def parse_weights(texts: Sequence[str]) -> tuple[Weight, ...]:
    """From `download=3`, `download/many=2` or `download`, which counts 1; UsageError for none, and for all else."""
    if not texts:
        raise UsageError(
            key="--workload",
            found="nothing says what is to run on the image",
            todo="Name workloads with their weights: `--workload download=3 --workload startup=1`.",
        )
    weights = tuple(map(_parse_weight, texts))
    names = [weight.name for weight in weights]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(key="--workload", found=f"'{name}' has two weights", todo="Give it one.")
    return weights


def _parse_weight(text: str) -> Weight:
    found = WEIGHT.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            key="--workload",
            found=f"'{text}' is no workload with a weight",
            todo="Write `download=3`, or `download/many=3` for one benchmark of it.",
        )
    weight = _number("1" if found["weight"] is None else found["weight"])
    if weight is None:
        raise UsageError(
            key="--workload",
            found=f"the weight of '{text}' is no number above 0",
            todo="Weights count beside each other: 3 is three times as much as 1.",
        )
    return Weight(found["workload"], found["benchmark"], weight)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 < number < math.inf else None


def parse_size(text: str) -> int:
    """Bytes from `200MB` or `1.5 GiB`; UsageError without a unit, and for nothing at all."""
    found = SIZE.fullmatch(text.strip())
    size_bytes = round(float(found["number"]) * UNITS[found["unit"].replace("K", "k", 1)]) if found else 0
    if size_bytes <= 0:
        raise UsageError(key="--max-rss", found=f"'{text}' is no size", todo="Write it with its unit: 200MB or 190MiB.")
    return size_bytes


def parse_version(text: str) -> tuple[int, ...]:
    """Of Python: `3.11` or `3.11.4`, of which as many parts are compared as there are."""
    if not VERSION.fullmatch(text.strip()):
        raise UsageError(key="--min-python", found=f"'{text}' is no version of Python", todo="Write it as 3.11.")
    return tuple(map(int, text.strip().split(".")))


def parse_month(text: str) -> str:
    """`2027-06`, `2027-06-30` or `2027`."""
    if not MONTH.fullmatch(text.strip()):
        raise UsageError(key="--supported-until", found=f"'{text}' is no month", todo="Write it as 2027-06.")
    return text.strip()


def parse_phases(names: Iterable[str]) -> frozenset[SupportPhase]:
    """The support phases that are excluded unless they are named here."""
    known = {phase.value: phase for phase in NEED_LEAVE}
    for name in names:
        if name not in known:
            raise UsageError(
                key="--allow",
                found=f"'{name}' is no support phase that needs leave",
                todo=f"Choose from: {', '.join(known)}.",
            )
    return frozenset(known[name] for name in names)
