"""What Parsa gives: parts of the data, a place for each parameter, and what that saves.

ParsaResult
  partition    Partition of U: the part of each datum
  owners       the part that keeps each parameter of V
  neighbours   N(U_i): what the next data can be assigned against (incremental)
  report       memory Σ|N(U_i)| and traffic, greatest and total, beside random parts
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.archive import opened_npz
from daskpart._floor.atomic import replacing
from daskpart._floor.tables import ShownAsTable
from daskpart.connectivity import Connectivity
from daskpart.errors import ReadError
from daskpart.partitions import Partition

from .neighbours import NeighbourSets
from .placement import Placement, place_parameters, random_traffic

_RANDOM, _GAIN = "random: ", "improvement: "


@dataclass(frozen=True, eq=False, repr=False)
class ParsaResult(ShownAsTable):
    """Data and parameters placed on machines. `daskpart.parsa` makes it.

    Parameters
    ----------
    partition : Partition
        Of the data; `partition.info` says how it was made.
    owners : int32[n_parameters]
        The part that keeps each parameter, one of those that need it; -1 where none does.
    traffic : int64[n_parts]
        Parameters that each part sends and receives when all pull what they need once.
    neighbours : NeighbourSets
        N(U_i), of the data of an earlier result too where new data were assigned against it.
    report : dict
        Name → number; see `to_dict`.
    n_data_seen : int, default=0
        Data of this and of all earlier results that it was assigned against.
    """

    partition: Partition
    owners: NDArray[np.int32]
    traffic: NDArray[np.int64]
    neighbours: NeighbourSets
    report: dict[str, Any] = field(default_factory=dict)
    n_data_seen: int = 0
    _title = "Parsa"

    @property
    def n_parts(self) -> int:
        """k, the number of machines."""
        return self.partition.n_parts

    @property
    def n_parameters(self) -> int:
        """``|V|``, untouched parameters included."""
        return len(self.owners)

    @property
    def placement(self) -> Partition:
        """Of the parameters, for `daskpart.collectives.ParameterServer`: those that no part needs
        are given to the parts in turn."""
        in_turn = np.arange(self.n_parameters, dtype=np.int32) % self.n_parts
        return Partition(np.where(self.owners >= 0, self.owners, in_turn), self.n_parts)

    def connectivity(self) -> Connectivity:
        """Parameter → parts that need it, with the owners; every pair counts 1."""
        return self.neighbours.connectivity(self.owners)

    def to_dict(self) -> dict[str, Any]:
        """Sizes; memory (parameters needed) and traffic, greatest part and total; seconds.

        ``improvement: x`` is (random - x) / x, as in the paper: 1 means that random parts have
        twice as much, inf that only random parts have any. Random parts have as many data each, and
        random owners among the parts that need a parameter. ``traffic, bound``: no placement of
        these neighbour sets has a smaller maximum.
        """
        return dict(self.report)

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to one `.npz` file (no pickle); an old one goes when it is whole."""
        told = {"info": self.partition.info, "report": self.report}
        with replacing(path) as file:
            np.savez_compressed(
                file,
                assignment=self.partition.assignment,
                weights=self.partition.weights,
                n_parts=np.int64(self.n_parts),
                n_data_seen=np.int64(self.n_data_seen),
                owners=self.owners,
                traffic=self.traffic,
                neighbours=self.neighbours.bits,
                told=np.array(json.dumps(told)),
            )

    @classmethod
    def load(cls, path: str | PathLike[str]) -> ParsaResult:
        """Read what `save` wrote.

        Raises
        ------
        ReadError
            The file holds something else.
        """
        with opened_npz(path) as file:
            if "neighbours" not in file:
                raise ReadError(f"{path} holds no ParsaResult, only {', '.join(file.files)}")
            told, n_parts = json.loads(str(file["told"])), int(file["n_parts"])
            partition = Partition(file["assignment"], n_parts, file["weights"], told["info"])
            sets = NeighbourSets(file["neighbours"], n_parts)
            seen = int(file["n_data_seen"])
            return cls(partition, file["owners"], file["traffic"], sets, told["report"], seen)

    def __eq__(self, other: object) -> bool:
        """Same parts, owners and neighbour sets; seconds do not count."""
        if not isinstance(other, ParsaResult):
            return NotImplemented
        return (
            self.partition == other.partition
            and np.array_equal(self.owners, other.owners)
            and np.array_equal(self.neighbours.bits, other.neighbours.bits)
        )

    __hash__ = None  # type: ignore[assignment]


def placed(sets: NeighbourSets) -> tuple[Placement, dict[str, Any]]:
    """Partition V for neighbour sets, and what memory and traffic come to."""
    placement = place_parameters(sets.bits, sets.sizes)
    told = _footprint(sets, placement.traffic)
    return placement, {**told, "traffic, bound": placement.bound, "sweeps": placement.n_sweeps}


def compared(told: dict[str, Any], by_chance: NeighbourSets, random_state: int) -> dict[str, Any]:
    """What random parts and owners cost, and the improvement over them."""
    traffic = by_chance.sizes.copy()
    random_traffic(by_chance.bits, random_state % 2**32, traffic)
    chance = _footprint(by_chance, traffic)
    gains = {_GAIN + name: _gain(value, told[name]) for name, value in chance.items()}
    return {**{_RANDOM + name: value for name, value in chance.items()}, **gains}


def _gain(by_chance: int, found: int) -> float:
    if found:
        return (by_chance - found) / found
    return math.inf if by_chance else 0.0


def _footprint(sets: NeighbourSets, traffic: NDArray[np.int64]) -> dict[str, int]:
    return {
        "memory, maximum": int(sets.sizes.max()),
        "memory, total": int(sets.sizes.sum()),
        "traffic, maximum": int(traffic.max()),
        "traffic, total": int(traffic.sum()),
    }
