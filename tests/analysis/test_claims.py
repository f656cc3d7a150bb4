"""A claim's effect has a direction here and a size beside the published one, and what cannot be said has a reason."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache
from statistics import stdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.analysis.claims import (
    MIN_ROUNDS,
    TICK_S,
    ClaimVerdict,
    Finding,
    allowed_range,
    allowed_text,
    disturbances,
    evaluate,
    figure_text,
    figures_by_block,
    subjects_of,
    with_substitutes,
)
from interlock.analysis.comparison import Contents
from interlock.analysis.statistics import Ratio
from interlock.analysis.verdicts import compare_rows
from interlock.catalog import project as catalogs
from interlock.catalog.claims import Bound, Claim, ClaimMetric, ClaimsFile
from interlock.catalog.types import split_label
from interlock.results import store
from interlock.results.experiments import BenchmarkValues, Experiment, Outcome, RoundsEnd, State, Values
from interlock.results.profiles import BenchmarkProfile
from tests.builders import (
    OK,
    ROOT,
    make_benchmark,
    make_built,
    make_cell,
    make_claim,
    make_experiment,
    make_phase,
    make_profile,
    make_values,
    make_workload,
    present,
)

LOCKS = make_workload(benchmarks=[make_benchmark("uncontended"), make_benchmark("queue")])
CELLS = {"cells": [make_cell("a"), make_cell("b"), make_cell("a", mode="slow")], "workloads": {"locks": LOCKS}}


@cache
def shipped() -> list[Claim]:
    return [*catalogs.load_claims(ROOT).claims.values()]


def experiment(**changes: Any) -> Experiment:
    return make_experiment(["a", "b"], **(CELLS | changes))


def judge(
    claim: Claim,
    values: Mapping[str, BenchmarkValues] | None = None,
    profiles: Mapping[str, BenchmarkProfile] | None = None,
    **changes: Any,
) -> Finding:
    """The finding on one claim; values and profiles are of the benchmark 'uncontended', by label."""
    cells = {(label, "locks"): {"uncontended": one} for label, one in (values or {}).items()}
    profiled = {(label, "locks"): {"uncontended": one} for label, one in (profiles or {}).items()}
    (finding,) = evaluate([claim], Contents(experiment(**changes), cells, profiled))
    return finding


def by_round(*ratios: float) -> dict[str, BenchmarkValues]:
    """Values of a and b whose ratio is this one in each round."""
    return {"a": make_values(*([ratio] for ratio in ratios)), "b": make_values(*([1.0] for _ in ratios))}


def steadily(ratio: float) -> dict[str, BenchmarkValues]:
    """The same in each of five rounds, the fewest that decide anything."""
    return by_round(*[ratio] * 5)


def with_cpu(user_s: list[float], sys_s: list[float], units: int = 1) -> BenchmarkValues:
    """Processes with these CPU times, and the same twice more: enough rounds to decide."""
    figures = {"user_s": user_s * 3, "sys_s": sys_s * 3, "units": [units] * len(sys_s) * 3}
    return make_values(*([1.0] for _ in sys_s * 3)).model_copy(update=figures)


CONFIRMED, STRONGER, WEAKER = ClaimVerdict.CONFIRMED, ClaimVerdict.STRONGER, ClaimVerdict.WEAKER
NO_EFFECT, OPPOSITE = ClaimVerdict.NO_EFFECT, ClaimVerdict.OPPOSITE


@pytest.mark.parametrize(
    ("published", "bound", "verdicts"),
    [
        (0.5, "exact", {0.44: STRONGER, 0.46: CONFIRMED, 0.54: CONFIRMED, 0.56: WEAKER, 0.98: WEAKER}),
        (0.5, "exact", {1.0: NO_EFFECT, 1.02: OPPOSITE, 2.0: OPPOSITE}),
        (0.5, "at-most", {0.01: CONFIRMED, 0.54: CONFIRMED, 0.56: WEAKER, 1.2: OPPOSITE}),
        (2.0, "exact", {3.0: STRONGER, 1.5: WEAKER}),
        (2.0, "at-least", {9.0: CONFIRMED, 1.5: WEAKER, 1.0: NO_EFFECT, 0.5: OPPOSITE}),
        # A claim of no effect is confirmed by none and contradicted by one.
        (1.0, "exact", {1.01: CONFIRMED, 0.8: OPPOSITE}),
        (1.0, "at-most", {0.2: CONFIRMED, 1.5: OPPOSITE}),
        (1.0, "at-least", {0.5: OPPOSITE}),
    ],
)
def test_a_ratio_has_a_direction_and_a_size(published: float, bound: str, verdicts: dict[float, ClaimVerdict]) -> None:
    claim = make_claim(published=published, tolerance=0.1, bound=Bound(bound))
    assert {ratio: judge(claim, steadily(ratio)).verdict for ratio in verdicts} == verdicts


@pytest.mark.parametrize(
    "warning",
    [
        "locks: 8.5% of the CPU time was stolen (a busy neighbour on the physical host): repeat at another time.",
        "locks: other processes used 36% of a core (make 34%): stop them, and repeat.",
        "locks: the processor throttled itself 3 times because of heat: improve its cooling, and repeat.",
    ],
)
def test_figures_that_were_disturbed_are_shown_and_judge_nothing(warning: str) -> None:
    """In an experiment 8.5 % of whose CPU time was stolen, start-up claims were judged all the same."""
    finding = judge(make_claim(published=0.5, tolerance=0.1), steadily(0.5), warnings=[warning])
    assert finding.verdict is ClaimVerdict.NO_DATA
    assert present(finding.ratio).estimate == pytest.approx(0.5)
    assert warning.removeprefix("locks: ").partition(": ")[0] in finding.reason


@pytest.mark.parametrize(
    "warning",
    [
        "startup: 8.5% of the CPU time was stolen by other guests: repeat at another time.",
        "locks: in 'queue' more processes than a sixth were 1.2 times as slow as their cell's median: repeat.",
    ],
)
def test_a_warning_about_another_workload_or_a_cells_values_is_no_disturbance(warning: str) -> None:
    finding = judge(make_claim(published=0.5, tolerance=0.1), steadily(0.5), warnings=[warning])
    assert finding.verdict is ClaimVerdict.CONFIRMED


def test_counts_are_not_disturbed_by_what_takes_time() -> None:
    stolen = ["locks: 8.5% of the CPU time was stolen by other guests: repeat at another time."]
    claim = make_claim(metric="futex", against=None, published=0, tolerance=0)
    assert judge(claim, profiles={"a": make_profile(0.0)}, warnings=stolen).verdict is ClaimVerdict.CONFIRMED


def block_ratios(claim: Claim, values: Values) -> list[float]:
    """Logarithms of the ratio of a claim's two sides in each block that both have, paired by the block alone."""
    figures = []
    for side in subjects_of(claim):
        measured = values[side.key][side.benchmark]
        blocks = list(dict.fromkeys(measured.blocks))
        figures.append(dict(zip(blocks, figures_by_block(claim.metric, measured), strict=True)))
    mine, theirs = figures
    return [math.log(mine[block] / theirs[block]) for block in mine.keys() & theirs.keys()]


