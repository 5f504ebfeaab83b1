"""New slices of one mode for a fitted decomposition, without the old nonzeros (online CP).

    old slices │ new slices        rows C of the new slices   solved, all other factors fixed
    ───────────┼────────────       every other factor n       A_n ← P_n Q_n⁻¹ with
     P⁰, Q⁰    │ ΔP, ΔQ                P_n = P⁰_n + MTTKRP of the new nonzeros along n
                                       Q_n = Q⁰_n + (∗ Grams of the others) ∗ CᵀC

Where ALS has converged, the products of the old nonzeros are P⁰_n = A_n Q⁰_n, and Q⁰_n is made of
Grams: both follow from the factors, so nothing has to be kept of the old data. With a ridge that is
on the diagonal of Q⁰_n; where modes have different ones P⁰_n is an estimate. Rows of old slices
stay as they are. Cost: one MTTKRP a mode over the new nonzeros, in this process.

Where absent entries are unknown each row has equations of its own, which do not follow from the
factors, nor do the ratios of counts: then the rows of the new slices are found, and the other
factors stay.

Source: Zhou, Vinh, Bailey, Jia, Davidson, "Accelerating online CP decompositions for higher order
tensors", KDD 2016, §4.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import InputError
from daskpart.models.base.labels import more_labels

from .als import product_of_grams
from .entries import Aligned
from .layout.layout import TensorLayout
from .state import CPState
from .steps import gram_of, normalise_columns, solve_rows


def with_new_rows(
    state: CPState,
    aligned: Aligned,
    place: int,
    rows: NDArray,
    *,
    norm: int = 2,
    fixed: Collection[int] = (),
) -> CPState:
    """A state with more rows in one mode.

    Parameters
    ----------
    state : CPState
    aligned : Aligned
        The tensor of the new slices.
    place : int
        The mode that grows.
    rows : float64 ndarray of shape (n_new, R)
        With the weights in them.
    norm : int
        Columns of the factor have length 1, or with 1 sum to 1.
    fixed : collection of int
        Modes whose old rows keep their values.

    Raises
    ------
    InputError
        For slices that have a name where the others have none, or the other way round, and for
        names that the model has already.
    """
    weights = np.where(state.weights > 0, state.weights, 1.0)
    dim, factors, labels = state.dims[place], list(state.factors), dict(state.labels)
    added = (rows / weights).astype(factors[place].dtype)
    factors[place] = np.concatenate((factors[place], added))
    if dim in labels:
        labels[dim] = _more_labels(labels[dim], aligned.labels(place), dim)
    elif aligned.labels(place) is not None:
        raise InputError(f"the new slices have {dim} labels, those of the fit have none")
    grown = replace(state, factors=factors, labels=labels, fit=float("nan"), history=[])
    if place not in fixed:
        norms = np.linalg.norm(factors[place].astype(np.float64), ord=norm, axis=0)
        normalise_columns(factors[place], norms)
        grown.weights = state.weights * norms
    return grown


def others_updated(
    state: CPState,
    aligned: Aligned,
    place: int,
    rows: NDArray,
    nonnegative: Sequence[bool],
    ridge: Sequence[float],
    fixed: Collection[int] = (),
) -> tuple[CPState, NDArray]:
    """The state before it grows, with the factors of all other modes moved by the new slices.

    And the new rows for it: these factors are normalised, so rows take their norms.

    Parameters are those of `with_new_rows`; `nonnegative` and `ridge` say it of each mode. Those of
    `fixed` modes do not move.
    """
    tensor = aligned.tensor
    modes = range(len(state.dims))
    coordinates = aligned.places(place).astype(np.int32)
    shape = [len(rows) if m == place else extent for m, extent in enumerate(state.shape)]
    layout = TensorLayout.build(coordinates, tensor.values.astype(np.float64), shape)
    old = [np.array(factor, np.float64) for factor in state.factors]
    old[place] *= state.weights
    old_grams = [gram_of(factor) for factor in old]
    factors = [rows if m == place else old[m].copy() for m in modes]
    for mode in modes:
        if mode == place or mode in fixed:
            continue
        before = product_of_grams(*[old_grams[m] for m in modes if m != mode])
        # the ridge of a fit is on rows that hold the weights; here those of `place` hold them
        before = before + np.diag(ridge[mode] * state.weights**2)
        now = product_of_grams(*[gram_of(factors[m]) for m in modes if m != mode])
        products = old[mode] @ before + layout.mttkrp(mode, factors)
        solve_rows(
            products, before + now, factors[mode], np.ones(len(before)),
            nonnegative=nonnegative[mode], precision=state.factors[mode].dtype,
        )  # fmt: skip
    factors[place] = old[place]
    norms = np.array([np.linalg.norm(factor, axis=0) for factor in factors])
    norms[[mode for mode in fixed if mode != place]] = 1.0
    if place in fixed:
        norms[place] = state.weights
    for factor, of_columns in zip(factors, norms, strict=True):
        normalise_columns(factor, of_columns)
    typed = [new.astype(own.dtype) for new, own in zip(factors, state.factors, strict=True)]
    for mode in fixed:  # to the last bit
        typed[mode] = state.factors[mode]
    moved = replace(state, weights=norms.prod(axis=0), factors=typed)
    return moved, rows * np.delete(norms, place, axis=0).prod(axis=0)


def _more_labels(known: NDArray, given: NDArray | None, dim: str) -> NDArray:
    if given is None:
        raise InputError(f"the {dim} slices of the fit have labels: give the new ones theirs")
    every = more_labels(known, given, dim)
    twice = np.isin(given, known)
    if twice.any():
        raise InputError(
            f"{int(twice.sum())} of the {dim} slices are in the model already, such as "
            f"{given[twice][:1].tolist()[0]!r}: leave them out, or fit anew with all data"
        )
    return every
