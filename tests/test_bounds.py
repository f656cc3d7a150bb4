"""What others wrote is read up to a limit."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock import bounds
from interlock.errors import StoreError
from interlock.results import store
from interlock.results.experiments import Experiment


def test_a_file_is_read_up_to_its_limit_and_a_device_without_an_end_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345\r\n")
    assert bounds.read_bytes(tmp_path / "a", 7) == b"12345\r\n"
    assert bounds.read_text(tmp_path / "a") == "12345\n"
    for path in (tmp_path / "a", Path("/dev/zero")):
        with pytest.raises(OSError, match="MiB") as caught:
            bounds.read_bytes(path, 6)
        assert caught.value.errno == errno.EFBIG


def test_no_more_is_asked_for_than_fits() -> None:
    asked = []

    def parts() -> Iterator[bytes]:
        for number in range(10):
            asked.append(number)
            yield b"abc"

    assert bounds.joined(parts(), 7) == b"abcabca"
    assert asked == [0, 1, 2]


def test_a_record_that_is_too_long_is_refused_with_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "experiment.json").write_bytes(b" " * 100)
    monkeypatch.setattr(bounds, "MOST_RECORD", 99)
    with pytest.raises(StoreError, match="MiB"):
        store.read_json(tmp_path / "experiment.json", Experiment)
