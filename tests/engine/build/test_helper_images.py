"""Helper images are begun beside the first builds, and nobody builds one that is being built."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.build import helper_images
from interlock.errors import BuildError
from interlock.results.experiments import BaseImage
from tests.builders import ROOT

BASE = BaseImage(reference="base:1", origin="mmdebstrap", image_id="sha256:1", chain_id="sha256:2", size_bytes=1)
CLIENT: Any = object()


class Engine:
    """Builds an image when it is allowed to, and then has it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.may_go_on, self.begun = threading.Event(), threading.Event()
        self.built: list[str] = []
        self.dockerfiles: list[str] = []
        self.files: dict[str, bytes] = {}
        self.arguments: dict[str, str] = {}
        self.fails = False
        monkeypatch.setattr(helper_images, "build_aside", self.build)
        monkeypatch.setattr(helper_images, "_find_helper", lambda _client, _root, name, _: self.found(name))
        monkeypatch.setattr(helper_images, "cache_folder", lambda: folder)

    def found(self, name: str) -> str | None:
        return f"id of {name}" if name in self.built else None

    def build(self, _client: Any, files: dict[str, bytes], what: str, _path: str, **options: Any) -> str:
        self.begun.set()
        assert self.may_go_on.wait(20)
        if self.fails:
            raise BuildError(found="no mirror answers", todo="")
        self.built.append(what)
        self.dockerfiles.append(files["Dockerfile"].decode())
        self.files, self.arguments = files, options["buildargs"]
        return f"id of {what}"


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Engine:
    return Engine(monkeypatch, tmp_path)


def test_who_asks_for_a_helper_that_is_being_built_waits_for_it(engine: Engine) -> None:
    thread = helper_images.begin_helpers(CLIENT, ROOT, ["instruments", "server"], BASE)
    assert engine.begun.wait(20)
    threading.Timer(0.1, engine.may_go_on.set).start()
    assert helper_images.ensure_helper(CLIENT, ROOT, "instruments", BASE) == "id of instruments"
    assert helper_images.ensure_helper(CLIENT, ROOT, "server", BASE) == "id of server"
    thread.join(20)
    assert sorted(engine.built) == ["instruments", "server"]
    assert "LABEL" in engine.dockerfiles[0]


def test_one_that_failed_beside_the_builds_is_tried_again_by_who_needs_it_and_says_why(engine: Engine) -> None:
    engine.fails = True
    engine.may_go_on.set()
    helper_images.begin_helpers(CLIENT, ROOT, ["server"], BASE).join(20)
    with pytest.raises(BuildError, match="no mirror answers"):
        helper_images.ensure_helper(CLIENT, ROOT, "server", BASE)


def test_what_a_helper_fetches_is_given_it_of_the_users_own_folder_which_no_container_sees(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.may_go_on.set()
    monkeypatch.setattr(
        helper_images, "written_for", lambda _, text, arguments, __: (text.encode(), {"buildargs": arguments})
    )
    name = "pth-2.0.7.tar.gz"
    for there, url in ((["another"], ""), (["another", name], f"file://{helper_images.BUILD}/mirror")):
        for each in there:
            (tmp_path / each).write_bytes(b"a source")
        monkeypatch.setenv("INTERLOCK_SOURCE_MIRROR", str(tmp_path))
        engine.built.clear()
        helper_images.ensure_helper(CLIENT, ROOT, "instruments", BASE)
        assert engine.arguments["INTERLOCK_SOURCE_MIRROR"] == url
        own = {path: data for path, data in engine.files.items() if path.startswith("mirror/")}
        assert own == ({f"mirror/{name}": b"a source"} if url else {})
    assert f"COPY . {helper_images.BUILD}/\n" in engine.dockerfiles[-1]
