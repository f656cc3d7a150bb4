"""Adds to a pushed image what a published one has: its record, signatures, and the tags to pull it by.

buildx joins the images of several platforms; cosign signs and attests. Both talk to the registry themselves.
"""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from docker import DockerClient

from interlock.catalog.project import Catalog
from interlock.catalog.published import FILE, Published, load_published, tag_of, tags_of, written
from interlock.catalog.variants import Variant
from interlock.engine.ended import run_here
from interlock.engine.names import Registry
from interlock.engine.registry import platform_name
from interlock.errors import CatalogError, RegistryError, SignatureError, StoreError
from interlock.results.experiments import Built
from interlock.results.files import write_atomically

# cosign's types of attestation, by the end of the file's name.
SBOM, PROVENANCE = ".cdx.json", ".provenance.json"
ATTESTED = {SBOM: "cyclonedx", PROVENANCE: "slsaprovenance1"}
LIMIT_S = 600
# The prefix of the OCI image specification's labels.
OCI = "org.opencontainers.image"


# The folder with one platform's record, and what that platform pushed of a variant.
Part = tuple[Path, Published]


def record(client: DockerClient, known: Catalog, pushed: Sequence[Built], registry: Registry, folder: Path) -> None:
    """Write into a folder what was pushed here, with the bill of materials and the provenance of each image."""
    from interlock.engine.build import sbom  # noqa: PLC0415 - its extra is not always there

    entries = {}
    for built in pushed:
        variant, image = known.variants[built.variant].at(built.version), client.images.get(built.tag)
        entries[variant.name] = Published(
            name=variant.name,
            registry=registry.name,
            tag=tag_of(variant),
            digest=str(built.digest).partition("@")[2],
            platforms=[platform_name(image.attrs)],
            version=variant.version,
            signed=False,
            date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        )
        bill = sbom.document(variant, sbom.read_contents(client, built.tag))
        write_atomically(folder / f"{variant.name}{SBOM}", bill)
        origin = provenance(variant, built, image.labels)
        write_atomically(folder / f"{variant.name}{PROVENANCE}", origin)
    write_atomically(folder / Path(FILE).name, written(entries))


def provenance(variant: Variant, built: Built, labels: Mapping[str, str]) -> str:
    """Return an image's SLSA provenance (version 1): what was built, from what, and by which GitHub workflow if any."""
    workflow = os.environ.get("GITHUB_WORKFLOW_REF")
    builder = f"{os.environ.get('GITHUB_SERVER_URL')}/{workflow}" if workflow else "urn:interlock:builder:local"
    made_of = [
        ("urn:interlock:project", {"gitCommit": labels.get(f"{OCI}.revision", "")}),
        (labels.get(f"{OCI}.base.name", ""), {"sha256": labels.get(f"{OCI}.base.digest", "").removeprefix("sha256:")}),
        # Each platform's image is made from its own archive, whose file name has the platform.
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
    """Join what was pushed on each platform under these tags, and return the digest of the whole."""
    repository = parts[0].repository
    named = [word for tag in tags for word in ("--tag", f"{repository}:{tag}")]
    _buildx("create", *named, *(f"{repository}@{part.digest}" for part in parts))
    there = json.loads(_buildx("inspect", f"{repository}:{tags[0]}", "--format", "{{json .Manifest}}"))
    return str(there["digest"])


def _buildx(*words: str) -> str:
    done = run_here(["docker", "buildx", "imagetools", *words], limit_s=LIMIT_S)
    if not done.ok:
        problem, todo = done.why or "no answer", "Log in to the registry with `docker login` if it asks for that."
        # Without the plugin docker's last line only says where its help is.
        if not run_here(["docker", "buildx", "version"]).ok:
            problem = "docker's plugin buildx, which joins images, is not installed"
            todo = "Install it: apt-get install docker-buildx (Debian 13), or as docs.docker.com says."
        raise RegistryError(key=f"docker buildx imagetools {words[0]}", found=problem, todo=todo)
    return done.stdout


@dataclass(frozen=True)
class Signer:
    """Who signs: cosign with a private key, or without one with the identity of a CI job or of the user."""

    key: str | None

    def sign(self, reference: str) -> None:
        """Sign an image; of an index, also the image of each platform."""
        self._cosign("sign", "--recursive", reference)

    def attest(self, reference: str, folder: Path, name: str) -> None:
        """Attest what a folder has about a variant's image: its bill of materials and its provenance."""
        for end, kind in ATTESTED.items():
            self._cosign("attest", "--type", kind, "--predicate", str(folder / f"{name}{end}"), reference)

    def _cosign(self, command: str, *words: str) -> None:
        key = ["--key", self.key] if self.key else []
        done = run_here(["cosign", command, "--yes", *key, *words], limit_s=LIMIT_S)
        if not done.ok:
            problem, todo = f"cosign {command} failed: {done.why}", "Correct that, then publish again: nothing is lost."
            raise SignatureError(key=words[-1], found=problem, todo=todo)


def parts_of(folders: Sequence[Path], known: Catalog) -> dict[str, list[Part]]:
    """Return what each platform pushed of each variant; CatalogError if they do not belong together."""
    by_variant: dict[str, list[Part]] = {}
    for folder in folders:
        file = folder / Path(FILE).name
        if not file.is_file():
            todo = "Push variants with `interlock push --record FOLDER`, which writes it."
            raise StoreError(file=str(file), found="no such file", todo=todo)
        for name, entry in load_published(Path(), known.variants, str(file)).items():
            by_variant.setdefault(name, []).append((folder, entry))
    for name, parts in by_variant.items():
        _require_one(name, parts)
    if not by_variant:
        todo = "Push variants with `interlock push --record FOLDER`."
        raise CatalogError(file=Path(FILE).name, found=f"no image in {', '.join(map(str, folders))}", todo=todo)
    return by_variant


def _require_one(name: str, parts: Sequence[Part]) -> None:
    """Raise CatalogError for two platforms with different releases or names, or one platform twice."""
    (first, entry), *further = parts
    seen = set(entry.platforms)
    for folder, other in further:
        wrong = [key for key in ("registry", "tag", "version") if getattr(entry, key) != getattr(other, key)]
        wrong += ["platforms"] if seen & set(other.platforms) else []
        seen.update(other.platforms)
        for key in wrong:
            problem = f"{getattr(other, key)}, and in {first} {getattr(entry, key)}"
            file, todo = str(folder / Path(FILE).name), "Push each platform from these files."
            raise CatalogError(file=file, key=f"{name}.{key}", found=problem, todo=todo)


def publish(
    known: Catalog, name: str, parts: Sequence[Part], published: Mapping[str, Published], signer: Signer | None
) -> Published:
    """Tag, attest and sign what was pushed of a variant; what is published already stays as it is recorded."""
    entries = [entry for _, entry in parts]
    first = entries[0]
    variant = known.variants[name].at(first.version)
    digest = join(entries, tags_of(variant))
    old = published.get(name)
    known_as = (first.repository, first.tag, digest)
    if old is not None and (old.repository, old.tag, old.digest) == known_as and (old.signed or signer is None):
        return old
    if signer is not None:
        for folder, entry in parts:
            signer.attest(f"{entry.repository}@{entry.digest}", folder, name)
        signer.sign(f"{first.repository}@{digest}")
    platforms = sorted(platform for entry in entries for platform in entry.platforms)
    return first.model_copy(update={"digest": digest, "platforms": platforms, "signed": signer is not None})
