"""A trial's runs: each candidate once to prove that it works, then interleaved rounds, then the profiles."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from interlock.analysis.verdicts import undecided_labels
from interlock.engine.run import trials as engine
from interlock.engine.run.cells import IDLE, last_lines
from interlock.engine.run.trials import ContainerStart, ServiceNetwork
from interlock.engine.run.workspace import ContainerSandbox, run_load
from interlock.errors import InterlockError, WorkloadError
from interlock.measure import disturbances
from interlock.measure.cells import ProgressUpdate
from interlock.measure.ending import Ending
from interlock.measure.processes import LAUNCH
from interlock.measure.profiling import lock_sites_while, profile_while, require_stacks, require_watching
from interlock.measure.rounds import RoundOrder
from interlock.measure.schedule import Schedule, interleave
from interlock.measure.services import HealthCheck, parse_wrk, wait_until_healthy
from interlock.measure.stacks import Interpreter
from interlock.results.answers import OWN, OWN_TWIN, Candidate, CommandRun, Figure, TrialSettings
from interlock.results.experiments import Outcome, State
from interlock.results.profiles import BenchmarkProfile, Method, Probe
from interlock.trial import verdicts
from interlock.trial.options import Address, is_wrk, with_url
from interlock.trial.verdicts import DECIDING

OWN_LABELS = {OWN, OWN_TWIN}
PERCENTILES = {Figure.P50_S: "50", Figure.P99_S: "99"}


@dataclass(frozen=True)
class TrialResources:
    """What the candidates of a trial share: the network of their services, what is checked, settings and the probe."""

    services: ServiceNetwork
    checks: Checks
    settings: TrialSettings
    on_progress: Callable[[ProgressUpdate], None]
    probe: Probe | None = None
    no_probe: str = ""  # why there is none, although one is wanted
    ending: Ending = field(default_factory=Ending)
    require_answer: Callable[[], None] = lambda: None  # raises EngineError if the engine is gone
    on_block: Callable[[TrialMeasurements], None] = lambda _: None  # what was measured so far, after each run

    @property
    def runs(self) -> CandidateRuns:
        return CandidateRuns(self.services, self.checks)


@dataclass
class TrialMeasurements:
    """The order of the rounds, what disturbed them, and the candidates with their values."""

    probe: Probe | None
    no_probe: str
    order: list[list[str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    measuring_s: float = 0.0
    ended_by: str = ""


def prove(resources: TrialResources, entries: Sequence[TriedCandidate]) -> None:
    """Run each candidate once, untimed; WorkloadError if the user's own does not work."""
    tried = [entry for entry in entries if entry.goes_on]
    for number, entry in enumerate(tried):
        resources.on_progress(ProgressUpdate("proving", "", entry.label, number, len(tried)))
        _attempt(resources, resources.runs.prove, entry, "")


def measure_rounds(resources: TrialResources, entries: Sequence[TriedCandidate]) -> TrialMeasurements:
    """Measure and profile what was proved; WorkloadError if the user's own Dockerfile fails in a round."""
    measured = TrialMeasurements(resources.probe, resources.no_probe)
    watch, loader_s = (
        disturbances.Watch(is_elsewhere=resources.services.workspace.is_elsewhere),
        _loader_cpu_s(resources),
    )
    start_s = time.monotonic()

    def note(order: list[list[str]]) -> None:
        measured.order = order
        measured.measuring_s = round(time.monotonic() - start_s, 1)
        measured.candidates = [entry.candidate for entry in entries]
        resources.on_block(measured)

    note(_rounds(resources, entries, note))
    launched_s = None
    if resources.checks.address is not None:  # the CPU time of tests in containers of their own is unknown
        launched_s = sum(one.cpu_s for one in entries) + _loader_cpu_s(resources) - loader_s
    measured.warnings = watch.warnings([resources.services.loader.id], launched_s)
    figure = _deciding(entries)
    if figure is not None:
        measured.warnings += disturbances.unsteady(figure.value, _figures(entries, figure))
    with resources.ending.kept():
        _profile(resources, entries)
    measured.ended_by = resources.ending.reason
    measured.candidates = [entry.candidate for entry in entries]
    return measured


