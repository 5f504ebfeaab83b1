"""What shards show without computing anything: the bordered order of Fig. 1, and an HTML table."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from ._floor.tables import readable

if TYPE_CHECKING:
    from ._shard import Numbering
    from .connectivity import Connectivity
    from .partitions import Partition
    from .shards import Shards

_MOST_LINES = 16
_HEADS = ("rank", "rows", "nonzeros", "bytes", "local", "owned", "nonlocal", "placement")


class BorderOrder(NamedTuple):
    """The singly bordered block-diagonal form of Fig. 1, as two permutations.

    Attributes
    ----------
    rows : ndarray of int64
        Row ids, part after part.
    columns : ndarray of int64
        Column ids: the local columns of part 0, of part 1, …; then the linking columns by owner;
        then the columns that hold nothing.
    row_pointer : ndarray of int64, shape (n_parts + 1,)
        Where the rows of each part start in `rows`.
    local_pointer : ndarray of int64, shape (n_parts + 1,)
        Where the local columns of each part start in `columns`; the last entry is the border.
    border_pointer : ndarray of int64, shape (n_parts + 1,)
        Where the linking columns of each owner start in `columns`.
    """

    rows: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]
    row_pointer: npt.NDArray[np.int64]
    local_pointer: npt.NDArray[np.int64]
    border_pointer: npt.NDArray[np.int64]


def border_order(
    partition: Partition, connectivity: Connectivity, numbering: Numbering
) -> BorderOrder:
    """Order rows by part; columns by part where they are local, by owner where they link."""
    owners = connectivity.owners
    assert owners is not None
    n_parts = partition.n_parts
    local = [numbering.of_rank(k)[: numbering.sizes[k, 0]] for k in range(n_parts)]
    is_linking = connectivity.connectivity > 0
    for columns in local:
        is_linking[columns] = False
    linking = np.flatnonzero(is_linking)
    linking = linking[np.argsort(owners[linking], kind="stable")]
    local_pointer = np.concatenate(([0], np.cumsum(numbering.sizes[:, 0])))
    per_owner = np.bincount(owners[linking], minlength=n_parts)
    untouched = np.flatnonzero(connectivity.connectivity == 0)
    return BorderOrder(
        rows=partition.order,
        columns=np.concatenate((*local, linking, untouched)),
        row_pointer=partition.part_pointer,
        local_pointer=local_pointer,
        border_pointer=local_pointer[-1] + np.concatenate(([0], np.cumsum(per_owner))),
    )


def shards_table(shards: Shards) -> str:
    """One line a part: sizes, columns of each kind, and where it is."""
    rows = np.diff(shards.partition.part_pointer)
    columns = np.column_stack((rows, shards.nnz_per_part, shards.bytes_per_part, shards.sizes))
    lines = []
    for rank, numbers in enumerate(columns[:_MOST_LINES].tolist()):
        place = shards.placement[rank] if shards.placement else "–"
        cells = (rank, *numbers, place)
        lines.append("".join(f"<td>{escape(readable(cell))}</td>" for cell in cells))
    if shards.n_parts > _MOST_LINES:
        left_out = shards.n_parts - _MOST_LINES
        lines.append(f'<td colspan="{len(_HEADS)}">… {left_out} more</td>')
    head = "".join(f"<th>{name}</th>" for name in _HEADS)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return (
        f"<table><caption>{escape(repr(shards))}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )
