"""What `audit` and `pick` answer, the schema of their JSON; and figures.json, from which a pick answers."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from interlock.catalog.types import Data, Label
from interlock.catalog.variants import Gil
from interlock.results.experiments import Outcome


class Origin(StrEnum):
    """Where an installed package came from."""

    WHEEL = "wheel"
    BUILT = "built"  # from its source, in this audit
    FAILED = "failed"


class ModuleImport(Data):
    """One module, imported in a fresh process; `gil_by` is the extension module that switched the GIL on."""

    module: str
    error: str = ""  # the exception's last line, or how the process ended; empty if the module was imported
    gil_by: str = ""
    gil_package: str = ""  # the package that owns `gil_by`; not always the imported one


class PackageAudit(Data):
    """One dependency, direct or not, in one variant."""

    name: str
    version: str = ""  # empty if no version could be installed
    requirement: str = ""  # 'file:line text' of the line that asks for it; empty if only other packages do
    needed_by: list[str] = []  # packages that ask for it
    origin: Origin
    build_s: float | None = None  # when the package was built, in this audit or an earlier one
    reason: str = ""  # of a failure: the compiler's or installer's last words
    system_package: str = ""  # the Debian package with what a failed build says it lacks
    wheel_release: str = ""  # if there is no wheel: the nearest release that has one for the variant
    imports: list[ModuleImport] = []  # its top-level modules, and those extension modules that switch the GIL on


class VariantAudit(Data):
    """All dependencies in one variant; `outcome` is not ok if the variant itself is missing or does not start."""

    variant: str
    outcome: Outcome
    gil: Gil | None = None  # of the bare interpreter
    packages: list[PackageAudit] = []
    further: list[ModuleImport] = []  # modules that --import names
    untried: int = 0  # extension modules that were not imported, because others of their package took all the time
    notes: list[str] = []  # what the files say that pip is not asked: another Python, an index that is not safe

    @property
    def every_import(self) -> list[ModuleImport]:
        """Return all imports that were tried."""
        return [tried for package in self.packages for tried in package.imports] + self.further

    @property
    def failed(self) -> list[PackageAudit]:
        """Return packages that cannot be installed, or that have a module which cannot be imported."""
        return [
            package
            for package in self.packages
            if package.origin is Origin.FAILED or any(i.error for i in package.imports)
        ]


class Audit(Data):
    """The output of audit --json: one set of requirements over variants."""

    schema_version: int = 1
    requirements: list[str]  # the files that were read
    control: str | None = None  # the variant to compare with: what fails there too is not another variant's fault
    variants: list[VariantAudit]


class Decision(StrEnum):
    """What a pick recommends."""

    SWITCH = "switch"
    STAY = "stay"
    MEASURE = "measure"  # the images that meet the constraints have no figures
    NOTHING = "nothing"  # no image meets the constraints


class Standing(StrEnum):
    """A contender compared with the baseline."""

    BASELINE = "baseline"
    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    UNDECIDED = "undecided"


class Rank(StrEnum):
    """A contender compared with the best of the others."""

    BEST = "best"
    OPEN = "not shown to differ from the best"
    UNCLEAR = "too noisy to place"  # not shown to differ from the best, but ranked below one that is
    WORSE = "worse"


class Estimate(Data):
    """A figure with its 95 % interval; None is infinity: one round has no interval."""

    estimate: float
    low: float
    high: float | None


class Share(Data):
    """The share of one benchmark in the ranking; all shares of a pick add up to 1."""

    workload: str
    benchmark: str
    share: float


class Sides(Data):
    """The throughput of one without a GIL relative to the baseline's with one, on both sides of the question."""

    computing: Estimate  # where threads compute on more CPUs than one
    elsewhere: Estimate


class Contender(Data):
    """An image that meets the constraints; `speed` is its throughput relative to the baseline's, above 1 is faster."""

    label: Label
    speed: Estimate
    standing: Standing
    rank: Rank
    max_rss_bytes: int | None  # of one process, the most in the ranked benchmarks; None if not measured
    start_s: float | None  # `python -c pass`, if the experiment has it
    image_bytes: int | None
    built_otherwise: str  # how it and the baseline were optimised, if not in the same way
    sides: Sides | None = None  # None with a GIL, on one CPU, or if one side was not measured


