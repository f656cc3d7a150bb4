"""What each row of a trial must do once, before anything is timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog.variants import Mode
from interlock.engine.protocol import OwnStart
from interlock.errors import EngineError, WorkloadError
from interlock.results.experiments import Outcome, State
from interlock.results.trials import OWN
from interlock.trial.builds import TriedRow
from interlock.trial.proofs import Proofs
from interlock.trial.workloads import Checks, workload_of
from tests.builders import make_built
from tests.measure.kinds.test_users_service import SERVICE, Container, ServiceNetwork, network

WARNING = "The global interpreter lock (GIL) has been enabled to load module 'a._b', which has not declared"


@dataclass
class Proved(Container):
    """A container that ends with a code, says something, and has a GIL probe's lines."""

    code: int | None = 0
    said: str = "all passed"
    lines: list[str] = field(default_factory=lambda: ["1 0 0"])

    def wait(self, limit_s: float) -> int | None:
        return self.code

    def log(self) -> str:
        return self.said

    def gil_lines(self) -> list[str]:
        return self.lines


@dataclass
class ProvingNetwork(ServiceNetwork):
    """A network in which each image has a container of its own making."""

    made: dict[str, dict[str, Any]] = field(default_factory=dict)

    @contextmanager
    def started(self, start: OwnStart) -> Iterator[Any]:
        self.started_as.append(start)
        yield Proved(start, self, **self.made.get(start.image_id, {}))


def proofs(
    checks: Checks, made: dict[str, dict[str, Any]] | None = None, gone: Callable[[], None] = lambda: None
) -> Proofs:
    net = ProvingNetwork(network().answer, made=made or {})
    return Proofs(net, workload_of(Path("site"), checks), checks, lambda _: None, gone)


def row(label: str, mode: Mode | None = None) -> TriedRow:
    return TriedRow(label, make_built(label).model_copy(update={"image_id": label}), mode=mode)


BOTH = replace(SERVICE, test="pytest -q")


def test_tests_and_service_are_started_once_each_with_the_gil_probe() -> None:
    found, one = proofs(BOTH, {"new": {"said": WARNING, "lines": ["1 0 1"]}}), row("new")
    found.prove([one])
    net: Any = found.network
    assert [start.command for start in net.started_as] == [["sh", "-c", "pytest -q"], None]
    assert all(start.gil_probed for start in net.started_as)
    assert len(net.loads) == 1
    assert one.about.problem == ""
    assert one.about.gil is not None
    assert (one.about.gil.processes, one.about.gil.came_back, one.about.gil.modules) == (2, 2, ["a._b"])


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ({"code": 3, "said": "one\ntwo"}, ("exit code 3", "two")),
        ({"code": None}, ("600 s",)),
        ({"ends": "under the load"}, ("under the load",)),
    ],
)
def test_a_variant_that_does_not_work_has_its_reason_and_ones_own_ends_the_trial(
    made: dict[str, Any], words: tuple[str, ...]
) -> None:
    bad, good = row("bad"), row("good")
    proofs(BOTH, {"bad": made}).prove([bad, good])
    assert all(word in bad.about.problem for word in words)
    assert good.about.problem == ""
    with pytest.raises(WorkloadError) as refused:
        proofs(BOTH, {OWN: made}).prove([row(OWN)])
    assert all(word in refused.value.found for word in ("your own Dockerfile", *words))


def test_what_failed_because_the_engine_is_gone_is_no_variants_fault() -> None:
    def gone() -> None:
        raise EngineError(found="gone", todo="")

    with pytest.raises(EngineError):
        proofs(BOTH, {"bad": {"code": 1}}, gone).prove([row("bad")])


def test_what_has_no_image_or_a_mode_of_the_command_line_is_not_started() -> None:
    found = proofs(BOTH)
    failed = TriedRow("a", make_built("a", Outcome(state=State.FAILED, reason="no wheel")))
    optional = row("b", Mode(name="x", summary="x", options=["-X", "y"]))
    found.prove([failed, optional])
    net: Any = found.network
    assert net.started_as == []


def test_the_environment_of_a_mode_is_that_of_its_containers() -> None:
    found = proofs(BOTH)
    found.prove([row("b", Mode(name="x", summary="x", environment={"A": "1"}))])
    net: Any = found.network
    assert [start.environment for start in net.started_as] == [{"A": "1"}] * 2
