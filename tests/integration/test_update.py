"""`update` asks a real registry, by the engine, what its names are now."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from interlock.catalog import update
from interlock.catalog.update import Updates
from interlock.catalog.variants import Base
from interlock.cli.update import ask_registries
from tests.builders import FROM_IMAGE, make_variant
from tests.integration.registries import Registry, push
from tests.integration.toys import make_toy_base

OLD = f"sha256:{'1' * 64}"


def test_bases_and_images_of_others_move_on_to_what_their_registry_has_and_stay_when_it_stops(
    client: Any, registry: Registry, root: Path, tmp_path: Path
) -> None:
    names = [f"{registry.address}/{name}" for name in ("debian:slim", "python:3.13-slim", "python:3.13.6-slim")]
    for name in names:
        digest = push(client, make_toy_base(client).reference, name)
        client.images.remove(name)
    known = tomllib.loads((root / update.BASES).read_text(encoding="utf-8"))["trixie"]
    base = Base.model_validate({**known, "reference": f"{names[0]}@{OLD}"})
    image_of_others = {**FROM_IMAGE, "image": {"reference": f"{names[1]}@{OLD}"}}
    variant = make_variant("official-3.13", version="3.13.5", **image_of_others)
    (tmp_path / "variants").mkdir()
    (tmp_path / update.BASES).write_text(f'reference = "{base.reference}"\n', encoding="utf-8")
    (tmp_path / variant.file).write_text(f'version = "3.13.5"\nreference = "{names[1]}@{OLD}"\n', encoding="utf-8")
    said: list[str] = []

    def run() -> dict[str, str]:
        updates, digest_of = Updates(tmp_path), ask_registries(said.append)
        update.update_bases(updates, {"trixie": base}, digest_of)
        update.update_image(updates, variant, {"3.13.6": None, "3.13.7": None}, digest_of)
        return updates.texts

    assert run() == {
        update.BASES: f'reference = "{names[0]}@{digest}"\n',
        variant.file: f'version = "3.13.6"\nreference = "{names[1]}@{digest}"\n',
    }
    assert said == []
    registry.stop()
    assert run() == {}
    assert len(said) == 2
