"""What a published image has beside what is pushed: its provenance, signatures, and the tags that people pull it by.

buildx joins the images of several platforms; cosign signs and attests. Both talk to the registry themselves.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from interlock.catalog.published import Published
from interlock.catalog.variants import Variant
from interlock.engine.ended import run_here
from interlock.errors import RegistryError, SignatureError
from interlock.results.experiments import Built

# Types of what is attested, as cosign names them, by the end of the file's name.
SBOM, PROVENANCE = ".cdx.json", ".provenance.json"
ATTESTED = {SBOM: "cyclonedx", PROVENANCE: "slsaprovenance1"}
LIMIT_S = 600
# Labels of the OCI image specification.
OCI = "org.opencontainers.image"


def provenance(variant: Variant, built: Built, labels: Mapping[str, str]) -> str:
    """Return SLSA's predicate (version 1) of an image: what was built, of what, by which workflow of GitHub if any."""
    workflow = os.environ.get("GITHUB_WORKFLOW_REF")
    builder = f"{os.environ.get('GITHUB_SERVER_URL')}/{workflow}" if workflow else "urn:interlock:builder:local"
    made_of = [
        ("urn:interlock:project", {"gitCommit": labels.get(f"{OCI}.revision", "")}),
        (labels.get(f"{OCI}.base.name", ""), {"sha256": labels.get(f"{OCI}.base.digest", "").removeprefix("sha256:")}),
        # Of archives each platform's image is made of its own; the file's name says whose it is.
        *((each.places[0], {"sha256": each.sha256}) for each in (*variant.downloads, *variant.archives.values())),
    ]
    predicate = {
        "buildDefinition": {
            "buildType": "urn:interlock:build:1",
            "externalParameters": built.model_dump(include={"variant", "content_hash"}),
            "internalParameters": {"interlock": labels.get("interlock.version", "")},
            "resolvedDependencies": [{"uri": uri, "digest": digest} for uri, digest in made_of],
        },
        "runDetails": {"builder": {"id": builder}},
    }
    return json.dumps(predicate, indent=1) + "\n"


def join(parts: Sequence[Published], tags: Sequence[str]) -> str:
    """Give these tags to what was pushed on each platform, and return the digest of all of it."""
    repository = parts[0].repository
    named = [word for tag in tags for word in ("--tag", f"{repository}:{tag}")]
    _buildx("create", *named, *(f"{repository}@{part.digest}" for part in parts))
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
