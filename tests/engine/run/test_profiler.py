"""What the profiler may do."""

from __future__ import annotations

from typing import Any

import pytest
from docker.errors import APIError

from interlock.engine.run.profiler import ContainerProfiler, profiler_rights
from interlock.errors import EngineError


@pytest.mark.parametrize("kernel", ["5.8.0", "6.18.44-fc-v445", "10.0", "5.10.0-8-amd64"])
def test_where_the_kernel_has_rights_for_bpf_and_perf_these_are_tried_first(kernel: str) -> None:
    first, last = profiler_rights(kernel)
    assert {"BPF", "PERFMON"} <= set(first)
    assert "SYS_ADMIN" not in first
    assert "SYS_ADMIN" in last, "of an engine that does not know the others"


@pytest.mark.parametrize("kernel", ["4.19.0-21-amd64", "5.7.19", "3.10.0-1160.el7"])
def test_an_older_kernel_knows_no_other_right_than_the_administrators(kernel: str) -> None:
    (only,) = profiler_rights(kernel)
    assert "SYS_ADMIN" in only


class Ended:
    """The container of a profiler that has ended by itself: an engine cannot kill it."""

    attrs: Any = {"State": {"ExitCode": 1}}  # noqa: RUF012

    def kill(self, _signal: str) -> None:
        raise APIError("409 Client Error: Conflict: container is not running")

    def wait(self, **_: Any) -> dict[str, int]:
        return {"StatusCode": 1}

    def logs(self, *, stderr: bool = True, **_: Any) -> list[bytes]:
        return [b"profiler: its ring buffer is full\n"] if stderr else []

    def reload(self) -> None:
        pass


def test_a_profiler_that_has_ended_before_it_was_stopped_says_why() -> None:
    container: Any = Ended()
    with pytest.raises(EngineError) as caught:
        ContainerProfiler(container).stop()
    assert caught.value.found == "its ring buffer is full"
