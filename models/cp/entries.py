"""Entries of a tensor as a fitted model sees them: modes by name, indices by label, values beside.

container, DataFrame, records ─► Aligned, positions_of ─► positions in the factors
                                                              │
Entries(positions, values) ───────────────────────────►  values_at(state, positions)

stored entries ─┬─ trained on
                └─ held out, a share drawn by random_state: `split_entries`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checksum import checksum
from daskpart._floor.distinct import distinct
from daskpart.containers.coordinates import refuse_nonfinite
from daskpart.containers.tables import table_in_memory
from daskpart.containers.tensor import LabelledTensor, Missing, as_tensor, columns_of
from daskpart.errors import InputError

from .state import CPState

_CHUNK = 1 << 16  # indices whose values are computed at a time


@dataclass(frozen=True, eq=False)
class Entries:
    """Some entries of a tensor.

    Attributes
    ----------
    positions : int array of shape (n_modes, n)
        In the factors.
    values : float64 ndarray of shape (n,)
    """

    positions: NDArray[Any]
    values: NDArray[np.float64]

    @classmethod
    def of(cls, data: Any, state: CPState, values: Any = None) -> Entries:
        """From a container of entries with the modes of a state; zeros are entries too.

        Parameters
        ----------
        data : container, DataFrame, or list of records
        state : CPState
        values : array of shape (n,), optional
            Of the lines of a DataFrame whose columns are all modes.

        Raises
        ------
        InputError
            For modes or indices that the state does not have, values that are not finite, and
            when there are none.
        """
        import pandas as pd  # here, as ranks import this module

        data = table_in_memory(data)
        if isinstance(data, pd.DataFrame | list):
            indices, numbers = columns_of(data, values)
            if not len(numbers):
                raise InputError("no entries were given: the table has no lines; give at least one")
            positions, numbers = positions_of(state, indices), numbers.astype(np.float64)
            refuse_nonfinite(numbers, [*positions], state.dims, "values",
                             [state.labels.get(dim) for dim in state.dims])  # fmt: skip
            return cls(positions, numbers)
        tensor = as_tensor(data, missing="unknown")
        return cls(Aligned(state, tensor).places(), tensor.values.astype(np.float64))

    def fingerprint(self) -> str:
        """A short text that differs for other entries."""
        return f"{self.values.size} entries, checksum {checksum(self.positions, self.values):08x}"


def split_entries(
    tensor: LabelledTensor, share: float, random_state: int
) -> tuple[LabelledTensor, Entries]:
    """A tensor without a share of its entries, and these.

    Raises
    ------
    InputError
        When the share leaves nothing on one of the sides.
    """
    n_held = round(share * tensor.nnz)
    if not 0 < n_held < tensor.nnz:
        raise InputError(
            f"validation_fraction={share} of {tensor.nnz} entries holds out {n_held}: give a share "
            "that leaves some on both sides"
        )
    seed = np.random.SeedSequence(random_state, spawn_key=(0, 0))
    held = np.zeros(tensor.nnz, bool)
    held[np.random.default_rng(seed).permutation(tensor.nnz)[:n_held]] = True
    rest = replace(
        tensor,
        coordinates=np.ascontiguousarray(tensor.coordinates[:, ~held]),
        values=tensor.values[~held],
    )
    return rest, Entries(tensor.coordinates[:, held], tensor.values[held].astype(np.float64))


def entries_of(X: Any, y: Any = None, missing: Missing = "zero") -> LabelledTensor:
    """Any container as a tensor; `y` are the values of a DataFrame, and no matter else."""
    import pandas as pd

    X = table_in_memory(X)
    return as_tensor(X, values=y if isinstance(X, pd.DataFrame) else None, missing=missing)


def values_at(state: CPState, positions: NDArray[Any]) -> NDArray[np.float64]:
    """Values of a decomposition at positions of shape (n_modes, n)."""
    return values_of(state.weights, state.factors, positions)


def values_of(
    weights: NDArray[np.float64], factors: Sequence[NDArray[Any]], positions: NDArray[Any]
) -> NDArray[np.float64]:
    """Σ_r λ_r Π_m u_r^(m) at positions in the factors, some thousand at a time."""
    found = np.empty(positions.shape[1])
    for begin in range(0, len(found), _CHUNK):
        chunk = slice(begin, begin + _CHUNK)
        products = np.broadcast_to(weights, (positions[:, chunk].shape[1], len(weights)))
        for factor, index in zip(factors, positions[:, chunk], strict=True):
            products = products * factor[index]
        found[chunk] = products.sum(axis=1)
    return found


def fit_at(values: NDArray[np.float64], fitted: NDArray[np.float64]) -> float:
    """1 − ‖x − x̂‖/‖x‖ over some entries (InputError where all are 0)."""
    if not values.any():
        raise InputError(
            "all values are 0, and the fit, 1 − ‖x − x̂‖/‖x‖, divides by their norm: give other "
            "entries beside them, or judge errors by predict"
        )
    return 1.0 - float(np.linalg.norm(values - fitted) / np.linalg.norm(values))


def positions_of(state: CPState, indices: Any, *, strict: bool = True) -> NDArray[np.int64]:
    """Positions of shape (n_modes, n) of labels or positions, one index a row.

    Unknown ones are refused, or −1 where not `strict`.
    """
    import pandas as pd

    n_modes = len(state.dims)
    if isinstance(indices, pd.DataFrame):
        named = all(dim in indices.columns for dim in state.dims)
        if not named and indices.shape[1] != n_modes:
            raise InputError(
                f"a DataFrame with the columns {', '.join(map(str, indices.columns[:8]))} does not "
                f"name indices: give the columns {', '.join(state.dims)}"
            )
        columns: list[Any] = [
            indices[dim] if named else indices.iloc[:, place]
            for place, dim in enumerate(state.dims)
        ]
    elif isinstance(indices, np.ndarray):
        if indices.ndim != 2 or indices.shape[1] != n_modes:
            raise InputError(
                f"indices have shape {indices.shape}: give one row of {n_modes} for each value"
            )
        columns = list(indices.T)
    else:
        wrong = [row for row in indices if not _is_row(row) or len(row) != n_modes]
        if wrong:
            raise InputError(f"{wrong[0]!r} does not name {n_modes} indices, one a mode")
        columns = [list(column) for column in zip(*indices, strict=True)] or [[]] * n_modes
    indexes = [state.index_of(dim) for dim in state.dims]
    return np.stack([
        index.positions(column, "predict with unknown='nan'") if strict else index.find(column)
        for index, column in zip(indexes, columns, strict=True)
    ])  # fmt: skip


def _is_row(indices: Any) -> bool:
    # no look inside lists and tuples: numpy makes no array of labels that are arrays themselves
    return isinstance(indices, list | tuple) or np.ndim(indices) == 1


class Aligned:
    """A tensor as the model sees it: its modes in the model's order, its indices by label.

    Where the tensor has labels and the model has none, labels are positions in the model, as those
    of a DataFrame are.

    Raises
    ------
    InputError
        For another number of modes, or names of modes that the model does not have.
    """

    def __init__(self, state: CPState, tensor: LabelledTensor) -> None:
        self._state, self.tensor = state, tensor
        if tensor.n_modes != len(state.dims):
            raise InputError(f"a tensor of {tensor.n_modes} modes; the model has {state.dims}")
        self._place = list(range(tensor.n_modes))
        if set(tensor.dims) == set(state.dims):
            self._place = [tensor.dims.index(dim) for dim in state.dims]
        elif is_named(tensor.dims) and is_named(state.dims):
            raise InputError(
                f"the tensor has the modes {tuple(tensor.dims)}, the model {state.dims}; rename "
                "them"
            )

    def index(self, mode: int) -> NDArray[Any]:
        """The tensor's own indices of its nonzeros along a mode of the model."""
        return self.tensor.coordinates[self._place[mode]]

    def extent(self, mode: int) -> int:
        """Indices of the tensor along a mode of the model."""
        return int(self.tensor.shape[self._place[mode]])

    def labels(self, mode: int) -> NDArray[Any] | None:
        """Their names."""
        return self.tensor.labels.get(self.tensor.dims[self._place[mode]])

    def positions(self, mode: int) -> NDArray[Any]:
        """Positions in the model of the tensor's nonzeros along a mode."""
        index = self.index(mode)
        if self.labels(mode) is None:
            return self.rows(mode)[index]
        used = distinct(index, self.extent(mode))  # names of empty slices may be unknown
        places = np.full(self.extent(mode), -1, np.int32)
        places[used] = self._named(mode, used)
        return places[index]

    def places(self, new: int | None = None) -> NDArray[Any]:
        """Positions of the nonzeros in the model, mode by mode; along a `new` one in the tensor."""
        modes = range(self.tensor.n_modes)
        return np.stack([self.index(m) if m == new else self.positions(m) for m in modes])

    def rows(self, mode: int) -> NDArray[Any]:
        """Positions in the model of all of the tensor's indices along a mode.

        Raises
        ------
        InputError
            For names that the model does not know; without names for another extent.
        """
        extent, known = self.extent(mode), self._state.shape[mode]
        if self.labels(mode) is not None:
            return self._named(mode, np.arange(extent))
        if extent != known:
            raise InputError(
                f"the tensor has {extent} indices along {self._state.dims[mode]}, the model "
                f"{known}; give as many, or name them as in the fit"
            )
        return np.arange(extent)

    def _named(self, mode: int, index: NDArray[Any]) -> NDArray[Any]:
        labels = self.labels(mode)
        assert labels is not None
        return self._state.index_of(self._state.dims[mode]).positions(labels[index])


def is_named(dims: Any) -> bool:
    """Whether dimensions have other names than those that say their place, here or in xarray."""
    return any(dim not in (f"mode_{axis}", f"dim_{axis}") for axis, dim in enumerate(dims))
