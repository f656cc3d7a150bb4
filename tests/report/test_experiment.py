"""Tables as text: every variant in every table, and nothing that breaks them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from interlock.analysis import comparison
from interlock.analysis.comparison import Table
from interlock.analysis.scaling import CurveGroup, curve_groups
from interlock.catalog.workloads import Metric, Repetition
from interlock.report import experiment as report
from interlock.report.opening import CHANGED, NOT_KNOWN, OPEN
from interlock.results.experiments import BenchmarkValues, CellResult, Experiment, Outcome, PassedOver, State
from interlock.results.profiles import BenchmarkProfile, FutexCounts, LockCost, Method, Probe
from tests.builders import (
    OK,
    make_benchmark,
    make_built,
    make_cell,
    make_experiment,
    make_phase,
    make_profile,
    make_settings,
    make_values,
    make_workload,
)
from tests.reports import printed, scaled

VARIANTS = ["cpython-3.13", "cpython-2.7-nothreads", "cpython-3.14t", "nogil-3.9"]
CANNOT = Outcome(state=State.UNSUPPORTED, reason="cannot | start threads")
MISSING = Outcome(state=State.UNAVAILABLE, reason="example.org: no such host")


def rounds(seconds: float, factors: Sequence[float]) -> BenchmarkValues:
    return make_values(*([seconds * factor] for factor in factors))


def example() -> tuple[Experiment, list[Table]]:
    """Two benchmarks over four variants: slower, faster, unsupported and unavailable ones."""
    rate = make_benchmark("rate", metric=Metric(label="MB/s", scale=1.0, inverse=True))
    workload = make_workload(benchmarks=[make_benchmark(), rate])
    experiment = make_experiment(
        VARIANTS,
        workloads={"locks": workload},
        images=[*map(make_built, VARIANTS[:3]), make_built("nogil-3.9", MISSING)],
        controls={"cpython-3.14t": "cpython-3.13"},
        order={"locks": [VARIANTS] * 6},
        cells=[
            make_cell("cpython-3.13"),
            make_cell("cpython-2.7-nothreads", outcome=CANNOT),
            make_cell("cpython-3.14t"),
            make_cell("nogil-3.9", outcome=MISSING),
            make_cell("cpython-3.13", mode="twin"),
        ],
    )
    ones, up, down = [1, 1, 1, 1, 1], [1, 0.99, 1, 1.01, 1], [1.02, 1, 1, 0.98, 1]
    values = {
        ("cpython-3.13", "locks"): {"uncontended": rounds(1e-7, ones), "rate": rounds(0.004, ones)},
        ("cpython-3.13+twin", "locks"): {"uncontended": rounds(1e-7, up), "rate": rounds(0.004, down)},
        ("cpython-3.14t", "locks"): {"uncontended": rounds(1.5e-7, up), "rate": rounds(0.00404, down)},
    }
    profiles = {("cpython-3.14t", "locks"): {"uncontended": make_profile(2e-6)}}
    return experiment, comparison.tables(experiment, values, profiles)


def test_a_row_has_its_value_ratios_verdicts_calls_and_state() -> None:
    lock, rate = map(report.benchmark_section, example()[1])
    how = "(all 2 CPUs, 5 rounds, twin 1.000x [0.999, 1.001])"
    assert lock.title == f"locks: uncontended, ns per lock, lower is better {how}"
    assert rate.title == f"locks: rate, MB/s, higher is better {how}"
    assert lock.columns[:4] == ("variant", "ns per lock", "ratio to cpython-3.13", "ratio to control")
    baseline, _, slower, missing = lock.rows
    assert baseline == ("cpython-3.13", "100 ±1%", "baseline", "-", "-", "10", "ok")
    assert slower == (
        "cpython-3.14t",
        "150 ±1%",
        "1.500x [1.499, 1.501] slower",
        "1.500x [1.499, 1.501] slower than cpython-3.13",
        "2 futex",
        "10",
        "ok",
    )
    assert missing == ("nogil-3.9", "-", "-", "-", "-", "-", "unavailable")
    assert rate.rows[2][1:4] == (
        "248 ±1%",
        "1.010x [1.009, 1.011] slower",
        "1.010x [1.009, 1.011] slower than cpython-3.13",
    )


def test_one_round_has_no_interval_and_no_twin_no_ratio_of_it() -> None:
    values = {(name, "locks"): {"uncontended": make_values([1.0])} for name in VARIANTS[:2]}
    experiment = make_experiment(VARIANTS[:2], order={"locks": [VARIANTS[:2]] * 2})
    (section,) = map(report.benchmark_section, comparison.tables(experiment, values, {}))
    assert section.title.endswith("(all 2 CPUs, 1 round, no twin)")
    assert section.rows[1][2] == "1.000x [one round] undecided"


def test_the_answer_comes_first_then_what_changed_then_what_is_open_and_the_rest_is_folded() -> None:
    text = report.markdown(*example())
    headings = [line.removeprefix("## ") for line in text.partition("<details>")[0].splitlines() if line[:3] == "## "]
    assert headings == [CHANGED.capitalize(), OPEN.capitalize(), "Machine and settings", "Summary"]
    assert text.splitlines()[2] == f"**{NOT_KNOWN.sentence}**"
    assert text.index(f"## {report.benchmark_section(example()[1][0]).title}") > text.index("<details>")
    assert text.count("<details>") == text.count("</details>") > 1


def test_the_headline_says_which_release_was_built_in_place_of_the_newest() -> None:
    passed = PassedOver(version="3.13.18", reason="nobody answers")
    older = [make_built(name).model_copy(update={"version": "3.13.15", "passed_over": [passed]}) for name in VARIANTS]
    (line,) = [one for one in report.headline(make_experiment(VARIANTS, images=older)) if one.startswith("version")]
    assert all(word in line for word in (*VARIANTS, "3.13.15", "3.13.18", "nobody answers"))
    assert not [one for one in report.headline(make_experiment(VARIANTS)) if one.startswith("version")]


def test_the_headline_tells_what_ended_the_rounds_and_what_disturbed_them() -> None:
    settings = make_settings(VARIANTS).model_copy(update={"rounds": 5, "rounds_limit": 10})
    lines = report.headline(make_experiment(VARIANTS, settings=settings, warnings=["a neighbour\nstole 5 %"]))
    assert "settings rounds 5 to 10 until decided (quick), seed 7, baseline cpython-3.13 (PGO and LTO unknown)" in lines
    assert lines[-1] == "warning  a neighbour stole 5 %"


def test_the_headline_names_workloads_with_a_lower_round_limit() -> None:
    settings = make_settings(VARIANTS).model_copy(update={"rounds": 5, "rounds_limit": 10})
    workload = make_workload(quick=Repetition(warmups=1, values=2, rounds_limit=8))
    text = "\n".join(report.headline(make_experiment(VARIANTS, settings=settings, workloads={"locks": workload})))
    assert "rounds 5 to 10 (locks at most 8) until decided (quick)" in text


def markdown_tables(text: str) -> dict[str, list[str]]:
    """The lines of each table by the heading above it."""
    tables: dict[str, list[str]] = {}
    heading = ""
    for line in text.splitlines():
        heading = line if line.startswith("## ") else heading
        if line.startswith("|"):
            tables.setdefault(heading, []).append(line)
    return tables


def cells_of(line: str) -> list[str]:
    return re.split(r"(?<!\\)\|", line)[1:-1]


def test_every_variant_is_in_every_table_of_the_markdown() -> None:
    """The baseline is what a summary's ratios are to; only what was profiled is in a table of calls."""
    tables = markdown_tables(report.markdown(*example()))
    compared = [f"## {one.capitalize()}" for one in (CHANGED, OPEN) if f"## {one.capitalize()}" in tables]
    tables = {heading: lines for heading, lines in tables.items() if heading not in compared}
    assert len(tables) == 5
    fewer = {"## Summary": VARIANTS[1:], "## locks: uncontended, system calls futex/1M": ["cpython-3.14t"]}
    for heading, lines in tables.items():
        expected = fewer.get(heading, VARIANTS)
        assert [cells_of(line)[0].strip() for line in lines[2:]] == expected
        assert len({len(cells_of(line)) for line in lines}) == 1


