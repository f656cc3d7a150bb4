"""What is installed, everywhere, is what its hash says, in versions that pyproject.toml allows."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.builders import ROOT
from tests.integration.wheelhouse import wheel
from tests.test_noxfile import noxfile

pytestmark = pytest.mark.promise

ENTRY = re.compile(r"^(\S+==[^\\\n]+?)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", re.MULTILINE)
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS, GROUPS = PYPROJECT["project"]["optional-dependencies"], PYPROJECT["dependency-groups"]
LOCKED = noxfile().LOCKED
TEST = "requirements/test.txt"
# Where pip is called: what a clone, a session, a host and root on a host install with.
OPTIONS = ("--require-hashes", "--only-binary", ":all:", "-r")
INSTALLING = (
    "bootstrap.sh",
    "playbooks/roles/project/tasks/main.yml",
    "playbooks/roles/tuning/tasks/main.yml",
    ".github/workflows/update.yml",
    "examples/ci/github-workflow.yml",
    "examples/ci/gitlab-ci.yml",
)


def applies(requirement: Requirement, extra: str = "") -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def text_of(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


@cache
def lines_of(file: str) -> frozenset[str]:
    return frozenset(line.strip() for line, _ in ENTRY.findall(text_of(file)))


def pinned(file: str) -> dict[str, str]:
    """Return the version of each project for this interpreter."""
    found: dict[str, str] = {}
    for one in filter(applies, map(Requirement, lines_of(file))):
        (version,) = one.specifier
        assert version.operator == "==", one
        found[canonicalize_name(one.name)] = version.version
    return found


def asked(file: str) -> list[Requirement]:
    """What a file is made of: groups, extras, and with those what Interlock itself needs."""
    words = list(LOCKED[file])
    lines = list(PYPROJECT["project"]["dependencies"]) if "pyproject.toml" in words else []
    for word, name in pairwise(words):
        if word == "--group":
            lines += GROUPS[name]
        if word == "--extra":
            lines += of_extra(name)
    return [Requirement(line) for line in dict.fromkeys(lines)]


def of_extra(name: str) -> list[str]:
    """The lines of an extra, and of the extras of this project that it names."""
    found = []
    for line in EXTRAS[name]:
        one = Requirement(line)
        found += [line for more in sorted(one.extras) for line in of_extra(more)] if one.name == "interlock" else [line]
    return found


EVERYTHING = [(file, one) for file in LOCKED for one in asked(file)]


@pytest.mark.parametrize(("file", "requirement"), EVERYTHING, ids=lambda one: str(one).rpartition("/")[2])
def test_what_pyproject_asks_for_is_pinned_to_a_version_that_it_allows(file: str, requirement: Requirement) -> None:
    assert requirement.specifier.contains(pinned(file)[canonicalize_name(requirement.name)])


def test_all_that_pyproject_names_is_in_a_file() -> None:
    everything = [*PYPROJECT["build-system"]["requires"], *(line for name in EXTRAS for line in of_extra(name))]
    named = {Requirement(line).name for line in everything}
    assert named <= {one.name for file in LOCKED for one in asked(file)}


@pytest.mark.parametrize("file", [file for file in LOCKED if "pyproject.toml" in LOCKED[file]])
def test_what_builds_interlock_is_locked_with_it(file: str) -> None:
    """Whoever installs it in place says --no-build-isolation: pip fetches nothing for it."""
    backend = [Requirement(line) for line in PYPROJECT["build-system"]["requires"]]
    assert all(one.specifier.contains(pinned(file)[canonicalize_name(one.name)]) for one in backend)
    assert "editables" in pinned(file)


@pytest.mark.parametrize("file", LOCKED)
def test_a_file_has_versions_and_hashes_and_nothing_else(file: str) -> None:
    text = text_of(file)
    assert re.sub(r"^#.*\n", "", ENTRY.sub("", text), flags=re.MULTILINE).strip() == ""
    assert lines_of(file)
    assert "//" not in text


@pytest.mark.parametrize("file", [file for file, words in LOCKED.items() if TEST in words])
def test_two_files_have_a_project_in_one_version(file: str) -> None:
    ours, all_of_it = pinned(file), pinned(TEST)
    assert {name: version for name, version in ours.items() if all_of_it.get(name, version) != version} == {}


def test_what_is_installed_and_all_that_it_needs_has_the_pinned_version() -> None:
    """An environment of this project's nox sessions has these versions, and none that are not written down."""
    versions, found = pinned(TEST), dict[str, str]()
    left = [(one, extra) for one in asked(TEST) for extra in ("", *one.extras)]
    seen = set()
    while left:
        one, extra = left.pop()
        name = canonicalize_name(one.name)
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            there = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # an extra of another session
            continue
        found[name] = there.version
        needs = [Requirement(line) for line in there.requires or ()]
        left += [(need, more) for need in needs if applies(need, extra) for more in ("", *need.extras)]
    assert len(found) > 60
    assert found == {name: versions.get(name) for name in found}


