"""Ratios of figures: a table's rows fitted together, round by round, with the error that is left. Pure.

Student's t is in plain Python: who only picks an image needs no numerical library. SciPy's functions agree (tests).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from statistics import NormalDist
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from interlock.errors import LazyModule

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import scipy

    Floats = npt.NDArray[np.float64]
else:
    np, scipy = LazyModule("numpy", "measure"), LazyModule("scipy", "measure")

Key = TypeVar("Key", bound=Hashable)
# The figure of a row in one block, or its figures by part where the rows of the block were split; none where it has no
# part.
BlockFigure = float | Mapping[int, float]
NO_PART: Mapping[int, float] = MappingProxyType({})

# Figures further from their row's level than this many standard deviations count as if they were there (Huber).
CLIP = 2.5
# Sweeps over rows and rounds end when no level moves by more than this, but not before the third, whose weights are the
# first that know the scales; or after so many.
SETTLED, FIRST_SWEEPS, SWEEPS = 1e-6, 3, 60
# The weight, in rounds, that the other rows' scale has in a row's own when figures far away are looked for.
COMMON_ROUNDS = 4
# The least relative error of a figure: no clock, page or count is finer than what a timing of 50 ms can show.
RESOLUTION = 1e-4
CONFIDENCE = 0.95
# A variance of fewer degrees of freedom, as that of a row with one round, says nothing about the others.
LEAST_FREEDOM = 0.1


@dataclass(frozen=True)
class Interval:
    """A ratio and its 95 % confidence interval, which one round leaves open: 0 to infinity."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class Ratio(Interval):
    """A figure divided by another's, with the standard error of its logarithm and that error's degrees of freedom.

    p is that of the hypothesis that they are equal. For a change it is the ratio of two ratios, and `rounds` is the
    smaller number of the two.
    """

    p: float
    rounds: int
    error: float
    freedom: float

    @property
    def log(self) -> float:
        return math.log(self.estimate)


def ratio_from(log: float, error: float, freedom: float, rounds: int) -> Ratio:
    """Return the ratio with its t interval and p from its logarithm; an infinite error leaves the interval open."""
    if not (math.isfinite(error) and freedom > 0):
        return Ratio(math.exp(log), 0.0, math.inf, 1.0, rounds, math.inf, 0.0)
    p = 2 * probability_below(freedom, -abs(log) / error)
    low, high = _ends(log, error, freedom, CONFIDENCE)
    return Ratio(math.exp(log), low, high, min(1.0, p), rounds, error, freedom)


def at_level(ratio: Ratio, confidence: float) -> Ratio:
    """Return a ratio whose error is known with its interval of another confidence."""
    low, high = _ends(ratio.log, ratio.error, ratio.freedom, confidence)
    return replace(ratio, low=low, high=high)


def _ends(log: float, error: float, freedom: float, confidence: float) -> tuple[float, float]:
    reach = error * quantile(freedom, (1 + confidence) / 2)
    return _exp(log - reach), _exp(log + reach)


def _exp(log: float) -> float:
    """Return e to a power, infinity instead of an overflow."""
    return math.exp(log) if log < 700 else math.inf


