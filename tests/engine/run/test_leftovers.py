"""What an interrupt leaves in the engine, and what a build leaves there for others."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

from interlock.engine.build import sbom
from interlock.engine.build.image import take_tag
from interlock.engine.ownership import HOST, OWNER_LABEL, PID, STARTED, host, labels_of, start_of
from interlock.engine.run import archives, containers, one_shot, user_containers
from interlock.engine.symbols import symbols_of
from interlock.errors import Interrupted

ASKS: dict[str, Callable[[Any], object]] = {
    "check": lambda client: one_shot.ask(client, "image", ["true"], 1),
    "pull": lambda client: archives.image_archive(client, "image", "/", 1, "task").__enter__(),
    "sbom": lambda client: sbom.read_contents(client, "image"),
    "swap --try": lambda client: user_containers.start_alone(client, "try", "image", 1),
    "why": lambda client: symbols_of(client, Mock(labels={"interlock.hash": "1"}), "why"),
    "matrix": lambda client: containers.create_instruments_volume(client, "experiment", "image", {}),
}


@pytest.mark.usefixtures("interrupt")
@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
def test_a_container_that_is_made_while_an_interrupt_comes_is_removed(ask: Callable[[Any], object]) -> None:
    client, container = Mock(), Mock()
    client.images.list.return_value = [Mock()]

    def create(*_: object, **__: object) -> Mock:
        os.kill(os.getpid(), signal.SIGTERM)
        return container

    client.containers.create = create
    with pytest.raises(Interrupted):
        ask(client)
    container.remove.assert_called_once_with(force=True, v=True)
    container.start.assert_not_called()


PARENT = {OWNER_LABEL: "matrix", PID: str(os.getppid()), STARTED: start_of(os.getppid()), HOST: host()}


@pytest.mark.parametrize(
    ("labels", "stays"),
    [
        (PARENT, True),
        (labels_of("matrix") | {HOST: "another machine"}, True),
        (PARENT | {STARTED: "an earlier process"}, False),
        (labels_of("matrix"), False),
    ],
    ids=["at work", "unknown", "dead", "this process"],
)
def test_an_image_that_another_process_may_measure_stays_without_its_tag(labels: dict[str, str], stays: bool) -> None:
    client = Mock()
    client.images.get = lambda name: Mock(id="old" if name == "localhost/interlock/python:3.14" else "new")
    for kind in (client.containers, client.networks, client.images):
        kind.list.return_value = []
    client.volumes.list.return_value = [Mock(attrs={"Labels": labels})]
    assert take_tag(client, "new", "localhost/interlock/python:3.14").id == "new"
    assert [call.args for call in client.images.remove.mock_calls] == ([] if stays else [("old",)])
