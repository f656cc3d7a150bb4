"""Install requirements into variants, import what they bring, and say how it got there and what switches the GIL on."""

from __future__ import annotations

import json
import re
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import TypeVar

from docker import DockerClient
from packaging.utils import canonicalize_name
from pydantic import TypeAdapter

from interlock.catalog.project import Catalog
from interlock.catalog.variants import Gil
from interlock.engine.client import engine_errors
from interlock.engine.packages import pip_container, remedies
from interlock.engine.packages.dependency_files import Dependencies
from interlock.engine.packages.indexes import with_indexes
from interlock.engine.packages.lock_files import Environment
from interlock.engine.packages.pip_container import AUDIT, PipContainer, PipSettings, ensure_builder, gather
from interlock.engine.packages.pip_output import LEAST_PIP, failure
from interlock.engine.packages.requirements import Requirements, display_text
from interlock.engine.packages.resolving import Resolution, Resolver, Unmet, Wheel, WheelBuilder
from interlock.engine.protocol import OnStep
from interlock.engine.run import leftovers
from interlock.errors import BuildError, EngineError
from interlock.results.answers import ModuleImport, Origin, PackageAudit, VariantAudit
from interlock.results.experiments import Built, Outcome, State
from interlock.untrusted import parse_json, printable

# Parts of module names that only the package's own developers use.
FOR_DEVELOPERS = re.compile(
    r"^(tests?|testing|conftest|test_.*|.*_tests?|_test.*|examples?|docs?|benchmarks?|setup|noxfile|tasks)$"
)
NOT_PUBLIC = re.compile(f"_|{FOR_DEVELOPERS.pattern}")
SOURCE, EXTENSION = ".py", ".so"
Said = TypeVar("Said")


@dataclass(frozen=True)
class Distribution:
    """An installed package and the paths of its files, relative to the folder that it is installed in."""

    name: str
    version: str
    files: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        return canonicalize_name(self.name)


def parse(output: str, kind: type[Said]) -> list[Said]:
    """Return the objects of this kind that `inside/audit.py` prints, one per line.

    Other lines are skipped: packages that it imports may print anything.
    """
    said, adapter = list[Said](), TypeAdapter(kind)
    for line in output.splitlines():
        with suppress(ValueError):
            said.append(adapter.validate_python(parse_json(line)))
    return said


def top_modules(files: Sequence[str]) -> list[str]:
    """Return the top-level modules that people import; for a namespace package, this distribution's part of it.

    Private modules (a leading underscore) and those for the package's developers are left out.
    """
    modules = dict(_modules(files))
    packages = {name for name, path in modules.items() if path.stem.split(".")[0] == "__init__"}
    names = [name for name in modules if not any(parent in packages for parent in _parents(name))]
    parts_of = {name: name.split(".") for name in names}
    return sorted(name for name, parts in parts_of.items() if not any(map(NOT_PUBLIC.match, parts)))


def extension_modules(files: Sequence[str]) -> list[str]:
    """Return the extension modules without those for tests; private ones count, because each may switch the GIL on."""
    names = [name for name, path in _modules(files) if path.suffix == EXTENSION]
    return sorted(name for name in set(names) if not any(map(FOR_DEVELOPERS.match, name.split("."))))


def owners(distributions: Iterable[Distribution]) -> dict[str, str]:
    """Return the canonical name of the distribution that each module belongs to."""
    return {name: distribution.key for distribution in distributions for name, _ in _modules(distribution.files)}


def owner_of(module: str, owned: Mapping[str, str]) -> str:
    """Return the distribution of a module or of its nearest parent; empty if there is none."""
    return next((owned[name] for name in (module, *reversed(_parents(module))) if name in owned), "")


def _modules(files: Sequence[str]) -> Iterator[tuple[str, PurePosixPath]]:
    """Yield the name and the file of each module; a package's file is its __init__."""
    for file in files:
        path = PurePosixPath(file)
        if path.suffix not in {SOURCE, EXTENSION} or path.is_absolute():
            continue
        # An extension module's name ends at the first dot: the rest says for which interpreter it was built.
        names = [*path.parent.parts, path.name.split(".")[0]]
        names = names[:-1] if names[-1] == "__init__" else names
        if names and all(name.isidentifier() for name in names):
            yield ".".join(names), path


def _parents(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]


