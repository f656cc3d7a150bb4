"""Commands that read experiments: report, claims, compare and export."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer
from rich.text import Text

from interlock.analysis import changes, claims, cohorts, comparison, references
from interlock.analysis.comparison import Contents
from interlock.catalog import project
from interlock.catalog.project import ProjectPaths
from interlock.cli.options import (
    Full,
    Json,
    Markdown,
    OneExperiment,
    Quiet,
    Results,
    console,
    experiment_folder,
    named_folder,
    quiet,
)
from interlock.errors import InterlockError, StoreError, UsageError
from interlock.report import claims as findings
from interlock.report import comparisons, machine_readable, reference_pages, services_page
from interlock.report import experiment as report
from interlock.report.comparisons import read_extract
from interlock.report.export import file_name, rows_of_experiments, write_tables
from interlock.report.html import page
from interlock.report.opening import Opening, brief, opening_of
from interlock.results import store
from interlock.results.commands import command_line
from interlock.results.experiments import Experiment
from interlock.results.files import write_atomically
from interlock.results.services import read_proofs, read_services
from interlock.trial.own_dockerfile import own_dockerfile

ExperimentName = Annotated[
    str, typer.Argument(metavar="EXPERIMENT", help="Folder of an experiment, or a name under results/.")
]

EXPORT = Path("export")


def compare_command(
    before: ExperimentName,
    after: ExperimentName,
    as_json: Json = False,
    markdown: Markdown = False,
    results: Results = None,
    _quiet: Quiet = False,
) -> None:
    """Show what changed between two experiments.

    Compares ratios to the baseline, never times, and only between hosts of one kind.
    """
    changed = changes.changes_between(*(changes.Side(name, _one_extract(name, results)) for name in (before, after)))
    if as_json:
        sys.stdout.write(comparisons.as_json(changed) + "\n")
    else:
        _print_documents([comparisons.changes_document(changed)], markdown)


def _one_extract(name: str, results: Path | None) -> cohorts.Extract:
    """Return the extract of the experiment with this path or name, for comparing; UsageError if it names several."""
    folders = store.experiments_in(named_folder(name, results))
    if len(folders) > 1:
        raise UsageError(
            key=name,
            found=f"is a folder of {len(folders)} experiments",
            todo=f"Name one of them, for instance {folders[-1]}; `interlock report {quote(name)}` summarises them.",
        )
    return read_extract(folders[0])


def show_hosts(folder: Path, markdown: bool) -> None:
    """Print a summary of each kind of host over all experiments in a folder."""
    summaries = cohorts.kind_summaries(map(read_extract, store.experiments_in(folder)))
    _print_documents([comparisons.hosts_document(summary) for summary in summaries], markdown)


def _print_documents(documents: Sequence[comparisons.Document], markdown: bool) -> None:
    if markdown:
        sys.stdout.write(comparisons.markdown(documents))
    else:
        console.print(comparisons.terminal(documents))


def export_command(
    folders: Annotated[
        list[str] | None,
        typer.Argument(metavar="EXPERIMENT", help="Folders or names of experiments (default: all in results/)."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder of the tables (default: export/).")
    ] = None,
    results: Results = None,
) -> None:
    """Write experiments as CSV tables.

    docs/results.md explains each table and column.
    """
    places = [named_folder(name, results) for name in folders or []] or [results or ProjectPaths.find().results]
    experiments = [experiment for place in places for experiment in store.experiments_in(place)]
    folder = output or EXPORT
    counts = write_tables(folder, rows_of_experiments(experiments))
    if output is None:
        write_atomically(EXPORT / ".gitignore", "*\n")  # tables can be made again at any time
    for name, count in counts.items():
        console.say(f"{name:12}{count:>9,} rows  {folder / file_name(name)}")


def report_command(
    experiment: OneExperiment = None,
    full: Full = False,
    as_json: Json = False,
    markdown: Markdown = False,
    html: Annotated[bool, typer.Option("--html", help="Write a page with charts, report.html in the folder.")] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", dir_okay=False, help="File for the page of --html.")
    ] = None,
    results: Results = None,
    _quiet: Quiet = False,
) -> None:
    """Show an experiment: the answer, what changed, what is open.

    Summarises each kind of host if the folder has several experiments.
    """
    folder = experiment_folder(experiment, results, as_json=as_json)
    if output and not html:
        raise UsageError(key="--output", found="is only for the page of --html", todo="Add --html.")
    if store.has_several_experiments(folder):
        if html or as_json:
            raise UsageError(
                file=str(folder), found="holds several experiments", todo="Give the folder of one of them."
            )
        show_hosts(folder, markdown)
        return
    data = described, tables, opening = load_experiment(folder)
    written = _write_page(data, output or folder / PAGE_FILE) if html else None
    if as_json:
        sys.stdout.write(machine_readable.as_json(*data) + "\n")
    elif markdown:
        sys.stdout.write(report.markdown(*data))
    elif written:
        console.say(str(written))
    else:
        short = brief(described, tables, replace(_next_here(opening), can_continue=_is_own(folder, described, results)))
        console.print(report.terminal(described, tables) if full else short, crop=False)


def _is_own(folder: Path, described: Experiment, results: Path | None) -> bool:
    """Return whether the command that resumes an experiment finds it: by its name, and where it says it was begun."""
    begun_in = described.settings.where.results
    known = [results or ProjectPaths.find().results, *([Path(begun_in)] if begun_in else [])]
    return folder.resolve().parent in [place.resolve() for place in known]


def _next_here(opening: Opening) -> Opening:
    """Return the report's opening for this folder: a trial is a next step only in the folder of a service."""
    pick = opening.pick
    if pick is None or pick.recommended is None or not pick.in_containers:
        return opening
    own = own_dockerfile(Path.cwd())
    following = own.trial_of(pick.recommended.label) if own else command_line("pick")
    return replace(opening, pick=pick.model_copy(update={"next": [following]}))


