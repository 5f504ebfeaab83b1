"""Which rank gets which rows of the training ratings: made here, or read from a file.

--partitioner power …        cut now, for --axis; "auto" cuts both ways and keeps the cheaper
--partitioner partition.npz  as it stands: it says itself what it cuts, and into how many parts
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import daskpart
from daskpart.containers.matrix import LabelledMatrix
from daskpart.errors import InputError
from daskpart.partitions import Partition

from .cut import Cut, measure
from .terminal import say

if TYPE_CHECKING:
    from .fit_mf import FitSettings

PARTITIONERS: dict[str, dict[str, Any]] = {
    "power": {"objective": "power"},
    "connectivity": {"objective": "connectivity"},
    "cut-net": {"objective": "cut-net"},
    "metis": {"method": "metis"},
    "random": {"method": "random"},
    "block": {"method": "block"},
}
DEFAULT_RANKS = 4


@dataclass(frozen=True)
class Deal:
    """Rows (or columns) dealt to ranks.

    Attributes
    ----------
    axis : {"rows", "columns"}
        What is dealt.
    cut : Cut
        Of the ratings, transposed where columns are dealt: what is dealt are its rows.
    eta : int
        Synchronisations an epoch, at most the ranks.
    """

    axis: str
    cut: Cut
    eta: int

    @property
    def n_ranks(self) -> int:
        """K, one part a rank."""
        return self.cut.partition.n_parts


def planned_ranks(settings: FitSettings) -> int:
    """Number of ranks, before anything is read but a partition's file.

    Raises
    ------
    InputError
        If --ranks contradicts the file, or the partitioner is neither a name nor a file.
    """
    given = _given(settings)
    if given is None:
        return settings.ranks or DEFAULT_RANKS
    if settings.ranks not in (None, given.n_parts):
        raise InputError(
            f"--ranks {settings.ranks}, but {settings.partitioner} has {given.n_parts} parts, one "
            f"a rank: leave --ranks away or give {given.n_parts}"
        )
    return given.n_parts


def deal(settings: FitSettings, train: LabelledMatrix) -> Deal:
    """Deal the training ratings.

    Raises
    ------
    InputError
        If the partition does not fit the ratings or the options.
    """
    n_ranks = planned_ranks(settings)
    eta = n_ranks if settings.eta is None else settings.eta
    if eta > n_ranks:
        say(f"note: --eta {eta} is more than {n_ranks} ranks can use; {n_ranks} is taken")
        eta = n_ranks
    given = _given(settings)
    if given is not None:
        axis, cut = _as_given(given, settings, train)
        return Deal(axis, cut, eta)
    axes = ("rows", "columns") if settings.axis == "auto" else (settings.axis or "rows",)
    cuts = [_made(settings, n_ranks, _along(train, axis)) for axis in axes]
    volumes = [cut.connectivity.pasgd_volume(eta) for cut in cuts]
    best = volumes.index(min(volumes))
    return Deal(axes[best], cuts[best], eta)


def _along(train: LabelledMatrix, axis: str) -> LabelledMatrix:
    return train if axis == "rows" else train.transposed()


def _made(settings: FitSettings, n_ranks: int, matrix: LabelledMatrix) -> Cut:
    if n_ranks > matrix.shape[0]:
        raise InputError(
            f"--ranks {n_ranks}, but there are only {matrix.shape[0]:,} {matrix.row_name}s to deal"
        )
    partition = daskpart.partition(
        matrix,
        n_ranks,
        epsilon=settings.epsilon,
        random_state=settings.seed,
        rho=settings.rho,
        engine=settings.engine,
        **PARTITIONERS[settings.partitioner],
    )
    return measure(matrix, partition)


def _given(settings: FitSettings) -> Partition | None:
    """The partition in the file that --partitioner names; None where it names a method."""
    if settings.partitioner in PARTITIONERS:
        return None
    path = Path(settings.partitioner)
    if not path.is_file():
        raise InputError(
            f"--partitioner {settings.partitioner}: neither one of {', '.join(PARTITIONERS)} "
            "nor a file that 'daskpart partition' wrote"
        )
    return Partition.load(path)


def _as_given(given: Partition, settings: FitSettings, train: LabelledMatrix) -> tuple[str, Cut]:
    axis = "columns" if given.info.get("model") == "row-net" else "rows"
    if settings.axis not in (None, "auto", axis):
        raise InputError(
            f"{settings.partitioner} cuts {axis}: it cannot serve --axis {settings.axis}"
        )
    matrix = _along(train, axis)
    given.check_fits(matrix.shape[0], "the ratings", f"{axis} to deal")
    # as a partition of the rows of what is trained on, which weighs less than what was cut
    info = {**given.info, "model": "column-net", "shape": matrix.shape, "nnz": matrix.nnz}
    weights = np.diff(matrix.row_pointer())
    return axis, measure(matrix, Partition(given.assignment, given.n_parts, weights, info))
