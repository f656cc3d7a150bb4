"""Locks: their names, by rules that are data, what waits for them cost, and how two interpreters differ. Pure."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from interlock.results.profiles import UNNAMED, LockSites, Site


@dataclass(frozen=True)
class Cost:
    """What the calls from one place cost per unit of work; `longest_ns` is of one call."""

    calls: float = 0.0
    ns: float = 0.0
    longest_ns: int = 0
    woke_nobody: float = 0.0


def cost_of(sites: Sequence[Site], units: int) -> Cost:
    """Return what sites cost together per unit of work."""
    return Cost(
        calls=sum(site.calls for site in sites) / units,
        ns=sum(site.ns for site in sites) / units,
        longest_ns=max((site.max_ns for site in sites), default=0),
        woke_nobody=sum(site.woke_nobody for site in sites) / units,
    )


def costs_by(profile: LockSites, key: Callable[[Site], str]) -> dict[str, Cost]:
    """Return the cost of the sites that have a key in common, the costliest first."""
    groups: dict[str, list[Site]] = defaultdict(list)
    for site in profile.sites:
        groups[key(site)].append(site)
    costs = {name: cost_of(sites, profile.units) for name, sites in groups.items()}
    return dict(sorted(costs.items(), key=lambda named: (-named[1].ns, -named[1].calls)))


def _function(frame: str) -> str:
    return frame.rpartition(":")[2].partition(" ")[2]


def has_qualified_names(profile: LockSites) -> bool:
    """Return whether functions are named with their classes, as code objects do from 3.11 on."""
    return any("." in _function(frame) for site in profile.sites for frame in site.python)


def place_of(site: Site, *, qualified: bool = True) -> str:
    """Return a site as people tell it from others, in any version: its lock, and the caller's file and function.

    If not `qualified`, only the last part of the function's name.
    """
    file, _, _ = site.caller.rpartition(":")
    function = _function(site.caller)
    lock = "lock" if site.lock.startswith("lock of ") else site.lock
    shown = function if qualified else function.rpartition(".")[2]
    return f"{lock} in {file.rpartition('/')[2]} {shown}".rstrip()


@dataclass(frozen=True)
class ComparedSite:
    """A place in two interpreters; a cost is None where it has no calls."""

    place: str
    before: Cost | None
    after: Cost | None

    @property
    def kind(self) -> str:
        """Return new, gone, more or less: by time, and by calls where no time tells them apart."""
        if self.before is None or self.after is None:
            return "new" if self.before is None else "gone"
        return "more" if (self.after.ns, self.after.calls) > (self.before.ns, self.before.calls) else "less"


def differences(before: LockSites, after: LockSites) -> list[ComparedSite]:
    """Return all places of both, those whose time changed most first."""
    qualified = has_qualified_names(before) and has_qualified_names(after)
    first, second = (costs_by(side, lambda site: place_of(site, qualified=qualified)) for side in (before, after))
    none = Cost()
    changed_ns = {place: abs(second.get(place, none).ns - first.get(place, none).ns) for place in {**first, **second}}
    places = sorted(changed_ns, key=lambda place: -changed_ns[place])
    return [ComparedSite(place, first.get(place), second.get(place)) for place in places]


BETWEEN = " < "
# Files of the library in which locks and queues are made of locks: what is asked is who called them.
INSIDE = re.compile(
    r"(?:^|/)(?:threading|queue|Queue|_threading_local|weakref|_weakrefset|contextlib|selectors|socket|subprocess|"
    r"concurrent/futures/\w+|multiprocessing/\w+|asyncio/\w+|logging/\w+|importlib/\w+)\.py:\d+ |^<frozen importlib"
)
STARTS = re.compile(r"threading\.py:\d+ (?:Thread\.)?(?:_*bootstrap(?:_inner)?|run)$")
LOOP = re.compile(r"_?PyEval_EvalFrame(?:Default|Ex)\b")
LOOP_IN = re.compile(rf"\b{LOOP.pattern}")
WHOLE = 16  # functions that the profiler takes at most: a stack of so many may go on
CONDITION, PARKING = re.compile(r"pthread_cond_\w+ "), re.compile(r"_PyParkingLot_(?:Park|Unpark)\b|sched_yield ")
TAKES_GIL, LOCKS_MUTEX = "GIL function", "PyMutex function"


@dataclass(frozen=True)
class Rule:
    """A lock's name, and what is searched in the chain of a stack and in its Python frames (`file:line name < ...`)."""

    name: str
    c: str = ""
    python: str = ""


