"""The README is true: its tables come from the reference experiment, and its commands exist."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from interlock.catalog import project as catalogs
from interlock.catalog.project import ProjectPaths
from interlock.catalog.variants import SourceKind
from interlock.cli.main import app
from interlock.cli.report import ReportData, load_experiment, reference_texts
from interlock.report import experiment as report
from interlock.report import overview, reference_pages
from interlock.report.tables import ratio_text
from interlock.results import store
from tests.builders import PROMISED, ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
REFERENCES = sorted(path.parent for path in (ROOT / "results/reference").glob("*/experiment.json"))

NAMES = [folder.name for folder in REFERENCES]


@cache
def reference(name: str) -> ReportData:
    """What a report is made of: a second to read and to decide for each."""
    return load_experiment(ROOT / "results/reference" / name)


@pytest.mark.parametrize("name", NAMES)
def test_a_reference_report_is_what_its_raw_files_say(name: str) -> None:
    text = (ROOT / "results/reference" / name / "report.md").read_text(encoding="utf-8")
    assert text == report.markdown(*reference(name))


def test_all_references_together_have_a_size_that_a_clone_can_bear() -> None:
    """58 MB in 3,053 files was too much; docs/contribute-a-reference.md says the limit, and git keeps their sums."""
    sizes = [path.stat().st_size for path in (ROOT / "results/reference").rglob("*") if path.is_file()]
    assert sum(sizes) < 25e6


def test_the_claims_and_findings_are_what_the_references_say() -> None:
    """Theirs each, and the pages over all of them, whose answers say what their figures show."""
    texts = reference_texts(ProjectPaths(ROOT, ROOT))
    assert {"docs/claims.md", "docs/findings.md"} <= texts.keys()
    assert [path for path, text in texts.items() if (ROOT / path).read_text(encoding="utf-8") != text] == []


def test_every_promised_variant_in_every_mode_is_in_a_reference_experiment() -> None:
    catalog = catalogs.load(ROOT)
    # What stands for another one is measured where there are no containers; the references have them. None
    # of their machines reaches the archives of others: docs/variants.md says that they were never run.
    variants = [one for name in PROMISED if not (one := catalog.variants[name]).stands_for]
    promised = [one for one in variants if one.kind is not SourceKind.ARCHIVE]
    labels = {label for one in promised for label in one.labels}
    settings = [store.read_experiment(folder).settings for folder in REFERENCES]
    assert labels <= {label for one in settings for label in one.variants}
    assert {name for one in settings for name in one.workloads} <= catalog.workloads.keys()


def test_the_docs_say_what_of_a_workload_is_measured_quickly() -> None:
    text = (ROOT / "docs/workloads.md").read_text(encoding="utf-8")
    rows = dict(
        re.findall(r"^\| `([a-z0-9-]+)` \| (`.*`) \|$", text.partition("With `--quick`")[2].partition("##")[0], re.M)
    )
    workloads = catalogs.load(ROOT).workloads
    found = {name: re.findall(r"`([^`]+)`", names) for name, names in rows.items()}
    assert len(found) >= 10
    assert found == {name: [one.name for one in workloads[name].for_experiment(True).benchmarks] for name in found}


# What the short answers of the README are about, and the words that they say it with.
ANSWERED = (
    ("service", "waitress-database"),
    ("service", "uvicorn-json"),
    ("service", "waitress-json-8"),
    ("download", "many-pinned"),
    ("locks", "queue"),
    ("startup", "pass"),
)
ANSWERS = {"faster": "yes", "slower": "no", "same": "same within 5 %", "undecided": "not decided"}


def test_the_short_answers_are_what_the_experiment_says_that_the_readme_names() -> None:
    _, tables, _ = reference(overview.EXPERIMENT)
    found = {
        (one.workload.name, one.benchmark.name): (rows["cpython-3.14"].to_baseline, rows["cpython-3.14t"].to_control)
        for one in tables
        for rows in [{row.label: row for row in one.rows}]
    }
    said = re.findall(r"^\| .+ \| (.+): (\S+ \[.+\])(?: of the time)? \| (.+): (\S+ \[.+\]) \|$", README, re.M)
    expected = [
        tuple(part for one in found[key] if one for part in (ANSWERS[one.verdict.value], ratio_text(one.ratio)))
        for key in ANSWERED
    ]
    assert said == expected


# A ratio in prose, with or without its interval; what a console shows has its command beside it.
RATIO = re.compile(r"(?<![\w.])\d+\.\d+(?:x(?:\s\[[0-9.]+, [0-9.]+\])?|\stimes)")
FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
# Written from records or the commands, in part or whole, and held by other tests.
GENERATED = re.compile(f"{re.escape(reference_pages.BEGIN)}.*?{re.escape(reference_pages.END)}", re.S)
WRITTEN = {"services.md", "claims.md", "findings.md", "cli.md", "variants.md"}
# Figures of no committed experiment, and where they are from.
DECIDED = {"method.md": {"1.2 times": "a threshold of a warning, not a figure"}}


# The experiment of a page's ratios in paragraphs, or tables, that name none.
BESIDE = {"README.md": overview.EXPERIMENT}


def figures_of(file: Path) -> list[tuple[str, str]]:
    """The ratios of a page's prose, each with the experiments that its paragraph names."""
    text = GENERATED.sub("", FENCED.sub("", file.read_text(encoding="utf-8")))
    found = []
    for paragraph in text.split("\n\n"):
        names = " ".join(name for name in NAMES if name in paragraph)
        found += [(" ".join(ratio.split()), names) for ratio in RATIO.findall(paragraph)]
    return found


