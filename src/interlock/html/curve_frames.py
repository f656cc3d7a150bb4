"""Curves over workers -> records for the report's charts and tables: points, the law's line, the limit. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from interlock.beside import curves_section
from interlock.curves import Curve, Curves, Point
from interlock.sections import figure
from interlock.statistics import Interval

Record = dict[str, Any]

MEASURED, FITTED, EXTRAPOLATED, LIMITED = "measured", "fitted", "extrapolated", "limit"
# A limit that is so many times the most that was measured would leave the curves no room.
FAR = 4
# Of a line, for each doubling of the workers.
STEPS = 4


def curve_frames(found: Sequence[Curves]) -> dict[str, list[Record]]:
    """What each curve is about, all their points, and a table for each."""
    return {
        "curves": [_about(one) for one in found],
        "points": [record for one in found for record in _records(one)],
        **{table_name(one.title): _table(one) for one in found},
    }


def table_name(title: str) -> str:
    return f"curve {title}"


def _about(of: Curves) -> Record:
    return {
        "curve": of.title,
        "unit": of.unit,
        "workers": list(of.workers),
        "cores": of.cores,
        "known_to": of.known_to,
        "most": _most(of),
        "limit": max((point.throughput.estimate for point in of.limit), default=None),
    }


def _table(of: Curves) -> list[Record]:
    section = curves_section(of)
    rows = [dict(zip(section.columns, row, strict=True)) for row in section.rows]
    return [row for row in rows if row["variant"] in {curve.label for curve in of.curves}]


def _most(of: Curves) -> float:
    """The full height of a row: what was measured has room, what is extrapolated or a far limit need not."""
    measured = max(_closed(point.throughput)[1] for curve in of.curves for point in curve.points)
    limit = max((_closed(point.throughput)[1] for point in of.limit), default=0.0)
    return limit if measured < limit <= FAR * measured else measured


def _closed(one: Interval) -> tuple[float, float]:
    """One round leaves an interval open."""
    return (one.estimate, one.estimate) if math.isinf(one.high) else (one.low, one.high)


def _records(of: Curves) -> Iterator[Record]:
    most = _most(of)
    for curve in of.curves:
        for kind, workers, throughput, low, high, text in _marks(of, curve):
            if throughput <= most:
                yield {
                    "curve": of.title,
                    "variant": curve.label,
                    "kind": kind,
                    "workers": workers,
                    "part": throughput / most,
                    "low": low / most,
                    "high": high / most,
                    "text": text,
                    "shown": _gain(curve),
                    "over": workers > of.cores,
                }


def _marks(of: Curves, curve: Curve) -> Iterator[tuple[str, float, float, float, float, str]]:
    """Kind, workers, throughput, its ends and what a mark says."""
    limits = {point.workers: point.throughput.estimate for point in of.limit}
    for point in curve.points:
        low, high = _closed(point.throughput)
        yield MEASURED, point.workers, point.throughput.estimate, low, high, _text(of, curve, point, limits)
    for workers, limit in limits.items():
        yield LIMITED, workers, limit, limit, limit, f"limit: {figure(limit)} {of.unit}"
    if curve.fit:
        for place in _grid(of):
            law = curve.fit.throughput(place)
            text = f"{figure(law)} {of.unit} by the law"
            if place <= of.known_to:
                yield FITTED, place, law, law, law, text
            if place >= of.known_to < of.workers[-1]:
                yield EXTRAPOLATED, place, law, law, law, f"{text}, extrapolated"


def _grid(of: Curves) -> list[float]:
    """Numbers of workers close enough for a smooth line, those that were measured among them."""
    low, high = math.log2(of.workers[0]), math.log2(of.workers[-1])
    count = math.ceil((high - low) * STEPS)
    steps = (2 ** (low + (high - low) * number / count) for number in range(count + 1))
    return sorted({*(round(one, 4) for one in steps), *of.workers, of.known_to})


def _text(of: Curves, curve: Curve, point: Point, limits: dict[int, float]) -> str:
    low, high = _closed(point.throughput)
    parts = [f"{figure(point.throughput.estimate)} {of.unit} [{figure(low)}, {figure(high)}]"]
    gain = curve.gain(point)
    parts += [f"{gain:.2f} times one worker"] if gain else []
    limit = limits.get(point.workers)
    parts += [f"{point.throughput.estimate / limit:.0%} of the limit"] if limit else []
    return ", ".join(parts)


def _gain(curve: Curve) -> str:
    best = curve.best
    gain = curve.gain(best)
    return f"{gain:.2f}x at {best.workers}" if gain else f"best at {best.workers}"