def _loader_cpu_s(resources: TrialResources) -> float:
    return resources.services.loader.cpu_used().total_s


def _attempt(
    resources: TrialResources, run: Callable[[TriedCandidate], None], entry: TriedCandidate, when: str
) -> None:
    """Run an entry. A variant's failure is a result; the user's own ends the trial, which has no baseline then.

    EngineError if it failed because the engine is gone.
    """
    try:
        run(entry)
    except WorkloadError as error:
        resources.require_answer()
        if entry.label in OWN_LABELS:
            raise WorkloadError(
                key=error.key, found=f"your own Dockerfile, unchanged{when}: {error.found}", todo=error.todo
            ) from None
        entry.fail(f"{error.found}{when}")


def _rounds(
    resources: TrialResources,
    entries: Sequence[TriedCandidate],
    on_run: Callable[[list[list[str]]], None] = lambda _: None,
) -> list[list[str]]:
    """Run rounds until all is decided, the budget is spent or a signal comes, and return their orders.

    `on_run` gets them after each run. A candidate that failed is not run again.
    """
    resources.ending.start()
    settings, order = resources.settings, RoundOrder()
    schedule = Schedule(f"{settings.seed}/trial", settings.rounds, settings.rounds_limit or settings.rounds)
    tasks = [resources.runs.measure]
    with resources.ending.kept():
        for planned in interleave(schedule, tasks, entries, lambda _, some: _undecided(entries, some)):
            if resources.ending.stops():
                break
            entry = planned.candidate
            resources.on_progress(ProgressUpdate(planned.title, "", entry.label, planned.done, planned.total))
            if entry.goes_on:
                order.note(planned.round, entry.label)
                _attempt(resources, planned.task, entry, f" (in round {planned.round}, after it had worked)")
                on_run(order.rounds)
    return order.rounds


def _deciding(entries: Sequence[TriedCandidate]) -> Figure | None:
    taken = entries[0].candidate.values
    return next((figure for figure in DECIDING if figure in taken), None)


def _figures(entries: Sequence[TriedCandidate], figure: Figure) -> dict[str, list[float]]:
    return {entry.label: entry.candidate.values.get(figure, []) for entry in entries if entry.goes_on}


def _undecided(entries: Sequence[TriedCandidate], going_on: Sequence[TriedCandidate]) -> list[TriedCandidate]:
    """Return the candidates that go on: those that are not decided, and the user's own with its twin."""
    figure = _deciding(entries)
    if figure is None:
        return list(going_on)
    figures = _figures(entries, figure)
    needed = undecided_labels(figures, [(label, OWN) for label in figures if label not in OWN_LABELS], OWN)
    if not any(entry.label in needed - OWN_LABELS for entry in going_on):
        return []
    return [entry for entry in going_on if entry.label in needed | OWN_LABELS]


def _profile(resources: TrialResources, entries: Sequence[TriedCandidate]) -> None:
    """Profile each candidate, but the twin, in a pass of its own: nothing is timed while it is profiled."""
    if resources.probe is None or resources.ending.signals:
        return
    profiled = [entry for entry in entries if entry.goes_on and entry.label != OWN_TWIN]
    for number, entry in enumerate(profiled):
        resources.on_progress(ProgressUpdate("profile", "", entry.label, number, len(profiled)))
        try:
            found = _profiled(resources, entry, resources.probe.method)
            if resources.settings.why:
                found = _with_stacks(resources, entry, resources.probe, found)
            entry.update(profile=found)
        except InterlockError as error:
            entry.update(no_profile=error.found)


def _with_stacks(
    resources: TrialResources, entry: TriedCandidate, probe: Probe, found: BenchmarkProfile
) -> BenchmarkProfile:
    """Add where the candidate waits, from a run of its own, or why that is not known."""
    try:
        require_stacks(probe)
        with _working(resources, entry) as (sandbox, marked, work):
            return found.model_copy(update={"why": lock_sites_while(Interpreter(sandbox), lambda: marked, work)})
    except InterlockError as error:
        return found.model_copy(update={"no_why": error.found})


