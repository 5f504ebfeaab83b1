"""Lists of a fitted factor model: the best unseen items of some users, of new ones, of all.

    state_ ─┬─ recommend(users)      recommend_new(X_new)     similar_items(items), …_users(users)
    seen_ ──┴─ recommend_all()       similar_all()            lazily, a block a task

What a list is made of stands in `ranking`, the blocks in `blocks`. Users and items are named by
their labels; where the ratings had none, by position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import scipy.sparse

from daskpart._floor.checks import needs_pyarrow, whole_number
from daskpart._floor.words import plural
from daskpart.containers.matrix import LabelledMatrix
from daskpart.errors import InputError, warn
from daskpart.models.base.labels import LabelIndex
from daskpart.models.base.parameters import AT_LEAST_0, COUNT, SHARE
from daskpart.models.base.problem import share_held_out
from daskpart.partitions import Partition

from .blocks import over_blocks, row_blocks
from .factor_model import FactorModel
from .predicting import shown
from .problem import Ratings, as_events
from .ranking import Catalogue, directions, only_itself, top_n, without_order
from .state import MFState


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


def ndcg_of_events(problem: Ratings) -> Callable[[MFState], dict[str, float]]:
    """The column `validation_ndcg` of a state: how it ranks what was held out of a fit."""
    assert problem.validation is not None
    held_out = problem.validation.events(seen_pattern(problem.matrix, problem.seen_before))
    return lambda state: {"validation_ndcg": held_out.ndcg(state)}


class Recommender(FactorModel):
    """What estimators of factors of users and items share: parameters, and lists once fitted.

    Attributes
    ----------
    seen_ : scipy.sparse.csr_array of bool, shape (M, N), or None
        The pattern of the training ratings; see `seen_pattern`.
    patience, validation_fraction
        Parameters of the estimator.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **FactorModel._parameter_constraints,
        "n_components": [COUNT],
        "regularization": [AT_LEAST_0],
        "nonnegative": ["boolean"],
        "partitioner": [str, dict, Partition, "array-like"],
        "user": [str, None],
        "item": [str, None],
        "rating": [str, None],
        "validation_fraction": [SHARE],
    }
    _takes_dense: ClassVar[bool] = False

    seen_: scipy.sparse.csr_array | None
    validation_fraction: float

    def recommend(
        self,
        user: Any,
        n: int = 10,
        exclude_seen: bool = True,
        *,
        items: Any = None,
        exclude: Any = None,
    ) -> pd.DataFrame:
        """The best `n` items for one user or several.

        Parameters
        ----------
        user : label or list of labels
        n : int, default=10
            Items a user; fewer where fewer are left.
        exclude_seen : bool, default=True
            Leave out what the user rated in the fit; what was held out of it
            (`validation_fraction`) counts as not rated.
        items, exclude : list of labels, optional
            The only items to recommend; items not to.

        Returns
        -------
        recommended : DataFrame
            Columns user, item (the names of the axes) and score (what `predict` gives, of what was
            ranked before it was clipped); best first within each user, users in the order given.
            A user without anything in the fit, whose factors are 0, gets the items of largest bias;
            and where there are none, as in implicit factors, no line and a warning.

        Raises
        ------
        InputError
            For unknown users or items, `n` < 1, or `exclude_seen` where the ratings seen are not
            known.
        """
        state, n = self._fitted(), whole_number(n, "n", 1)
        index = state.users()
        users = index.positions(index.listed(user))
        seen = self._seen()[users] if _is_true(exclude_seen) else None
        return self._best(
            index.take(users), state.user_factors[users], state.user_bias[users], seen, n,
            _level(state, items, exclude), "had nothing in the fit",
            ". recommend_new takes what they have now",
        )  # fmt: skip

    def recommend_new(
        self,
        X_new: Any,
        n: int = 10,
        exclude_seen: bool = True,
        *,
        items: Any = None,
        exclude: Any = None,
    ) -> pd.DataFrame:
        """The best `n` items for users that were not in the fit, from their ratings alone.

        Parameters
        ----------
        X_new : container, or dict
            Ratings; one row a new user, or of one user a dict item → rating, as for `transform`.
        n : int, default=10
        exclude_seen : bool, default=True
            Leave out the items rated in `X_new`.
        items, exclude : list of labels, optional
            The only items to recommend; items not to. Such as columns that are features of users.

        Returns
        -------
        recommended : DataFrame
            As of `recommend`.
        """
        state, n = self._fitted(), whole_number(n, "n", 1)
        matrix, columns = self._new_rows(X_new)
        rows, row_bias = self._solve(matrix, columns)
        pattern = (np.ones(matrix.nnz, np.bool_), columns, matrix.row_pointer())
        seen = scipy.sparse.csr_array(pattern, shape=(matrix.shape[0], state.n_items))
        users = np.arange(matrix.shape[0]) if matrix.row_labels is None else matrix.row_labels
        return self._best(
            users, rows, row_bias, seen if _is_true(exclude_seen) else None, n,
            _level(state, items, exclude), "had nothing that says what they like",
        )  # fmt: skip

    def similar_items(self, item: Any, n: int = 10) -> pd.DataFrame:
        """The `n` items whose factors point the same way (largest cosine).

        Parameters
        ----------
        item : label or list of labels
        n : int, default=10

        Returns
        -------
        similar : DataFrame
            Columns item, similar_item (after the name of the axis) and score in [−1, 1]; most
            similar first. An item is not similar to itself. One that had nothing in the fit, whose
            factors are 0, points no way: it gets no line and a warning, and scores 0 in others'.

        Raises
        ------
        InputError
            For unknown items or `n` < 1.
        """
        state = self._fitted()
        return _similar(state.item_factors, state.items(), item, whole_number(n, "n", 1))

    def similar_users(self, user: Any, n: int = 10) -> pd.DataFrame:
        """The `n` users whose factors point the same way; as `similar_items`."""
        state = self._fitted()
        return _similar(state.user_factors, state.users(), user, whole_number(n, "n", 1))

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
        n : int, default=10
        exclude_seen : bool, default=True
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
        state, n = self._fitted(), whole_number(n, "n", 1)
        level = _level(state, items, exclude)
        seen, index = self._seen() if _is_true(exclude_seen) else None, state.users()
        blocks = [
            (index.take(own), state.user_factors[own], state.user_bias[own],
             None if seen is None else seen[own])
            for own in row_blocks(state.n_users)
        ]  # fmt: skip
        every = Catalogue.of(state.item_factors, level, state.n_users)
        names = (state.user_name, state.item_name)
        return _lazily(blocks, every, state.items(), n, names, client, self._shown())

    def similar_all(self, n: int = 10, *, client: Any = None) -> Any:
        """The `n` most similar items of every item, lazily, a block of items a partition.

        Parameters and memory are those of `recommend_all`.

        Returns
        -------
        similar : dask.dataframe.DataFrame
            As of `similar_items`, without the warning.
        """
        state, n = self._fitted(), whole_number(n, "n", 1)
        rows, index = directions(state.item_factors), state.items()
        blocks = [
            (index.take(own), rows[own], np.zeros(own.size, np.float32),
             only_itself(own, state.n_items))
            for own in row_blocks(state.n_items)
        ]  # fmt: skip
        names = (state.item_name, f"similar_{state.item_name}")
        return _lazily(blocks, Catalogue.of(rows, None, len(rows)), index, n, names, client)

    def _held_out(
        self, ratings: Ratings, data: dict[str, Any], random_state: int, *, kind: str
    ) -> Ratings:
        """The problem of a fit, with what is held out of it or was given to measure it by."""
        given, share = data.get("validation"), share_held_out(self, "validation", data)
        return ratings.with_validation(given, share, random_state, self._columns(), kind=kind)

    def _most_ranks(self, problem: Any) -> float:
        return min(problem.shape)

    def _best(
        self,
        asked: np.ndarray,
        rows: np.ndarray,
        row_bias: np.ndarray,
        left_out: scipy.sparse.csr_array | None,
        n: int,
        level: np.ndarray,
        *why_none: str,
    ) -> pd.DataFrame:
        """The items of some users, the labels `asked` for; who has none is told of."""
        state = self._fitted()
        _warn_of_no_list(asked[without_order(rows, level)], state.user_name, *why_none)
        items = Catalogue.of(state.item_factors, level, len(rows))
        return _ranked(
            asked, rows, row_bias, left_out, items, state.items(), n=n,
            names=(state.user_name, state.item_name), shown=self._shown(),
        )  # fmt: skip

    def _seen(self) -> scipy.sparse.csr_array:
        seen = getattr(self, "seen_", None)
        if seen is None:
            raise InputError(
                "this model does not know which ratings were seen in the fit; "
                "pass exclude_seen=False."
            )
        return seen

    def _ndcg(self, X: Any, unknown: str) -> float:
        """Mean NDCG at 10 over the whole catalogue, less what was seen in the fit and not in X."""
        from daskpart.models.metrics import evaluate_ranking

        self._fitted()
        if getattr(self, "seen_", None) is None:
            raise InputError(
                "this model does not know what was seen in the fit, which score leaves out of the "
                "rankings: judge it by metrics.evaluate_ranking(model, X, exclude_seen=False), or "
                "fit it on events in memory"
            )
        events = as_events(X, self._columns())  # as `fit` reads them: a count of 0 is none
        table = evaluate_ranking(self, events, 10, exclude_seen="others", unknown=unknown)
        return float(table["ndcg"].iloc[0])


