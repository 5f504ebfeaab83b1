"""The tensor of a fit: in this process, or as a Dask array whose blocks stay on the workers.

in memory    plan from its coordinates; each rank's nonzeros are cut off and sent to it
Dask array   plan from summaries (or the coordinates); blocks are split where they lie, and each
             piece goes straight to its rank (`shuffle`)
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checksum import checksum
from daskpart.containers.tensor import LabelledTensor
from daskpart.errors import InputError
from daskpart.models.base.problem import Problem

from .entries import Entries, split_entries
from .plan import CPPlan, PlanSettings, plan_fit
from .ranks import split_nonzeros
from .state import CPState


class TensorProblem(Problem):
    """What is decomposed.

    Attributes
    ----------
    shape : tuple of int
        Extents of the modes.
    dims : tuple of str
        Names of the modes.
    labels : dict of str to ndarray
        Names of the indices, where known.
    dtype : str
        float32 or float64.
    tensor : LabelledTensor or None
        None: not in this process.
    validation : Entries or None
        Entries to measure errors on.
    fixed : dict of int to ndarray
        Factors that stay, by the place of their mode, as `fixed_factors` gives them.
    """

    shape: Any
    dims: Any
    labels: Any
    dtype: Any
    tensor: Any
    validation: Entries | None = None
    fixed: dict[int, NDArray[Any]]

    @property
    def n_features(self) -> int | None:  # type: ignore[override]
        """Columns of a matrix; a tensor of more modes has no one number."""
        return int(self.shape[1]) if len(self.shape) == 2 else None

    @abstractmethod
    def plan(self, settings: PlanSettings) -> list[CPPlan]:
        """See `plan_fit`."""

    @abstractmethod
    def pieces(self, plan: CPPlan) -> Any:
        """Each rank's nonzeros: a list, or a Dask collection."""

    def with_validation(self, given: Any, share: float, random_state: int) -> TensorProblem:
        """The same with entries to measure errors on: those given, or a share of its own.

        Raises
        ------
        InputError
            For entries of other modes or indices; for a share of a tensor that is not here.
        """
        if given is not None:
            self.validation = Entries.of(given, self.blank(1))
        elif share:
            if self.tensor is None:
                raise InputError(
                    "validation_fraction needs the tensor in memory; of a lazy one give validation="
                )
            self.tensor, self.validation = split_entries(self.tensor, share, random_state)
        return self

    def blank(self, n_components: int) -> CPState:
        """A state of these modes and labels, its factors 0."""
        factors = [np.zeros((extent, n_components)) for extent in self.shape]
        return CPState(np.ones(n_components), factors, tuple(self.dims), dict(self.labels))

    def identity(self) -> dict[str, Any]:
        """What must be equal for a resumed fit to be the same fit."""
        return {"data": self.fingerprint(), "shape": [*self.shape]}

    def named(self, state: CPState) -> CPState:
        """A state of this tensor with its names, whatever they were then."""
        return replace(state, dims=tuple(self.dims), labels=dict(self.labels))

    def fingerprint_of_validation(self) -> str:
        """A short text that differs for other held-out entries."""
        return "" if self.validation is None else self.validation.fingerprint()

    def check_same(self, state: CPState) -> None:
        """Refuse a tensor of other modes, extents or labels than those of a fit (InputError)."""
        if state.dims != tuple(self.dims) or state.shape != tuple(self.shape):
            raise InputError(
                f"the tensor has modes {dict(zip(self.dims, self.shape, strict=True))}, the last "
                f"fit {dict(zip(state.dims, state.shape, strict=True))}; give a tensor of the same "
                "modes; new slices of one of them are taken by partial_fit(slices, mode=…)"
            )
        for dim in state.dims:
            known, given = state.labels.get(dim), self.labels.get(dim)
            same = (
                known is given if known is None or given is None else np.array_equal(known, given)
            )
            if not same:
                raise InputError(f"the {dim} labels differ from those of the last fit")


@dataclass(eq=False)
class MemoryTensor(TensorProblem):
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

    def plan(self, settings: PlanSettings) -> list[CPPlan]:
        """See `plan_fit`."""
        return plan_fit(self.tensor, settings)

    def pieces(self, plan: CPPlan) -> Any:
        """Each rank's nonzeros."""
        assert plan.parts is not None
        return split_nonzeros(self.tensor, plan.parts, plan.n_ranks)

    @cached_property
    def _stored(self) -> str:
        found = checksum(self.tensor.coordinates, self.tensor.values)
        return f"{self.tensor.nnz} nonzeros, checksum {found:08x}"

    def fingerprint(self) -> str:
        """A short text that differs for other nonzeros, and other extents."""
        return f"{' × '.join(map(str, self.shape))}, {self._stored}"

    def identity(self) -> dict[str, Any]:
        """What must be equal for a resumed fit to be the same fit."""
        return {**super().identity(), "data": self._stored}
