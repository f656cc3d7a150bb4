"""The contents of a file of claims, and of a file of questions whose answers have figures."""

from __future__ import annotations

from enum import StrEnum
from string import Formatter
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from interlock.catalog.types import Data, Label, Name, PublicationDate, Text


class Publication(Data):
    """Where a claim was published."""

    author: str = Field(description="Who wrote it.")
    title: str = Field(description="Title of the publication.")
    date: PublicationDate = Field(description="Date of the publication: 2007-10-22, or as much of it as is known.")
    url: str | None = Field(default=None, description="Address of the publication.")


class ClaimMetric(StrEnum):
    """The figure that a claim is about. Times and shares are ratios; the others are counts, or ratios of two counts."""

    TIME = "time"  # seconds per unit of work
    CPU = "cpu"  # CPU seconds of the whole process, per unit of work
    USER = "user"
    SYS = "sys"
    SYS_SHARE = "sys-share"  # the kernel's share of the CPU seconds
    WORK_SYS = "work-sys"  # the kernel's CPU seconds of the timed work alone
    FUTEX = "futex"  # calls per unit of work
    SYSCALLS = "syscalls"
    WORKS = "works"  # 1 if the benchmark ends and its work was done, else 0
    DETAIL = "detail"  # a second figure of the benchmark, only in answers

    @property
    def counted(self) -> bool:
        """Return whether the figure is a number without an interval."""
        return self in {ClaimMetric.FUTEX, ClaimMetric.SYSCALLS, ClaimMetric.WORKS, ClaimMetric.DETAIL}


# What no ratio is made of.
OF_ONE = {ClaimMetric.WORKS, ClaimMetric.DETAIL}


class Bound(StrEnum):
    """On which sides the tolerance of the published figure ends."""

    EXACT = "exact"
    AT_LEAST = "at-least"
    AT_MOST = "at-most"


class HostNeeds(Data):
    """What the host must have, and why the claim cannot be tested without it."""

    min_cores: int = Field(default=1, ge=1, description="Cores at least.")
    system: str | None = Field(default=None, description="A part of the operating system's name.")
    reason: Text = Field(description="Why the claim cannot be tested without it.")

    @model_validator(mode="after")
    def _names_something(self) -> HostNeeds:
        if self.min_cores == 1 and self.system is None:
            raise ValueError("it needs 'min_cores' or 'system' in addition to the reason")
        return self


class Measured(Data):
    """Which of an experiment's figures is meant: a count, or the ratio of two measurements."""

    workload: Name = Field(description="The workload that it is tested with.")
    benchmark: str = Field(description="The benchmark of that workload.")
    metric: ClaimMetric = Field(default=ClaimMetric.TIME, description="The figure that is compared.")
    syscalls: list[str] = Field(default=[], description="The system calls that the metric 'syscalls' counts.")
    variant: Label = Field(description="The variant, or VARIANT+MODE, that the figure is of.")
    against: Label | None = Field(default=None, description="The variant that a ratio is to; a count has none.")
    against_benchmark: str | None = Field(default=None, description="Benchmark of the other one, if it is another.")
    scale: float = Field(
        default=1.0, gt=0, allow_inf_nan=False, description="Units of work that a count was published for."
    )

    @model_validator(mode="after")
    def _says_what_is_compared(self) -> Self:
        if self.against is None and (not self.metric.counted or self.against_benchmark is not None):
            raise ValueError("a ratio needs 'against': the variant that it is a ratio to")
        if self.against is not None and self.metric in OF_ONE:
            raise ValueError(f"the metric '{self.metric}' is of one variant: it has no 'against'")
        if self.against == self.variant and self.against_benchmark in {None, self.benchmark}:
            raise ValueError("'variant' and 'against' are the same: name another 'against' or 'against_benchmark'")
        if self.against is not None and self.scale != 1:
            raise ValueError("'scale' belongs to a count: a ratio needs none")
        if (self.metric is ClaimMetric.SYSCALLS) != bool(self.syscalls):
            raise ValueError("'syscalls' names the calls that the metric 'syscalls' counts, and no other metric has it")
        return self


class Statement(Data):
    """What was published, and where."""

    statement: Text = Field(description="What was published, in one sentence.")
    source: Publication = Field(description="The publication: a name of [sources], or a table of its own.")


