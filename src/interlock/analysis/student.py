"""Student's t in plain Python: who only picks an image needs no numerical library. SciPy's functions agree (tests)."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

# The continued fraction ends when a term changes the product by less than this, or after so many terms.
SETTLED, TERMS = 1e-15, 400
# Newton's steps end when one moves by less than this share, or after so many.
CLOSE, MOST_STEPS = 1e-12, 100
# A quantile beyond this says nothing; its square would be no number.
LARGEST = 1e100
NORMAL = NormalDist()


def probability_below(freedom: float, t: float) -> float:
    """Return the probability of a value below t with these degrees of freedom, which are above 0."""
    if math.isinf(t):
        return float(t > 0)
    tail = _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t), t * t / (freedom + t * t)) / 2
    return tail if t < 0 else 1 - tail


@lru_cache(maxsize=4096)
def quantile(freedom: float, probability: float) -> float:
    """Return the t that a value is below with this probability, which is above 0.5; degrees of freedom above 0."""
    tail, low, high = 1 - probability, 0.0, 1.0
    while probability_below(freedom, -high) > tail:
        low, high = high, 8 * high
        if high > LARGEST:
            return math.inf
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    found = min(max(_guess(freedom, probability), low), high)
    for _ in range(MOST_STEPS):
        beyond = probability_below(freedom, -found) - tail
        low, high = (found, high) if beyond > 0 else (low, found)
        density = scale * (1 + found * found / freedom) ** (-(freedom + 1) / 2)
        step = beyond / density if density else math.inf
        # Newton's step, but never out of the bounds.
        before, found = found, found + step if low <= found + step <= high else (low + high) / 2
        if abs(found - before) <= CLOSE * found:
            break
    return found


def _guess(freedom: float, probability: float) -> float:
    """Return the first terms of the expansion around the normal quantile: Abramowitz and Stegun, 26.7.5."""
    z = NORMAL.inv_cdf(probability)
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def _incomplete_beta(a: float, b: float, x: float, rest: float) -> float:
    """Return the regularised incomplete beta function at x; `rest` is 1 - x, without its rounding.

    Abramowitz and Stegun, Handbook of Mathematical Functions, 26.5.8.
    """
    if x <= 0:
        return 0.0
    if rest <= 0:
        return 1.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, rest) / b


def _fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction by Lentz's method."""
    numerator, denominator = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    product = denominator
    for term in range(1, TERMS):
        even = term * (b - term) * x / ((a + 2 * term - 1) * (a + 2 * term))
        denominator, numerator = 1 / (1 + even * denominator), 1 + even / numerator
        product *= denominator * numerator
        odd = -(a + term) * (a + b + term) * x / ((a + 2 * term) * (a + 2 * term + 1))
        denominator, numerator = 1 / (1 + odd * denominator), 1 + odd / numerator
        change = denominator * numerator
        product *= change
        if abs(change - 1) < SETTLED:
            break
    return product
