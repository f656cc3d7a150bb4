"""The software bill of materials of an image: what it contains, read without starting it, as an SPDX 2.3 document."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.parser import HeaderParser
from pathlib import PurePosixPath
from typing import IO, Any
from urllib.parse import quote

from docker import DockerClient
from docker.errors import DockerException, NotFound
from docker.models.containers import Container

from interlock import __version__
from interlock.catalog.project import FileTexts
from interlock.catalog.variants import Download, Source, SourceKind, Variant
from interlock.engine.build import bundled
from interlock.engine.build.bundled import SHARED, Bundled
from interlock.engine.build.sources import ELF
from interlock.engine.ownership import labels_of
from interlock.engine.registry.names import known_digest
from interlock.errors import EngineError
from interlock.untrusted import MOST_RECORD, MOST_TEXT

PYTHON = "/usr/local/bin/python"
LIBRARY, PROGRAMS = "/usr/local/lib", "/usr/local/bin"
PACKED = "/opt/interlock"  # the libraries that came with an interpreter of Interlock's own machine
# What debsbom reads of a root file system; any of them may be missing.
RECORDS = ("/var/lib/dpkg/status", "/var/lib/dpkg/arch-native", "/var/lib/apt/extended_states", "/usr/share/doc")
MOST_BYTES = 4 * 2**30  # of one of these folders
METADATA = re.compile(r"/(site|dist)-packages/[^/]+(\.dist-info/METADATA|\.egg-info(/PKG-INFO)?)$")
# Taken out again when the document is joined with Interlock's own part.
READ_NAMESPACE = "https://spdx.org/spdxdocs/debian"


@dataclass(frozen=True)
class Contents:
    """What was read of an image."""

    labels: dict[str, str]
    created: datetime  # the interpreter's own date: for a build from a source, the release's
    debian: dict[str, Any]  # an SPDX 2.3 document of dpkg's packages
    distributions: list[tuple[str, str]]  # of Python: name and version, sorted
    packed: list[tuple[str, str]]  # libraries that are no package's: file name and SHA-256, sorted
    image_id: str = ""
    digest: str | None = None  # its name by digest in a registry, if it was pushed or pulled
    linked: frozenset[str] = frozenset()  # libraries of the system in the place of what the source brings


def read_contents(client: DockerClient, image: str) -> Contents:
    """Return what the image with this tag or id contains; EngineError if it is not here or cannot be read."""
    try:
        found = client.images.get(image)
        labels = labels_of(f"sbom-{os.getpid()}")
        container = client.containers.create(image, ["true"], network_disabled=True, labels=labels)
        try:
            created = _date(container)
            records, packed, linked = _records(container), _read_packed(container), _linked(container)
            with _archive(container, LIBRARY) as tar:
                distributions, linked = _distributions(tar), linked | _links_of(tar)
        finally:
            container.remove(force=True)
    except DockerException as error:
        raise EngineError(
            key=image, found=f"the image cannot be read: {error}", todo="Build it with `interlock build`."
        ) from None
    return Contents(
        labels=dict(found.labels),
        created=created,
        debian=debian_packages(records, created),
        distributions=distributions,
        packed=packed,
        image_id=str(found.id),
        digest=known_digest(found),
        linked=linked,
    )


def debian_packages(records: bytes, created: datetime) -> dict[str, Any]:
    """Return an SPDX document of the packages that `records`, a tar of a root file system's, name."""
    command = [sys.executable, "-m", "debsbom.cli", "generate", "--sbom-type", "spdx", "--root", "-", "--out", "-"]
    options = ["--with-licenses", "--timestamp", created.isoformat(), "--spdx-namespace", READ_NAMESPACE]
    # It writes sets: without a seed their order is another each time.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run([*command, *options], input=records, capture_output=True, env=environment, check=False)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise EngineError(
            key="debsbom",
            found=f"dpkg's records cannot be read: {' '.join(said)}",
            todo="Name a variant on Debian.",
        )
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@contextmanager
def _archive(container: Container, path: str) -> Iterator[tarfile.TarFile]:
    """Yield what is at this path, with names below its folder; EngineError for what is no tar or too large."""
    stream, _ = container.get_archive(path)
    with tempfile.TemporaryFile() as file:
        try:
            for chunk in stream:
                file.write(chunk)
                if file.tell() > MOST_BYTES:
                    raise ValueError(f"it has more than {MOST_BYTES >> 30} GiB")
            file.seek(0)
            with tarfile.open(fileobj=file, mode="r:") as tar:
                yield tar
        except (tarfile.TarError, OSError, ValueError, LookupError, OverflowError) as error:
            raise EngineError(
                key=path, found=f"cannot be read in the image: {error}", todo="Build it again with `interlock build`."
            ) from None


