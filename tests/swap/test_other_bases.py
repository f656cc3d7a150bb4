"""Images that are not python:X: what starts on their libraries, and what a refusal says to do."""

from __future__ import annotations

import pytest

from interlock.errors import SwapError
from interlock.swap.caveats import Weight
from interlock.swap.files import swapped_dockerfile
from interlock.swap.image_names import parse_name
from interlock.swap.other_bases import has_older_libraries, instead
from tests.swap.samples import PLAIN


@pytest.mark.parametrize(
    ("image", "trixie", "bookworm"),
    [
        ("ubuntu:22.04", True, True),
        ("ubuntu:24.10", True, False),
        ("ubuntu:25.04", False, False),
        ("ubuntu:noble", True, False),
        ("nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04", True, True),
        ("nvidia/cuda:12.8.0-base-ubi9", True, True),
        ("registry.access.redhat.com/ubi9/ubi-minimal:9.4", True, True),
        ("redhat/ubi10", True, False),
        ("quay.io/centos/centos:stream9", True, True),
        ("rockylinux/rockylinux:9.3", True, True),
        ("amazonlinux:2023", True, True),
        ("fedora:42", False, False),
        ("gcr.io/distroless/cc-debian12:nonroot", True, False),
        ("gcr.io/distroless/cc-debian13", False, False),
        ("debian:12-slim", True, False),
        ("node:22-bookworm", True, False),
        ("alpine:3.22", True, True),
        ("cgr.dev/chainguard/wolfi-base", False, False),
        ("nginx", False, False),
    ],
)
def test_a_system_with_an_older_c_library_is_told_by_its_name(image: str, trixie: bool, bookworm: bool) -> None:
    assert has_older_libraries(parse_name(image), "trixie") == trixie
    assert has_older_libraries(parse_name(image), "bookworm") == bookworm


@pytest.mark.parametrize(
    "image",
    [
        "mcr.microsoft.com/playwright/python:v1.48.0-noble",
        "nvidia/cuda:12.4.1-base-ubuntu22.04",
        "nvcr.io/nvidia/pytorch:24.08-py3",
        "registry.access.redhat.com/ubi9/python-312",
        "amazonlinux:2023",
    ],
)
def test_what_no_variant_replaces_is_refused_with_what_to_do(image: str) -> None:
    assert instead(parse_name(image))
    with pytest.raises(SwapError) as refused:
        swapped_dockerfile(f"FROM {image}\nRUN dnf install -y python3\n", PLAIN, None, paths=False)
    assert instead(parse_name(image)).strip() in refused.value.todo


@pytest.mark.parametrize("image", ["dhi.io/python:3.13-debian13", "cgr.dev/acme.com/python:latest", "debian", "nginx"])
def test_of_others_nothing_is_known(image: str) -> None:
    assert not instead(parse_name(image))
    with pytest.raises(SwapError):
        swapped_dockerfile(f"FROM {image}\n", PLAIN, None, paths=False)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("RUN apt-get update && apt-get install -y \\\n  python3 git", 2),
        ("RUN apk add --no-cache python-${V} py3-pip", 2),
        ("RUN true\nRUN uv python install 3.13", 3),
        ("RUN apt-get install -y python3-yaml", 0),
        ("RUN apt-get install -y git && echo python3", 0),
    ],
)
def test_who_installs_a_python_into_another_image_is_named(line: str, told: int) -> None:
    with pytest.raises(SwapError) as refused:
        swapped_dockerfile(f"FROM debian\n{line}\n", PLAIN, None, paths=False)
    assert refused.value.file == (f"Dockerfile:{told}" if told else "Dockerfile")


@pytest.mark.parametrize(
    "manager", ["dnf install -y", "microdnf install -y", "yum install -y", "apk add", "zypper install"]
)
def test_another_systems_package_manager_is_told_where_it_is_swapped_all_the_same(manager: str) -> None:
    text = f"FROM company/base AS a\nRUN {manager} python3.12 x\n"
    result = swapped_dockerfile(text, PLAIN, "a", paths=True)
    assert [one.line for one in result.warnings if one.weight is Weight.BREAKS] == [2]
    assert result.paths == ()
