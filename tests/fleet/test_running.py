"""What a fleet's record has of the images that its hosts are sent, and what stays of a run that was ended."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog.project import ProjectPaths
from interlock.fleet import ansible
from interlock.fleet.running import UNENDED, FleetRun, begun
from interlock.results.experiments import Outcome, State
from tests.builders import make_built, make_settings


def test_hosts_are_told_the_version_of_each_image_that_they_are_sent(tmp_path: Path) -> None:
    sent = make_built("cpython-3.13").model_copy(update={"version": "3.13.15"})
    missing = make_built("cpython-3.14", Outcome(state=State.UNAVAILABLE)).model_copy(update={"version": "3.14.10"})
    asked = make_settings(["cpython-3.13", "cpython-3.14"])
    record = begun(tmp_path, tmp_path / "inventory.yml", asked, [sent, missing, make_built("debian-3.13")])
    assert record.versions == {"cpython-3.13": "3.13.15"}


def test_a_run_that_is_ended_restores_its_hosts_and_keeps_no_archive_of_images_whole_or_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[str] = []

    def play(_: Path, playbook: str, hosts: list[str], variables: Mapping[str, Any], *__: object) -> dict[str, str]:
        played.append(playbook)
        if playbook == "matrix.yml":
            for end in ("", ".part"):
                Path(variables["images_archive"] + end).touch()
            raise KeyboardInterrupt
        return {}

    monkeypatch.setattr(ansible, "play", play)
    monkeypatch.setattr(ansible, "write_project_archive", lambda *_: (tmp_path / "interlock.tar.gz", "1"))
    inventory, built = tmp_path / "inventory.yml", make_built("cpython-3.13")
    record = begun(tmp_path, inventory, make_settings([built.variant]), [built])
    run = FleetRun(ProjectPaths(tmp_path, tmp_path), tmp_path / record.name, inventory, record, [built.tag], False, 60)
    with pytest.raises(KeyboardInterrupt):
        run.measure(["ash"])
    assert played == ["matrix.yml", "restore.yml"]
    assert run.record.hosts["ash"].reason == UNENDED
    assert [path for path in tmp_path.iterdir() if path.name.startswith(f"{record.name}-")] == []