INSTALL_S, ASK_S = 900, 60
# Deadlines of one module's process, and of all processes for a package's extension modules together.
IMPORT_S, EXTENSIONS_S = 60.0, 120.0
JOBS = f"{AUDIT}/jobs.json"
NORMAL_USER = 1000
PROGRAM = f"{AUDIT}/audit.py"


@dataclass(frozen=True)
class ImportJob:
    """Modules of a package to import one after the other; `package` is empty for modules that --import names."""

    package: str
    modules: list[str]
    deadline_s: float
    is_sweep: bool = False  # a sweep over extension modules, few of which can be imported by themselves
    is_built: bool = False  # built here, where the builder has libraries that the image may lack


@dataclass(frozen=True)
class ImportResult:
    """The result of importing one module: an error or none, and the module that switched the GIL on."""

    module: str
    error: str
    by: str


@dataclass(frozen=True)
class BareInterpreter:
    """The GIL of an interpreter that has imported nothing yet: on, off, or None where it cannot say."""

    bare: str | None


def install(inside: PipContainer, wheels: Sequence[Wheel]) -> dict[str, str]:
    """Install wheels; return the reason for each that failed, by its package's canonical name."""
    if not wheels:
        return {}
    words = ["install", "--quiet", "--no-index", "--no-deps", "--no-cache-dir", *(wheel.path for wheel in wheels)]
    said = inside.pip(*words, deadline_s=INSTALL_S)
    if said.ok:
        return {}
    if len(wheels) > 1:
        return {key: reason for wheel in wheels for key, reason in install(inside, [wheel]).items()}
    return {wheels[0].package.key: f"cannot be installed: {failure(said, INSTALL_S)}"}


def distributions(inside: PipContainer) -> list[Distribution]:
    """Return everything that is installed now, the image's own pip included."""
    inside.put({PROGRAM: files("interlock.engine").joinpath("inside/audit.py").read_bytes()})
    return parse(_must(inside, ["python", PROGRAM, "--packages"], ASK_S), Distribution)


def run_jobs(inside: PipContainer, jobs: Sequence[ImportJob]) -> tuple[str | None, list[list[ImportResult]]]:
    """Return the bare interpreter's GIL and the results of each job."""
    asked = [{"modules": job.modules, "deadline_s": job.deadline_s} for job in jobs]
    inside.put({JOBS: json.dumps(asked).encode()})
    # Each process gets a second to start and end, which its deadline does not include.
    limit_s = ASK_S + sum(job.deadline_s + len(job.modules) for job in jobs)
    output = _must(inside, ["python", PROGRAM, JOBS, str(NORMAL_USER)], limit_s)
    bare = next((said.bare for said in parse(output, BareInterpreter)), None)
    # They are in the order of the jobs, and a sweep may have run out of time.
    answers = deque(parse(output, ImportResult))
    by_job = []
    for job in jobs:
        by_job.append([answers.popleft() for module in job.modules if answers and answers[0].module == module])
    return bare, by_job


def _must(inside: PipContainer, argv: list[str], deadline_s: float) -> str:
    said = inside.run(argv, deadline_s)
    if not said.ok or said.flooded:
        why = failure(said, deadline_s) or "it printed more than is read"
        raise EngineError(key=argv[-1], found=why, todo="This is a bug in Interlock: please report it.")
    return said.stdout


# The dynamic loader's message for a library that the image lacks.
LACKS_LIBRARY = "cannot open shared object file"


def import_jobs(
    there: Sequence[Distribution], wheels: Sequence[Wheel], gil: Gil, further: Sequence[str]
) -> list[ImportJob]:
    """Return a job for each top-level and each further module, and one for a package's other extension modules.

    Extension modules are swept where the GIL is off, because a plain import may not reach them, and for packages that
    were built here, for the libraries that they lack.
    """
    wanted = {wheel.package.key: wheel.build_s is not None for wheel in wheels if wheel.path}
    jobs: list[ImportJob] = []
    for distribution in there:
        if distribution.key in wanted:
            jobs += _jobs(distribution, gil, further, is_built=wanted[distribution.key])
    return [*jobs, *(ImportJob("", [module], IMPORT_S) for module in further)]


def _jobs(distribution: Distribution, gil: Gil, further: Sequence[str], *, is_built: bool) -> Iterator[ImportJob]:
    modules = top_modules(distribution.files)
    for module in modules:
        yield ImportJob(distribution.key, [module], IMPORT_S)
    extensions = [name for name in extension_modules(distribution.files) if name not in {*modules, *further}]
    if extensions and (is_built or gil is Gil.OFF):
        yield ImportJob(distribution.key, extensions, EXTENSIONS_S, is_sweep=True, is_built=is_built)