def is_too_narrow(ratio: Ratio, logs: list[float]) -> bool:
    """Whether an interval is narrower than one standard error of what its blocks say: 95 % is two or more."""
    return math.log(ratio.high / ratio.low) / 2 < stdev(logs) / math.sqrt(len(logs))


def test_no_reference_judges_from_disturbed_rounds_or_with_an_interval_narrower_than_its_noise() -> None:
    """1.52 [1.52, 1.53] was said of four blocks whose ratios were 1.3 to 1.7."""
    judged = 0
    for folder in sorted(path.parent for path in (ROOT / "results/reference").glob("*/experiment.json")):
        described = store.read_experiment(folder)
        values, profiles = store.read_cells(folder, described)
        for one in evaluate(shipped(), Contents(described, values, profiles)):
            if one.ratio and not one.verdict.silent:
                judged += 1
                assert disturbances(described, one.claim.workload) == [], (folder.name, one.claim.name)
                used = with_substitutes(one.claim, described)
                assert not is_too_narrow(one.ratio, block_ratios(used, values)), (folder.name, one.claim.name)
    assert judged > 50


def test_an_interval_of_one_matching_block_is_too_narrow() -> None:
    """That of download-process-queue before it was paired by block, and what it is."""
    logs = [math.log(ratio) for ratio in (1.31, 1.52, 1.36, 1.69)]
    assert is_too_narrow(Ratio(1.52, 1.52, 1.53, p=0.0, rounds=1, error=0.003, freedom=1.0), logs)
    assert not is_too_narrow(Ratio(1.47, 1.23, 1.75, p=0.0, rounds=4, error=0.09, freedom=3.0), logs)


