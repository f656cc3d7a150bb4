"""Every parser of what others wrote takes damaged texts or refuses them with a sentence: the short form.

The long form is tests/torture/test_fuzzing.py.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzzing import TARGETS, attempt, made

pytestmark = pytest.mark.promise


@pytest.mark.parametrize("name", TARGETS)
@given(seed=st.integers(0, 2**64))
@settings(max_examples=settings().max_examples // 4, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_text_is_read_or_refused_with_a_sentence(name: str, tmp_path: Path, seed: int) -> None:
    target = TARGETS[name]
    attempt(target, made(target, random.Random(seed)), tmp_path)
