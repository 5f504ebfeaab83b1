"""η-PASGD: SGD on every rank, and η times an epoch the shared item rows meet (Alg. 2 of the paper).

    for t in 0..η−1:                      on every rank k
        SGD over the ratings of cell (k, t)
        reduce   copies of the rows that several ranks worked on ──► their owner: it averages them
        expand   owner ──► the ranks that work on the row next

That is how η-PASGD runs, and so do the two that it is compared with: which ratings are in a cell,
and which rows travel then, is the schedule's business (`schedule`, `strata`, `copies`).

The text below is written against a `Communicator` over per-rank values, so it runs as it stands on
every transport. Between messages there are only functions of their arguments: `apply_ratings`
trains, `pack` and `place` carry rows, `average` combines copies in rank order, so that all
transports give the same bits.

Source: Abubaker et al., "Minimizing Staleness and Communication Overhead in Distributed SGD for
Collaborative Filtering", §3.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from daskpart._floor.lanes import blank_rows
from daskpart.collectives import (
    Communicator,
    Inbox,
    PerRank,
    PreparedPlan,
    allreduce,
    contributions,
    expand,
)

from .kernels.bpr import bpr
from .kernels.sgd import (
    add_weighted,
    lanes_of,
    pack_rows,
    padded_width,
    sgd_adagrad,
    sgd_fixed_rate,
    unpack_rows,
)
from .negatives import Negatives

LABELS = ("reduce", "expand")


@dataclass(frozen=True)
class RowLayout:
    """What travels of a factor row: components, then bias and gradient sum where in use."""

    n_components: int
    biases: bool
    gradients: bool

    @property
    def words(self) -> int:
        """Float32 words per row on the wire."""
        return self.n_components + int(self.biases) + int(self.gradients)


@dataclass
class RankModel:
    """The factors that one rank holds, and what it counted in this epoch.

    Attributes
    ----------
    user, item : ndarray of float32, shape (n_users, width), (n_items, width)
        Rows in the rank's local order, padded with zeros to `padded_width(n_components)`.
    user_bias, item_bias, user_gradient, item_gradient : ndarray of float32, one a row
    mean : float32
        μ, subtracted from every rating.
    loss : float
        Squared errors, or −ln σ(x) under the logistic loss and under BPR, over the epoch's ratings
        so far, each taken before its own update.
    stale_rows : int
        Copies, other than the owner's, that were merged in this epoch.
    """

    layout: RowLayout
    user: np.ndarray
    item: np.ndarray
    user_bias: np.ndarray
    item_bias: np.ndarray
    user_gradient: np.ndarray
    item_gradient: np.ndarray
    mean: np.float32
    loss: float = 0.0
    stale_rows: int = 0

    def copy(self) -> RankModel:
        """A model that shares no array with this one."""
        arrays = {name: getattr(self, name).copy() for name in _ARRAYS}
        return replace(self, **arrays)


_ARRAYS = ("user", "item", "user_bias", "item_bias", "user_gradient", "item_gradient")


@dataclass(frozen=True)
class Average:
    """How an owner averages the copies of one sub-epoch.

    Attributes
    ----------
    rows : ndarray of int64, shape (n_owned,)
        Local positions of the rows to average, in rising order of item.
    weights : tuple of ndarray of float32
        For each rank that holds copies, the owner among them, in rank order: the weight of each of
        its rows, in rising order of item. The weights of a row sum to 1.
    """

    rows: np.ndarray
    weights: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class RankRatings:
    """What one rank trains on, fixed for the whole fit: 12 bytes a rating.

    Attributes
    ----------
    users, items : ndarray of int64
        Global ids of the rank's rows of both factors, in its local order.
    rows, columns : ndarray of int32, shape (n_ratings,)
        Local positions of user and item, in the order in which they are processed.
    values : ndarray of float32, shape (n_ratings,)
        Under the logistic loss 1 for yes and 0 for no.
    cell_pointer : ndarray of int64, shape (n_sub_epochs + 1,)
    averages : tuple of Average or None, one a sub-epoch
    home : ndarray of int32
        Local positions of the items whose final rows this rank holds between epochs, in rising
        order of item.
    n_beside : int
        How many items, the last in local order, are there for validation alone.
    first_item : int
        Where rows of both sides are shared (`copies`): `items` counts users first, and items from
        here on; `rows` are positions there, too, and `users` is empty. Else 0.
    weights : ndarray of float32, shape (n_ratings,) or (0,)
        What each rating counts; none: all count 1.
    negatives : Negatives or None
        Under BPR, where unseen items come from.
    logistic : bool
        Whether the loss is the logistic one.
    """

    users: np.ndarray
    items: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    cell_pointer: np.ndarray
    averages: tuple[Average | None, ...]
    home: np.ndarray
    n_beside: int = 0
    first_item: int = 0
    weights: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    negatives: Negatives | None = None
    logistic: bool = False


def blank_model(layout: RowLayout, n_users: int, n_items: int, mean: float) -> RankModel:
    """A rank's model with all factors 0 and all gradient sums 1."""
    width = padded_width(layout.n_components)
    return RankModel(
        layout=layout,
        user=blank_rows(n_users, width, np.float32),
        item=blank_rows(n_items, width, np.float32),
        user_bias=np.zeros(n_users, np.float32),
        item_bias=np.zeros(n_items, np.float32),
        user_gradient=np.ones(n_users, np.float32),
        item_gradient=np.ones(n_items, np.float32),
        mean=np.float32(mean),
    )


