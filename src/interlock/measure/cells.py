"""Cells of a workload: sandboxes in which its processes run, with their packages, network, server and load."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from interlock.analysis.verdicts import Comparison, Pair
from interlock.catalog.variants import Gil, Surroundings, Variant
from interlock.catalog.workloads import Benchmark, Limit, Repetition, Workload
from interlock.engine.agent import Agent
from interlock.engine.protocol import Ended, Installer, Network, Sandbox, Workspace
from interlock.errors import LazyModule, WorkloadError
from interlock.measure import adapters, processes
from interlock.measure.ending import Ending
from interlock.measure.processes import OK, all_reported, judge_process, judge_set_up, output_outcome
from interlock.results.experiments import (
    Built,
    Facts,
    Outcome,
    PackageSet,
    ProgramOutput,
    State,
    Subject,
    Times,
)
from interlock.results.journal import Journal
from interlock.results.profiles import BenchmarkProfile, Probe
from interlock.results.settings import Settings

if TYPE_CHECKING:
    import pyperf
else:
    pyperf = LazyModule("pyperf", "measure")

# A variant, the versions of Python that a benchmark supports, why it needs the GIL, and the packages that it requires.
SetKey = tuple[str, str, str, tuple[str, ...]]
NO_PACKAGES = PackageSet()


class Phase(StrEnum):
    """What the time of a cell or a workload is spent on."""

    PREPARING = "preparing"
    MEASURING = "measuring"
    PROFILING = "profiling"


class Stopwatch:
    """Seconds by phase; a phase within another one stops the outer one's clock, so that no second counts twice."""

    def __init__(self) -> None:
        self._spent_s = dict.fromkeys(Phase, 0.0)
        self._phase: Phase | None = None
        self._since_s = 0.0

    def add(self, phase: Phase, seconds: float) -> None:
        """Add what was spent elsewhere."""
        self._spent_s[phase] += seconds

    @contextmanager
    def during(self, phase: Phase) -> Iterator[None]:
        """Count the block's time to this phase."""
        outer = self._phase
        self._switch(phase)
        try:
            yield
        finally:
            self._switch(outer)

    def _switch(self, phase: Phase | None) -> None:
        now = time.monotonic()
        if self._phase is not None:
            self._spent_s[self._phase] += now - self._since_s
        self._phase, self._since_s = phase, now

    @property
    def times(self) -> Times:
        """Return the seconds so far, with those of a phase that goes on."""
        self._switch(self._phase)
        return Times(**{f"{phase.value}_s": round(spent_s, 3) for phase, spent_s in self._spent_s.items()})


@dataclass(frozen=True)
class PackageSets:
    """The package sets of an experiment, by key."""

    sets: Mapping[SetKey, PackageSet] = field(default_factory=dict)
    took_s: Mapping[tuple[str, str], float] = field(default_factory=dict)  # by variant and the workload that was first

    def of(self, variant: str, workload: Workload, benchmark: Benchmark) -> PackageSet:
        """Return a benchmark's package set; empty if it requires nothing."""
        return self.sets.get(_key(variant, workload, benchmark), NO_PACKAGES)

    def variant_s(self, variant: str, workload: Workload) -> float:
        """Return the seconds that installing took for a variant in this workload; nothing for what was there."""
        return self.took_s.get((variant, workload.name), 0.0)

    def workload_s(self, workload: Workload) -> float:
        """Return the same for all variants."""
        return sum(seconds for (_, name), seconds in self.took_s.items() if name == workload.name)

    def of_workload(self, variant: str, workload: Workload) -> list[PackageSet]:
        """Return every package set that a cell of the workload mounts."""
        found = [self.of(variant, workload, benchmark) for benchmark in _benchmarks_of(workload)]
        return list({one.volume: one for one in found if one.volume and one.outcome.state is State.OK}.values())