@cache
def known_ratios(name: str) -> set[str]:
    return {
        ratio_text(one.ratio)
        for table in reference(name)[1]
        for row in table.rows
        for one in (row.to_baseline, row.to_control)
        if one
    }


def test_each_ratio_in_the_docs_is_of_the_experiments_that_its_paragraph_names_or_has_a_reason() -> None:
    """A ratio without its interval is that of a table all the same; README's table names its experiment below it."""
    pages = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name not in WRITTEN)]
    said = [
        (page.name, figure, names or BESIDE.get(page.name, "")) for page in pages for figure, names in figures_of(page)
    ]
    unknown = [
        (page, figure, names)
        for page, figure, names in said
        if figure not in DECIDED.get(page, {})
        and not any(
            ratio == figure or ratio.startswith(f"{figure} ") for name in names.split() for ratio in known_ratios(name)
        )
    ]
    assert unknown == []
    assert len(said) >= 10


def test_the_calls_of_locks_in_the_docs_are_those_of_the_experiment_that_is_named() -> None:
    text = (ROOT / "docs/workloads.md").read_text(encoding="utf-8").partition("Calls for a unit of work in ")[2]
    folder = ROOT / "results/reference" / text[1:].partition("]")[0]
    _, profiles = store.read_cells(folder, store.read_experiment(folder))
    versions, _, *rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in text.split("\n\n")[1].splitlines()]
    for benchmark, *said in rows:
        for version, cell in zip(versions[1:], said, strict=True):
            profile = profiles[f"cpython-{version}", "locks"][benchmark.strip("`")]
            calls = {name for phase in profile.phases.values() for name in phase.syscalls}
            counts = {name: count for name in calls if (count := profile.calls_per_unit([name])) >= 0.05}
            of_all = f"{sum(counts.values()):.2g}" if counts else "nothing"
            each = ", ".join(f"{name} {counts[name]:.2g}" for name in sorted(counts))
            assert cell == (of_all if "pth" in version else each or "nothing"), (benchmark, version)
    assert len(rows) == 3


def test_the_pick_of_the_readme_answers_what_it_shows() -> None:
    (command, *answer) = re.findall(r"^\$ uvx --from \. interlock (pick .*)\n(.*)\n(.*)$", README, re.M)[0]
    result = CliRunner().invoke(app, shlex.split(command), env={"COLUMNS": "200"})
    assert result.output.splitlines()[:2] == answer


def test_the_readme_is_a_few_screens_and_has_no_table_of_results() -> None:
    assert len(GENERATED.sub("", README).splitlines()) <= 130
    assert not re.search(r"^\| (cpython|nogil|debian|pypy)-", README, re.M)


def test_the_page_of_all_variants_is_linked() -> None:
    assert "(docs/variants.md)" in README


def test_the_first_two_commands_are_one_line_each_and_run_what_is_there() -> None:
    first, second = re.findall(r"```sh\n(.+)\n```", README)[:2]
    assert shlex.split(first) == ["sh", "bootstrap.sh", "-s", "matrix", "--", "--quick", "--yes"]
    assert shlex.split(second) == ["sh", "bootstrap.sh", "-s", "tests"]
    assert second in (ROOT / ".ci/run").read_text(encoding="utf-8")
    noxfile = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    assert "def matrix(" in noxfile
    assert "def tests(" in noxfile
