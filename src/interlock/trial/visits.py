"""One start of a user's service or tests: what it is given, what is asked of it, and the figures that come of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from interlock import wrk
from interlock.engine import accounting, witness
from interlock.engine import trial as engine
from interlock.engine.trial import Stall, Start
from interlock.errors import WorkloadError
from interlock.model import Candidate, CommandRun, Figure, Outcome, State
from interlock.trial import gil
from interlock.trial.asked import Address, is_wrk, with_url

PERCENTILES = {Figure.P50_S: "50", Figure.P99_S: "99"}


@dataclass(frozen=True)
class Demands:
    """What is asked of each candidate: to be healthy at an address, to bear a load, to pass tests."""

    address: Address | None = None  # none: the service itself is not started
    load: Sequence[str] | None = None
    test: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    healthy_within_s: float = 60
    deadline_s: float = 600

    @property
    def test_argv(self) -> list[str] | None:
        return None if self.test is None else ["sh", "-c", self.test]


@dataclass
class Entry:
    """A candidate while it is tried."""

    candidate: Candidate
    environment: Mapping[str, str] = field(default_factory=dict)  # its mode's
    cpu_s: float = 0.0  # of its services, to tell who used the machine

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
class Visits:
    """What is done with an entry. Each raises WorkloadError for what does not work."""

    stall: Stall
    demands: Demands

    def prove(self, entry: Entry) -> None:
        """Everything once and untimed, before the GIL's witness: the entry knows what was said."""
        if self.demands.test_argv is not None:
            with self.container(entry, self.demands.test_argv, witnessed=True) as tests:
                ended = engine.wait_for_end(tests, self.demands.deadline_s)
                self._hear(entry, tests)
                entry.update(test=self._passed(tests, ended))
        if self.demands.address is not None:
            with self.container(entry, witnessed=True) as service:
                try:
                    self.load(self.healthy(service, self.demands.address)[0])
                    engine.require_running(service, "under the load")
                finally:
                    self._hear(entry, service)

    def measure(self, entry: Entry) -> None:
        """One round: the figures of one start are added to the entry. Beside a service the tests are not timed."""
        if self.demands.address is not None:
            with self.container(entry) as service:
                base, start_s = self.healthy(service, self.demands.address)
                self.warm(service, self.demands.address, base)
                entry.add({Figure.START_S: start_s, **self._under_load(entry, service, base)})
        elif self.demands.test_argv is not None:
            with self.container(entry, self.demands.test_argv) as tests:
                run = self._passed(tests, engine.wait_for_end(tests, self.demands.deadline_s))
            entry.add({Figure.TEST_S: run.duration_s})

    def _under_load(self, entry: Entry, service: Any, base: str) -> dict[Figure, float]:
        before_s = accounting.cpu_used(service).total_s
        figures, units = self.load(base)
        engine.require_running(service, "under the load")
        used_s = accounting.cpu_used(service).total_s
        entry.cpu_s += used_s
        if self.demands.load is not None:
            figures[Figure.CPU_S] = (used_s - before_s) / units
        return {**figures, Figure.MEMORY_BYTES: float(accounting.memory_bytes(service))}

    def warm(self, service: Any, address: Address, base: str) -> None:
        """The load once, untimed; what it left behind unanswered is done once the service is healthy again."""
        self.load(base)
        self.healthy(service, address)

    def load(self, base: str) -> tuple[dict[Figure, float], int]:
        """The load's figures, and how many units of work it was: requests, where the program says so."""
        words = self.demands.load
        if words is None:
            return {}, 1
        run = engine.put_load(self.stall, with_url(words, base), self.demands.deadline_s)
        if not is_wrk(words):
            return {Figure.LOAD_S: run.duration_s}, 1
        load = wrk.parse(run.stdout)
        if load.problem:
            raise WorkloadError(key="--load", found=load.problem, todo="See the service's log.")
        latencies = {one: load.latency_s[key] for one, key in PERCENTILES.items() if key in load.latency_s}
        return {Figure.REQUEST_S: 1 / load.per_second, **latencies}, load.requests

    def healthy(self, service: Any, address: Address) -> tuple[str, float]:
        """What {url} stands for, and the seconds that it took to be healthy."""
        engine.require_running(service, engine.UNHEALTHY)
        where = engine.address_of(self.stall, service)
        limit_s = self.demands.healthy_within_s
        start_s = engine.wait_until_healthy(
            self.stall, service, address.url(where), limit_s, any_answer=address.any_answer
        )
        return address.base(where), start_s

    def container(
        self, entry: Entry, command: Sequence[str] | None = None, *, witnessed: bool = False
    ) -> AbstractContextManager[Any]:
        """The entry's image, started; with a command in place of its own, its entrypoint is left out."""
        environment = {**self.demands.environment, **entry.environment}
        if witnessed:
            there = {**witness.image_environment(self.stall.client, entry.candidate.image_id), **environment}
            environment["PYTHONPATH"] = gil.python_path(there, witness.FOLDER)
        alias = self.demands.address.host if self.demands.address else ""
        return engine.started(self.stall, Start(entry.candidate.image_id, environment, command, alias, witnessed))

    def _passed(self, tests: Any, ended: tuple[int, float] | None) -> CommandRun:
        if ended is None:
            limit = f"{self.demands.deadline_s:g} s"
            raise WorkloadError(key="--cmd", found=f"the tests had not ended after {limit}", todo="Raise --deadline.")
        code, duration_s = ended
        if code != 0:
            found = f"the tests end with exit code {code}; {engine.log_words(tests)}"
            raise WorkloadError(key="--cmd", found=found, todo="See their output.")
        return CommandRun(exit_code=code, duration_s=duration_s)

    @staticmethod
    def _hear(entry: Entry, container: Any) -> None:
        said = gil.heard(witness.heard(container), [engine.log_of(container)])
        entry.update(gil=gil.joined(entry.candidate.gil, said))
