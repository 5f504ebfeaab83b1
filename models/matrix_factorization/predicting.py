"""Scores of single pairs from a state, those of strangers among them, and what is shown of them.

both known        μ + b_i + b_j + ⟨w_i, h_j⟩       ─┬─► itself, or clipped to a range
one is unknown    μ + the bias of the other, or NaN ┴─► σ of it: the probability of yes
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from daskpart.errors import InputError

from .kernels.scoring import predict_pairs
from .state import MFState


def checked_clip(clip: Any) -> bool | tuple[float, float]:
    """What predictions are clipped to: nothing, the range of the ratings, or (low, high).

    Raises
    ------
    InputError
        For anything else.
    """
    if isinstance(clip, bool | np.bool_):
        return bool(clip)
    try:
        low, high = map(float, clip)
    except (TypeError, ValueError):
        low, high = 0.0, 0.0
    if not low < high:
        raise InputError(
            f"clip={clip!r}; give True, which means the range of the ratings, or (low, high)"
        )
    return low, high


def refuse_clip(clip: Any) -> None:
    """Refuse a range for probabilities (InputError)."""
    if clip is not False:
        raise InputError(
            'predictions of loss="logistic" are probabilities, within 0 and 1: leave clip out'
        )


def shown(
    scores: np.ndarray, *, ends: tuple[float, float] | None = None, probabilities: bool = False
) -> np.ndarray:
    """What users see of scores: these, kept within a range, or the probability of yes."""
    if probabilities:
        return np.asarray(expit(scores))
    return scores if ends is None else np.clip(scores, *ends)


def predictions(
    state: MFState, rows: np.ndarray, columns: np.ndarray, unknown: str = "raise"
) -> np.ndarray:
    """Scores of pairs of positions.

    Parameters
    ----------
    state : MFState
    rows, columns : int32 ndarray of shape (n,)
        Users and items; −1 for strangers.
    unknown : {"raise", "mean", "nan"}
        What pairs with a stranger get: the mean and the known one's bias, or NaN. "raise": there
        are none.

    Returns
    -------
    predicted : float32 ndarray of shape (n,)
    """
    predicted = np.empty(rows.size, np.float32)
    known: slice | np.ndarray = slice(None)
    if unknown != "raise":
        known = np.flatnonzero((rows >= 0) & (columns >= 0))
    own = np.empty(rows[known].size, np.float32)
    predict_pairs(
        rows[known], columns[known], state.user_factors, state.item_factors, state.user_bias,
        state.item_bias, np.float32(state.global_mean), own,
    )  # fmt: skip
    if unknown != "raise":
        predicted[:] = np.nan if unknown == "nan" else state.rating_mean
        if unknown == "mean":
            predicted += np.where(rows >= 0, state.user_bias[rows], 0)
            predicted += np.where(columns >= 0, state.item_bias[columns], 0)
    predicted[known] = own
    return predicted
