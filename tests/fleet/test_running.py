"""What a fleet's record has of the images that its hosts are sent."""

from __future__ import annotations

from pathlib import Path

from interlock.fleet.running import begun
from interlock.results.experiments import Outcome, State
from tests.builders import make_built, make_settings


def test_hosts_are_told_the_version_of_each_image_that_they_are_sent(tmp_path: Path) -> None:
    sent = make_built("cpython-3.13").model_copy(update={"version": "3.13.15"})
    missing = make_built("cpython-3.14", Outcome(state=State.UNAVAILABLE)).model_copy(update={"version": "3.14.10"})
    asked = make_settings(["cpython-3.13", "cpython-3.14"])
    record = begun(tmp_path, tmp_path / "inventory.yml", asked, [sent, missing, make_built("debian-3.13")])
    assert record.versions == {"cpython-3.13": "3.13.15"}
