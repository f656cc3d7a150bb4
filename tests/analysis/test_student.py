"""Student's t without SciPy is SciPy's."""

from __future__ import annotations

import math

import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from interlock.analysis import student

FREEDOMS = st.floats(0.1, 1e5)


@given(FREEDOMS, st.floats(-50, 50))
def test_probabilities_are_those_of_scipy(freedom: float, t: float) -> None:
    assert student.probability_below(freedom, t) == pytest.approx(float(scipy.special.stdtr(freedom, t)), rel=1e-9)


@given(FREEDOMS, st.floats(0.6, 0.9999))
def test_quantiles_are_those_of_scipy(freedom: float, probability: float) -> None:
    found = student.quantile(freedom, probability)
    assert found == pytest.approx(float(scipy.special.stdtrit(freedom, probability)), rel=1e-8)


def test_without_degrees_of_freedom_there_is_no_quantile() -> None:
    assert student.quantile(1e-6, 0.975) == math.inf


@pytest.mark.parametrize(("t", "expected"), [(-math.inf, 0.0), (0.0, 0.5), (math.inf, 1.0)])
def test_the_ends_and_the_middle_are_exact(t: float, expected: float) -> None:
    assert student.probability_below(7.5, t) == expected
