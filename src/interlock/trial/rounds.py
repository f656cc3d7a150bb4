"""A trial's rounds: each candidate once to prove that it works, then interleaved in random order, then the profile."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from interlock import profile, stability
from interlock.engine import accounting, cells
from interlock.engine import trial as engine
from interlock.engine.profiler import counting
from interlock.engine.trial import Stall
from interlock.errors import InterlockError, WorkloadError
from interlock.instruments import IDLE, LAUNCH
from interlock.model import (
    OWN,
    OWN_TWIN,
    BenchmarkProfile,
    Candidate,
    Figure,
    Method,
    PhaseCounts,
    Probe,
    TrialSettings,
)
from interlock.rounds import settled, unsteady
from interlock.stage import Step
from interlock.trial.verdicts import DECIDING
from interlock.trial.visits import Demands, Entry, Visits

NOTHING = PhaseCounts(total=0, syscalls={})
COUNTABLE = (Method.BPF, Method.TRACEPOINTS)
OWN_LABELS = (OWN, OWN_TWIN)


@dataclass(frozen=True)
class Scene:
    """Where a trial happens and who watches."""

    stall: Stall
    demands: Demands
    settings: TrialSettings
    on_step: Callable[[Step], None]
    instruments_image_id: str = ""
    probe: Probe | None = None
    no_probe: str = ""  # why there is none, if one was asked for

    @property
    def visits(self) -> Visits:
        return Visits(self.stall, self.demands)


@dataclass
class Held:
    """What the rounds were, and what came of each candidate."""

    probe: Probe | None
    no_probe: str
    order: list[list[str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)


def prove(scene: Scene, entries: Sequence[Entry]) -> None:
    """Each that was built once, untimed; WorkloadError if the user's own does not work."""
    tried = [entry for entry in entries if entry.goes_on]
    for number, entry in enumerate(tried):
        scene.on_step(Step("proving", "", entry.label, number, len(tried)))
        _attempt(scene.visits.prove, entry, "")


def hold(scene: Scene, entries: Sequence[Entry]) -> Held:
    """Measures and profiles what was proved; WorkloadError if the user's own Dockerfile does not hold out."""
    held = Held(scene.probe, scene.no_probe)
    before = None if stability.engine_is_elsewhere() else stability.sample()
    loader_s = _loader_cpu_s(scene)
    held.order = _rounds(scene, entries)
    if before is not None:
        launched_s = None if scene.demands.address is None else sum(one.cpu_s for one in entries)
        if launched_s is not None:
            launched_s += _loader_cpu_s(scene) - loader_s
        held.warnings = stability.disturbances(before, stability.sample(), [scene.stall.loader.id], launched_s)
    figure = _deciding(entries)
    if figure is not None:
        held.warnings += unsteady(figure.value, _figures(entries, figure))
    _profile(scene, entries)
    held.candidates = [entry.candidate for entry in entries]
    return held


def _loader_cpu_s(scene: Scene) -> float:
    return accounting.cpu_used(scene.stall.loader).total_s


def _attempt(visit: Callable[[Entry], None], entry: Entry, when: str) -> None:
    """A variant's failure is a result; without the user's own there is nothing to compare with."""
    try:
        visit(entry)
    except WorkloadError as error:
        if entry.label in OWN_LABELS:
            raise WorkloadError(
                key=error.key, found=f"your own Dockerfile, unchanged{when}: {error.found}", todo=error.todo
            ) from None
        entry.fail(f"{error.found}{when}")


def _rounds(scene: Scene, entries: Sequence[Entry]) -> list[list[str]]:
    """The seed alone decides a round's order, whatever number of rounds the intervals ask for."""
    settings = scene.settings
    limit = settings.rounds_limit or settings.rounds
    rng = random.Random(f"{settings.seed}/trial")  # noqa: S311  an order, not a secret
    order: list[list[str]] = []
    done = 0
    for number in range(1, limit + 1):
        if number > settings.rounds and _settled(scene, entries):
            break
        visited = rng.sample(list(entries), len(entries))
        order.append([entry.label for entry in visited if entry.goes_on])
        title = f"round {number} of {settings.rounds}" + (f" to {limit}" if limit > settings.rounds else "")
        for entry in visited:
            scene.on_step(Step(title, "", entry.label, done, limit * len(entries)))
            done += 1
            if entry.goes_on:
                _attempt(scene.visits.measure, entry, f" (in round {number}, after it had worked)")
    return order


def _deciding(entries: Sequence[Entry]) -> Figure | None:
    taken = entries[0].candidate.values
    return next((figure for figure in DECIDING if figure in taken), None)


def _figures(entries: Sequence[Entry], figure: Figure) -> dict[str, list[float]]:
    return {entry.label: entry.candidate.values.get(figure, []) for entry in entries if entry.goes_on}


def _settled(scene: Scene, entries: Sequence[Entry]) -> bool:
    figure, half_width = _deciding(entries), scene.settings.half_width
    return half_width is not None and figure is not None and settled(_figures(entries, figure), OWN, half_width)


def _profile(scene: Scene, entries: Sequence[Entry]) -> None:
    """A pass of its own: nothing is timed while it is profiled. The twin is the same image: once is enough."""
    if scene.probe is None:
        return
    profiled = [entry for entry in entries if entry.goes_on and entry.label != OWN_TWIN]
    for number, entry in enumerate(profiled):
        scene.on_step(Step("profile", "", entry.label, number, len(profiled)))
        try:
            entry.update(profile=_profiled(scene, entry, scene.probe.method))
        except InterlockError as error:
            entry.update(no_profile=error.found)


def _profiled(scene: Scene, entry: Entry, method: Method) -> BenchmarkProfile:
    if method not in COUNTABLE:
        raise WorkloadError(found=f"{method} cannot watch a service that runs", todo="See `interlock doctor`.")
    of = _of_tests if scene.demands.address is None else _of_load
    text, units = of(scene, entry, method)
    if method is Method.BPF:
        return profile.by_phases(profile.parse_bpf(text), units, command=True)
    return profile.by_difference(method, profile.parse_tracepoints(text), NOTHING, units)


def _of_load(scene: Scene, entry: Entry, method: Method) -> tuple[str, int]:
    """What the service did under the load, once it was warm, and the number of requests."""
    visits, client = scene.visits, scene.stall.client
    address = scene.demands.address
    if address is None or scene.demands.load is None:
        raise WorkloadError(found="there is no load to count under", todo="Give one (--load).")
    with visits.container(entry) as service:
        base, _ = visits.healthy(service, address)
        visits.warm(service, address, base)
        with counting(client, scene.instruments_image_id, scene.stall.owner, service, method) as profiler:
            with engine.work_marked(client, service, LAUNCH):
                _, units = visits.load(base)
            profiler.stop()
    return profiler.text, units


def _of_tests(scene: Scene, entry: Entry, method: Method) -> tuple[str, int]:
    client, demands = scene.stall.client, scene.demands
    with (
        scene.visits.container(entry, IDLE) as idle,
        counting(client, scene.instruments_image_id, scene.stall.owner, idle, method) as profiler,
    ):
        argv = [LAUNCH, "--", *(demands.test_argv or [])]
        ended = cells.run_process(client, idle, argv, demands.deadline_s)
        profiler.stop()
    if ended.exit_code != 0:
        raise WorkloadError(found="the tests failed while they were profiled", todo="Run without --no-profile.")
    return profiler.text, 1
