"""What a file of claims says."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, model_validator

from interlock.model.common import Data, Label, Name, PublicationDate


class Publication(Data):
    """Where a claim was published."""

    author: str
    title: str
    date: PublicationDate
    url: str | None = None


class ClaimMetric(StrEnum):
    """What a claim is about. Times and shares are ratios; calls are counts, or ratios of two counts."""

    TIME = "time"  # seconds per unit of work
    USER = "user"  # CPU seconds of the whole process, per unit of work
    SYS = "sys"
    SYS_SHARE = "sys-share"  # the kernel's share of the CPU seconds
    FUTEX = "futex"  # calls per unit of work
    SYSCALLS = "syscalls"

    @property
    def counted(self) -> bool:
        return self in {ClaimMetric.FUTEX, ClaimMetric.SYSCALLS}


class Bound(StrEnum):
    """How far the published figure reaches: up to its tolerance on both sides, or without end on one."""

    EXACT = "exact"
    AT_LEAST = "at-least"
    AT_MOST = "at-most"


class Needs(Data):
    """What the host must have, and why the claim cannot be tested without it."""

    min_cores: Annotated[int, Field(ge=1)] = 1
    system: str | None = None  # a part of the operating system's name
    reason: Annotated[str, Field(min_length=1)]

    @model_validator(mode="after")
    def _names_something(self) -> Needs:
        if self.min_cores == 1 and self.system is None:
            raise ValueError("name 'min_cores' or 'system': a reason alone prevents nothing")
        return self


class Claim(Data):
    """A published figure, and which of an experiment's figures it is compared with."""

    name: Name
    statement: Annotated[str, Field(min_length=1)]
    source: Publication
    workload: Name
    benchmark: str
    metric: ClaimMetric
    syscalls: list[str] = []
    variant: Label
    against: Label | None = None  # none of a count
    against_benchmark: str | None = None  # the claim's own without it
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0  # units of work that a count was published for
    published: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    tolerance: Annotated[float, Field(ge=0, allow_inf_nan=False)]  # a share of the published figure
    bound: Bound = Bound.EXACT
    needs: Needs | None = None
    substitutes: dict[Label, Label] = {}  # what is measured in place of a variant that could not be had
    required: bool = False
    note: str = ""

    @model_validator(mode="after")
    def _says_what_is_compared(self) -> Claim:
        if self.against is None and (not self.metric.counted or self.against_benchmark is not None):
            raise ValueError("a ratio needs 'against': the variant that it is a ratio to")
        if self.against is not None and self.scale != 1:
            raise ValueError("'scale' belongs to a count: a ratio needs none")
        if self.published == 0 and self.bound is Bound.AT_LEAST:
            raise ValueError("'at-least' 0 is always true")
        if self.against is not None and self.published == 0:
            raise ValueError("a ratio of 0 cannot be measured")
        if self.against == self.variant and self.against_benchmark in {None, self.benchmark}:
            raise ValueError("'variant' and 'against' are the same: name another 'against' or 'against_benchmark'")
        if (self.metric is ClaimMetric.SYSCALLS) != bool(self.syscalls):
            raise ValueError("'syscalls' names the calls that the metric 'syscalls' counts, and no other metric has it")
        return self


class ClaimsFile(Data):
    """Claims by name, the publications that they name as their sources, and substitutes for them all."""

    sources: dict[Name, Publication] = {}
    substitutes: dict[Label, Label] = {}
    claims: Annotated[dict[Name, Claim], Field(min_length=1)]

    @model_validator(mode="before")
    @classmethod
    def _join(cls, data: dict[str, Any]) -> dict[str, Any]:
        sources, claims = data.get("sources", {}), data.get("claims")
        if not isinstance(sources, dict) or not isinstance(claims, dict):
            return data
        shared = {"substitutes": data.get("substitutes", {})}
        return {**data, "claims": {name: cls._joined(name, claim, sources, shared) for name, claim in claims.items()}}

    @staticmethod
    def _joined(name: str, claim: Any, sources: dict[str, Any], shared: dict[str, Any]) -> Any:
        if not isinstance(claim, dict):
            return claim
        claim = {**shared, **claim}
        source = claim.get("source")
        if not isinstance(source, str):
            return {**claim, "name": name}
        if source not in sources:
            raise ValueError(f"claim '{name}' has the source '{source}', which is not among [sources]")
        return {**claim, "name": name, "source": sources[source]}
