"""Stacks: where a process waits and wakes, taken by the profiler in a run of its own, and named.

First the variant is asked where it keeps its frames, then the work runs under the profiler, then the variant is asked
for the lines. The sums over all sites are the exact counts of the same process, or there are none.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, TypeVar

from pydantic import TypeAdapter

from interlock.analysis.lock_sites import LOOP, caller_of, lock_name, roles
from interlock.catalog.types import Data
from interlock.engine.ended import Ended
from interlock.engine.protocol import Sandbox, StackOptions
from interlock.errors import UnsupportedHereError, WorkloadError, last_line, shortened
from interlock.measure.counts import parse_bpf, profile_data, readable, unseen
from interlock.measure.kinds.choosing import kind_of_track
from interlock.measure.tracks import Track
from interlock.results.profiles import (
    Acquires,
    Acquisitions,
    Edge,
    LockSites,
    Method,
    Pauses,
    PhaseCounts,
    Probe,
    Site,
)
from interlock.untrusted import parse_json

_INSIDE = files("interlock.engine").joinpath("inside")
ASK_FRAMES = _INSIDE.joinpath("frame_offsets.py").read_text(encoding="utf-8")
ASK_LINES = _INSIDE.joinpath("lines.py").read_text(encoding="utf-8")
ASK_S = 60
# The profiler's order: struct frame_offsets in dockerfiles/instruments/profiler/stacks.h.
OFFSETS = (
    "thread", "through", "frame", "previous", "code", "instruction", "by_address", "scale", "instructions", "copies",
    "copy_number", "filename", "name", "first_line", "text", "type", "type_name", "list_file", "list", "list_state",
    "running_file", "running",
)  # fmt: skip
# The calls whose stacks are taken besides futex, and those of pth's scheduler.
CALLS = ("sched_yield",)
PTH_STACKS = ("select", "pselect6", "poll", "ppoll")
NO_SYMBOLS = "the symbols of this image are not on this machine"
# An argument of a command line may have 128 KiB.
MOST_BYTES = 100_000
LONGEST_NAME = 250

# file, first line, name, instruction
RawFrame = tuple[str, int, str, int]
Function = tuple[str, int, str]
# Lines by function and instruction.
Lines = Mapping[tuple[Function, int], int]
Key = tuple[str, str, tuple[str, ...], tuple[str, ...]]
K = TypeVar("K")
# Keys of the profiler's places that are not counts.
WORDS = {"phase", "stack", "call", "operation"}


class _Frames(Data):
    """What inside/frame_offsets.py prints."""

    offsets: dict[str, int] | None
    files: list[str]
    missing: str
    gil: bool


LINES = TypeAdapter(list[list[int]])


@dataclass(frozen=True)
class Interpreter:
    """A variant that answers questions about itself, in a sandbox with the options and the environment of its work."""

    sandbox: Sandbox
    options: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def frames(self) -> StackOptions:
        """Ask where it keeps its frames; without an answer stacks have C functions alone, and say why."""
        ended = self._run(ASK_FRAMES)
        try:
            answer = _Frames.model_validate(_last_json(ended))
            offsets = None if answer.offsets is None else [answer.offsets[name] for name in OFFSETS]
        except (ValueError, KeyError):
            return StackOptions(
                CALLS, [], None, f"the interpreter does not report where it keeps its frames: {last_line(ended.stderr)}"
            )
        # Waiting for sockets is no locking, except where a scheduler in the process does nothing else.
        on_pth = any("/libpth" in file and "/libpthread.so.0" not in file for file in answer.files)
        calls = [*CALLS, *(PTH_STACKS if on_pth else ())]
        return StackOptions(
            calls,
            answer.files,
            offsets,
            answer.missing,
            has_gil=answer.gil,
            switches_threads=on_pth,
            attempts=any("/libpth.so" in file for file in answer.files),
        )

    def lines(self, wanted: Iterable[RawFrame]) -> Lines:
        """Ask for the lines of instructions; what it does not know is at its function's first line."""
        by_function: dict[Function, list[int]] = defaultdict(list)
        for file, first, name, instruction in sorted(set(wanted)):
            by_function[file, first, name].append(instruction)
        known: dict[tuple[Function, int], int] = {}
        for chunk in _chunks(list(by_function.items())):
            request = json.dumps([[*function, instructions] for function, instructions in chunk])
            with suppress(ValueError):
                answer = LINES.validate_python(_last_json(self._run(ASK_LINES, request)))
                for (function, instructions), lines in zip(chunk, answer, strict=False):
                    known |= {(function, code): line for code, line in zip(instructions, lines, strict=False)}
        return known

    def _run(self, program: str, *arguments: str) -> Ended:
        return self.sandbox.run(["python", *self.options, "-c", program, *arguments], ASK_S, self.environment)