@dataclass(frozen=True)
class Levels:
    """The rows of one table, fitted together: log figure = level of its row + effect of its round + error."""

    rows: Mapping[Hashable, int]
    level: Floats
    variance: Floats  # of one figure, moderated across the rows
    freedom: Floats  # of each variance
    pooled: float  # degrees of freedom of all rows together: no error is known better
    weight: Floats  # of each figure, rows x rounds; 0 where there is none

    def ratio(self, mine: Hashable, theirs: Hashable) -> Ratio | None:
        """Return one row's figure divided by another's; None if either has no figures."""
        if mine not in self.rows or theirs not in self.rows:
            return None
        return ratio_from(*self.difference(mine, theirs))

    def difference(self, mine: Hashable, theirs: Hashable) -> tuple[float, float, float, int]:
        """Return the logarithm of the ratio of two rows, its error, that one's degrees of freedom, and the rounds."""
        my_row, their_row = self.rows[mine], self.rows[theirs]
        rounds = min(self.rounds_of(mine), self.rounds_of(theirs))
        log = float(self.level[my_row] - self.level[their_row])
        if rounds < 2 or self.pooled <= 0:
            return log, math.inf, 0.0, rounds
        if my_row == their_row or self._is_complete:
            # The sums of the general case, in which no other row has a part.
            squares = [float(self.variance[row]) / int(self._counts[row]) for row in {my_row, their_row}]
            total = sum(squares)
            freedoms = [float(self.freedom[row]) for row in {my_row, their_row}]
            freedom = total**2 / sum(part**2 / own for part, own in zip(squares, freedoms, strict=True))
            return log, math.sqrt(total), min(freedom, self.pooled), rounds
        parts = self._parts(my_row, their_row)
        total = float(parts.sum())
        freedom = total**2 / float((parts**2 / self.freedom).sum())
        return log, math.sqrt(total), min(freedom, self.pooled), rounds

    def rounds_of(self, key: Hashable) -> int:
        """Return how many figures a row has."""
        return int(self._counts[self.rows[key]])

    @cached_property
    def _counts(self) -> npt.NDArray[np.int64]:
        return np.asarray((self.weight > 0).sum(axis=1))

    @cached_property
    def _is_complete(self) -> bool:
        return bool((self.weight > 0).all())

    def _parts(self, mine: int, theirs: int) -> Floats:
        """Return what each row's variance adds to that of the difference of two levels."""
        rows = len(self.weight)
        solved = self._inverse[:, mine] - self._inverse[:, theirs]
        shares = self.weight * (solved[:rows, None] + solved[None, rows:])
        return np.asarray((shares**2).sum(axis=1) * self.variance)

    @cached_property
    def _inverse(self) -> Floats:
        """Return the pseudo-inverse of the normal equations of rows and rounds."""
        rows, rounds = self.weight.shape
        normal = np.zeros((rows + rounds, rows + rounds))
        normal[:rows, :rows], normal[rows:, rows:] = np.diag(self.weight.sum(1)), np.diag(self.weight.sum(0))
        normal[:rows, rows:], normal[rows:, :rows] = self.weight, self.weight.T
        return np.asarray(np.linalg.pinv(normal, hermitian=True))


def fit_levels(figures: Mapping[Key, Sequence[BlockFigure]]) -> Levels:
    """Fit the rows of one table; figures are by row, one for each block from the first on, all above 0.

    Rows may end early or begin late. Where a block was split into parts, each part is a round of its own. Rows and
    rounds are fitted by Huber's M-estimate in alternating sweeps, each row with a scale of its own, so that a process
    that took half as long again moves little; what is left is treated as pseudo-values (Huber, Robust Statistics, Wiley
    1981, chapter 7). A row's variance is moderated by those of the others, whose spread tells how much they have in
    common (Smyth, Linear Models and Empirical Bayes Methods, Statistical Applications in Genetics and Molecular
    Biology 3:1, 2004). A figure's error is `RESOLUTION` at least: equal figures are no certainty. Rows with a
    figure that is not positive and finite are left out.
    """
    by_part = {key: _by_block_and_part(row) for key, row in figures.items()}
    known = {key: row for key, row in by_part.items() if row and all(0 < figure < math.inf for figure in row.values())}
    columns = {at: number for number, at in enumerate(sorted({at for row in known.values() for at in row}))}
    logs = np.full((len(known), len(columns)), np.nan)
    for number, row in enumerate(known.values()):
        logs[number, [columns[at] for at in row]] = np.log(list(row.values()))
    # A round that one row has alone is in no ratio, and fits that row without any error, as if it had none.
    shared = logs[:, np.isfinite(logs).sum(axis=0) > 1]
    if np.isfinite(shared).any(axis=1).all():
        logs = shared
    rounds = logs.shape[1]
    rows: dict[Hashable, int] = {key: number for number, key in enumerate(known)}
    if rounds < 2:
        nothing = np.ones(len(known))
        levels = logs[:, 0] if rounds else nothing
        return Levels(rows, levels, nothing, nothing, 0.0, np.isfinite(logs).astype(float))
    return _fitted(rows, logs)


def _by_block_and_part(row: Sequence[BlockFigure]) -> dict[tuple[int, int], float]:
    """Return a row's figures by the numbers of block and part."""
    return {
        (block, part): figure
        for block, entry in enumerate(row)
        for part, figure in (entry.items() if isinstance(entry, Mapping) else [(0, entry)])
    }


def _fitted(rows: Mapping[Hashable, int], logs: Floats) -> Levels:
    there = np.isfinite(logs)
    known = np.where(there, logs, 0.0)
    counts = there.sum(axis=1)
    weights = there.astype(float)
    level, effect = known.sum(axis=1) / counts, np.zeros(logs.shape[1])
    for sweep in range(SWEEPS):
        before = level
        if not there.all():
            # Sweeping alone comes nearer in small steps where rows share few rounds.
            level = _solved_levels(weights, known)
        effect = (weights * (known - level[:, None])).sum(axis=0) / weights.sum(axis=0)
        level = (weights * (known - effect)).sum(axis=1) / weights.sum(axis=1)
        left = np.where(there, logs - level[:, None] - effect, np.nan)
        scale = _scales(left, counts)
        plain = there / np.maximum(scale, _median(scale))[:, None] ** 2
        weights = plain * np.minimum(1.0, CLIP / np.maximum(np.abs(np.nan_to_num(left)) / scale[:, None], CLIP))
        if sweep >= FIRST_SWEEPS and np.abs(level - before).max() < SETTLED:
            break
    distances = np.nan_to_num(left) / scale[:, None]
    variance, freedom = _variances(distances, scale, plain, there)
    variance, moderated = moderate(np.maximum(variance, RESOLUTION**2), freedom)
    return Levels(rows, level, variance, moderated, float(freedom.sum()), np.asarray(plain))


