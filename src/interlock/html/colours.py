"""The colours of the report, by what they say; in the page they are CSS variables, in pictures those of daylight.

Slower is orange and faster is blue, which people who confuse red and green tell apart. Text on its ground has a
contrast of 4.5 or more and a mark on paper 3 or more, as WCAG 2.2 AA asks for (1.4.3, 1.4.11): their test holds it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Colour:
    """One colour, by daylight and in the dark, as #rrggbb."""

    light: str
    dark: str


PAPER, INK, MUTED = "paper", "ink", "muted"
FASTER, SLOWER, SAME, BASELINE = "faster", "slower", "same", "baseline"
GOOD, BAD = "good", "bad"
SHADES = (
    "faster-3",
    "faster-2",
    "faster-1",
    "same",
    "baseline",
    "slower-1",
    "slower-2",
    "slower-3",
    "slower-4",
    "none",
)
CALLS = tuple(f"call-{number}" for number in range(1, 10))
OTHER_CALLS = "call-other"

COLOURS = {
    PAPER: Colour("#ffffff", "#14171b"),
    "raised": Colour("#f4f6f8", "#1d2127"),
    INK: Colour("#1a1d21", "#e8eaed"),
    MUTED: Colour("#545b64", "#a9b1bb"),
    "line": Colour("#c9ced4", "#3f464f"),
    "grid": Colour("#e4e7ea", "#2a2f36"),
    "link": Colour("#0b57a4", "#8ec1f2"),
    "band": Colour("#e3e9f0", "#272e37"),
    "band-edge": Colour("#7d8894", "#75808c"),
    FASTER: Colour("#1f5f9e", "#7db8ee"),
    SLOWER: Colour("#b04c0c", "#f0995a"),
    SAME: Colour("#68707a", "#98a1ab"),
    BASELINE: Colour("#1a1d21", "#e8eaed"),
    GOOD: Colour("#1a7048", "#63c394"),
    BAD: Colour("#b3261e", "#ff8f85"),
    "shade-faster-3": Colour("#1f5f9e", "#8cc4f5"),
    "shade-faster-3-ink": Colour("#ffffff", "#071a2b"),
    "shade-faster-2": Colour("#79b0e3", "#2f6ea8"),
    "shade-faster-2-ink": Colour("#0b2239", "#ffffff"),
    "shade-faster-1": Colour("#c9e0f6", "#1c3a57"),
    "shade-faster-1-ink": Colour("#12395c", "#cfe4f7"),
    "shade-same": Colour("#e9ebee", "#272c33"),
    "shade-same-ink": Colour("#545b64", "#a9b1bb"),
    "shade-baseline": Colour("#ffffff", "#14171b"),
    "shade-baseline-ink": Colour("#1a1d21", "#e8eaed"),
    "shade-slower-1": Colour("#fde2c9", "#4b3019"),
    "shade-slower-1-ink": Colour("#5c2b00", "#fbd9b8"),
    "shade-slower-2": Colour("#f7b27a", "#8d4813"),
    "shade-slower-2-ink": Colour("#3f1d00", "#ffffff"),
    "shade-slower-3": Colour("#b8520f", "#e0823a"),
    "shade-slower-3-ink": Colour("#ffffff", "#1d0d00"),
    "shade-slower-4": Colour("#702a05", "#ffc08a"),
    "shade-slower-4-ink": Colour("#ffffff", "#2a1400"),
    "shade-none": Colour("#ffffff", "#14171b"),
    "shade-none-ink": Colour("#68707a", "#98a1ab"),
    "call-1": Colour("#c0571b", "#f0955a"),
    "call-2": Colour("#3b6fb6", "#7fa9e6"),
    "call-3": Colour("#2a8555", "#67c596"),
    "call-4": Colour("#a23b72", "#e07bb3"),
    "call-5": Colour("#7a5cc4", "#b59cf0"),
    "call-6": Colour("#8a6d1d", "#d3b44f"),
    "call-7": Colour("#19818b", "#4fc3cd"),
    "call-8": Colour("#c8445a", "#ff8a97"),
    "call-9": Colour("#2b3a4b", "#dfe6ee"),
    OTHER_CALLS: Colour("#868e97", "#7b838c"),
}
_TOKEN = re.compile(r"^var\(--([a-z0-9-]+)\)$")


def token(name: str) -> str:
    """What a chart or style has in place of the colour: a CSS variable, so that the reader's theme decides."""
    if name not in COLOURS:
        raise KeyError(name)
    return f"var(--{name})"


def variables(theme: str) -> str:
    """The declarations of all colours in a theme: 'light' or 'dark'."""
    return " ".join(f"--{name}: {getattr(colour, theme)};" for name, colour in COLOURS.items())


def by_daylight(value: Any) -> Any:
    """A chart's specification with each token replaced, for programs that know no CSS."""
    if isinstance(value, dict):
        return {key: by_daylight(one) for key, one in value.items()}
    if isinstance(value, list):
        return [by_daylight(one) for one in value]
    found = _TOKEN.match(value) if isinstance(value, str) else None
    return COLOURS[found[1]].light if found else value


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, 1 to 21 (WCAG 2.2, 'contrast ratio')."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    """WCAG 2.2, 'relative luminance'."""
    channels = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    linear = [channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4 for channel in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
