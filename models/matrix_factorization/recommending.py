"""A fitted factor model in use: everything that needs the factors and no training.

    state_ ─┬─ user_factors_, item_factors_, biases     labelled
    seen_ ──┤
            ├─ predict(pairs)        r̂_ij = μ + b_i + b_j + ⟨w_i, h_j⟩
            ├─ score(X)              −RMSE over the stored entries of X
            ├─ recommend(users)      best unseen items        similar_items(items)
            └─ transform(X_new)      ridge solve of new users against H

Users and items are named by their labels everywhere; where the ratings had none, by position.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
import xarray as xr
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from daskpart.containers.matrix import Columns, LabelledMatrix, as_matrix
from daskpart.errors import DaskpartWarning, InputError
from daskpart.models.base.labels import LabelIndex

from .blocks import over_blocks, row_blocks
from .fold_in import solve_rows
from .pairs import entry_positions, is_pairs, item_positions, pair_positions
from .predicting import predictions
from .ranking import directions, only_itself, top_n
from .state import MFState

_COMPONENT = "component"


def seen_pattern(
    matrix: LabelledMatrix, before: scipy.sparse.csr_array | None = None
) -> scipy.sparse.csr_array:
    """Which user has rated which item, as CSR of booleans: 5 bytes a rating.

    Of these ratings, and of those `before`, whose users and items come first.
    """
    pattern = (np.ones(matrix.nnz, np.bool_), matrix.columns, matrix.row_pointer())
    seen = scipy.sparse.csr_array(pattern, shape=matrix.shape)
    if before is None:
        return seen
    earlier: Any = before.copy()
    earlier.resize(seen.shape)
    return scipy.sparse.csr_array(earlier + seen)


class FactorModel(TransformerMixin):
    """What estimators of factors share once they are fitted; a mixin without `fit`.

    Attributes
    ----------
    state_ : MFState
        Set by `fit`.
    seen_ : scipy.sparse.csr_array of bool, shape (M, N), or None
        The pattern of the training ratings; see `seen_pattern`.
    regularization : float
        γ, a parameter of the estimator.
    biases, nonnegative : bool
        Whether users and items have biases, and whether factors are kept at 0 or above; parameters
        of the estimator.
    clip, user, item, rating
        Parameters of the estimator, where it has them.
    """

    state_: MFState
    seen_: scipy.sparse.csr_array | None
    regularization: float
    biases: bool
    nonnegative: bool = False
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

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Name the columns of `transform`: component0, component1 and so on."""
        n_components = self._fitted().n_components
        return np.array([f"{_COMPONENT}{f}" for f in range(n_components)], dtype=object)

    def predict(self, pairs: Any, unknown: str = "raise") -> Any:
        """Predict ratings.

        Parameters
        ----------
        pairs : array of shape (n, 2), list of (user, item), DataFrame, or sparse container
            Labels of users and items (positions where the ratings of the fit had no labels); a
            DataFrame (pandas or Dask) with a user and an item column; or any sparse container that
            `fit` takes, whose stored entries are predicted.
        unknown : {"raise", "mean", "nan"}, default="raise"
            What users and items get that the model does not know: an error; the mean of the ratings
            and the bias of the other, if that is known; or NaN.

        Returns
        -------
        predicted : float32 ndarray of shape (n,), or sparse container
            One number a pair, in the order given. For a sparse container the same pattern holding
            predictions: scipy.sparse for scipy.sparse, a labelled DataArray for a DataArray,
            sparse.COO for the rest.

        Raises
        ------
        InputError
            For users or items that the model does not know: names the first and how many.
        """
        state = self._fitted()
        if is_pairs(pairs):
            return self._predicted(*pair_positions(pairs, state, unknown, self._columns()), unknown)
        matrix = as_matrix(pairs)
        values = self._predicted(*entry_positions(matrix, state, unknown), unknown)
        return _same_kind(pairs, matrix, values)

    def score(self, X: Any, y: Any = None, *, unknown: str = "raise") -> float:
        """Minus the root mean squared error over the stored entries of `X`: higher is better.

        Parameters
        ----------
        X : container
            Any container of ratings that `fit` takes.
        y : ignored
        unknown : {"raise", "mean", "nan"}, default="raise"
            Users and items that the model does not know: an error; predicted as by `predict`; or
            left out.

        Returns
        -------
        score : float
            −RMSE, at most 0.

        Raises
        ------
        InputError
            For users or items that the model does not know, or when none is left.
        """
        state = self._fitted()
        matrix = as_matrix(X, self._columns())
        predicted = self._predicted(*entry_positions(matrix, state, unknown), unknown)
        errors = np.subtract(matrix.values, predicted, dtype=np.float64)
        if unknown == "nan":
            errors = errors[~np.isnan(predicted)]
            if not errors.size:
                raise InputError("the model knows user and item of none of these ratings")
        return -float(np.sqrt(np.mean(np.square(errors, out=errors))))

    def recommend(self, user: Any, n: int = 10, exclude_seen: bool = True) -> pd.DataFrame:
        """The best `n` items for one user or several.

        Parameters
        ----------
        user : label or list of labels
        n : int
            Items a user; fewer where fewer are left.
        exclude_seen : bool
            Leave out what the user rated in the fit.

        Returns
        -------
        recommended : DataFrame
            Columns user, item (the names of the axes) and score (the predicted rating); best first
            within each user, users in the order given. A user without anything in the fit, whose
            factors are 0, gets the items of largest bias; and where there are none, as in implicit
            factors, no line and a warning.

        Raises
        ------
        InputError
            For unknown users, `n` < 1, or `exclude_seen` where the ratings seen are not known.
        """
        state, n = self._fitted(), _count(n)
        index = state.users()
        users = index.positions(_listed(user))
        seen = self._seen()[users] if exclude_seen else None
        level = _level(state)
        found, scores = top_n(state.user_factors[users], state.item_factors, n, level, seen)
        scores += state.user_bias[users, None]
        blank = _without_order(state.user_factors[users], level)
        if blank.any():
            found[blank] = -1
            first = index.take(users[blank]).tolist()[0]
            warnings.warn(
                f"{int(blank.sum())} {state.user_name}(s) had nothing in the fit, the first "
                f"{first!r}: there is nothing to rank by, so they get no list. recommend_new takes "
                "what they have now",
                DaskpartWarning,
                stacklevel=2,
            )
        names = (state.user_name, state.item_name)
        return ranking(index.take(users), found, scores, state.items(), names)

    def recommend_new(self, X_new: Any, n: int = 10, exclude_seen: bool = True) -> pd.DataFrame:
        """The best `n` items for users that were not in the fit, from their ratings alone.

        Parameters
        ----------
        X_new : container
            Ratings; one row a new user, as for `transform`.
        n : int
        exclude_seen : bool
            Leave out the items rated in `X_new`.

        Returns
        -------
        recommended : DataFrame
            As of `recommend`.
        """
        state, n = self._fitted(), _count(n)
        matrix, columns = self._new_rows(X_new)
        rows, row_bias = self._solve(matrix, columns)
        pattern = (np.ones(matrix.nnz, np.bool_), columns, matrix.row_pointer())
        seen = scipy.sparse.csr_array(pattern, shape=(matrix.shape[0], state.n_items))
        left_out = seen if exclude_seen else None
        found, scores = top_n(rows, state.item_factors, n, _level(state), left_out)
        scores += row_bias[:, None]
        found[_without_order(rows, _level(state))] = -1
        users = matrix.row_labels
        users = np.arange(matrix.shape[0]) if users is None else users
        return ranking(users, found, scores, state.items(), (state.user_name, state.item_name))

    def similar_items(self, item: Any, n: int = 10) -> pd.DataFrame:
        """The `n` items whose factors point the same way (largest cosine).

        Parameters
        ----------
        item : label or list of labels
        n : int

        Returns
        -------
        similar : DataFrame
            Columns item, similar_item (after the name of the axis) and score in [−1, 1]; most
            similar first. An item is not similar to itself.

        Raises
        ------
        InputError
            For unknown items or `n` < 1.
        """
        state, n = self._fitted(), _count(n)
        items = state.items().positions(_listed(item))
        every = directions(state.item_factors)
        itself = only_itself(items, state.n_items)
        found, scores = top_n(every[items], every, n, left_out=itself)
        names = (state.item_name, f"similar_{state.item_name}")
        return ranking(state.items().take(items), found, scores, state.items(), names)

    def recommend_all(
        self,
        n: int = 10,
        *,
        exclude_seen: bool = True,
        items: Any = None,
        exclude: Any = None,
        client: Any = None,
    ) -> Any:
        """The best `n` items of every user, lazily, a block of users a partition.

        Parameters
        ----------
        n : int
        exclude_seen : bool
            Leave out what each user had in the fit.
        items, exclude : list of labels, optional
            The only items to recommend; items not to.
        client : distributed.Client, optional
            Default: the current one, else threads of this process.

        Returns
        -------
        recommended : dask.dataframe.DataFrame
            As of `recommend`, without the warning; users in the order of the factors.
            ``to_parquet`` writes it without holding all of it: a task has its block of users, the
            item factors and 1 MiB of scores.

        Raises
        ------
        InputError
            For unknown items, `n` < 1, or `exclude_seen` where the ratings seen are not known.
        """
        state, n = self._fitted(), _count(n)
        level = _level(state)
        if items is not None:
            kept = np.zeros(state.n_items, bool)
            kept[state.items().positions(_listed(items))] = True
            level = np.where(kept, level, -np.inf).astype(np.float32)
        if exclude is not None:
            level[state.items().positions(_listed(exclude))] = -np.inf
        seen, index = self._seen() if exclude_seen else None, state.users()
        blocks = [
            (index.take(own), state.user_factors[own], state.user_bias[own],
             None if seen is None else seen[own])
            for own in row_blocks(state.n_users)
        ]  # fmt: skip
        names = (state.user_name, state.item_name)
        return _lazily(blocks, state.item_factors, level, state, index, n, names, client, True)

    def similar_all(self, n: int = 10, *, client: Any = None) -> Any:
        """The `n` most similar items of every item, lazily, a block of items a partition.

        Parameters and memory are those of `recommend_all`.

        Returns
        -------
        similar : dask.dataframe.DataFrame
            As of `similar_items`.
        """
        state, n = self._fitted(), _count(n)
        every, index = directions(state.item_factors), state.items()
        blocks = [
            (index.take(own), every[own], np.zeros(own.size, np.float32),
             only_itself(own, state.n_items))
            for own in row_blocks(state.n_items)
        ]  # fmt: skip
        level = np.zeros(state.n_items, np.float32)
        names = (state.item_name, f"similar_{state.item_name}")
        return _lazily(blocks, every, level, state, index, n, names, client)

    def transform(self, X_new: Any) -> xr.DataArray:
        """Factors of new users: the ridge solution against H, which stays as it is.

        Parameters
        ----------
        X_new : container
            Ratings by new users of items that the model knows; any container that `fit` takes.
            Items are matched by label where both have labels, else by position.

        Returns
        -------
        rows : DataArray of shape (n_new, F), float32
            Labelled by the rows of `X_new`; with biases, the coordinate ``bias`` holds b of each.

        Raises
        ------
        InputError
            For items that the model does not know.
        """
        state = self._fitted()
        matrix, columns = self._new_rows(X_new)
        rows, row_bias = self._solve(matrix, columns)
        result = _labelled(rows, state.user_name, matrix.row_labels)
        return result.assign_coords(bias=(state.user_name, row_bias)) if self.biases else result

    def _fitted(self) -> MFState:
        check_is_fitted(self, "state_")
        return self.state_

    def _columns(self) -> Columns:
        return self.user, self.item, self.rating

    def _ends(self) -> tuple[float, float] | None:
        """What predictions are clipped to."""
        if self.clip is True:
            return self._fitted().lowest, self._fitted().highest
        return (float(self.clip[0]), float(self.clip[1])) if self.clip else None

    def _predicted(self, rows: np.ndarray, columns: np.ndarray, unknown: str) -> np.ndarray:
        predicted, ends = predictions(self._fitted(), rows, columns, unknown), self._ends()
        return predicted if ends is None else np.clip(predicted, *ends, out=predicted)

    def _seen(self) -> scipy.sparse.csr_array:
        seen = getattr(self, "seen_", None)
        if seen is None:
            raise InputError(
                "this model does not know which ratings were seen in the fit; "
                "pass exclude_seen=False."
            )
        return seen

    def _new_rows(self, X_new: Any) -> tuple[LabelledMatrix, np.ndarray]:
        matrix = as_matrix(X_new, self._columns())
        return matrix, item_positions(matrix, self._fitted())

    def _solve(self, matrix: LabelledMatrix, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return solve_rows(
            matrix.row_pointer(),
            columns,
            matrix.values,
            self._fitted(),
            self.regularization,
            self.biases,
            self.nonnegative,
        )

    def _ndcg(self, X: Any, unknown: str) -> float:
        """Mean NDCG at 10 over the whole catalogue, less what was seen in the fit and not in X."""
        from daskpart.models.metrics import evaluate_ranking

        table = evaluate_ranking(self, X, 10, exclude_seen="others", unknown=unknown)
        return float(table["ndcg"].iloc[0])


def _labelled(values: np.ndarray, name: str, labels: np.ndarray | None) -> xr.DataArray:
    dims = (name, _COMPONENT)[: values.ndim]
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


def _count(n: Any) -> int:
    if isinstance(n, bool) or int(n) != n or n < 1:
        raise InputError(f"n must be a whole number of at least 1, got {n!r}.")
    return int(n)


def _listed(labels: Any) -> Any:
    return [labels] if np.ndim(labels) == 0 else labels


def _lazily(
    blocks: list[Any],
    every: np.ndarray,
    level: np.ndarray,
    state: MFState,
    index: LabelIndex,
    n: int,
    names: tuple[str, str],
    client: Any,
    needs_order: bool = False,
) -> Any:
    """The ranking of each block as a partition of a Dask DataFrame."""
    import dask.dataframe

    items = LabelIndex(state.item_labels, state.n_items, state.item_name)
    static = {"n": n, "names": names, "needs_order": needs_order}
    tasks = over_blocks(_ranked_block, blocks, (every, level, items), client, **static)
    nothing = np.zeros((0, 1), np.int32)
    asked = index.take(np.zeros(0, np.int64))
    meta = ranking(asked, nothing, nothing.astype(np.float32), items, names)
    return dask.dataframe.from_delayed(tasks, meta=meta, verify_meta=False)


def _ranked_block(
    asked: np.ndarray,
    rows: np.ndarray,
    row_level: np.ndarray,
    left_out: scipy.sparse.csr_array | None,
    every: np.ndarray,
    level: np.ndarray,
    items: LabelIndex,
    *,
    n: int,
    names: tuple[str, str],
    needs_order: bool,
) -> pd.DataFrame:
    found, scores = top_n(rows, every, n, level, left_out, n_threads=1)
    scores += row_level[:, None]
    if needs_order:
        found[_without_order(rows, level)] = -1
    return ranking(asked, found, scores, items, names)


def ranking(
    asked: np.ndarray,
    found: np.ndarray,
    scores: np.ndarray,
    items: LabelIndex,
    names: tuple[str, str],
) -> pd.DataFrame:
    """One line for each (asked, found), best first, from what `top_n` gave."""
    there = found >= 0
    columns = {
        names[0]: np.repeat(asked, there.sum(axis=1)),
        names[1]: items.take(found[there]),
        "score": scores[there],
    }
    return pd.DataFrame(columns)


def _without_order(rows: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Which rows give all items the same score: those of zeros, where the levels are alike."""
    allowed = level[level > -np.inf]
    if allowed.size and allowed.min() < allowed.max():
        return np.zeros(len(rows), bool)
    return np.asarray(~rows.any(axis=1))


def _level(state: MFState) -> np.ndarray:
    """What each item has besides the product: its bias and the mean."""
    return np.asarray(state.item_bias + np.float32(state.global_mean), np.float32)
