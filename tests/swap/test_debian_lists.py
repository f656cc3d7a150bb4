"""What a release of Debian has no more, by its lists, and the table that is shipped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.swap.debian import official, table
from interlock.swap.debian_lists import DebianTable, Successors, closure, make_table, read_packages, read_table


def listed(packages: dict[str, str]) -> str:
    return "\n".join(f"Package: {name}\n{fields}\n" for name, fields in packages.items())


NOW = listed(
    {
        "libicu76": "Source: icu\nSize: 1",
        "libasound2t64": "Source: alsa-lib\nProvides: libasound2 (= 1.2.14-1)",
        "netcat-openbsd": "Provides: netcat",
        "netcat-traditional": "Provides: netcat",
        "libgl1": "Source: libglvnd",
        "eza": "Replaces: exa (<< 1)",
        "base": "Priority: required\nDepends: awk | other, libgl1 (>= 2)",
        "gawk": "Provides: awk",
        "mawk": "Priority: required\nProvides: awk",
    }
)
FORMER = listed(
    {
        "libicu72": "Source: icu",
        "libasound2": "Source: alsa-lib",
        "netcat": "Source: netcat",
        "libgl1-mesa-glx": "Source: mesa\nDepends: libgl1, libglx-mesa0\nDescription: transitional dummy package",
        "exa": "Source: rust-exa",
        "gone-for-good": "Source: gone",
        "librust-x-dev": "Source: x",
    }
)


def test_what_is_gone_has_what_the_lists_say_in_its_place_and_a_sole_provider_is_no_break() -> None:
    gone = dict(Successors(read_packages(NOW), {}).gone(read_packages(FORMER).values()))
    assert gone == {
        "libicu72": ("libicu76",),
        "netcat": ("netcat-openbsd", "netcat-traditional"),
        "libgl1-mesa-glx": ("libgl1",),
        "exa": ("eza",),
        "gone-for-good": (),
    }


def test_of_several_providers_the_one_in_every_system_is_taken() -> None:
    assert closure(["base"], read_packages(NOW)) == {"base", "mawk", "libgl1"}


def test_a_table_is_made_of_lists_and_files() -> None:
    lists = {"trixie": NOW, "bookworm": FORMER, "bullseye": FORMER.replace("libicu72", "libicu67")}
    asked: dict[str, dict[str, object]] = {
        "slim": {"packages": []},
        "full": {"packages": ["eza"]},
        "alternatives": {"ls": "eza"},
        "successors": {"exa": ["libgl1"]},
    }
    made = make_table(lists, lambda package: ["./usr/bin/" + package.name, "./usr/share/x"], asked, ["a list"])
    assert made.gone["libicu67"] == made.gone["libicu72"] == ("libicu76",)
    assert made.gone["exa"] == ("libgl1",)
    assert made.programs == {"ls": "eza", "eza": "eza"}
    assert made.slim == {"base", "mawk", "libgl1"}
    assert read_table(made.text) == made


names = st.text("abc0.-+", min_size=1)


@given(st.dictionaries(names, st.lists(names, max_size=3).map(tuple)), st.dictionaries(names, names), st.sets(names))
def test_a_table_is_read_as_it_is_written(
    gone: dict[str, tuple[str, ...]], programs: dict[str, str], zones: set[str]
) -> None:
    made = DebianTable(("a list",), gone, programs, frozenset(zones), frozenset(zones))
    assert read_table(made.text) == made


def test_the_shipped_table_has_what_is_in_place_of_a_package_and_not_what_still_installs() -> None:
    """Of people's files, each tried with `apt-get install -s` in the base; more are in corpus/1-packages.toml."""
    assert table().gone["libssl1.1"] == ("libssl3t64",)
    assert table().gone["software-properties-common"] == ()
    assert table().gone.keys().isdisjoint({"libpq5", "git", "tzdata"})


def test_the_shipped_table_says_of_which_lists_it_is_made_and_is_small() -> None:
    assert [line.split()[0] for line in table().origin] == ["bullseye", "bookworm", "trixie"]
    assert all(len(line.rpartition(": ")[2]) == 64 for line in table().origin)
    assert len(table().text) < 400_000


@pytest.mark.parametrize(
    ("program", "package"),
    [("git", "git"), ("curl", "curl"), ("gcc", "gcc"), ("cc", "gcc"), ("hg", "mercurial"), ("pg_config", "libpq-dev")],
)
def test_the_shipped_table_has_the_programs_of_the_full_image(program: str, package: str) -> None:
    assert table().programs[program] == package


def test_no_program_of_the_slim_image_is_one_of_the_full_image_alone() -> None:
    assert not {"bash", "tar", "sed", "useradd", "adduser", "openssl", "python3"} & table().programs.keys()
    assert {"adduser", "ca-certificates", "tzdata"} <= table().slim
    assert set(official()["slim"]["packages"]) <= table().slim
