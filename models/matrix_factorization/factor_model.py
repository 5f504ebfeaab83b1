"""A fitted factor model in use: what needs the factors and no training, lists apart.

    state_ ─┬─ user_factors_, item_factors_, biases     labelled
            ├─ predict(pairs)        r̂_ij = μ + b_i + b_j + ⟨w_i, h_j⟩, or σ(r̂_ij)
            └─ transform(X_new)      new users, solved against H

Users and items are named by their labels everywhere; where the ratings had none, by position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
import xarray as xr

from daskpart.containers.column_names import Columns
from daskpart.containers.matrix import LabelledMatrix, as_matrix
from daskpart.containers.tables import from_arrow
from daskpart.models.base.components import COMPONENT, ComponentModel
from daskpart.models.base.fitted import as_fitted
from daskpart.models.base.labels import as_output

from .fold_in import solve_rows
from .pairs import entry_positions, is_pairs, item_positions, pair_positions, refuse_one_side
from .predicting import checked_clip, predictions, refuse_clip, shown
from .state import MFState


class FactorModel(ComponentModel):
    """What estimators of factors share once they are fitted; they have their own `fit`.

    Attributes
    ----------
    state_ : MFState
        Set by `fit`.
    regularization : float
        γ, a parameter of the estimator.
    biases, nonnegative : bool
        Whether users and items have biases, and whether factors are kept at 0 or above; parameters
        of the estimator.
    loss, clip, user, item, rating
        Parameters of the estimator, where it has them.
    """

    state_: MFState
    regularization: float
    biases: bool
    nonnegative: bool = False
    loss: str = "squared"
    clip: bool | tuple[float, float] = False
    user: str | None = None
    item: str | None = None
    rating: str | None = None

    @property
    def user_factors_(self) -> xr.DataArray:
        """W as DataArray of shape (M, F), dims (user, component), labelled by user."""
        state = self._fitted()
        return _labelled(state.user_factors, state.user_name, state.user_labels)

    @property
    def item_factors_(self) -> xr.DataArray:
        """H as DataArray of shape (N, F), dims (item, component), labelled by item."""
        state = self._fitted()
        return _labelled(state.item_factors, state.item_name, state.item_labels)

    @property
    def user_bias_(self) -> xr.DataArray:
        """b_i as DataArray of shape (M,), labelled by user; zeros without biases."""
        state = self._fitted()
        return _labelled(state.user_bias, state.user_name, state.user_labels)

    @property
    def item_bias_(self) -> xr.DataArray:
        """b_j as DataArray of shape (N,), labelled by item; zeros without biases."""
        state = self._fitted()
        return _labelled(state.item_bias, state.item_name, state.item_labels)

    @property
    def global_mean_(self) -> float:
        """μ, added to every prediction."""
        return float(self._fitted().global_mean)

    def predict(self, pairs: Any, unknown: str = "raise") -> Any:
        """Predict ratings.

        Parameters
        ----------
        pairs : array of shape (n, 2), list of (user, item), DataFrame, or sparse container
            Labels of users and items (positions where the ratings of the fit had no labels); a
            DataFrame of any library with a user and an item column; or any sparse container that
            `fit` takes, whose stored entries are predicted. Rows and columns of one without labels
            are taken by position, in the order of the labels of the fit.
        unknown : {"raise", "mean", "nan"}, default="raise"
            What users and items get that the model does not know: an error; the mean of the ratings
            and the bias of the other, if that is known; or NaN.

        Returns
        -------
        predicted : float32 ndarray of shape (n,), or sparse container
            One number a pair, in the order given; under the logistic loss the probability of yes.
            For a sparse container the same pattern holding predictions: scipy.sparse for
            scipy.sparse, a labelled DataArray for a DataArray, sparse.COO for the rest.

        Raises
        ------
        InputError
            For users or items that the model does not know: names the first and how many.
        """
        state, pairs = self._fitted(), from_arrow(pairs)
        if is_pairs(pairs):
            return self._predicted(*pair_positions(pairs, state, unknown, self._columns()), unknown)
        refuse_one_side(pairs)
        matrix = as_matrix(pairs)
        values = self._predicted(*entry_positions(matrix, state, unknown), unknown)
        return _same_kind(pairs, matrix, values)

    def transform(self, X_new: Any) -> xr.DataArray | pd.DataFrame | np.ndarray:
        """Factors of new users: what fits their ratings best against H, which stays as it is.

        The ridge solution; under the logistic loss the minimum of that, by Newton's method.

        Parameters
        ----------
        X_new : container, or dict
            Ratings by new users of items that the model knows; any container that `fit` takes, or
            of one new user a dict item → rating. Items are matched by label where both have labels,
            else by position.

        Returns
        -------
        rows : DataArray of shape (n_new, F), float32
            Labelled by the rows of `X_new`; with biases, the coordinate ``bias`` holds b of each.
            After ``set_output(transform="pandas")`` a DataFrame with these labels as its index.

        Raises
        ------
        InputError
            For items that the model does not know; under the logistic loss without a penalty.
        """
        state = self._fitted()
        matrix, columns = self._new_rows(X_new)
        rows, row_bias = self._solve(matrix, columns)
        result = _labelled(rows, state.user_name, matrix.row_labels)
        if as_fitted(self, "biases").biases:
            result = result.assign_coords(bias=(state.user_name, row_bias))
        return as_output(result, self)

    def _columns(self) -> Columns:
        return self.user, self.item, self.rating

    @property
    def _logistic(self) -> bool:
        """Whether a fitted model's ratings are yes or no, and its scores log-odds."""
        return bool(as_fitted(self, "loss").loss == "logistic")

    def _shown(self) -> Callable[[np.ndarray], np.ndarray]:
        """What makes predictions of scores."""
        clip: Any = checked_clip(self.clip)
        if self._logistic:
            refuse_clip(clip)
            return partial(shown, probabilities=True)
        if clip is True:
            clip = self._fitted().lowest, self._fitted().highest
        return partial(shown, ends=clip or None)

    def _predicted(self, rows: np.ndarray, columns: np.ndarray, unknown: str) -> np.ndarray:
        return self._shown()(predictions(self._fitted(), rows, columns, unknown))

    def _new_rows(self, X_new: Any) -> tuple[LabelledMatrix, np.ndarray]:
        if isinstance(X_new, Mapping):
            X_new = [(0, item, rating) for item, rating in X_new.items()]
        matrix = self._entries(X_new)
        return matrix, item_positions(matrix, self._fitted())

    def _entries(self, X: Any) -> LabelledMatrix:
        """What is learned from, of any container, checked."""
        return as_matrix(X, self._columns())

    def _solve(self, matrix: LabelledMatrix, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        fitted = as_fitted(self, "regularization", "biases", "nonnegative", "loss")
        return solve_rows(
            matrix.row_pointer(),
            columns,
            matrix.values,
            self._fitted(),
            fitted.regularization,
            fitted.biases,
            fitted.nonnegative,
            logistic=fitted.loss == "logistic",
        )


def _labelled(values: np.ndarray, name: str, labels: np.ndarray | None) -> xr.DataArray:
    dims = (name, COMPONENT)[: values.ndim]
    return xr.DataArray(values, dims=dims, coords=None if labels is None else {name: labels})


def _same_kind(given: Any, matrix: LabelledMatrix, values: np.ndarray) -> Any:
    predicted = replace(matrix, values=values)
    if isinstance(given, xr.DataArray):
        return predicted.to_xarray()
    if not scipy.sparse.issparse(given):
        return predicted.to_coo()
    array = predicted.to_scipy()
    convert = {"coo": array.tocoo, "csc": array.tocsc}.get(str(getattr(given, "format", "")))
    return array if convert is None else convert()