def _solved_levels(weights: Floats, known: Floats) -> Floats:
    """Return the levels of rows by weighted least squares, the effects of rounds being eliminated; their mean is 0."""
    sums = weights.sum(axis=0)
    normal = np.diag(weights.sum(axis=1)) - (weights / sums) @ weights.T
    right = (weights * known).sum(axis=1) - (weights / sums) @ (weights * known).sum(axis=0)
    return np.asarray(np.linalg.lstsq(normal, right, rcond=None)[0])


def _scales(left: Floats, counts: npt.NDArray[np.int64]) -> Floats:
    """Return a robust standard deviation of each row's residuals, drawn towards the table's middle one."""
    own = _medians(np.abs(left), counts) / 0.6745 * np.sqrt(counts / np.maximum(counts - 1, 1))
    common = COMMON_ROUNDS * _median(own) ** 2
    return np.asarray(np.maximum(np.sqrt((common + counts * own**2) / (COMMON_ROUNDS + counts)), RESOLUTION))


def _median(numbers: Floats) -> float:
    """Return the median; numpy's own takes ten times as long for a few."""
    ordered = np.sort(numbers)
    return float(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def _medians(rows: Floats, counts: npt.NDArray[np.int64]) -> Floats:
    """Return each row's median without its missing figures, which sorting puts last."""
    ordered, numbers = np.sort(rows, axis=1), np.arange(len(rows))
    return np.asarray((ordered[numbers, (counts - 1) // 2] + ordered[numbers, counts // 2]) / 2)


def _variances(distances: Floats, scale: Floats, plain: Floats, there: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return the variance of one figure of each row, from its pseudo-values, and its degrees of freedom."""
    counts = there.sum(axis=1)
    inside = there & (np.abs(distances) <= CLIP)
    share = inside.sum() / there.sum()
    # The slope of Huber's function in a row: its few figures alone tell it badly.
    slopes = (inside.sum(axis=1) + COMMON_ROUNDS * share) / (counts + COMMON_ROUNDS)
    terms = sum(there.shape) - 1
    correction = 1 + terms / there.sum() * (1 - share) / share
    leverage = (plain / plain.sum(axis=0)).sum(axis=1) / counts
    freedom = np.maximum((counts - 1) * (1 - leverage), 1e-6)
    squares = (np.clip(distances, -CLIP, CLIP) ** 2).sum(axis=1) * scale**2
    return np.asarray(correction**2 * squares / freedom / slopes**2), np.asarray(freedom)


def moderate(variances: Floats, freedom: Floats) -> tuple[Floats, Floats]:
    """Return variances drawn towards their common value, and their degrees of freedom: Smyth 2004, section 6.2.

    Those that differ no more than by chance become one. Else, the less they differ, the more each is drawn, but never
    below its own: a row that is noisier than the others would be called different too often. No degrees of freedom
    exceed those of all together.
    """
    pooled, known = float(freedom.sum()), freedom >= LEAST_FREEDOM
    if known.sum() < 2:
        return variances, freedom
    half = freedom[known] / 2
    logs = np.log(variances[known]) - scipy.special.digamma(half) + np.log(half)
    beyond_chance = float(logs.var(ddof=1) - scipy.special.polygamma(1, half).mean())
    if beyond_chance <= 0:
        return np.full_like(variances, (variances * freedom).sum() / pooled), np.full_like(freedom, pooled)
    prior = 2 * _trigamma_inverse(beyond_chance)
    common = math.exp(float(logs.mean() + scipy.special.digamma(prior / 2)) - math.log(prior / 2))
    drawn = (prior * common + freedom * variances) / (prior + freedom)
    return np.maximum(variances, drawn), np.minimum(freedom + prior, pooled)


def _trigamma_inverse(value: float) -> float:
    """Return the number whose trigamma function is this: Newton's method, Smyth 2004, appendix."""
    root = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(scipy.special.polygamma(1, root))
        step = trigamma * (1 - trigamma / value) / float(scipy.special.polygamma(2, root))
        root += step
        if -step < 1e-8 * root:
            break
    return root


def ratio_of(mine: Sequence[BlockFigure], theirs: Sequence[BlockFigure]) -> Ratio | None:
    """Return the ratio of figures paired by block; None without a pair, or if a figure is not above 0."""
    rounds = min(len(mine), len(theirs))
    return fit_levels({"mine": mine[:rounds], "theirs": theirs[:rounds]}).ratio("mine", "theirs")


def relative_error(figures: Sequence[float]) -> float | None:
    """Return the standard error of figures' mean as a share of it; None of a single one, which shows no noise.

    Of logarithms, as ratios are, where all figures are above 0. It shrinks as figures are added, unlike their range.
    """
    if len(figures) < 2:
        return None
    root = math.sqrt(len(figures))
    if min(figures) > 0:
        return max(float(np.log(figures).std(ddof=1)), RESOLUTION) / root
    mean = float(np.mean(figures))
    return float(np.std(figures, ddof=1)) / root / abs(mean) if mean else 0.0


def ratio_over(ratios: Sequence[float]) -> Ratio:
    """Return the geometric mean of independent ratios, of hosts or experiments say, with its t interval."""
    log = float(np.log(ratios).mean())
    error = relative_error(ratios)
    return ratio_from(log, math.inf if error is None else error, len(ratios) - 1, len(ratios))


def change_of(before: Ratio, after: Ratio) -> Ratio:
    """Return a ratio divided by an independent one of before."""
    return _combined([(1.0, after), (-1.0, before)])


def mean_ratio(parts: Sequence[tuple[float, Ratio]]) -> Ratio:
    """Return the weighted geometric mean of independent ratios, given with their shares, which add up to 1.

    The interval is of these ratios; it says nothing about others.
    """
    return parts[0][1] if len(parts) == 1 else _combined(parts)


def _combined(parts: Sequence[tuple[float, Ratio]]) -> Ratio:
    """Return the product of powers of independent ratios.

    The degrees of freedom are Satterthwaite's: An Approximate Distribution of Estimates of Variance Components,
    Biometrics Bulletin 2:6, 1946.
    """
    log = sum(power * ratio.log for power, ratio in parts)
    rounds = min(ratio.rounds for _, ratio in parts)
    squares = [(power * ratio.error) ** 2 for power, ratio in parts]
    total = sum(squares)
    if not math.isfinite(total):
        return ratio_from(log, math.inf, 0.0, rounds)
    freedom = total**2 / sum(square**2 / ratio.freedom for square, (_, ratio) in zip(squares, parts, strict=True))
    return ratio_from(log, math.sqrt(total), freedom, rounds)


def mean_by_group(groups: Iterable[Sequence[Ratio]]) -> Ratio | None:
    """Return the mean over groups (workloads) of the means over each group's ratios; None without any."""
    filled = [group for group in groups if group]
    parts = [(1 / len(filled) / len(group), ratio) for group in filled for ratio in group]
    return mean_ratio(parts) if parts else None


def benjamini_hochberg(p_values: Mapping[Key, float]) -> dict[Key, float]:
    """Return p-values adjusted for their number: of those below 0.05 at most 5 % are false, in the mean.

    Benjamini and Hochberg, Controlling the False Discovery Rate, Journal of the Royal Statistical Society B 57:1, 1995.
    """
    adjusted: dict[Key, float] = {}
    ceiling = 1.0
    for rank, key in reversed(list(enumerate(sorted(p_values, key=p_values.__getitem__), start=1))):
        ceiling = min(ceiling, p_values[key] * len(p_values) / rank)
        adjusted[key] = ceiling
    return {key: adjusted[key] for key in p_values}


# The continued fraction ends when a term changes the product by less than this, or after so many terms.
FRACTION_SETTLED, TERMS = 1e-15, 400
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
    t = min(max(_quantile_guess(freedom, probability), low), high)
    for _ in range(MOST_STEPS):
        beyond = probability_below(freedom, -t) - tail
        low, high = (t, high) if beyond > 0 else (low, t)
        density = scale * (1 + t * t / freedom) ** (-(freedom + 1) / 2)
        step = beyond / density if density else math.inf
        # Newton's step, but never out of the bounds.
        before, t = t, t + step if low <= t + step <= high else (low + high) / 2
        if abs(t - before) <= CLOSE * t:
            break
    return t


def _quantile_guess(freedom: float, probability: float) -> float:
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
        return front * _continued_fraction(a, b, x) / a
    return 1 - front * _continued_fraction(b, a, rest) / b


def _continued_fraction(a: float, b: float, x: float) -> float:
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
        if abs(change - 1) < FRACTION_SETTLED:
            break
    return product