class Claim(Statement, Measured):
    """A published figure, and which of an experiment's figures it is compared with."""

    name: Name
    published: float = Field(ge=0, allow_inf_nan=False, description="The published figure: a ratio or a count.")
    tolerance: float = Field(
        ge=0, allow_inf_nan=False, description="How far from the published figure confirms it, as a share of it."
    )
    bound: Bound = Field(default=Bound.EXACT, description="Sides on which the tolerance applies.")
    needs: HostNeeds | None = Field(default=None, description="What the host must have.")
    substitutes: dict[Label, Label] = Field(
        default={}, description="Variant to measure in place of one that is not available."
    )
    required: bool = Field(default=False, description="Whether `interlock claims` fails on no effect or the opposite.")
    note: str = Field(default="", description="Note for readers.")

    @model_validator(mode="after")
    def _can_be_judged(self) -> Claim:
        if self.metric is ClaimMetric.DETAIL:
            raise ValueError("the metric 'detail' is for answers: no claim is judged by it")
        if self.published == 0 and self.bound is Bound.AT_LEAST:
            raise ValueError("'at-least' 0 is always true")
        if self.against is not None and self.published == 0:
            raise ValueError("a ratio of 0 cannot be measured")
        return self


class Untested(Statement):
    """A published statement that nothing judges, and why."""

    reason: Text = Field(description="Why it is not tested.")


class JudgedApart(Statement):
    """A published statement that a benchmark of the project's own judges, beside the experiments."""

    published: Text = Field(description="The published figure.")
    ours: Text = Field(description="The benchmark's figure.")
    verdict: Literal["confirmed", "same direction, stronger", "same direction, weaker", "opposite", "undecided"] = (
        Field(description="What the figures show of the statement.")
    )
    section: Text = Field(description="Where the benchmark's figures are: a page of docs/, # and a section.")


class AnsweringFigure(Measured):
    """A figure in an answer, and what it has to show for the answer to be true."""

    shows: Literal["faster", "slower", "same", "undecided"] | None = Field(
        default=None, description="The verdict that the answer rests on; a count has none."
    )
    experiment: str | None = Field(default=None, description="The reference, if not the one that the page goes by.")
    detail: str = Field(default="", description="Label of the detail that the metric 'detail' shows.")

    @model_validator(mode="after")
    def _names_its_detail(self) -> AnsweringFigure:
        if (self.metric is ClaimMetric.DETAIL) != bool(self.detail):
            raise ValueError("'detail' names what the metric 'detail' shows, and no other metric has it")
        return self


class Picture(Data):
    """A picture beside an answer."""

    file: Text = Field(description="Its file in docs/.")
    says: Text = Field(description="What it shows, for those who cannot see it.")


class Question(Data):
    """A question of a reader, and its answer: {NAME} in it is a figure's text."""

    question: Text
    answer: Text
    picture: Picture | None = None
    figures: dict[Name, AnsweringFigure] = {}

    @model_validator(mode="after")
    def _has_its_figures(self) -> Question:
        named = {name for _, name, _, _ in Formatter().parse(self.answer) if name is not None}
        if unknown := named - self.figures.keys():
            raise ValueError(f"'answer' names {{{min(unknown)}}}, which is not in 'figures'")
        return self


class QuestionsFile(Data):
    """The questions of a page of findings, in its order."""

    questions: list[Question]


class ClaimsFile(Data):
    """Claims by name, the publications that they name as their sources, and substitutes for them all."""

    sources: dict[Name, Publication] = Field(default={}, description="Publications by name.")
    substitutes: dict[Label, Label] = Field(default={}, description="Substitutes for all claims.")
    claims: dict[Name, Claim] = Field(min_length=1, description="The claims, each in a table [claims.NAME].")
    apart: dict[Name, JudgedApart] = Field(default={}, description="What a benchmark judges beside the experiments.")
    untested: dict[Name, Untested] = Field(default={}, description="What nothing judges, and why.")

    @model_validator(mode="before")
    @classmethod
    def _join(cls, data: dict[str, Any]) -> dict[str, Any]:
        sources, claims, apart, untested = (data.get(key, {}) for key in ("sources", "claims", "apart", "untested"))
        if not all(isinstance(table, dict) for table in (sources, claims, apart, untested)):
            return data
        shared = {"substitutes": data.get("substitutes", {})}
        return {
            **data,
            "claims": {
                name: {**shared, **cls._with_source(name, claim, sources), "name": name}
                if isinstance(claim, dict)
                else claim
                for name, claim in claims.items()
            },
            "apart": {name: cls._with_source(name, statement, sources) for name, statement in apart.items()},
            "untested": {name: cls._with_source(name, statement, sources) for name, statement in untested.items()},
        }

    @staticmethod
    def _with_source(name: str, statement: Any, sources: dict[str, Any]) -> Any:
        source = statement.get("source") if isinstance(statement, dict) else None
        if not isinstance(source, str):
            return statement
        if source not in sources:
            raise ValueError(f"claim '{name}' has the source '{source}', which is not in [sources]")
        return {**statement, "source": sources[source]}