def claims_command(
    experiment: OneExperiment = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--claims",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="File of the claims (default: workloads/claims.toml).",
        ),
    ] = None,
    full: Full = False,
    as_json: Json = False,
    markdown: Markdown = False,
    results: Results = None,
    _quiet: Quiet = False,
) -> None:
    """Check published claims against an experiment.

    Exits with 1 if the experiment shows no effect, or the opposite effect, for a required claim.
    """
    published = project.load_claims(Path.cwd() if file else ProjectPaths.find().root, file).claims.values()
    folder = experiment_folder(experiment, results, as_json=as_json)
    contents = _contents(folder)
    described, checked = contents.experiment, claims.evaluate([*published], contents)
    if as_json:
        sys.stdout.write(findings.as_json(described, checked) + "\n")
    elif markdown:
        sys.stdout.write(findings.markdown(described, checked))
    else:
        shown = findings.terminal if full else findings.brief
        console.print(Text(report.headline(described)[0], style="dim"), shown(checked), sep="\n")
    findings.check_required(folder, checked, file)


def reference_texts(paths: ProjectPaths) -> dict[str, str]:
    """Return the texts made from references and services, each reference's claims among them, by path."""
    known, folders = project.load_claims(paths.root), store.experiments_in(paths.reference)
    loaded, published = [_contents(folder) for folder in folders], list(known.claims.values())
    judged = {contents.experiment.name: claims.evaluate(published, contents) for contents in loaded}
    texts = {
        str((folder / CLAIMS_FILE).relative_to(paths.root)): findings.markdown(
            contents.experiment, judged[contents.experiment.name]
        )
        for folder, contents in zip(folders, loaded, strict=True)
    }
    judging, services = references.in_order(loaded), read_services(paths.root)
    asked = [
        (question, references.best_figures(question.figures, judging))
        for question in project.load_questions(paths.root)
    ]
    parts = {
        "docs/claims.md": reference_pages.claims_tables(
            references.best_findings([(contents.experiment, judged[contents.experiment.name]) for contents in judging]),
            list(known.apart.values()),
            list(known.untested.values()),
        ),
        "docs/findings.md": reference_pages.answers(asked, [contents.experiment for contents in loaded]),
        "README.md": services_page.short_table(services),
    }
    texts |= {
        services_page.PATH: services_page.page(services, read_proofs(paths.root)),
        **reference_pages.charts(asked),
    }
    pages = {path: (paths.root / path).read_text(encoding="utf-8") for path in parts if (paths.root / path).is_file()}
    return texts | {path: reference_pages.filled(page, parts[path]) for path, page in pages.items()}


CLAIMS_FILE = "claims.md"
PAGE_FILE = "report.html"


ReportData = tuple[Experiment, list[comparison.Table], Opening]


def load_experiment(folder: Path) -> ReportData:
    """Return an experiment, its tables, and how its report begins."""
    contents = _contents(folder)
    tables = comparison.tables(contents.experiment, contents.values, contents.profiles)
    catalog = project.load(ProjectPaths.find().root)
    return contents.experiment, tables, opening_of(contents.experiment, contents.values, catalog, tables)


def _contents(folder: Path) -> Contents:
    described = store.read_experiment(folder)
    return Contents(described, *store.read_cells(folder, described))


def write_report(folder: Path, *, as_json: bool = False, keeps_page: bool = True) -> Experiment:
    """Write report.md and report.html into the experiment's folder; print it in short.

    Without `keeps_page` report.html, which was there while it ran, is removed. With `as_json` the whole report is
    printed as JSON instead. After printing, StoreError if a file cannot be written.
    """
    described, tables, opening = data = load_experiment(folder)
    written: Path | StoreError
    try:
        written = _write_files(data, folder, goes_on=False, keeps_page=keeps_page)
    except StoreError as error:
        written = error
    if as_json:
        sys.stdout.write(machine_readable.as_json(described, tables, opening) + "\n")
    with quiet(as_json):
        console.print(brief(described, tables, _next_here(opening)), crop=False)
        if isinstance(written, StoreError):
            raise written.with_todo(f"What was measured is in {folder}: interlock report {quote(str(folder))}")
        console.say(f"\nFull report: {written}")
    return described


def refresh_report(folder: Path) -> None:
    """Write report.md and the page of a running experiment; the page reloads itself until the end."""
    is_first = not (folder / "report.md").exists()
    try:
        written = _write_files(load_experiment(folder), folder, goes_on=True)
    except (InterlockError, OSError) as error:  # somebody edits the project's files: measuring goes on
        console.say(f"report  not written now: {error}")
        return
    if is_first:
        console.say(f"report  {written}: what is known so far")


def _write_files(data: ReportData, folder: Path, *, goes_on: bool, keeps_page: bool = True) -> Path:
    """Write an experiment's report into its folder, and return the file for a person to open."""
    described, tables, opening = data
    text = folder / "report.md"
    write_atomically(text, report.markdown(described, tables, opening, goes_on=goes_on))
    if keeps_page:
        return _write_page(data, folder / PAGE_FILE, goes_on=goes_on)
    (folder / PAGE_FILE).unlink(missing_ok=True)
    return text


def _write_page(data: ReportData, path: Path, *, goes_on: bool = False) -> Path:
    write_atomically(path, page.page(*data, goes_on=goes_on))
    return path
