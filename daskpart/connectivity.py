"""Which parts touch which items: the one incidence that every communication pattern comes from.

    item           parts (Λ)      λ    owner        expand: owner -> the other sharers
    column 0       {0, 2}         2    2            reduce: the other sharers -> owner
    column 1       {1}            1    1  (local: nothing travels)
    column 2       {0, 1, 3}      3    0

Metrics: cut-net and connectivity-1 (eq. 4 and 5), power-connectivity Σ λ^ρ (eq. 11), volume and
staleness of η-PASGD (eq. 8 and 9), all of Abubaker et al.; concurrent volume on a hypercube as in
the hypercube mapping of CP decompositions: for Λ = {1, 2, 6, 7} three bit positions differ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _metrics
from ._floor.archive import opened_npz
from ._floor.atomic import replacing
from ._floor.checks import (
    amounts,
    as_array,
    finite_number,
    ids_below,
    one_of,
    random_generator,
    require_hypergraph,
    require_partition,
    whole_number,
)
from ._floor.sums import sums_by_key
from ._floor.tables import ShownAsTable
from ._incidence import group, group_pairs
from .containers.dask_blocks import dask_inside, item_parts
from .errors import InputError

if TYPE_CHECKING:
    from .hypergraph import Hypergraph
    from .partitions import Partition

_LARGEST_RHO = 1024  # powers are whole numbers of any length
_ARRAYS = ("pointer", "parts", "counts", "costs")


@dataclass(frozen=True, eq=False, repr=False)
class RankVolume(ShownAsTable):
    """What each rank sends and receives in one expand or one reduce.

    Parameters
    ----------
    operation : "expand" or "reduce"
    send, receive : int64[n_parts]
        Rows.
    messages_sent, messages_received : int64[n_parts]
        Messages (all rows from one rank to another travel in one).
    """

    operation: str
    send: NDArray[np.int64]
    receive: NDArray[np.int64]
    messages_sent: NDArray[np.int64]
    messages_received: NDArray[np.int64]

    @property
    def total_rows(self) -> int:
        """Rows that travel."""
        return int(self.send.sum())

    @property
    def total_messages(self) -> int:
        """Messages that travel."""
        return int(self.messages_sent.sum())

    def to_dict(self) -> dict[str, float]:
        """Total, mean and maximum of the rows and of the messages."""
        return {
            "rows, total": self.total_rows,
            "rows, mean per rank": float(self.send.mean()),
            "rows sent, maximum": int(self.send.max()),
            "rows received, maximum": int(self.receive.max()),
            "messages, total": self.total_messages,
            "messages, mean per rank": float(self.messages_sent.mean()),
            "messages sent, maximum": int(self.messages_sent.max()),
            "messages received, maximum": int(self.messages_received.max()),
        }

    @property
    def _title(self) -> str:
        return f"RankVolume of {self.operation}"


@dataclass(frozen=True, eq=False, repr=False)
class Connectivity(ShownAsTable):
    """Item → parts in compressed rows, with pin counts, costs and (if given) one owner an item.

    Parameters
    ----------
    pointer : int64[n_items + 1]
        Item n is touched by ``parts[pointer[n]:pointer[n + 1]]``.
    parts : int32[n_pairs]
        Sorted within an item.
    counts : int64[n_pairs]
        Pins (nonzeros) of the item in that part, at least 1.
    n_parts : int
    costs : int64[n_items]
        Cost of each item in every metric but the η-PASGD ones and `rank_volume`.
    owners : int32[n_items], optional
        The rank that owns the item; -1 where no part touches it.

    Examples
    --------
    >>> import daskpart, scipy.sparse
    >>> X = scipy.sparse.csr_array([[1, 0, 1], [1, 1, 0], [0, 1, 0]])
    >>> columns = daskpart.Hypergraph.column_net(X)             # nets of rows
    >>> partition = daskpart.Partition([0, 0, 1], n_parts=2)
    >>> connectivity = daskpart.Connectivity.from_partition(columns, partition)
    >>> connectivity.connectivity.tolist()                      # parts that touch each column
    [1, 2, 1]
    >>> connectivity.connectivity_minus_one()                   # rows of one expand
    1
    """

    pointer: NDArray[np.int64]
    parts: NDArray[np.int32]
    counts: NDArray[np.int64]
    n_parts: int
    costs: NDArray[np.int64]
    owners: NDArray[np.int32] | None = None

    @classmethod
    def from_partition(cls, hypergraph: Hypergraph, partition: Partition) -> Connectivity:
        """The parts that each net touches. One pass over the pins.

        Raises
        ------
        InputError
            No `Partition` was given, or one of another number of vertices than the hypergraph's.
        """
        require_partition(partition)
        require_hypergraph(hypergraph)
        partition.check_fits(hypergraph.n_vertices, "the hypergraph")
        pointer, parts, counts = _metrics.connect(
            hypergraph.net_pointer,
            hypergraph.pins,
            partition.assignment,
            partition.n_parts,
        )
        return cls(pointer, parts, counts, partition.n_parts, hypergraph.net_costs)

    @classmethod
    def from_pairs(
        cls,
        items: ArrayLike,
        parts: ArrayLike,
        n_items: int,
        n_parts: int,
        counts: ArrayLike | None = None,
        costs: ArrayLike | None = None,
    ) -> Connectivity:
        """From (item, part) pairs in any order.

        Parameters
        ----------
        items, parts : array of int, both of one length
            Pair i says that part ``parts[i]`` touches item ``items[i]``.
        n_items, n_parts : int
            How many there are of each; items without a pair are touched by nobody.
        counts : array of int, as long as items, optional
            How often each pair occurs, at least once; those of equal pairs add up. Default: once.
        costs : int[n_items], optional
            What one row of each item costs; 1 each if not given.

        Raises
        ------
        InputError
            When an id is out of range, a count is 0 or less, or lengths differ.
        """
        n_items = whole_number(n_items, "n_items", least=0)
        n_parts = whole_number(n_parts, "n_parts", least=1)
        item_ids = ids_below(items, n_items, "item")
        part_ids = ids_below(parts, n_parts, "part")
        if len(item_ids) != len(part_ids):
            raise InputError(f"{len(item_ids)} items and {len(part_ids)} parts: give pairs")
        times = None if counts is None else amounts(counts, len(item_ids), "count")
        if times is not None and not times.all():
            raise InputError(
                f"count {int(np.argmin(times))} is 0: leave out pairs that do not occur"
            )
        pointer, sorted_parts, added = group_pairs(item_ids, part_ids, times, n_items, n_parts)
        return cls(pointer, sorted_parts, added, n_parts, amounts(costs, n_items, "cost"))

    @classmethod
    def from_dask(
        cls, array: Any, partition: Partition, axis: Literal["rows", "columns"] = "rows"
    ) -> Connectivity:
        """The parts that each column (or row) of a Dask array touches. **Computes** the chunks.

        Each chunk is read once, on the worker that holds it, and gives each (item, part) pair that
        occurs in it with a count; these are merged on workers, eight at a time. To this process
        come 16 bytes a pair of the result, never a nonzero.

        Parameters
        ----------
        array : dask.array.Array of sparse chunks, or an xarray.DataArray over one
            Two-dimensional, with chunks of known size.
        partition : Partition
            Of the rows, or of the columns.
        axis : "rows" or "columns", default="rows"
            What the partition cuts; the other is what parts share.

        Raises
        ------
        InputError
            Chunks are dense or of unknown size; an entry is not finite; the partition was made for
            other data.
        """
        require_partition(partition)
        one_of(axis, "axis", ("rows", "columns"))
        given = dask_inside(array)
        shape = tuple(given.shape)
        made_for = "columns" if partition.info.get("model") == "row-net" else axis
        if made_for != axis:
            raise InputError("the partition is one of columns (model row-net): pass axis='columns'")
        side = shape[0 if axis == "rows" else 1]
        if side == side:  # unknown sizes are NaN, and refused with more to say
            partition.check_fits(side, "the data", axis, shape=shape)
        n_parts = partition.n_parts
        pointer, parts, counts = item_parts(given, partition.assignment, n_parts, axis)
        partition.check_fits(side, "the data", axis, nnz=int(counts.sum()))
        return cls(pointer, parts, counts, n_parts, np.ones(len(pointer) - 1, np.int64))

    @property
    def n_items(self) -> int:
        """Number of items, untouched ones included."""
        return len(self.pointer) - 1

    @property
    def connectivity(self) -> NDArray[np.int32]:
        """λ, int32[n_items]: how many parts touch each item."""
        return np.diff(self.pointer).astype(np.int32)

    def cut_net(self) -> int:
        """Sum of the costs of the items that more than one part touches (eq. 4)."""
        return int(self._cost_by_connectivity()[2:].sum())

    def connectivity_minus_one(self) -> int:
        """Sum of cost × (λ - 1) over the cut items (eq. 5)."""
        return sum(cost * (level - 1) for level, cost in self._cut_levels())

    def soed(self) -> int:
        """Sum of external degrees: cost × λ over the cut items."""
        return sum(cost * level for level, cost in self._cut_levels())

    def power(self, rho: float = 2) -> int | float:
        """Power-connectivity: cost × λ^ρ over the cut items (eq. 11). Exact for a whole ρ."""
        power = finite_number(rho, "rho", most=_LARGEST_RHO)
        if power.is_integer():
            return sum(cost * level ** int(power) for level, cost in self._cut_levels())
        total = max(sum(cost for _, cost in self._cut_levels()), 1)
        if power * math.log2(max(self.max_connectivity(), 1)) + math.log2(total) >= 1023:
            raise InputError(
                f"rho is {rho}: with a connectivity of {self.max_connectivity()} λ^rho is beyond "
                "floating point; use a smaller rho, or a whole one"
            )
        return sum(cost * level**power for level, cost in self._cut_levels())

    def max_connectivity(self) -> int:
        """λ_max: the η from which on η-PASGD runs without staleness."""
        return int(self.connectivity.max(initial=0))

    def histogram(self) -> NDArray[np.int64]:
        """int64[n_parts + 1]: the number of items of each connectivity 0 … n_parts."""
        return np.bincount(self.connectivity, minlength=self.n_parts + 1).astype(np.int64)

    def pasgd_volume(self, eta: int) -> int:
        """Rows that travel in one epoch of η-PASGD (eq. 8 with F = 1)."""
        eta = whole_number(eta, "eta (synchronizations an epoch)", least=1)
        level = self.connectivity[self.connectivity > 1].astype(np.int64)
        unsent = np.minimum(level, max(eta, 2))  # with one synchronization as many as with two
        return int((2 * level - unsent).sum())

    def pasgd_staleness(self, eta: int) -> int:
        """Stale rows used in one epoch of η-PASGD: λ - η where λ > η, summed (eq. 9 with F = 1)."""
        eta = whole_number(eta, "eta (synchronizations an epoch)", least=1)
        return int(np.maximum(self.connectivity.astype(np.int64) - eta, 0).sum())

    def concurrent_volume(self) -> int:
        """Cost × the number of bit positions in which an item's part numbers differ, summed."""
        costs = _metrics.cost_by_differing_bits(self.pointer, self.parts, self.costs)
        return sum(n_bits * cost for n_bits, cost in enumerate(costs.tolist()))

    def with_owners(self, owners: ArrayLike) -> Connectivity:
        """The same incidence with these owners, int[n_items]: any rank, -1 allowed where λ = 0."""
        given = as_array(owners, "owners")
        if given.shape != (self.n_items,) or (given.size and given.dtype.kind not in "iu"):
            raise InputError(
                f"owners of shape {given.shape} and type {given.dtype}: "
                f"give one whole number for each of the {self.n_items} items"
            )
        touched = self.connectivity > 0
        wrong = np.flatnonzero((given >= self.n_parts) | (given < -1) | (touched & (given < 0)))
        if len(wrong):
            raise InputError(
                f"owner of item {wrong[0]} is {given[wrong[0]]}: owners are ranks 0 to "
                f"{self.n_parts - 1} (-1 only for an item that no part touches)"
            )
        return replace(self, owners=np.where(touched, given, -1).astype(np.int32))

    def with_random_owners(self, random_state: int = 0) -> Connectivity:
        """Each item is owned by one of its sharers, drawn evenly."""
        connectivity = self.connectivity
        drawn = random_generator(random_state).random(self.n_items)
        place = np.minimum((drawn * connectivity).astype(np.int64), connectivity - 1)
        owners = np.full(self.n_items, -1, np.int32)
        touched = connectivity > 0
        owners[touched] = self.parts[(self.pointer[:-1] + place)[touched]]
        return replace(self, owners=owners)

    def with_packed_owners(self, work: ArrayLike | None = None) -> Connectivity:
        """Best fit decreasing: items of high λ first, each to the sharer with the least traffic.

        Items of two parts, for which both move one row whoever owns them, go to the one that sends
        less. Several modes into the same bins, and bins for a hypercube: `daskpart.owners`.

        Parameters
        ----------
        work : int[n_items], optional
            What the owner of each item does for it. If given, that is balanced, most work first,
            and not traffic.
        """
        if work is None:
            owners = _metrics.least_loaded_owners(self.pointer, self.parts, self.n_parts)
        else:
            owners = _metrics.least_working_owners(
                self.pointer, self.parts, self.n_parts, amounts(work, self.n_items, "amount")
            )
        return replace(self, owners=owners)

    def rank_volume(self, operation: Literal["expand", "reduce"] = "expand") -> RankVolume:
        """Rows and messages that each rank sends and receives. Needs owners.

        Expand: the owner sends the item to every other sharer. Reduce is expand reversed.
        """
        one_of(operation, "operation", ("expand", "reduce"))
        if self.owners is None:
            raise InputError(
                "rank_volume needs owners: call with_random_owners(), with_packed_owners() "
                "or with_owners(...) first"
            )
        items = np.arange(self.n_items, dtype=np.int32)
        _, by_owner = group(self.owners + np.int32(1), items, self.n_parts + 1)
        send, receive, sent, received = _metrics.expand_volume(
            self.pointer, self.parts, self.owners, by_owner, self.n_parts
        )
        if operation == "reduce":
            return RankVolume(operation, receive, send, received, sent)
        return RankVolume(operation, send, receive, sent, received)

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to one `.npz` file (no pickle); an old one goes when it is whole."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        if self.owners is not None:
            arrays["owners"] = self.owners
        with replacing(path) as file:
            np.savez_compressed(file, n_parts=np.int64(self.n_parts), **arrays)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Connectivity:
        """Read what `save` wrote; ReadError for a damaged file."""
        with opened_npz(path) as file:
            pointer, parts, counts, costs = (file[name] for name in _ARRAYS)
            owners = file["owners"] if "owners" in file else None
            return cls(pointer, parts, counts, int(file["n_parts"]), costs, owners)

    def to_dict(self) -> dict[str, Any]:
        """The metrics that need no owners, by name."""
        return {
            "items": self.n_items,
            "parts": self.n_parts,
            "cut items": int(self.histogram()[2:].sum()),
            "cut-net": self.cut_net(),
            "connectivity - 1": self.connectivity_minus_one(),
            "Σ λ²": self.power(2),
            "λ_max": self.max_connectivity(),
            "mean λ": float(self.connectivity.mean()) if self.n_items else 0.0,
        }

    def _cost_by_connectivity(self) -> NDArray[np.int64]:
        return sums_by_key(np.diff(self.pointer), self.costs, self.n_parts + 1)

    def _cut_levels(self) -> list[tuple[int, int]]:
        """(λ, summed cost) for λ = 2, 3, …, as Python integers: powers of them cannot overflow."""
        return list(enumerate(self._cost_by_connectivity().tolist()))[2:]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Connectivity):
            return NotImplemented
        names = (*_ARRAYS, "owners")  # no owners equal none
        same = (np.array_equal(getattr(self, name), getattr(other, name)) for name in names)
        return self.n_parts == other.n_parts and all(same)

    __hash__ = None  # type: ignore[assignment]
