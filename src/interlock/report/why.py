"""Why a program waits: tables of locks, sites, edges and differences, and flame graphs."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape

from interlock.analysis.lock_sites import Cost, cost_of, costs_by, differences
from interlock.report.tables import Section, figure_text
from interlock.results.profiles import Acquires, Acquisitions, BenchmarkProfile, LockSites, Pauses, Site
from interlock.untrusted import printable

SHOWN, IN_REPORT = 10, 3
COST_COLUMNS = ("calls", "ms", "longest ms", "woke nobody")


def _cost_cells(cost: Cost | None) -> tuple[str, ...]:
    if cost is None:
        return ("-",) * len(COST_COLUMNS)
    return (
        figure_text(cost.calls),
        figure_text(cost.ns / 1e6),
        figure_text(cost.longest_ns / 1e6),
        figure_text(cost.woke_nobody),
    )


def _times_of(profile: LockSites) -> dict[str, int]:
    """Return the times in ns of which locks have shares, by column: the run's, and that of all working threads.

    The second is missing if the threads were not counted.
    """
    return {"of the run": profile.ns} | (
        {f"of {profile.threads} threads": profile.ns * profile.threads} if profile.threads else {}
    )


def _share_cells(cost: Cost, profile: LockSites) -> tuple[str, ...]:
    """Return the time of all threads in the calls as a share of each of these times."""
    return tuple(f"{cost.ns * profile.units / ns:.0%}" if ns else "-" for ns in _times_of(profile).values())


def _waiting_text(profile: LockSites) -> str:
    if profile.waiting_share is None:
        return ""
    return f", {profile.waiting_share:.0%} of the time of the {profile.threads} that worked"


def _file(frame: str) -> str:
    """Return a frame without the folders of its file; frozen modules have no folders."""
    return frame if frame.startswith("<") else frame.rpartition("/")[2]


def inside_text(site: Site | Acquires | Pauses) -> str:
    """Return what lies between the caller and the call: frames of the library, then C functions with names."""
    frames = site.python[: site.python.index(site.caller)] if site.caller in site.python else []
    c = [
        function.partition(" ")[0]
        for function in site.c
        if " (" in function and not function.startswith(("_PyEval_", "PyEval_EvalFrame"))
    ]
    return " -> ".join([*(_file(frame) for frame in reversed(frames)), *list(reversed(c))[-3:]])


def call_text(site: Site) -> str:
    """Return a call in words: futex wait, futex wake, sched_yield."""
    return f"{site.call} {site.operation}".strip()


def summary_text(profile: LockSites) -> str:
    """Return in one line how long threads waited, which share has a named lock, and what is wrong with the profile."""
    share = (
        f"{profile.waited_ns / profile.ns:.2f} threads wait on average{_waiting_text(profile)}; " if profile.ns else ""
    )
    frames = f"; no Python frames: {profile.no_frames}" if profile.no_frames else ""
    names = f"; functions that it does not export have no names: {profile.no_symbols}" if profile.no_symbols else ""
    still = f"it stands still ({profile.stands_still}); " if profile.stands_still else ""
    calls = f"{profile.calls():,} calls, {profile.named_share:.1%} of them for locks with names"
    return f"{still}{share}{calls}{frames}{names}"


def sections_of(label: str, profile: LockSites, unit: str) -> list[Section]:
    """Return the tables of one variant: locks, the costliest sites, and who wakes whom. Costs are per unit of work."""
    locks = costs_by(profile, lambda site: site.lock)
    sites = profile.sites[:SHOWN]
    rows = tuple(
        (
            site.lock,
            call_text(site),
            *_cost_cells(cost_of([site], profile.units)),
            _file(site.caller) or "-",
            inside_text(site) or "-",
        )
        for site in sites
    )
    tables = [
        Section(
            f"{label}: locks, per {unit}",
            ("lock", *COST_COLUMNS, *_times_of(profile)),
            tuple(
                (name, *_cost_cells(cost), *_share_cells(cost, profile)) for name, cost in list(locks.items())[:SHOWN]
            ),
        ),
        Section(f"{label}: sites, per {unit}", ("lock", "call", *COST_COLUMNS, "caller", "through"), rows),
    ]
    if profile.edges:
        edges = tuple(
            (*names, figure_text(waits / profile.units), figure_text(ns / profile.units / 1e6))
            for names, (waits, ns) in list(_edges(profile).items())[:SHOWN]
        )
        tables.append(
            Section(f"{label}: who waits for whom, per {unit}", ("waiter", "woken by", "lock", "waits", "ms"), edges)
        )
    return tables + (acquisition_sections(label, profile.acquisitions, unit) if profile.acquisitions else [])


def acquisition_sections(label: str, acquisitions: Acquisitions, unit: str) -> list[Section]:
    """Return where locks are taken and what stops all threads, per unit of work; shares are of all acquires."""
    units = acquisitions.units
    taken = tuple(
        (
            acquire.lock,
            figure_text(acquire.acquires / units),
            f"{acquire.contended / acquire.acquires:.1%}",
            f"{acquire.spun / acquire.contended:.0%}" if acquire.contended and acquisitions.ends_seen else "-",
            figure_text(acquire.wait_ns / units / 1e6) if acquisitions.ends_seen else "-",
            figure_text(acquire.max_wait_ns / 1e6) if acquisitions.ends_seen else "-",
            figure_text(acquire.held_ns / units / 1e6) if acquire.is_hold_known else "-",
            figure_text(acquire.max_held_ns / 1e6) if acquire.is_hold_known else "-",
            _file(acquire.caller) or "-",
            inside_text(acquire) or "-",
        )
        for acquire in acquisitions.acquires[:SHOWN]
    )
    sections = [Section(f"{label}: locks taken, per {unit}", ACQUIRE_COLUMNS, taken)]
    if acquisitions.pauses:
        stopped = tuple(
            (
                _file(pause.caller) or "-",
                figure_text(pause.pauses / units),
                figure_text(pause.stopping_ns / units / 1e6),
                figure_text(pause.ns / units / 1e6),
                figure_text(pause.max_ns / 1e6),
                inside_text(pause) or "-",
            )
            for pause in acquisitions.pauses[:SHOWN]
        )
        sections.append(Section(f"{label}: pauses of all threads, per {unit}", PAUSE_COLUMNS, stopped))
    return sections


ACQUIRE_COLUMNS = (
    "lock", "taken", "contended", "of it by spinning", "waited ms", "longest ms", "held ms", "longest ms", "caller",
    "through",
)  # fmt: skip
PAUSE_COLUMNS = ("who stops them", "pauses", "ms until they stand", "ms in all", "longest ms", "through")


def _edges(profile: LockSites) -> dict[tuple[str, str, str], tuple[int, int]]:
    """Return waits and ns by waiter, waker and lock, the longest first."""
    added: dict[tuple[str, str, str], tuple[int, int]] = {}
    for edge in profile.edges:
        waiter, waker = profile.sites[edge.waiter], profile.sites[edge.waker]
        names = _file(waiter.caller) or "-", _file(waker.caller) or "-", waiter.lock
        waits, ns = added.get(names, (0, 0))
        added[names] = waits + edge.waits, ns + edge.ns
    return dict(sorted(added.items(), key=lambda named: -named[1][1]))


def difference_section(label: str, against: str, mine: LockSites, theirs: LockSites, unit: str) -> Section:
    """Return how a variant differs from another one, by lock and caller, per unit of work."""
    rows = tuple(
        (difference.kind, difference.place, *(_cost_cells(difference.before)[:2]), *(_cost_cells(difference.after)[:2]))
        for difference in differences(theirs, mine)[:SHOWN]
    )
    columns = ("", "lock and caller", f"{against}: calls", "ms", f"{label}: calls", "ms")
    return Section(f"{label} against {against}, per {unit}", columns, rows)


WHY_COLUMNS = ("variant", "lock", "share of the time", "calls per unit", "where", "woken by")


def why_cells(profile: BenchmarkProfile) -> list[tuple[str, ...]]:
    """Return a profile's rows for WHY_COLUMNS, without the variant's name, or one row that says why there are none."""
    return _site_cells(profile.why) if profile.why else [(f"not known: {profile.no_why}", "-", "-", "-", "-")]


def _site_cells(profile: LockSites) -> list[tuple[str, ...]]:
    """Return the costliest sites in a few words each, with the line that ended most of the waiting there."""
    total = sum(site.ns for site in profile.sites)
    return [
        (
            site.lock,
            f"{site.ns / total:.0%}" if total else "-",
            figure_text(site.calls / profile.units),
            _file(site.caller) or inside_text(site),
            _waker_text(profile, index),
        )
        for index, site in enumerate(profile.sites[:IN_REPORT])
    ]


def _waker_text(profile: LockSites, waiter: int) -> str:
    """Return the line whose wakes ended most of the time that a site waited; a dash if none is known."""
    edges = [edge for edge in profile.edges if edge.waiter == waiter]
    if not edges:
        return "-"
    waker = profile.sites[max(edges, key=lambda edge: edge.ns).waker]
    return _file(waker.caller) or inside_text(waker) or "-"


@dataclass
class _Box:
    """A frame of a flame graph: its weight, and the frames that it called."""

    weight: int = 0
    called: dict[str, _Box] = field(default_factory=dict)


WIDTH, HEIGHT, LETTER, LEAST = 1200, 17, 6.6, 1.0
COLOURS = {"python": (35, 65), "c": (205, 55), "call": (0, 65)}


def flame_svg(title: str, profile: LockSites) -> str:
    """Return a flame graph as SVG; the width is the time in the calls, or their number if they took no time."""
    root = _Box()
    by_time = any(site.ns for site in profile.sites)
    for site in profile.sites:
        weight = site.ns if by_time else site.calls
        box = root
        box.weight += weight
        for name in _layers(site):
            box = box.called.setdefault(name, _Box())
            box.weight += weight
    boxes = list(_boxes(root, 0.0, WIDTH, 0)) if root.weight else []
    depth = max((level for _, _, _, level, _ in boxes), default=0) + 1
    height = depth * HEIGHT + 30
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'font-family="monospace" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/><text x="6" y="18">{escape(title)}</text>',
    ]
    for name, x, width, level, weight in boxes:
        y = height - (level + 1) * HEIGHT - 2
        kind, text = name.split(":", 1)
        hue, lightness = COLOURS[kind]
        shade = lightness + zlib.crc32(text.encode()) % 20
        fits = int((width - 4) / LETTER)
        shown = text if len(text) <= fits else f"{text[: fits - 2]}.." if fits > 4 else ""
        label = f'<text x="{x + 2:.1f}" y="{y + 12}">{escape(shown)}</text>' if shown else ""
        lines += [
            f"<g><title>{escape(text)}: {weight / root.weight:.1%}</title>"
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{HEIGHT - 1}" fill="hsl({hue},75%,{shade}%)"/>'
            f"{label}</g>"
        ]
    return printable("\n".join([*lines, "</svg>", ""]))


def _layers(site: Site) -> Iterator[str]:
    for frame in reversed(site.python):
        yield f"python:{_file(frame)}"
    for function in reversed(site.c):
        if not function.startswith(("_PyEval_EvalFrame", "PyEval_EvalFrame")):
            yield f"c:{function.partition(' (')[0]}"
    yield f"call:{call_text(site)}, {site.lock}"


def _boxes(box: _Box, x: float, width: float, level: int) -> Iterator[tuple[str, float, float, int, int]]:
    for name, inner in sorted(box.called.items(), key=lambda item: -item[1].weight):
        part = width * inner.weight / box.weight if box.weight else 0
        if part >= LEAST:
            yield name, x, part, level, inner.weight
            yield from _boxes(inner, x, part, level + 1)
        x += part
