"""What a candidate of a trial is started with."""

from __future__ import annotations

from interlock.trial.rounds import python_path


def test_the_gil_probe_stands_before_the_images_own_path() -> None:
    assert python_path({}, "/w") == "/w"
    assert python_path({"PYTHONPATH": "/app:/lib"}, "/w") == "/w:/app:/lib"
