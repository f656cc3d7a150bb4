"""Images carried by an archive, and what a killed experiment leaves in the engine."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog.project import Catalog
from interlock.engine.build.helper_images import ensure_helper, find_helper, helper_tag
from interlock.engine.build.sources import tar_of
from interlock.engine.ownership import OWNER_LABEL
from interlock.engine.registry import archives
from interlock.errors import EngineError
from interlock.results.experiments import Built
from tests.integration.resources import clean
from tests.integration.toys import interlock


@pytest.fixture
def tags(client: Any) -> Iterator[list[str]]:
    """Two images with a file each."""
    token = uuid.uuid4().hex[:8]
    names = [f"interlock/python:test-{token}-{number}" for number in (1, 2)]
    for name in names:
        context = {"Dockerfile": b"FROM scratch\nCOPY file /\n", "file": name.encode()}
        client.images.build(fileobj=tar_of(context), custom_context=True, rm=True, tag=name)
    yield names
    for name in names:
        if client.images.list(name):
            client.images.remove(name)


def test_images_saved_in_one_archive_come_back_with_their_ids(client: Any, tags: list[str], tmp_path: Path) -> None:
    ids = archives.ids_of(client, tags)
    found = archives.save(client, tags, tmp_path / "images.tar")
    assert archives.missing(client, ids) == []
    for tag in tags:
        client.images.remove(tag)
    assert archives.missing(client, ids) == tags
    assert archives.load(client, tmp_path / "images.tar", found) == tags
    assert archives.ids_of(client, tags) == ids


def test_an_image_that_another_one_has_the_name_of_is_missing(client: Any, tags: list[str]) -> None:
    ids = archives.ids_of(client, tags)
    client.images.get(tags[0]).tag(*tags[1].split(":"))
    assert archives.missing(client, ids) == [tags[1]]


def test_load_says_which_of_a_list_are_missing_and_nothing_if_none_is(
    root: Path, tags: list[str], client: Any, tmp_path: Path
) -> None:
    (tmp_path / "list.json").write_text(
        json.dumps({**archives.ids_of(client, tags), "interlock-test/none:1": "sha256:0"})
    )
    done = interlock(root, "load", "--missing", str(tmp_path / "list.json"))
    assert (done.returncode, done.stdout) == (0, "interlock-test/none:1\n")


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["load"], 2, "--missing"),
        (["load", "nowhere.tar"], 2, "--sha256"),
        (["load", "--sha256", "0" * 64, "nowhere.tar"], 4, "nowhere.tar: "),
        (["load", "--missing", "nowhere.json"], 7, "nowhere.json: "),
    ],
)
def test_what_cannot_be_loaded_is_said_in_one_line(root: Path, words: list[str], code: int, said: str) -> None:
    done = interlock(root, *words)
    assert done.returncode == code
    assert said in done.stderr
    assert done.stderr.count("error:") == 1


def test_an_archive_that_is_none_is_refused(client: Any, tmp_path: Path) -> None:
    (tmp_path / "images.tar").write_bytes(b"no archive")
    with pytest.raises(EngineError) as caught:
        archives.load(client, tmp_path / "images.tar", hashlib.sha256(b"no archive").hexdigest())
    assert caught.value.file == str(tmp_path / "images.tar")


def test_an_image_with_the_tag_and_the_label_of_a_helper_is_neither_loaded_nor_taken_for_one(
    client: Any, root: Path, catalog: Catalog, quick: Built, tmp_path: Path
) -> None:
    """As whoever has read this project's files can make one."""
    base = quick.base
    assert base is not None
    name = "limits"
    before = ensure_helper(client, root, name, base)
    labels = client.images.get(before).labels
    forged, _ = client.images.build(
        fileobj=tar_of({"Dockerfile": b"FROM scratch\nCOPY file /\n", "file": b"forged"}),
        custom_context=True,
        rm=True,
        tag=helper_tag(name),
        labels=labels,
    )
    try:
        assert find_helper(client, root, name, catalog.bases["trixie"]) is None
        found = archives.save(client, [helper_tag(name)], tmp_path / "images.tar")
        with pytest.raises(EngineError, match=helper_tag(name)):
            archives.load(client, tmp_path / "images.tar", found)
        assert ensure_helper(client, root, name, base) == before
    finally:
        client.images.get(before).tag(*helper_tag(name).split(":"))
        client.images.remove(forged.id)


def test_what_an_experiment_left_is_removed_by_the_beginning_of_its_name_and_others_stay(client: Any) -> None:
    mine, others = (f"test-{uuid.uuid4().hex[:8]}" for _ in range(2))
    owners = [f"{mine}.ash.locks-070000000000", f"{others}.ash.locks-070000000000"]
    for owner in owners:
        client.volumes.create(labels={OWNER_LABEL: owner})
        client.networks.create(owner, internal=True, labels={OWNER_LABEL: owner})
    try:
        assert clean(client, f"{mine}.ash.") == [owners[0]]
        assert clean(client, f"{mine}.ash.") == []
    finally:
        assert clean(client, others) == [owners[1]]


MAKES = """\
import sys
from interlock.engine.docker import connect
from interlock.engine.ownership import labels_of, temporary_folder
client, (image_id, owner) = connect().client, sys.argv[1:]
labels = labels_of(owner)
client.volumes.create(labels=labels)
client.networks.create(owner, internal=True, labels=labels)
client.containers.create(image_id, ["true"], labels=labels)
with temporary_folder("test-" + owner) as folder:
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_clean_removes_what_is_dead_and_never_what_somebody_is_at(root: Path, client: Any, tags: list[str]) -> None:
    owner = f"test-{uuid.uuid4().hex[:8]}"
    command = [sys.executable, "-c", MAKES, tags[0], owner]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        before = leftovers_of(client, owner)
        assert len(before) == 3
        refused = interlock(root, "clean", owner)
        assert (refused.returncode, leftovers_of(client, owner)) == (2, before), refused.stderr
        assert interlock(root, "clean").returncode == 0
        assert leftovers_of(client, owner) == before
        assert folder.is_dir()
        process.kill()
        process.wait()
        done = interlock(root, "clean")
    assert done.returncode == 0
    assert f"removed {owner}\n" in done.stdout
    assert leftovers_of(client, owner) == set()
    assert not folder.exists()


def leftovers_of(client: Any, owner: str) -> set[str]:
    owned = {"label": f"{OWNER_LABEL}={owner}"}
    containers = client.containers.list(all=True, ignore_removed=True, filters=owned)
    return {one.id for one in (*containers, *client.networks.list(filters=owned), *client.volumes.list(filters=owned))}