@pytest.mark.promise(escapes=True)
@pytest.mark.parametrize("ending", ["\n", "\r", "\r\n", "\u2028"])
def test_names_and_reasons_begin_no_line_and_no_tag_of_the_markdown(ending: str) -> None:
    forged = ending.join(
        ["it said:", "", "# Forged", "<script>x</script><!-- ", "![x](https://x.example)", "```", "| y"]
    )
    broken = Outcome(state=State.FAILED, reason=forged)
    changes = {"images": [make_built("a", broken)], "cells": [make_cell("a", outcome=broken)], "warnings": [forged]}
    experiment = make_experiment(["a"], **changes)
    text = report.markdown(experiment, comparison.tables(experiment, {}, {}))
    lines = text.splitlines()
    assert len(lines[lines.index("## Skipped, and why") + 2 :]) == 1
    assert all(line.startswith(("- ", "warning")) for line in lines if "Forged" in line)
    assert not re.search(
        r"(?<!\\)<(?!/?(details|summary)>)[A-Za-z/!?]|!\[", text.partition("```")[0] + text.rpartition("```\n")[2]
    )
    assert text.count("\n# ") == 0


def test_a_pipe_in_a_cell_of_the_markdown_is_escaped() -> None:
    label = Metric(label="ns | lock", scale=1)
    workload = make_workload(benchmarks=[make_benchmark(metric=label)])
    experiment = make_experiment(["a"], workloads={"locks": workload})
    tables = markdown_tables(report.markdown(experiment, comparison.tables(experiment, {}, {})))
    (lines,) = (lines for heading, lines in tables.items() if heading.startswith("## locks: "))
    assert cells_of(lines[0])[1] == " ns \\| lock "
    assert len({len(cells_of(line)) for line in lines}) == 1


