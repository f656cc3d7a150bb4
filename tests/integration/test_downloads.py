"""The server of the downloads and what needs no interpreter, in their images."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog.project import Catalog
from interlock.engine.build.base import ensure_base
from interlock.engine.build.helper_images import ensure_helper
from interlock.engine.ownership import OWNER_LABEL
from interlock.engine.protocol import BuildOptions
from interlock.engine.run import containers, leftovers

# A run that was killed leaves things of this name behind.
OWNER = f"test-downloads-{os.getpid()}"
NETWORK = "bridge"
SCRATCH = "/scratch"


@dataclass(frozen=True)
class Downloads:
    """A server, and a container of the image of limits beside it."""

    url: str
    limits: Any

    def run(self, *argv: str) -> str:
        ended = self.limits.exec_run(list(argv))
        assert ended.exit_code == 0, ended.output.decode()
        return str(ended.output.decode())

    def manifest(self) -> dict[str, str]:
        """The SHA-1 of each path."""
        lines = self.run("curl", "--silent", f"{self.url}/manifest").splitlines()
        return {path: sha1 for sha1, _, path in (line.split() for line in lines)}

    def sha1_of(self, path: str) -> str:
        return self.run("sha1sum", path).split()[0]


@pytest.fixture(scope="module")
def single_mib() -> int:
    return 20


@pytest.fixture(scope="module")
def downloads(client: Any, catalog: Catalog, options: BuildOptions, root: Path, single_mib: int) -> Iterator[Downloads]:
    environment = {"SINGLE_MIB": str(single_mib), "MANY_FILES": "12", "MANY_MIB": "1"}
    base = ensure_base(client, catalog.bases["trixie"], options.cache, print)
    with ExitStack() as ends:
        ends.callback(leftovers.clean_up, client, OWNER)
        image_id = ensure_helper(client, root, "server", base)
        # The engine's usual network: a cell's has no address of this host, which asks too.
        server = containers.start_server(client, OWNER, image_id, NETWORK, environment)
        limits = client.containers.run(
            ensure_helper(client, root, "limits", base),
            detach=True,
            network=NETWORK,
            tmpfs={SCRATCH: ""},
            labels={OWNER_LABEL: OWNER},
        )
        yield Downloads(containers.server_url(server, NETWORK), limits)


def test_the_manifest_says_what_is_served(downloads: Downloads) -> None:
    promised = downloads.manifest()
    assert sorted(promised) == [*(f"many/{number:03}.bin" for number in range(12)), "single.bin"]
    for path in ("single.bin", "many/011.bin"):
        downloads.run("curl", "--silent", "--output", f"{SCRATCH}/one", f"{downloads.url}/{path}")
        assert downloads.sha1_of(f"{SCRATCH}/one") == promised[path]


def test_the_certificate_that_is_served_is_the_one_that_is_spoken_with(downloads: Downloads) -> None:
    downloads.run("curl", "--silent", "--output", f"{SCRATCH}/tls.pem", f"{downloads.url}/tls.pem")
    over_tls = downloads.url.replace("http://", "https://").replace(":8080", ":8443")
    said = downloads.run("curl", "--silent", "--cacert", f"{SCRATCH}/tls.pem", f"{over_tls}/manifest")
    assert "single.bin" in said


def test_the_key_of_the_certificate_is_not_served(downloads: Downloads) -> None:
    assert downloads.limits.exec_run(["curl", "--fail", f"{downloads.url}/tls.key"]).exit_code == 22


@pytest.mark.parametrize("repeat", ["1", "3"])
def test_what_is_spliced_is_the_whole_file(downloads: Downloads, repeat: str) -> None:
    downloads.run("splice", repeat, f"{downloads.url}/single.bin", f"{SCRATCH}/spliced")
    assert downloads.sha1_of(f"{SCRATCH}/spliced") == downloads.manifest()["single.bin"]
    downloads.run("rm", f"{SCRATCH}/spliced")


@pytest.mark.parametrize("path", ["not-there", "../x"])
def test_a_splice_of_a_file_that_is_not_there_fails(downloads: Downloads, path: str) -> None:
    ended = downloads.limits.exec_run(["splice", "1", f"{downloads.url}/{path}", "/dev/null"])
    assert ended.exit_code == 1
    assert b"the answer's status or length" in ended.output


@pytest.mark.parametrize("workers", ["1", "3", "8"])
def test_the_writing_without_an_interpreter_writes_every_byte(downloads: Downloads, workers: str) -> None:
    for _ in range(2):  # the second in the place of the first
        downloads.run("pwrite", workers, "8192", "2", f"{SCRATCH}/written", "fsync")
    assert downloads.run("sh", "-c", f"tr -d x < {SCRATCH}/written | wc -c; wc -c < {SCRATCH}/written").split() == [
        "0",
        str(2 << 20),
    ]
