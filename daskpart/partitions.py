"""A partition: which part each vertex goes to, how well that balances, and what it costs.

assignment   1 0 0 1 2        order 1 2 | 0 3 | 4        part_pointer 0 2 4 5
weights      3 1 2 1 4        part_weights 3 4 4         imbalance max/mean - 1 = 0.09
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._floor.archive import opened_npz
from ._floor.atomic import replacing
from ._floor.checks import amounts, as_array, require_like, whole_number
from ._floor.sums import sums_by_key
from ._floor.tables import ShownAsTable
from ._incidence import group
from .connectivity import Connectivity
from .errors import InputError
from .hypergraph import Hypergraph

if TYPE_CHECKING:
    from .data_models import DataModel

# models whose nets are no rows that travel, and what they are
WITHOUT_ROWS = {"graph": "edges", "stochastic": "nets of mini-batches that were drawn"}
_TOLD = ("method", "objective", "model", "engine", "epsilon", "random_state", "seconds")


@dataclass(frozen=True, repr=False)
class PartitionReport(ShownAsTable):
    """Balance of a partition and, where the hypergraph is known, its metrics. Prints as a table."""

    values: dict[str, Any]
    _title = "Partition report"

    def to_dict(self) -> dict[str, Any]:
        """Name → value."""
        return dict(self.values)


@dataclass(frozen=True, eq=False, repr=False)
class Partition(ShownAsTable):
    """An assignment of vertices to parts.

    Parameters
    ----------
    assignment : int32[n_vertices]
        The part, 0 … n_parts - 1, of each vertex.
    n_parts : int
        At least 1. A part may be empty.
    weights : int64[n_vertices], optional
        Vertex weights; 1 each if not given.
    info : dict, optional
        How it was made: method, objective, epsilon, random_state, seconds, model, shape, nnz, …
        Plain values only (they are saved as JSON).

    Raises
    ------
    InputError
        A part out of range, a wrong shape, a negative or NaN weight.

    Examples
    --------
    >>> import daskpart
    >>> partition = daskpart.Partition([0, 0, 1, 1, 1], n_parts=2)
    >>> partition.part_weights.tolist(), partition.members(0).tolist()
    ([2, 3], [0, 1])
    """

    assignment: NDArray[np.int32]
    n_parts: int
    weights: NDArray[np.int64] = None  # type: ignore[assignment]
    info: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n_parts = whole_number(self.n_parts, "n_parts", least=1)
        assignment = _checked_assignment(self.assignment, n_parts)
        object.__setattr__(self, "assignment", assignment)
        object.__setattr__(self, "n_parts", n_parts)
        object.__setattr__(self, "weights", amounts(self.weights, len(assignment), "vertex weight"))

    @property
    def n_vertices(self) -> int:
        """Number of vertices."""
        return len(self.assignment)

    @cached_property
    def part_weights(self) -> NDArray[np.int64]:
        """int64[n_parts]: the weight of each part."""
        return sums_by_key(self.assignment, self.weights, self.n_parts)

    @property
    def imbalance(self) -> float:
        """Heaviest part over the mean part, less 1. 0 where nothing has a weight.

        KaHyPar and Mt-KaHyPar divide by the mean rounded up to a whole number, and tell less.
        """
        total = int(self.part_weights.sum())
        return int(self.part_weights.max()) * self.n_parts / total - 1 if total else 0.0

    @cached_property
    def _grouped(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        return group(self.assignment, np.arange(self.n_vertices, dtype=np.int32), self.n_parts)

    @property
    def order(self) -> NDArray[np.int64]:
        """int64[n_vertices]: vertices by part, in rising order within a part."""
        return self._grouped[1].astype(np.int64)

    @property
    def part_pointer(self) -> NDArray[np.int64]:
        """int64[n_parts + 1]: part k is ``order[part_pointer[k]:part_pointer[k + 1]]``."""
        return self._grouped[0]

    def members(self, part: int) -> NDArray[np.int64]:
        """The vertices of one part, rising."""
        part = whole_number(part, "part", least=0, most=self.n_parts - 1)
        pointer, grouped = self._grouped
        return grouped[pointer[part] : pointer[part + 1]].astype(np.int64)

    def check_fits(
        self,
        n_vertices: int,
        what: str = "the data",
        each: str = "",
        *,
        shape: tuple[int, ...] | None = None,
        nnz: int | None = None,
    ) -> None:
        """Refuse a partition of the wrong length or, where it was recorded, made for other data.

        Parameters
        ----------
        n_vertices : int
            What there is to assign.
        what, each : str
            Words for the error: "the data" that has so many "rows".
        shape : tuple of int, optional
        nnz : int, optional
            Of the data, to be those that the partition was made for.

        Raises
        ------
        InputError
        """
        if self.n_vertices != n_vertices:
            raise InputError(
                f"this partition assigns {self.n_vertices} vertices, {what} has "
                f"{f'{n_vertices} {each}'.strip()}: "
                "partition this data, or pass the data that the partition was made for"
            )
        for name, given in (("shape", shape), ("nnz", nnz)):
            made_for = self.info.get(name)
            known = tuple(made_for) if isinstance(made_for, list | tuple) else made_for
            if given is not None and known is not None and known != given:
                raise InputError(
                    f"this partition was made for data of {name} {known}, {what} has {given}: "
                    "partition this data, or pass the data that the partition was made for"
                )

    def nonzero_parts(self, data: Any) -> NDArray[np.int32]:
        """The part of each stored value of the data that was cut, int32[nnz], in row-major order.

        A zero that a tensor stores is no value, and is left out.

        Parameters
        ----------
        data : container
            The matrix or tensor that `daskpart.partition` cut, in any container; its model is built
            once more to find the vertex of each value. Who has the `DataModel` at hand asks that.

        Raises
        ------
        InputError
            The data is not what was cut, or a hypergraph was cut.
        """
        from .data_models import naming

        return naming.nonzero_parts(data, self)

    def report(self, hypergraph: Hypergraph | None = None) -> PartitionReport:
        """Balance (to four digits) and origin; with the hypergraph all metrics of connectivity."""
        values = {name: self.info[name] for name in _TOLD if self.info.get(name) is not None}
        if "refined" in self.info:
            # that of a power that is not whole has all the digits of a float
            before, after = (round(self.info[f"metric_{when}"], 2) for when in ("before", "after"))
            values["refined"] = f"{self.info['refined']} {before:,} → {after:,}"
        values |= {
            "vertices": self.n_vertices,
            "parts": self.n_parts,
            "imbalance": round(self.imbalance, 4),
            **{
                f"imbalance of further weight {place}": round(each, 4)
                for place, each in enumerate(self.info.get("further_imbalances", ()))
            },
            "lightest part": int(self.part_weights.min()),
            "heaviest part": int(self.part_weights.max()),
            "empty parts": int(np.count_nonzero(np.diff(self.part_pointer) == 0)),
        }
        if hypergraph is not None:
            connectivity = Connectivity.from_partition(hypergraph, self)
            values |= connectivity.to_dict()
            values["sum of external degrees"] = connectivity.soed()
            if self.info.get("model") not in WITHOUT_ROWS:
                values["rows of one expand and reduce"] = connectivity.pasgd_volume(1)
        return PartitionReport(values)

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to one `.npz` file (no pickle); an old one goes when it is whole."""
        with replacing(path) as file:
            np.savez_compressed(
                file,
                assignment=self.assignment,
                n_parts=np.int64(self.n_parts),
                weights=self.weights,
                info=np.array(json.dumps(self.info, default=_plain)),
            )

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Partition:
        """Read what `save` wrote, tuples in `info` as lists; ReadError for a damaged file."""
        with opened_npz(path) as file:
            info = json.loads(str(file["info"]))
            return cls(file["assignment"], int(file["n_parts"]), file["weights"], info)

    def write(self, path: str | PathLike[str]) -> None:
        """Write the part of each vertex as text, one a line, as hMETIS, METIS and KaHyPar do.

        `from_file` reads it back. Weights and `info` are left out: `save` keeps them.

        Raises
        ------
        InputError
            The file cannot be written.
        """
        from .writers import write_parts

        write_parts(self.assignment, path)

    @classmethod
    def from_file(
        cls,
        path: str | PathLike[str],
        hypergraph: Hypergraph | DataModel | None = None,
        *,
        n_parts: int | None = None,
    ) -> Partition:
        """Read the result of another partitioner: one part a vertex, counted from 0.

        Parameters
        ----------
        path : str or path-like
            Numbers in lines, one or more a line; also compressed (.gz, .xz, .bz2).
        hypergraph : Hypergraph or DataModel, optional
            What was cut: checks the number of vertices, and gives their weights.
        n_parts : int, optional
            By default one more than the largest part in the file.

        Raises
        ------
        ReadError
            The file is missing or empty; or has a number that is not whole, is negative or is not
            below `n_parts`: with the line.
        InputError
            The file has another number of vertices than the hypergraph.
        """
        from .readers.parts import read_parts

        assignment, largest = read_parts(path, n_parts)
        info: dict[str, Any] = {"method": "file", "source": str(path)}
        weights = np.ones(len(assignment), np.int64)
        if hypergraph is not None:
            if isinstance(hypergraph, Hypergraph):
                info["model"] = "hypergraph"
            else:
                wanted = "the Hypergraph or the DataModel that was cut"
                require_like(hypergraph, "hypergraph", ("hypergraph", "info"), wanted)
                info |= hypergraph.info
                hypergraph = hypergraph.hypergraph
            weights = hypergraph.vertex_weights
            if len(weights) != len(assignment):
                raise InputError(
                    f"{path}: {len(assignment)} parts, but the hypergraph has {len(weights)} "
                    "vertices: give the file that was made for it"
                )
        return cls(assignment, largest + 1 if n_parts is None else n_parts, weights, info)

    def __eq__(self, other: object) -> bool:
        """Same parts of the same weighted vertices; how it was made does not count."""
        if not isinstance(other, Partition):
            return NotImplemented
        return (
            self.n_parts == other.n_parts
            and np.array_equal(self.assignment, other.assignment)
            and np.array_equal(self.weights, other.weights)
        )

    __hash__ = None  # type: ignore[assignment]

    def _rows(self) -> dict[str, Any]:
        return self.report().to_dict()


def _checked_assignment(assignment: ArrayLike, n_parts: int) -> NDArray[np.int32]:
    given = as_array(assignment, "part numbers")
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise InputError(
            f"assignment of shape {given.shape} and type {given.dtype}: "
            "give one part number (a whole number) for each vertex"
        )
    wrong = np.flatnonzero((given < 0) | (given >= n_parts))
    if len(wrong):
        raise InputError(
            f"vertex {wrong[0]} is in part {given[wrong[0]]}: parts are 0 to {n_parts - 1}"
        )
    return given.astype(np.int32, copy=False)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)
