"""Who runs as root without a container has to mean it, except where the machine is a container itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.catalog.project import ProjectPaths
from interlock.cli.choosing import this_machine
from interlock.engine.host import account
from interlock.engine.host.account import MYSELF, Account
from interlock.errors import EngineError
from tests.builders import ROOT

HERE = ProjectPaths(ROOT, Path("cache"))


def test_root_of_a_machine_has_to_say_that_programs_may_run_as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(account, "is_disposable", lambda: False)
    with pytest.raises(EngineError) as raised:
        this_machine(HERE, as_root=False)
    assert "--as-root" in raised.value.todo
    assert this_machine(HERE, as_root=True).account == MYSELF


@pytest.mark.parametrize("why_none", ["", "useradd is not here"])
def test_in_a_container_root_says_nothing_and_programs_run_as_a_user_where_one_can_be_made(
    why_none: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = MYSELF if why_none else Account("interlock", 999, 999, "/usr/bin/setpriv")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("os.umask", lambda _: 0)
    monkeypatch.setattr(account, "is_disposable", lambda: True)
    monkeypatch.setattr(account, "ensure_account", lambda: (made, why_none))
    assert this_machine(HERE, as_root=False).account == made
    assert ("run as root" in capsys.readouterr().out) == bool(why_none)
