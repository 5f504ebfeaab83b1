"""The whole state of a CP fit between two iterations, and its form on disk.

    CPState ──save──► run.npz | run.zarr ──load──► the same bits ──► resume as if never stopped

Weights and normalised factors are all that a later iteration reads: Grams follow from them. For
callbacks and checkpoints an iteration is an epoch, as for every model here.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import InputError, ReadError

from .labels import pack_labels, unpack_labels
from .same_fit import require_same_fit
from .storage import read_arrays, write_arrays

_SCALARS = ("fit", "epoch", "dims", "history", "settings")


@dataclass(eq=False)
class CPState:
    """Weights and factors of a CP decomposition, and all else that a fit needs to go on.

    Attributes
    ----------
    weights : float64 ndarray of shape (R,)
        λ.
    factors : list of ndarray of shape (I_m, R), float32 or float64
        One a mode, columns of length 1.
    dims : tuple of str
        Names of the modes.
    labels : dict of str to ndarray
        Of the modes whose indices have names.
    fit : float
        1 − ‖X − X̂‖/‖X‖, NaN before the first iteration.
    epoch : int
        Whole iterations done.
    history : list of dict
        One row an iteration.
    settings : dict
        Of the fit, JSON: what must be equal for a resume to be the same fit.
    """

    weights: NDArray[np.float64]
    factors: list[NDArray[Any]]
    dims: tuple[str, ...]
    labels: dict[str, NDArray[Any]] = field(default_factory=dict)
    fit: float = float("nan")
    epoch: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for mode, factor in enumerate(self.factors):
            if factor.ndim != 2 or factor.shape[1] != self.weights.size:
                raise InputError(
                    f"the factor of mode {mode} has shape {factor.shape}; {self.weights.size} "
                    f"weights need ({self.dims[mode]}, {self.weights.size})"
                )

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the tensor."""
        return tuple(len(factor) for factor in self.factors)

    @property
    def n_components(self) -> int:
        """R, the rank of the decomposition."""
        return int(self.weights.size)

    @property
    def nbytes(self) -> int:
        """Bytes of weights and factors."""
        return self.weights.nbytes + sum(factor.nbytes for factor in self.factors)

    def is_finite(self) -> bool:
        """Whether weights and factors hold neither NaN nor infinity."""
        return all(bool(np.isfinite(array).all()) for array in (self.weights, *self.factors))

    def save(self, path: str | os.PathLike) -> None:
        """Write to `path` (``*.npz`` or ``*.zarr``), whole or not at all; see `Factors.save`."""
        arrays: dict[str, NDArray[Any]] = {"weights": self.weights}
        described: dict[str, Any] = {}
        for mode, (dim, factor) in enumerate(zip(self.dims, self.factors, strict=True)):
            arrays[f"factor_{mode}"] = factor
            packed, described[dim] = pack_labels(self.labels.get(dim), f"labels_{mode}")
            arrays |= packed
        header = {name: getattr(self, name) for name in _SCALARS}
        write_arrays(path, arrays, {**header, "labels": described})

    @classmethod
    def load(cls, path: str | os.PathLike) -> CPState:
        """Read what `save` wrote, bit for bit.

        Raises
        ------
        ReadError
            When `path` is absent, damaged, or holds something else.
        """
        arrays, header = read_arrays(path)
        missing = [name for name in (*_SCALARS, "labels") if name not in header]
        missing += [] if "weights" in arrays else ["weights"]
        if missing:
            raise ReadError(f"{path} holds no CP decomposition: it lacks {', '.join(missing)}.")
        state: dict[str, Any] = {name: header[name] for name in _SCALARS}
        dims = tuple(state.pop("dims"))
        labels = {}
        for mode, dim in enumerate(dims):
            found = unpack_labels(arrays, f"labels_{mode}", header["labels"][dim])
            if found is not None:
                labels[dim] = found
        factors = [arrays[f"factor_{mode}"] for mode in range(len(dims))]
        return cls(arrays["weights"], factors, dims, labels, **state)

    def check_resumes(
        self, settings: dict[str, Any], source: str | os.PathLike = "the checkpoint"
    ) -> None:
        """Check that a fit with these settings may go on from here.

        Raises
        ------
        InputError
            When anything differs; names both values of each difference.
        """
        require_same_fit(self.settings, settings, source)

    def __repr__(self) -> str:
        sizes = " × ".join(
            f"{extent:,} {dim}" for extent, dim in zip(self.shape, self.dims, strict=True)
        )
        return (
            f"CPState({sizes}, {self.n_components} components, after iteration {self.epoch}, "
            f"fit {self.fit:.6f}, {self.nbytes / 1e6:,.1f} MB)"
        )