def _date(container: Container) -> datetime:
    with _archive(container, PYTHON) as tar:
        return datetime.fromtimestamp(int(tar.getmembers()[0].mtime), UTC)


def _records(container: Container) -> bytes:
    """Return a tar of RECORDS, by their whole names."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for entry, data in _found_records(container):
            tar.addfile(entry, data)
    return stream.getvalue()


def _found_records(container: Container) -> Iterator[tuple[tarfile.TarInfo, io.BytesIO]]:
    for path in RECORDS:
        with suppress(NotFound), _archive(container, path) as archive:
            for entry in archive:
                stream = archive.extractfile(entry) if entry.isreg() else None
                data = stream.read(MOST_RECORD) if stream else b""
                entry.name = str(PurePosixPath(path).parent.relative_to("/") / entry.name)
                entry.size = len(data)
                yield entry, io.BytesIO(data)


def _distributions(tar: tarfile.TarFile) -> list[tuple[str, str]]:
    """Return the name and version of each Python distribution that is installed beside the standard library."""
    found = set()
    for entry in tar:
        data = tar.extractfile(entry) if entry.isreg() and METADATA.search(entry.name) else None
        if data is not None:
            head = HeaderParser().parsestr(data.read(MOST_TEXT).decode(errors="replace"))
            found.add((str(head["Name"]), str(head["Version"])))
    return sorted(found)


def _linked(container: Container) -> frozenset[str]:
    with _archive(container, PROGRAMS) as tar:
        return _links_of(tar)


def _links_of(tar: tarfile.TarFile) -> frozenset[str]:
    """Return the names of libraries that a source may bring, of which programs and modules here link the system's."""
    found = set()
    for entry in tar:
        stream = tar.extractfile(entry) if entry.isreg() else None
        if stream is not None and stream.read(len(ELF)) == ELF:
            data = stream.read(MOST_RECORD)
            found |= {name for name, library in SHARED.items() if library.encode() in data}
    return frozenset(found)


def _sum(stream: IO[bytes]) -> str:
    found = hashlib.sha256()
    while data := stream.read(2**20):
        found.update(data)
    return found.hexdigest()


def _read_packed(container: Container) -> list[tuple[str, str]]:
    with suppress(NotFound), _archive(container, PACKED) as tar:
        data = {PurePosixPath(entry.name).name: tar.extractfile(entry) for entry in tar if entry.isreg()}
        return sorted((name, _sum(stream)) for name, stream in data.items() if stream)
    return []


