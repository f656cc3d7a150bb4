"""Where tests measure in the real engine: what an experiment would set up for one variant."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interlock.engine import cells
from interlock.engine.helpers import ensure_helper
from interlock.model import BaseImage
from interlock.stage import Stand
from tests.builders import ROOT, make_settings

HELPERS = ("instruments", "server", "load")


def make_stand(client: Any, folder: Path, base: BaseImage, owner: str, programs: Mapping[str, bytes]) -> Stand:
    """Everything under this owner, who cleans up after it; what is written goes into the folder."""
    images = {name: ensure_helper(client, ROOT, name, base) for name in HELPERS}
    protocol = (ROOT / "workloads/protocol.py").read_bytes()
    return Stand(
        client=client,
        experiment=owner,
        folder=folder,
        host="box",
        volume=cells.create_instruments_volume(
            client, owner, images["instruments"], {"protocol.py": protocol, **programs}
        ),
        server_image_id=images["server"],
        instruments_image_id=images["instruments"],
        limits_image_id="",
        load_image_id=images["load"],
        probe=None,
        settings=make_settings(["cpython-2.7"]),
        on_step=lambda _: None,
        programs=frozenset(programs),
    )
