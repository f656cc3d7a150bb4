"""The parent image where no registry answers: made by mmdebstrap, kept, and made again the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from interlock.catalog.variants import Base
from interlock.engine.build.base import ensure_base, find_base


def test_where_no_registry_answers_mmdebstrap_makes_an_equal_which_is_kept_and_made_again_the_same(
    client: Any,
    unreachable: Base,
    tmp_path: Path,
) -> None:
    said: list[str] = []
    made = ensure_base(client, unreachable, tmp_path, said.append)
    assert made.origin == "mmdebstrap"
    assert "connection refused" in said[-1]
    script = "cat /etc/os-release; find /usr/share/man /usr/share/locale; wc -l < /usr/share/doc/libc6/copyright"
    answer = client.containers.run(made.image_id, ["sh", "-c", script], remove=True).decode().splitlines()
    assert "VERSION_CODENAME=trixie" in answer
    assert answer[-3:-1] == ["/usr/share/man", "/usr/share/locale"], "nothing is in them"
    assert int(answer[-1]) > 100, "the licences stay"
    assert client.images.get(made.image_id).attrs["Size"] < 100e6
    assert ensure_base(client, unreachable, tmp_path, said.append) == made
    assert len(said) == 2, "the second time it is found, not made"
    assert list(tmp_path.iterdir()) == [], "the folder it was made in is gone"
    assert made.chain_id in client.images.get(made.image_id).attrs["RootFS"]["Layers"]
    client.images.remove(made.image_id)
    assert find_base(client, unreachable) is None
    assert ensure_base(client, unreachable, tmp_path, said.append) == made, "made again it is the same image"
