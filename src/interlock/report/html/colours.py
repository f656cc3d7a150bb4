"""The colours of the page, as CSS variables: one page serves the light theme, the dark theme and print.

Slower is orange and faster is blue, which people who confuse red and green can tell apart. Text has a contrast of at
least 4.5 on its background and a mark at least 3, as WCAG 2.2 AA demands (1.4.3, 1.4.11).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Colour:
    """One colour in the light and in the dark theme, as #rrggbb."""

    light: str
    dark: str


COLOURS = {
    "paper": Colour("#ffffff", "#14171b"),
    "raised": Colour("#f4f6f8", "#1d2127"),
    "ink": Colour("#1a1d21", "#e8eaed"),
    "muted": Colour("#545b64", "#a9b1bb"),
    "line": Colour("#c9ced4", "#3f464f"),
    "grid": Colour("#e4e7ea", "#2a2f36"),
    "link": Colour("#0b57a4", "#8ec1f2"),
    "band": Colour("#e3e9f0", "#272e37"),
    "band-edge": Colour("#7d8894", "#75808c"),
    "faster": Colour("#1f5f9e", "#7db8ee"),
    "slower": Colour("#b04c0c", "#f0995a"),
    "same": Colour("#68707a", "#98a1ab"),
    "baseline": Colour("#1a1d21", "#e8eaed"),
    "good": Colour("#1a7048", "#63c394"),
    "bad": Colour("#b3261e", "#ff8f85"),
    "shade-faster-3": Colour("#1f5f9e", "#8cc4f5"),
    "shade-faster-3-ink": Colour("#ffffff", "#071a2b"),
    "shade-faster-2": Colour("#79b0e3", "#2f6ea8"),
    "shade-faster-2-ink": Colour("#0b2239", "#ffffff"),
    "shade-faster-1": Colour("#c9e0f6", "#1c3a57"),
    "shade-faster-1-ink": Colour("#12395c", "#cfe4f7"),
    "shade-same": Colour("#e9ebee", "#272c33"),
    "shade-same-ink": Colour("#545b64", "#a9b1bb"),
    "shade-undecided": Colour("#ffffff", "#14171b"),
    "shade-undecided-ink": Colour("#68707a", "#98a1ab"),
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
}


def variables(theme: str) -> str:
    """Return the CSS declarations of all colours in a theme, 'light' or 'dark'."""
    return " ".join(f"--{name}: {getattr(colour, theme)};" for name, colour in COLOURS.items())
