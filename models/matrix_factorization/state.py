"""The state of a factorization between two epochs: both factors, and all else that goes on.

Source: Abubaker et al., "Minimizing Staleness and Communication Overhead in Distributed SGD for
Collaborative Filtering", §2.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from daskpart.errors import InputError
from daskpart.models.base.labels import LabelIndex
from daskpart.models.base.state import State, labels_of, rows_of, scalar

NAMES = ("factors", "bias", "gradient")  # of the rows of either side


@dataclass(eq=False, repr=False)
class MFState(State):
    """Both factors, and all else that training and prediction need.

    Attributes
    ----------
    user_factors, item_factors : float32 ndarray of shape (M, F) and (N, F)
    user_bias, item_bias : float32 ndarray of shape (M,) and (N,)
        Zeros when the model has no biases.
    global_mean : float
        Added to every prediction.
    unit : float or None
        s, the power of two that values were divided by in training (see `scaling`); None: to be
        found, where a fit goes on with other values than the last one was trained on. Factors,
        biases and mean are in the units of the ratings; sums of squared gradients are not.
    rating_mean, lowest, highest : float
        Mean and ends of the ratings of the fit; under the logistic loss the log-odds of the mean.
    user_gradient, item_gradient : float32 ndarray of shape (M,) and (N,)
        Sums of squared gradients (AdaGrad).
    learning_rate_state : dict of str to float
        Empty: the rate is at its beginning.
    user_labels, item_labels : ndarray or None
        None: positions are the labels.
    user_name, item_name : str
        Names of the two axes.
    """

    user_factors: np.ndarray = rows_of("user")
    item_factors: np.ndarray = rows_of("item")
    user_bias: np.ndarray = rows_of("user")
    item_bias: np.ndarray = rows_of("item")
    global_mean: float = scalar(0.0)
    rating_mean: float = scalar(0.0)
    unit: float | None = scalar(1.0)
    lowest: float = scalar(float("inf"))
    highest: float = scalar(float("-inf"))
    user_gradient: np.ndarray = rows_of("user", None)
    item_gradient: np.ndarray = rows_of("item", None)
    learning_rate_state: Mapping[str, float] = scalar(default_factory=dict)
    user_labels: np.ndarray | None = labels_of("user")
    item_labels: np.ndarray | None = labels_of("item")
    user_name: str = scalar("user")
    item_name: str = scalar("item")

    _answers: ClassVar[tuple[str, ...]] = (
        "user_factors",
        "item_factors",
        "user_bias",
        "item_bias",
        "global_mean",
    )

    def __post_init__(self) -> None:
        if self.user_gradient is None:
            self.user_gradient = np.zeros(self.n_users, np.float32)
        if self.item_gradient is None:
            self.item_gradient = np.zeros(self.n_items, np.float32)
        super().__post_init__()
        if self.item_factors.shape[1] != self.n_components:
            raise InputError(
                f"item_factors has shape {self.item_factors.shape}, user_factors has "
                f"{self.n_components} components."
            )

    @property
    def n_users(self) -> int:
        """M, rows of the ratings."""
        return int(self.user_factors.shape[0])

    @property
    def n_items(self) -> int:
        """N, columns of the ratings."""
        return int(self.item_factors.shape[0])

    @property
    def n_components(self) -> int:
        """F, length of one factor row."""
        return int(self.user_factors.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """(M, N), the shape of the ratings."""
        return self.n_users, self.n_items

    @property
    def trained_unit(self) -> float:
        """s, of a state that was trained."""
        assert self.unit is not None
        return self.unit

    def axis_name(self, axis: str) -> str:
        """What users call an axis."""
        return self.user_name if axis == "user" else self.item_name

    def reordered(self, axis: str, order: np.ndarray, labels: np.ndarray) -> Self:
        """The same rows in another order along an axis, whose labels then are `labels`."""
        rows = {name for name, lies in self.declared("rows").items() if lies.axis == axis}
        besides = {
            beside: {
                name: value[order] if name in rows else value
                for name, value in getattr(self, beside).items()
            }
            for beside in ("best", "last")
        }
        moved = {name: getattr(self, name)[order] for name in rows}
        changes: dict[str, Any] = {**moved, **besides, f"{axis}_labels": labels}
        return replace(self, **changes)

    def users(self) -> LabelIndex:
        """Look-up from user labels to rows of `user_factors`."""
        return self.index_of("user")

    def items(self) -> LabelIndex:
        """Look-up from item labels to rows of `item_factors`."""
        return self.index_of("item")


def blank_state(
    shape: tuple[int, int],
    n_components: int,
    names: tuple[str, str],
    labels: tuple[Any, Any],
    kind: Any = MFState,
) -> Any:
    """A state of zeros; users and items without ratings stay so.

    Raises
    ------
    InputError
        For labels that stand twice.
    """
    n_users, n_items = shape
    state = kind(
        user_factors=np.zeros((n_users, n_components), np.float32),
        item_factors=np.zeros((n_items, n_components), np.float32),
        user_bias=np.zeros(n_users, np.float32),
        item_bias=np.zeros(n_items, np.float32),
        user_gradient=np.ones(n_users, np.float32),
        item_gradient=np.ones(n_items, np.float32),
        user_labels=labels[0],
        item_labels=labels[1],
        user_name=names[0],
        item_name=names[1],
    )
    state.users(), state.items()  # before any work
    return state
