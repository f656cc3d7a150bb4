"""The software bill of materials of an image: what it contains, read without starting it, as a CycloneDX document."""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from email.parser import HeaderParser
from functools import partial
from typing import Any

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from docker import DockerClient
from docker.errors import DockerException
from docker.models.containers import Container
from packageurl import PackageURL

from interlock import __version__
from interlock.catalog.sources import Download
from interlock.catalog.variants import SourceKind, Variant
from interlock.engine.names import known_digest
from interlock.engine.run.archives import ContentError, NothingThereError, archive
from interlock.engine.run.leftovers import temporary_container
from interlock.errors import EngineError
from interlock.untrusted import MOST_RECORD, MOST_TEXT

MOST_BYTES = 8 * 2**30  # of a folder of an image
DPKG, LIBRARY = "/var/lib/dpkg/status", "/usr/local/lib"
PACKED = "/opt/interlock"  # the libraries that came with an interpreter of Interlock's own machine
METADATA = re.compile(r"/(site|dist)-packages/[^/]+(\.dist-info/METADATA|\.egg-info(/PKG-INFO)?)$")
# Name and version at the head of a file's name: pth-2.0.7.tar.gz, pip-25.1-py3-none-any.whl.
NAMED = re.compile(r"^(?P<name>.+?)[-_]v?(?P<version>\d+(\.\d+)+((a|b|rc)\d+)?)")


@dataclass(frozen=True)
class ImageContents:
    """What was read of an image."""

    tag: str
    image_id: str
    digest: str | None  # its name by digest in a registry, if it was pushed or pulled
    created: datetime
    debian: list[tuple[str, str, str]]  # name, version and architecture of each package
    distributions: list[tuple[str, str]]  # of Python: name and version
    packed: list[tuple[str, str]]  # libraries that are no package's: file name and SHA-256


def read_contents(client: DockerClient, image: str) -> ImageContents:
    """Return what the image with this tag or id contains; EngineError if it is not here or cannot be read."""
    try:
        here = client.images.get(image)
        with temporary_container(client, image, ["true"], f"sbom-{os.getpid()}", network_disabled=True) as container:
            files = partial(_files, container)
            return ImageContents(
                tag=image,
                image_id=str(here.id),
                digest=known_digest(here),
                created=datetime.fromisoformat(here.attrs["Created"]),
                debian=[package for data in files(DPKG).values() for package in debian_packages(data)],
                distributions=sorted({_distribution(data) for data in files(LIBRARY, METADATA).values()}),
                packed=sorted(
                    (name.split("/")[-1], hashlib.sha256(data).hexdigest()) for name, data in files(PACKED).items()
                ),
            )
    except (DockerException, ContentError, OSError, ValueError, LookupError, OverflowError) as error:
        problem = f"the image cannot be read: {error}"
        raise EngineError(key=image, found=problem, todo="Build it with `interlock build`.") from None


def debian_packages(status: bytes) -> list[tuple[str, str, str]]:
    """Return the name, version and architecture of each package that dpkg's list says is installed."""
    listed = map(HeaderParser().parsestr, status.decode(errors="replace").split("\n\n"))
    installed = [package for package in listed if str(package["Status"]).endswith(" installed")]
    return sorted(
        (str(package["Package"]), str(package["Version"]), str(package["Architecture"])) for package in installed
    )


def _distribution(metadata: bytes) -> tuple[str, str]:
    head = HeaderParser().parsestr(metadata[:MOST_TEXT].decode(errors="replace"))
    return str(head["Name"] or "unknown"), str(head["Version"])


def _files(container: Container, path: str, wanted: re.Pattern[str] = re.compile("")) -> dict[str, bytes]:
    """Return the files at this path whose names match; none if there is no such path."""
    try:
        with archive(container, path, MOST_BYTES) as tar:
            named = (
                (entry.name, tar.extractfile(entry)) for entry in tar if entry.isreg() and wanted.search(entry.name)
            )
            return {name: content.read(MOST_RECORD) for name, content in named if content}
    except NothingThereError:
        return {}


def document(variant: Variant, contents: ImageContents) -> str:
    """Return a CycloneDX document in JSON; the same image gives the same text."""
    version = contents.digest or contents.image_id
    image = Component(bom_ref="image", type=ComponentType.CONTAINER, name=contents.tag, version=version)
    bom = Bom(
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"{contents.tag} {contents.image_id} {__version__}"),
        metadata=BomMetaData(component=image, timestamp=contents.created),
        components=_components(variant, contents),
    )
    bom.metadata.tools.components.add(Component(type=ComponentType.APPLICATION, name="interlock", version=__version__))
    bom.register_dependency(image, bom.components)
    return make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=1) + "\n"


def _components(variant: Variant, contents: ImageContents) -> Iterator[Component]:
    if variant.kind is not SourceKind.PACKAGES:  # then Debian's list has it
        name = variant.proof.implementation
        purl = PackageURL("generic", None, {"cpython": "python"}.get(name, name), variant.version)
        cpe = f"cpe:2.3:a:python:python:{variant.version}:*:*:*:*:*:*:*" if name == "cpython" else None
        source = [_source(variant.interpreter)] if variant.interpreter else []
        yield _component(ComponentType.APPLICATION, purl, name, cpe=cpe, external_references=source)
    for library in variant.libraries:
        named = NAMED.match(library.file)
        purl = PackageURL("generic", None, library.name, named["version"] if named else None)
        yield _component(ComponentType.LIBRARY, purl, external_references=[_source(library)])
    for package, version, architecture in contents.debian:
        yield _component(ComponentType.LIBRARY, PackageURL("deb", "debian", package, version, {"arch": architecture}))
    for distribution, version in contents.distributions:
        yield _component(ComponentType.LIBRARY, PackageURL("pypi", None, distribution, version), distribution)
    for file, sha256 in contents.packed:
        hashes = [HashType(alg=HashAlgorithm.SHA_256, content=sha256)]
        yield Component(bom_ref=f"{PACKED}/{file}", type=ComponentType.FILE, name=file, hashes=hashes)


def _component(kind: ComponentType, purl: PackageURL, name: str = "", **fields: Any) -> Component:
    return Component(bom_ref=str(purl), type=kind, name=name or purl.name, version=purl.version, purl=purl, **fields)


def _source(source: Download) -> ExternalReference:
    """Return the first place of a source, with its sum."""
    url = next((place for place in source.places if "://" in place), source.places[0])
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=source.sha256)]
    return ExternalReference(type=ExternalReferenceType.SOURCE_DISTRIBUTION, url=XsUri(url), hashes=hashes)
