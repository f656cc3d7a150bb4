"""The software bill of materials of an image, as SPDX 2.3: a pure function of what was read of it and of its variant.

The specification: https://spdx.github.io/spdx-spec/v2.3/
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from interlock import __version__
from interlock.engine.sbom import Contents
from interlock.model import Download, Source, SourceKind, Texts, Variant

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

Package = dict[str, Any]


@dataclass(frozen=True)
class Piece:
    """A package and what relates others to it: (element, relationship, element)."""

    package: Package
    relations: tuple[tuple[str, str, str], ...] = ()


def document(variant: Variant, texts: Texts, contents: Contents) -> dict[str, Any]:
    """An SPDX document, ready for JSON. The same image gives the same text: its date and name come from the image.

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


def _pieces(variant: Variant, texts: Texts, contents: Contents) -> Iterator[Piece]:
    yield _image(variant, contents)
    yield from _base(contents)
    if variant.kind is not SourceKind.PACKAGES:
        yield _interpreter(variant, contents)
    for library in variant.libraries:
        yield _library(library.name, library)
    if variant.interpreter:
        yield from _source(variant.interpreter, INTERPRETER, texts)
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
        comment=f"interlock.hash: {_content_hash(contents) or 'none'}",
    )
    contains = ((IMAGE, "CONTAINS", identity) for identity in _contained(variant, contents.debian))
    return Piece(described, ((DOCUMENT, DESCRIBES, IMAGE), *contains))


def _contained(variant: Variant, debian: dict[str, Any]) -> Iterator[str]:
    """The operating system and, if Debian packages the interpreter, its packages."""
    names = variant.packages.names if variant.packages else []
    yield from (one["relatedSpdxElement"] for one in debian["relationships"] if one["relationshipType"] == DESCRIBES)
    for one in debian["packages"]:
        if one["name"] in names and one["primaryPackagePurpose"] != "SOURCE":
            yield one["SPDXID"]


def _base(contents: Contents) -> Iterator[Piece]:
    """The parent image, if the image names it."""
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
    )
    return Piece(described, ((IMAGE, "CONTAINS", INTERPRETER),))


def _library(name: str, source: Source) -> Piece:
    identity = _id("library", name)
    described = _package(identity, name, **_version(source.file), primaryPackagePurpose="LIBRARY")
    return Piece(described, ((IMAGE, "CONTAINS", identity), (INTERPRETER, "DEPENDS_ON", identity)))


def _source(source: Source, built: str, texts: Texts) -> Iterator[Piece]:
    """An archive that `built` was built from, its patches, and the scripts that changed it."""
    archive = _download(source, built)
    yield archive
    for name in source.patches:
        yield _text(f"variants/patches/{name}", texts.patches[name], "PATCH_APPLIED", str(archive.package["SPDXID"]))
    yield from _scripts(source.prepare, texts, built)


def _download(download: Download, generated: str) -> Piece:
    """A file that was fetched, and what was made of it."""
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


def _scripts(names: Iterable[str], texts: Texts, built: str) -> Iterator[Piece]:
    """Scripts that took part in building `built`."""
    for name in names:
        yield _text(f"variants/steps/{name}", texts.steps[name], "BUILD_TOOL_OF", built)


def _text(path: str, text: str, relation: str, related: str) -> Piece:
    """A patch or a script of the project, and what it was used for."""
    identity = _id("file", path)
    checksum = _checksum(hashlib.sha256(text.encode()).hexdigest())
    described = _package(identity, path, primaryPackagePurpose="FILE", checksums=[checksum])
    return Piece(described, ((identity, relation, related),))


def _distribution(name: str, version: str) -> Piece:
    identity = _id("python", f"{name}-{version}")
    # The package URL's own rule for Python's names: https://github.com/package-url/purl-spec
    locator = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
    described = _package(
        identity,
        name,
        versionInfo=version,
        primaryPackagePurpose="LIBRARY",
        externalRefs=[_reference(PURL, locator)],
    )
    return Piece(described, ((IMAGE, "CONTAINS", identity),))


def _packed(file: str, sha256: str) -> Piece:
    """A library of another machine: nothing but its name and its bytes is known."""
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
