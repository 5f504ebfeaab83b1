"""Values of any scale: what SGD sees are values of about unit size, whatever their units.

    hours 0.1 … 10,000 ──(value − μ) / s──► SGD ──► w · √s, h · √s, b · s ──► hours again

One learning rate and one γ then serve stars, hours and money alike, as in LIBMF, which divides by
the standard deviation. Here s is a power of two, so that dividing and multiplying back change no
bit: factors are kept in the units of the ratings, and a fit goes on from them exactly. Stars from 1
to 5 have s = 1. Where the tail is heavy s follows the largest value, for one step of SGD moves a
row by its error: the largest lies at most `TAIL` units from where training begins. Ratings are
taken as float32, which has 0 for all below 1e-45.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from daskpart.errors import InputError

TAIL = 16.0


@dataclass(frozen=True)
class Summary:
    """All ratings in five numbers, the same on every rank.

    Attributes
    ----------
    count : float
        Their number, or the sum of their weights.
    mean, deviation : float
        Mean and standard deviation.
    lowest, highest : float
    """

    count: float
    mean: float
    deviation: float
    lowest: float
    highest: float

    def unit(self, centred: bool) -> float:
        """s, a power of two; `centred` says whether μ is subtracted."""
        from_here = self.mean if centred else 0.0
        farthest = max(abs(self.highest - from_here), abs(self.lowest - from_here))
        return nearest_power_of_two(max(self.deviation, farthest / TAIL))


def summary_of(sums: np.ndarray, ends: np.ndarray) -> Summary:
    """From the sums and the ends of `rank_sums` and `rank_ends`, over all ranks.

    Raises
    ------
    InputError
        For values beyond the range of float32.
    """
    total, count, squares = (float(each) for each in sums)
    if not np.isfinite(sums).all() or not np.isfinite(ends).all():
        raise InputError(
            "the ratings are beyond the range of float32 (3e38): divide them by a constant"
        )
    mean = total / count if count else 0.0
    variance = squares / count - mean * mean if count else 0.0
    return Summary(count, mean, math.sqrt(max(variance, 0.0)), -float(ends[0]), float(ends[1]))


def refuse_rounded_off(largest: float) -> None:
    """Refuse ratings of which none is as large as the numbers that float32 holds in full.

    `largest` is the largest magnitude, before they are rounded to float32 (InputError).
    """
    if 0 < largest < np.finfo(np.float32).tiny:
        raise InputError(
            f"the ratings go up to {largest:g} in size, below the range of float32 (1e-38): "
            "multiply them by a constant"
        )


def rank_sums(values: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Sum, number and sum of squares of a rank's values, by weight; float64 of shape (3,)."""
    if weights is not None and weights.size:
        weights, values = weights.astype(np.float64), values.astype(np.float64)
        return np.array([weights @ values, weights.sum(), weights @ values**2])
    squares = np.square(values, dtype=np.float64).sum()
    return np.array([values.sum(dtype=np.float64), values.size, squares], np.float64)


def rank_ends(values: np.ndarray) -> np.ndarray:
    """Minus the lowest and the highest of a rank's values, float64 of shape (2,)."""
    ends = (-np.min(values, initial=np.inf), np.max(values, initial=-np.inf))
    return np.array(ends, np.float64)


def nearest_power_of_two(size: float) -> float:
    """2 to the nearest whole exponent; 1 for 0."""
    return 2.0 ** round(math.log2(size)) if size > 0 else 1.0


def split_unit(unit: float) -> tuple[float, float]:
    """Powers of two that users' and items' rows are multiplied by; their product is `unit`."""
    exponent = round(math.log2(unit))
    of_items = exponent // 2
    return 2.0 ** (exponent - of_items), 2.0**of_items