def _is_true(exclude_seen: Any) -> bool:
    if not isinstance(exclude_seen, bool | np.bool_):  # "others" is for metrics.evaluate_ranking
        raise InputError(f"exclude_seen is {exclude_seen!r}: give True or False")
    return bool(exclude_seen)


def _similar(factors: np.ndarray, labels: LabelIndex, asked: Any, n: int) -> pd.DataFrame:
    """Whose factors have the largest cosine with those of each that is asked for."""
    places, every = labels.positions(labels.listed(asked)), directions(factors)
    rows, names = every[places], (labels.name, f"similar_{labels.name}")
    blank = places[without_order(rows, None)]
    _warn_of_no_list(labels.take(blank), labels.name, "had nothing in the fit")
    items, nothing = Catalogue.of(every, None, len(rows)), np.zeros(len(rows), np.float32)
    itself = only_itself(places, len(every))
    return _ranked(labels.take(places), rows, nothing, itself, items, labels, n=n, names=names)


def _warn_of_no_list(labels: Any, name: str, why: str, advice: str = "") -> None:
    """Name the first of those that get no line, if any."""
    if not len(labels):
        return
    who = f"{len(labels)} {name if len(labels) == 1 else plural(name)}"
    warn(
        f"{who} {why}, the first {np.asarray(labels).tolist()[0]!r}: there is nothing to rank by, "
        f"so they get no list{advice}"
    )


