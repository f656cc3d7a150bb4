"""Every parser of what others wrote takes damaged texts or refuses them with a sentence, in 2 s and 1 GiB.

INTERLOCK_FUZZING_S is how long each parser is tried (30 s).
A text that takes longer than 2 s or more than 1 GiB counts as lost, and so does one that ends in anything but a result
or a sentence. Of each way to be lost the seed is said that makes such a text anew:
`made(TARGETS[name], random.Random(seed))`.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzzing import LIMIT_S, TARGETS, Target, attempt, made
from tests.torture.experiments import Record, count

pytestmark = pytest.mark.promise

EACH_S = float(os.environ.get("INTERLOCK_FUZZING_S", "30"))
BATCH = 200
MOST_BYTES = 2**30
# When a text that takes too long is given up.
GIVEN_UP_S = 10 * LIMIT_S


class TooLongError(BaseException):
    """No Exception, of which a parser may catch any."""


@pytest.mark.parametrize("name", TARGETS)
def test_no_damaged_text_is_lost(name: str, tmp_path: Path, record_property: Record) -> None:
    tried, lost = 0, dict[str, list[int]]()
    end = time.monotonic() + EACH_S
    TARGETS[name].seeds()  # of which some are made by other programs, without limits

    @settings(
        max_examples=BATCH, deadline=None, database=None, derandomize=False, suppress_health_check=list(HealthCheck)
    )
    @given(seed=st.integers(0, 2**64))
    def batch(seed: int) -> None:
        nonlocal tried
        if time.monotonic() < end:
            tried += 1
            found = how_lost(TARGETS[name], seed, tmp_path)
            if found:
                lost.setdefault(found, []).append(seed)

    with limited():
        while time.monotonic() < end:
            batch()
    wrong = [f"{how}: {seed}" for how, seeds in lost.items() for seed in seeds]
    assert tried
    count(record_property, tried, wrong)


@contextmanager
def limited() -> Iterator[None]:
    """Limit the process's memory to a gibibyte more than it has, and have a text given up that takes too long."""

    def give_up(*_: object) -> NoReturn:
        raise TooLongError

    before = resource.getrlimit(resource.RLIMIT_AS)
    has_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    handler = signal.signal(signal.SIGVTALRM, give_up)
    resource.setrlimit(resource.RLIMIT_AS, (has_bytes + MOST_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
        signal.signal(signal.SIGVTALRM, handler)


def how_lost(target: Target, seed: int, folder: Path) -> str:
    """Return where a text was lost; empty if it was not."""
    text = made(target, random.Random(seed))
    start = time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, GIVEN_UP_S)
    try:
        attempt(target, text, folder)
    except (Exception, TooLongError) as error:
        frames = [one for one in traceback.extract_tb(error.__traceback__) if "interlock" in Path(one.filename).parts]
        last = frames[-1] if frames else traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} in {Path(last.filename).name}:{last.lineno}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return "" if time.process_time() - start < LIMIT_S else "slow"