def imports_by_package(
    jobs: Sequence[ImportJob], answers: Sequence[Sequence[ImportResult]], owned: Mapping[str, str]
) -> dict[str, list[ModuleImport]]:
    """Return the imports to report, by package.

    A sweep reports the modules that switch the GIL on, and for packages built here those that lack a library. What a
    downloaded wheel lacks, such as a GPU's driver, the control's image lacks too, and the control is not swept.
    """
    imports: dict[str, list[ModuleImport]] = {}
    for job, row in zip(jobs, answers, strict=True):
        tried = [_imported(result, job, owned) for result in row]
        kept = [module for module in tried if not job.is_sweep or module.error or module.gil_by]
        imports.setdefault(job.package, []).extend(kept)
    return imports


def untried(jobs: Sequence[ImportJob], answers: Sequence[Sequence[ImportResult]]) -> int:
    """Return how many modules were not reached within their job's deadline."""
    return sum(len(job.modules) - len(row) for job, row in zip(jobs, answers, strict=True))


def _imported(result: ImportResult, job: ImportJob, owned: Mapping[str, str]) -> ModuleImport:
    owner = (owner_of(result.by, owned) or job.package) if result.by else ""
    counts = not job.is_sweep or (job.is_built and LACKS_LIBRARY in result.error)
    error, by = printable(result.error) if counts else "", printable(result.by)
    return ModuleImport(module=result.module, error=error, gil_by=by, gil_package=owner)


def package_rows(
    resolution: Resolution,
    wheels: Sequence[Wheel],
    reasons: Mapping[str, str],
    imports: Mapping[str, list[ModuleImport]],
) -> list[PackageAudit]:
    """Return a row for each package, sorted by name; `reasons` has the wheels that could not be installed."""
    rows = [_row(wheel, resolution, reasons, imports) for wheel in wheels]
    rows += [_failed(failure, resolution) for failure in resolution.failures]
    return sorted(rows, key=lambda row: row.name)


def _row(
    wheel: Wheel, resolution: Resolution, reasons: Mapping[str, str], imports: Mapping[str, list[ModuleImport]]
) -> PackageAudit:
    package = wheel.package
    reason = wheel.reason or reasons.get(package.key, "")
    origin = Origin.WHEEL if package.is_wheel else Origin.BUILT
    return PackageAudit(
        name=package.key,
        version=package.version,
        requirement=display_text(resolution.line(package.key)),
        needed_by=resolution.needed_by(package.key),
        origin=Origin.FAILED if reason else origin,
        build_s=wheel.build_s,
        reason=reason,
        system_package=wheel.system_package,
        wheel_release=resolution.releases.get(package.key, ""),
        imports=[] if reason else imports.get(package.key, []),
    )


def _failed(failure: Unmet, resolution: Resolution) -> PackageAudit:
    return PackageAudit(
        name=failure.name,
        requirement=display_text(failure.line),
        needed_by=failure.needed_by,
        origin=Origin.FAILED,
        reason=failure.words,
        system_package=failure.system_package,
        wheel_release=resolution.releases.get(failure.name, ""),
    )


def audit(  # noqa: PLR0913, PLR0917  the engine, the project, and what is asked
    client: DockerClient, catalog: Catalog, root: Path, images: Sequence[Built], wanted: Dependencies, on_step: OnStep
) -> list[VariantAudit]:
    """Install and import the requirements in each image; an audit that is impossible says why in its outcome.

    `on_step(variant, step)` is called for each step. Raises EngineError if the engine fails or pip's index cannot be
    reached, RequirementsError if a file that a line names cannot be read, or lies outside of the user's folder. All
    containers and volumes but the cache are removed afterwards, also after an interruption.
    """
    return [_audit_one(_Task(client, catalog, root, image, wanted, on_step)) for image in images]


@dataclass(frozen=True)
class _Task:
    client: DockerClient
    catalog: Catalog
    root: Path
    image: Built
    wanted: Dependencies
    on_step: OnStep

    def step(self, text: str) -> None:
        self.on_step(self.image.variant, text)