def test_a_substitute_is_judged_where_the_variant_has_no_figure_and_is_named() -> None:
    claim = make_claim(published=0.5, tolerance=0.1, variant="lost", substitutes={"lost": "a"})
    finding = judge(claim, steadily(0.5))
    assert finding.verdict is ClaimVerdict.CONFIRMED
    assert all(part in finding.reason for part in ("5 rounds", "0.450 to 0.550", "a substitutes for lost"))
    assert finding.claim.variant == "lost"


def test_a_variant_that_has_a_figure_needs_no_substitute_and_one_without_a_figure_is_none() -> None:
    claim = make_claim(published=0.5, tolerance=0.1, substitutes={"a": "b"})
    assert "substitutes" not in judge(claim, steadily(0.5)).reason
    lost = make_claim(published=0.5, tolerance=0.1, variant="lost", substitutes={"lost": "gone"})
    finding = judge(lost, steadily(0.5))
    assert finding.verdict is ClaimVerdict.NO_DATA
    assert "'lost'" in finding.reason


def test_both_sides_are_replaced_where_one_must_be_for_substitutes_are_of_one_style() -> None:
    """3.11 with PGO and LTO was judged against a 3.6 of pyenv's without."""
    values = {**steadily(0.5), "optimised": steadily(0.5)["a"]}
    claim = make_claim(
        published=0.5, tolerance=0.1, variant="optimised", against="lost", substitutes={"optimised": "a", "lost": "b"}
    )
    finding = judge(claim, values)
    assert finding.verdict is ClaimVerdict.CONFIRMED
    assert all(part in finding.reason for part in ("a substitutes for optimised", "b substitutes for lost"))
    half = judge(claim.model_copy(update={"substitutes": {"lost": "b"}}), values)
    assert "substitutes for optimised" not in half.reason


def test_substitutes_of_a_file_are_every_claims_but_of_those_with_their_own() -> None:
    claim = make_claim().model_dump(exclude={"name", "substitutes"})
    claims = {"one": claim, "other": {**claim, "substitutes": {"a": "c"}}}
    read = ClaimsFile.model_validate({"substitutes": {"a": "b"}, "claims": claims}).claims
    assert (read["one"].substitutes, read["other"].substitutes) == ({"a": "b"}, {"a": "c"})


def test_the_reason_says_after_how_many_rounds_and_what_the_claim_allows() -> None:
    finding = judge(make_claim(published=0.5, tolerance=0.1), steadily(0.8))
    assert all(part in finding.reason for part in ("5 rounds", "faster", "0.450 to 0.550"))
    assert finding.figure == "0.800 [0.800, 0.800]"


def test_whether_stronger_is_undecided_while_the_interval_reaches_the_claim() -> None:
    finding = judge(make_claim(published=0.5, tolerance=0.0), by_round(0.45, 0.55, 0.45, 0.55, 0.6))
    assert present(finding.ratio).low < 0.5 < present(finding.ratio).estimate
    assert finding.verdict is ClaimVerdict.UNDECIDED
    assert all(part in finding.reason for part in ("5 rounds", "faster", "0.500"))


@pytest.mark.parametrize("published", [0.8, 0.5])
def test_what_shows_neither_an_effect_nor_none_is_undecided_wherever_the_claim_lies(published: float) -> None:
    finding = judge(make_claim(published=published, tolerance=0.1), by_round(0.6, 1.2, 0.7, 0.6, 1.2))
    assert finding.verdict is ClaimVerdict.UNDECIDED
    assert "more round" in finding.reason


def test_what_is_the_same_within_the_workloads_margin_is_no_effect() -> None:
    figures, claim = by_round(0.99, 1.01, 1.0, 0.99, 1.01), make_claim(published=0.5, tolerance=0.1)
    assert judge(claim, figures).verdict is ClaimVerdict.NO_EFFECT
    workload = LOCKS.model_copy(update={"margin": 0.005})
    assert judge(claim, figures, workloads={"locks": workload}).verdict is ClaimVerdict.UNDECIDED