DOCUMENT, IMAGE, BASE, INTERPRETER = (
    "SPDXRef-DOCUMENT",
    "SPDXRef-interlock-image",
    "SPDXRef-interlock-base",
    "SPDXRef-interlock-interpreter",
)
DESCRIBES = "DESCRIBES"
NAMESPACE = "https://spdx.org/spdxdocs/interlock"
UNKNOWN = "NOASSERTION"
NOT_IN_AN_ID = re.compile(r"[^A-Za-z0-9.-]+")
# Name and version at the head of a file's name: pth-2.0.7.tar.gz, pip-25.1-py3-none-any.whl.
NAMED = re.compile(r"^(?P<name>.+?)[-_]v?(?P<version>\d+(\.\d+)+((a|b|rc)\d+)?)")
# What scanners for vulnerabilities look an interpreter up by.
PURL, CPE = ("PACKAGE_MANAGER", "purl"), ("SECURITY", "cpe23Type")
LOOKED_UP = {
    "cpython": ((PURL, "pkg:generic/python@{}"), (CPE, "cpe:2.3:a:python:python:{}:*:*:*:*:*:*:*")),
    "pypy": ((PURL, "pkg:generic/pypy@{}"),),
}
LICENSES = {"cpython": "PSF-2.0"}
# Under which maker and product vulnerabilities of what sources bring are listed.
MAKERS = {"expat": "libexpat_project:libexpat", "libffi": "libffi_project:libffi", "zlib": "zlib:zlib"}
UNREAD = "the third-party libraries in its source are not known"

Package = dict[str, Any]


@dataclass(frozen=True)
class Piece:
    """A package and what relates others to it: (element, relationship, element)."""

    package: Package
    relations: tuple[tuple[str, str, str], ...] = ()


def document(variant: Variant, texts: FileTexts, contents: Contents) -> dict[str, Any]:
    """Return an SPDX document, ready for JSON. The same image gives the same text: date and name come from the image.

    `variant` and `texts` must be what the image was built from.
    """
    pieces = [*_pieces(variant, texts, contents)]
    packages = {piece.package["SPDXID"]: piece.package for piece in pieces}
    relations = {relation for piece in pieces for relation in piece.relations}
    debian = contents.debian
    kept = [one for one in debian["relationships"] if one["relationshipType"] != DESCRIBES]
    made = {
        **debian,
        "name": variant.image_tag(_profile(contents)),
        "packages": [*packages.values(), *sorted(debian["packages"], key=lambda one: str(one["SPDXID"]))],
        "relationships": [*map(_relationship, sorted(relations)), *sorted(kept, key=_order)],
        "creationInfo": {
            "created": contents.created.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": [*debian["creationInfo"]["creators"], f"Tool: interlock-{__version__}"],
        },
    }
    # A namespace is one text's: two images of one content hash may differ in the packages that Debian had that day.
    made["documentNamespace"] = ""
    identity = hashlib.sha256((_content_hash(contents) + json.dumps(made, sort_keys=True)).encode()).hexdigest()
    return made | {"documentNamespace": f"{NAMESPACE}-{variant.name}-{identity}"}


def _pieces(variant: Variant, texts: FileTexts, contents: Contents) -> Iterator[Piece]:
    yield _image(variant, contents)
    yield from _base(contents)
    if variant.kind is not SourceKind.PACKAGES:
        yield _interpreter(variant, contents)
    for library in variant.libraries:
        yield _library(library.name, library)
    if variant.interpreter:
        yield from _source(variant.interpreter, INTERPRETER, texts)
        yield from (_brought(one) for one in _compiled_in(variant, contents) or ())
    for library in variant.libraries:
        yield from _source(library, _id("library", library.name), texts)
    if variant.finish:
        yield from (_download(download, IMAGE) for download in variant.finish.downloads)
        yield from _scripts(variant.finish.steps, texts, IMAGE)
    yield from (_distribution(name, version) for name, version in contents.distributions)
    yield from (_packed(file, sha256) for file, sha256 in contents.packed)


def _image(variant: Variant, contents: Contents) -> Piece:
    described = _package(
        IMAGE,
        variant.image_tag(_profile(contents)),
        versionInfo=variant.version,
        primaryPackagePurpose="CONTAINER",
        summary=variant.summary,
        comment=f"interlock.hash: {_content_hash(contents) or 'none'}; image id: {contents.image_id or 'unknown'}",
        **_by_digest(contents.digest),
    )
    contains = ((IMAGE, "CONTAINS", identity) for identity in _contained(variant, contents.debian))
    return Piece(described, ((DOCUMENT, DESCRIBES, IMAGE), *contains))


