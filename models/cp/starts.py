"""Where CP-ALS begins: factors drawn, singular vectors, or given.

    random     uniform in [0, 1), drawn for the whole factor: the same under every partition
    nvecs      leading left singular vectors of X_(m), the tensor unfolded along mode m
    factors    one array a mode
    fixed      an array of some modes, which they keep

Columns that a mode is too short for (R > I_m) are drawn under "nvecs" too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from numpy.typing import NDArray

from daskpart._floor.checks import as_array
from daskpart.containers.coordinates import is_a
from daskpart.containers.tensor import LabelledTensor
from daskpart.errors import InputError
from daskpart.models.base.labels import LabelIndex

from .by_mode import by_place
from .entries import is_named

if TYPE_CHECKING:
    from .problem import TensorProblem

INITS = ("random", "nvecs")
_DENSE_GRAM = 1000  # a mode up to this length: all eigenvectors of a dense matrix


def check_init(init: Any, n_components: int, n_init: int) -> None:
    """Refuse what cannot be begun from, as far as it shows without the tensor (InputError)."""
    if isinstance(init, str):
        if init not in INITS:
            raise InputError(
                f"init={init!r} is unknown; choose 'random', 'nvecs', or give one factor a mode"
            )
    elif not isinstance(init, Sequence) or not len(init):
        raise InputError(f"init is a {type(init).__name__}; give a list with one factor a mode")
    else:
        for mode, factor in enumerate(init):
            _check_factor(factor, f"init[{mode}]", n_components)
    if n_init > 1 and not (isinstance(init, str) and init == "random"):
        raise InputError(f"n_init={n_init} needs init='random': any other start is always the same")


def _check_factor(given: Any, what: str, n_components: int) -> None:
    factor = as_array(given, f"numbers of {what}")
    if factor.ndim != 2 or factor.shape[1] != n_components or factor.dtype.kind not in "fiu":
        raise InputError(
            f"{what} has shape {factor.shape} and type {factor.dtype}; "
            f"n_components={n_components} needs numbers of shape (indices of the mode, "
            f"{n_components})"
        )
    if not np.isfinite(factor).all():
        raise InputError(f"{what} holds NaN or infinite values")


def check_fixed(fixed_modes: Mapping[Any, Any] | None, n_components: int) -> None:
    """Refuse factors that cannot be kept, as far as it shows without the tensor (InputError)."""
    for mode, factor in (fixed_modes or {}).items():
        _check_factor(factor, f"fixed_modes[{mode!r}]", n_components)


def fixed_factors(
    fixed_modes: Mapping[Any, Any] | None,
    problem: TensorProblem,
    nonnegative: Sequence[bool],
    dtype: str,
) -> dict[int, NDArray[Any]]:
    """The factors that some modes keep, by place, their rows in the order of a tensor.

    Parameters
    ----------
    fixed_modes : mapping of mode to array, or None
        As `check_fixed` let it pass; of DataArrays rows are told by their labels.
    problem : TensorProblem
        Says names, labels and extents of the modes.
    nonnegative : sequence of bool, one a mode
    dtype : str
        Of the factors.

    Raises
    ------
    InputError
        For unknown modes, all of them, factors of another length, over another dimension or
        without a label of the tensor's, negative values where there may be none, and values that
        the dtype cannot hold.
    """
    found, dims = {}, problem.dims
    for place, given in by_place(fixed_modes or {}, dims, "fixed_modes").items():
        dim, what = dims[place], f"fixed_modes[{dims[place]!r}]"
        factor = np.array(_rows_by_name(given, place, dims, problem.labels, what), np.float64)
        extent = problem.shape[place]
        if len(factor) != extent:
            raise InputError(
                f"{what} has {len(factor)} rows, and the tensor {extent} indices of {dim}: "
                "give a row for each, or a DataArray with their labels"
            )
        _check_values(factor, what, nonnegative[place], dtype)
        found[place] = factor.astype(dtype)
    if len(found) == len(dims):
        raise InputError(f"fixed_modes has all modes, {', '.join(dims)}: leave one to be fitted")
    return found


def by_name(init: Any, dims: Sequence[str], labels: Mapping[str, NDArray[Any]]) -> Any:
    """Given factors with modes and indices in the order of a tensor; what has no names as it is.

    Raises
    ------
    InputError
        For DataArrays over another dimension, or whose labels lack one of the tensor's.
    """
    if isinstance(init, str) or len(init) != len(dims):
        return init
    named = [each for each in init if is_a(each, "xarray", "DataArray") and is_named(each.dims)]
    factors = {dim: each for each in named for dim in each.dims if dim in dims}
    if len(factors) == len(dims):
        init = [factors[dim] for dim in dims]
    return [_rows_by_name(each, place, dims, labels, "init") for place, each in enumerate(init)]


def _rows_by_name(
    factor: Any, place: int, dims: Sequence[str], labels: Mapping[str, NDArray[Any]], what: str
) -> Any:
    """Of a DataArray the rows of a mode in the order of its labels; any other array as it is."""
    if not is_a(factor, "xarray", "DataArray"):
        return factor
    dim = dims[place]
    rows = dim if is_named(factor.dims) else factor.dims[0]  # "dim_0" is of whatever mode
    if rows not in factor.dims and not is_named(dims):
        return factor
    if rows not in factor.dims:
        raise InputError(
            f"the factor of {dim} in {what} is a DataArray over {tuple(factor.dims)}: rename its "
            f"dimension to {dim!r}, or give its values (.to_numpy()) to take rows by their place"
        )
    factor, wanted = factor.transpose(rows, ...), labels.get(dim)
    if wanted is None or rows not in factor.coords:
        return factor
    found = LabelIndex(factor[rows].to_numpy(), len(factor), dim).find(wanted)
    if (found < 0).any():
        lacking = wanted[found < 0].tolist()[0]
        raise InputError(f"the factor of {dim} in {what} has no row for {lacking!r} of the tensor")
    return factor[found]


def check_start(init: Any, problem: TensorProblem, nonnegative: Sequence[bool], dtype: str) -> None:
    """Refuse what a tensor cannot be begun from, before it is cut.

    Parameters
    ----------
    init : {"random", "nvecs"} or sequence of arrays
        As `by_name` gave it.
    problem : TensorProblem
    nonnegative : sequence of bool, one a mode
    dtype : str
        Of the factors.

    Raises
    ------
    InputError
        For factors of another shape or with values that their modes may not have, and "nvecs" of
        a tensor that is not in memory.
    """
    if isinstance(init, str):
        if init == "nvecs" and problem.tensor is None:
            raise InputError(
                "init='nvecs' needs the tensor in memory; give init='random' or factors for a "
                "lazy one"
            )
        return
    given = [np.asarray(factor) for factor in init]
    for mode, (factor, positive) in enumerate(zip(given, nonnegative, strict=False)):
        _check_values(factor, f"init[{mode}]", positive, dtype)
    rows = [len(factor) for factor in given]
    if rows != [*problem.shape]:
        raise InputError(
            f"init has factors of {rows} rows: the modes of the tensor need one each, of "
            f"{[*problem.shape]} rows"
        )


def _check_values(factor: NDArray[Any], what: str, nonnegative: bool, dtype: str) -> None:
    if nonnegative and factor.min(initial=0) < 0:
        raise InputError(f"{what} holds negative values, and this mode is nonnegative")
    most = np.abs(factor).max(initial=0)
    if most > np.finfo(dtype).max:
        raise InputError(
            f"{what} holds {most:.3g}, beyond {dtype}: give dtype='float64', or shorter columns"
        )


def first_factors(
    init: Any,
    tensor: LabelledTensor | None,
    shape: Sequence[int],
    n_components: int,
    *,
    random_state: int,
    start: int = 0,
    nonnegative: Sequence[bool] = (),
) -> list[NDArray[np.float64]]:
    """The factors that a fit begins from, float64.

    Parameters
    ----------
    init : {"random", "nvecs"} or sequence of arrays
        As `check_start` let it pass.
    tensor : LabelledTensor or None
        None where the nonzeros are not in this process, as "nvecs" needs them.
    shape : sequence of int
        Of the tensor.
    n_components : int
        R.
    random_state, start : int
        What is drawn depends on both: start 0, 1 … of a fit that begins several times.
    nonnegative : sequence of bool, one a mode, or empty
        Take absolute values of singular vectors.
    """
    seed = np.random.SeedSequence(random_state, spawn_key=(start,))
    random = np.random.default_rng(seed)
    if isinstance(init, str):
        if init == "random":
            return [random.random((extent, n_components)) for extent in shape]
        assert tensor is not None  # checked
        vectors = [singular_vectors(tensor, m, n_components, random) for m in range(len(shape))]
        signs = nonnegative or [False] * len(vectors)
        return [np.abs(v) if positive else v for v, positive in zip(vectors, signs, strict=True)]
    return [np.array(factor, np.float64) for factor in init]


def singular_vectors(
    tensor: LabelledTensor, mode: int, n_components: int, random: np.random.Generator
) -> NDArray[np.float64]:
    """Leading left singular vectors of a tensor unfolded along a mode, shape (I_m, R)."""
    unfolded = _unfolded(tensor, mode)
    extent = unfolded.shape[0]
    if extent <= _DENSE_GRAM:
        _, found = np.linalg.eigh((unfolded @ unfolded.T).toarray())
        found = found[:, ::-1]
    elif unfolded.shape[1] <= n_components:  # all of them, which `svds` does not give
        found, _, _ = np.linalg.svd(unfolded.toarray(), full_matrices=False)
    else:
        wanted = min(n_components, min(unfolded.shape) - 1)
        first = random.random(min(unfolded.shape))
        found, _, _ = scipy.sparse.linalg.svds(unfolded, k=wanted, v0=first)
        found = found[:, ::-1]
    factor = random.random((extent, n_components))
    known = min(n_components, found.shape[1])
    factor[:, :known] = found[:, :known]
    largest = np.take_along_axis(factor, np.abs(factor).argmax(axis=0)[None], axis=0)
    return factor * np.where(largest < 0, -1.0, 1.0)


def _unfolded(tensor: LabelledTensor, mode: int) -> scipy.sparse.csr_array:
    """X_(mode) without its empty columns."""
    others = [m for m in range(tensor.n_modes) if m != mode]
    column = np.zeros(tensor.nnz, np.int64)
    for m in others:  # renumbered after each mode, so that no product of extents overflows
        column = column * tensor.shape[m] + tensor.coordinates[m]
        column = np.unique(column, return_inverse=True)[1]
    entries = (tensor.values.astype(np.float64), (tensor.coordinates[mode], column))
    shape = (tensor.shape[mode], int(column.max()) + 1)
    return scipy.sparse.csr_array(scipy.sparse.coo_array(entries, shape=shape))
