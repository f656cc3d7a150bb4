"""What is built: the variant's file as it is now; and what builds share is built before them."""

from __future__ import annotations

import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import ImageNotFound

from interlock.catalog import project as catalogs
from interlock.catalog.variants import Variant
from interlock.engine.build import builds
from interlock.engine.build.helper_images import helper_context
from interlock.engine.build.image import ImagePlan
from interlock.engine.docker import DockerEngine
from interlock.engine.host.engine import HostEngine
from interlock.engine.names import Registry
from interlock.engine.protocol import BuildOptions
from interlock.engine.side_by_side import worker_count
from interlock.errors import BuildError
from interlock.results import store
from interlock.results.experiments import BaseImage, BuildRecord, Built, Outcome, State
from tests.builders import ROOT, make_base, make_built

BASE = make_base(origin="registry", chain_id="sha256:layers")
VARIANT = "debian-3.13"


def builder_of(project: Path, client: Any = None) -> builds.ImageBuilder:
    options = BuildOptions(project, project / "cache")
    return builds.ImageBuilder(catalogs.load(project), options, lambda *_: None, client)


def plan(project: Path, name: str = VARIANT) -> ImagePlan:
    builder = builder_of(project)
    variant = builder.known.variants[name]
    return builder.plan(variant.at(variant.version))


@pytest.fixture(autouse=True)
def base(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builds, "ensure_base", lambda *_, **__: BASE)
    monkeypatch.setattr(builds.ImageBuilder, "machine", "x86_64")


def test_a_variant_that_was_edited_is_planned_as_its_file_is_now_whatever_lies_in_dockerfiles(project: Path) -> None:
    committed = {
        str(path.relative_to(ROOT / "dockerfiles" / VARIANT)): path.read_bytes()
        for path in (ROOT / "dockerfiles" / VARIANT).rglob("*")
        if path.is_file()
    }
    before = plan(project)
    assert before.files == committed
    stale = project / "dockerfiles" / VARIANT / "Dockerfile"
    stale.parent.mkdir()
    stale.write_bytes(committed["Dockerfile"])
    file = project / "variants" / f"{VARIANT}.toml"
    file.write_text(file.read_text().replace('"python3.13-venv"', '"python3.13-venv", "python3.13-dev"'))
    after = plan(project)
    assert b"python3.13-dev" in after.files["Dockerfile"]
    assert after.content_hash != before.content_hash


def test_what_is_looked_up_is_planned_once(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[str] = []

    def counted(self: builds.ImageBuilder, variant: Variant) -> ImagePlan:
        planned.append(variant.name)
        return plan_of(self, variant)

    plan_of = builds.ImageBuilder.plan
    monkeypatch.setattr(builds.ImageBuilder, "plan", counted)
    there = make_built(VARIANT)
    monkeypatch.setattr(builds.ImageBuilder, "find", lambda _, plan: there if plan.variant.name == VARIANT else None)
    found, missing = builds.look_up(builder_of(project), [VARIANT, "cpython-2.7"])
    assert (found, missing.outcome.state) == (there, State.UNAVAILABLE)
    assert (
        missing.content_hash
        == plan_of(builder_of(project), catalogs.load(project).variants["cpython-2.7"]).content_hash
    )
    assert planned == [VARIANT, "cpython-2.7"]


@pytest.mark.parametrize(("name", "base"), [(VARIANT, None), ("official-3.13", None), (VARIANT, BASE)])
def test_nothing_is_pulled_to_look_up_what_there_is(
    project: Path, monkeypatch: pytest.MonkeyPatch, name: str, base: BaseImage | None
) -> None:
    """What is missing is pulled and made once that was announced."""
    monkeypatch.setattr(builds, "find_base", lambda *_: base)
    for finds in ("find_pulled", "find_image"):
        monkeypatch.setattr(builds, finds, lambda *_: None)
    for fetches in ("ensure_base", "pull", "pull_built"):
        monkeypatch.setattr(builds, fetches, None)
    options = BuildOptions(project, project / "cache", registry=Registry("registry.example", "team"))
    (missing,) = DockerEngine(SimpleNamespace()).look_up(catalogs.load(project), [name], options)
    assert missing.outcome == Outcome(state=State.UNAVAILABLE, reason=builds.NOT_BUILT)


@pytest.mark.parametrize(
    ("names", "stages"),
    [
        (["debian-3.13"], []),
        (["cpython-3.13", "debian-3.13"], ["toolchain", "runtime"]),
        (["cpython-3.13", "cpython-2.7-pth"], ["toolchain", "runtime"]),
        (["cpython-3.13", "cpython-2.7-pth", "cpython-3.13-frozen"], ["toolchain", "runtime"]),
        (["cpython-2.7-pth", "cpython-3.13", "cpython-2.7-pth-plain"], ["toolchain", "runtime", "tools"]),
    ],
)
def test_what_builds_share_is_built_once_before_they_are_built_side_by_side(
    project: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], stages: list[str]
) -> None:
    """Two that install the same packages at once leave two images, and one is compiled again for its symbols."""
    built: list[str] = []
    monkeypatch.setattr(builds, "begin_helpers", lambda *_: None)
    monkeypatch.setattr(builds, "build_aside", lambda *_, target, **__: built.append(target))
    builder_of(project).workers([plan(project, name) for name in names])
    assert built == stages


