"""What `publish` refuses, what `pull` and `swap` make of published images, and provenance; no engine answers."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest

from interlock.catalog import project as catalogs
from interlock.catalog import published
from interlock.catalog.published import Published
from interlock.engine.publishing import provenance
from tests.builders import FROM_ARCHIVE, Entry, make_built, make_program, make_published, make_variant
from tests.cosign import Cosign

VARIANT = "cpython-3.14t"
ONE = make_published(VARIANT)
OTHER = {"platforms": ["linux/arm64"], "digest": f"sha256:{'e' * 64}"}
USAGE, CATALOG, STORE, REGISTRY = 2, 3, 7, 4


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, entry: Entry, project: Path, tmp_path: Path) -> Entry:
    """Runs a command in a project where no engine answers; its exit code, output and errors."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    monkeypatch.chdir(project)
    return entry


def publish(project: Path, one: Published = ONE) -> None:
    (project / published.FILE).write_text(published.written({one.name: one}))


def folder_with(folder: Path, one: Published) -> Path:
    folder.mkdir()
    (folder / "published.toml").write_text(published.written({one.name: one}))
    return folder


def test_a_swap_takes_the_published_image_and_an_engine_is_not_needed(run: Entry, project: Path) -> None:
    publish(project)
    file = project / "Dockerfile"
    file.write_text("FROM python:3.13-slim\n")
    assert run("swap", file, "--to", VARIANT, "--write")[0] == 0
    assert f"\nFROM {ONE.reference}\n" in file.read_text()


def test_a_swap_takes_what_is_here_where_that_is_asked_for(run: Entry, project: Path) -> None:
    publish(project)
    (project / "Dockerfile").write_text("FROM python:3.13-slim\n")
    _, out, _ = run("swap", "Dockerfile", "--to", VARIANT, "--local")
    assert "+FROM localhost/interlock/python:3.14t-trixie" in out


@pytest.mark.parametrize(
    ("changes", "words"),
    [({}, []), ({"signed": False}, ["signed"]), ({"version": "3.14.1"}, ["3.14.1", f"variants/{VARIANT}.toml"])],
)
def test_what_is_to_know_of_a_published_image_is_told(
    changes: dict[str, object], words: list[str], run: Entry, project: Path
) -> None:
    version = catalogs.load(project).variants[VARIANT].version
    publish(project, ONE.model_copy(update={"version": version} | changes))
    (project / "Dockerfile").write_text("FROM python:3.14t-slim\n")
    _, out, _ = run("swap", "Dockerfile", "--to", VARIANT, "--json")
    told = [one["text"] for one in json.loads(out)["caveats"] if "published" in one["text"]]
    assert len(told) == bool(words)
    assert all(word in told[0] for word in words)


def test_what_nobody_published_is_not_pulled(run: Entry, project: Path) -> None:
    publish(project)
    code, _, err = run("pull", "debian-3.13")
    assert (code, "key 'debian-3.13'" in err, "build debian-3.13" in err) == (REGISTRY, True, True)
    (project / published.FILE).write_text(published.written({}))
    code, _, err = run("pull")
    assert (code, published.FILE in err, "--registry" in err) == (REGISTRY, True, True)


def test_without_cosign_nothing_is_published_as_signed(
    run: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    code, _, err = run("publish", folder_with(tmp_path / "amd64", ONE))
    assert (code, "cosign" in err, "--unsigned" in err) == (USAGE, True, True)


@pytest.mark.parametrize(
    "said",
    [
        "docker: 'buildx' is not a docker command.\nSee 'docker --help'",
        "docker: unknown command: docker buildx\n\nRun 'docker --help' for more information",
    ],
    ids=["20.10", "28"],
)
def test_without_buildx_it_is_named_in_place_of_what_docker_says_last(
    said: str, run: Entry, tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_program(tmp_path / "docker", f'echo "{said}" >&2; exit 1')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    before = (project / published.FILE).read_text()
    code, _, err = run("publish", folder_with(tmp_path / "amd64", ONE), "--unsigned")
    assert (code, "buildx, which joins images, is not installed" in err, "--help" in err) == (REGISTRY, True, False)
    assert (project / published.FILE).read_text() == before


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({**OTHER, "version": "3.14.1"}, "version"),
        ({**OTHER, "tag": "3.14-trixie"}, "tag"),
        ({**OTHER, "registry": "registry.example:5000/others"}, "registry"),
        ({"digest": f"sha256:{'e' * 64}"}, "platforms"),
    ],
)
def test_what_does_not_belong_together_is_not_joined(
    changes: dict[str, object], key: str, run: Entry, tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cosign = Cosign(tmp_path / "bin", monkeypatch)
    before = (project / published.FILE).read_text()
    second = folder_with(tmp_path / "arm64", ONE.model_copy(update=changes))
    code, _, err = run("publish", folder_with(tmp_path / "amd64", ONE), second)
    assert (code, f"{second}/published.toml, key '{VARIANT}.{key}'" in err) == (CATALOG, True)
    assert (cosign.asked, (project / published.FILE).read_text()) == ([], before)


def test_a_folder_in_which_nothing_was_recorded_is_named(run: Entry, tmp_path: Path) -> None:
    code, _, err = run("publish", tmp_path / "gone", "--unsigned")
    assert (code, f"{tmp_path}/gone/published.toml" in err, "--record" in err) == (STORE, True, True)


def test_provenance_names_the_archives_of_what_others_built() -> None:
    variant = make_variant(**FROM_ARCHIVE)
    made_of = json.loads(provenance(variant, make_built(variant.name), {}))["buildDefinition"]["resolvedDependencies"]
    digests = [one["digest"]["sha256"] for one in made_of if one["uri"].startswith("https://example.org/")]
    assert digests == ["c" * 64, "d" * 64]


def test_provenance_names_what_was_built_from_what_and_by_whom(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    variant = catalogs.load(project).variants[VARIANT]
    built = make_built(VARIANT).model_copy(update={"content_hash": "c" * 64})
    said = functools.partial(provenance, variant, built, {"org.opencontainers.image.revision": "abc"})
    monkeypatch.delenv("GITHUB_WORKFLOW_REF", raising=False)
    definition = json.loads(said())["buildDefinition"]
    assert definition["externalParameters"] == {"variant": VARIANT, "content_hash": "c" * 64}
    digests = [one["digest"] for one in definition["resolvedDependencies"]]
    assert {"gitCommit": "abc"} in digests
    assert all({"sha256": one.sha256} in digests for one in variant.downloads)
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://forge.example")
    monkeypatch.setenv("GITHUB_WORKFLOW_REF", "o/r/.github/workflows/publish.yml@refs/tags/v1")
    builder = json.loads(said())["runDetails"]["builder"]["id"]
    assert builder == "https://forge.example/o/r/.github/workflows/publish.yml@refs/tags/v1"