def _profiled(resources: TrialResources, entry: TriedCandidate, method: Method) -> BenchmarkProfile:
    """Count system calls under the load once the service is warm, per request; or of the tests, per run."""
    require_watching(method)
    with _working(resources, entry) as (sandbox, marked, work):
        return profile_while(sandbox.count(method), marked, work, method)


@contextmanager
def _working(
    resources: TrialResources, entry: TriedCandidate
) -> Iterator[tuple[ContainerSandbox, AbstractContextManager[None], Callable[[], int]]]:
    """Yield a container that is ready, what marks its work, and the work, which returns its units."""
    runs, checks = resources.runs, resources.checks
    if checks.address is None:
        with runs.container(entry, IDLE) as idle:
            yield idle, nullcontext(), lambda: _run_tests(resources, idle)
        return
    if checks.load is None:
        raise WorkloadError(key="--load", found="is missing: calls are counted per request", todo="Give --load.")
    with runs.container(entry) as service:
        base, _ = runs.healthy(service, checks.address)
        runs.warm(service, checks.address, base)
        yield service, service.mark_work(LAUNCH), lambda: runs.load(base)[1]


def _run_tests(resources: TrialResources, idle: ContainerSandbox) -> int:
    """Run the tests in a container that idles; return 1, the number of runs."""
    argv = [LAUNCH, "--", *(resources.checks.test_argv or [])]
    ended = idle.run(argv, resources.checks.deadline_s)
    if ended.exit_code != 0:
        raise WorkloadError(key="--cmd", found="the tests failed under the probe", todo="Try without: --no-syscalls.")
    return 1


@dataclass(frozen=True)
class Checks:
    """What each candidate must do: be healthy at an address, answer a load, pass tests."""

    address: Address | None = None  # None: the service is not started
    load: Sequence[str] | None = None
    test: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    healthy_within_s: float = 60
    deadline_s: float = 600

    @property
    def test_argv(self) -> list[str] | None:
        return None if self.test is None else ["sh", "-c", self.test]


@dataclass
class TriedCandidate:
    """A candidate while it is tried: what is known of it so far."""

    candidate: Candidate
    environment: Mapping[str, str] = field(default_factory=dict)  # its mode's
    cpu_s: float = 0.0  # of its services, to tell other programs' use of the machine

    @property
    def label(self) -> str:
        return self.candidate.label

    @property
    def goes_on(self) -> bool:
        return self.candidate.outcome.state is State.OK

    def update(self, **changes: Any) -> None:
        self.candidate = self.candidate.model_copy(update=changes)

    def fail(self, reason: str) -> None:
        self.update(outcome=Outcome(state=State.FAILED, reason=reason))

    def add(self, figures: Mapping[Figure, float]) -> None:
        before = self.candidate.values
        self.update(values={**before, **{one: [*before.get(one, []), value] for one, value in figures.items()}})


