"""Where the mean of the ratings stands: in μ beside the biases, or without them in the factors.

    without   w·h  =  w̄·h̄ + w'·h̄ + w̄·h' + w'·h'         w = w̄ + w', h = h̄ + h', w̄ and h̄ the means
    with              μ   +  b_i  +  b_j  + w'·h'

So a model without biases becomes one with them that predicts the same. The other way round μ goes
into all rows, as where a fit begins; what the biases say of a user or an item is trained anew.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .state import MFState


def with_biases(state: MFState) -> MFState:
    """A state without biases as one with them; the predictions are the same.

    Users and items without ratings, whose factors are 0, stay so and have no bias.
    """
    users, items = state.user_factors.any(axis=1), state.item_factors.any(axis=1)
    of_users, of_items = _mean(state.user_factors[users]), _mean(state.item_factors[items])
    user_factors, item_factors = state.user_factors.copy(), state.item_factors.copy()
    user_factors[users] -= of_users
    item_factors[items] -= of_items
    beside = of_users @ of_items - np.float32(state.rating_mean)  # rows are no ratings
    return replace(
        state,
        global_mean=state.rating_mean,
        user_factors=user_factors,
        item_factors=item_factors,
        user_bias=(user_factors @ of_items + beside) * users,
        item_bias=item_factors @ of_users,
    )


def without_biases(state: MFState) -> MFState:
    """A state with biases as one without them: μ in the factors of those who have ratings."""
    size = np.sqrt(abs(state.global_mean) / state.n_components)
    changes: dict[str, Any] = {"global_mean": 0.0}
    for side, shift in (("user", size), ("item", np.copysign(size, state.global_mean))):
        factors = getattr(state, f"{side}_factors").copy()
        factors[factors.any(axis=1)] += np.float32(shift)
        changes[f"{side}_factors"] = factors
        changes[f"{side}_bias"] = np.zeros_like(getattr(state, f"{side}_bias"))
    return replace(state, **changes)


def _mean(rows: np.ndarray) -> np.ndarray:
    return rows.sum(axis=0) / np.float32(max(len(rows), 1))
