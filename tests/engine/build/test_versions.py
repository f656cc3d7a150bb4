"""Which version of a channel is built: the newest that is here or can be had, and never another unsaid."""

from __future__ import annotations

import base64
import shutil
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from interlock.catalog import project as catalogs
from interlock.engine.build import builds, places
from interlock.engine.build.places import Answers
from interlock.engine.host.prefixes import PrefixBuilder
from interlock.engine.protocol import BuildOptions
from interlock.results.experiments import Built, State, fallback_lines
from tests.builders import make_download
from tests.fakes import Answer, Asked, files_of, serving
from tests.integration.toys import add_channel, toy_of_channel

NEW, OLD = "9.9.2", "9.9.1"
NOBODY = "http://127.0.0.1:1"


@dataclass
class Upstream:
    """A server of the folder `served`, what it was asked, and the archives that it may have."""

    project: Path
    mirror: Path
    served: Path
    requests: list[Asked]
    answers: Answers = field(default_factory=Answers)
    steps: list[str] = field(default_factory=list)

    @property
    def asked(self) -> list[str]:
        """Return the paths that it was asked whether it has them."""
        return [one.path for one in self.requests if one.method == "HEAD"]

    def has(self, *versions: str) -> None:
        """Serve these versions alone, and begin a run that has asked nobody yet."""
        self.answers = Answers()
        self.requests.clear()
        for path in self.served.iterdir():
            path.unlink()
        for version in versions:
            shutil.copy(self.mirror / f"toy-{version}.tgz", self.served)

    def builder(self) -> PrefixBuilder:
        known = catalogs.load(self.project)
        options = BuildOptions(self.project, self.project.parent / "cache")
        return PrefixBuilder(known, options, lambda _, step: self.steps.append(step), answers=self.answers)

    def build(self) -> Built:
        (built,) = builds.build(self.builder(), ["toy"])
        return built

    def look_up(self) -> Built:
        (found,) = builds.look_up(self.builder(), ["toy"])
        return found


@pytest.fixture
def upstream(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Upstream]:
    monkeypatch.delenv("INTERLOCK_SOURCE_MIRROR", raising=False)
    (tmp_path / "served").mkdir()
    requests: list[Asked] = []
    with serving(files_of(tmp_path / "served"), requests) as port:
        add_channel(project, tmp_path / "mirror", f"http://127.0.0.1:{port}")
        toy_of_channel(project, "toy")
        yield Upstream(project, tmp_path / "mirror", tmp_path / "served", requests)


@pytest.mark.needs("gcc")
def test_the_newest_is_built_where_it_can_be_had(upstream: Upstream) -> None:
    upstream.has(NEW, OLD)
    built = upstream.build()
    assert (built.outcome.state, built.version, built.passed_over) == (State.OK, NEW, [])
    assert fallback_lines([built]) == []


@pytest.mark.needs("gcc")
def test_an_older_one_is_built_and_said_where_only_that_can_be_had(upstream: Upstream) -> None:
    upstream.has(OLD)
    built = upstream.build()
    assert (built.outcome.state, built.version) == (State.OK, OLD), built.outcome.reason
    (passed,) = built.passed_over
    assert passed.version == NEW
    assert "404" in passed.reason
    (line,) = fallback_lines([built])
    assert all(word in line for word in ("toy", NEW, OLD, "404"))
    assert any(NEW in step and OLD in step for step in upstream.steps)


@pytest.mark.needs("gcc")
def test_what_was_built_of_an_older_one_gives_way_to_the_newest_once_that_can_be_had(upstream: Upstream) -> None:
    upstream.has(OLD)
    upstream.build()
    upstream.has(NEW, OLD)
    assert upstream.look_up().outcome.state is State.UNAVAILABLE
    assert (upstream.build().version, upstream.look_up().version) == (NEW, NEW)


@pytest.mark.needs("gcc")
def test_where_nobody_answers_what_is_here_is_used_and_said(upstream: Upstream) -> None:
    upstream.has(OLD)
    before = upstream.build()
    upstream.has()
    for again in (upstream.build(), upstream.look_up()):
        assert (again.outcome.state, again.reused, again.image_id) == (State.OK, True, before.image_id)
        assert [one.version for one in again.passed_over] == [NEW]