def apply_ratings(
    model: RankModel,
    ratings: RankRatings,
    *,
    sub_epoch: int,
    rate: float,
    regularization: float,
    nonnegative: bool = False,
    epoch: int = 1,
) -> RankModel:
    """SGD over the ratings of one cell, in place; `epoch` numbers the draws of BPR."""
    if ratings.negatives is not None:
        return _apply_triples(
            model, ratings, ratings.negatives, sub_epoch, epoch, rate, regularization, nonnegative
        )
    start, stop = ratings.cell_pointer[sub_epoch : sub_epoch + 2]
    train = sgd_adagrad if model.layout.gradients else sgd_fixed_rate
    user, user_bias, user_gradient = model.user, model.user_bias, model.user_gradient
    if ratings.first_item:
        user, user_bias, user_gradient = model.item, model.item_bias, model.item_gradient
    model.loss += train(
        lanes_of(model.item.shape[1]), ratings.rows, ratings.columns, ratings.values, start, stop,
        model.layout.n_components, user, model.item, user_bias, model.item_bias,
        user_gradient, model.item_gradient, model.mean, np.float32(rate),
        np.float32(regularization), model.layout.biases, ratings.weights, nonnegative,
        True if ratings.logistic else None,
    )  # fmt: skip
    return model


def _apply_triples(
    model: RankModel,
    ratings: RankRatings,
    negatives: Negatives,
    sub_epoch: int,
    epoch: int,
    rate: float,
    regularization: float,
    nonnegative: bool,
) -> RankModel:
    """The same for triples of a user, an item seen and one that is drawn now."""
    cell = slice(*ratings.cell_pointer[sub_epoch : sub_epoch + 2])
    unseen = negatives.draw(ratings, sub_epoch, epoch)
    weights = np.ones(unseen.size, np.float32)
    if ratings.weights.size:
        weights = ratings.weights[cell]
    layout = model.layout
    model.loss += bpr(
        lanes_of(model.item.shape[1]), ratings.rows[cell], ratings.columns[cell], unseen, weights,
        negatives.weights[sub_epoch], model.user, model.item, model.item_bias,
        model.user_gradient, model.item_gradient, layout.n_components,
        np.float32(rate), np.float32(regularization), layout.biases, layout.gradients, nonnegative,
    )  # fmt: skip
    return model


def pack(model: RankModel, positions: np.ndarray) -> np.ndarray:
    """The item rows at `positions` as one message, float32 of shape (n_rows, layout.words)."""
    layout = model.layout
    return pack_rows(
        model.item, model.item_bias, model.item_gradient, positions,
        layout.n_components, layout.biases, layout.gradients,
    )  # fmt: skip


def _unpack(model: RankModel, message: np.ndarray, positions: np.ndarray) -> None:
    layout = model.layout
    unpack_rows(
        message, model.item, model.item_bias, model.item_gradient, positions,
        layout.n_components, layout.biases, layout.gradients,
    )  # fmt: skip


