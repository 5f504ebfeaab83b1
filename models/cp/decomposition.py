"""A fitted CP decomposition in use: everything that needs weights and factors, and no training.

    state_ ─┬─ weights_, factors_, fit_               labelled
            ├─ reconstruct(indices)    x̂ = Σ_r λ_r u_r^(1) ∘ … ∘ u_r^(M)
            ├─ score(X)                1 − ‖X − X̂‖/‖X‖
            ├─ transform(X_new, mode)  rows of new slices of one mode, all other factors fixed
            └─ to_dataset(), from_dataset(dataset)

Indices are named by their labels where the tensor had labels, else by position.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from daskpart.containers.tensor import LabelledTensor, as_tensor
from daskpart.errors import InputError

from .als import product_of_grams
from .layout.layout import TensorLayout
from .state import CPState
from .steps import gram_of, solve_rows

_CHUNK = 1 << 16  # indices that are reconstructed at a time
_FACTOR, _MODES = "factor_", "modes"


class CPModel(TransformerMixin):
    """What a CP estimator offers once it is fitted; a mixin without `fit`.

    Attributes
    ----------
    state_ : CPState
        Set by `fit`.
    nonnegative, ridge
        Parameters of the estimator.
    """

    state_: CPState
    nonnegative: bool
    ridge: float

    @property
    def weights_(self) -> xr.DataArray:
        """λ as DataArray of shape (R,), dim component."""
        state = self._fitted()
        return xr.DataArray(state.weights, dims=_component(state), name="weights")

    @property
    def factors_(self) -> list[xr.DataArray]:
        """One DataArray of shape (I_m, R) a mode, dims (mode, component), labelled by the mode."""
        state = self._fitted()
        return [_labelled(state, mode, factor) for mode, factor in enumerate(state.factors)]

    @property
    def fit_(self) -> float:
        """1 − ‖X − X̂‖/‖X‖ after the last iteration."""
        return float(self._fitted().fit)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Name the columns of `transform`: component0, component1 and so on."""
        names = [f"component{r}" for r in range(self._fitted().n_components)]
        return np.array(names, dtype=object)

    def reconstruct(self, indices: Any) -> Any:
        """Values of the decomposition at some indices.

        Parameters
        ----------
        indices : array of shape (n, n_modes), list of tuples, one tuple, or sparse container
            Labels where the tensor of the fit had labels, else positions. Of a sparse container
            the values at its nonzeros are given.

        Returns
        -------
        values : float64 ndarray of shape (n,), float for one tuple, or sparse container
            For a sparse container the same pattern: a DataArray for a DataArray, sparse.COO else.

        Raises
        ------
        InputError
            For indices that the decomposition does not have: names the first and how many.
        """
        state = self._fitted()
        if isinstance(indices, tuple) and all(np.ndim(index) == 0 for index in indices):
            return float(values_at(state, _positions(state, [indices]))[0])
        if isinstance(indices, np.ndarray | list | tuple):
            return values_at(state, _positions(state, indices))
        tensor = as_tensor(indices)
        aligned = _Aligned(state, tensor)
        values = values_at(state, np.stack([aligned.positions(m) for m in range(tensor.n_modes)]))
        held = LabelledTensor(tensor.coordinates, values, tensor.shape, tensor.dims, tensor.labels)
        return held.to_xarray() if isinstance(indices, xr.DataArray) else held.to_coo()

    def score(self, X: Any, y: Any = None) -> float:
        """The fit to a tensor, 1 − ‖X − X̂‖/‖X‖: 1 is exact.

        Parameters
        ----------
        X : container
            A tensor of the modes of the fit. Modes and indices are matched by name where both have
            names, in any order, and may be some of those of the fit; else by position, and then
            all of them.
        y : ignored

        Returns
        -------
        float

        Raises
        ------
        InputError
            For modes or labels that the decomposition does not have, or other extents.
        """
        state, tensor = self._fitted(), as_tensor(X)
        aligned = _Aligned(state, tensor)
        rows = [aligned.rows(mode) for mode in range(tensor.n_modes)]
        places = np.stack([aligned.positions(mode) for mode in range(tensor.n_modes)])
        values = tensor.values.astype(np.float64)
        inner = float(values @ values_at(state, places))
        grams = product_of_grams(
            *[gram_of(factor[own]) for factor, own in zip(state.factors, rows, strict=True)]
        )
        squared = float(state.weights @ grams @ state.weights)
        norm = float(np.linalg.norm(values))
        return 1.0 - float(np.sqrt(max(norm**2 - 2 * inner + squared, 0.0))) / norm

    def transform(self, X: Any, mode: int | str = 0) -> xr.DataArray:
        """Factor rows of new slices along one mode: the solution with all other factors fixed.

        Parameters
        ----------
        X : container
            A tensor that has the modes of the fit; along `mode` any indices, along the others
            those of the fit. Modes and indices are matched by name where both have names, else by
            position.
        mode : int or str
            The mode that is new, by place or by name.

        Returns
        -------
        DataArray of shape (n_new, R)
            Rows as those of `factors_`, to be used with `weights_`.

        Raises
        ------
        InputError
            For another number of modes, an unknown mode, or indices that the model does not know.
        """
        state, tensor = self._fitted(), as_tensor(X)
        place = _place_of(state, mode)
        aligned = _Aligned(state, tensor)
        coordinates = np.stack(
            [
                aligned.index(m) if m == place else aligned.positions(m)
                for m in range(tensor.n_modes)
            ]
        ).astype(np.int32)
        shape = [len(factor) for factor in state.factors]
        shape[place] = aligned.extent(place)
        layout = TensorLayout.build(coordinates, tensor.values.astype(np.float64), shape)
        factors = [np.ascontiguousarray(factor, np.float64) for factor in state.factors]
        factors[place] = np.ones((shape[place], state.n_components))
        others = [gram_of(factor) for m, factor in enumerate(factors) if m != place]
        rows = factors[place]
        solve_rows(
            layout.mttkrp(place, factors),
            product_of_grams(*others),
            rows,
            np.ones(state.n_components),
            nonnegative=self.nonnegative,
            ridge=self.ridge,
            n_sweeps=200,
        )
        rows /= np.where(state.weights > 0, state.weights, 1.0)
        dim, labels = state.dims[place], aligned.labels(place)
        coords = None if labels is None else {dim: labels}
        return xr.DataArray(rows, dims=(dim, _component(state)), coords=coords)

    def to_dataset(self) -> xr.Dataset:
        """Weights and factors as one `xarray.Dataset`: ``weights`` and ``factor_<mode>``.

        It holds nothing but numbers and labels, so it can be written to zarr or netCDF.
        """
        state = self._fitted()
        arrays = {"weights": self.weights_}
        arrays |= {f"{_FACTOR}{dim}": f for dim, f in zip(state.dims, self.factors_, strict=True)}
        facts = {_MODES: list(state.dims), "fit": state.fit, "iterations": state.epoch}
        return xr.Dataset(arrays, attrs=facts)

    @classmethod
    def from_dataset(cls, dataset: xr.Dataset) -> Self:
        """A fitted model from what `to_dataset` gave; other parameters have their defaults.

        Raises
        ------
        InputError
            When weights or a factor are missing.
        """
        dims = tuple(dataset.attrs.get(_MODES, ())) or tuple(
            str(name).removeprefix(_FACTOR) for name in dataset if str(name).startswith(_FACTOR)
        )
        missing = [n for n in ("weights", *(f"{_FACTOR}{d}" for d in dims)) if n not in dataset]
        if missing or len(dims) < 2:
            raise InputError(
                f"the dataset holds {', '.join(map(str, dataset))}; a decomposition needs weights "
                f"and factor_<mode> for two modes or more{_lacking(missing)}"
            )
        weights = dataset["weights"].to_numpy().astype(np.float64)
        factors = [np.ascontiguousarray(dataset[f"{_FACTOR}{dim}"].to_numpy()) for dim in dims]
        labels = {dim: dataset[dim].to_numpy() for dim in dims if dim in dataset.coords}
        estimator: Any = cls
        model = estimator(weights.size)
        model.state_ = CPState(
            weights,
            factors,
            dims,
            labels,
            fit=float(dataset.attrs.get("fit", np.nan)),
            epoch=int(dataset.attrs.get("iterations", 0)),
        )
        return model

    def _fitted(self) -> CPState:
        check_is_fitted(self, "state_")
        return self.state_


