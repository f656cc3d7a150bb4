"""How often change points are shown where there is none, and found where there is one. Prints; takes a minute."""

from __future__ import annotations

import pytest

from tests.analysis.simulated import ROWS, disturbed, false_alarms, found, heavy, normal

TABLES, SERIES = 200, 200


def test_false_alarms_and_changes_found(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\nof {TABLES} tables of {ROWS} rows without a change, those that show one")
        for noise in (normal, heavy, disturbed):
            shares = [f"{false_alarms(noise, size, TABLES) / TABLES:.1%}" for size in (10, 20, 50)]
            print(f"| {noise.__name__} | {' | '.join(shares)} |")
        print(f"of {SERIES} series whose last experiments are slower, those that show it")
        for size, after in ((8, 4), (12, 3), (20, 3), (20, 10), (50, 3), (50, 25)):
            shares = [f"{found(step, size, after, SERIES) / SERIES:.0%}" for step in (1.05, 1.1, 1.2, 1.5)]
            print(f"| {size} | {after} | {' | '.join(shares)} |")
