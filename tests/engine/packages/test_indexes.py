"""The indexes of locks: which pip is given, and what is said of the others, without a password."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.packages import dependency_files
from interlock.engine.packages.indexes import with_indexes
from interlock.engine.packages.requirements import Requirements
from interlock.engine.packages.resolving import Resolver
from tests.engine.packages.test_lock_files import environment
from tests.engine.packages.test_resolving import Here, versions
from tests.integration import wheelhouse

OWN = "https://me:secret@pkgs.example/simple/"
PUBLIC = "https://pypi.org/simple"
# As the tools write them, but for sums and what is not read.
UV = """\
version = 1
[[package]]
name = "shop"
source = { virtual = "." }
dependencies = [{ name = "cart" }, { name = "six" }]
[[package]]
name = "cart"
version = "1.0"
source = { registry = "CART" }
wheels = [{ hash = "sha256:00" }]
[[package]]
name = "six"
version = "2.0"
source = { registry = "SIX" }
wheels = [{ hash = "sha256:11" }]
"""
POETRY = """\
[[package]]
name = "cart"
version = "1.0"
groups = ["main"]
files = [{ hash = "sha256:00" }]
[package.source]
type = "legacy"
url = "CART"
reference = "own"
[[package]]
name = "six"
version = "2.0"
groups = ["main"]
files = [{ hash = "sha256:11" }]
[package.source]
type = "legacy"
url = "SIX"
[metadata]
lock-version = "2.1"
"""
PYLOCK = """\
lock-version = "1.0"
created-by = "uv"
[[packages]]
name = "cart"
version = "1.0"
index = "CART"
wheels = [{ url = "https://x.example/cart-1.0-py3-none-any.whl", hashes = { sha256 = "00" } }]
[[packages]]
name = "six"
version = "2.0"
index = "SIX"
wheels = [{ url = "https://x.example/six-2.0-py3-none-any.whl", hashes = { sha256 = "11" } }]
"""
LOCKS = {"uv.lock": UV, "poetry.lock": POETRY, "pylock.toml": PYLOCK}


def wanted(cart: str, six: str, more: str = "", lock: str = "uv.lock", **settings: str) -> Requirements:
    """What pip is asked for, of a lock and of a requirements file beside it."""
    files = {lock: LOCKS[lock].replace("CART", cart).replace("SIX", six), "r.txt": more}
    names = [name for name, text in files.items() if text]
    found = dependency_files.read(names, lambda path: files[str(path)], lambda _: False)
    return with_indexes(found.at(environment("3.14")), {f"PIP_{name.upper()}": url for name, url in settings.items()})


@pytest.mark.parametrize("lock", LOCKS)
@pytest.mark.parametrize(
    ("cart", "six", "options"),
    [
        (OWN, PUBLIC, ["--extra-index-url https://pkgs.example/simple"]),
        (OWN, OWN, ["--index-url https://pkgs.example/simple"]),
        (OWN, "https://b.example", ["--extra-index-url https://b.example", "--extra-index-url https://pkgs.example/simple"]),
        (PUBLIC, f"{PUBLIC}/", []),
    ],
    ids=["beside the public one", "alone", "two", "public"],
)  # fmt: skip
def test_pip_is_given_the_index_of_a_lock_in_place_of_its_own_only_if_nothing_comes_from_another(
    lock: str, cart: str, six: str, options: list[str]
) -> None:
    found = wanted(cart, six, lock=lock)
    assert found.hashed
    assert (found.options, found.notes) == (options, [])


@pytest.mark.parametrize(
    ("more", "settings"),
    [
        ("", {"index_url": "https://you:pw@pkgs.example/simple"}),
        ("", {"extra_index_url": "https://b.example https://pkgs.example/simple/"}),
        ("--extra-index-url https://a:b@pkgs.example/simple", {}),
        ("--no-index", {}),
        ("", {"no_index": "1"}),
    ],
)
def test_an_index_that_the_user_names_and_no_index_at_all_stay_as_they_are(more: str, settings: dict[str, str]) -> None:
    found = wanted(OWN, OWN, more, **settings)
    assert ([option for option in found.options if option not in more], found.notes) == ([], [])


def test_an_index_that_the_user_names_is_not_replaced_by_another_of_the_lock() -> None:
    for found in (wanted(OWN, OWN, index_url="https://m.example"), wanted(OWN, OWN, "-i https://m.example")):
        assert found.options[-1] == "--extra-index-url https://pkgs.example/simple"


@pytest.mark.promise(escapes=True)
@pytest.mark.parametrize(
    ("cart", "more", "said"),
    [
        (OWN, "click", "cart: not looked for at https://pkgs.example/simple, .*PIP_EXTRA_INDEX_URL"),
        ("../wheels", "", r"cart: not looked for at \.\./wheels, .*--find-links"),
        (
            "http://u:secret@localhost:3141/simple",
            "",
            "cart: not looked for at http://localhost:3141/simple, .*contain",
        ),
    ],
    ids=["without a hash", "folder", "this machine"],
)
def test_an_index_that_is_not_safe_or_not_there_is_not_given_and_is_named_without_a_password(
    cart: str, more: str, said: str
) -> None:
    found = wanted(cart, PUBLIC, more)
    (note,) = found.notes
    assert found.options == []
    assert re.match(said, note)
    assert "secret" not in note


def test_a_note_counts_the_packages_of_an_index() -> None:
    (note,) = wanted(OWN, OWN, "click").notes
    assert note.startswith("cart and 1 more: ")


@pytest.mark.slow
def test_of_two_projects_of_one_name_the_one_that_was_locked_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.engine.packages.indexes.host_of_this_machine", lambda _: "")
    own, six = wheelhouse.wheel("cart", {"cart.py": "own = 1"}), wheelhouse.wheel("six", {}, version="2.0")
    stranger = wheelhouse.wheel("cart", {"cart.py": "own = 0"})
    sums = {"sha256:00": own, "sha256:11": six}
    with wheelhouse.index(dict([own])) as private, wheelhouse.index(dict([stranger, six])) as public:
        text = UV.replace("CART", private).replace("SIX", PUBLIC)
        for old, (_, data) in sums.items():
            text = text.replace(old, wheelhouse.hash_of(data).removeprefix("--hash="))
        (tmp_path / "uv.lock").write_text(text)
        read = dependency_files.read([str(tmp_path / "uv.lock")], Path.read_text, Path.exists)
        asked = with_indexes(read.at(environment("3.14")), {})
        asked.options.insert(0, f"--index-url {public}")
        nothing: Any = None
        found = Resolver(Here(nothing, folder=tmp_path / "audit"), asked, lambda _: None).resolve()
    assert (versions(found), found.failures) == ({"cart": "1.0", "six": "2.0"}, [])
    (spec,) = (package.spec for package, _ in found.packages if package.key == "cart")
    assert spec.endswith(wheelhouse.hash_of(own[1]).removeprefix("--hash=sha256:"))