def values_at(state: CPState, positions: NDArray[Any]) -> NDArray[np.float64]:
    """Σ_r λ_r Π_m u_r^(m) at positions of shape (n_modes, n), some thousand at a time."""
    found = np.empty(positions.shape[1])
    for begin in range(0, len(found), _CHUNK):
        chunk = slice(begin, begin + _CHUNK)
        products = np.broadcast_to(
            state.weights, (positions[:, chunk].shape[1], len(state.weights))
        )
        for factor, index in zip(state.factors, positions[:, chunk], strict=True):
            products = products * factor[index]
        found[chunk] = products.sum(axis=1)
    return found


def _labelled(state: CPState, mode: int, values: NDArray[Any]) -> xr.DataArray:
    dim = state.dims[mode]
    coords = {dim: state.labels[dim]} if dim in state.labels else None
    return xr.DataArray(
        values, dims=(dim, _component(state)), coords=coords, name=f"{_FACTOR}{dim}"
    )


def _component(state: CPState) -> str:
    return "component" if "component" not in state.dims else "cp_component"


def _lacking(missing: list[str]) -> str:
    return f"; missing: {', '.join(missing)}" if missing else ""


def _positions(state: CPState, indices: Any) -> NDArray[np.int64]:
    """Positions of shape (n_modes, n) of labels or positions, one index a row."""
    n_modes = len(state.dims)
    if isinstance(indices, np.ndarray):
        if indices.ndim != 2 or indices.shape[1] != n_modes:
            raise InputError(
                f"indices have shape {indices.shape}: give one row of {n_modes} for each value"
            )
        columns: list[Any] = list(indices.T)
    else:
        wrong = [row for row in indices if np.ndim(row) != 1 or len(row) != n_modes]
        if wrong:
            raise InputError(f"{wrong[0]!r} does not name {n_modes} indices, one a mode")
        columns = [list(column) for column in zip(*indices, strict=True)] or [[]] * n_modes
    return np.stack(
        [
            state.index_of(dim).positions(column)
            for dim, column in zip(state.dims, columns, strict=True)
        ]
    )


