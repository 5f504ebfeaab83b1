"""What a net pays for the parts that it touches: a cost table, and what it means for recursion.

    λ                            0  1  2  3  4  …
    CutNet                       0  0  1  1  1      a cut net has paid all: it is removed
    Connectivity                 0  0  1  2  3      a cut net is split, its cost stays
    PowerConnectivity(2)         0  0  4  9 16      split; 4, then 5, then 7 (their Fig. 4)

A bipartition that cuts a (sub)net takes its ancestor from λ to λ + 1, so it costs
table[λ + 1] - table[λ]. However the recursion runs, these differences add up to table[λ] of the
end: that is Theorem 1 of Abubaker et al. for any table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checks import finite_number
from daskpart.errors import InputError

FRACTION_SCALE = 1024


class Objective(Protocol):
    """What recursive bipartitioning and the polish minimise: Σ over nets of cost × table[λ]."""

    @property
    def name(self) -> str:
        """What reports call it."""
        ...

    @property
    def keeps_cut_nets(self) -> bool:
        """Whether a cut net is split; where it never pays again it is removed."""
        ...

    def cost_table(self, n_parts: int) -> NDArray[np.int64]:
        """int64[n_parts + 1], never falling, with cost_table[0] = cost_table[1] = 0."""
        ...


@dataclass(frozen=True)
class CutNet:
    """Each cut net pays once (eq. 4)."""

    name: str = "cut-net"
    keeps_cut_nets: bool = False

    def cost_table(self, n_parts: int) -> NDArray[np.int64]:
        """0, 0, 1, 1, 1, …"""
        return (np.arange(n_parts + 1) > 1).astype(np.int64)


@dataclass(frozen=True)
class ConnectivityMinusOne:
    """A net pays for every part but one (eq. 5)."""

    name: str = "connectivity"
    keeps_cut_nets: bool = True

    def cost_table(self, n_parts: int) -> NDArray[np.int64]:
        """0, 0, 1, 2, 3, …"""
        return np.maximum(np.arange(n_parts + 1, dtype=np.int64) - 1, 0)


@dataclass(frozen=True)
class PowerConnectivity:
    """A cut net pays λ^ρ (eq. 11): few nets of high connectivity rather than a low mean.

    Parameters
    ----------
    rho : float, default=2
        At least 1. A search adds whole numbers up: for a whole ρ the table holds λ^ρ exactly,
        otherwise 1024 λ^ρ, rounded.

    Raises
    ------
    InputError
        rho below 1, not finite, or so large that a sum of costs would not fit in 64 bits.
    """

    rho: float = 2
    name: str = "power"
    keeps_cut_nets: bool = True

    def __post_init__(self) -> None:
        finite_number(self.rho, "rho", least=1)

    @property
    def scale(self) -> int:
        """What λ^ρ is multiplied by in the table: 1 for a whole ρ, else 1024."""
        return 1 if float(self.rho).is_integer() else FRACTION_SCALE

    def cost_table(self, n_parts: int) -> NDArray[np.int64]:
        """0, 0, 2^ρ, 3^ρ, … (times `scale`)."""
        exponent = int(self.rho) if self.scale == 1 else float(self.rho)
        if float(self.rho) * math.log2(n_parts) + math.log2(self.scale) > 40:
            raise InputError(
                f"rho is {self.rho}: with {n_parts} parts λ^rho grows too large"
                " for sums of 64-bit costs; use a smaller rho"
            )
        powers = [round(self.scale * level**exponent) for level in range(n_parts + 1)]
        return np.array([0, 0, *powers[2:]], np.int64)


def objective_named(objective: str | Objective, rho: float = 2) -> Objective:
    """'connectivity', 'cut-net', 'power' (with its ρ), or an objective as it is."""
    if not isinstance(objective, str | type):
        if all(hasattr(objective, name) for name in ("name", "keeps_cut_nets", "cost_table")):
            return objective
    elif objective == "power":
        return PowerConnectivity(rho)
    elif objective == "connectivity":
        return ConnectivityMinusOne()
    elif objective == "cut-net":
        return CutNet()
    raise InputError(
        f"objective is {objective!r}: 'connectivity', 'cut-net', 'power', or an object with "
        "name, keeps_cut_nets and cost_table(n_parts)"
    )
