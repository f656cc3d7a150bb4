"""A registry whose disk is full: the engine itself tries for the better part of a minute."""

from __future__ import annotations

from pathlib import Path

from tests.integration import registries
from tests.integration.test_registries import REGISTRY_FAILED, Team


def test_a_full_registry_is_told_and_tags_nothing(team: Team, tmp_path: Path) -> None:
    with (
        registries.small_disk(tmp_path / "disk", "256k") as disk,
        registries.registry(disk / "registry") as started,
    ):
        team.registry = started
        said = team.fails(REGISTRY_FAILED, "push", team.variant, "--registry", team.place)
        assert "the registry fails (" in said
        assert "its disk may be full" in said
        assert team.look_there() is None
        assert team.local_names() == {team.tag}