def _by_digest(name: str | None) -> dict[str, Any]:
    """Return what tells one image from all others, for one that a registry has."""
    if name is None:
        return {}
    repository, _, digest = name.partition("@")
    place = (
        f"pkg:oci/{repository.rpartition('/')[2]}@{quote(digest, safe='')}?repository_url={quote(repository, safe='/')}"
    )
    return {"checksums": [_checksum(digest.partition(":")[2])], "externalRefs": [_reference(PURL, place)]}


def _contained(variant: Variant, debian: dict[str, Any]) -> Iterator[str]:
    """Yield the operating system and, if Debian packages the interpreter, its packages."""
    names = variant.packages.names if variant.packages else []
    yield from (one["relatedSpdxElement"] for one in debian["relationships"] if one["relationshipType"] == DESCRIBES)
    for one in debian["packages"]:
        if one["name"] in names and one["primaryPackagePurpose"] != "SOURCE":
            yield one["SPDXID"]


def _base(contents: Contents) -> Iterator[Piece]:
    """Yield the parent image, if the image names it."""
    name = contents.labels.get("org.opencontainers.image.base.name")
    if name is not None:
        digest = contents.labels.get("org.opencontainers.image.base.digest", "")
        described = _package(BASE, name, versionInfo=digest, primaryPackagePurpose="CONTAINER")
        yield Piece(described, ((IMAGE, "DESCENDANT_OF", BASE),))


def _interpreter(variant: Variant, contents: Contents) -> Piece:
    name = variant.proof.implementation
    flags = " ".join(variant.interpreter.configure) if variant.interpreter else ""
    described = _package(
        INTERPRETER,
        name,
        versionInfo=variant.version,
        primaryPackagePurpose="APPLICATION",
        licenseDeclared=LICENSES.get(name, UNKNOWN),
        externalRefs=[_reference(kind, text.format(variant.version)) for kind, text in LOOKED_UP.get(name, ())],
        sourceInfo=f"profile {_profile(contents)}" + (f", configured with {flags}" if flags else ""),
        **({"comment": UNREAD} if variant.interpreter and _compiled_in(variant, contents) is None else {}),
    )
    return Piece(described, ((IMAGE, "CONTAINS", INTERPRETER),))


def _compiled_in(variant: Variant, contents: Contents) -> list[Bundled] | None:
    """Return what the interpreter's source brings and its binaries do not link from the system; None if unknown."""
    if variant.interpreter is None:
        return []
    found = bundled.known(variant.interpreter.sha256)
    left_out = {*contents.linked, *(["mimalloc"] if "--without-mimalloc" in variant.interpreter.configure else [])}
    return found and [one for one in found if one.name not in left_out]


def _brought(one: Bundled) -> Piece:
    """Return a library of another project, compiled into the interpreter from the interpreter's own source."""
    identity = _id("bundled", one.name)
    kind, text = PURL, f"pkg:generic/{one.name}@{one.version}"
    looked_up = [_reference(kind, text)]
    if one.name in MAKERS:
        looked_up.append(_reference(CPE, f"cpe:2.3:a:{MAKERS[one.name]}:{one.version}:*:*:*:*:*:*:*"))
    described = _package(
        identity, one.name, versionInfo=one.version, primaryPackagePurpose="LIBRARY", externalRefs=looked_up
    )
    return Piece(described, ((INTERPRETER, "CONTAINS", identity),))


def _library(name: str, source: Source) -> Piece:
    identity = _id("library", name)
    described = _package(identity, name, **_version(source.file), primaryPackagePurpose="LIBRARY")
    return Piece(described, ((IMAGE, "CONTAINS", identity), (INTERPRETER, "DEPENDS_ON", identity)))


def _source(source: Source, built: str, texts: FileTexts) -> Iterator[Piece]:
    """Yield an archive that `built` was built from, its patches, and the scripts that changed it."""
    archive = _download(source, built)
    yield archive
    for name in source.patches:
        yield _text(f"variants/patches/{name}", texts.patches[name], "PATCH_APPLIED", str(archive.package["SPDXID"]))
    yield from _scripts(source.prepare, texts, built)


