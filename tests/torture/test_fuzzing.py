"""Every parser of what others wrote, for as long as INTERLOCK_FUZZING_S says (of each parser: 60 s).

A text that takes longer than 2 s counts as lost, and so does one that ends in anything but a result or a sentence.
"""

from __future__ import annotations

import os
import random
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzzing import LIMIT_S, TARGETS, Target, attempt, made

EACH_S = float(os.environ.get("INTERLOCK_FUZZING_S", "60"))
BATCH = 200


@pytest.mark.parametrize("name", TARGETS)
def test_no_damaged_text_is_lost(name: str, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    tried, lost = 0, dict[str, int]()
    end = time.monotonic() + EACH_S

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
                lost[found] = lost.get(found, 0) + 1

    while time.monotonic() < end:
        batch()
    record_property("promise", f"every text is read or refused with a sentence: {name}")
    record_property("tried", tried)
    record_property("survived", tried - sum(lost.values()))
    record_property("lost", sum(lost.values()))
    assert tried
    assert lost == {}


def how_lost(target: Target, seed: int, folder: Path) -> str:
    """Return where a text was lost, with the seed that makes it anew; empty if it was not."""
    text = made(target, random.Random(seed))
    start = time.process_time()
    try:
        attempt(target, text, folder)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} in {Path(last.filename).name}:{last.lineno}, such as of {seed % 1000}"
    return "" if time.process_time() - start < LIMIT_S else f"slow, such as of {seed % 1000}"
