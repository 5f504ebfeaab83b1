"""A fitted CP decomposition in use: everything that needs weights and factors, and no training.

    state_ ─┬─ weights_, factors_, fit_, intercept_   labelled
            ├─ reconstruct(indices)    x̂ = Σ_r λ_r u_r^(1) ∘ … ∘ u_r^(M), or a probability
            ├─ predict(indices)        the same, unknown indices as NaN where asked for
            ├─ score(X)                1 − ‖X − X̂‖/‖X‖
            ├─ transform(X_new, mode)  rows of new slices of one mode, all other factors fixed
            └─ to_dataset(), from_dataset(dataset)

Indices are named by their labels where the tensor had labels, else by position.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy.special import expit

from daskpart._floor.checks import one_of
from daskpart.containers.tables import table_in_memory
from daskpart.containers.tensor import LabelledTensor, Missing, as_tensor
from daskpart.errors import InputError
from daskpart.models.base.components import COMPONENT, ComponentModel
from daskpart.models.base.fitted import as_fitted
from daskpart.models.base.labels import as_output
from daskpart.models.optimisation.nonnegative import nonnegative_rows

from .als import product_of_grams
from .by_mode import nonnegative_modes, place_of_mode, ridge_modes
from .completion import solve_equations, systems_of
from .counts import deviance_score, new_count_rows, sum_of_cells
from .entries import Aligned, Entries, entries_of, fit_at, positions_of, values_at, values_of
from .layout.by_row import EntriesByRow
from .layout.layout import TensorLayout
from .layout.sorting import Nonzeros
from .logistic import new_logistic_rows, score_of
from .losses import LOGISTIC, POISSON, SQUARED_ERROR
from .state import CPState
from .steps import gram_of, solve_rows

_FACTOR, _MODES = "factor_", "modes"
# parameters that answers of a fitted model depend on
_ANSWERED_BY = ("missing", "loss", "nonnegative", "ridge", "fixed_modes")


class CPModel(ComponentModel):
    """What a CP estimator offers once it is fitted; it has its own `fit`.

    Attributes
    ----------
    state_ : CPState
        Set by `fit`.
    nonnegative, ridge, missing, loss, fixed_modes
        Parameters of the estimator.
    """

    state_: CPState
    nonnegative: Any
    ridge: Any
    missing: Missing
    loss: str
    fixed_modes: Any

    @property
    def weights_(self) -> xr.DataArray:
        """λ as DataArray of shape (R,), dim component."""
        state = self._fitted()
        return xr.DataArray(state.weights, dims=_component(state), name="weights")

    @property
    def factors_(self) -> Factors:
        """One DataArray of shape (I_m, R) a mode, dims (mode, component), labelled by the mode.

        A list in the order of the modes, which takes their names too: ``factors_["user"]``.
        """
        state = self._fitted()
        return Factors(_labelled(state, mode, each) for mode, each in enumerate(state.factors))

    @property
    def fit_(self) -> float:
        """1 − ‖X − X̂‖/‖X‖ after the last iteration; over stored entries where others are unknown.

        Of counts and of yes and no (`loss`) the share of the deviance that is explained. NaN where
        `partial_fit` added slices, as the others were not looked at.
        """
        return float(self._fitted().fit)

    @property
    def intercept_(self) -> float:
        """Of yes and no (``loss="logistic"``) the log-odds of the share of yes; else 0.

        Those of an index are this plus its value in weights and factors.
        """
        return self._fitted().intercept

    def reconstruct(self, indices: Any) -> Any:
        """Values of the decomposition at some indices; of yes and no the probabilities of yes.

        Parameters
        ----------
        indices : array of shape (n, n_modes), DataFrame, list of tuples, one tuple, or container
            Labels where the tensor of the fit had labels, else positions. A DataFrame (pandas or
            Dask) has the modes as columns, by name or in order. Of a sparse container the values at
            its nonzeros are given.

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
        indices = table_in_memory(indices)
        if _is_one(indices):
            return float(self.reconstruct([indices])[0])
        if isinstance(indices, np.ndarray | list | tuple | pd.DataFrame):
            return self._means(values_at(state, positions_of(state, indices)))
        tensor = as_tensor(indices, missing=self._as_fitted().missing)
        values = self._means(values_at(state, Aligned(state, tensor).places()))
        held = LabelledTensor(tensor.coordinates, values, tensor.shape, tensor.dims, tensor.labels)
        return held.to_xarray() if isinstance(indices, xr.DataArray) else held.to_coo()

    def predict(self, X: Any, *, unknown: str = "raise") -> Any:
        """Values at some indices, as `reconstruct` gives them, unknown indices among them.

        Parameters
        ----------
        X : array of shape (n, n_modes), DataFrame, list of tuples, one tuple, or container
        unknown : {"raise", "mean", "nan"}, default="raise"
            What becomes of an index that the decomposition does not have: an error; the mean over
            all indices of its mode; or NaN. Of a sparse container such an index is an error.

        Returns
        -------
        values : float64 ndarray of shape (n,), float for one tuple, or sparse container

        Raises
        ------
        InputError
            For unknown indices, or another word for `unknown`.
        """
        one_of(unknown, "unknown", ("raise", "mean", "nan"))
        X = table_in_memory(X)
        listed = isinstance(X, np.ndarray | list | tuple | pd.DataFrame)
        if unknown == "raise" or not listed:
            return self.reconstruct(X)
        if _is_one(X):
            return float(self.predict([X], unknown=unknown)[0])
        state = self._fitted()
        positions = positions_of(state, X, strict=False)
        if unknown == "mean":  # −1, an unknown index, is a last row that is the mean
            means = [np.vstack([factor, factor.mean(axis=0)]) for factor in state.factors]
            return self._means(values_of(state.weights, means, positions))
        known = (positions >= 0).all(axis=0)
        values = np.full(positions.shape[1], np.nan)
        values[known] = self._means(values_at(state, positions[:, known]))
        return values

    def _means(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """What is expected where the decomposition has these values."""
        if self._as_fitted().loss != LOGISTIC:
            return values
        return expit(values + self._fitted().intercept)

    def score(self, X: Any, y: Any = None) -> float:
        """The fit to a tensor, 1 − ‖X − X̂‖/‖X‖: 1 is exact; over stored entries where
        ``missing="unknown"``; of counts and of yes and no the share of the deviance that is
        explained.

        Parameters
        ----------
        X : container
            A tensor of the modes of the fit. Modes are matched by name where both have names, in
            any order, else by position. So are indices, and may be some of those of the fit where
            they have labels; those are positions where the fit had none. Without labels they are
            all of them. Or a DataFrame, as for `fit`.
        y : array of shape (n,), optional
            Values of the lines of a DataFrame; else ignored.

        Returns
        -------
        float

        Raises
        ------
        InputError
            For modes or labels that the decomposition does not have, other extents, or values that
            are all 0.
        """
        state, loss = self._fitted(), self._as_fitted().loss
        if self._as_fitted().missing == "unknown":
            entries = Entries.of(X, state, y)
            values, fitted = entries.values, values_at(state, entries.positions)
            if loss == LOGISTIC:
                return score_of(fitted + state.intercept, values)
            if loss == POISSON:
                return deviance_score(values, fitted, float(fitted.sum()), fitted.size)
            return fit_at(values, fitted)
        tensor = entries_of(X, y)
        aligned = Aligned(state, tensor)
        rows = [aligned.rows(mode) for mode in range(tensor.n_modes)]
        values, fitted = tensor.values.astype(np.float64), values_at(state, aligned.places())
        if loss == POISSON:
            n_cells = float(np.prod([float(len(own)) for own in rows]))
            return deviance_score(values, fitted, sum_of_cells(state, rows), n_cells)
        inner = float(values @ fitted)
        grams = product_of_grams(
            *[gram_of(factor[own]) for factor, own in zip(state.factors, rows, strict=True)]
        )
        squared = float(state.weights @ grams @ state.weights)
        norm = float(np.linalg.norm(values))
        return 1.0 - float(np.sqrt(max(norm**2 - 2 * inner + squared, 0.0))) / norm

    def transform(self, X: Any, mode: int | str = 0) -> xr.DataArray | pd.DataFrame | NDArray[Any]:
        """Factor rows of new slices along one mode: the solution with all other factors fixed.

        Parameters
        ----------
        X : container
            A tensor that has the modes of the fit; along `mode` any indices, along the others
            those of the fit, matched as by `score`.
        mode : int or str, default=0
            The mode that is new, by place or by name.

        Returns
        -------
        DataArray of shape (n_new, R)
            Rows as those of `factors_`, to be used with `weights_`; after
            ``set_output(transform="pandas")`` a DataFrame with their labels as its index.

        Raises
        ------
        InputError
            For another number of modes, an unknown mode, or indices that the model does not know.
        """
        state, tensor = self._fitted(), entries_of(X, None, self._as_fitted().missing)
        place = place_of_mode(mode, state.dims)
        aligned = Aligned(state, tensor)
        rows = self._new_rows(aligned, place)
        rows /= np.where(state.weights > 0, state.weights, 1.0)
        dim, labels = state.dims[place], aligned.labels(place)
        coords = None if labels is None else {dim: labels}
        return as_output(xr.DataArray(rows, dims=(dim, _component(state)), coords=coords), self)

    def _new_rows(self, aligned: Aligned, place: int) -> NDArray[np.float64]:
        """Rows of new slices along a mode, with the weights in them."""
        state, fitted, tensor = self._fitted(), self._as_fitted(), aligned.tensor
        coordinates = aligned.places(place).astype(np.int32)
        shape = [len(factor) for factor in state.factors]
        shape[place] = aligned.extent(place)
        values = tensor.values.astype(np.float64)
        factors = [np.ascontiguousarray(factor, np.float64) for factor in state.factors]
        factors[place] = np.ones((shape[place], state.n_components))
        rows, ones = factors[place], np.ones(state.n_components)
        nonnegative = nonnegative_modes(fitted.nonnegative, state.dims)[place]
        ridge = ridge_modes(fitted.ridge, state.dims)[place]
        if fitted.loss == POISSON:
            layout = TensorLayout.build(coordinates, values, shape)
            return new_count_rows(layout, factors, place, fitted.missing == "unknown")
        if fitted.missing == "unknown":
            entries = EntriesByRow.of(Nonzeros(coordinates, values), shape)
            if fitted.loss == LOGISTIC:
                return new_logistic_rows(
                    entries, factors, place,
                    nonnegative=nonnegative, ridge=ridge, intercept=state.intercept,
                )  # fmt: skip
            equations = entries.normal_equations(place, factors)
            if nonnegative:
                return nonnegative_rows(*systems_of(equations, ridge))
            solve_equations(equations, rows, ones, ridge=ridge)
            return rows
        others = [gram_of(factor) for m, factor in enumerate(factors) if m != place]
        products = TensorLayout.build(coordinates, values, shape).mttkrp(place, factors)
        system = product_of_grams(*others)
        if nonnegative:
            system = system + ridge * np.eye(len(system))
            return nonnegative_rows(system, np.asarray(products, np.float64))
        precision = state.factors[place].dtype
        solve_rows(products, system, rows, ones, ridge=ridge, precision=precision)
        return rows

    def to_dataset(self) -> xr.Dataset:
        """Weights and factors as one `xarray.Dataset`: ``weights`` and ``factor_<mode>``.

        It holds nothing but numbers and labels, so it can be written to zarr or netCDF.
        """
        state, fitted = self._fitted(), self._as_fitted()
        facts = {
            _MODES: list(state.dims),
            "fit": state.fit,
            "iterations": state.epoch,
            "missing": fitted.missing,
            "loss": fitted.loss,
            "intercept": state.intercept,
        }
        arrays = {str(each.name): each for each in (self.weights_, *self.factors_)}
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
            lacking = f"; missing: {', '.join(missing)}" if missing else ""
            raise InputError(
                f"the dataset holds {', '.join(map(str, dataset))}; a decomposition needs weights "
                f"and factor_<mode> for two modes or more{lacking}"
            )
        weights = dataset["weights"].to_numpy().astype(np.float64)
        given = [dataset[f"{_FACTOR}{dim}"].transpose(dim, ...) for dim in dims]
        factors = [np.ascontiguousarray(factor.to_numpy()) for factor in given]
        labels = {dim: dataset[dim].to_numpy() for dim in dims if dim in dataset.coords}
        estimator: Any = cls
        absent = str(dataset.attrs.get("missing", "zero"))
        loss = str(dataset.attrs.get("loss", SQUARED_ERROR))
        model = estimator(weights.size, missing=absent, loss=loss)
        model.state_ = CPState(
            weights,
            factors,
            dims,
            labels,
            fit=float(dataset.attrs.get("fit", np.nan)),
            intercept=float(dataset.attrs.get("intercept", 0.0)),
            epoch=int(dataset.attrs.get("iterations", 0)),
        )
        return model

    def _as_fitted(self) -> Self:
        return as_fitted(self, *_ANSWERED_BY)


class Factors(list[Any]):
    """A list of factors, one a mode, that takes the names of the modes too."""

    def __getitem__(self, mode: Any) -> Any:
        """The factor of a mode by its place or name; a slice gives a plain list."""
        if not isinstance(mode, str):
            return super().__getitem__(mode)
        return super().__getitem__(place_of_mode(mode, [str(each.dims[0]) for each in self]))


def _labelled(state: CPState, mode: int, values: NDArray[Any]) -> xr.DataArray:
    dim = state.dims[mode]
    coords = {dim: state.labels[dim]} if dim in state.labels else None
    return xr.DataArray(
        values, dims=(dim, _component(state)), coords=coords, name=f"{_FACTOR}{dim}"
    )


def _is_one(indices: Any) -> bool:
    """Whether a tuple names one index a mode, rather than being a list of such."""
    return isinstance(indices, tuple) and all(np.ndim(index) == 0 for index in indices)


def _component(state: CPState) -> str:
    return COMPONENT if COMPONENT not in state.dims else f"cp_{COMPONENT}"
