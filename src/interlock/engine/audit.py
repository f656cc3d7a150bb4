"""Installs requirements into variants and imports them: how each package gets there, and who switches the GIL on."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker.errors import DockerException

from interlock import installed
from interlock.engine import assembling, cells, importing, workbench
from interlock.engine.builder import ensure_builder
from interlock.engine.image import Say
from interlock.engine.pip_settings import PipSettings, gather
from interlock.engine.resolving import Resolution, Resolver
from interlock.engine.wheels import Wheel, Workshop
from interlock.errors import BuildError, EngineError
from interlock.model import Built, Catalog, Gil, Outcome, State, VariantAudit
from interlock.pip_output import LEAST_PIP, pip_version
from interlock.requirements import Requirements

ASK_S = 60


def audit(  # noqa: PLR0913, PLR0917  the engine, the project, and what is asked
    client: Any, catalog: Catalog, root: Path, images: Sequence[Built], wanted: Requirements, say: Say
) -> list[VariantAudit]:
    """What came of the requirements in each image; one whose variant cannot be asked says why in its outcome.

    `say(variant, step)` is called for each step. EngineError is raised if the engine fails or pip's index cannot be
    reached, RequirementsError if a file that a line names cannot be read. All containers and volumes are gone
    afterwards, interrupted or not, but for the cache.
    """
    settings = gather(wanted.variables, [*wanted.options, *(line.text for line in wanted.lines)])
    return [_audit_one(_Task(client, catalog, root, image, wanted, settings, say)) for image in images]


@dataclass(frozen=True)
class _Task:
    client: Any
    catalog: Catalog
    root: Path
    image: Built
    wanted: Requirements
    settings: PipSettings
    say: Say

    def step(self, text: str) -> None:
        self.say(self.image.variant, text)


def _audit_one(task: _Task) -> VariantAudit:
    name = task.image.variant
    if task.image.outcome.state is not State.OK:
        return VariantAudit(variant=name, outcome=task.image.outcome)
    owner = f"audit-{uuid.uuid4().hex[:12]}"
    try:
        return _work(task, owner)
    except BuildError as error:  # of the builder: no other variant's concern
        return VariantAudit(variant=name, outcome=Outcome(state=State.FAILED, reason=str(error)))
    except DockerException as error:
        raise EngineError(key=name, found=f"the engine ended an audit: {error}", todo="See the engine's log.") from None
    finally:
        cells.clean_up(task.client, owner)


def _work(task: _Task, owner: str) -> VariantAudit:
    variant = task.catalog.variants[task.image.variant]
    workbench.create_wheels_volume(task.client, owner)
    own = workbench.open_image(task.client, owner, task.image.image_id)
    unsupported = _unsupported(own)
    if unsupported:
        outcome = Outcome(state=State.UNSUPPORTED, reason=unsupported)
        return VariantAudit(variant=variant.name, outcome=outcome)
    task.step("preparing the builder")
    builder_id = ensure_builder(task.client, task.root, task.image, variant, task.catalog.bases[variant.base])
    bench = workbench.open_builder(task.client, owner, builder_id, task.settings)
    resolver = Resolver(bench, task.wanted, task.step)
    resolution = resolver.resolve()
    workshop = Workshop(bench, resolver.options(), builder_id, task.step)
    wheels = workshop.get([package for package, _ in resolution.packages])
    cells.remove(bench.container)
    return _install_and_import(task, own, resolution, wheels)


def _unsupported(own: workbench.Workbench) -> str:
    """Why the variant's pip cannot be asked; empty if it can."""
    said = own.pip("--version", deadline_s=ASK_S)
    version = pip_version(said.output)
    if version is None:
        return "it has no pip"
    least = ".".join(map(str, LEAST_PIP))
    return "" if version >= LEAST_PIP else f"its pip {version[0]}.{version[1]} has no report: that came with {least}"


def _install_and_import(
    task: _Task, own: workbench.Workbench, resolution: Resolution, wheels: Sequence[Wheel]
) -> VariantAudit:
    task.step("installing")
    reasons = importing.install(own, [wheel for wheel in wheels if wheel.path])
    there = importing.distributions(own)
    jobs = assembling.jobs_of(there, wheels, task.catalog.variants[task.image.variant].proof.gil, task.wanted.modules)
    task.step(f"importing {sum(len(job.modules) for job in jobs)} modules")
    bare, answers = importing.run_jobs(own, jobs)
    imports = assembling.imports_of(jobs, answers, installed.owners(there))
    return VariantAudit(
        variant=task.image.variant,
        outcome=Outcome(state=State.OK),
        gil=Gil(bare) if bare else None,
        packages=assembling.packages_of(resolution, wheels, reasons, imports),
        further=imports.get("", []),
    )
