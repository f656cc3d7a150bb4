"""What an image was made of and by whom, as an in-toto statement with SLSA's provenance: https://slsa.dev/provenance/v1."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from interlock.catalog.variants import Download
from interlock.engine.build.image import ImagePlan

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
# What builds, and the page with its rules, as package URLs (https://github.com/package-url/purl-spec): the project may
# move, and whoever signs says who ran it.
BUILDER = "pkg:pypi/interlock"
BUILD_TYPE = f"{BUILDER}#docs/registries.md"


def statement(plan: ImagePlan, labels: Mapping[str, str], root: Path, name: str, digest: str) -> dict[str, Any]:
    """Return what is said of the image of a plan that a registry has by this name and digest.

    The plan's content hash must be the image's: then its files are those that the image was built from. What only the
    build knew (the commit, the base's digest, Interlock's version) is in the image's labels.
    """
    return {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": _digest(digest)}],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"variant": plan.variant.name, "profile": plan.profile},
                "internalParameters": {"contentHash": plan.content_hash},
                "resolvedDependencies": [*_dependencies(plan, labels, root)],
            },
            "runDetails": {
                "builder": {"id": BUILDER, "version": {"interlock": labels.get("interlock.version", "unknown")}}
            },
        },
    }


def _dependencies(plan: ImagePlan, labels: Mapping[str, str], root: Path) -> Iterator[dict[str, Any]]:
    commit = labels.get("org.opencontainers.image.revision")
    if commit is not None:
        # A commit with changed files beside it is no commit; the sums below say what was built.
        yield {"name": "project", "uri": BUILDER, "annotations": {"revision": commit}}
    base = labels.get("org.opencontainers.image.base.name", plan.base.reference)
    base_digest = labels.get("org.opencontainers.image.base.digest", "")
    yield {"name": "base", "uri": base, **({"digest": _digest(base_digest)} if base_digest else {})}
    yield _file(plan.variant.file, (root / plan.variant.file).read_bytes())
    for path, content in sorted(plan.files.items()):
        yield _file(f"dockerfiles/{plan.variant.name}/{path}", content)
    yield from map(_source, plan.variant.downloads)


def _source(download: Download) -> dict[str, Any]:
    """Return a file that was fetched, named by its first place: which one answered is not kept, the sum is the same."""
    places = download.places
    first = next((one for one in places if "://" in one), places[0])
    return {
        "name": download.file,
        "uri": first,
        "digest": {"sha256": download.sha256},
        **({"annotations": {"places": places}} if len(places) > 1 else {}),
    }


def _file(name: str, content: bytes) -> dict[str, Any]:
    return {"name": name, "uri": name, "digest": {"sha256": hashlib.sha256(content).hexdigest()}}


def _digest(digest: str) -> dict[str, str]:
    kind, _, value = digest.partition(":")
    return {kind: value}
