"""What a published image has beside what is pushed: its provenance, signatures, and the tags that people pull it by.

buildx joins the images of several platforms; cosign signs and attests. Both talk to the registry themselves.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interlock.catalog.published import Published
from interlock.catalog.variants import Variant
from interlock.engine.ended import run_here
from interlock.errors import RegistryError, SignatureError
from interlock.results.experiments import Built

# Types of what is attested, as cosign names them, by the end of the file's name.
SBOM, PROVENANCE = ".cdx.json", ".provenance.json"
ATTESTED = {SBOM: "cyclonedx", PROVENANCE: "slsaprovenance1"}
LIMIT_S = 600


def provenance(variant: Variant, built: Built, labels: Mapping[str, str]) -> str:
    """Return SLSA's predicate (version 1) of an image: what was built, of which files, by whom."""
    revision = labels.get("org.opencontainers.image.revision")
    sources = [_resource(one.places[0], sha256=one.sha256) for one in variant.downloads]
    base = [_base(built.base.reference, built.base.image_id)] if built.base else []
    project = [_resource("urn:interlock:project", gitCommit=revision)] if revision else []
    asked = {"variant": variant.name, "profile": built.profile, "contentHash": built.content_hash}
    predicate = {
        "buildDefinition": {
            "buildType": "urn:interlock:build:1",
            "externalParameters": asked,
            "internalParameters": {"interlock": labels.get("interlock.version", "")},
            "resolvedDependencies": [*project, *base, *sources],
        },
        "runDetails": _run_details(),
    }
    return json.dumps(predicate, indent=1) + "\n"


def _resource(uri: str, **digest: str) -> dict[str, Any]:
    return {"uri": uri, "digest": digest}


def _base(reference: str, image_id: str) -> dict[str, Any]:
    """Return the base by its digest in a registry, or by its id here if mmdebstrap made it."""
    name, _, digest = reference.partition("@")
    return _resource(name, sha256=(digest or image_id).removeprefix("sha256:"))


def _run_details() -> dict[str, Any]:
    """Return who builds: the workflow and its run, as GitHub's variables name them, or a machine of no such kind."""
    server, workflow = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_WORKFLOW_REF")
    if not server or not workflow:
        return {"builder": {"id": "urn:interlock:builder:local"}}
    run = f"{server}/{os.environ.get('GITHUB_REPOSITORY')}/actions/runs/{os.environ.get('GITHUB_RUN_ID')}"
    return {"builder": {"id": f"{server}/{workflow}"}, "metadata": {"invocationId": run}}


def join(parts: Sequence[Published], tags: Sequence[str]) -> str:
    """Give these tags to what was pushed on each platform, and return the digest of all of it."""
    repository = parts[0].repository
    named = [word for tag in tags for word in ("--tag", f"{repository}:{tag}")]
    _buildx("create", *named, *(f"{repository}@{one.digest}" for one in parts))
    there = json.loads(_buildx("inspect", f"{repository}:{tags[0]}", "--format", "{{json .Manifest}}"))
    return str(there["digest"])


def _buildx(*words: str) -> str:
    done = run_here(["docker", "buildx", "imagetools", *words], limit_s=LIMIT_S)
    if not done.ok:
        todo = "Install docker's plugin buildx if it is missing; log in to the registry with `docker login`."
        raise RegistryError(key=f"docker buildx imagetools {words[0]}", found=done.why or "no answer", todo=todo)
    return done.stdout


@dataclass(frozen=True)
class Signer:
    """Who signs: cosign with a private key, or without one with the identity of a CI job or of the user."""

    key: str | None

    def sign(self, reference: str) -> None:
        """Sign an image, and of an index the image of each platform too."""
        self._cosign("sign", "--recursive", reference)

    def attest(self, reference: str, folder: Path, name: str) -> None:
        """Attest what a folder has about a variant's image: its bill of materials and its provenance."""
        for end, kind in ATTESTED.items():
            self._cosign("attest", "--type", kind, "--predicate", str(folder / f"{name}{end}"), reference)

    def _cosign(self, command: str, *words: str) -> None:
        key = ["--key", self.key] if self.key else []
        done = run_here(["cosign", command, "--yes", *key, *words], limit_s=LIMIT_S)
        if not done.ok:
            found = f"cosign {command} failed: {done.why}"
            raise SignatureError(key=words[-1], found=found, todo="Correct that, then publish again: nothing is lost.")
