"""Which of the digests that an engine has recorded for an image is the one that others find."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from docker.errors import APIError, NotFound

from interlock.cli.swap_target import _confirmed
from interlock.results.experiments import Built, Outcome, State

if TYPE_CHECKING:
    from interlock.engine.docker import DockerEngine

OURS, THEIRS = (f"registry.example/team/python@sha256:{digit * 64}" for digit in "12")


@pytest.mark.parametrize(
    ("recorded", "there", "found"),
    [
        ([OURS], [], OURS),
        ([OURS, THEIRS], [THEIRS], THEIRS),
        ([OURS, THEIRS], [OURS, THEIRS], OURS),
        ([OURS, THEIRS], [], OURS),
        ([OURS, THEIRS], None, OURS),
        (["localhost/team/python@sha256:" + "3" * 64], [], OURS),
    ],
)
def test_of_several_recorded_digests_it_is_the_one_that_a_registry_has(
    recorded: list[str], there: list[str] | None, found: str
) -> None:
    def ask(name: str) -> object:
        if there is None:
            raise APIError("connection refused")
        if name not in there:
            raise NotFound("none")
        return SimpleNamespace(id=name.partition("@")[2])

    image = SimpleNamespace(attrs={"RepoDigests": recorded})
    images = SimpleNamespace(get=lambda _: image, get_registry_data=ask)
    client = SimpleNamespace(images=images, version=lambda: {"Components": [{"Name": "Engine"}]})
    here = Built(variant="x", outcome=Outcome(state=State.OK), image_id="sha256:1", digest=OURS)
    containers = cast("DockerEngine", SimpleNamespace(client=client))
    assert _confirmed(containers, here).digest == found
