"""The tensor of a fit: in this process, or as a Dask array whose blocks stay on the workers.

in memory    plan from its coordinates; each rank's nonzeros are cut off and sent to it
Dask array   plan from summaries (or the coordinates); blocks are split where they lie, and each
             piece goes straight to its rank (`cp_shuffle`)
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from daskpart.containers.tensor import LabelledTensor, as_tensor
from daskpart.errors import InputError

from .cp_planning import MethodPlan, PlanSettings, plan_fit
from .cp_ranks import split_nonzeros
from .planning import is_lazy


@dataclass(frozen=True)
class MemorySource:
    """A tensor in this process."""

    tensor: LabelledTensor

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the modes."""
        return self.tensor.shape

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the modes."""
        return self.tensor.dims

    @property
    def labels(self) -> dict[str, Any]:
        """Names of the indices, where known."""
        return self.tensor.labels

    @property
    def dtype(self) -> str:
        """float32 or float64."""
        return str(self.tensor.values.dtype)

    def plan(self, settings: PlanSettings) -> list[MethodPlan]:
        """See `plan_fit`."""
        return plan_fit(self.tensor, settings)

    def pieces(self, plan: MethodPlan) -> Any:
        """Each rank's nonzeros."""
        assert plan.parts is not None
        return split_nonzeros(self.tensor, plan.parts, plan.settings.n_ranks)

    def fingerprint(self) -> str:
        """A short text that differs for other nonzeros."""
        checksum = zlib.crc32(np.ascontiguousarray(self.tensor.coordinates).data)
        checksum = zlib.crc32(np.ascontiguousarray(self.tensor.values).data, checksum)
        return f"{self.tensor.nnz} nonzeros, checksum {checksum:08x}"


def source_of(X: Any) -> Any:
    """The tensor of a fit from any container, or from a path.

    Raises
    ------
    InputError
        As `daskpart.containers.as_tensor`, or for a Dask array with blocks that are dense or of
        unknown size.
    """
    if is_lazy(X):
        from .cp_shuffle import LazySource

        return LazySource.of(X)
    tensor = as_tensor(X)
    if isinstance(X, str | os.PathLike) and tensor.n_modes < 2:
        raise InputError(f"{X} holds {tensor.n_modes} mode(s); a decomposition needs two or more")
    return MemorySource(tensor)


def same_modes(
    dims: Sequence[str], shape: Sequence[int], source: Any, what: str = "the last fit"
) -> None:
    """Refuse a tensor of other modes or extents (InputError)."""
    if tuple(dims) != tuple(source.dims) or tuple(shape) != tuple(source.shape):
        raise InputError(
            f"the tensor has modes {dict(zip(source.dims, source.shape, strict=True))}, {what} "
            f"{dict(zip(dims, shape, strict=True))}; give a tensor of the same modes"
        )
