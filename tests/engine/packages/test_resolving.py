"""Requirements that this machine's own pip resolves, from an index on it: what can be had, and why the rest cannot."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.ended import Ended
from interlock.engine.packages import dependency_files, remedies
from interlock.engine.packages.pip_container import AUDIT, OF_THE_AUDIT, PipContainer
from interlock.engine.packages.resolving import Resolution, Resolver
from interlock.errors import EngineError
from tests.integration import wheelhouse

pytestmark = pytest.mark.slow

PACKAGES = dict(
    [
        wheelhouse.wheel("app", {}, "user", "unready"),
        wheelhouse.wheel("user", {}, "Core[fast]>=1"),
        wheelhouse.wheel("core", {}),
        wheelhouse.wheel("strict", {}, "versions<2"),
        wheelhouse.wheel("versions", {}),
        wheelhouse.wheel("versions", {}, version="2.0"),
        wheelhouse.wheel("lonely", {}, "nowhere"),
        wheelhouse.source("unready", before="raise RuntimeError('the tool is not there')"),
        wheelhouse.source("slow", before="import time; time.sleep(100)"),
        wheelhouse.source("built"),
    ]
)


@dataclass(frozen=True)
class Here(PipContainer):
    """A folder of this machine in place of a container."""

    folder: Path = Path()

    def put(self, places: Mapping[str, Path | bytes]) -> None:
        for place, content in places.items():
            path = Path(self._here(place))
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                path.write_bytes(self._here(content.decode()).encode())
            else:
                subprocess.run(["cp", "-r", str(content), str(path)], check=True)

    def run(self, argv: list[str], deadline_s: float, **environment: str) -> Ended:
        words = [sys.executable if word == "python" else self._here(word) for word in argv]
        command = ["timeout", f"{deadline_s:g}", *words]
        settings = {name: self._here(value) for name, value in OF_THE_AUDIT.items()} | {"PIP_RETRIES": "0"}
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            env={"PATH": "/usr/bin:/bin", **settings, **environment},
        )  # fmt: skip
        return Ended(done.returncode, done.stdout, timed_out=done.returncode == 124)

    def _here(self, text: str) -> str:
        return text.replace(AUDIT, str(self.folder))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with wheelhouse.index(PACKAGES) as address:
        yield address


def resolver(folder: Path, *lines: str) -> Resolver:
    (folder / "r.txt").write_text("\n".join(lines))
    wanted = dependency_files.read([str(folder / "r.txt")], lambda path: path.read_text(encoding="utf-8"), Path.exists)
    nothing: Any = None
    return Resolver(Here(nothing, folder=folder / "audit"), wanted.here(), lambda _: None)


def resolve(folder: Path, *lines: str) -> Resolution:
    return resolver(folder, *lines).resolve()


def versions(found: Resolution) -> dict[str, str]:
    return {one.key: one.version for one, _ in found.packages}


def words(found: Resolution) -> dict[str, str]:
    return {one.name: one.words for one in found.failures}


def test_what_can_be_installed_is_told_with_who_asks_for_it(url: str, tmp_path: Path) -> None:
    found = resolve(tmp_path, f"--index-url {url}", "user", "built")
    assert versions(found) == {"user": "1.0", "core": "1.0", "built": "1.0"}
    assert found.failures == []
    assert found.needed_by("core") == ["user"]
    line = found.line("built")
    assert line is not None
    assert (line.number, found.line("core")) == (3, None)
    assert {one.key for one, _ in found.packages if one.is_wheel} == {"user", "core"}


def test_a_package_that_another_needs_and_that_cannot_be_had_is_told_and_the_other_is_there(
    url: str, tmp_path: Path
) -> None:
    found = resolve(tmp_path, f"--index-url {url}", "core", "app", "built")
    assert versions(found) == {"app": "1.0", "user": "1.0", "core": "1.0", "built": "1.0"}
    assert words(found) == {"unready": "RuntimeError: the tool is not there"}
    (failure,) = found.failures
    assert (failure.needed_by, failure.line) == (["app"], None)
    assert found.needed_by("core") == ["user"]


def test_failures_hide_no_other(url: str, tmp_path: Path) -> None:
    found = resolve(tmp_path, f"--index-url {url}", "nowhere==3", "lonely", "unready")
    assert versions(found) == {"lonely": "1.0"}
    assert words(found).keys() == {"nowhere", "unready"}
    assert {one.name: one.needed_by for one in found.failures} == {"nowhere": ["lonely"], "unready": []}
    assert "nowhere==3" in words(found)["nowhere"]


def test_lines_that_contradict_each_other_are_quoted_and_the_first_holds(url: str, tmp_path: Path) -> None:
    found = resolve(tmp_path, f"--index-url {url}", "versions>1", "strict", "core")
    assert versions(found) == {"versions": "2.0", "core": "1.0"}
    assert words(found).keys() == {"strict"}
    assert all(one in words(found)["strict"] for one in ("versions>1", "strict 1.0 depends on versions<2"))


def test_a_wrong_hash_and_a_missing_one_are_told(url: str, tmp_path: Path) -> None:
    core, strict = (wheelhouse.hash_of(PACKAGES[f"{name}-1.0-py3-none-any.whl"]) for name in ("core", "strict"))
    lines = [f"core==1.0 {core}", f"built==1.0 {wheelhouse.hash_of(b'another')}", f"strict==1.0 {strict}"]
    found = resolve(tmp_path, f"--index-url {url}", *lines)
    assert versions(found) == {"core": "1.0", "strict": "1.0"}
    assert words(found).keys() == {"built", "versions"}
    assert "sha256 " in words(found)["built"]
    assert "hash" in words(found)["versions"]


def test_the_options_of_a_line_are_those_of_its_build(url: str, tmp_path: Path) -> None:
    found = resolve(tmp_path, f"--index-url {url}", "built --config-settings=a=b", "core --config-settings=a=b")
    assert {one.key: one.spec.split()[3:] for one, _ in found.packages} == {
        "built": ["--config-settings=a=b"],
        "core": [],
    }


def test_one_line_without_a_hash_fails_and_none_that_has_one(url: str, tmp_path: Path) -> None:
    versions_hash = wheelhouse.hash_of(PACKAGES["versions-1.0-py3-none-any.whl"])
    strict_hash = wheelhouse.hash_of(PACKAGES["strict-1.0-py3-none-any.whl"])
    found = resolve(
        tmp_path, f"--index-url {url}", "core", f"versions==1.0 {versions_hash}", f"strict==1.0 {strict_hash}"
    )
    assert versions(found) == {"versions": "1.0", "strict": "1.0"}
    assert words(found).keys() == {"core"}
    assert "hash" in words(found)["core"]


def test_of_a_project_whose_build_fails_the_folder_is_told(url: str, tmp_path: Path) -> None:
    for path, text in wheelhouse.project("local", before="raise RuntimeError('no')").items():
        (tmp_path / "project" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "project" / path).write_text(text)
    found = resolve(tmp_path, f"--index-url {url}", "-e ./project", "core")
    assert versions(found) == {"core": "1.0"}
    assert words(found) == {"project": "RuntimeError: no"}


def test_projects_that_fail_in_folders_of_one_name_are_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Here, "run", lambda *_, **__: Ended(1, "ERROR: no"))
    places = [tmp_path / name / "lib" for name in ("a", "b")]
    for place in places:
        place.mkdir(parents=True)
    assert list(words(resolve(tmp_path, "./a/lib", "./b/lib"))) == list(map(str, places))


def test_what_hangs_is_found_in_less_time_than_it_was_given_first(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.engine.packages.resolving.DEADLINE_S", 5)
    monkeypatch.setattr("interlock.engine.packages.resolving.LOOKING_S", 4)
    found = resolve(tmp_path, f"--index-url {url}", "slow")
    assert versions(found) == {}
    assert words(found)["slow"].endswith(" 4 s")


def test_an_index_that_does_not_answer_ends_the_audit_and_one_that_refuses_is_quoted(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"Connection refused"):
        resolve(tmp_path, "--index-url http://127.0.0.1:9/simple", "core")
    with wheelhouse.index(PACKAGES, "me:secret") as address:
        found = resolve(tmp_path, f"--index-url {address.replace('http://', 'http://me:wrong@')}", "core")
    assert words(found)["core"].endswith("(401 Client Error: Unauthorized)")
    assert "wrong" not in words(found)["core"]


def test_pip_tells_which_release_has_a_wheel_for_its_interpreter(url: str, tmp_path: Path) -> None:
    nothing: Any = None
    inside = Here(nothing, folder=tmp_path)
    options = [f"--index-url {url}", "--prefer-binary"]
    told = {
        (name, version): remedies.release_with_wheel(inside, name, version, options)
        for name, version in (("versions", "1.5"), ("versions", "3.0"), ("built", "1.0"), ("nowhere", "1.0"))
    }
    assert told == {
        ("versions", "1.5"): "2.0",
        ("versions", "3.0"): "2.0",
        ("built", "1.0"): "",
        ("nowhere", "1.0"): "",
    }
