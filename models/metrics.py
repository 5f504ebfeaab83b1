"""How good lists of recommendations are, ranked against the whole catalogue in blocks of users.

    test items of a user     ranks among all items that it has not seen      of the best n
    {tea, jam}               tea: 0   jam: 7                                 [tea, …]

    precision  hits / n                      NDCG  Σ_hits 1 / log2(rank + 2)  /  of the best order
    recall     hits / T, the test items      MAP   Σ_hits (hits so far) / (rank + 1)  /  min(n, T)
    MRR        1 / (first rank + 1)          AUC   share of pairs (test item, other) in order
    hit rate   1 where there is any hit

MRR, too, is of the best n: 0 where the first hit has rank n or beyond. Only AUC looks at all ranks.
Nothing is sampled: metrics over a sample of the catalogue put models into another order (Krichene
and Rendle, "On Sampled Metrics for Item Recommendation", KDD 2020). Means are over users that have
a test item which they have not seen. A user whom all items score the same for, as one without
events in the fit, has no list: it hits nothing, and its AUC is ½. By position it would find what
stands first, which are the popular items in many a container.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

from daskpart._floor.checks import one_of, require_like, whole_number
from daskpart.containers.matrix import LabelledMatrix, as_matrix
from daskpart.errors import InputError
from daskpart.models.matrix_factorization.blocks import computed, over_blocks
from daskpart.models.matrix_factorization.kernels.top_n import ranks_of_wanted
from daskpart.models.matrix_factorization.pairs import entry_positions
from daskpart.models.matrix_factorization.ranking import without_order
from daskpart.models.matrix_factorization.state import MFState

NAMES = ("precision", "recall", "ndcg", "map", "mrr", "hit_rate", "auc")
_BLOCK_WORDS = 1 << 22  # float32 words of a block of scores: 16 MB
_MANY = 128  # wanted items of a user, from which a sort takes less time than a pass for each
_BEHIND_ALL = np.iinfo(np.int64).max - 1  # a rank that no list is long enough for


def evaluate_ranking(
    model: Any,
    test: Any,
    n: int | Sequence[int] = 10,
    *,
    exclude_seen: bool | str = True,
    unknown: str = "raise",
    client: Any = None,
) -> pd.DataFrame:
    """Precision, recall, NDCG, MAP, MRR, hit rate and AUC of a fitted model of factors.

    A user to whom all items are alike, as one without events in a fit of implicit feedback, is
    recommended nothing: it counts with no hit, and with an AUC of ½.

    Parameters
    ----------
    model : MatrixFactorization or ImplicitFactorization
        Fitted.
    test : container
        What users took to: any container that `fit` takes. Each stored value counts alike, what is
        stored as 0 too, which is a no under ``loss="logistic"``: give it the yes alone. NaN is
        refused, as by `fit`.
    n : int or sequence of int, default=10
        Lengths of the lists.
    exclude_seen : bool or "others", default=True
        Leave out of each user's ranking what it had in the fit, test items among it; with "others",
        test items stay.
    unknown : {"raise", "nan"}, default="raise"
        Users and items of `test` that the model does not know: an error, or left out.
    client : distributed.Client, optional
        Default: the current one, else threads of this process.

    Returns
    -------
    metrics : DataFrame
        One line for each n; columns precision, recall, ndcg, map, mrr, hit_rate, auc and n_users.

    Raises
    ------
    InputError
        For n < 1, users or items that the model does not know, NaN factors or values, or when no
        user is left.

    Notes
    -----
    Of a user with T test items: precision is hits / n, also where fewer than n items can be ranked;
    recall is hits / T; MAP is divided by min(n, T), what the best list has, as in `implicit`, while
    trec_eval, ranx and ir_measures divide by T (the same from n = T on), and cornac's MAP and MRR
    look at all ranks. What `implicit` calls precision is Σ hits / Σ min(n, T) over all users, and
    its AUC looks at the best n only; LensKit divides recall by min(n, T). NDCG, MRR, hit rate and
    AUC are those of ranx and cornac. Equal scores are ranked as the items lie in the container, and
    count a half in AUC.

    Examples
    --------
    >>> import daskpart
    >>> clicks = daskpart.datasets.power_law_ratings(200, 100, 4000, random_state=0)
    >>> train, test = daskpart.datasets.train_test_split_ratings(clicks)
    >>> model = daskpart.MatrixFactorization(8, n_ranks=2, max_iter=5).fit(train)
    >>> daskpart.metrics.evaluate_ranking(model, test, n=(5, 10)).shape
    (2, 8)
    """
    given: list[Any] = [*n] if isinstance(n, Sequence | np.ndarray) and np.ndim(n) else [n]
    lengths = [whole_number(each, "n", 1) for each in given]
    if not lengths:
        raise InputError(f"n={n!r}; give whole numbers of at least 1")
    others = isinstance(exclude_seen, str) and exclude_seen == "others"
    if not others and not isinstance(exclude_seen, bool | np.bool_):
        raise InputError(f"exclude_seen is {exclude_seen!r}: give True, False or 'others'")
    state = _fitted_state(model)
    if not state.is_finite():
        raise InputError("the factors hold NaN or infinity: what they rank has no meaning")
    seen = model._seen() if exclude_seen else None
    matrix = as_matrix(test, model._columns(), repeats="sum")
    held_out = HeldOut(matrix, state, seen, not others, unknown)
    factors = (state.item_factors, state.item_bias)
    blocks = held_out.blocks(state)
    tasks = over_blocks(_sums, blocks, factors, client, lengths=lengths)
    means = np.sum(computed(tasks, client), axis=0) / held_out.users.size
    table = pd.DataFrame(means, columns=NAMES, index=pd.Index(lengths, name="n"))
    return table.assign(n_users=held_out.users.size)


def most_popular(model: Any) -> Any:
    """The baseline of a model: the items that most users had in its fit, for everybody.

    Parameters
    ----------
    model : MatrixFactorization or ImplicitFactorization
        Fitted. It stays as it is.

    Returns
    -------
    popular : MatrixFactorization or ImplicitFactorization
        With the users and items of the model and what they had in the fit. Its lists are of use
        (`evaluate_ranking`, ``recommend``, ``recommend_all``), and no number that it predicts.

    Raises
    ------
    InputError
        Where the ratings of the fit are not known, as they lay on workers.

    Examples
    --------
    >>> import daskpart
    >>> from daskpart.metrics import evaluate_ranking, most_popular
    >>> clicks = daskpart.datasets.power_law_ratings(200, 100, 4000, random_state=0)
    >>> train, test = daskpart.datasets.train_test_split_ratings(clicks)
    >>> model = daskpart.ImplicitFactorization(8, n_ranks=2, max_iter=5).fit(train)
    >>> evaluate_ranking(most_popular(model), test).shape
    (1, 8)
    """
    state, popular = _fitted_state(model), copy(model)
    if model.seen_ is None:
        raise InputError(
            "the ratings of this fit lay on workers, so nobody counted what users had: fit ratings "
            "in memory"
        )
    popular.state_ = replace(
        state,
        user_factors=np.ones((state.n_users, 1), np.float32),
        item_factors=model.seen_.sum(axis=0).astype(np.float32)[:, None],
        item_bias=np.zeros(state.n_items, np.float32),
    )
    return popular


def _fitted_state(model: Any) -> MFState:
    require_like(
        model,
        "model",
        ("_fitted", "_seen"),
        "a fitted MatrixFactorization or ImplicitFactorization",
    )
    return model._fitted()


class HeldOut:
    """Events that users are to be offered, as positions of a model.

    Parameters
    ----------
    events : LabelledMatrix
    state : MFState
        With the users and items of the model; its factors are not read.
    seen : csr_array of bool, shape (M, N), or None
        Left out of each user's ranking, unless it is wanted.
    less_seen : bool
        Whether what was seen is not wanted.
    unknown : {"raise", "nan"}
        Users and items that the state has not: an error, or left out.

    Raises
    ------
    InputError
        For users or items that the state has not, or when no user is left.
    """

    def __init__(
        self,
        events: LabelledMatrix,
        state: MFState,
        seen: scipy.sparse.csr_array | None,
        less_seen: bool = True,
        unknown: str = "raise",
    ) -> None:
        one_of(unknown, "unknown", ("raise", "nan"))  # of a list there is no mean
        rows, columns = entry_positions(events, state, unknown)
        known = (rows >= 0) & (columns >= 0)
        entries = (np.ones(int(known.sum()), np.int8), (rows[known], columns[known]))
        wanted = scipy.sparse.csr_array(entries, shape=state.shape)
        wanted.data[:] = 1
        if less_seen and seen is not None:
            wanted = scipy.sparse.csr_array(wanted - wanted.multiply(seen))
            wanted.eliminate_zeros()
        self.wanted, self.seen = wanted, seen
        self.users = np.flatnonzero(np.diff(wanted.indptr))
        if not self.users.size:
            raise InputError("no user has a test item that it has not seen: nothing can be judged")

    def blocks(self, state: MFState) -> Iterator[tuple[Any, ...]]:
        """Of users: their factors, what they want, what they saw."""
        length = max(1, _BLOCK_WORDS // state.n_items)
        for begin in range(0, self.users.size, length):
            own = self.users[begin : begin + length]
            seen = None if self.seen is None else self.seen[own]
            yield state.user_factors[own], self.wanted[own], seen

    def ndcg(self, state: MFState, n: int = 10) -> float:
        """Mean NDCG at `n`, in this thread."""
        sums = [
            _sums(rows, wanted, seen, state.item_factors, state.item_bias, lengths=[n])
            for rows, wanted, seen in self.blocks(state)
        ]
        return float(np.sum(sums, axis=(0, 1))[NAMES.index("ndcg")]) / self.users.size


def _sums(
    rows: np.ndarray,
    wanted: scipy.sparse.csr_array,
    seen: scipy.sparse.csr_array | None,
    items: np.ndarray,
    level: np.ndarray,
    *,
    lengths: Sequence[int],
) -> np.ndarray:
    """Sums over a block of users, float64 of shape (lengths, len(NAMES))."""
    scores = rows @ items.T
    scores += level
    pointer = wanted.indptr.astype(np.int64)
    order = wanted.sorted_indices().indices.astype(np.int32)
    if seen is not None:
        of_wanted = np.repeat(np.arange(len(rows)), np.diff(pointer))
        kept = scores[of_wanted, order]  # those that were seen are not wanted, or asked for
        scores[np.repeat(np.arange(len(rows)), np.diff(seen.indptr)), seen.indices] = -np.inf
        scores[of_wanted, order] = kept
    ranks, in_order = np.empty(order.size, np.int64), np.empty(len(rows))
    n_items = np.empty(len(rows), np.int64)
    many = np.diff(pointer) >= _MANY
    rising = scores[many]
    rising.sort(axis=1)  # NumPy compares many at once, which a kernel that sorts does not
    at = np.where(many, np.cumsum(many) - 1, -1)
    ranks_of_wanted(scores, rising, at, order, pointer, ranks, in_order, n_items)
    ranks[np.repeat(without_order(rows, level), np.diff(pointer))] = _BEHIND_ALL
    return metrics_of_ranks(ranks, pointer, in_order, n_items, lengths)


def metrics_of_ranks(
    ranks: np.ndarray,
    pointer: np.ndarray,
    in_order: np.ndarray,
    n_items: np.ndarray,
    lengths: Sequence[int],
) -> np.ndarray:
    """Sums over users of each metric.

    Parameters
    ----------
    ranks : int64 ndarray
        From 0, rising for each user: ``ranks[pointer[u]:pointer[u + 1]]``.
    pointer : int64 ndarray of shape (users + 1,)
    in_order : float64 ndarray of shape (users,)
        Pairs of a test item and another one that are in the right order, ties for a half.
    n_items : int ndarray of shape (users,)
        Items that were ranked.
    lengths : sequence of int

    Returns
    -------
    sums : float64 ndarray of shape (lengths, len(NAMES))
        In the order of `NAMES`.
    """
    n_users, n_wanted = len(pointer) - 1, np.diff(pointer)
    user = np.repeat(np.arange(n_users), n_wanted)
    place = np.arange(ranks.size) - pointer[user]  # how many test items come before this one
    first = ranks[pointer[:-1]]
    pairs = n_wanted * (n_items - n_wanted)
    auc = np.where(pairs > 0, in_order / np.maximum(pairs, 1), 0.5).sum()
    sums = np.empty((len(lengths), len(NAMES)))
    for line, n in zip(sums, lengths, strict=True):
        hit = ranks < n
        hits = np.bincount(user[hit], minlength=n_users)
        gains = np.bincount(user[hit], 1 / np.log2(ranks[hit] + 2.0), minlength=n_users)
        best = np.concatenate(([0.0], np.cumsum(1 / np.log2(np.arange(n) + 2.0))))
        precisions = (place[hit] + 1) / (ranks[hit] + 1)
        means = np.bincount(user[hit], precisions, minlength=n_users)
        line[:] = (
            (hits / n).sum(),
            (hits / n_wanted).sum(),
            (gains / best[np.minimum(n, n_wanted)]).sum(),
            (means / np.minimum(n, n_wanted)).sum(),
            np.where(first < n, 1 / (first + 1), 0.0).sum(),
            (first < n).sum(),
            auc,
        )
    return sums
