"""Products with Â over all ranks: what is own while messages travel, then what arrived.

    post ─► local · own rows ─► collect ─► + remote · halo rows

Source: Demirci et al., VLDB 2022, lines 3 to 9 of Algorithms 1 and 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.collectives import Communicator, PerRank
from daskpart.collectives.messages import Inbox, PreparedPlan

from .kernels import spmm


def propagate(
    comm: Communicator,
    data: PerRank,
    prepared: PreparedPlan,
    message: PerRank,
    *,
    hops: int,
    teleport: float = 0.0,
    back: bool = False,
) -> PerRank:
    """A polynomial of Â (back: of Âᵀ) times a message: Z ← (1 − α) Â Z + α message, `hops` times.

    Parameters
    ----------
    message : PerRank of Boundary, Gradient, or ndarray
    hops : int
    teleport : float
        α.
    """
    current = message
    for _ in range(hops):
        pending = [comm.post(each, current, pack_message) for each in prepared.rounds]
        total = comm.map(local_product, data, current, back=back)
        for each in pending:
            total = comm.collect(each, total, add_remote_product, data, back=back)
        if teleport:
            total = comm.map(teleported, total, message, share=teleport)
        current = total
    return current


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
    out = np.zeros((halves.n_own, rows.shape[1]), rows.dtype)
    indptr, indices, values = halves.local
    spmm(indptr, indices, values, rows, out)
    return out


def add_remote_product(total: NDArray[Any], inbox: Inbox, data: Any, *, back: bool) -> NDArray[Any]:
    """Columns of the halo, times the rows that arrived, added to the total."""
    halves = data.graph.backward if back else data.graph.forward
    if halves.n_halo:
        indptr, indices, values = halves.remote
        halo = halo_rows(inbox, halves.n_own, halves.n_halo)
        spmm(indptr, indices, values, halo, total)
    return total


def halo_rows(inbox: Inbox, n_own: int, n_halo: int) -> NDArray[Any]:
    """Rows that arrived, in the order of the halo: what one rank sends is one block of it."""
    if len(inbox.payloads) == 1:
        return inbox.payloads[0]
    halo = np.empty((n_halo, *inbox.payloads[0].shape[1:]), inbox.payloads[0].dtype)
    for positions, payload in zip(inbox.positions, inbox.payloads, strict=True):
        begin = int(positions[0]) - n_own
        halo[begin : begin + len(payload)] = payload
    return halo


def teleported(total: NDArray[Any], message: Any, *, share: float) -> NDArray[Any]:
    """(1 − α) · total + α · message."""
    return total.dtype.type(1 - share) * total + total.dtype.type(share) * message_of(message)