def test_where_nothing_was_skipped_the_report_says_so() -> None:
    experiment = make_experiment(["a"])
    assert report.markdown(experiment, []).endswith("## Skipped, and why\n\n- nothing\n")


@pytest.mark.parametrize("width", [80, 200])
def test_the_terminals_report_fits_and_holds_every_variant_and_verdict(width: int) -> None:
    shown = printed(report.terminal(*example()), width)
    lines = shown.splitlines()
    assert max(len(line) for line in lines) <= width
    for name in VARIANTS:
        assert sum(line.startswith(f"{name} ") for line in lines) == (3 if name == VARIANTS[0] else 4), name
    assert {"slower", "difference", "baseline", "unsupported", "unavailable"} <= {*shown.split()}


def test_the_headline_names_the_probe_what_it_lacks_and_the_harness_share() -> None:
    probe = Probe(method=Method.STRACE_FUTEX, refused={Method.BPF: "no BPF here"})
    lines = report.headline(make_experiment(probe=probe, measuring_s=200, in_processes_s=188))
    (probed,) = [line for line in lines if line.startswith("probe ")]
    assert all(part in probed for part in ("strace", "not bpf: no BPF here"))
    (harness,) = [line for line in lines if line.startswith("harness ")]
    assert all(part in harness for part in ("6%", "200 s"))


def profile_row(profile: BenchmarkProfile) -> dict[str, str]:
    experiment = make_experiment()
    tables = comparison.tables(experiment, {}, {("cpython-3.14t", "locks"): {"uncontended": profile}})
    (section,) = report.profile_sections(tables)
    assert section.title == "locks: uncontended, system calls futex/1M"
    (row,) = section.rows
    return dict(zip(section.columns, row, strict=True))


def test_a_profile_shows_calls_waits_and_wakes_for_nothing_per_unit_of_work() -> None:
    wait = FutexCounts(calls=3, ns=6_000_000, max_ns=4_000_000, errors=1, woke_nobody=0)
    wake = FutexCounts(calls=5, ns=1, max_ns=1, errors=0, woke_nobody=4)
    work = make_phase(futex=8, read=2).model_copy(
        update={"futex": {"wait_bitset": wait, "wake": wake}, "locks_waited_for": 2}
    )
    profile = make_profile(units=1_000_000, phases={"work": work})
    assert profile_row(profile) == {
        "variant": "cpython-3.14t",
        "calls": "10",
        "most calls": "futex 8, read 2",
        "failed": "0",
        "futex wait": "3",
        "futex wake": "5",
        "woke nobody": "4",
        "waited ms": "6",
        "longest wait ms": "4",
        "locks waited for": "2",
        "probe": "bpf",
    }


