"""The parts of an image's name, and the Python that it stands for."""

from __future__ import annotations

import pytest

from interlock.catalog.variants import SourceKind
from interlock.swap.image_names import Flavour, Maker, new_image, parse_name, python_image
from tests.builders import FROM_PACKAGES, make_variant


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("python", ("", "python", "", "")),
        ("python:3.12", ("", "python", "3.12", "")),
        ("library/python:3.12", ("", "library/python", "3.12", "")),
        ("registry:5000/library/python:3.12-slim", ("registry:5000", "library/python", "3.12-slim", "")),
        ("registry:5000/python", ("registry:5000", "python", "", "")),
        ("localhost/python:3", ("localhost", "python", "3", "")),
        ("ghcr.io/a/b/c@sha256:12", ("ghcr.io", "a/b/c", "", "sha256:12")),
        ("python:3.13-slim@sha256:12", ("", "python", "3.13-slim", "sha256:12")),
    ],
)
def test_a_name_has_a_registry_with_its_port_a_repository_a_tag_and_a_digest(text: str, parts: tuple[str, ...]) -> None:
    name = parse_name(text)
    assert (name.registry, name.repository, name.tag, name.digest) == parts


@pytest.mark.parametrize(
    "text",
    [
        "python",
        "python:3.12-slim",
        "docker.io/library/python:3.12",
        "index.docker.io/python:3.12",
        "arm64v8/python:3.12",
        "registry:5000/library/python:3.12",
        "registry:5000/python:3.12",
        "public.ecr.aws/docker/library/python:3.12",
        "gitlab.example.com/group/dependency_proxy/containers/python:3.12",
        "us-docker.pkg.dev/project/docker-hub/python:3.12",
    ],
)
def test_the_official_image_is_found_in_mirrors_too(text: str) -> None:
    image = python_image(text)
    assert image is not None
    assert image.maker is Maker.OFFICIAL


@pytest.mark.parametrize(
    ("text", "python"),
    [
        ("bitnami/python:3.12", "3.12"),
        ("docker.io/bitnami/python:3.12.4-debian-12-r3", "3.12"),
        ("cimg/python:3.11", "3.11"),
        ("public.ecr.aws/lambda/python:3.12", "3.12"),
        ("mcr.microsoft.com/devcontainers/python:1-3.12-bookworm", "3.12"),
        ("gcr.io/distroless/python3-debian12", "3.11"),
        ("tiangolo/uvicorn-gunicorn-fastapi:python3.11", "3.11"),
        ("registry.access.redhat.com/ubi9/python-312:1-20", "3.12"),
        ("continuumio/miniconda3:24.7.1-0", None),
    ],
)
def test_an_image_with_more_than_python_is_another_makers(text: str, python: str | None) -> None:
    image = python_image(text)
    assert image is not None
    assert (image.maker, image.python) == (Maker.OTHER, python)


@pytest.mark.parametrize("text", ["scratch", "node:22", "debian:trixie-slim", "ghcr.io/astral-sh/uv:0.8", "nginx", ""])
def test_other_images_are_no_python(text: str) -> None:
    assert python_image(text) is None


@pytest.mark.parametrize(
    ("text", "python", "flavour", "suite"),
    [
        ("python:3.12", "3.12", Flavour.FULL, None),
        ("python:3.12.4-slim-bookworm", "3.12", Flavour.SLIM, "bookworm"),
        ("python:3.12-alpine", "3.12", Flavour.ALPINE, None),
        ("python:3.12-alpine3.20", "3.12", Flavour.ALPINE, "alpine3.20"),
        ("python:alpine3.20", None, Flavour.ALPINE, "alpine3.20"),
        ("python:3.13.0rc2-slim", "3.13", Flavour.SLIM, None),
        ("python:3.14-rc-trixie", "3.14", Flavour.FULL, "trixie"),
        ("python:3.15.0a1", "3.15", Flavour.FULL, None),
        ("python:3-slim", None, Flavour.SLIM, None),
        ("python:3", None, Flavour.FULL, None),
        ("python", None, Flavour.FULL, None),
        ("python@sha256:12", None, Flavour.UNKNOWN, None),
        ("python:3.12-windowsservercore-ltsc2022", "3.12", Flavour.WINDOWS, None),
        ("localhost/interlock/python:3.14t-trixie", "3.14t", Flavour.SLIM, "trixie"),
        ("localhost:5000/interlock/python:nogil-3.9-trixie", "3.9", Flavour.SLIM, "trixie"),
        ("localhost/interlock/python:3.13-frozen-static-trixie", "3.13", Flavour.SLIM, "trixie"),
    ],
)
def test_the_tag_tells_version_flavour_and_suite(
    text: str, python: str | None, flavour: Flavour, suite: str | None
) -> None:
    image = python_image(text)
    assert image is not None
    assert (image.python, image.flavour, image.suite) == (python, flavour, suite)


def test_the_implementation_is_the_name_of_the_command() -> None:
    names = ("pypy:3.10-slim", "localhost/interlock/python:3.11-pypy-trixie", "python:3.10")
    assert [getattr(python_image(name), "implementation", None) for name in names] == ["pypy", "pypy", "python"]


@pytest.mark.parametrize(
    ("name", "version", "python"),
    [("cpython-3.14t", "3.14.4", "3.14t"), ("cpython-3.14-tailcall", "3.14.4", "3.14"), ("nogil-3.9", "3.9.10", "3.9")],
)
def test_a_variants_python_is_what_its_own_folders_are_called_after(name: str, version: str, python: str) -> None:
    assert new_image(make_variant(name, version=version), "x").python == python


def test_the_way_out_of_a_difference_is_a_variant_of_the_same_python_that_does_not_have_it() -> None:
    others = [
        make_variant("cpython-3.13-shared", version="3.13.5"),
        make_variant("cpython-3.13-zip", version="3.13.5", differences={"libpython": "one binary"}),
        make_variant("cpython-3.14-shared", version="3.14.4"),
    ]
    variant = make_variant("cpython-3.13", version="3.13.5", differences={"libpython": "one binary"})
    assert new_image(variant, "x", others).ways_out == {"libpython": "cpython-3.13-shared"}
    assert new_image(variant, "x", others[1:]).ways_out == {}


def test_a_new_image_knows_its_profiles_and_whether_a_registry_has_it() -> None:
    variant = make_variant(
        **FROM_PACKAGES,
        proof={"thread_flavour": "pthread", "gil": "on", "thread_library": "x", "implementation": "pypy"},
    )
    assert variant.kind is SourceKind.PACKAGES
    image = new_image(variant, "localhost/interlock/python:x@sha256:1")
    assert (image.implementation, image.pinned) == ("pypy", True)
    assert not new_image(variant, "localhost/interlock/python:x").pinned


def test_only_what_is_known_to_have_neither_pgo_nor_lto_is_called_unoptimised() -> None:
    """Of Debian's python3.13, which has both, a swap said that it has neither."""
    theirs = [make_variant(**FROM_PACKAGES, optimised_by=by) for by in (["PGO", "LTO"], [], None)]
    assert [new_image(one, "x").unoptimised for one in (make_variant(), *theirs)] == [True, False, False, False]
