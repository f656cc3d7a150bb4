"""The noise of a machine: known series, this machine's CPUs, and where a reference is refused."""

from __future__ import annotations

import math
import os
import random

import pytest

from interlock.errors import UnsupportedHereError
from interlock.measure import noise


@pytest.mark.parametrize("share", [0.002, 0.02, 0.2])
def test_noise_is_what_a_value_is_off_by_whatever_the_trend(share: float) -> None:
    source = random.Random(7)
    values = [math.exp(source.gauss(0, share)) * (1 + place / 4000) for place in range(4000)]
    assert noise.of_values(values) == pytest.approx(share, rel=0.05)


def test_equal_values_have_none() -> None:
    assert noise.of_values([2.0] * 9) == 0


def test_each_cpu_that_may_be_used_is_asked_and_afterwards_all_may_be_used() -> None:
    before = os.sched_getaffinity(0)
    found = noise.of_this_machine()
    assert set(found) == before == os.sched_getaffinity(0)
    assert all(0 < share < math.inf for share in found.values())


def test_a_machine_with_one_noisy_cpu_is_refused_by_its_figure() -> None:
    noise.require_quiet({0: 0.01, 1: noise.MOST_NOISE})
    with pytest.raises(UnsupportedHereError) as caught:
        noise.require_quiet({0: 0.01, 1: 0.125})
    assert "12.5%" in caught.value.found
    assert "CPU 1" in caught.value.found