def test_a_claim_of_hardly_any_effect_is_confirmed_by_no_effect() -> None:
    assert (
        judge(make_claim(published=1.018, tolerance=0.05), by_round(0.99, 1.01, 1.0, 0.99, 1.01)).verdict
        is ClaimVerdict.CONFIRMED
    )


def test_the_ratio_is_that_of_the_workloads_table() -> None:
    values = by_round(0.7, 0.8, 0.75, 0.72, 0.79) | {"a+slow": make_values([3.0], [3.2], [3.1], [3.0], [3.3])}
    finding = judge(make_claim(), values)
    rows = {label: one.figures for label, one in values.items()}
    assert finding.ratio == compare_rows(rows, [("a", "b")], "b", end=RoundsEnd.FIXED)["a", "b"].ratio


@pytest.mark.parametrize("published", [0.5, 1.0])
@pytest.mark.parametrize("rounds", [1, 2])
def test_fewer_rounds_than_the_first_look_are_no_data_yet(published: float, rounds: int) -> None:
    finding = judge(make_claim(published=published, tolerance=0.1), by_round(*[published] * rounds))
    assert finding.verdict is ClaimVerdict.NO_DATA
    assert [int(number) for number in re.findall(r"\b[0-9]+\b", finding.reason)] == [rounds, MIN_ROUNDS]


positive = st.floats(min_value=0.01, max_value=100)


@given(positive, st.floats(min_value=0, max_value=2), st.sampled_from(Bound), positive)
def test_a_ratio_without_spread_is_confirmed_exactly_where_the_claim_allows_it(
    published: float, tolerance: float, bound: Bound, ratio: float
) -> None:
    claim = make_claim(published=published, tolerance=tolerance, bound=bound)
    low, high = allowed_range(claim)
    assert low <= published <= high
    finding = judge(claim, steadily(ratio))
    ends = (low, high, 1.0)
    if any(math.isclose(ratio, end, rel_tol=1e-3) for end in ends):
        return  # Nothing is known better than the least error of a figure.
    assert (finding.verdict is ClaimVerdict.CONFIRMED) == (low <= ratio <= high)
    assert finding.verdict is not ClaimVerdict.UNDECIDED
    if not low <= 1 <= high:
        assert (finding.verdict is ClaimVerdict.OPPOSITE) == ((ratio > 1) != (published > 1))


@pytest.mark.parametrize(
    ("metric", "mine", "theirs", "ratio"),
    [
        ("user", with_cpu([4.0, 4.0], [0.4, 0.4], units=2), with_cpu([1.0, 1.0], [0.4, 0.4]), 2.0),
        ("sys", with_cpu([4.0, 4.0], [0.4, 0.4], units=2), with_cpu([1.0, 1.0], [0.4, 0.4]), 0.5),
        ("cpu", with_cpu([3.0, 3.0], [1.0, 1.0]), with_cpu([1.0, 1.0], [1.0, 1.0]), 2.0),
        ("sys-share", with_cpu([8.0, 8.0], [2.0, 2.0]), with_cpu([2.0, 2.0], [8.0, 8.0]), 0.25),
        # A time between two ticks counts as one.
        ("sys", with_cpu([1.0, 1.0], [0.0, TICK_S]), with_cpu([1.0, 1.0], [0.4, 0.4]), 0.01),
    ],
)
def test_cpu_time_is_of_the_work_that_a_process_did(
    metric: str, mine: BenchmarkValues, theirs: BenchmarkValues, ratio: float
) -> None:
    finding = judge(make_claim(metric=metric, published=ratio, tolerance=0.01), {"a": mine, "b": theirs})
    assert finding.verdict is ClaimVerdict.CONFIRMED, finding.reason
    assert present(finding.ratio).estimate == pytest.approx(ratio)


def test_the_kernels_time_of_the_work_leaves_start_and_exit_out() -> None:
    start, work = [0.5, 0.5], {"a": [0.1, 0.1], "b": [0.4, 0.4]}
    values = {
        label: with_cpu([1.0, 1.0], [start[0] + work[label][0]] * 2).model_copy(
            update={"reported": {"work_sys_s": work[label] * 3}}
        )
        for label in work
    }
    claim = make_claim(metric="work-sys", published=0.25, tolerance=0.01)
    assert judge(claim, values).verdict is ClaimVerdict.CONFIRMED
    assert judge(claim, steadily(0.25)).verdict is ClaimVerdict.NO_DATA


