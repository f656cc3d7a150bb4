"""What an experiment is asked to measure: read from options, kept in its record, and used to repeat it."""

from __future__ import annotations

from interlock.catalog.types import Data, split_label
from interlock.results.commands import command_line, option_words
from interlock.results.engines import EngineName


class Where(Data):
    """Which engine measures, as whom, and where the results go: what a later command is told again."""

    engine: EngineName | None = None  # None: whichever answers, or the one that DOCKER_HOST leads to
    as_root: bool = False
    results: str = ""  # the folder of experiments; empty: the project's own
    for_reference: bool = False  # the project's folder of references instead, which every reader's clone has

    @property
    def words(self) -> list[str]:
        """Return the options that lead a command here."""
        as_root = self.as_root and self.engine is EngineName.HOST
        folder = {"results": self.results, "for_reference": self.for_reference}
        return option_words({"engine": self.engine, "as_root": as_root, **folder})


class Settings(Data):
    """What an experiment is asked to measure. `--resume` and a fleet's hosts go by what its record has of it."""

    quick: bool
    rounds: int  # the least number of rounds; the exact one if there is no limit
    rounds_limit: int | None = None
    seed: int
    baseline: str  # empty until it is known what can be built
    variants: list[str]  # or variant+mode
    workloads: list[str]
    benchmarks: dict[str, list[str]] = {}  # the only ones to measure, by workload; of other workloads all
    profiled: bool
    why: bool = False  # take stacks of every profiled benchmark, not only of those named
    budget_s: float | None = None  # for measuring and profiling, without the builds and the wait for the lock
    variants_word: str = ""  # `core` or `all`, if the variants are those that such a word stands for
    workloads_word: str = ""
    where: Where = Where()

    @property
    def looks(self) -> bool:
        """Return whether a row is measured until it is decided, instead of for a fixed number of rounds."""
        return self.rounds_limit is not None

    @property
    def to_build(self) -> list[str]:
        """Return the variants of the rows."""
        return list(dict.fromkeys(split_label(label)[0] for label in self.variants))

    def with_baseline(self, baseline: str) -> Settings:
        """Return the settings with this baseline, which is measured plain even if only modes of it were chosen."""
        variants = list(dict.fromkeys([*self.variants, baseline]))
        return self.model_copy(update={"baseline": baseline, "variants": variants})

    @property
    def options(self) -> list[str]:
        """Return the options of `matrix` that measure the same, with defaults written out and each row named.

        The number of rounds is left out if the verdicts decide it again.
        """
        return self._options(",".join(self.variants), self._workloads)

    @property
    def command(self) -> str:
        """Return the command that repeats the experiment, with `core` or `all` where that stands for the names."""
        return command_line("matrix", *self.repeat_words)

    @property
    def repeat_words(self) -> list[str]:
        """Return the options of that command, with those that lead to the same engine and folder."""
        variants = self.variants_word or ",".join(self.variants)
        return [*self._options(variants, self.workloads_word or self._workloads), *self.where.words]

    @property
    def _workloads(self) -> str:
        """Return the workloads as an option names them; if only some benchmarks were chosen, with these."""
        named = {name: [f"{name}/{benchmark}" for benchmark in chosen] for name, chosen in self.benchmarks.items()}
        return ",".join(text for name in self.workloads for text in named.get(name, [name]))

    def _options(self, variants: str, workloads: str) -> list[str]:
        return option_words(
            {
                "variants": variants,
                "workloads": workloads,
                "quick": self.quick,
                "rounds": None if self.looks else self.rounds,
                "baseline": self.baseline,
                "seed": self.seed,
                "no_profile": not self.profiled,
                "why": self.why,
                "budget": duration_word(self.budget_s),
            }
        )


def duration_word(seconds: float | None) -> str:
    """Return a duration as an option takes it; empty for none."""
    return "" if seconds is None else f"{seconds:.15g}s"


def duration_text(seconds: float) -> str:
    """Return a duration as people say it: 90 s, 2.5 min, 12 min, 2.5 h."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 600:
        return f"{seconds / 60:.1f}".removesuffix(".0") + " min"
    return f"{seconds / 60:.0f} min" if seconds < 2 * 3600 else f"{seconds / 3600:.1f} h"
