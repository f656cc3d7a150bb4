"""Kinds of text, labels and slugs: what they accept and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from interlock.catalog.types import (
    AbsolutePath,
    Date,
    FileName,
    MachinePath,
    PinnedReference,
    Sha256,
    ShellWord,
    SourceLocation,
    Version,
    label_of,
    slug,
    split_label,
)
from tests.builders import make_variant

SHELL_WORDS = ["", "--with-pth", "-std=gnu89 -O2", "-L$PREFIX/lib -Wl,-rpath,$PREFIX/lib", "it's"]
ACTED_ON = ['a"b', "a\\b", "a`id`", "$(id)", "${PREFIX}", "$HOME", "$", "a\nb", "a\0b", "a\x1b[2J", "$PREFIX$(id)"]
OTHER_VARIABLES = ["$PREFIXES/lib", "$PREFIX_LIB", "$PREFIX2"]


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        *((ShellWord, word, [*ACTED_ON, *OTHER_VARIABLES]) for word in SHELL_WORDS),
        (Sha256, "0" * 64, ["0" * 63, "0" * 65, "A" * 64, "0" * 64 + "\n"]),
        (FileName, "Python-2.7.18.tgz", ["../x", "a b", "", ".hidden", "a/b"]),
        (SourceLocation, "pool/main/p/pth/pth_2.0.7.orig.tar.gz", ["pool", "file:///x", "https://a/'b'", "/pool/x"]),
        (
            SourceLocation,
            "pip/oxidized-importer==0.7.0",
            ["pip", "pip/", "pip/a b==1", "pip/$(id)==1", "/pip/a==1", "pip/a;b"],
        ),
        (MachinePath, "/opt/python-3.12", ["opt", "", "/", "~", "~user/x", "$X", "$x/a", "${X}/a", "/a b", "/a\n"]),
        (AbsolutePath, "/usr/bin/python3.13", ["usr/bin", "~/bin", "$HOME/bin", "/", "/usr/$(id)", "/a b"]),
        (Date, "2029-10-31", ["2029", "2029-10", "31.10.2029", "2029-10-31T00:00"]),
        (PinnedReference, "debian:x@sha256:" + "0" * 64, ["debian:x", "debian@sha256:0", "x@sha256:" + "0" * 64 + "1"]),
        (Version, "3.14.0rc1", ["3.14", "3.14.x", "v3.14.0", "3.14.0-dev"]),
    ],
)
def test_a_text_that_is_not_of_its_kind_is_refused(kind: Any, good: str, bad: list[str]) -> None:
    adapter: TypeAdapter[str] = TypeAdapter(kind)
    assert adapter.validate_python(good) == good
    for text in bad:
        with pytest.raises(ValidationError):
            adapter.validate_python(text)


RELEASES = st.from_regex(
    r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?==[0-9]+(\.[0-9]+)*((a|b|rc)[0-9]+)?", fullmatch=True
)


FOLDERS = st.from_regex(r"[A-Za-z0-9._+-]+(/[A-Za-z0-9._+-]+)*", fullmatch=True)


@given(RELEASES)
def test_any_release_of_pips_index_is_a_place_and_none_is_without_its_scheme(release: str) -> None:
    place: TypeAdapter[str] = TypeAdapter(SourceLocation)
    assert place.validate_python(f"pip/{release}") == f"pip/{release}"
    with pytest.raises(ValidationError):
        place.validate_python(release)


@given(FOLDERS, st.sampled_from(["/", "~/", "$PYENV_ROOT/", "$X/"]))
def test_a_folder_of_this_machine_starts_at_the_root_at_home_or_at_a_variable(folder: str, start: str) -> None:
    path: TypeAdapter[str] = TypeAdapter(MachinePath)
    assert path.validate_python(start + folder) == start + folder
    with pytest.raises(ValidationError):
        path.validate_python(folder)


@given(st.text(alphabet=st.characters(), max_size=20), st.sampled_from(["/opt/", "pip/a", "pool/"]))
def test_no_place_or_folder_holds_what_a_shell_would_act_on(text: str, start: str) -> None:
    acted_on = set(text) & set(" \t\n\"'`\\;&|<>()*?[]{}!#")
    for kind in (SourceLocation, MachinePath):
        adapter: TypeAdapter[str] = TypeAdapter(kind)
        try:
            adapter.validate_python(start + text)
        except ValidationError:
            continue
        assert not acted_on
        assert "$" not in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("my host_1.example", "my-host-1.example"),
        ("--a--", "a"),
        ("ü", ""),
        ("cpython-3.14t+twin", "cpython-3.14t-twin"),
    ],
)
def test_a_slug_keeps_letters_digits_and_dots(text: str, expected: str) -> None:
    assert slug(text) == expected


@given(st.text())
def test_a_slug_is_its_own_slug_and_has_no_separator(text: str) -> None:
    assert slug(slug(text)) == slug(text)
    assert "/" not in slug(text)


NAMES = st.from_regex(r"[a-z0-9][a-z0-9.-]*", fullmatch=True)


@given(NAMES, st.none() | NAMES)
def test_a_label_is_split_into_what_it_was_made_of(variant: str, mode: str | None) -> None:
    assert split_label(label_of(variant, mode)) == (variant, mode)


def test_data_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        make_variant().tag = "other"  # type: ignore[misc]