@pytest.mark.parametrize(("published", "verdict"), [(0, ClaimVerdict.CONFIRMED), (1, ClaimVerdict.OPPOSITE)])
def test_what_does_not_end_does_not_work_and_what_was_not_measured_is_not_known(
    published: float, verdict: ClaimVerdict
) -> None:
    claim = make_claim(metric="works", against=None, published=published, tolerance=0)
    outcome = Outcome(state=State.TIMED_OUT, reason="it hangs.")
    hangs = judge(claim, cells=[make_cell("a", outcome=outcome, benchmarks={"uncontended": outcome, "queue": OK})])
    assert (hangs.verdict, hangs.count) == (verdict, 0)
    assert "it hangs" in hangs.reason
    assert judge(claim).count == 1
    skipped = Outcome(state=State.NOT_MEASURED, reason="the budget came first")
    assert judge(claim, cells=[make_cell("a", outcome=skipped)]).verdict is ClaimVerdict.NOT_TESTABLE


@pytest.mark.parametrize(
    ("published", "bound", "calls", "verdict"),
    [
        (500_000, Bound.EXACT, 0.5, CONFIRMED),
        (520_000, Bound.EXACT, 0.5, WEAKER),
        (480_000, Bound.EXACT, 0.5, STRONGER),
        (20_000_000, Bound.EXACT, 0.5, NO_EFFECT),
        (0, Bound.EXACT, 0.5, OPPOSITE),
        (0, Bound.EXACT, 0.0, CONFIRMED),
        (100_000, Bound.AT_MOST, 0.5, OPPOSITE),
    ],
)
def test_a_count_is_calls_per_unit_times_scale_and_compared_directly(
    published: float, bound: Bound, calls: float, verdict: ClaimVerdict
) -> None:
    claim = make_claim(metric="futex", against=None, scale=1e6, published=published, tolerance=0.01, bound=bound)
    finding = judge(claim, profiles={"a": make_profile(calls)})
    assert finding.verdict is verdict
    assert (finding.count, finding.figure) == ((500_000, "500,000") if calls else (0, "0"))


def test_named_system_calls_are_counted_and_two_counts_have_a_ratio() -> None:
    claim = make_claim(metric="syscalls", syscalls=["futex", "futex_wait"], published=0.25, tolerance=0)
    finding = judge(claim, profiles={"a": make_profile(0.5), "b": make_profile(2.0)})
    assert finding.verdict is ClaimVerdict.CONFIRMED
    assert finding.count == 0.25


def test_calls_that_the_probe_did_not_count_are_not_0() -> None:
    phases = {"whole": make_phase(futex=3), "setup": make_phase()}
    probe = make_profile(method="strace-futex", phases=phases, counted="whole", deducted="setup")
    claim = make_claim(metric="syscalls", syscalls=["stat"], against=None, published=0, bound="at-most")
    finding = judge(claim, profiles={"a": probe})
    assert finding.verdict is ClaimVerdict.NOT_TESTABLE
    assert all(part in finding.reason for part in ("a / locks / uncontended", "futex"))


def test_a_ratio_to_no_call_is_none() -> None:
    claim = make_claim(metric="futex", published=0.25)
    finding = judge(claim, profiles={"a": make_profile(0.5), "b": make_profile(0.0)})
    assert finding.verdict is ClaimVerdict.NOT_TESTABLE


def test_two_benchmarks_of_one_variant_are_paired_by_block_whatever_parts_their_blocks_were_split_into() -> None:
    """By block and part only one block of this pair matched: 1.52 [1.52, 1.53] was said where 1.47 [1.23, 1.75] is."""
    mine, theirs = make_values([2.0], [2.2], [4.0], [1.8], [2.0]), make_values(*[[1.0]] * 5)
    cell = {
        "uncontended": mine.model_copy(update={"groups": [1, 2, 1, 2, 1]}),
        "queue": theirs.model_copy(update={"groups": [2, 2, 2, 1, 2]}),
    }
    claim = make_claim(against="a", against_benchmark="queue", published=2.0)
    (finding,) = evaluate([claim], Contents(experiment(), {("a", "locks"): cell}, {}))
    ratio = present(finding.ratio)
    assert ratio.rounds == 5
    assert ratio.low < 1.9
    assert ratio.high > 2.3