def _download(download: Download, generated: str) -> Piece:
    """Return a file that was fetched, and what was made of it."""
    identity = _id("source", download.file)
    named = NAMED.match(download.file)
    elsewhere = [place for place in download.places if "://" not in place]
    described = _package(
        identity,
        named["name"] if named else download.file,
        **_version(download.file),
        packageFileName=download.file,
        primaryPackagePurpose="SOURCE" if isinstance(download, Source) else "ARCHIVE",
        downloadLocation=next((place for place in download.places if "://" in place), UNKNOWN),
        checksums=[_checksum(download.sha256)],
        **({"comment": f"other places: {' '.join(elsewhere)}"} if elsewhere else {}),
    )
    return Piece(described, ((generated, "GENERATED_FROM", identity),))


def _scripts(names: Iterable[str], texts: FileTexts, built: str) -> Iterator[Piece]:
    """Yield scripts that took part in building `built`."""
    for name in names:
        yield _text(f"variants/steps/{name}", texts.steps[name], "BUILD_TOOL_OF", built)


def _text(path: str, text: str, relation: str, related: str) -> Piece:
    """Return a patch or a script of the project, and what it was used for."""
    identity = _id("file", path)
    checksum = _checksum(hashlib.sha256(text.encode()).hexdigest())
    described = _package(identity, path, primaryPackagePurpose="FILE", checksums=[checksum])
    return Piece(described, ((identity, relation, related),))


def _distribution(name: str, version: str) -> Piece:
    identity = _id("python", f"{name}-{version}")
    # The package URL's own rule for Python's names: https://github.com/package-url/purl-spec
    locator = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
    described = _package(
        identity, name, versionInfo=version, primaryPackagePurpose="LIBRARY", externalRefs=[_reference(PURL, locator)]
    )
    return Piece(described, ((IMAGE, "CONTAINS", identity),))


def _packed(file: str, sha256: str) -> Piece:
    """Return a library of another machine: nothing but its name and its bytes is known."""
    identity = _id("packed", file)
    described = _package(identity, file, primaryPackagePurpose="LIBRARY", checksums=[_checksum(sha256)])
    return Piece(described, ((IMAGE, "CONTAINS", identity), (INTERPRETER, "DEPENDS_ON", identity)))


def _package(identity: str, name: str, **fields: Any) -> Package:
    return {
        "SPDXID": identity,
        "name": name,
        "downloadLocation": UNKNOWN,
        "filesAnalyzed": False,
        "licenseConcluded": UNKNOWN,
        "licenseDeclared": UNKNOWN,
        "copyrightText": UNKNOWN,
        **fields,
    }


def _id(kind: str, name: str) -> str:
    return f"SPDXRef-interlock-{kind}-{NOT_IN_AN_ID.sub('-', name)}"


def _version(file: str) -> dict[str, str]:
    named = NAMED.match(file)
    return {"versionInfo": named["version"]} if named else {}


def _checksum(sha256: str) -> dict[str, str]:
    return {"algorithm": "SHA256", "checksumValue": sha256}


def _reference(kind: tuple[str, str], locator: str) -> dict[str, str]:
    return {"referenceCategory": kind[0], "referenceType": kind[1], "referenceLocator": locator}


def _relationship(relation: tuple[str, str, str]) -> dict[str, str]:
    left, kind, right = relation
    return {"spdxElementId": left, "relationshipType": kind, "relatedSpdxElement": right}


def _order(relationship: dict[str, Any]) -> tuple[str, ...]:
    keys = ("spdxElementId", "relationshipType", "relatedSpdxElement", "comment")
    return tuple(str(relationship.get(key, "")) for key in keys)


def _profile(contents: Contents) -> str:
    return contents.labels.get("interlock.profile", "standard")


def _content_hash(contents: Contents) -> str:
    return contents.labels.get("interlock.hash", "")