class Exclusion(Data):
    """An image that fails a constraint, and each reason."""

    label: Label
    reasons: list[str]


class Costs(Data):
    """What the picked image costs more than the baseline; None was not measured.

    `start_ratio` is a ratio of times, above 1 is slower.
    """

    max_rss_bytes: int | None
    image_bytes: int | None
    start_s: float | None = None
    start_ratio: Estimate | None = None


class Recommendation(Data):
    """The image to run, how to start its interpreter, and what speaks against it."""

    label: Label
    reference: str  # what a FROM line names
    pinned: bool  # whether it has a registry's digest
    environment: dict[str, str]  # of the mode; it belongs into ENV lines
    options: list[str]  # of the mode; they belong after `python`
    gain: Estimate  # drawn towards the mean of the contenders: the best of several looks better than it is
    measured_gain: Estimate
    costs: Costs
    risks: list[str]


class MachineDifference(Data):
    """One thing in which this machine differs from the experiment's."""

    what: str
    there: str
    here: str


class Elsewhere(Data):
    """The gain of the recommended image in another shipped experiment than the one that answers."""

    experiment: str
    machine: str
    measured_otherwise: str  # as in Pick
    speed: Estimate
    standing: Standing


class Whose(StrEnum):
    """Whose figures answer a pick."""

    HERE = "here"  # the user's, in the results of this folder
    ELSEWHERE = "elsewhere"  # the user's, in another folder
    PROJECT = "project"  # those that come with Interlock


class Pick(Data):
    """The output of pick --json."""

    schema_version: Literal[4] = 4
    decision: Decision
    answer: str
    experiment: str
    whose: Whose
    measured: str  # the day on which the experiment started
    built: str  # how the baseline's build was optimised: 'PGO and LTO'
    also: str  # which other figures there are, and how to ask for them
    measured_otherwise: str  # how the measured builds and today's were optimised, if not in the same way
    elsewhere: list[Elsewhere]  # the gain of the same switch in the other shipped experiments
    cpus: int  # of the machine that the service runs on
    measured_cpus: int  # CPUs that the figures are for: those of the experiment's machine, or one
    baseline: Label
    machine: str
    measured_on: str  # the cores and processor of the experiment's machine: 'a 2-core AMD EPYC'
    apart: list[MachineDifference]
    shares: list[Share]
    contenders: list[Contender]  # the fastest first, with the baseline
    named: list[Label]  # the contenders that have a line in the short answer
    excluded: list[Exclusion]
    not_measured: list[Label]  # labels without figures for a workload that was asked for; nothing speaks against them
    recommended: Recommendation | None
    audits: list[VariantAudit]  # one for each variant that the requirements were tried on
    notes: list[str]
    measure: str  # the command that measures the best contenders here
    next: list[str]  # the next commands
    in_containers: bool = True  # whether the figures were measured in containers; else on the machine itself
    unmeasured: dict[str, list[str]] = {}  # what was asked for and not measured, by the reason
    like: str = ""  # the gain of the service in docs/services.md that is most like the user's

    @property
    def shipped(self) -> bool:
        """Return whether the figures come with Interlock."""
        return self.whose is Whose.PROJECT


class TableFigures(Data):
    """The rows of one benchmark that have figures, fitted together.

    Row `i` of `errors` and of `freedoms` has, for each row up to itself, the standard error of the logarithm of their
    ratio and its degrees of freedom; None where the error is not known.
    """

    labels: list[str]
    seconds: list[float]  # the median over the rounds
    max_rss_bytes: list[int]
    rounds: list[int]
    levels: list[float]  # logarithms, up to a constant of the benchmark
    errors: list[list[float | None]]
    freedoms: list[list[float]]


class RecordedFigures(Data):
    """The figures of all benchmarks."""

    schema_version: Literal[1] = 1
    made_of: str  # SHA-256 of the experiment's record and values
    tables: dict[str, dict[str, TableFigures]]  # by workload and benchmark