@dataclass(frozen=True)
class CandidateRuns:
    """Starts candidates. Each method raises WorkloadError if a candidate does not work."""

    services: ServiceNetwork
    checks: Checks

    def prove(self, entry: TriedCandidate) -> None:
        """Run the tests and the service with its load once, untimed, and note what the GIL probe reports."""
        if self.checks.test_argv is not None:
            with self.container(entry, self.checks.test_argv, gil_probed=True) as tests:
                ended = engine.wait_for_end(tests, self.checks.deadline_s)
                self._note_gil(entry, tests)
                entry.update(test=self._passed(tests, ended))
        if self.checks.address is not None:
            with self.container(entry, gil_probed=True) as service:
                try:
                    self.load(self.healthy(service, self.checks.address)[0])
                    engine.require_running(service, "under the load")
                finally:
                    self._note_gil(entry, service)

    def measure(self, entry: TriedCandidate) -> None:
        """Start a candidate once and add its figures. Tests are timed only if there is no service."""
        if self.checks.address is not None:
            with self.container(entry) as service:
                base, start_s = self.healthy(service, self.checks.address)
                self.warm(service, self.checks.address, base)
                entry.add({Figure.START_S: start_s, **self._under_load(entry, service, base)})
        elif self.checks.test_argv is not None:
            with self.container(entry, self.checks.test_argv) as tests:
                run = self._passed(tests, engine.wait_for_end(tests, self.checks.deadline_s))
            entry.add({Figure.TEST_S: run.duration_s})

    def _under_load(self, entry: TriedCandidate, service: ContainerSandbox, base: str) -> dict[Figure, float]:
        before_s = service.cpu_used().total_s
        figures, units = self.load(base)
        engine.require_running(service, "under the load")
        used_s = service.cpu_used().total_s
        entry.cpu_s += used_s
        if self.checks.load is not None:
            figures[Figure.CPU_S] = (used_s - before_s) / units
        return {**figures, Figure.MEMORY_BYTES: float(service.memory_bytes())}

    def warm(self, service: ContainerSandbox, address: Address, base: str) -> None:
        """Run the load once, untimed, and wait until the service has answered what it left over."""
        self.load(base)
        self.healthy(service, address)

    def load(self, base: str) -> tuple[dict[Figure, float], int]:
        """Run the load; return its figures and its units of work: requests if it is wrk, otherwise 1."""
        words = self.checks.load
        if words is None:
            return {}, 1
        run = run_load(self.services.loader.run, with_url(words, base), self.checks.deadline_s, key="--load")
        if not is_wrk(words):
            return {Figure.LOAD_S: run.duration_s}, 1
        load = parse_wrk(run.stdout)
        if load.problem:
            raise WorkloadError(key="--load", found=load.problem, todo="Correct the service, or the load.")
        latencies = {one: load.latency_s[key] for one, key in PERCENTILES.items() if key in load.latency_s}
        return {Figure.REQUEST_S: 1 / load.per_second, **latencies}, load.requests

    def healthy(self, service: ContainerSandbox, address: Address) -> tuple[str, float]:
        """Wait until the service is healthy; return the URL that replaces {url}, and the seconds that it took."""
        require_running: Callable[[], None] = lambda: engine.require_running(service, engine.UNHEALTHY)  # noqa: E731
        require_running()
        where = service.address()
        check = HealthCheck(
            address.url(where),
            self.checks.healthy_within_s,
            lambda url: engine.ask(self.services, url, any_answer=address.any_answer),
            require_running,
            address.any_answer,
            lambda: last_lines(engine.log_of(service)),
            "Correct the service, or give it longer (--healthy-within).",
        )
        _, start_s = wait_until_healthy(check)
        return address.base(where), start_s

    def container(
        self, entry: TriedCandidate, command: Sequence[str] | None = None, *, gil_probed: bool = False
    ) -> AbstractContextManager[ContainerSandbox]:
        """Start an entry's image, with `command` in place of its entrypoint and command if it is given."""
        environment = {**self.checks.environment, **entry.environment}
        if gil_probed:
            there = {**engine.image_environment(self.services, entry.candidate.image_id), **environment}
            environment["PYTHONPATH"] = python_path(there, engine.GIL_FOLDER)
        alias = self.checks.address.host if self.checks.address else ""
        return engine.started(
            self.services, ContainerStart(entry.candidate.image_id, environment, command, alias, gil_probed)
        )

    def _passed(self, tests: ContainerSandbox, ended: tuple[int, float] | None) -> CommandRun:
        if ended is None:
            limit = f"{self.checks.deadline_s:g} s"
            raise WorkloadError(key="--cmd", found=f"the tests did not end within {limit}", todo="Raise --deadline.")
        code, duration_s = ended
        if code != 0:
            found = f"the tests end with exit code {code}; {last_lines(engine.log_of(tests))}"
            raise WorkloadError(key="--cmd", found=found, todo="Correct the tests, or the image.")
        return CommandRun(exit_code=code, duration_s=duration_s)

    @staticmethod
    def _note_gil(entry: TriedCandidate, container: ContainerSandbox) -> None:
        states = verdicts.gil_states(engine.read_gil_probe(container), [engine.log_of(container)])
        entry.update(gil=verdicts.joined_gil_states(entry.candidate.gil, states))


def python_path(environment: Mapping[str, str], folder: str) -> str:
    """Return PYTHONPATH with the GIL probe's folder before the image's own."""
    return ":".join(part for part in (folder, environment.get("PYTHONPATH", "")) if part)
