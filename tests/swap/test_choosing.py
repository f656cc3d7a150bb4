"""Which image lines are swapped: of images that are not python:X, what a refusal says to do."""

from __future__ import annotations

import pytest

from interlock.errors import SwapError
from interlock.swap.files import swapped_dockerfile
from interlock.swap.image_names import parse_name
from tests.swap.samples import PLAIN


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
    assert parse_name(image).instead
    with pytest.raises(SwapError) as refused:
        swapped_dockerfile(f"FROM {image}\nRUN dnf install -y python3\n", PLAIN, None, paths=False)
    assert parse_name(image).instead.strip() in refused.value.todo


@pytest.mark.parametrize("image", ["dhi.io/python:3.13-debian13", "cgr.dev/acme.com/python:latest", "debian", "nginx"])
def test_of_others_nothing_is_known(image: str) -> None:
    assert not parse_name(image).instead
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