LIBC = r"^(?:(?:[^<]*\(libc[^<]*|libc\S*) < )*"
LEADING = r"^(?:threading:\d+ \S+ < )*"
LOCKING = r"PyThread_\w+_lock|sem_|_PyParkingLot|_PyMutex_|PyMutex f"
ATTACH = r"_PyParkingLot_Park \S+ < (?:python\S+ < )?PyEval_(?:Restore|Acquire)Thread"
STARTING = LEADING + r"threading:\d+ (?:\w*Thread\.)?_*(?:start|join|bootstrap_inner|shutdown|stop|delete)\b"
IMPORTING = LEADING + r"<frozen importlib\._bootstrap>:\d+ (?:_ModuleLock|_get_module_lock|_BlockingOn|acquire|release)"
RULES = (
    # Each of its threads begins in its trampoline, which is no waiting.
    Rule("pth scheduler", c=r"(?:\b|__)pth_(?!spawn_trampoline)|(?:^|< )libpth|\(libpthread\.so\.2\d"),
    Rule("malloc arena", c=LIBC + r"(?:malloc|free|calloc|realloc|memalign|malloc_trim)\b"),
    Rule("stop-the-world", c=r"StopTheWorld|StartTheWorld|stop_the_world|_PyThreadState_Suspend|tstate_wait_attach"),
    Rule("GIL", c=TAKES_GIL + r"|\btake_gil|\bdrop_gil"),
    Rule("GIL", c=r"PyThread_(?:acquire|release)_lock\w* \S+ < PyEval_"),
    # Where link-time optimisation has put the GIL's functions into those that call them.
    Rule("GIL", c=r"pthread_cond_\w+ \(libc[^<]*< (?!PyThread_)\S+ \((?:lib)?python"),
    Rule("GIL", c=LIBC + r"PyEval_(?:Save|Restore|Acquire|Release)Thread\b"),
    Rule("stop-the-world", c=ATTACH),
    Rule("thread start/end", c=r"pthread_(?:create|join)|PyThread_(?:start_new|join|detach)_"),
    Rule("dynamic linker", c=r"\bdl(?:open|sym|close)\b|ld-linux"),
    Rule("import lock", c=r"PyImport_(?:Acquire|Release)Lock"),
    # Until 3.2 every import takes it, in functions that are compiled into this one.
    Rule("import lock", c=r"PyThread_(?:acquire|release)_lock\w* \S+ < PyImport_ImportModuleLevel"),
    Rule("one-time initialisation", c=r"\bpthread_once\b"),
    Rule("import lock", python=IMPORTING),
    Rule("thread start/end", python=STARTING),
    Rule("idle worker of a pool", python=r"^(?:(?:threading|queue):\d+ \S+ < )*thread:\d+ _worker\b"),
    Rule("queue.Queue's condition", python=r"^threading:\d+ (?:_?Condition\.)?(?:wait|notify)\b.* < [qQ]ueue:"),
    Rule("queue.Queue.mutex", c=LOCKING, python=LEADING + r"[qQ]ueue:"),
    Rule("thread start/end", c=r"PyEvent_Wait|_PyParkingLot_UnparkAll"),
    Rule("PyMutex of an object", c=r"CriticalSection|\bPyMutex_(?:Lock|Unlock)\b"),
)  # fmt: skip
# A lock that Python code takes or gives back.
PYTHON_LOCK = re.compile(r"PyThread_\w*lock|_PyMutex_|_PyParkingLot|_PySemaphore|\bsem_|PyMutex function")
FRAME = re.compile(r"(?:[^ ]*/)?([^/ ]+?)(?:\.py)?:(\d+) (.*)")


def roles(stacks: Iterable[Sequence[str]]) -> dict[str, str]:
    """Return what unnamed functions of the interpreter do, by what they call."""
    known: dict[str, str] = {}
    for c in stacks:
        for inner, outer in itertools.pairwise(c):
            if not outer.startswith(("python", "libpython")):
                continue
            if CONDITION.match(inner):
                known[outer] = TAKES_GIL
            elif PARKING.match(inner):
                known.setdefault(outer, LOCKS_MUTEX)
    return known


def _short(frame: str) -> str:
    """Return a frame as rules see it: the file without folder and ending."""
    matched = None if frame.startswith("<") else FRAME.fullmatch(frame)
    return f"{matched[1]}:{matched[2]} {matched[3]}" if matched else frame


def caller_of(python: Sequence[str]) -> str:
    """Return the innermost frame of the caller's own code: not inside threading.py, queue.py and the like.

    A stack that is inside them throughout has its outermost frame below the thread's start; one without frames nothing.
    """
    for frame in python:
        if not INSIDE.search(frame):
            return frame
    inside = [frame for frame in python if not STARTS.search(frame)] or python
    return inside[-1] if inside else ""


def lock_name(c: Sequence[str], python: Sequence[str], known_roles: Mapping[str, str]) -> str:
    """Return the name of the lock that a call from this stack is for; UNNAMED if no rule knows it."""
    chain = BETWEEN.join(known_roles.get(function, function) for function in c)
    frames = BETWEEN.join(map(_short, python))
    for rule in RULES:
        if re.search(rule.c, chain) and re.search(rule.python, frames):
            return rule.name
    if not python and PYTHON_LOCK.search(chain) and not LOOP_IN.search(chain) and len(c) < WHOLE:
        return "thread start/end"  # no frame yet, or none any more
    caller = caller_of(python)
    return f"lock of {_short(caller)}" if caller and PYTHON_LOCK.search(chain) else UNNAMED
