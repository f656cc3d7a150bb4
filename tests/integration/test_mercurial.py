"""Mercurial from the package index, in the real engine: its version, a repository's status, and its command server."""

from __future__ import annotations

from interlock.results.experiments import State
from tests.integration.images import FREE_THREADED, NO_THREADS, PTH, QUICK
from tests.integration.shared import Measured

BENCHMARKS = ("hg", "hg-status", "hg-cmdserver")


def test_mercurial_does_its_work_with_a_process_for_each_command_and_with_one_for_all(measured: Measured) -> None:
    cell = measured.cell(PTH, "mercurial")
    assert {name: cell.benchmarks[name].state for name in BENCHMARKS} == dict.fromkeys(BENCHMARKS, State.OK)
    assert {cell.packages[name]["mercurial"] for name in BENCHMARKS} == {"6.1.4"}


def test_where_mercurial_cannot_be_installed_its_benchmarks_are_unsupported(measured: Measured) -> None:
    for variant in (QUICK, NO_THREADS, FREE_THREADED):
        found = measured.cell(variant, "mercurial").benchmarks
        assert {found[name].state for name in BENCHMARKS} == {State.UNSUPPORTED}, variant