def _lazily(
    blocks: list[Any],
    items: Catalogue,
    labels: LabelIndex,
    n: int,
    names: tuple[str, str],
    client: Any,
    shown: Callable[[np.ndarray], np.ndarray] = shown,
) -> Any:
    """The ranking of each block as a partition of a Dask DataFrame; `labels` are of the items."""
    with needs_pyarrow("a lazy table of recommendations"):
        import dask.config
        import dask.dataframe

    tasks = over_blocks(
        _ranked, blocks, (items, labels), client, n=n, names=names, shown=shown, n_threads=1
    )
    nothing = np.zeros((0, 1), np.int32)
    asked = blocks[0][0][:0]
    meta = ranking(asked, nothing, nothing.astype(np.float32), labels, names)
    # Dask makes text of whatever objects are; labels of numbers and dates would become text
    plain = object in (asked.dtype, labels.take(np.zeros(0, np.int64)).dtype)
    with dask.config.set({"dataframe.convert-string": False} if plain else {}):
        return dask.dataframe.from_delayed(tasks, meta=meta, verify_meta=False)


def _ranked(
    asked: np.ndarray,
    rows: np.ndarray,
    row_level: np.ndarray,
    left_out: scipy.sparse.csr_array | None,
    items: Catalogue,
    labels: LabelIndex,
    *,
    n: int,
    names: tuple[str, str],
    shown: Callable[[np.ndarray], np.ndarray] = shown,
    n_threads: int | None = None,
) -> pd.DataFrame:
    """The list of each row, under the labels `asked` for; none where nothing says an order."""
    found, scores = top_n(rows, items, n, left_out=left_out, n_threads=n_threads)
    scores = shown(scores + row_level[:, None])
    found[without_order(rows, items.level)] = -1
    return ranking(asked, found, scores, labels, names)


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


def _level(state: MFState, items: Any = None, exclude: Any = None) -> np.ndarray:
    """What each item has besides the product: its bias and the mean; −inf where it is filtered."""
    level = np.asarray(state.item_bias + np.float32(state.global_mean), np.float32)
    index = state.items()
    if items is not None:
        kept = np.zeros(state.n_items, bool)
        kept[index.positions(index.listed(items))] = True
        level[~kept] = -np.inf
    if exclude is not None:
        level[index.positions(index.listed(exclude))] = -np.inf
    return level