def test_a_mode_is_not_its_variant() -> None:
    claim = make_claim(variant="a+slow", published=3.0, tolerance=0.01)
    values = steadily(1.0) | {"a+slow": make_values(*[[3.0]] * 5)}
    assert judge(claim, values).verdict is ClaimVerdict.CONFIRMED


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"workload": "import-stdlib"}, ["'import-stdlib'"]),
        ({"benchmark": "queues"}, ["'locks'", "'queues'"]),
        ({"against_benchmark": "queues"}, ["'locks'", "'queues'"]),
        ({"variant": "c"}, ["'c'"]),
        ({"against": "b+slow"}, ["'b+slow'"]),
        ({"benchmark": "queue"}, ["a / locks / queue", "'time'"]),
        ({"metric": "futex"}, ["a / locks / uncontended"]),
    ],
)
def test_what_was_not_measured_is_named(changes: dict[str, Any], named: list[str]) -> None:
    finding = judge(make_claim(**changes), steadily(1.0))
    assert finding.verdict is ClaimVerdict.NO_DATA
    assert all(one in finding.reason for one in named), finding.reason
    assert finding.figure == "-"


@pytest.mark.parametrize("state", [State.FAILED, State.TIMED_OUT, State.UNSUPPORTED])
def test_a_cell_that_has_no_figure_gives_its_reason(state: State) -> None:
    outcome = Outcome(state=state, reason="it hangs.")
    cells = [make_cell("a"), make_cell("b", outcome=outcome, benchmarks={"uncontended": outcome, "queue": OK})]
    finding = judge(make_claim(), steadily(1.0), cells=cells)
    assert finding.verdict is ClaimVerdict.NOT_TESTABLE
    assert finding.reason == f"b / locks / uncontended: {state.value}: it hangs"


def test_the_reason_of_a_cell_is_that_of_the_benchmark_in_question() -> None:
    failed = Outcome(state=State.FAILED, reason="it crashed")
    cells = [make_cell("a"), make_cell("b", outcome=failed, benchmarks={"uncontended": OK, "queue": failed})]
    claim = make_claim(published=1.0, tolerance=0.1)
    assert judge(claim, steadily(1.0), cells=cells).verdict is ClaimVerdict.CONFIRMED


@pytest.mark.parametrize("label", ["b", "b+slow"])
def test_a_variant_that_could_not_be_built_gives_the_reason_of_its_build(label: str) -> None:
    missing = Outcome(state=State.UNAVAILABLE, reason="no source answers")
    images, cells = [make_built("a"), make_built("b", missing)], [make_cell("a")]
    finding = judge(make_claim(against=label), steadily(1.0), images=images, cells=cells)
    assert finding.verdict is ClaimVerdict.NOT_TESTABLE
    assert finding.reason == "b: unavailable: no source answers"


def test_a_profile_that_failed_gives_its_reason() -> None:
    cells = [make_cell("a", profile=Outcome(state=State.FAILED, reason="no ptrace")), make_cell("b")]
    finding = judge(make_claim(metric="futex", against=None), cells=cells)
    assert finding.verdict is ClaimVerdict.NOT_TESTABLE
    assert all(part in finding.reason for part in ("a / locks / uncontended", "no ptrace"))


@pytest.mark.parametrize(
    ("needs", "reason"),
    [
        ({"min_cores": 11}, "2 of 11 cores: because"),
        ({"system": "macOS"}, "Debian 13 is not macOS: because"),
    ],
)
def test_a_host_that_lacks_what_a_claim_needs_cannot_test_it_whatever_it_measured(
    needs: dict[str, Any], reason: str
) -> None:
    claim = make_claim(published=0.1, tolerance=0.1, needs={**needs, "reason": "because"})
    finding = judge(claim, steadily(1.0))
    assert (finding.verdict, finding.reason) == (ClaimVerdict.NOT_TESTABLE, reason)
    assert finding.figure == "1.00 [1.00, 1.00]"
    assert judge(claim, cells=[]).reason == reason