def install_required(installer: Installer, built: Sequence[Built], workloads: Sequence[Workload]) -> PackageSets:
    """Install what the workloads require for each image. What cannot be installed fails only what requires it."""
    images = {image.variant: image for image in built if image.outcome.state is State.OK}
    keys: dict[SetKey, str] = {}
    for key, workload in _keys(list(images), workloads):
        keys.setdefault(key, workload)
    if any(key[-1] for key in keys):
        installer.tidy()
    refused = {key: _refusal(installer.catalog.variants[key[0]], key[1], key[2]) for key in keys}
    wanted = [key for key in keys if key[-1] and not refused[key]]
    start_s = time.monotonic()
    installed = installer.ensure_all([(images[variant], lines) for variant, _, _, lines in wanted]) if wanted else []
    wall_s, total_s = time.monotonic() - start_s, sum(one.took_s for one in installed)
    sets = {
        key: PackageSet(outcome=Outcome(state=State.UNSUPPORTED, reason=reason))
        for key, reason in refused.items()
        if reason
    }
    took_s: dict[tuple[str, str], float] = {}
    for key, one in zip(wanted, installed, strict=True):
        sets[key] = one.packages
        whose = (key[0], keys[key])
        # What was installed side by side shares the time that all of it took.
        took_s[whose] = took_s.get(whose, 0.0) + (one.took_s * wall_s / total_s if total_s else 0.0)
    return PackageSets(sets, took_s)


def _keys(variants: Sequence[str], workloads: Sequence[Workload]) -> Iterator[tuple[SetKey, str]]:
    """Yield each package set with the name of a workload that needs it."""
    for workload in (one for one in workloads if one.user is None):  # a user's image has its own packages
        for benchmark in _benchmarks_of(workload):
            for variant in variants:
                yield _key(variant, workload, benchmark), workload.name


def _benchmarks_of(workload: Workload) -> list[Benchmark]:
    """Return the benchmarks; those that are discovered later require what the workload does."""
    unnamed = [Benchmark(name="", metric=workload.metric)] if workload.metric else []
    return workload.benchmarks or unnamed


def _key(variant: str, workload: Workload, benchmark: Benchmark) -> SetKey:
    lines = tuple(workload.requirements_of(benchmark))
    return variant, workload.python_versions_of(benchmark), benchmark.needs_gil, lines


def _refusal(variant: Variant, admitted: str, needs_gil: str) -> str:
    """Return why it cannot work; empty if it may. A pre-release counts as its final version."""
    if not SpecifierSet(admitted).contains(Version(variant.version).base_version):
        return f"it needs Python {admitted}, and this is {variant.version}"
    return needs_gil if variant.proof.gil is Gil.OFF else ""


# Above this number of rows a block is split, so that the slices of partners stay close to each other in time.
MOST_ROWS = 15
# Of many rows each process takes half of its values, but no fewer than this.
LEAST_VALUES = 3
PYTHON_PATH = "PYTHONPATH"
# Seconds after which an interpreter that has not reported its facts hangs: in some modes its first thread does. In each
# workload it most likely hangs again, so a process of it has half of that: several times what any other one needs.
ANSWER_S, HUNG_S = 20, 10
# Loops of a process whose calls or instructions are those of a program's set-up alone.
NO_WORK = 0
NOTHING_RUN = Ended(0, "", "", False)


@dataclass(frozen=True)
class ProgressUpdate:
    """A process that is about to run: `number` of `total` ran before it in this activity."""

    activity: str
    workload: str
    subject: str
    number: int
    total: int


@dataclass(frozen=True)
class Look:
    """What the rounds of one benchmark have shown so far; after `is_last` nothing more is measured of it."""

    workload: Workload
    benchmark: Benchmark
    comparisons: Mapping[Pair, Comparison]
    is_last: bool = False
    built_otherwise: frozenset[str] = frozenset()  # labels: their ratio to the baseline is of that too


@dataclass(frozen=True)
class Resources:
    """What the cells of an experiment share, made once."""

    workspace: Workspace
    folder: Path
    host: str
    probe: Probe | None  # None if nothing is profiled
    settings: Settings
    on_progress: Callable[[ProgressUpdate], None]
    package_sets: PackageSets = field(default_factory=PackageSets)
    programs: frozenset[str] = frozenset()  # paths below workloads/ of the programs that cells have
    images: Sequence[Built] = ()  # of the variants
    controls: Mapping[str, str] = field(default_factory=dict)  # by variant: what it is compared with, too
    ending: Ending = field(default_factory=Ending)
    on_look: Callable[[Look], None] = lambda _: None
    # Gives a cell of the workload of this name what was measured of it before, if the experiment is resumed.
    restore: Callable[[Cell, str], None] = lambda _cell, _workload: None
    first_look_alone: bool = False  # the rounds end with it, nothing is profiled: other rows join, and all go on
    journal: Journal | None = None
    require_answer: Callable[[], None] = lambda: None  # raises EngineError if the engine is gone
    # What the next workload goes on with: sandboxes with their agents, by image and surroundings, and facts by label.
    idle: dict[str, list[tuple[Sandbox, Agent | None]]] = field(default_factory=dict)
    facts: dict[str, Facts] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)  # labels that did not report their facts in time: not asked again

    def require_probe(self) -> Probe:
        """Return the probe; WorkloadError if none was chosen."""
        if self.probe is None:
            raise WorkloadError(key="--no-profile", found="no probe was chosen", todo="Run without --no-profile.")
        return self.probe


