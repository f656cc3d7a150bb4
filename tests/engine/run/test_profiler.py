"""What the profiler may do."""

from __future__ import annotations

import pytest

from interlock.engine.run.profiler import profiler_rights


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
