"""What travels when shared rows ride inside a hypercube allreduce, counted without a plan.

rows in each round:      round 0    round 1    round 2          sums
sent by rank 0              4          1          0       send   (one row a round)
sent by rank 1              2          6          1
busiest                     4    +     6    +     1       what the ranks wait for
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checks import one_of, require_like
from daskpart._floor.tables import ShownAsTable
from daskpart.connectivity import Connectivity
from daskpart.errors import InputError

from .routes import all_routes, n_dimensions


@dataclass(frozen=True, eq=False, repr=False)
class HypercubeVolume(ShownAsTable):
    """Rows of one expand or reduce embedded in a hypercube allreduce, round by round.

    Made by `hypercube_volume`. Copies of one row in a message travel once (the aware embedding of
    Abubaker et al., §4.2); what is only forwarded counts.

    Parameters
    ----------
    operation : "expand" or "reduce"
    send, receive : int64[n_rounds, n_parts]
        Rows. Rounds in the order in which they happen: one a bit, and where K is no power of two
        one more before and one after, in which ranks from 2^⌊log2 K⌋ on fold onto a partner.
    concurrent_rows : int
        Pairs of a row and a round in which it moves: copies that move together count once (§5).
    """

    operation: str
    send: NDArray[np.int64]
    receive: NDArray[np.int64]
    concurrent_rows: int

    @property
    def total_rows(self) -> int:
        """Rows that travel, forwarded ones included."""
        return int(self.send.sum())

    @property
    def rows_of_rank(self) -> NDArray[np.int64]:
        """Rows that each rank sends and receives in all rounds, int64[n_parts].

        Equal to what it sends in the expand and in the reduce, as one is the other reversed (§4.3).
        """
        return (self.send + self.receive).sum(axis=0)

    @property
    def busiest_rows(self) -> int:
        """The most rows that a rank sends in a round, summed over the rounds."""
        return int(self.send.max(axis=1, initial=0).sum())

    def to_dict(self) -> dict[str, float]:
        """Sums and maxima by name."""
        return {
            "rounds": len(self.send),
            "rows, total": self.total_rows,
            "rows, concurrent": self.concurrent_rows,
            "rows of a rank, mean": float(self.rows_of_rank.mean()),
            "rows of a rank, maximum": int(self.rows_of_rank.max()),
            "rows sent by the busiest rank of each round, summed": self.busiest_rows,
        }

    @property
    def _title(self) -> str:
        return f"HypercubeVolume of {self.operation}"


def hypercube_volume(
    connectivity: Connectivity, operation: Literal["expand", "reduce"] = "expand"
) -> HypercubeVolume:
    """Rows that each rank sends and receives in each round of an embedded expand or reduce.

    Parameters
    ----------
    connectivity : Connectivity
        With owners; an owner need not touch its item.
    operation : "expand" or "reduce", default="expand"

    Returns
    -------
    HypercubeVolume
        Equal to the statistics of `daskpart.collectives.embed` of the expand.

    Raises
    ------
    InputError
        No owners, or an operation that is neither.
    """
    one_of(operation, "operation", ("expand", "reduce"))
    require_like(connectivity, "connectivity", ("pointer", "owners"), "a Connectivity")
    if connectivity.owners is None:
        raise InputError(
            "hypercube_volume needs owners: daskpart.owners.embedded_packed_owners gives good ones"
        )
    n_parts = connectivity.n_parts
    send, receive, concurrent = all_routes(
        connectivity.pointer,
        connectivity.parts,
        connectivity.owners,
        n_parts,
        n_dimensions(n_parts),
    )
    if n_parts & (n_parts - 1) == 0:  # nothing folds; a single rank has one round, without rows
        rounds = slice(1, -1) if n_parts > 1 else slice(0, 1)
        send, receive = send[rounds], receive[rounds]
    if operation == "reduce":
        send, receive = receive[::-1], send[::-1]
    return HypercubeVolume(operation, send, receive, concurrent)
