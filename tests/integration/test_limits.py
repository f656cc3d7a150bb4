"""Limits in the real engine: measured in the rounds of the cells, in an image of their own, beside no variant."""

from __future__ import annotations

import re

from interlock.analysis import comparison
from interlock.report.experiment import skipped
from interlock.results import store
from interlock.results.experiments import State
from tests.integration.images import QUICK
from tests.integration.shared import Measured


def test_a_limit_is_measured_in_every_round_and_one_that_fails_stops_nothing(measured: Measured) -> None:
    described = measured.described
    assert {cell.label: cell.outcome.state for cell in described.limits} == {
        "limit+sleep": State.OK,
        "limit+broken": State.FAILED,
    }
    rounds = described.order["few-locks"]
    assert len(rounds) == 3
    for visited in rounds:
        assert {QUICK, f"{QUICK}+twin", "limit+broken", "limit+sleep"} <= set(visited)
        assert len(set(visited)) == len(visited)
    assert described.left_out["few-locks"] == ["slow"]
    (broken,) = [line for line in skipped(described) if "limit+broken" in line]
    assert re.search(r"^few-locks(/uncontended)? on limit\+broken: failed: 'uncontended'.*\b3: no such disk$", broken)


def test_a_limit_is_a_sleep_of_a_known_length_and_every_row_a_share_of_it(measured: Measured) -> None:
    values, profiles = store.read_cells(measured.folder, measured.described)
    sleep = values["limit+sleep", "few-locks"]["uncontended"]
    # Two rounds of two values: a tenth of a second for each of two units, and what the start takes.
    assert [len(process) for process in sleep.processes] == [2, 2]
    assert 0.1 <= min(map(min, sleep.processes)) < 0.2
    tables = comparison.tables(measured.described, values, profiles)
    (table,) = [one for one in tables if one.workload.name == "few-locks"]
    assert table.best_limit
    assert table.best_limit.label == "limit+sleep"
    shares = {row.label: row.share.estimate for row in table.rows if row.share}
    assert shares[QUICK] > 100
    # A sleep and its shell wait at least once for each other; a lock that nobody wants never waits.
    figures = {row.label: row.details[0] for row in (*table.rows, *table.limits)}
    sleeping, own = figures["limit+sleep"], figures[QUICK]
    assert sleeping
    assert own
    assert sleeping.value >= 0.5
    assert own.value < 0.01
