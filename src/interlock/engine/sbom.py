"""What an image contains, read without starting it: Debian's packages by debsbom, Python's by their metadata."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.parser import HeaderParser
from pathlib import PurePosixPath
from typing import Any

from docker.errors import DockerException, NotFound

from interlock.errors import EngineError

PYTHON = "/usr/local/bin/python"
LIBRARY = "/usr/local/lib"
PACKED = "/opt/interlock"  # the libraries that came with an interpreter of Interlock's own machine
# What debsbom reads of a root file system; any of them may be missing.
RECORDS = ("/var/lib/dpkg/status", "/var/lib/dpkg/arch-native", "/var/lib/apt/extended_states", "/usr/share/doc")
METADATA = re.compile(r"/(site|dist)-packages/[^/]+(\.dist-info/METADATA|\.egg-info(/PKG-INFO)?)$")
# Taken out again when the document is joined with Interlock's own part.
NAMESPACE = "https://spdx.org/spdxdocs/debian"


@dataclass(frozen=True)
class Contents:
    """What was read of an image."""

    labels: dict[str, str]
    created: datetime  # the interpreter's own date: for a build from a source, the release's
    debian: dict[str, Any]  # an SPDX 2.3 document of dpkg's packages
    distributions: list[tuple[str, str]]  # of Python: name and version, sorted
    packed: list[tuple[str, str]]  # libraries that are no package's: file name and SHA-256, sorted


def read_contents(client: Any, image: str) -> Contents:
    """What the image with this tag or id contains; EngineError if it is not here or its records cannot be read."""
    try:
        labels = client.images.get(image).labels
        container = client.containers.create(image, ["true"], network_disabled=True, labels={"interlock.sbom": "1"})
        try:
            created = datetime.fromtimestamp(_date(container), UTC)
            records, distributions, packed = _records(container), _distributions(container), _packed(container)
        finally:
            container.remove(force=True)
    except DockerException as error:
        raise EngineError(
            key=image, found=f"the image cannot be read: {error}", todo="Build it with `interlock build`."
        ) from None
    return Contents(dict(labels), created, debian_packages(records, created), distributions, packed)


def debian_packages(records: bytes, created: datetime) -> dict[str, Any]:
    """An SPDX document of the packages that `records`, a tar of a root file system's, name."""
    command = [sys.executable, "-m", "debsbom.cli", "generate", "--sbom-type", "spdx", "--root", "-", "--out", "-"]
    options = ["--with-licenses", "--timestamp", created.isoformat(), "--spdx-namespace", NAMESPACE]
    # It writes sets: without a seed their order is another each time.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run([*command, *options], input=records, capture_output=True, env=environment, check=False)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise EngineError(
            key="debsbom", found=f"dpkg's records cannot be read: {' '.join(said)}", todo="Is it a Debian image?"
        )
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def _archive(container: Any, path: str) -> tarfile.TarFile:
    """What is at this path, with names below the folder that it is in."""
    stream, _ = container.get_archive(path)
    return tarfile.open(fileobj=io.BytesIO(b"".join(stream)))


def _date(container: Any) -> int:
    with _archive(container, PYTHON) as tar:
        return int(tar.getmembers()[0].mtime)


def _records(container: Any) -> bytes:
    """A tar of RECORDS, by their whole names."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for entry, data in _found_records(container):
            tar.addfile(entry, data)
    return stream.getvalue()


def _found_records(container: Any) -> Iterator[tuple[tarfile.TarInfo, Any]]:
    for path in RECORDS:
        try:
            archive = _archive(container, path)
        except NotFound:
            continue
        with archive:
            for entry in archive:
                data = archive.extractfile(entry) if entry.isreg() else None
                entry.name = str(PurePosixPath(path).parent.relative_to("/") / entry.name)
                yield entry, data


def _distributions(container: Any) -> list[tuple[str, str]]:
    """Name and version of each Python distribution that is installed beside the standard library."""
    found = set()
    with _archive(container, LIBRARY) as tar:
        for entry in tar:
            data = tar.extractfile(entry) if entry.isreg() and METADATA.search(entry.name) else None
            if data is not None:
                head = HeaderParser().parsestr(data.read().decode(errors="replace"))
                found.add((str(head["Name"]), str(head["Version"])))
    return sorted(found)


def _packed(container: Any) -> list[tuple[str, str]]:
    try:
        archive = _archive(container, PACKED)
    except NotFound:
        return []
    with archive as tar:
        data = {PurePosixPath(entry.name).name: tar.extractfile(entry) for entry in tar if entry.isreg()}
        return sorted((name, hashlib.sha256(stream.read()).hexdigest()) for name, stream in data.items() if stream)