@pytest.mark.parametrize("needs", [{"min_cores": 2}, {"system": "debian"}])
def test_a_host_that_has_what_a_claim_needs_tests_it(needs: dict[str, Any]) -> None:
    claim = make_claim(published=0.1, tolerance=0.1, needs={**needs, "reason": "because"})
    assert judge(claim, steadily(1.0)).verdict is ClaimVerdict.NO_EFFECT


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"against": None}, "'against'"),
        ({"against": None, "metric": "futex", "against_benchmark": "queue"}, "'against'"),
        ({"against": "a"}, "'variant'.*'against'.*'against_benchmark'"),
        ({"against": "a", "against_benchmark": "uncontended"}, "'variant'.*'against'.*'against_benchmark'"),
        ({"published": 0}, r"\b0\b"),
        ({"metric": "syscalls"}, "'syscalls'"),
        ({"metric": "detail", "against": None}, "'detail'"),
        ({"syscalls": ["stat"]}, "'syscalls'"),
        ({"variant": "a+b+c"}, r"(?m)^variant$"),
        ({"needs": {"min_cores": 4}}, r"(?m)^needs\.reason$"),
    ],
)
def test_a_claim_that_compares_nothing_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_claim(**changes)


def test_every_statement_of_the_five_sources_is_judged_or_has_the_reason_why_not() -> None:
    read = catalogs.load_claims(ROOT)
    assert len(read.claims) + len(read.apart) + len(read.untested) >= 73
    assert {one.source.title for one in read.untested.values()} == {one.title for one in read.sources.values()}


def test_every_shipped_claim_has_a_source_of_the_file_and_a_statement_that_is_a_sentence() -> None:
    assert len(shipped()) >= 25
    assert len({claim.name for claim in shipped()}) == len(shipped())
    assert {claim.source.date[:4] for claim in shipped()} == {"2007", "2018", "2023"}
    for claim in shipped():
        assert claim.source.author
        assert claim.source.title
        assert re.fullmatch(r"[A-Z0-9].+\.", claim.statement), claim.name


def test_a_shipped_claim_is_about_what_the_catalog_has_or_will_have() -> None:
    """A misspelt name would be 'no data yet' for ever."""
    known = catalogs.load(ROOT)
    there = {label for variant in known.variants.values() for label in variant.labels}
    there |= {f"{name} / {one.name}" for name, workload in known.workloads.items() for one in workload.benchmarks}
    named = {label for claim in shipped() for label in (claim.variant, claim.against) if label}
    named |= {label for claim in shipped() for pair in claim.substitutes.items() for label in pair}
    named |= {f"{side.workload} / {side.benchmark}" for claim in shipped() for side in subjects_of(claim)}
    assert named <= there


def test_without_figures_there_is_no_data_yet_on_any_shipped_claim() -> None:
    known = catalogs.load(ROOT)
    cells = [
        make_cell(variant.name, workload, mode=split_label(label)[1])
        for variant in known.variants.values()
        for label in variant.labels
        for workload in known.workloads
    ]
    described = make_experiment(list(known.variants), workloads=known.workloads, cells=cells)
    figures = [claim for claim in shipped() if claim.metric is not ClaimMetric.WORKS]
    for finding in evaluate(figures, Contents(described, {}, {})):
        lacking = finding.claim.needs is not None
        assert finding.verdict is (ClaimVerdict.NOT_TESTABLE if lacking else ClaimVerdict.NO_DATA), finding


def test_every_key_of_a_claim_is_explained() -> None:
    text = (ROOT / "docs/claims.md").read_text(encoding="utf-8")
    keys = {*Claim.model_fields, *ClaimsFile.model_fields} - {"name"}
    assert [key for key in keys if f"`{key}`" not in text and f"[{key}." not in text] == []


@pytest.mark.parametrize(("figure", "text"), [(0.5, "0.500"), (99.94, "99.9"), (99.96, "100"), (1234.5, "1,234")])
def test_a_figure_has_three_digits_and_no_point_behind_the_last(figure: float, text: str) -> None:
    """99.96 was '100.'"""
    assert figure_text(figure) == text


@pytest.mark.parametrize(
    ("bound", "ends", "text"),
    [
        (Bound.EXACT, (0.45, 0.55), "0.450 to 0.550"),
        (Bound.AT_MOST, (0.0, 0.55), "at most 0.550"),
        (Bound.AT_LEAST, (0.45, math.inf), "at least 0.450"),
    ],
)
def test_what_a_claim_allows_is_a_range_or_a_limit(bound: Bound, ends: tuple[float, float], text: str) -> None:
    claim = make_claim(bound=bound)
    assert allowed_range(claim) == pytest.approx(ends)
    assert allowed_text(claim) == text