class _Aligned:
    """A tensor as the model sees it: its modes in the model's order, its indices by label.

    Raises
    ------
    InputError
        For another number of modes, or names of modes that the model does not have.
    """

    def __init__(self, state: CPState, tensor: LabelledTensor) -> None:
        self._state, self._tensor = state, tensor
        if tensor.n_modes != len(state.dims):
            raise InputError(f"a tensor of {tensor.n_modes} modes; the model has {state.dims}")
        self._place = list(range(tensor.n_modes))
        if set(tensor.dims) == set(state.dims):
            self._place = [tensor.dims.index(dim) for dim in state.dims]
        elif _is_named(tensor.dims) and _is_named(state.dims):
            raise InputError(
                f"the tensor has the modes {tuple(tensor.dims)}, the model {state.dims}; rename "
                "them"
            )

    def index(self, mode: int) -> NDArray[Any]:
        """The tensor's own indices of its nonzeros along a mode of the model."""
        return self._tensor.coordinates[self._place[mode]]

    def extent(self, mode: int) -> int:
        """Indices of the tensor along a mode of the model."""
        return int(self._tensor.shape[self._place[mode]])

    def labels(self, mode: int) -> NDArray[Any] | None:
        """Their names."""
        return self._tensor.labels.get(self._tensor.dims[self._place[mode]])

    def positions(self, mode: int) -> NDArray[Any]:
        """Positions in the model of the tensor's nonzeros along a mode."""
        index = self.index(mode)
        if not self._by_name(mode):
            return self.rows(mode)[index]
        used, place = np.unique(index, return_inverse=True)  # names of empty slices may be unknown
        return self._named(mode, used)[place]

    def rows(self, mode: int) -> NDArray[Any]:
        """Positions in the model of all of the tensor's indices along a mode.

        Raises
        ------
        InputError
            For names that the model does not know; without names for another extent.
        """
        extent, known = self.extent(mode), self._state.shape[mode]
        if self._by_name(mode):
            return self._named(mode, np.arange(extent))
        if extent != known:
            raise InputError(
                f"the tensor has {extent} indices along {self._state.dims[mode]}, the model "
                f"{known}; give as many, or name them as in the fit"
            )
        return np.arange(extent)

    def _by_name(self, mode: int) -> bool:
        return self.labels(mode) is not None and self._state.dims[mode] in self._state.labels

    def _named(self, mode: int, index: NDArray[Any]) -> NDArray[Any]:
        labels = self.labels(mode)
        assert labels is not None
        return self._state.index_of(self._state.dims[mode]).positions(labels[index])


def _is_named(dims: Any) -> bool:
    return any(dim != f"mode_{mode}" for mode, dim in enumerate(dims))


def _place_of(state: CPState, mode: int | str) -> int:
    if isinstance(mode, str) and mode in state.dims:
        return state.dims.index(mode)
    if isinstance(mode, int | np.integer) and 0 <= mode < len(state.dims):
        return int(mode)
    raise InputError(f"mode={mode!r} is unknown; give 0 to {len(state.dims) - 1} or {state.dims}")
