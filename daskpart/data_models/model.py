"""What becomes of data that is cut: a hypergraph, and the way back from vertices to nonzeros.

data ──model──▶ Hypergraph ──partition──▶ part of each vertex
  └── nonzero p ──vertex_of──▶ vertex ──────────▶ part of nonzero p
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checks import require_partition
from daskpart._floor.tables import ShownAsTable
from daskpart.connectivity import Connectivity
from daskpart.errors import InputError
from daskpart.hypergraph import Hypergraph

if TYPE_CHECKING:
    from daskpart.containers.tensor import LabelledTensor
    from daskpart.partitions import Partition


@dataclass(frozen=True, eq=False, repr=False)
class DataModel(ShownAsTable):
    """A hypergraph of data, with what it was made of. `daskpart.partition` takes it as data.

    Parameters
    ----------
    hypergraph : Hypergraph
    name : str
        The model: ``"column-net"``, ``"medium-grain"`` …
    shape : tuple of int, optional
        Of the data; none where a hypergraph itself was given.
    nnz : int, optional
        Stored values of the data.
    vertex_of : int32[nnz], optional
        The vertex that each stored value belongs to, in row-major order of the data.
    tensor : LabelledTensor, optional
        The data, where it is a tensor.
    row_length : int, default=1
        Values that travel for each index of a tensor: the rank R of a decomposition.
    facts : dict
        What else is worth telling about how it was made; plain values.
    """

    hypergraph: Hypergraph
    name: str
    shape: tuple[int, ...] | None = None
    nnz: int | None = None
    vertex_of: NDArray[np.int32] | None = None
    tensor: LabelledTensor | None = None
    row_length: int = 1
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def info(self) -> dict[str, Any]:
        """What `Partition.info` records of the data: model, shape, nnz, a row length other than 1,
        and the facts."""
        known: dict[str, Any] = {"model": self.name, "shape": self.shape, "nnz": self.nnz}
        if self.row_length != 1:
            known["row_length"] = self.row_length
        return {name: value for name, value in known.items() if value is not None} | self.facts

    def with_row_work(self, row_work: int) -> DataModel:
        """The same for models that do more with a row than with its nonzeros.

        Parameters
        ----------
        row_work : int
            What each vertex weighs more: the work on a row, in nonzeros.
        """
        weights = self.hypergraph.vertex_weights + row_work
        return replace(self, hypergraph=replace(self.hypergraph, vertex_weights=weights))

    def nonzero_parts(self, partition: Partition) -> NDArray[np.int32]:
        """The part of each stored value, int32[nnz], in row-major order of the data.

        Raises
        ------
        InputError
            The partition was made for other data or by another model; or this model does not say
            where a stored value goes.
        """
        self._check_fits(partition)
        if self.vertex_of is None:
            raise InputError(
                f"the model {self.name!r} does not say which vertex a nonzero belongs to: "
                "use a model of a matrix or a tensor"
            )
        return partition.assignment[self.vertex_of]

    def connectivity(self, partition: Partition) -> Connectivity:
        """The parts that each net touches; see `Connectivity.from_partition`."""
        self._check_fits(partition)
        return Connectivity.from_partition(self.hypergraph, partition)

    def mode_connectivity(self, partition: Partition, mode: int) -> Connectivity:
        """The parts that each index of one mode of a tensor touches; counts are nonzeros.

        Parameters
        ----------
        partition : Partition
        mode : int
            0 to n_modes - 1.

        Raises
        ------
        InputError
            The model is not of a tensor, or has no such mode.
        """
        if self.tensor is None:
            raise InputError(f"the model {self.name!r} has no modes: use one of a tensor")
        if not 0 <= mode < self.tensor.n_modes:
            raise InputError(f"mode is {mode}: this tensor has 0 to {self.tensor.n_modes - 1}")
        extent = self.tensor.shape[mode]
        return Connectivity.from_pairs(
            self.tensor.coordinates[mode],
            self.nonzero_parts(partition),
            extent,
            partition.n_parts,
            costs=np.full(extent, self.row_length, np.int64),
        )

    def _check_fits(self, partition: Partition) -> None:
        require_partition(partition)
        made_by = partition.info.get("model")
        if made_by not in (None, "hypergraph", self.name):
            raise InputError(
                f"this partition was made by the model {made_by!r}, not by {self.name!r}: "
                "build that model, or cut this one"
            )
        partition.check_fits(
            self.hypergraph.n_vertices, "the model", shape=self.shape, nnz=self.nnz
        )

    def _rows(self) -> dict[str, Any]:
        hypergraph = self.hypergraph
        sizes = {
            "vertices": hypergraph.n_vertices,
            "nets": hypergraph.n_nets,
            "pins": hypergraph.n_pins,
        }
        return {name: value for name, value in self.info.items() if name != "model"} | sizes

    @property
    def _title(self) -> str:
        return f"DataModel {self.name}"
