"""What `why` refuses before it does anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from interlock.cli import options, why
from interlock.engine.host import toolchain
from interlock.errors import UnsupportedHereError
from interlock.results.experiments import EngineName


@contextmanager
def machine(*_: Any, **__: Any) -> Iterator[Any]:
    """No container engine answers: this machine is the engine."""
    yield SimpleNamespace(name=EngineName.HOST)


@pytest.mark.parametrize("engine", [EngineName.HOST, None])
def test_what_this_machine_as_the_engine_lacks_is_named_before_anything_is_built(
    monkeypatch: pytest.MonkeyPatch, engine: EngineName | None
) -> None:
    built: list[Any] = []
    monkeypatch.setattr(why, "ready_machine", machine)
    monkeypatch.setattr(why, "build_variants", lambda *words: built.append(words))
    monkeypatch.setattr(toolchain, "PROFILER", (toolchain.Need("no-such-program", "some-package", "some-package"),))
    with pytest.raises(UnsupportedHereError) as caught:
        why.why_command("cpython-3.13", "locks/queue", engine=engine)
    assert "no-such-program" in caught.value.found
    assert "some-package" in caught.value.todo
    assert built == []


def test_where_json_is_asked_for_nothing_is_printed_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    with options.quiet(True):
        options.console.print("for people")
    with options.quiet(False):
        options.console.print("seen")
    assert capsys.readouterr().out.split() == ["seen"]
