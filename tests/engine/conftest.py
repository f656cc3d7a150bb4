"""What tests of engines share."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest

from interlock.errors import ENDING_SIGNALS, Interrupted


@pytest.fixture
def interrupt() -> Iterator[Callable[[int, object], NoReturn]]:
    """The handler of the signals that end a command, which raises Interrupted as a command's does."""

    def handler(number: int, _: object) -> NoReturn:
        raise Interrupted(number)

    before = {number: signal.signal(number, handler) for number in ENDING_SIGNALS}
    yield handler
    for number, earlier in before.items():
        signal.signal(number, earlier)
