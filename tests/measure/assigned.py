"""Assignments of made-up images, by the variants of this project."""

from __future__ import annotations

from interlock.catalog import project
from interlock.measure.assignment import Assignment
from interlock.results.experiments import Built
from tests.builders import ROOT, make_settings


def assigned(built: list[Built], baseline: str, variants: list[str] | None = None) -> Assignment:
    update = {"baseline": baseline}
    settings = make_settings(variants or [image.variant for image in built]).model_copy(update=update)
    return Assignment(project.load(ROOT), ROOT, ROOT / "results", built, settings, "nox -s matrix")
