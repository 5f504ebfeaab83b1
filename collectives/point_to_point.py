"""Point-to-point plans: one round, every copy of an item straight from, or to, its owner.

    item 7: owner 0, touched by ranks 0, 1, 3

    expand   0 ──▶ 1           reduce   1 ──▶ 0
             0 ──▶ 3                    3 ──▶ 0

The sparse expand and reduce of η-PASGD §3.2–3.4. An expand sends an item from its owner to every
rank that touches it, except the owner itself. The owner need not touch the item: in η-PASGD the
owner of this sub-epoch sends to the ranks of the next one. A reduce is the expand reversed.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskpart._floor.checks import as_array
from daskpart.errors import InputError

from .plan import Plan, Round, steps_within


class ItemParts(Protocol):
    """Item → the parts that touch it, in CSR, with owners; `daskpart.Connectivity` is one."""

    @property
    def pointer(self) -> NDArray[np.int64]: ...

    @property
    def parts(self) -> NDArray[np.int32]: ...

    @property
    def owners(self) -> NDArray[np.int32] | None: ...

    @property
    def n_parts(self) -> int: ...


def expand_plan(connectivity: ItemParts, owners: ArrayLike | None = None) -> Plan:
    """Plan that carries every item from its owner to all other ranks that touch it.

    Parameters
    ----------
    connectivity : Connectivity
        Anything with `pointer`, `parts`, `owners` and `n_parts`; rank = part.
    owners : int array of shape (n_items,), optional
        Rank that owns each item, -1 only where no rank touches it. Default:
        ``connectivity.owners``.

    Returns
    -------
    Plan
        One round; Σ_items (touching ranks other than the owner) rows.

    Raises
    ------
    InputError
        If owners are missing, of another length, out of range, or -1 on an item that is touched.
    """
    if not (hasattr(connectivity, "pointer") and hasattr(connectivity, "parts")):
        raise InputError(
            f"connectivity is a {type(connectivity).__name__}: give a Connectivity, of a Partition "
            "Connectivity.from_partition(hypergraph, partition)"
        )
    pointer, parts, n_ranks = connectivity.pointer, connectivity.parts, int(connectivity.n_parts)
    n_items = len(pointer) - 1
    if len(parts) and (parts.min() < 0 or parts.max() >= n_ranks):
        raise InputError(f"Parts {parts.min()}..{parts.max()} do not lie in 0..{n_ranks - 1}.")
    if (steps_within(parts, pointer) <= 0).any():
        raise InputError("The parts of an item must be distinct and in rising order.")
    owner = _check_owners(connectivity.owners if owners is None else owners, pointer, n_ranks)
    items = np.repeat(np.arange(n_items, dtype=np.int64), np.diff(pointer))
    return expand_of_shares(n_items, n_ranks, owner[items], parts, items)


def expand_of_shares(
    n_items: int, n_ranks: int, owners: NDArray[Any], sharers: NDArray[Any], items: NDArray[Any]
) -> Plan:
    """Plan that carries each item from its owner to a sharer, where that is another rank."""
    travels = owners != sharers
    transfers = owners[travels], sharers[travels], items[travels]
    return Plan("expand", n_items, (Round.from_transfers(n_ranks, *transfers),))


def reduce_plan(connectivity: ItemParts, owners: ArrayLike | None = None) -> Plan:
    """Plan that carries every item from all ranks that touch it to its owner.

    Parameters
    ----------
    connectivity, owners
        As for `expand_plan`, with its errors.

    Returns
    -------
    Plan
        One round, the messages of `expand_plan` the other way.
    """
    return expand_plan(connectivity, owners).reversed()


def _check_owners(
    owners: ArrayLike | None, pointer: NDArray[np.int64], n_ranks: int
) -> NDArray[np.int64]:
    n_items = len(pointer) - 1
    if owners is None:
        raise InputError(
            "The connectivity has no owners; give owners= or use connectivity.with_random_owners()."
        )
    owner = as_array(owners, "owners")
    if owner.shape != (n_items,) or not np.issubdtype(owner.dtype, np.integer):
        raise InputError(
            f"owners must be {n_items} integers, one an item; "
            f"got shape {owner.shape} of dtype {owner.dtype}."
        )
    bad = (owner < -1) | (owner >= n_ranks) | ((owner == -1) & (np.diff(pointer) > 0))
    if bad.any():
        item = int(np.flatnonzero(bad)[0])
        touching = int(pointer[item + 1] - pointer[item])
        raise InputError(
            f"Item {item} is touched by {touching} rank(s) and has owner {int(owner[item])}; "
            f"owners lie in 0..{n_ranks - 1} (-1 only where no rank touches the item)."
        )
    return owner.astype(np.int64)