def installing(file: str) -> list[list[str]]:
    """The first words of each call of `pip install` in a file, whose lines may be folded."""
    text = re.sub(r"\s+(?:--python \S+\s+)?", " ", text_of(file))
    for asked in re.findall(r' asked="(.*?)"', text):  # a script's variable
        text = text.replace("$asked", asked)
    found = re.findall(r"pip install((?: \S+){6})", text)
    return [[word for word in words.split() if word != "-q"] for words in found]


@pytest.mark.parametrize("file", INSTALLING)
def test_whoever_installs_asks_pip_for_hashes_and_wheels_or_for_nothing_else(file: str) -> None:
    calls = installing(file)
    assert calls
    for words in calls:
        assert tuple(words[:4]) == OPTIONS or words[:2] == ["--no-deps", "--no-build-isolation"], words


def test_no_session_installs_anything_else() -> None:
    text = text_of("noxfile.py")
    calls = re.findall(r"session\.install\((.+?)\)\n", text)
    assert sorted(calls) == sorted(
        [
            '"--no-deps", "--no-build-isolation", "-e", "."',
            '"--require-hashes", "--only-binary", ":all:", "-r", f"requirements/{use}.txt"',
        ]
    )


@pytest.mark.parametrize("changed", [False, True])
def test_a_changed_hash_is_refused_and_named(changed: bool, tmp_path: Path) -> None:
    content, done = install_toy(tmp_path, lambda data: data + b" " * changed)
    assert (tmp_path / "there/toy.py").is_file() is not changed
    assert done.returncode == int(changed)
    if changed:
        assert "DO NOT MATCH THE HASHES" in done.stderr
        assert "toy==1.0" in done.stderr
        assert hashlib.sha256(content).hexdigest() in done.stderr


def test_what_no_hash_is_named_of_is_refused(tmp_path: Path) -> None:
    _, done = install_toy(tmp_path, None)
    assert done.returncode == 1
    assert "toy==1.0 --hash=sha256:" in done.stderr


def install_toy(folder: Path, said: Any) -> tuple[bytes, subprocess.CompletedProcess[str]]:
    """Install a wheel by the options that are used everywhere; its hash is that of what `said` makes of it, if any."""
    file, content = wheel("toy", {"toy.py": "word = 1"})
    (folder / file).write_bytes(content)
    line = f"toy==1.0 \\\n    --hash=sha256:{hashlib.sha256(said(content)).hexdigest()}\n" if said else "toy==1.0\n"
    (folder / "requirements.txt").write_text(line)
    command = [sys.executable, "-m", "pip", "install", "-q", *OPTIONS, "requirements.txt"]
    elsewhere = ["--no-index", "--find-links", ".", "--target", "there"]
    return content, subprocess.run([*command, *elsewhere], cwd=folder, capture_output=True, text=True, check=False)