def test_a_profile_of_strace_has_dashes_where_strace_tells_nothing() -> None:
    phases = {"whole": make_phase(futex=12), "setup": make_phase(futex=2)}
    counted = make_profile(method="strace-futex", units=1_000_000, phases=phases, counted="whole", deducted="setup")
    row = profile_row(counted)
    assert (row["calls"], row["most calls"], row["futex wait"], row["probe"]) == ("-", "futex 10", "-", "strace-futex")


def test_a_profile_names_the_calls_that_are_made_most_often_without_those_of_the_set_up() -> None:
    whole = make_phase(poll=90, rt_sigprocmask=200, read=50, futex=7, write=7, brk=3)
    phases = {"whole": whole, "setup": make_phase(read=50, brk=1)}
    counted = make_profile(units=1_000_000, phases=phases, counted="whole", deducted="setup")
    assert profile_row(counted)["most calls"] == "rt_sigprocmask 200, poll 90, futex 7, write 7"


def curves_of(cores: int) -> CurveGroup:
    experiment, tables = scaled(3, cores)
    (group,) = curve_groups(experiment, tables)
    return group


def test_the_table_of_curves_marks_more_workers_than_cores_and_ends_with_the_limit() -> None:
    section = report.curves_section(curves_of(cores=2))
    assert section.columns == ("variant", "1", "2", "4 (> 2 cores)", "8 (> 2 cores)", "best gain over 1")
    assert [row[-1] for row in section.rows] == ["1.00x at 1", "1.48x at 8", "1.94x at 8", "-"]
    assert section.rows[-1][0] == "best limit"


BASE, OTHER = "cpython-3.13", "cpython-3.14t"
FAILED = Outcome(state=State.FAILED, reason="it crashed")
LATE = Outcome(state=State.TIMED_OUT, reason="it had not ended")


def test_everything_without_a_figure_has_a_line_with_its_reason() -> None:
    """Without the twin there is no noise to compare with."""
    experiment = make_experiment(
        [BASE, OTHER, "nogil-3.9"],
        images=[make_built(BASE), make_built(OTHER), make_built("nogil-3.9", MISSING)],
        cells=[
            make_cell(BASE, outcome=LATE, benchmarks={"queue": LATE, "uncontended": OK}),
            make_cell(OTHER, outcome=CANNOT, benchmarks={"queue": CANNOT, "uncontended": CANNOT}, profile=FAILED),
            make_cell("nogil-3.9", outcome=MISSING),
            make_cell(BASE, mode="twin", outcome=FAILED),
        ],
    )
    assert report.skipped(experiment) == [
        f"nogil-3.9: unavailable: {MISSING.reason}",
        "locks/queue on cpython-3.13: timed out: it had not ended",
        f"locks on cpython-3.14t: unsupported: {CANNOT.reason}",
        "locks on cpython-3.13+twin: failed: it crashed",
        "locks on cpython-3.14t: no profile: it crashed",
    ]


def test_only_what_failed_is_a_failure() -> None:
    cells: list[CellResult] = [make_cell("v", outcome=outcome) for outcome in (OK, CANNOT, FAILED, LATE, MISSING)]
    assert report.failed_cells(cells) == [cells[2]]


def test_a_lock_cost_is_told_by_what_makes_the_calls_and_has_its_time_where_it_is_known() -> None:
    cost = LockCost({"futex": 0.062, "sched_yield": 6.56, "pth": 0.0}, 46_700.0)
    assert report.lock_cost_text(cost) == "0.062 futex + 6.56 sched_yield, 0.0467 ms"
    assert report.lock_cost_text(cost, 1000) == "62 futex + 6,560 sched_yield, 46.7 ms"
    assert report.lock_cost_text(LockCost({"futex": 0.0}, 0.0)) == "0"
    assert report.lock_cost_text(LockCost({"futex": 2.0}, None)) == "2 futex"
    assert re.match(r"2 futex \(.*\)$", report.lock_cost_text(LockCost({"futex": 2.0}, None, futex_alone=True)))


def test_a_benchmark_that_names_its_calls_shows_their_number() -> None:
    profile = make_profile(units=1, phases={"work": make_phase(futex=3, openat=5)})
    for names, text in ((["futex"], "3 futex"), (["openat"], "5"), ("all", "8")):
        benchmark = make_benchmark(profile_syscalls=names, profile_metric={"label": "calls per start", "scale": 1})
        assert report.calls_text(benchmark, profile) == text
    assert report.calls_text(make_benchmark(), None) == "-"