def _audit_one(task: _Task) -> VariantAudit:
    name = task.image.variant
    if task.image.outcome.state is not State.OK:
        return VariantAudit(variant=name, outcome=task.image.outcome)
    owner = f"audit-{uuid.uuid4().hex[:12]}"
    try:
        with engine_errors("the engine failed during the audit", name):
            return _work(task, owner)
    except BuildError as error:  # this variant's builder failed; the others go on
        return VariantAudit(variant=name, outcome=Outcome(state=State.FAILED, reason=str(error)))
    finally:
        leftovers.clean_up(task.client, owner)


def _work(task: _Task, owner: str) -> VariantAudit:
    variant = task.catalog.variants[task.image.variant]
    pip_container.create_wheels_volume(task.client, owner)
    own = pip_container.open_image(task.client, owner, task.image.image_id)
    unsupported = _unsupported(own)
    if unsupported:
        outcome = Outcome(state=State.UNSUPPORTED, reason=unsupported)
        return VariantAudit(variant=variant.name, outcome=outcome)
    asked, settings = _asked(task.wanted.at(_environment(own)))
    task.step("preparing the builder")
    builder_id = ensure_builder(task.client, task.root, task.image, task.catalog)
    inside = pip_container.open_builder(task.client, owner, builder_id, settings, fetches=True)
    resolver = Resolver(inside, asked, task.step)
    resolution = resolver.resolve()
    releases = _releases_with_wheels(task, inside, resolution, resolver.options())

    def open_another() -> pip_container.PipContainer:
        another = pip_container.open_builder(task.client, owner, builder_id, settings)
        resolver.bring(another)
        return another

    kept = pip_container.open_kept_wheels(task.client, owner, builder_id)
    wheel_builder = WheelBuilder(inside, open_another, kept, own, resolver.options(), builder_id, task.step)
    wheels = wheel_builder.get([package for package, _ in resolution.packages])
    found = _install_and_import(task, own, replace(resolution, releases=releases), wheels)
    return found.model_copy(update={"notes": asked.notes})


def _asked(wanted: Requirements) -> tuple[Requirements, PipSettings]:
    """Return what pip is asked for, and its settings, with the passwords of the places that are named alone."""
    wanted.require_allowed()
    places = [place for line in wanted.lines for place in (line.text, line.index)]
    settings = gather(wanted.variables, [*wanted.options, *places])
    return with_indexes(wanted, settings.environment), settings


def _releases_with_wheels(
    task: _Task, inside: PipContainer, resolution: Resolution, options: Sequence[str]
) -> dict[str, str]:
    """Return for packages without a wheel, by their canonical names, the nearest release that has one."""
    asked = list(resolution.without_wheel.items())[: remedies.MOST_ASKED]
    if asked:
        task.step(f"asking the index which releases of {len(asked)} packages have wheels")
    return {name: remedies.release_with_wheel(inside, name, version, options) for name, version in asked}


# Prints what markers are evaluated in.
ENVIRONMENT = "import json; from pip._vendor.packaging import markers; print(json.dumps(markers.default_environment()))"


def _environment(inside: PipContainer) -> Environment:
    """Return the environment of the variant's interpreter, in which the markers of lock files are evaluated."""
    return dict(parse_json(_must(inside, ["python", "-c", ENVIRONMENT], ASK_S)))


def _unsupported(own: PipContainer) -> str:
    """Return why the variant's pip cannot write a report; empty if it can."""
    version = own.pip_version()
    if version is None:
        return "it has no pip"
    if version >= LEAST_PIP:
        return ""
    least = ".".join(map(str, LEAST_PIP))
    return f"its pip {version[0]}.{version[1]} writes no installation report (new in pip {least})"


def _install_and_import(
    task: _Task, own: pip_container.PipContainer, resolution: Resolution, wheels: Sequence[Wheel]
) -> VariantAudit:
    task.step("installing")
    reasons = install(own, [wheel for wheel in wheels if wheel.path])
    there = distributions(own)
    jobs = import_jobs(there, wheels, task.catalog.variants[task.image.variant].proof.gil, task.wanted.modules)
    task.step(f"importing {sum(len(job.modules) for job in jobs)} modules")
    bare, answers = run_jobs(own, jobs)
    imports = imports_by_package(jobs, answers, owners(there))
    return VariantAudit(
        variant=task.image.variant,
        outcome=Outcome(state=State.OK),
        gil=Gil(bare) if bare else None,
        packages=package_rows(resolution, wheels, reasons, imports),
        further=imports.get("", []),
        untried=untried(jobs, answers),
    )
