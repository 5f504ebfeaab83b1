"""Products with Â over all ranks: what is own while messages travel, then what arrived.

    post ─► local · own rows ─► collect ─► + remote · halo rows

Back, a rank multiplies by its rows of Âᵀ. In a mini-batch, where nobody knows which of a column's
entries were drawn, it multiplies by the transpose of its rows of Â and returns the halo's rows:

    remoteᵀ · own rows ─► post ─► localᵀ · own rows ─► collect ─► + what others returned

Source: Demirci et al., VLDB 2022, lines 3 to 9 of Algorithms 1 and 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.collectives import Communicator, PerRank
from daskpart.collectives.kernels_rows import add_in_rank_order
from daskpart.collectives.messages import Inbox, PreparedPlan

from .kernels import spmm, spmm_transposed


def propagate(
    comm: Communicator,
    data: PerRank,
    prepared: PreparedPlan,
    message: PerRank,
    *,
    hops: int,
    teleport: float = 0.0,
    back: bool = False,
    returned: bool = False,
) -> PerRank:
    """A polynomial of Â (back: of Âᵀ) times a message: Z ← (1 − α) Â Z + α message, `hops` times.

    Parameters
    ----------
    message : PerRank of Boundary, Gradient, or ndarray
    hops : int
    teleport : float
        α.
    back : bool
        By Âᵀ.
    returned : bool
        Back by the rows of Â, as in a mini-batch.
    """
    current = message
    for _ in range(hops):
        if back and returned:
            total = _returned_product(comm, data, prepared, current)
        else:
            pending = [comm.post(each, current, pack_message) for each in prepared.rounds]
            total = comm.map(local_product, data, current, back=back)
            for each in pending:
                total = comm.collect(each, total, add_remote_product, data, back=back)
        if teleport:
            total = comm.map(teleported, total, message, share=teleport)
        current = total
    return current


def _returned_product(
    comm: Communicator, data: PerRank, prepared: PreparedPlan, message: PerRank
) -> PerRank:
    halo = comm.map(transposed_remote, data, message)
    (pending,) = (comm.post(each, halo, pack_returned) for each in prepared.rounds)
    return comm.collect(pending, comm.map(transposed_local, data, message), add_returned)


# -- one rank: products with its rows of Â ---


def message_of(value: Any) -> NDArray[Any]:
    """The rows that travel: an array, or what a boundary of `passes` has as its message."""
    return value if isinstance(value, np.ndarray) else value.message


def pack_message(value: Any, positions: NDArray[np.int64]) -> NDArray[Any]:
    """Own rows at some positions."""
    return message_of(value).take(positions, axis=0)


def local_product(data: Any, value: Any, *, back: bool) -> NDArray[Any]:
    """Columns of own vertices, times own rows."""
    halves, rows = data.graph.backward if back else data.graph.forward, message_of(value)
    out = np.zeros((halves.n_rows, rows.shape[1]), rows.dtype)
    indptr, indices, values = halves.local
    spmm(indptr, indices, values, rows, out)
    return out


def add_remote_product(total: NDArray[Any], inbox: Inbox, data: Any, *, back: bool) -> NDArray[Any]:
    """Columns of the halo, times the rows that arrived, added to the total."""
    halves = data.graph.backward if back else data.graph.forward
    if halves.n_halo:
        indptr, indices, values = halves.remote
        spmm(indptr, indices, values, halo_rows(inbox), total)
    return total


@dataclass(frozen=True, eq=False)
class HaloRows:
    """Rows of the halo on their way to their owners, numbered behind the own vertices."""

    n_own: int
    rows: NDArray[Any]


def transposed_remote(data: Any, value: Any) -> HaloRows:
    """A rank's share of the rows of others in Âᵀ times a message."""
    halves, rows = data.graph.forward, message_of(value)
    out = np.zeros((halves.n_halo, rows.shape[1]), rows.dtype)
    indptr, indices, values = halves.remote
    spmm_transposed(indptr, indices, values, np.ascontiguousarray(rows), out)
    return HaloRows(halves.n_own, out)


def transposed_local(data: Any, value: Any) -> NDArray[Any]:
    """Its share of its own."""
    halves, rows = data.graph.forward, message_of(value)
    out = np.zeros((halves.n_own, rows.shape[1]), rows.dtype)
    indptr, indices, values = halves.local
    spmm_transposed(indptr, indices, values, np.ascontiguousarray(rows), out)
    return out


def pack_returned(halo: HaloRows, positions: NDArray[np.int64]) -> NDArray[Any]:
    """Rows for their owner."""
    return halo.rows.take(positions - halo.n_own, axis=0)


def add_returned(total: NDArray[Any], inbox: Inbox) -> NDArray[Any]:
    """What other ranks had of own rows, added in rank order."""
    add_in_rank_order(total, inbox.positions, inbox.payloads, n_before=0)
    return total


def halo_rows(inbox: Inbox) -> NDArray[Any]:
    """Rows that arrived, in the order of the halo: what one rank sends is one block of it."""
    return inbox.payloads[0] if len(inbox.payloads) == 1 else np.concatenate(inbox.payloads)


def teleported(total: NDArray[Any], message: Any, *, share: float) -> NDArray[Any]:
    """(1 − α) · total + α · message."""
    return total.dtype.type(1 - share) * total + total.dtype.type(share) * message_of(message)
