"""The product of features with Â that the first layer reads in every epoch, made once.

    dense     some columns ─► post ─► product with Â ─► those columns of the product; the next …
    sparse    whole rows ─► post values ─► product with Â

Of dense features no more travels at a time than in an epoch: so the set-up of a fit needs no more
memory than its epochs, however many features there are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from daskpart._floor.compressed_rows import compressed_rows
from daskpart.collectives import Communicator, Exchange, PerRank, Plan
from daskpart.collectives.messages import PreparedPlan, RankMessages, ValueInbox

from .layers import Layer
from .passes import RankData
from .products import propagate
from .ranks import Halves
from .rows import SparseRows


def exchange_of(plan: Plan) -> Exchange:
    """Who sends rows to whom in a product with Â."""
    only = plan.rounds[0]
    return Exchange(plan.n_ranks, only.source, only.destination)


# -- texts ---


def with_product(
    comm: Communicator,
    prepared: PreparedPlan,
    data: PerRank,
    *,
    layer: Layer,
    n_columns_at_once: int,
    exchange: Exchange | None,
) -> PerRank:
    """Every rank's data with Âʰ X in the place of features X, or beside them.

    Parameters
    ----------
    prepared : PreparedPlan
        Expand of the rows of H.
    data : PerRank of RankData
    layer : Layer
        The first, of h hops.
    n_columns_at_once : int
        Columns of X that are multiplied at a time where it is dense.
    exchange : Exchange or None
        Who sends to whom, where X is sparse.
    """
    if exchange is None:
        product = comm.map(room_for_product, data)
        for begin in range(0, layer.n_inputs, n_columns_at_once):
            columns = comm.map(columns_of, data, begin=begin, end=begin + n_columns_at_once)
            columns = propagate(comm, data, prepared, columns, hops=layer.hops)
            product = comm.update(with_columns, product, columns, begin=begin)
    else:
        (only,), product = prepared.rounds, comm.map(sparse_rows, data)
        for hop in range(layer.hops):
            rows = comm.map(rows_to_send, product, only.messages, slot=only.slot)
            pending = comm.post_values(exchange, rows, pack_sparse, "first product", hop)
            total = comm.map(local_product, data, product)
            product = comm.collect(pending, total, add_remote_product, data)
    return comm.map(in_place_of_features, data, product, reads_inputs=layer.reads_inputs)


# -- one rank ---


def in_place_of_features(data: RankData, product: Any, *, reads_inputs: bool) -> RankData:
    """Data with the product."""
    rows = SparseRows.of(product) if scipy.sparse.issparse(product) else product
    return RankData(data.graph, rows, data.rows if reads_inputs else None, data.targets)


def room_for_product(data: RankData) -> NDArray[Any]:
    """An array for the product of dense features."""
    return np.empty_like(data.rows)


def columns_of(data: RankData, *, begin: int, end: int) -> NDArray[Any]:
    """Some columns of dense features."""
    return np.array(data.rows[:, begin:end], order="C")  # type: ignore[index]


def with_columns(product: NDArray[Any], columns: NDArray[Any], *, begin: int) -> NDArray[Any]:
    """The product, with some columns filled in."""
    product[:, begin : begin + columns.shape[1]] = columns
    return product


def sparse_rows(data: RankData) -> Any:
    """Sparse features, as scipy multiplies them."""
    rows: Any = data.rows
    return _matrix((rows.indptr, rows.indices, rows.data), rows.n_columns)


def rows_to_send(rows: Any, messages: list[RankMessages], *, slot: int) -> dict[int, Any]:
    """Sparse rows for each destination."""
    own = messages[slot]
    return {
        destination: rows[positions]
        for destination, positions in zip(own.destinations, own.out_positions, strict=True)
    }


def pack_sparse(
    rows: dict[int, Any], source: int, destinations: list[int]
) -> list[tuple[Any, ...]]:
    """Sparse rows as arrays: their lengths, columns and values."""
    chosen = [rows[destination] for destination in destinations]
    return [(np.diff(each.indptr), each.indices, each.data) for each in chosen]


def local_product(data: RankData, features: Any) -> Any:
    """Columns of own vertices, times own features."""
    return _matrix(data.graph.forward.local, features.shape[0]) @ features


def add_remote_product(total: Any, inbox: ValueInbox, data: RankData) -> Any:
    """Columns of the halo, times the features that arrived."""
    halves: Halves = data.graph.forward
    if not halves.n_halo:
        return total
    lengths, columns, values = (np.concatenate(each) for each in zip(*inbox.payloads, strict=True))
    indptr = np.concatenate(([0], np.cumsum(lengths)))
    halo = _matrix((indptr, columns, values), total.shape[1])
    return total + _matrix(halves.remote, halves.n_halo) @ halo


def _matrix(csr: Any, n_columns: int) -> Any:
    indptr, indices, data = csr
    return compressed_rows(data, indices, indptr, (len(indptr) - 1, n_columns))