@dataclass(frozen=True)
class Session:
    """One workload while it is measured, and the network of its cells, with a server or a load if it needs one."""

    resources: Resources
    workload: Workload
    network: Network
    clock: Stopwatch = field(default_factory=Stopwatch)  # of the whole workload

    def take(self, benchmark: Benchmark) -> Repetition:
        """Return how many warm-ups and values a process of a benchmark takes."""
        take, factor = self.repetition, benchmark.values_factor
        return take.model_copy(update={"warmups": factor * take.warmups, "values": factor * take.values})

    @property
    def repetition(self) -> Repetition:
        """Return what the workload says of its benchmarks: of many rows a quick process takes half of its values."""
        settings = self.resources.settings
        if not settings.quick:
            return self.workload.full
        take = self.workload.quick
        if len(settings.variants) + len(settings.conditions) <= MOST_ROWS:
            return take
        return take.model_copy(update={"values": max(min(take.values, LEAST_VALUES), take.values // 2)})


@dataclass
class Cell:
    """A cell while it is measured: its sandbox, and outcome and runs by benchmark."""

    subject: Subject
    sandbox: Sandbox
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    loops: dict[str, int] = field(default_factory=dict)
    decisive_s: dict[str, float] = field(default_factory=dict)  # what the timing took that decided the loops
    runs: dict[str, list[pyperf.Run]] = field(default_factory=dict)
    profiles: dict[str, BenchmarkProfile] = field(default_factory=dict)
    profile_problem: str = ""
    notes: list[str] = field(default_factory=list)
    gil: Gil | None = None  # its state when programs start, as declared or proved
    limit: Limit | None = None  # what is measured instead of an interpreter
    ready: set[tuple[str, str]] = field(default_factory=set)  # (sandbox, benchmark) whose set-up has run
    clock: Stopwatch = field(default_factory=Stopwatch)
    takes_slices: set[str] = field(default_factory=set)  # benchmarks whose program said so when it calibrated
    agent: Agent | None = None  # of the sandbox, once one is needed
    siblings: list[Cell] = field(default_factory=list)  # in sandboxes of their own, for further processes of a block

    @property
    def family(self) -> list[Cell]:
        """Return the cell and its siblings."""
        return [self, *self.siblings]

    def note(self, text: str) -> None:
        """Add a note unless it is empty or already there."""
        if text and text not in self.notes:
            self.notes.append(text)

    def add(self, benchmark: Benchmark, run: pyperf.Run) -> None:
        """Add a pyperf run of a benchmark."""
        self.runs.setdefault(benchmark.name, []).append(run)

    def goes_on(self, benchmark: Benchmark) -> bool:
        """Return whether the cell takes part in a benchmark and has not failed in it."""
        if self.limit and benchmark.name not in self.limit.benchmarks:
            return False
        return self.outcomes.get(benchmark.name, OK).state is State.OK


@dataclass(frozen=True)
class Start:
    """What is started in a cell, and how often."""

    argv: list[str]
    environment: Mapping[str, str]
    repeat: int = 1
    parallel: int = 1
    may_idle: bool = False  # it does no unit of work: what it costs is subtracted from a profile
    count_instructions: bool = False
    checks_output: bool = False  # of a command: for the expected texts


def facts_of(subject: Subject, known: Mapping[str, Facts]) -> Facts | None:
    """Return the facts of a subject's interpreter, else of its variant: the twin is not asked, a mode may be silent."""
    return known.get(subject.label) or known.get(subject.variant)


def open_cell(session: Session, subject: Subject, clock: Stopwatch) -> Cell:
    """Open a cell, in the sandbox that the workload before has left if there is one that will do."""
    sandbox, agent = _idle_or_new(session, subject)
    return Cell(subject, sandbox, agent=agent, clock=clock)


def _idle_or_new(session: Session, subject: Subject) -> tuple[Sandbox, Agent | None]:
    waiting = session.resources.idle.get(_shared_by(session, subject))
    return waiting.pop() if waiting else (open_sandbox(session, subject), None)


def sibling_of(session: Session, cell: Cell, number: int) -> Cell:
    """Return the cell, of number 0, or its sibling of this number: the same subject, in a sandbox opened now if needed.

    All but the sandbox is the cell's too: what a process in a sibling yields is a value of the cell.
    """
    while len(cell.siblings) < number:
        with session.clock.during(Phase.PREPARING), cell.clock.during(Phase.PREPARING):
            sandbox, agent = _idle_or_new(session, cell.subject)
        cell.siblings.append(replace(cell, sandbox=sandbox, agent=agent, siblings=[]))
    return cell.family[number]


def leave_cell(session: Session, cell: Cell) -> None:
    """Leave the sandboxes of a cell and its siblings to the next workload, or close them."""
    key = _shared_by(session, cell.subject)
    for one in cell.family:
        if key:
            session.resources.idle.setdefault(key, []).append((one.sandbox, one.agent))
        else:
            one.sandbox.close()


def _shared_by(session: Session, subject: Subject) -> str:
    """Return what the sandboxes are known by that workloads can share.

    It is empty for a workload that needs something of its own, that leaves files, or whose program is somebody else's.
    """
    workload, benchmarks = session.workload, session.workload.benchmarks
    words = [word for one in benchmarks for word in (*one.arguments, *(one.command or []))]
    own = workload.server or workload.load or workload.limits or workload.rights or workload.kind != "program"
    leaves = any(one.set_up or one.cold for one in benchmarks) or any("{scratch}" in word for word in words)
    packages = session.resources.package_sets.of_workload(subject.variant, workload)
    return "" if own or leaves or packages else f"{subject.image_id} {subject.surroundings.model_dump_json()}"


def open_sandbox(session: Session, subject: Subject) -> Sandbox:
    """Open a sandbox of the subject's variant, with all packages of the workload; a limit has none of its own."""
    if subject.image_id is None:
        return session.network.open_limits_sandbox(Surroundings(rights=tuple(session.workload.rights)))
    needed = session.resources.package_sets.of_workload(subject.variant, session.workload)
    packages = {one.volume: one.mount_path for one in needed}
    return session.network.open_sandbox(subject.image_id, _surroundings(session, subject), packages)


def _surroundings(session: Session, subject: Subject) -> Surroundings:
    """Return the subject's surroundings; with a cold benchmark the interpreter is on a volume, for the hot ones too.

    What a storage driver keeps in memory cannot be dropped, and the files of an image's layers are those of other
    containers too: only on a volume can they be put out of the page cache.
    """
    own = subject.surroundings.model_copy(update={"rights": tuple(session.workload.rights)})
    if own.interpreter is None and any(one.cold for one in session.workload.benchmarks):
        return own.model_copy(update={"interpreter": "volume"})
    return own


def interpreter_argv(
    session: Session, cell: Cell, benchmark: Benchmark, loops: str, take: Repetition | None
) -> list[str]:
    """Return the interpreter's command line in this cell, with its mode's options."""
    argv = processes.interpreter_argv(session.workload, benchmark, _placeholders(session, cell, benchmark), loops, take)
    return adapters.with_report_descriptor(session.workload, processes.with_options(argv, cell.subject.options))


def profiled_argv(session: Session, cell: Cell, benchmark: Benchmark, loops: int) -> list[str]:
    """Return the interpreter's command line of a process that is counted: so many loops of the work, or NO_WORK."""
    return interpreter_argv(session, cell, benchmark, str(loops), None) + benchmark.profile_arguments


def _placeholders(session: Session, cell: Cell, benchmark: Benchmark) -> Mapping[str, str]:
    return processes.placeholders(session.network.url, packages_of(session, cell.subject, benchmark).site)


def packages_of(session: Session, subject: Subject, benchmark: Benchmark) -> PackageSet:
    """Return the packages that a benchmark has in a subject, or the outcome that says why not."""
    return session.resources.package_sets.of(subject.variant, session.workload, benchmark)


def _surrounded(
    session: Session, cell: Cell, benchmark: Benchmark, environment: Mapping[str, str]
) -> Mapping[str, str]:
    """Return the environment with the benchmark's packages on PYTHONPATH, if it has any."""
    packages = packages_of(session, cell.subject, benchmark)
    return {**environment, PYTHON_PATH: packages.site} if packages.volume else environment


def run_in(
    session: Session, cell: Cell, benchmark: Benchmark, start: Start
) -> tuple[Outcome, ProgramOutput | None, Ended]:
    """Run a process under the launcher, after the benchmark's set-up if that has not run in its sandbox yet."""
    argv = processes.launch_argv(
        start.argv,
        benchmark,
        start.repeat,
        parallel=start.parallel,
        count=start.count_instructions,
        keep_output=start.checks_output,
    )
    outcome, ended = set_up(session, cell, benchmark)
    if outcome.state is not State.OK:
        return outcome, None, ended
    ended = start_in(session, cell, benchmark, argv, start.environment)
    limit_s = deadline_of(session, cell, benchmark)
    outcome, output = judge_process(session.workload, benchmark, ended, may_idle=start.may_idle, deadline_s=limit_s)
    if outcome.state is State.OK:
        outcome = all_reported(benchmark, ended, start.repeat)
    if start.checks_output and outcome.state is State.OK:
        outcome = output_outcome(benchmark, ended)
    return outcome, output, ended


def set_up(session: Session, cell: Cell, benchmark: Benchmark) -> tuple[Outcome, Ended]:
    """Run the benchmark's set-up, once in each sandbox; it is not measured."""
    ready = (cell.sandbox.id, benchmark.name)
    if not benchmark.set_up or ready in cell.ready:
        return OK, NOTHING_RUN
    argv = processes.set_up_argv(benchmark, _placeholders(session, cell, benchmark))
    argv = processes.with_options(argv, cell.subject.options)
    with session.clock.during(Phase.PREPARING), cell.clock.during(Phase.PREPARING):
        ended = start_in(session, cell, benchmark, argv, cell.subject.environment)
    cell.ready.add(ready)
    return judge_set_up(session.workload, benchmark, ended, deadline_s=deadline_of(session, cell, benchmark)), ended


def deadline_of(session: Session, cell: Cell, benchmark: Benchmark) -> float:
    """Return how long a process of the cell may take, in seconds: an interpreter that hung once hangs again."""
    deadline_s = session.workload.deadline_of(benchmark)
    return min(HUNG_S, deadline_s) if cell.subject.label in session.resources.silent else deadline_s


def start_in(
    session: Session, cell: Cell, benchmark: Benchmark, argv: list[str], environment: Mapping[str, str]
) -> Ended:
    """Run a command line with the benchmark's packages; a cell whose sandbox had to be killed gets a new one."""
    ended = cell.sandbox.run(
        argv, deadline_of(session, cell, benchmark), _surrounded(session, cell, benchmark, environment)
    )
    if ended.took_sandbox:
        replace_sandbox(session, cell)
    return ended


def replace_sandbox(session: Session, cell: Cell) -> None:
    """Close the sandbox of a process that had to be killed, with all that runs in it, and open a new one."""
    cell.sandbox.close()
    cell.sandbox, cell.agent = open_sandbox(session, cell.subject), None


def agent_of(cell: Cell) -> Agent:
    """Return the agent of the cell's sandbox, started now if it was not."""
    if cell.agent is None:
        cell.agent = cell.sandbox.start_agent(processes.LAUNCH)
    return cell.agent


def environment_of(session: Session, cell: Cell, benchmark: Benchmark) -> Mapping[str, str]:
    """Return the environment of a benchmark's processes in a cell."""
    return _surrounded(session, cell, benchmark, cell.subject.environment)


@contextmanager
def open_session(resources: Resources, workload: Workload, clock: Stopwatch | None = None) -> Iterator[Session]:
    """Yield the workload's session, then close it; WorkloadError if its server or load does not start."""
    environment = None if workload.server is None else workload.server.environment
    with resources.workspace.network(environment, load=bool(workload.load or workload.is_users_service)) as network:
        yield Session(resources, workload, network, clock or Stopwatch())
