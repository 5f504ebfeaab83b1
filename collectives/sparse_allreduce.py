"""Sparse allreduce: every rank gives a sparse vector, every rank gets the sum (min, max, or).

    rank 0   ‥a‥‥b‥‥          ‥A‥cB‥d‥
    rank 1   ‥a‥c‥‥‥‥   ───▶  ‥A‥cB‥d‥      entries travel, absent ones don't
    rank 2   ‥‥‥‥b‥d‥          ‥A‥cB‥d‥

Renggli, "Efficient Sparse AllReduce for Scalable Machine Learning" (ETH Zürich, 2017), ch. 3–4.
First the ranks agree on what they hold (one small allreduce: size, type, number of entries), which
also finds ranks that disagree before anything moves; then the steps of one algorithm run, chosen by
the cost model unless named. Where a named one begins dense, arrays are not searched for entries.
Who adds up vectors alike again and again agrees and chooses once (`best_algorithm`), and says so;
and the ranges that the next sum is split into are cut so that they hold as many entries of this one
each (`equal_shares`): of words ordered by how frequent they are, the first range of one length
holds most of all entries, and its rank keeps all others waiting.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from dask.base import is_dask_collection
from numpy.typing import NDArray

from daskpart._floor.checks import ranks_disagree
from daskpart.errors import InputError

from .communicator import Communicator, Pending, PerRank, Replicated, collective
from .cost_measurement import cost_model_of
from .cost_model import Choice, CostModel, Problem
from .reduction import SUM, Reduction, require_reduction
from .sparse_exchange import combine_step, exchange_of, pack_step, run_local
from .sparse_steps import ALGORITHMS, LOCAL_KINDS, Step, core_of, require_free_choice, steps_of
from .stream import Stream, dense_stream_of, stream_of
from .values import require_kind


def sparse_allreduce(
    communicator: Any,
    values: PerRank | None = None,
    reduction: Reduction = SUM,
    *,
    algorithm: str = "auto",
    group: int | None = None,
    degrees: Sequence[int] | None = None,
    model: CostModel | None = None,
    switch_density: float | None = None,
    expected_density: float = 0.01,
) -> Any:
    """Combine one sparse vector a rank; every rank holds the result.

    Parameters
    ----------
    communicator : Communicator, or Dask array
        A Dask array is one rank a block of its first axis, and `values` is left out.
    values : PerRank
        On each rank what `stream_of` takes: `sparse.COO` of any dimension, a numpy array or masked
        array, (indices, values, size), or a `Stream`. Equal in shape and dtype. Not spent.
    reduction : Reduction
        `SUM`, `MIN`, `MAX`, `ANY`, or another with a neutral element; its `combine` a numpy ufunc
        or a function that numba can compile.
    algorithm : str
        One of `sparse_steps.ALGORITHMS`, or "auto": the least predicted time.
    group : int, optional
        Of "dsar-early-switching".
    degrees : sequence of int, optional
        Of "butterfly".
    model : CostModel, optional
        Default: measured on the communicator once, and kept with it (`cost_model_of`).
    switch_density : float, optional
        Share of entries from which a range is dense. Default: the model's.
    expected_density : float
        Of a Dask array's blocks, for "auto": it is not computed to find out.

    Returns
    -------
    PerRank of Stream, or Dask array
        Equal to the bit on all ranks and transports. Entries that cancel stay, as zeros. Of an
        array: the same shape and chunks, every block the total; `sparse.COO`, or numpy if the
        array's blocks are.

    Raises
    ------
    InputError
        For input that `stream_of` refuses, or ranks that disagree on shape or dtype; names them.
        A lazy transport raises it when the result is asked for, unless the algorithm is "auto".

    Examples
    --------
    >>> import numpy as np
    >>> from daskpart.collectives import LocalCommunicator, sparse_allreduce
    >>> with LocalCommunicator(2) as communicator:
    ...     pairs = communicator.values([([1], [2.0], 4), ([1, 3], [1.0, 5.0], 4)])
    ...     total = sparse_allreduce(communicator, pairs, algorithm="butterfly", switch_density=1.0)
    ...     print(communicator.gather(total)[0].to_numpy())
    [0. 3. 0. 5.]
    """
    _check_costs(model, switch_density)
    options: dict[str, Any] = {
        "algorithm": algorithm, "group": group, "degrees": degrees, "model": model,
        "switch_density": switch_density,
    }  # fmt: skip
    if not isinstance(communicator, Communicator):
        x = communicator
        if not is_dask_collection(x) or not hasattr(x, "chunks") or values is not None:
            raise InputError(
                "sparse_allreduce takes (communicator, values), or a Dask array alone; got "
                f"{type(x).__name__} and {type(values).__name__}."
            )
        from .sparse_arrays import allreduce_array

        return allreduce_array(x, sparse_allreduce, reduction, expected_density, **options)
    if values is None:
        raise InputError("A sparse allreduce on a communicator needs the ranks' values.")
    return _whole(communicator, values, reduction, **options)


@collective
def _whole(communicator: Communicator, *values: Any, **options: Any) -> PerRank:
    return post_sparse_allreduce(communicator, *values, **options).collect()


@collective
def post_sparse_allreduce(
    communicator: Communicator,
    values: PerRank,
    reduction: Reduction = SUM,
    *,
    algorithm: str = "auto",
    group: int | None = None,
    degrees: Sequence[int] | None = None,
    model: CostModel | None = None,
    switch_density: float | None = None,
    among: tuple[str, ...] = ALGORITHMS,
    agreed: bool = False,
) -> PendingAllreduce:
    """Begin a `sparse_allreduce`: its first messages are on their way when this returns.

    Parameters
    ----------
    communicator, values, reduction, algorithm, group, degrees, model, switch_density
        As for `sparse_allreduce`, with its errors.
    among : tuple of str
        The algorithms that "auto" chooses from.
    agreed : bool
        The caller vouches that each rank gives a `Stream`, of one shape and dtype and with the same
        `cuts`: a named algorithm sends no message but its own.

    Returns
    -------
    PendingAllreduce
        Compute something else, then call its `collect`.
    """
    require_reduction(reduction)
    _check_costs(model, switch_density)
    if algorithm == "auto":
        require_free_choice(group, degrees)
        model = model or cost_model_of(communicator)
        values = communicator.map(stream_of, values, reduction=reduction)
        if not agreed:
            values = communicator.map(_without_cuts, values)
        best = best_algorithm(communicator, values, model, among, switch_density)
        algorithm, group, degrees, agreed = best.algorithm, best.group, best.degrees, True
    steps = steps_of(algorithm, communicator.n_ranks, group, degrees)
    if not agreed:
        make = dense_stream_of if steps and steps[0].kind == "dense" else stream_of
        values = communicator.map(make, values, reduction=reduction)
        values, _ = agreed_streams(communicator, values, "sparse allreduce")
    if switch_density is None:
        model = model or cost_model_of(communicator)
    switch = checked_switch(model if switch_density is None else switch_density)
    return PendingAllreduce(communicator, steps, values, reduction, algorithm, switch)


@collective
def best_algorithm(
    communicator: Communicator,
    streams: PerRank,
    model: CostModel,
    among: tuple[str, ...],
    switch_density: float | None,
) -> Choice:
    """The algorithm of the least predicted time `among` these, by the entries that ranks hold.

    InputError if they disagree on shape or dtype of their streams.
    """
    _, agreed = agreed_streams(communicator, streams, "sparse allreduce")
    problem = _problem(communicator.n_ranks, agreed.result())
    return model.best(problem, among, switch_density)


@dataclass(eq=False)
class PendingAllreduce:
    """A sparse allreduce on its way, by `algorithm`; made by `post_sparse_allreduce`."""

    communicator: Communicator
    steps: tuple[Step, ...]  # those that are not done
    state: PerRank
    reduction: Reduction
    algorithm: str
    switch: CostModel | float
    posted: Pending | None = field(default=None, init=False)
    n_posted: int = field(default=0, init=False)
    collected: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._post_next()

    def collect(self) -> PerRank:
        """The result, a `Stream` on each rank; once."""
        if self.collected:
            raise InputError("This sparse allreduce was collected before.")
        self.collected = True
        return _finish(self.communicator, self)

    def collect_next(self) -> None:
        """Receive the messages of a step, and send those of the next, if there is one."""
        if self.posted is not None:
            self.state = self.communicator.collect(
                self.posted, None, combine_step, self.state, step=self._next_step(),
                reduction=self.reduction, switch=self.switch,
            )  # fmt: skip
            self._post_next()

    def _post_next(self) -> None:
        """Run what needs no messages, and send the messages of the step after."""
        self.posted = None
        while self.steps and self.steps[0].kind in LOCAL_KINDS:
            self.state = self.communicator.map(run_local, self.state, step=self._next_step())
        if self.steps:
            step = self.steps[0]
            exchange = exchange_of(step, self.communicator.n_ranks)
            pack = partial(pack_step, step=step)
            self.posted = self.communicator.post_values(
                exchange, self.state, pack, self.algorithm, self.n_posted, self.reduction.name
            )
            self.n_posted += 1

    def _next_step(self) -> Step:
        step, self.steps = self.steps[0], self.steps[1:]
        return step


@collective
def _finish(communicator: Communicator, pending: PendingAllreduce) -> PerRank:
    while pending.posted is not None:
        pending.collect_next()
    return pending.state


def equal_shares(total: Stream, n_ranks: int) -> tuple[int, ...]:
    """Where to cut vectors with a sum like `total`, so that each rank adds up as much.

    Bounds of the parts, from 0 to the size; none, which stands for parts of one length, for a dense
    vector, and where there are fewer entries than parts. Wherever a sum is cut, it has the same
    bits.
    """
    n_parts = core_of(n_ranks)
    if total.indices is None or total.n_entries < n_parts:
        return ()
    inner = total.indices[np.arange(1, n_parts) * total.n_entries // n_parts]
    return (0, *inner.tolist(), total.size)


def agreed_streams(
    communicator: Communicator, streams: PerRank, what: str
) -> tuple[PerRank, Replicated]:
    """The streams without cuts, none before all agree; their size, dtype number, sum of entries.

    InputError if ranks disagree in shape or dtype; `what` says in what.
    """
    descriptions = communicator.map(_describe, streams)
    agreed = communicator.fold(descriptions, _agree, label=f"{what}: sizes", what=what)
    return communicator.map(_without_cuts, streams, agreed), agreed


def _describe(stream: Stream) -> NDArray[np.int64]:
    """What the ranks must agree on, and the number of entries: 8 bytes each."""
    kind = np.dtype(stream.values.dtype.str).num  # of several C types of one size the same
    return np.array([stream.n_entries, kind, *stream.shape], dtype=np.int64)


def _agree(descriptions: list[NDArray[np.int64]], what: str) -> NDArray[np.int64]:
    first = descriptions[0]
    for rank, other in enumerate(descriptions):
        if not np.array_equal(first[1:], other[1:]):
            told = (0, _described(first)), (rank, _described(other))
            raise ranks_disagree(f"the {what}", *told)
    entries = sum(int(description[0]) for description in descriptions)
    return np.array([math.prod(first[2:].tolist()), first[1], entries], dtype=np.int64)


def _without_cuts(stream: Stream, agreed: Any = None) -> Stream:
    return stream.cut_at(())


def _described(description: NDArray[np.int64]) -> str:
    return f"shape {tuple(description[2:].tolist())} of {_dtype(int(description[1]))}"


def _dtype(number: int) -> np.dtype[Any]:
    return next(np.dtype(code) for code in np.typecodes["All"] if np.dtype(code).num == number)


def _problem(n_ranks: int, agreed: NDArray[np.int64]) -> Problem:
    size, dtype, entries = agreed.tolist()
    # within 5 %: vectors differ a little from step to step, and choosing takes a millisecond
    mean = 2.0 ** (round(8 * math.log2(entries / n_ranks)) / 8) if entries else 0.0
    return Problem(n_ranks, size, min(mean, size), _dtype(dtype))


def _check_costs(model: Any, switch_density: Any) -> None:
    if model is not None:
        require_kind(model, CostModel, "a CostModel")
    if switch_density is not None:
        checked_switch(switch_density)


def checked_switch(switch: Any) -> CostModel | float:
    """A model, or the share of entries from which a range is dense."""
    if isinstance(switch, CostModel):
        return switch
    if not isinstance(switch, Real) or not 0.0 < float(switch) <= 1.0:  # NaN fails too
        raise InputError(f"switch_density is a share, above 0 and at most 1; got {switch!r}.")
    return float(switch)
