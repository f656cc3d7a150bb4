"""Blocks: one benchmark in one round, whose rows are measured alone or in order, as their kind says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from interlock.measure.kinds.kind import Kind
from interlock.measure.stopwatch import Phase
from interlock.measure.tracks import OnStart, Result, Track


def run_block(kinds: Mapping[Track, Kind], number: int, on_start: OnStart) -> Iterator[Result]:
    """Yield how the processes of a benchmark's block ended, by its tracks: of those alone, then of those in order.

    Round 0 calibrates, or shows that a command works. A result is to be kept before the next one is asked for.
    """
    if number == 0:
        yield from _tried(kinds, on_start)
        return
    _renew_pages(kinds)
    in_order = [track for track, kind in kinds.items() if kind.is_in_order(track)]
    for track, kind in kinds.items():
        if track not in in_order:
            yield from _alone(track, kind, number, on_start)
    for result in kinds[in_order[0]].block(in_order, number, on_start) if in_order else ():
        result.track.cell.clock.add(Phase.MEASURING, result.busy_s or 0)
        yield result


def _tried(kinds: Mapping[Track, Kind], on_start: OnStart) -> Iterator[Result]:
    """Let one process, the baseline's if it works, find the number of loops for the others that are fed."""
    for track in sorted(kinds, key=lambda track: track.label != track.session.resources.settings.baseline):
        kind = kinds[track]
        if kind.is_tried and not kind.shares_loops(track):
            yield from _alone(track, kind, 0, on_start)
            if kind.shares_loops(track):
                for fed in kinds:
                    fed.take_over(track)


def _alone(track: Track, kind: Kind, number: int, on_start: OnStart) -> Iterator[Result]:
    on_start(track)
    result = None
    with track.cell.clock.during(Phase.MEASURING), track.failing():
        result = kind.alone(track, number)
    if result is not None:
        yield result


def _renew_pages(tracks: Iterable[Track]) -> None:
    """Let the interpreters' files be read anew, to other pages of the memory.

    Which pages an interpreter has changes its speed by some per cent, and the page cache keeps them for as long as a
    container lives: a row would be off by the same share in all blocks. With other pages in each block the share is an
    error that blocks show and average out.
    """
    for track in tracks:
        facts = track.session.resources.known.facts_of(track.cell.subject)
        if facts is not None and facts.mapped_files:
            for slot in track.cell.slots:
                slot.renew_pages(facts.mapped_files)
