"""The command: what it audits by default, and bad input, each with one sentence before the engine is asked anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.catalog import project as catalogs
from interlock.cli.audit import audit_command, built_images, variants_to_audit
from interlock.errors import BuildError, EngineError, InterlockError, RequirementsError, UsageError
from interlock.results.experiments import Built, Outcome, State
from tests.builders import ROOT, make_built

CONTROL, FREE = "cpython-3.13", "cpython-3.13t"


def unbuilt(variant: str) -> Built:
    return make_built(variant, Outcome(state=State.UNAVAILABLE, reason="not built, or built from an older file"))


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, project: Path, tmp_path: Path) -> Callable[..., InterlockError]:
    """Runs the command in a copy of the project without an engine, and gives its error."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")

    def by(text: str | None, variants: str | None = None) -> InterlockError:
        if text is not None:
            (tmp_path / "r.txt").write_text(text)
        with pytest.raises(InterlockError) as caught:
            audit_command([str(tmp_path / "r.txt")], variants=variants)
        return caught.value

    return by


def test_by_default_every_variant_without_a_gil_is_audited_and_the_control_first() -> None:
    known = catalogs.load(ROOT)
    found = variants_to_audit(known, None)
    assert found[0] == CONTROL
    assert {FREE, "cpython-3.14t", "cpython-3.15t", "nogil-3.9"} <= set(found)
    assert "cpython-3.14" not in found


def test_chosen_variants_are_audited_beside_the_control_which_is_there_once() -> None:
    known = catalogs.load(ROOT)
    assert variants_to_audit(known, ["cpython-3.12", FREE]) == [CONTROL, "cpython-3.12", FREE]
    assert variants_to_audit(known, [FREE, CONTROL]) == [CONTROL, FREE]


def test_what_is_not_built_is_left_out_unless_it_was_chosen() -> None:
    there = [make_built(CONTROL), make_built(FREE), unbuilt("cpython-3.15t")]
    assert [image.variant for image in built_images(there, None)] == [CONTROL, FREE]
    with pytest.raises(BuildError, match=r"interlock build cpython-3\.15t"):
        built_images(there, [FREE, "cpython-3.15t"])


def test_a_control_that_is_not_built_is_done_without() -> None:
    assert [image.variant for image in built_images([unbuilt(CONTROL), make_built(FREE)], [FREE])] == [FREE]


def test_without_a_free_threaded_variant_there_is_nothing_to_audit_unless_others_are_chosen() -> None:
    with pytest.raises(BuildError, match=r"interlock build cpython-\S+t\b"):
        built_images([make_built(CONTROL), unbuilt(FREE)], None)
    assert [image.variant for image in built_images([make_built(CONTROL)], [CONTROL])] == [CONTROL]


def test_without_a_file_the_command_says_how_to_name_one() -> None:
    with pytest.raises(UsageError, match=r"interlock audit -r requirements\.txt"):
        audit_command(None)


def test_bad_input_is_one_sentence_before_the_engine_is_asked(refused: Callable[..., InterlockError]) -> None:
    assert isinstance(refused(None), RequirementsError)
    assert isinstance(refused("one two"), RequirementsError)
    # `Path.exists` raises for it, as for a path in a folder that is closed to this user.
    assert isinstance(refused(f"-e ./{'a' * 300}"), RequirementsError)
    unknown = refused("six", variants="cpython-9.9")
    assert isinstance(unknown, UsageError)
    assert (unknown.key, "'cpython-9.9'" in str(unknown)) == ("--variants", True)
    assert isinstance(refused("six"), EngineError)
