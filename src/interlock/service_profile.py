"""System calls of a service under load, per request."""

from __future__ import annotations

from interlock import profile
from interlock.engine.profiler import counting
from interlock.engine.trial import work_marked
from interlock.errors import WorkloadError
from interlock.instruments import LAUNCH
from interlock.model import Benchmark, BenchmarkProfile, Method, PhaseCounts
from interlock.service import load_fully, make_ready, running
from interlock.stage import Cell, Stage

NOTHING = PhaseCounts(total=0, syscalls={})
COUNTABLE = (Method.BPF, Method.TRACEPOINTS)
NO_INSTRUCTIONS = "instructions are not counted of services: how many requests there will be is not known before"


def counted(stage: Stage, benchmark: Benchmark, cell: Cell, method: Method) -> BenchmarkProfile:
    """Once it is warm; the launcher beside it marks the beginning and the end of what is counted."""
    if method not in COUNTABLE:
        raise WorkloadError(found=f"{method} cannot watch a service that runs", todo="See `interlock doctor`.")
    stand = stage.stand
    with running(stage, benchmark, cell) as service:
        make_ready(stage, benchmark, service)
        with counting(
            stand.client, stand.instruments_image_id, stand.experiment, service.container, method
        ) as profiler:
            with work_marked(stand.client, service.container, LAUNCH):
                done = load_fully(stage, service)
            profiler.stop()
    return _profile(method, profiler.text, done.requests)


def _profile(method: Method, text: str, requests: int) -> BenchmarkProfile:
    if method is Method.BPF:
        found = profile.by_phases(profile.parse_bpf(text), requests, command=True)
    else:
        found = profile.by_difference(method, profile.parse_tracepoints(text), NOTHING, requests)
    return found.model_copy(update={"no_instructions": NO_INSTRUCTIONS})
