"""The parent image: pulled where a registry answers, made by debootstrap where none does."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.base import ensure_base, find_base
from interlock.errors import EngineError
from interlock.model import Base, BaseImage, Catalog

CONFIGURATION = """\
version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""


@pytest.fixture(scope="session")
def registry_program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Debian's docker-registry: unpacked, not installed, because installing starts a service on the machine."""
    folder = tmp_path_factory.mktemp("docker-registry")
    subprocess.run(["apt-get", "download", "-q", "docker-registry"], cwd=folder, check=True, capture_output=True)
    (package,) = folder.glob("*.deb")
    subprocess.run(["dpkg-deb", "-x", str(package), str(folder)], check=True)
    return str(folder / "usr/bin/docker-registry")


@pytest.fixture
def registry(registry_program: str, tmp_path: Path) -> Iterator[str]:
    """A registry of the test's own, on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    configuration = tmp_path / "registry.yml"
    configuration.write_text(CONFIGURATION.format(folder=tmp_path / "registry", port=port))
    with subprocess.Popen([registry_program, "serve", str(configuration)], stderr=subprocess.DEVNULL) as process:
        for _ in range(100):
            with suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/").close()
                break
            time.sleep(0.1)
        yield f"127.0.0.1:{port}"
        process.terminate()


@pytest.fixture
def real_base(client: Any, catalog: Catalog, tmp_path: Path) -> BaseImage:
    return ensure_base(client, catalog.bases["trixie"], tmp_path, print)


def pinned(catalog: Catalog, reference: str) -> Base:
    return catalog.bases["trixie"].model_copy(update={"reference": reference})


def test_a_registry_that_answers_is_used_and_recorded(
    client: Any, catalog: Catalog, registry: str, real_base: BaseImage, tmp_path: Path
) -> None:
    repository = f"{registry}/debian"
    client.images.get(real_base.image_id).tag(repository, "trixie-slim")
    pushed = list(client.api.push(repository, "trixie-slim", stream=True, decode=True))
    digest = next(event["aux"]["Digest"] for event in pushed if "aux" in event)
    client.images.remove(f"{repository}:trixie-slim")
    base = pinned(catalog, f"{repository}:trixie-slim@{digest}")
    try:
        assert find_base(client, base) is None
        found = ensure_base(client, base, tmp_path, print)
        assert found.origin == "registry"
        assert found.reference == base.reference
        assert find_base(client, base) == found
    finally:
        client.images.remove(base.reference)


def test_where_no_registry_answers_debootstrap_makes_an_equal_and_it_is_kept(
    client: Any, catalog: Catalog, tmp_path: Path
) -> None:
    base = pinned(catalog, f"127.0.0.1:1/debian:trixie-slim@sha256:{'5' * 64}")
    said: list[str] = []
    try:
        made = ensure_base(client, base, tmp_path, said.append)
        assert made.origin == "debootstrap"
        assert "connection refused" in said[-1]
        release = client.containers.run(made.image_id, ["cat", "/etc/os-release"], remove=True).decode()
        assert "VERSION_CODENAME=trixie" in release
        assert client.images.get(made.image_id).attrs["Size"] < 100e6
        assert ensure_base(client, base, tmp_path, said.append) == made
        assert len(said) == 2, "the second time it is found, not made"
        assert list(tmp_path.iterdir()) == [], "the folder it was made in is gone"
    finally:
        client.images.remove(f"interlock/base:trixie-{'5' * 12}")


def test_without_registry_and_debootstrap_the_error_says_what_to_install(
    client: Any, catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = pinned(catalog, f"127.0.0.1:1/debian:trixie-slim@sha256:{'6' * 64}")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("debootstrap") is None
    with pytest.raises(EngineError, match=r"cannot be pulled .*apt-get install debootstrap"):
        ensure_base(client, base, tmp_path, print)