def test_a_shared_stage_that_fails_ends_the_build_of_no_other_variant(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that need it fail by themselves, and what is packed or pulled needs none."""
    tried: list[str] = []

    def fail(*_: Any, target: str, **__: Any) -> None:
        tried.append(target)
        raise BuildError(found=f"the {target} stage does not build", todo="")

    monkeypatch.setattr(builds, "begin_helpers", lambda *_: None)
    monkeypatch.setattr(builds, "build_aside", fail)
    plans = [plan(project, name) for name in ("cpython-3.13", "debian-3.13")]
    assert builder_of(project).workers(plans) == worker_count(2)
    assert tried == ["toolchain", "runtime"]


def test_an_image_that_somebody_removes_before_its_proof_is_a_failed_build_of_that_variant(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: Any, **__: Any) -> None:
        raise ImageNotFound("no such image")

    monkeypatch.setattr(builds, "build_image", lambda *_: "sha256:made")
    client = SimpleNamespace(images=SimpleNamespace(remove=gone), containers=SimpleNamespace(create=gone))
    built = builder_of(project, client).build_one(plan(project))
    assert built.outcome.state is State.FAILED
    assert "no such image" in built.outcome.reason


def test_what_is_generated_of_a_helper_is_as_it_would_be_rendered_now(project: Path) -> None:
    folder = project / "dockerfiles" / "instruments"
    folder.mkdir()
    (folder / "fetch.sh").write_text("# of an older project\n")
    assert helper_context(project, "instruments")["fetch.sh"] == (project / "dockerfiles" / "fetch.sh").read_bytes()


def test_the_command_is_the_one_that_repeats_the_build() -> None:
    assert builds.build_command(["a", "b"]) == "interlock build a b"
    assert builds.build_command(None, force=True) == "interlock build --force"


CLIENT = SimpleNamespace(
    info=lambda: {"ServerVersion": "1", "Driver": "overlay2", "NCPU": 2, "MemTotal": 1, "CgroupVersion": "2"},
    version=lambda: {"Version": "1", "Platform": {"Name": "an engine"}},
)


def test_what_is_written_is_read_back_with_machine_engine_and_duration(tmp_path: Path) -> None:
    missing = Outcome(state=State.UNAVAILABLE, reason="example.org: no answer")
    built = [Built(variant="a", outcome=missing)]
    began = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=61)
    folder = tmp_path / "references" / "one"
    path = builds.write_record(DockerEngine(CLIENT), folder, built, "interlock build a", 61.04)
    assert path == folder / store.BUILDS_FILE
    record = store.latest_builds(tmp_path / "references")
    assert record is not None
    assert (record.name, record.command, record.builds) == ("one", "interlock build a", built)
    assert abs(datetime.datetime.fromisoformat(record.started) - began) < datetime.timedelta(seconds=60)
    assert record.duration_s == 61
    assert record.host["engine"]["storage_driver"] == "overlay2"


def test_prefixes_of_this_machine_are_built_one_after_the_other(tmp_path: Path) -> None:
    three = [make_built(name) for name in "abc"]
    sides = []
    for engine in (HostEngine(ROOT, tmp_path), DockerEngine(CLIENT)):
        path = builds.write_record(engine, tmp_path / engine.name, three, "interlock build", 1.0)
        sides.append(store.read_json(path, BuildRecord).side_by_side)
    assert sides == [1, worker_count(3)]
