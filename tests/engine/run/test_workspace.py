"""Loads as users write them, by a real shell, are timed, or one sentence says what is wrong; and a network's end."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest
from docker.errors import APIError

from interlock.engine.ended import Ended, run_here
from interlock.engine.run.workspace import ContainerWorkspace, run_load
from interlock.errors import WorkloadError


def put(script: str, limit_s: float = 5) -> float:
    def run(words: list[str], longest_s: float) -> Ended:
        return run_here(words, limit_s=longest_s)

    return run_load(run, ["sh", "-c", script], limit_s).duration_s


@pytest.mark.promise
@pytest.mark.parametrize(
    "script",
    [
        "sleep 0.2",
        "sleep 0.2; printf 'no end of a line' >&2",
        "printf '\\r 50%%' >&2; sleep 0.2; printf '\\r100%%' >&2",
        "echo interlock 1 >&2; echo interlock many >&2; sleep 0.2",
        "sleep 0.2; printf 'interlock 9' >&2",
        "sleep 0.2; printf '\\377\\376\\033[2J\\000' >&2",
        "sleep 0.2; exec >&- 2>&-",
        "(sleep 0.5; echo more >&2) & sleep 0.2",
    ],
)
def test_what_a_load_prints_changes_no_time_of_it(script: str) -> None:
    assert 0.2 <= put(script) < 5


@pytest.mark.promise
@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("sleep 60", "did not end within 1 s"),
        ("trap '' TERM; while :; do sleep 1; done", "did not end within 1 s"),
        ("kill -9 $PPID", "exit code -?(137|9)"),
        ("kill $PPID; sleep 0.2", "exit code -?(143|15)"),
        ("kill -9 $$", "exit code 137"),
        ("exit 9", "exit code 9: it printed nothing"),
        ("no-such-program", "exit code 127"),
        ("ulimit -v 1; exec cat /dev/zero", "exit code"),
        ("printf '\\033[2Jbad' >&2; exit 3", "exit code 3: bad"),
    ],
)
def test_a_load_that_does_harm_is_one_sentence(script: str, found: str) -> None:
    with pytest.raises(WorkloadError, match=found) as caught:
        put(script, 1)
    assert str(caught.value).isprintable()


def test_a_load_whose_time_nobody_said_is_an_error() -> None:
    with pytest.raises(WorkloadError, match="nothing says"):
        run_load(lambda words, limit_s: Ended(0, "", "interlock many\n"), ["true"], 1)


def test_what_ended_a_network_is_raised_though_the_network_cannot_be_removed_yet() -> None:
    """A container whose start was interrupted is still in it, and 'has active endpoints' was what was said."""
    client: Any = MagicMock()
    client.info.return_value = {"NCPU": 1}
    client.containers.run.side_effect = KeyboardInterrupt
    client.networks.get.return_value.remove.side_effect = APIError("403: network x has active endpoints")
    workspace = ContainerWorkspace(client, "x", "i", helper_image_ids={"load": "l"})
    with pytest.raises(KeyboardInterrupt), workspace.network(None, load=True):
        pass
    client.networks.get.return_value.remove.assert_called_once_with()
