"""The answer of a pick: whom it switches to, what it says of costs, machines and next steps."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from interlock.analysis.pick.advice import (
    ImageHere,
    OwnDockerfile,
    Ranking,
    ThisMachine,
    advise,
    decide,
    decide_with_audits,
    machine_differences,
    machine_text,
    speed_of,
)
from interlock.analysis.pick.evidence import Evidence
from interlock.analysis.pick.exclusions import LocalImage
from interlock.analysis.pick.sentences import as_measured, provenance, ratio_text, throughput_text
from interlock.analysis.statistics import Interval
from interlock.engine import machine
from interlock.results.answers import (
    Decision,
    Estimate,
    MachineDifference,
    ModuleImport,
    Origin,
    PackageAudit,
    Pick,
    Standing,
    VariantAudit,
)
from interlock.results.experiments import TOO_DISTURBED, Outcome, State
from tests.builders import (
    OK,
    make_benchmark,
    make_built,
    make_experiment,
    make_facts,
    make_settings,
    make_workload,
    present,
)
from tests.picks import SIX, Figures, make_evidence, noisy, queue

THERE: dict[str, Any] = {
    "folder": "box",
    "name": "box",
    "cores": 2,
    "cpu": "Example CPU 9000",
    "memory_bytes": 8 * 2**30,
    "kernel": "6.18.0",
    "system": "Debian 13",
    "load_1min": 0.1,
    "engine": {"name": "docker", "version": "28.0", "storage_driver": "overlay2"},
}


def here(engine: dict[str, Any] | None = None, **changes: Any) -> ThisMachine:
    host_facts = {key: value for key, value in THERE.items() if key != "engine"} | changes
    return ThisMachine(host_facts, THERE["engine"] if engine is None else engine)


def test_a_machine_is_described_in_one_line() -> None:
    assert machine_text(THERE) == (
        "2 cores, Example CPU 9000, 8 GiB, Linux 6.18.0, Debian 13, docker 28.0, storage driver overlay2"
    )


def test_the_same_machine_by_another_name_and_load_is_not_apart() -> None:
    assert machine_differences(THERE, here(name="other", load_1min=7.5)) == []


def test_what_makes_figures_differ_is_named_with_both_sides() -> None:
    elsewhere = here({"name": "podman", "version": "5.4", "storage_driver": "vfs"}, cores=8, kernel="6.1.0")
    assert machine_differences(THERE, elsewhere) == [
        MachineDifference(what="cores", there="2", here="8"),
        MachineDifference(what="kernel", there="6.18.0", here="6.1.0"),
        MachineDifference(what="engine", there="docker 28.0", here="podman 5.4"),
        MachineDifference(what="storage driver", there="overlay2", here="vfs"),
    ]


def test_memory_differs_by_whole_gibibytes() -> None:
    assert machine_differences(THERE, here(memory_bytes=8 * 2**30 - 4096)) == []
    assert machine_differences(THERE, here(memory_bytes=16 * 2**30)) == [
        MachineDifference(what="memory", there="8 GiB", here="16 GiB")
    ]


def test_what_one_side_does_not_know_is_not_compared_and_a_missing_engine_is_said() -> None:
    without = ThisMachine({"cores": 2}, None)
    assert machine_differences(THERE, without) == []
    assert len(without.notes) == 1
    assert here().notes == []


def test_the_facts_of_this_machine_and_of_an_experiment_have_the_same_names() -> None:
    found = machine_differences(make_experiment().host, ThisMachine(machine.facts()))
    assert {one.what for one in found} >= {"processor"}


OWN = ("base", "fast")


def material_of(weights: tuple[str, ...] = ("locks",), *, start: bool = True, **more: Any) -> Evidence:
    """`fast` takes half the time of `base`, `slow` twice as much; a start of `fast` takes 2 ms more."""
    figures = queue(fast=noisy(0.5), slow=noisy(2.0))
    if start:
        starts = {"base": 0.010, "fast": 0.012, "slow": 0.010}
        figures = {label: {**mine, "startup/pass": noisy(starts[label])} for label, mine in figures.items()}
    return make_evidence(figures, weights, **more)


def advice_on(evidence: Evidence, local: LocalImage = LocalImage.MEASURED, here: ThisMachine | None = None) -> Pick:
    ranked = decide(evidence)
    image = evidence.images[ranked.chosen.label.partition("+")[0]] if ranked.chosen else None
    there = evidence.experiment.host
    return advise(evidence, ranked, here or ThisMachine(there, there["engine"]), ImageHere(image, local))


def labels(ranked: Ranking) -> list[str]:
    return [row.label for row in ranked.rows]


def test_the_fastest_that_is_shown_to_be_faster_is_the_one_to_switch_to() -> None:
    ranked = decide(material_of())
    assert (ranked.decision, ranked.chosen and ranked.chosen.label) == (Decision.SWITCH, "fast")
    assert labels(ranked) == ["fast", "base", "slow"]


def test_if_nothing_is_shown_to_be_faster_the_answer_is_to_stay() -> None:
    pick = advice_on(make_evidence(queue(near=noisy(0.99, off=0.02), slow=noisy(2.0))))
    assert (pick.decision, pick.recommended) == (Decision.STAY, None)
    assert pick.answer.split()[:3] == ["STAY", "with", "base:"]
    assert re.search(r"\b1 CPU\b.*\bnear\b.* 1 % ", pick.answer)
    assert pick.next == ["interlock matrix --workloads locks --variants base,near --baseline base"]


def test_where_one_benchmark_was_asked_for_only_that_is_to_be_measured() -> None:
    pick = advice_on(make_evidence(queue(near=noisy(0.99, off=0.02)), ["locks/queue", "startup"]))
    assert pick.next == ["interlock matrix --workloads locks/queue,startup --variants base,near --baseline base"]


@pytest.mark.parametrize(
    ("figures", "lacking", "following"),
    [
        (
            {"base": {"locks/queue": SIX, "startup/pass": SIX}, "x": {"startup/pass": SIX}},
            ["x"],
            "interlock matrix --workloads locks --variants base,x --baseline base",
        ),
        (queue(), [], "interlock matrix --workloads locks"),
    ],
)
def test_a_baseline_beside_which_nothing_was_measured_is_no_reason_to_stay(
    figures: Figures, lacking: list[str], following: str
) -> None:
    """It was 'stay: nothing else meets the constraints', although nothing else was there to meet them."""
    pick = advice_on(make_evidence(figures))
    assert (pick.decision, pick.not_measured, pick.excluded) == (Decision.MEASURE, lacking, [])
    assert pick.next == [following]


def test_without_the_file_of_the_baseline_everything_is_to_be_measured() -> None:
    """It was a ValueError, after the damaged file was removed as its error says."""
    whole = make_evidence(queue(fast=noisy(0.5)))
    pick = advice_on(replace(whole, figures=make_evidence({"fast": {"locks/queue": SIX}}).figures))
    assert (pick.decision, pick.not_measured, pick.contenders) == (Decision.MEASURE, ["base", "fast"], [])
    assert pick.answer.count("base") == 1
    assert "only" not in pick.answer


def test_an_answer_beside_what_was_not_measured_says_so() -> None:
    figures: Figures = {
        "base": {"locks/queue": SIX, "startup/pass": SIX},
        "near": {"locks/queue": noisy(1.1), "startup/pass": SIX},
        "x": {"startup/pass": SIX},
    }
    pick = advice_on(make_evidence(figures))
    assert (pick.decision, pick.not_measured) == (Decision.STAY, ["x"])
    assert pick.answer.count("measured") == 1


def on_curve(cpus: int) -> Pick:
    """A variant whose threads run at once, but need more time each, beside one whose threads do not."""
    benchmarks = [make_benchmark(f"pure-{count}", scaling={"name": "pure", "workers": count}) for count in (1, 2, 4)]
    figures: Figures = {
        "base": {f"locks/{one.name}": SIX for one in benchmarks},
        "free": {f"locks/pure-{count}": noisy(2.5 / count) for count in (1, 2, 4)},
    }
    host = {**make_experiment().host, "cores": 2}
    workloads = {"locks": make_workload("locks", benchmarks=benchmarks)}
    return advice_on(make_evidence(figures, cpus=cpus, experiment={"host": host, "workloads": workloads}))


def test_an_answer_for_more_cpus_than_were_measured_with_says_whose_figures_it_is_from() -> None:
    for cpus, said in ((1, "1 CPU"), (2, "2 CPUs"), (8, "2 CPUs")):
        assert re.findall(r"[0-9]+ CPUs?", on_curve(cpus).answer)[0] == said
    assert re.search(r"\b8 CPUs\b", provenance(on_curve(8)))
    assert not re.search(r"\b8 CPUs\b", provenance(on_curve(2)))
    assert (on_curve(8).cpus, on_curve(8).measured_cpus) == (8, 2)


def test_what_only_seems_to_be_the_fastest_is_passed_over_and_said() -> None:
    pick = advice_on(make_evidence(queue(wild=noisy(0.4, off=0.9), sure=noisy(0.8))))
    assert [one.label for one in pick.contenders] == ["wild", "sure", "base"]
    assert present(pick.recommended).label == "sure"
    assert any("base" in note and note.endswith(": wild") for note in pick.notes)


def test_a_baseline_that_does_not_meet_the_constraints_cannot_be_stayed_with() -> None:
    variants = {"base": {"version": "3.11.2"}, "fast": {"version": "3.11.2"}, "slow": {"version": "3.14.0"}}
    pick = advice_on(material_of(variants=variants, min_python=(3, 14)))
    assert pick.decision is Decision.SWITCH
    assert present(pick.recommended).label == "slow"
    assert pick.answer.startswith("SWITCH to slow, ")
    assert "50 % less throughput" in pick.answer
    assert re.search(r"\bbase\b.*\b3\.11\.2\b.*\b3\.14\.$", pick.answer)


def test_if_nothing_meets_the_constraints_there_is_nothing_to_do() -> None:
    pick = advice_on(material_of(max_rss_bytes=1))
    assert (pick.decision, pick.contenders, pick.recommended, pick.next) == (Decision.NOTHING, [], None, [])
    assert re.findall(r"\b[0-9]+\b", pick.answer)[0] == "3"
    assert [one.label for one in pick.excluded] == ["base", "fast", "slow"]


def audits_of(**errors: str) -> tuple[Callable[[str], VariantAudit], list[str]]:
    """An audit in which a module fails to import on the variants that are named, and whom it was asked about.

    Without an error the package cannot be installed there.
    """
    asked: list[str] = []

    def audit(name: str) -> VariantAudit:
        asked.append(name)
        package = PackageAudit(name="six", origin=Origin.WHEEL, imports=[ModuleImport(module="six")])
        if name in errors:
            imports = [ModuleImport(module="six", error=errors[name])] if errors[name] else []
            origin = Origin.WHEEL if imports else Origin.FAILED
            package = package.model_copy(update={"origin": origin, "imports": imports})
        return VariantAudit(variant=name, outcome=OK, packages=[package])

    return audit, asked


FIELD = queue(best=noisy(0.5), good=noisy(0.7), slow=noisy(2.0))


@pytest.mark.parametrize(
    ("failing", "chosen", "asked"),
    [
        ([], "best", ["best"]),
        (["best"], "good", ["best", "base", "good"]),
        (["best", "good"], None, ["best", "base", "good"]),
    ],
)
def test_dependencies_that_do_not_fit_are_tried_on_the_next_one_and_the_baseline_is_asked_why(
    failing: list[str], chosen: str | None, asked: list[str]
) -> None:
    audit, asked_about = audits_of(**dict.fromkeys(failing, "ImportError"))
    evidence, ranked = decide_with_audits(make_evidence(FIELD), audit)
    assert (ranked.chosen and ranked.chosen.label, asked_about) == (chosen, asked)
    assert ranked.decision is (Decision.SWITCH if chosen else Decision.STAY)
    assert [one.label for one in ranked.excluded] == failing
    pick = advice_on(evidence)
    assert [one.variant for one in pick.audits] == asked
    assert not any("dependencies" in note for note in pick.notes)


@pytest.mark.parametrize("error", ["ImportError", ""])
def test_what_fails_on_the_baseline_as_well_excludes_neither_and_is_said(error: str) -> None:
    """The baseline was excluded by it, and each image on which a package cannot be installed anywhere."""
    audit, asked = audits_of(best=error, base=error)
    evidence, ranked = decide_with_audits(make_evidence(FIELD), audit)
    assert (ranked.chosen and ranked.chosen.label, asked, ranked.excluded) == ("best", ["best", "base"], [])
    assert re.search(r"dependencies .*\bsix\b.*\bbase\b", provenance(advice_on(evidence)))


def test_a_baseline_on_which_dependencies_cannot_be_tried_is_not_excluded() -> None:
    """Its image was not there for the audit, and whoever runs on it was told to leave it."""
    audit, _ = audits_of(best="ImportError", good="ImportError")
    untried = VariantAudit(variant="base", outcome=Outcome(state=State.UNAVAILABLE, reason="no such image"))
    evidence, ranked = decide_with_audits(make_evidence(FIELD), lambda name: untried if name == "base" else audit(name))
    assert (ranked.decision, {one.label for one in ranked.excluded}) == (Decision.STAY, {"best", "good"})
    assert untried in advice_on(evidence).audits


def test_where_nothing_is_faster_nothing_is_tried_and_a_note_says_so() -> None:
    audit, asked = audits_of()
    slow = make_evidence({label: FIELD[label] for label in ("base", "slow")}, needs=("requirements.txt",))
    evidence, ranked = decide_with_audits(slow, audit)
    assert (ranked.decision, asked) == (Decision.STAY, [])
    assert any("dependencies" in note for note in advice_on(evidence).notes)


def test_the_baseline_may_be_another_than_the_experiments() -> None:
    pick = advice_on(material_of(baseline="slow"))
    chosen = present(pick.recommended)
    assert (pick.baseline, chosen.label) == ("slow", "fast")
    assert chosen.gain.estimate == pytest.approx(4, rel=0.01)
    assert pick.measure == "interlock matrix --workloads locks --variants slow,fast --baseline slow"


def test_the_gain_is_the_inverse_of_the_time_and_the_costs_are_beside_the_baseline() -> None:
    sizes = [
        make_built(name).model_copy(update={"size_bytes": size})
        for name, size in (("base", 134_000_000), ("fast", 136_000_000), ("slow", 1))
    ]
    evidence = material_of(rss_bytes={"base": 10_000_000, "fast": 41_000_000}, experiment={"images": sizes})
    chosen = present(advice_on(evidence).recommended)
    assert chosen.gain.estimate == pytest.approx(2, rel=0.01)
    assert chosen.gain.low < 2 < (chosen.gain.high or 0)
    assert (chosen.costs.max_rss_bytes, chosen.costs.image_bytes) == (31_000_000, 2_000_000)
    assert chosen.costs.start_s == pytest.approx(0.002, rel=0.05)
    assert present(chosen.costs.start_ratio).estimate == pytest.approx(1.2, rel=0.01)


@pytest.mark.parametrize(
    "material",
    [{"start": False}, {"experiment": {"warnings": [f"startup: other processes used 90% of a core, {TOO_DISTURBED}"]}}],
)
def test_without_starts_to_decide_by_in_the_experiment_their_cost_is_not_known(material: dict[str, Any]) -> None:
    pick = advice_on(material_of(**material))
    costs = present(pick.recommended).costs
    assert (costs.start_s, costs.start_ratio) == (None, None)
    assert {one.start_s for one in pick.contenders} == {None}


def test_a_speed_is_the_inverse_of_a_ratio_and_an_open_end_is_none() -> None:
    speed = speed_of(Interval(0.5, 0.4, 0.625))
    assert (speed.estimate, speed.low, speed.high) == (2.0, 1.6, 2.5)
    assert ratio_text(speed) == "2.00 [1.60, 2.50]"
    one_round = speed_of(Interval(0.5, 0.0, math.inf))
    assert (one_round.low, one_round.high) == (0.0, None)
    assert ratio_text(one_round) == "2.00 [one round]"


@pytest.mark.parametrize(
    ("estimate", "low", "high", "text"),
    [
        (1.26, 1.23, 1.29, "26 % more throughput (95 % interval 23 to 29 %)"),
        (0.59, 0.58, 0.604, "41 % less throughput (95 % interval 40 to 42 %)"),
        (1.05, 0.98, 1.12, "5 % more throughput (95 % interval -2 to +12 %)"),
        (1.02, 1.0, 1.04, "2 % more throughput (95 % interval 0 to 4 %)"),
        (1.001, 0.98, 1.03, "the same throughput (95 % interval -2 to +3 %)"),
        (3.5, 3.1, 4.0, "250 % more throughput (95 % interval 210 to 300 %)"),
        (2.0, 0.0, None, "100 % more throughput (one round, so no interval)"),
    ],
)
def test_a_throughput_is_said_in_percent(estimate: float, low: float, high: float | None, text: str) -> None:
    assert throughput_text(Estimate(estimate=estimate, low=low, high=high)) == text


def test_the_image_is_named_with_its_digest_if_a_registry_has_it() -> None:
    plain = present(advice_on(material_of()).recommended)
    assert (plain.reference, plain.pinned) == ("localhost/interlock/python:fast-trixie", False)
    digest = f"registry.example.com:5000/python@sha256:{'4' * 64}"
    images = [make_built("base"), make_built("fast").model_copy(update={"digest": digest}), make_built("slow")]
    pushed = present(advice_on(material_of(experiment={"images": images})).recommended)
    assert pushed.pinned
    assert pushed.reference == f"registry.example.com:5000/python:fast-trixie@sha256:{'4' * 64}"


def test_a_mode_brings_its_environment_and_its_options() -> None:
    mode = {"name": "quick", "summary": "a mode", "environment": {"PYTHON_JIT": "1"}, "options": ["-X", "jit"]}
    figures = queue(**{"base+quick": noisy(0.5)})
    chosen = present(advice_on(make_evidence(figures, variants={"base": {"modes": [mode]}})).recommended)
    assert (chosen.label, chosen.reference) == ("base+quick", "localhost/interlock/python:base-trixie")
    assert (chosen.environment, chosen.options) == ({"PYTHON_JIT": "1"}, ["-X", "jit"])
    assert chosen.costs.image_bytes == 0


@pytest.mark.parametrize(
    ("local", "expected"),
    [
        (LocalImage.ABSENT, "interlock build fast"),
        (LocalImage.UNKNOWN, "interlock build fast"),
        (LocalImage.MEASURED, "interlock check fast"),
        (LocalImage.OTHER, "interlock check fast"),
    ],
)
def test_the_next_command_works_in_the_folder_where_it_is_printed(local: LocalImage, expected: str) -> None:
    evidence = material_of()
    host = evidence.experiment.host
    service = ThisMachine(host, host["engine"], OwnDockerfile("Containerfile", "--http :8080/"))
    first, *_, last = advice_on(evidence, local, service).next
    assert first.startswith("interlock trial . --variants fast --http :8080/")
    assert last == "interlock swap Containerfile --to fast"
    empty = advice_on(evidence, local, ThisMachine(host, host["engine"], None)).next
    assert empty[-1] == expected
    assert all(command.startswith(("interlock matrix", expected)) for command in empty)


def test_a_line_is_for_the_chosen_one_the_newest_release_and_the_newest_without_a_gil() -> None:
    factors = {"fast": 0.5, "old": 0.9, "new": 1.1, "free": 2.0, "free+mode": 2.0}
    figures = queue(**{label: noisy(factor) for label, factor in factors.items()})
    families = {
        "base": ("release-lines", "3.13.1"),
        "fast": ("imports", "3.13.1"),
        "old": ("release-lines", "3.9.1"),
        "new": ("release-lines", "3.14.1"),
        "free": ("free-threading", "3.14.1"),
    }
    variants = {name: {"family": family, "version": version} for name, (family, version) in families.items()}
    assert advice_on(make_evidence(figures, variants=variants)).named == ["fast", "new", "free"]


SERVICE = make_workload(
    "service",
    benchmarks=[
        make_benchmark("waits", cpus="one", counts_for="one"),
        make_benchmark("computes-1", scaling={"name": "computes", "workers": 1}, counts_for="named"),
        make_benchmark("computes-8", scaling={"name": "computes", "workers": 8}, counts_for="named"),
    ],
)
FREE = {"proof": {"thread_flavour": "free-threaded", "gil": "off", "thread_library": "libc.so.6"}}


@pytest.mark.parametrize(
    ("weights", "cpus", "asked"),
    [
        (["service"], 2, "elsewhere"),
        (["service/computes-8"], 2, "computing"),
        (["service/waits=1", "service/computes-8=3"], 2, ""),
        (["service/waits"], 1, None),
    ],
)
def test_one_without_a_gil_has_two_sides_whichever_is_asked(weights: list[str], cpus: int, asked: str | None) -> None:
    """Asked of a service it said STAY by one side alone: who has the other one never saw what he would gain."""
    names = [f"service/{benchmark.name}" for benchmark in SERVICE.benchmarks]
    factors = {"base": (1, 1, 1), "free": (1.25, 1.1, 0.5), "other": (0.9, 0.9, 0.9)}
    figures: Figures = {label: dict(zip(names, map(noisy, of), strict=True)) for label, of in factors.items()}
    experiment = {"workloads": {"service": SERVICE}}
    pick = advice_on(make_evidence(figures, weights, variants={"free": FREE}, experiment=experiment, cpus=cpus))
    rows = {row.label: row for row in pick.contenders}
    assert rows["other"].sides is rows["base"].sides is None
    sides = rows["free"].sides
    assert (sides is None) is (asked is None)
    if sides is not None:
        assert sides.computing.estimate == pytest.approx(2, rel=0.02)
        assert sides.elsewhere.estimate == pytest.approx(0.8, rel=0.02)
        assert {side for side in ("computing", "elsewhere") if getattr(sides, side) == rows["free"].speed} == (
            {asked} if asked else set()
        )


def test_a_side_without_figures_is_not_said() -> None:
    figures: Figures = {"base": {"service/waits": SIX}, "free": {"service/waits": noisy(1.25)}}
    pick = advice_on(make_evidence(figures, ["service"], variants={"free": FREE}, cpus=2))
    assert [row.sides for row in pick.contenders] == [None, None]


def test_how_far_this_machine_is_from_the_experiments_is_a_part_of_the_answer() -> None:
    evidence = material_of(shipped=True)
    elsewhere = ThisMachine({**evidence.experiment.host, "cores": 64}, evidence.experiment.host["engine"])
    pick = advice_on(evidence, here=elsewhere)
    assert pick.shipped
    assert pick.apart == [MachineDifference(what="cores", there="2", here="64")]
    assert advice_on(evidence).apart == []


def test_a_full_experiment_of_this_machine_is_not_to_be_repeated() -> None:
    settings = make_settings(["base", "slow"]).model_copy(update={"quick": False})
    figures = queue(slow=noisy(2.0))
    full = make_evidence(figures, experiment={"settings": settings})
    assert advice_on(full).next == []
    assert advice_on(make_evidence(figures, experiment={"settings": settings}, shipped=True)).next != []
    assert advice_on(make_evidence(figures)).next != []
    # It said 'MEASURE first' and no command.
    lacking = make_evidence({**figures, "slow": {"startup/pass": SIX}}, experiment={"settings": settings})
    assert advice_on(lacking).next == ["interlock matrix --workloads locks --variants base,slow --baseline base"]


def test_ties_with_the_chosen_one_and_warnings_are_noted() -> None:
    figures = queue(fast=noisy(0.5), other=noisy(0.501, off=0.02))
    notes = advice_on(make_evidence(figures, experiment={"warnings": ["hot", "busy"]})).notes
    assert any(note.endswith(": other") for note in notes)
    assert any("`interlock report results/own`" in note and "2 warnings" in note for note in notes)


def test_the_release_that_was_measured_is_noted_where_another_one_is_built_now() -> None:
    facts = {"base": make_facts(version="3.13.0"), "other": make_facts(version="3.13.1")}
    pick = advice_on(make_evidence(queue(other=SIX), experiment={"facts": facts}))
    (note,) = [one for one in pick.notes if "3.13" in one]
    assert "base as 3.13.0" in note
    assert "other" not in note


def test_a_pick_is_read_back_from_its_json() -> None:
    pick = advice_on(material_of())
    assert Pick.model_validate_json(pick.model_dump_json()) == pick
    one_round = make_evidence(queue([1.0], x=[0.5]))
    again = Pick.model_validate_json(advice_on(one_round).model_dump_json())
    assert again.contenders[0].speed.high is None


def test_contenders_say_how_they_stand() -> None:
    pick = advice_on(material_of())
    assert [(one.label, one.standing) for one in pick.contenders] == [
        ("fast", Standing.FASTER),
        ("base", Standing.BASELINE),
        ("slow", Standing.SLOWER),
    ]
    assert [(one.benchmark, one.share) for one in pick.shares] == [("queue", 1.0)]


def test_what_is_optimised_otherwise_is_not_chosen_and_said() -> None:
    builds = {"base": [], "theirs": ["PGO", "LTO"], "alike": [], "unknown": None}
    images = [make_built(name, optimisations=names) for name, names in builds.items()]
    figures = queue(theirs=noisy(0.5), alike=noisy(0.8), unknown=noisy(1.5))
    pick = advice_on(make_evidence(figures, experiment={"images": images}))
    assert present(pick.recommended).label == "alike"
    (otherwise,) = [one for one in pick.contenders if one.built_otherwise]
    assert otherwise.label == "theirs"
    assert re.match(r"PGO and LTO .* PGO .* LTO$", otherwise.built_otherwise)
    assert [note for note in pick.notes if ": theirs (" in note]
    assert not [note for note in pick.notes if note.startswith("ranked higher")]
    stay = advice_on(make_evidence(queue(theirs=noisy(0.5)), experiment={"images": images[:2]}))
    assert stay.decision is Decision.STAY
    # It is shown to be faster, and no chance made it so.
    assert otherwise.built_otherwise in stay.answer


def test_a_gain_that_was_picked_as_the_largest_is_announced_smaller_and_the_measured_one_is_beside_it() -> None:
    off = {"a": 0.05, "b": 0.06, "c": 0.07, "d": 0.05}
    rows = {label: noisy(0.80 + 0.015 * number, off=noise) for number, (label, noise) in enumerate(off.items())}
    pick = advice_on(make_evidence(queue(**rows)))
    chosen = present(pick.recommended)
    assert 1 < chosen.gain.estimate < chosen.measured_gain.estimate
    assert chosen.measured_gain == pick.contenders[0].speed
    assert as_measured(chosen)
