"""Images carried by an archive, and what a killed experiment leaves in the engine."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.build.image import tar_of
from interlock.engine.client import OWNER_LABEL
from interlock.engine.registry import transfer
from interlock.errors import EngineError
from tests.integration.resources import clean
from tests.integration.toys import interlock


@pytest.fixture
def tags(client: Any) -> Iterator[list[str]]:
    """Two images with a file each."""
    repository = f"interlock-test/{uuid.uuid4().hex[:8]}"
    names = [f"{repository}:{number}" for number in (1, 2)]
    for name in names:
        context = {"Dockerfile": b"FROM scratch\nCOPY file /\n", "file": name.encode()}
        client.images.build(fileobj=tar_of(context), custom_context=True, rm=True, tag=name)
    yield names
    for name in names:
        if client.images.list(name):
            client.images.remove(name)


def test_images_saved_in_one_archive_come_back_with_their_ids(client: Any, tags: list[str], tmp_path: Path) -> None:
    ids = transfer.ids_of(client, tags)
    transfer.save(client, tags, tmp_path / "images.tar")
    assert transfer.missing(client, ids) == []
    for tag in tags:
        client.images.remove(tag)
    assert transfer.missing(client, ids) == tags
    assert transfer.load(client, tmp_path / "images.tar") == tags
    assert transfer.ids_of(client, tags) == ids


def test_an_image_that_another_one_has_the_name_of_is_missing(client: Any, tags: list[str]) -> None:
    ids = transfer.ids_of(client, tags)
    client.images.get(tags[0]).tag(*tags[1].split(":"))
    assert transfer.missing(client, ids) == [tags[1]]


def test_load_says_which_of_a_list_are_missing_and_nothing_if_none_is(
    root: Path, tags: list[str], client: Any, tmp_path: Path
) -> None:
    (tmp_path / "list.json").write_text(
        json.dumps({**transfer.ids_of(client, tags), "interlock-test/none:1": "sha256:0"})
    )
    done = interlock(root, "load", "--missing", str(tmp_path / "list.json"))
    assert (done.returncode, done.stdout) == (0, "interlock-test/none:1\n")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["load"], 2, "--missing"),
        (["load", "nowhere.tar"], 4, "nowhere.tar: "),
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
    with pytest.raises(EngineError, match="the engine cannot load it"):
        transfer.load(client, tmp_path / "images.tar")


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