def _last_json(ended: Ended) -> Any:
    """Return what the last line of an output says; None if it says nothing."""
    try:
        return parse_json(ended.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return None


def _chunks(items: list[tuple[Function, list[int]]]) -> Iterator[list[tuple[Function, list[int]]]]:
    chunk: list[tuple[Function, list[int]]] = []
    size = 0
    for item in items:
        size += len(json.dumps(item))
        if chunk and size > MOST_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(item)
    if chunk:
        yield chunk


def lock_sites_in(track: Track, probe: Probe, *, acquires: bool = False) -> LockSites:
    """Return where a benchmark's work waits and wakes, from a run of its own; UnsupportedHereError without BPF.

    `acquires` adds where it takes locks, from one more run.
    """
    if probe.method is not Method.BPF:
        reason = probe.refused.get(Method.BPF, "another probe was chosen")
        raise UnsupportedHereError(
            found=f"stacks are taken by BPF, which does not work here: {reason}",
            todo="Run `interlock doctor`: it says how to allow it.",
        )
    kind = kind_of_track(track)
    with kind.working(track, even_silent=True) as working:
        asked = Interpreter(working.sandbox, track.cell.subject.options, track.environment)
        options = asked.frames()
        sites = lock_sites_of(work_from(*working.counted(options), kind.phase, asked.lines), options.no_frames)
        if acquires:
            work = work_from(*working.counted(options.with_acquires()), kind.phase, asked.lines)
            taken = acquisitions_of(work, ends_seen=not options.switches_threads)
            sites = sites.model_copy(update={"acquisitions": taken})
    return sites.model_copy(update={"stands_still": working.stands_still})


@dataclass(frozen=True)
class Work:
    """What the profiler printed, the phase whose sites are wanted, its exact counts and its units of work."""

    data: Mapping[str, Any]
    phase: str
    counted: PhaseCounts
    units: int
    ask: Callable[[Iterable[RawFrame]], Lines]  # the lines of instructions

    def of_phase(self, key: str) -> list[Mapping[str, Any]]:
        """Return the places under a key that are of this phase."""
        return [place for place in self.data[key] if place["phase"] == self.phase]


def work_from(text: str, units: int, phase: str, ask: Callable[[Iterable[RawFrame]], Lines]) -> Work:
    """Return what the profiler printed of a phase; WorkloadError if events were lost, or the phase never began."""
    with readable():
        work = Work(profile_data(text), phase, parse_bpf(text)[phase], units, ask)
    if not work.counted.ns:
        raise unseen(phase)
    return work


@readable()
def lock_sites_of(work: Work, no_frames: str = "") -> LockSites:
    """Return the sites and edges; WorkloadError if their sums are not the counts."""
    data, sites, edges = work.data, work.of_phase("sites"), work.of_phase("edges")
    check_sums(sites, work.counted)
    used = {site["stack"] for site in sites} | {edge[end] for edge in edges for end in ("waiter", "waker")}
    chains, frames = _named_stacks(work, used)
    merged = _added(sites, lambda site: _key(site, chains, frames))
    known = roles(chains.values())
    costliest = sorted(merged.items(), key=lambda site: (-site[1]["ns"], -site[1]["calls"]))
    named = [_site(key, counts, known) for key, counts in costliest]
    place = {key: rank for rank, (key, _) in enumerate(costliest)}
    by_stack = {(site["stack"], _wakes(site["operation"])): place[_key(site, chains, frames)] for site in sites}
    ns, threads = work.counted.ns or 0, data.get("threads", {}).get(work.phase, 0)
    return LockSites(
        units=work.units,
        ns=ns,
        threads=threads,
        waiting_share=waiting_share(named, ns, threads),
        sites=named,
        edges=_edges(edges, by_stack),
        no_frames=no_frames,
        no_symbols="" if any(map(_is_interpreter, data["with_symbols"])) else NO_SYMBOLS,
    )


def _named_stacks(work: Work, used: Container[str]) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """Return the C functions up to the interpreter's loop and the Python frames of each stack that is used."""
    stacks = {key: stack for key, stack in work.data["stacks"].items() if key in used}
    lines = work.ask(frame for stack in stacks.values() for frame in _code(stack))
    chains = {key: tuple(map(_short, up_to_loop(stack["c"]))) for key, stack in stacks.items()}
    frames = {key: tuple(_short(_frame(frame, lines)) for frame in _code(stack)) for key, stack in stacks.items()}
    return chains, frames


def waiting_share(sites: Iterable[Site], ns: int, threads: int) -> float | None:
    """Return the waited part of the time that threads had, each of them the whole run; None if that is not known."""
    had = ns * threads
    return sum(site.ns for site in sites if site.waits) / had if had else None


def up_to_loop(c: Sequence[str]) -> list[str]:
    """Return the functions from the call up to the interpreter's loop, which is the last one."""
    for index, function in enumerate(c):
        if LOOP.match(function):
            return list(c[: index + 1])
    return list(c)


@readable()
def acquisitions_of(work: Work, *, ends_seen: bool = True) -> Acquisitions:
    """Return where locks were taken and all threads were stopped; WorkloadError if it was not watched."""
    taken, stopped = work.of_phase("acquires"), work.of_phase("pauses")
    chains, frames = _named_stacks(work, {place["stack"] for place in (*taken, *stopped)})

    def stack_of(place: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return chains.get(place["stack"], ()), frames.get(place["stack"], ())

    acquires = [
        Acquires(lock=lock_name(c, python, {}), caller=caller_of(python), python=list(python), c=list(c), **counts)
        for (c, python), counts in _added(taken, stack_of).items()
    ]
    pauses = [
        Pauses(caller=caller_of(python), python=list(python), c=list(c), **counts)
        for (c, python), counts in _added(stopped, stack_of).items()
    ]
    return Acquisitions(
        units=work.units,
        ns=work.counted.ns or 0,
        probed=list(dict.fromkeys(work.data["probed"])),
        ends_seen=ends_seen,
        acquires=sorted(acquires, key=lambda place: (-place.wait_ns, -place.held_ns, -place.acquires)),
        pauses=sorted(pauses, key=lambda place: -place.ns),
    )


def _added(places: Sequence[Mapping[str, Any]], key: Callable[[Mapping[str, Any]], K]) -> dict[K, dict[str, int]]:
    """Add up the counts of places that have their key in common; those that begin with `max_` are maxima."""
    added: dict[K, dict[str, int]] = {}
    for place in places:
        into = added.setdefault(key(place), defaultdict(int))
        for name, value in place.items():
            if name.startswith("max_"):
                into[name] = max(into[name], value)
            elif name not in WORDS:
                into[name] += value
    return added


def check_sums(sites: Sequence[Mapping[str, Any]], counted: PhaseCounts) -> None:
    """Raise WorkloadError unless calls and times of all sites are those that were counted without stacks."""
    for call in {site["call"] for site in sites} | ({"futex"} & set(counted.syscalls)):
        mine = [site for site in sites if site["call"] == call]
        calls, ns = sum(site["calls"] for site in mine), sum(site["ns"] for site in mine)
        exact = counted.syscalls.get(call)
        if exact is None or (calls, ns) != (exact.calls, exact.ns):
            expected = f"{exact.calls} in {exact.ns} ns" if exact else "none"
            raise WorkloadError(
                found=f"the sites of {call} add up to {calls} calls in {ns} ns, but the counter has {expected}",
                todo="Repeat; if it stays, look for another tracer.",
            )


def _short(name: str) -> str:
    """Return a function as it is kept: a program's own names may have any length, and rules are searched in them."""
    return shortened(name, LONGEST_NAME)


def _code(stack: Mapping[str, Any]) -> Iterator[RawFrame]:
    """Return the frames of a stack that are somebody's code.

    The interpreter's own (`<shim>`, 3.12's `<interpreter trampoline>`) stand between C and Python: their file is called
    as they are.
    """
    for file, name, first, instruction in stack["python"]:
        if file != name or name == "<module>":
            yield file, first, name, instruction


def _is_interpreter(file: str) -> bool:
    return file.rpartition("/")[2].startswith(("python", "libpython"))


def _frame(frame: RawFrame, lines: Lines) -> str:
    file, first, name, instruction = frame
    return f"{file}:{lines.get(((file, first, name), instruction), first)} {name}"


def _wakes(operation: str) -> bool:
    return operation.startswith("wake")


def _key(site: Mapping[str, Any], chains: Mapping[str, tuple[str, ...]], frames: Mapping[str, tuple[str, ...]]) -> Key:
    """Return what a site is: operations that differ in their bits alone are one."""
    operation = "wake" if _wakes(site["operation"]) else "wait" if site["operation"] else ""
    return site["call"], operation, chains.get(site["stack"], ()), frames.get(site["stack"], ())


def _site(key: Key, counts: Mapping[str, int], known: Mapping[str, str]) -> Site:
    call, operation, c, python = key
    return Site(
        call=call,
        operation=operation,
        lock=lock_name(c, python, known),
        caller=caller_of(python),
        python=list(python),
        c=[f"{function} [{known[function]}]" if function in known else function for function in c],
        **counts,
    )


def _edges(edges: Sequence[Mapping[str, Any]], by_stack: Mapping[tuple[str, bool], int]) -> list[Edge]:
    """Return the edges between sites, those with most waiting first; a waker before this phase has no site in it."""
    added: dict[tuple[int, int], tuple[int, int]] = {}
    for edge in edges:
        waiter, waker = by_stack.get((edge["waiter"], False)), by_stack.get((edge["waker"], True))
        if waiter is not None and waker is not None:
            waits, ns = added.get((waiter, waker), (0, 0))
            added[waiter, waker] = waits + edge["waits"], ns + edge["ns"]
    merged = [Edge(waiter=ends[0], waker=ends[1], waits=waits, ns=ns) for ends, (waits, ns) in added.items()]
    return sorted(merged, key=lambda edge: -edge.ns)
