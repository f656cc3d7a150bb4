"""Which build of a variant a command takes, and the line that builds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.catalog import project as catalogs
from interlock.catalog.project import ProjectPaths
from interlock.cli.images import build_line, by_profile, this_machine
from interlock.engine.host import account
from interlock.engine.host.account import MYSELF, Account
from interlock.errors import EngineError
from tests.builders import ROOT, make_built


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (None, [("release", ["cpython-3.14", "cpython-3.14t"]), ("standard", ["debian-3.13"])]),
        ("standard", [("standard", ["cpython-3.14", "debian-3.13", "cpython-3.14t"])]),
    ],
)
def test_without_a_wish_a_variant_has_its_build_for_production(wanted: str | None, expected: object) -> None:
    assert by_profile(catalogs.load(ROOT), ["cpython-3.14", "debian-3.13", "cpython-3.14t"], wanted) == expected


@pytest.mark.parametrize(("profile", "words"), [("release", " --release"), ("standard", "")])
def test_what_is_missing_is_built_in_its_own_profile(profile: str, words: str) -> None:
    image = make_built("cpython-3.14").model_copy(update={"profile": profile})
    assert build_line(image) == f"interlock build cpython-3.14{words}"


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
