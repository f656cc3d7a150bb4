"""What the hosts of a fleet measure, and how they come to it: images of the controller's, or builds of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.text import Text

from interlock import store
from interlock.commands.archives import wanted_tags
from interlock.engine import archives
from interlock.engine.client import connect
from interlock.engine.host import prefixes
from interlock.fleet.inventory import Inventory
from interlock.fleet.record import FleetRecord
from interlock.model import Built, Catalog, EngineName, State
from interlock.places import Places
from interlock.routines import build_options, build_variants, console, fail_on_failed_builds, profile_name


@dataclass(frozen=True)
class Supply:
    """The engine, if one was named; what was built, or will be on each host; and what identifies it, by name."""

    engine: EngineName | None
    built: list[Built]
    identities: dict[str, str]

    def variables(self, places: Places, record: FleetRecord, listed: Inventory) -> Mapping[str, Any]:
        """Of the playbooks: the engine, and what a host is to build, to pull or to load."""
        named = {"interlock_engine": self.engine.value if self.engine else ""}
        # What could not be built here is in no registry either; the host says why, once more.
        variants = [one.variant for one in self.built if one.outcome.state is State.OK]
        options = [*variants, *(["--release"] if record.settings.profile == "release" else [])]
        if self.engine is EngineName.HOST:
            return {**named, "prefixes_options": options}
        if listed.registry:
            return {**named, "images_options": options}
        there = places.cache / "fleet"
        listing, packed = (str(there / f"{record.token}.{kind}") for kind in ("json", "tar"))
        return {**named, "images_list": listing, "images_archive": packed}

    def pack(self, variables: Mapping[str, Any]) -> list[Path]:
        """Writes the list and the archive of the images, if hosts are to get them in this way."""
        if "images_archive" not in variables:
            return []
        listing, packed = (Path(variables[key]) for key in ("images_list", "images_archive"))
        store.write_whole(listing, json.dumps(self.identities))
        archives.save(connect(self.engine), list(self.identities), packed)
        console.print(Text(f"images  {len(self.identities)} in an archive of {packed.stat().st_size / 1e6:.0f} MB"))
        return [listing, packed]


def supply(
    places: Places, known: Catalog, variants: list[str], *, release: bool, engine: EngineName | None = None
) -> Supply:
    """Builds the images, unless the hosts build for themselves: then nothing is asked of this machine."""
    if engine is EngineName.HOST:
        built = prefixes.expect(known, variants, prefixes.Place(places.root, places.cache, profile_name(release)))
        return Supply(engine, built, {one.variant: one.content_hash for one in built if one.content_hash})
    client = connect(engine)
    built = build_variants(client, known, variants, build_options(places, release))
    fail_on_failed_builds(built)
    return Supply(engine, built, archives.ids_of(client, wanted_tags(client, places, known, built)))
