"""docs/cli.md names every command with all that it takes."""

from __future__ import annotations

import pytest

from interlock.cli import reference
from interlock.cli.main import COMMANDS, load_command
from tests.builders import ROOT


def test_the_committed_page_is_what_the_commands_are() -> None:
    assert (ROOT / reference.PATH).read_text(encoding="utf-8") == reference.page()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_a_section_with_all_its_options(name: str) -> None:
    section = reference.page().partition(f"\n### {name}\n")[2].partition("\n### ")[0]
    options = [option for one in load_command(name).params for option in (*one.opts, *one.secondary_opts)]
    assert [option for option in options if option.startswith("-") and f"`{option}`" not in section] == []


def test_a_bar_in_a_cell_does_not_end_the_cell() -> None:
    rows = [line for line in reference.page().splitlines() if line.startswith("| `--engine`")]
    assert rows
    assert {row.replace("\\|", "").count("|") for row in rows} == {5}
