"""Proves that a row works before anything is timed: its tests pass, its service answers; and records its GIL.

The user's own service also shows how to load it, and by which figure rows are decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from interlock.catalog.services import Probed
from interlock.catalog.workloads import Workload
from interlock.engine.ended import last_lines
from interlock.engine.protocol import Network, OwnStart, UserContainer
from interlock.errors import WorkloadError
from interlock.measure.kinds.users_service import UserService, probed
from interlock.measure.watching import ProgressUpdate
from interlock.results.trials import OWN
from interlock.trial.builds import TriedRow
from interlock.trial.gil import gil_states, joined_gil_states
from interlock.trial.workloads import Checks


@dataclass(frozen=True)
class Proofs:
    """Starts each row once, untimed."""

    network: Network
    workload: Workload
    checks: Checks
    on_progress: Callable[[ProgressUpdate], None]
    require_answer: Callable[[], None]  # raises EngineError if the engine is gone

    def prove(self, rows: Sequence[TriedRow]) -> None:
        """Note for each row what its tests and its service do; WorkloadError if the user's own do not work."""
        tried = [row for row in rows if row.is_tried]
        for number, row in enumerate(tried):
            self.on_progress(ProgressUpdate("proving", "", row.label, number, len(tried)))
            try:
                self._prove(row)
            except WorkloadError as error:
                self.require_answer()
                if row.label == OWN:
                    raise _of_own(error) from None
                row.note(problem=error.found)

    def probe(self, own: TriedRow, cpus: int) -> Probed:
        """Return how the user's own service with this many CPUs is loaded and decided; WorkloadError if it fails."""
        self.on_progress(ProgressUpdate("probing", self.workload.name, own.label, 0, 1))
        try:
            with self._service_of(own) as service:
                return probed(service.user, service.ready(), cpus)
        except WorkloadError as error:
            self.require_answer()
            raise _of_own(error) from None

    @contextmanager
    def _service_of(self, row: TriedRow) -> Iterator[UserService]:
        start = OwnStart(row.image.image_id, row.environment, cpus=self.workload.of_user.cpus, gil_probed=True)
        with self.network.started(start) as container:
            yield UserService(self.network, self.workload, container)

    def _prove(self, row: TriedRow) -> None:
        if self.checks.test_argv is not None:
            start = OwnStart(row.image.image_id, row.environment, self.checks.test_argv, gil_probed=True)
            with self.network.started(start) as tests:
                code = tests.wait(self.checks.deadline_s)
                _note_gil(row, tests)
                self._require_passed(tests, code)
        if self.checks.address is not None:
            with self._service_of(row) as service:
                try:
                    service.healthy()
                    if self.checks.load is not None:
                        service.load()
                finally:
                    _note_gil(row, service.container)

    def _require_passed(self, tests: UserContainer, code: int | None) -> None:
        if code is None:
            limit = f"{self.checks.deadline_s:g} s"
            raise WorkloadError(key="--cmd", found=f"the tests did not end within {limit}", todo="Raise --deadline.")
        if code != 0:
            problem = f"the tests end with exit code {code}; {last_lines(tests.log())}"
            raise WorkloadError(key="--cmd", found=problem, todo="Correct the tests, or the image.")


def _of_own(error: WorkloadError) -> WorkloadError:
    return WorkloadError(key=error.key, found=f"your own Dockerfile, unchanged: {error.found}", todo=error.todo)


def _note_gil(row: TriedRow, container: UserContainer) -> None:
    states = gil_states(container.gil_lines(), [container.log()])
    row.note(gil=joined_gil_states(row.about.gil, states))