@pytest.mark.needs("gcc")
def test_the_newest_that_is_here_is_used_without_asking_anybody(upstream: Upstream) -> None:
    upstream.has(NEW)
    upstream.build()
    upstream.has(OLD)
    again = upstream.build()
    assert (again.version, again.reused, again.passed_over, upstream.asked) == (NEW, True, [], [])


@pytest.mark.needs("gcc")
def test_where_there_is_nothing_at_all_the_build_of_the_newest_says_so(upstream: Upstream) -> None:
    upstream.has()
    built = upstream.build()
    assert built.outcome.state is State.UNAVAILABLE
    assert "127.0.0.1" in built.outcome.reason
    assert any(NEW in step for step in upstream.steps)


def test_a_page_in_place_of_a_file_is_no_source() -> None:
    def answer(asked: Asked) -> Answer:
        kind = "text/html; charset=utf-8" if asked.path.startswith("/login") else "application/x-xz"
        return Answer(200, b"", {"Content-Type": kind})

    with serving(answer) as port:
        assert places.why_not(f"http://127.0.0.1:{port}/login/a.tar.xz")
        assert places.why_not(f"http://127.0.0.1:{port}/a.tar.xz") == ""


@pytest.mark.parametrize(("user", "words"), [("me:a%40b", "me:a@b"), ("token", "token:")])
def test_a_mirror_is_asked_by_the_name_and_password_of_its_url_and_whom_it_sends_on_to_is_not_told(
    user: str, words: str
) -> None:
    """Its name and its password were taken for a part of its host: 'nonnumeric port'."""
    asked: list[Asked] = []
    known = f"Basic {base64.b64encode(words.encode()).decode()}"

    def answer(said: Asked) -> Answer:
        if said.path == "/a.tgz":
            return Answer(200 if said.headers.get("Authorization") == known else 401)
        return Answer(302, headers={"Location": f"http://localhost:{port}/open"} if said.path == "/away" else {})

    with serving(answer, asked) as port:
        assert places.why_not(f"http://{user}@127.0.0.1:{port}/a.tgz") == ""
        assert "401" in places.why_not(f"http://127.0.0.1:{port}/a.tgz")
        places.why_not(f"http://{user}@127.0.0.1:{port}/away")
    assert [(said.path, said.headers.get("Authorization")) for said in asked[2:]] == [("/away", known), ("/open", None)]


@pytest.mark.needs("gcc")
def test_a_users_own_mirror_counts(upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    upstream.has(OLD)
    monkeypatch.setenv("INTERLOCK_SOURCE_MIRROR", str(upstream.mirror))
    assert upstream.build().version == NEW


@pytest.mark.needs("gcc")
def test_each_place_is_asked_once_in_a_run(upstream: Upstream) -> None:
    upstream.has(OLD)
    for _ in range(2):
        upstream.look_up()
    assert sorted(upstream.asked) == [f"/toy-{OLD}.tgz", f"/toy-{NEW}.tgz"]


def test_places_that_do_not_answer_are_waited_for_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "ANSWER_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        sources = [make_download(sha256=f"{one:064}", places=[f"{address}/{one}", NOBODY]) for one in range(20)]
        began = time.monotonic()
        said = Answers().lacking(sources, tmp_path)
    assert time.monotonic() - began < 2
    assert len(said) == len(sources)
    hosts = [one.removeprefix("http://") for one in (address, NOBODY)]
    assert all(host in why for host in hosts for why in said.values())


def test_what_the_cache_has_is_not_asked_for(tmp_path: Path) -> None:
    download = make_download(places=[NOBODY])
    assert Answers().lacking([download], tmp_path)[download.sha256]
    (tmp_path / "downloads").mkdir()
    (tmp_path / "downloads" / download.sha256).write_bytes(b"")
    assert Answers().lacking([download], tmp_path) == {download.sha256: ""}


def test_a_path_of_debians_pool_is_asked_of_the_mirror_that_bases_are_made_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("INTERLOCK_DEBIAN_MIRROR", "http://debian.example/debian/")
    download = make_download(places=["https://example.org/a.tgz", "pool/main/a.tgz"])
    assert list(places.urls_of(download)) == [
        "https://example.org/a.tgz",
        "http://debian.example/debian/pool/main/a.tgz",
    ]
