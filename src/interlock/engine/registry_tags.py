"""What a tag is in a registry, one image or one for each platform, and the index that joins them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interlock.engine.registry_http import DOCKER_LIST, OCI_INDEX, Api, Manifest

# An entry of an index as it stands there: mediaType, digest, size, platform and perhaps annotations.
Entry = Mapping[str, Any]
PLATFORM_KEYS = ("os", "architecture", "variant")


@dataclass(frozen=True)
class Tagged:
    """A tag's digest, and the images below it."""

    digest: str
    entries: tuple[Entry, ...]

    def entry_for(self, platform: Mapping[str, str]) -> Entry | None:
        return next((one for one in self.entries if _runs_on(one, platform)), None)

    def others(self, platform: Mapping[str, str]) -> list[Entry]:
        return [one for one in self.entries if not _runs_on(one, platform)]


def _runs_on(entry: Entry, platform: Mapping[str, str]) -> bool:
    return platform_of(entry.get("platform") or {}) == platform


@dataclass(frozen=True)
class Remote:
    """An image in a registry: what an engine would call it, and its labels."""

    ids: frozenset[str]
    labels: Mapping[str, str]


def platform_of(attributes: Mapping[str, Any]) -> dict[str, str]:
    """From an image's configuration, or from what the engine says of it."""
    lower = {key.lower(): value for key, value in attributes.items()}
    return {key: lower[key] for key in PLATFORM_KEYS if lower.get(key)}


def spoken(platform: Mapping[str, str]) -> str:
    """linux/arm64, as engines name platforms."""
    return "/".join(platform[key] for key in PLATFORM_KEYS if key in platform)


def read_tag(api: Api, repository: str, tag: str) -> Tagged | None:
    """None if the registry has no such tag."""
    manifest = api.manifest(repository, tag)
    if manifest is None:
        return None
    if manifest.is_index:
        return Tagged(manifest.digest, tuple(manifest.fields["manifests"]))
    config = api.config(repository, manifest.fields["config"]["digest"])
    return Tagged(manifest.digest, (entry_of(manifest, platform_of(config)),))


def read_image(api: Api, repository: str, entry: Entry) -> Remote:
    """Engines know an image by its configuration's digest, those with containerd's store by its manifest's."""
    manifest = api.manifest(repository, entry["digest"])
    if manifest is None:
        return Remote(frozenset({entry["digest"]}), {})
    digest = manifest.fields["config"]["digest"]
    labels = api.config(repository, digest).get("config", {}).get("Labels") or {}
    return Remote(frozenset({entry["digest"], digest}), labels)


def entry_of(manifest: Manifest, platform: Mapping[str, str]) -> Entry:
    return {
        "mediaType": manifest.media_type,
        "digest": manifest.digest,
        "size": len(manifest.content),
        "platform": dict(platform),
    }


def joined(entries: Sequence[Entry]) -> Manifest:
    """The index of these, in an order of their own: equal entries make an equal digest, whoever joins them."""
    is_docker = all(one["mediaType"].startswith("application/vnd.docker.") for one in entries)
    media_type = DOCKER_LIST if is_docker else OCI_INDEX
    ordered = sorted(entries, key=lambda one: (spoken(one.get("platform") or {}), one["digest"]))
    fields = {"schemaVersion": 2, "mediaType": media_type, "manifests": ordered}
    return Manifest(media_type, json.dumps(fields, sort_keys=True).encode())
