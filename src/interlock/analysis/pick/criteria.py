"""What is asked of a pick, from the words of a command line: weights and constraints."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from interlock.catalog.variants import Support, SupportPhase
from interlock.errors import UsageError

MOST_WEIGHT = 1e9
# A benchmark that a program lists may have spaces in its name.
WEIGHT = re.compile(r"(?P<workload>[^=/\s]+)(/(?P<benchmark>[^=/\s]([^=/]*[^=/\s])?))?(=(?P<weight>.*))?")
SIZE = re.compile(r"(?P<number>[0-9]{1,15}(\.[0-9]{1,15})?)\s*(?P<unit>[kKMGT]i?B)")
# Powers of 1000 (kB) and of 1024 (KiB).
UNITS = {
    f"{prefix}{i}B": base**power for i, base in (("", 1000), ("i", 1024)) for power, prefix in enumerate("kMGT", 1)
}
VERSION = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,2}")
MONTH = re.compile(r"\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?")
# Images of these phases are excluded unless --allow names them.
EXCLUDED_PHASES = (SupportPhase.END_OF_LIFE, SupportPhase.PRERELEASE)


def phase_on(support: Support, day: datetime.date) -> SupportPhase:
    """Return the phase on a day, whose end a variant's file may not know yet."""
    ended = support.end_of_life is not None and support.end_of_life < day.isoformat()
    return SupportPhase.END_OF_LIFE if ended else support.phase


@dataclass(frozen=True)
class WorkloadWeight:
    """How much a workload, or one benchmark of it, counts relative to the others."""

    workload: str
    benchmark: str | None
    weight: float

    @property
    def name(self) -> str:
        return self.workload if self.benchmark is None else f"{self.workload}/{self.benchmark}"


@dataclass(frozen=True)
class Criteria:
    """The constraints that an image must meet (None: no constraint), and the weights that rank it."""

    weights: tuple[WorkloadWeight, ...]
    cpus: int  # of the machine that the service runs on
    max_rss_bytes: int | None = None
    min_python: tuple[int, ...] | None = None
    supported_until: str | None = None  # a year, month or day in ISO 8601
    allowed: frozenset[SupportPhase] = frozenset()  # of those in EXCLUDED_PHASES
    baseline: str | None = None  # None: the experiment's own baseline
    needs: tuple[str, ...] = ()  # requirements files to install and import in the picked image


def parse_weights(texts: Sequence[str]) -> tuple[WorkloadWeight, ...]:
    """Read weights such as `download=3`, `download/many=2` or `download`, which counts 1.

    Raises UsageError for a workload named twice, and anything else that is not a weight.
    """
    weights = tuple(map(_parse_weight, texts))
    names = [weight.name for weight in weights]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(key="--workload", found=f"'{name}' is named twice", todo="Name it once, with one weight.")
    return weights


def _parse_weight(text: str) -> WorkloadWeight:
    matched = WEIGHT.fullmatch(text.strip())
    if matched is None:
        raise UsageError(
            key="--workload",
            found=f"'{text}' is not NAME, NAME=WEIGHT or NAME/BENCHMARK=WEIGHT",
            todo="Write `--workload download=3`, or `--workload download/many=3` for one benchmark.",
        )
    weight = _number("1" if matched["weight"] is None else matched["weight"])
    if weight is None:
        raise UsageError(
            key="--workload",
            found=f"the weight in '{text}' is not a number above 0, at most {MOST_WEIGHT:.0f}",
            todo="Write a number: 3 counts three times as much as 1.",
        )
    return WorkloadWeight(matched["workload"], matched["benchmark"], weight)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 < number <= MOST_WEIGHT else None


def parse_size(text: str) -> int:
    """Return the bytes of `200MB` or `1.5 GiB`; raise UsageError without a unit and for 0."""
    matched = SIZE.fullmatch(text.strip())
    size_bytes = round(float(matched["number"]) * UNITS[matched["unit"].replace("K", "k", 1)]) if matched else 0
    if size_bytes <= 0:
        raise UsageError(
            key="--max-rss", found=f"'{text}' is not a size", todo="Write it with its unit: 200MB or 190MiB."
        )
    return size_bytes


def parse_version(text: str) -> tuple[int, ...]:
    """Return the numbers of a Python version, `3.11` or `3.11.4`; only the parts given are compared later."""
    if not VERSION.fullmatch(text.strip()):
        raise UsageError(key="--min-python", found=f"'{text}' is not a Python version", todo="Write it as 3.11.")
    return tuple(map(int, text.strip().split(".")))


def parse_month(text: str) -> str:
    """Return a date of the form `2027`, `2027-06` or `2027-06-30` as it is; raise UsageError for any other."""
    if not MONTH.fullmatch(text.strip()):
        raise UsageError(
            key="--supported-until",
            found=f"'{text}' is not a date",
            todo="Write a month, 2027-06, or a day, 2027-06-30.",
        )
    return text.strip()


def parse_phases(names: Iterable[str]) -> frozenset[SupportPhase]:
    """Return the support phases that --allow names; raise UsageError for one that is never excluded."""
    known = {phase.value: phase for phase in EXCLUDED_PHASES}
    for name in names:
        if name not in known:
            raise UsageError(
                key="--allow",
                found=f"'{name}' is not a support phase that --allow takes",
                todo=f"Name {' or '.join(known)}.",
            )
    return frozenset(known[name] for name in names)