def place(model: RankModel, inbox: Inbox) -> RankModel:
    """Write received rows over the old ones, in place."""
    for positions, message in zip(inbox.positions, inbox.payloads, strict=True):
        _unpack(model, message, positions)
    return model


def average(model: RankModel, inbox: Inbox, ratings: RankRatings, *, sub_epoch: int) -> RankModel:
    """Average the received copies with the rank's own, added up in rank order, in place."""
    plan = ratings.averages[sub_epoch]
    if plan is None:
        return model
    total = np.zeros((plan.rows.size, model.layout.words), np.float32)
    slot = np.empty(model.item.shape[0], np.int64)
    slot[plan.rows] = np.arange(plan.rows.size)
    copies = contributions(inbox, plan.rows, pack(model, plan.rows))
    for (positions, rows), weights in zip(copies, plan.weights, strict=True):
        add_weighted(total, slot[positions], rows, weights)
    _unpack(model, total, plan.rows)
    model.stale_rows += sum(positions.size for positions in inbox.positions)
    return model


def compile_kernels(model: RankModel, ratings: RankRatings) -> None:
    """Compile on this worker what an epoch runs, on no ratings: so that epochs measure training."""
    trial, nothing = model.copy(), np.zeros(0, np.int64)
    no_ratings = replace(ratings, cell_pointer=np.zeros(2, np.int64))
    apply_ratings(trial, no_ratings, sub_epoch=0, rate=0.0, regularization=0.0)
    message = pack(trial, nothing)
    _unpack(trial, message, nothing)
    add_weighted(message.copy(), nothing, message, np.zeros(0, np.float32))


def start_epoch(model: RankModel) -> RankModel:
    """Set the counters of the epoch to zero, in place."""
    model.loss = 0.0
    model.stale_rows = 0
    return model


@dataclass(frozen=True)
class EpochTotals:
    """Sums over all ranks at the end of an epoch.

    Attributes
    ----------
    loss : float
        Over all ratings, as in `RankModel`.
    stale_rows : int
        Measured staleness in rows, to be held against eq. 9.
    finite : bool
        False as soon as one factor is NaN or infinite.
    """

    loss: float
    stale_rows: int
    finite: bool


def count_epoch(model: RankModel) -> np.ndarray:
    """What a rank adds to `EpochTotals`, float64 of shape (3,)."""
    infinite = sum(not np.isfinite(getattr(model, name)).all() for name in _ARRAYS)
    return np.array([model.loss, model.stale_rows, infinite], np.float64)


# reduce and expand of each sub-epoch, prepared for a communicator; None where nothing travels
PreparedSchedule = tuple[tuple[PreparedPlan | None, PreparedPlan | None], ...]


def run_epoch(
    comm: Communicator,
    model: PerRank,
    ratings: PerRank,
    schedule: PreparedSchedule,
    rate: float,
    regularization: float,
    nonnegative: bool = False,
    epoch: int = 1,
) -> tuple[PerRank, EpochTotals]:
    """One epoch of Alg. 2 over per-rank values.

    Parameters
    ----------
    comm : Communicator
    model : per-rank value of RankModel
        Spent: use the one that is returned.
    ratings : per-rank value of RankRatings
    schedule : PreparedSchedule
    rate, regularization : float
    nonnegative : bool
        Whether factors below 0 become 0.
    epoch : int
        Its number, for the draws of BPR.

    Returns
    -------
    model : per-rank value of RankModel
    totals : EpochTotals
        The same on every rank.
    """
    model = comm.update(start_epoch, model)
    for t, (to_owners, to_next) in enumerate(schedule):
        model = comm.update(
            apply_ratings, model, ratings, sub_epoch=t, rate=rate, regularization=regularization,
            nonnegative=nonnegative, epoch=epoch,
        )  # fmt: skip
        if to_owners is not None:
            for messages in to_owners.rounds:
                pending = comm.post(messages, model, pack)
                model = comm.collect(pending, model, average, ratings, sub_epoch=t)
        if to_next is not None:
            model = expand(comm, to_next, model, pack, place)
    totals = allreduce(comm, comm.map(count_epoch, model))
    model, totals = comm.settle(model, totals)
    loss, stale_rows, infinite = totals.result()
    return model, EpochTotals(float(loss), int(stale_rows), infinite == 0)
