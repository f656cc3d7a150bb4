"""The wheel outside a clone tries an example of the project's on the image that a clone built."""

from __future__ import annotations

import shutil
from pathlib import Path

from interlock.results import store
from interlock.results.experiments import Built
from tests.builders import ROOT
from tests.integration.images import QUICK
from tests.integration.test_package import archive, run_here, unpacked, wheel

__all__ = ["archive", "unpacked", "wheel"]


def test_an_example_that_was_copied_elsewhere_is_tried_on_the_image_that_a_clone_built(
    unpacked: Path, quick: Built, tmp_path: Path
) -> None:
    service = shutil.copytree(ROOT / "examples/files", tmp_path / "service")
    file = service / "Dockerfile"
    file.write_text(file.read_text().replace("FROM python:3.13-slim", f"FROM {quick.tag}"))
    words = ("--http", ":8000/", "--cmd", "python -c pass", "--rounds", "1", "--no-syscalls", "--variants", QUICK)
    run_here(unpacked, tmp_path, "trial", "service", *words)
    (folder,) = (tmp_path / "home/.local/share/interlock/results").iterdir()
    record = store.read_experiment(folder)
    assert {one.label: one.outcome.state.value for one in record.cells} == dict.fromkeys(
        (QUICK, "OWN", "OWN+twin"), "ok"
    )
    for cell in store.read_cells(folder, record)[0].values():
        assert cell["start"].blocks == [1]
        assert cell["start"].reported["memory_bytes"][0] > 0
