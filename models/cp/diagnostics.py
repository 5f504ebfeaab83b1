"""How many components, and can they be trusted: many fits side by side, judged by three tests.

    components × seeds ─┐                               ┌─ fit of the best
    components × halves ┴─► fits, one task each ────────┼─ core consistency of the best
                            (on the workers, or here)   ├─ match of the other seeds with the best
                                                        └─ match of the halves with each other

core consistency   With A_m the factors, G = X ×_1 A_1⁺ … ×_M A_M⁺ is the core that fits best. If
                   the data are made of these components alone, it is 1 on the superdiagonal and 0
                   elsewhere: 100 · (1 − ‖G − T‖² / R). It falls, often below 0, when there are too
                   many components.
seeds              What another start does not find again is not in the data.
halves             What one half of the slices does not share with the other is not in them either.

The core is contracted mode after mode from the nonzeros: R dense numbers a fibre, R² a slice, never
more; X is not made dense, nor is a Kronecker product built. Where absent entries are unknown, they
are filled in by the model itself, so that only the residual at stored entries is contracted.

Sources: Bro and Kiers, "A new efficient method for determining the number of components in PARAFAC
models", J. Chemometrics 17 (2003); Papalexakis and Faloutsos, "Fast efficient and scalable core
consistency diagnostic for the PARAFAC decomposition for big sparse tensors", ICASSP 2015; Tomasi
and Bro, Comput. Stat. Data Anal. 50 (2006) (congruence); Harshman and De Sarbo (1984) (halves).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from daskpart._floor.checks import whole_number
from daskpart._floor.distinct import distinct
from daskpart._floor.progress import tracked
from daskpart._floor.tables import html_lines, readable
from daskpart._floor.words import counted
from daskpart.containers.tensor import LabelledTensor, Missing, as_tensor
from daskpart.errors import DaskpartWarning, InputError
from daskpart.models.base.fitted import as_fitted
from daskpart.models.base.session import client_for

from .by_mode import place_of_mode
from .entries import Aligned, values_at
from .estimator import CPDecomposition
from .losses import LOGISTIC, SQUARED_ERROR
from .state import CPState

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TRUSTED = {"core_consistency": 80.0, "match": 0.9, "split_match": 0.9}
_FIT_OPTIONS: dict[str, Any] = {"max_iter": 200, "tol": 1e-7, "n_ranks": 1, "transport": "local"}
_STARTS_OF_A_HALF = 3


@dataclass(eq=False, repr=False)
class CPDiagnostics:
    """What `cp_diagnostics` found.

    Attributes
    ----------
    table : pandas.DataFrame
        One row a number of components: components, fit, fit_spread (best less worst seed),
        core_consistency, match, split_match, iterations and seconds (of all its fits).
    n_components : int or None
        The most components that pass all tests; None if no number does.
    """

    table: pd.DataFrame
    n_components: int | None

    def plot(self, ax: Axes | None = None) -> Axes:
        """`daskpart.plots.component_diagnostics` of the table."""
        from daskpart.plots import component_diagnostics

        return component_diagnostics(self, ax=ax)

    def _words(self) -> str:
        tests = ", ".join(f"{name} ≥ {least:g}" for name, least in TRUSTED.items())
        if self.n_components is None:
            return f"No number of components passes {tests}."
        return f"{counted(self.n_components, 'component')}: the most that pass {tests}."

    def __repr__(self) -> str:
        return f"{self.table.to_string(index=False, float_format='%.4g')}\n{self._words()}"

    def _repr_html_(self) -> str:
        lines = self.table.itertuples(index=False, name=None)
        cells = [[*self.table], *([readable(value) for value in line] for line in lines)]
        return f"{html_lines(cells)}<p>{self._words()}</p>"


@dataclass(frozen=True)
class _Fitted:
    """One fit, as it comes back from a worker."""

    state: CPState
    core: float
    seconds: float


def cp_diagnostics(
    X: Any,
    components: Iterable[int] = range(2, 12),
    seeds: int | Sequence[int] = 5,
    *,
    split_mode: int | str | None = None,
    client: Any = None,
    progress: bool = True,
    **options: Any,
) -> CPDiagnostics:
    """Fit decompositions of several sizes from several starts, and say which can be trusted.

    Parameters
    ----------
    X : container
        A tensor of three modes or more, as for `CPDecomposition.fit`; a Dask array is computed, and
        every worker that fits holds a copy.
    components : iterable of int
        Numbers of components to try.
    seeds : int or sequence of int, default=5
        Starts of each, or how many.
    split_mode : int or str, optional
        The mode whose slices are dealt to two halves; default: the longest.
    client : distributed.Client, optional
        Default: the current one. Each fit is a task on its workers; without a client they run here,
        one after the other.
    progress : bool, default=True
        Whether a terminal or a notebook shows a bar of the fits that run here.
    **options
        Of `CPDecomposition`, such as ``missing="unknown"`` or ``nonnegative=True``.

    Returns
    -------
    CPDiagnostics
        A table, a picture, and a number.

    Raises
    ------
    InputError
        For fewer than three modes (components of a matrix can be rotated, so no start finds them
        again), numbers of components below 1, fewer than two seeds, or options that these fits
        set themselves.

    Examples
    --------
    >>> import daskpart, sparse
    >>> tensor = sparse.random((20, 15, 10), nnz=900, random_state=0)
    >>> found = daskpart.cp_diagnostics(tensor, components=[1, 2], seeds=2, max_iter=10)
    >>> found.table["components"].tolist()
    [1, 2]
    """
    counts, starts = _checked(components, seeds, options)
    missing = options.get("missing", "zero")
    _refuse_yes_no(options.get("loss", SQUARED_ERROR))
    tensor = as_tensor(X, missing=missing)
    if tensor.n_modes < 3:
        raise InputError(
            "the components of a matrix can be rotated into others that fit as well: diagnostics "
            "need a tensor of three modes or more"
        )
    longest = int(np.argmax(tensor.shape))
    split = longest if split_mode is None else place_of_mode(split_mode, tensor.dims, "split_mode")
    data = [tensor, *_halves(tensor, split)]
    jobs = [(0, r, {"random_state": seed}) for r, seed in product(counts, starts)]
    of_halves = {"random_state": starts[0]}
    if options.get("init", "random") == "random":
        of_halves["n_init"] = _STARTS_OF_A_HALF
    jobs += [(half, r, of_halves) for r, half in product(counts, (1, 2))]
    found = _run([(place, r, {**_FIT_OPTIONS, **options, **own}) for place, r, own in jobs], data,
                 client_for("auto", client), progress)  # fmt: skip
    n_seeds, wholes = len(starts), len(counts) * len(starts)
    rows = [
        _row(r, found[i * n_seeds : (i + 1) * n_seeds], found[wholes + 2 * i : wholes + 2 * i + 2],
             split)
        for i, r in enumerate(counts)
    ]  # fmt: skip
    table = pd.DataFrame(rows)
    passed = np.all([table[name] >= least for name, least in TRUSTED.items()], axis=0)
    best = int(table.loc[passed, "components"].max()) if passed.any() else None
    return CPDiagnostics(table, best)


def core_consistency(X: Any, model: Any) -> float:
    """How well the core of a fitted decomposition is superdiagonal, in percent; may be negative.

    Parameters
    ----------
    X : container
        The tensor that was decomposed, in memory.
    model : CPDecomposition
        Fitted.

    Returns
    -------
    float
        100: the data are made of these components. Below some 50: of fewer, or of others.
    """
    fitted = as_fitted(model, "missing", "loss")
    _refuse_yes_no(fitted.loss)
    missing = fitted.missing
    tensor = as_tensor(X, missing=missing)
    coordinates = Aligned(model.state_, tensor).places()
    order = np.lexsort(coordinates[::-1])
    values = tensor.values[order].astype(np.float64)
    return _core_consistency(coordinates[:, order], values, model.state_, missing)


def _refuse_yes_no(loss: str) -> None:
    if loss == LOGISTIC:
        raise InputError(
            "the core is of least squares, and loss='logistic' has none: compare numbers of "
            "components by validation_loss, and starts by factor_match_score"
        )


def factor_match_score(
    one: Any, other: Any, *, modes: Sequence[int] | None = None, weights: bool = False
) -> float:
    """How alike two decompositions are: 1 if they have the same components in any order.

    Modes are matched by name where both have the same names, and so are indices that have labels.

    Parameters
    ----------
    one, other : CPDecomposition or CPState
        Of the same tensor, with as many components.
    modes : sequence of int, optional
        Modes of `one` that are compared; default: all.
    weights : bool, default=False
        Multiply each pair by ``1 − |λ − λ'| / max(λ, λ')``, λ as of columns of length 1.

    Returns
    -------
    float
        Mean over the best pairs of components of the product over modes of their cosines; of its
        absolute value where a mode is left out.

    Raises
    ------
    InputError
        For other modes, extents, labels or numbers of components.

    Examples
    --------
    >>> import daskpart, sparse
    >>> from daskpart.models import factor_match_score
    >>> tensor = sparse.random((20, 15, 10), nnz=900, random_state=0)
    >>> model = daskpart.CPDecomposition(1, max_iter=50, n_ranks=1, transport="local").fit(tensor)
    >>> other = daskpart.CPDecomposition(1, max_iter=50, n_ranks=2, random_state=1,
    ...                                  transport="local").fit(tensor)
    >>> round(factor_match_score(model, other), 3)
    1.0
    """
    left, right = (getattr(model, "state_", model) for model in (one, other))
    if len(left.dims) != len(right.dims):
        raise InputError(f"one has the modes {left.dims}, the other {right.dims}: give as many")
    chosen = range(len(left.dims)) if modes is None else modes
    factors = [(left.factors[mode], _matched(right, left, mode)) for mode in chosen]
    shapes = [[side[place].shape for side in factors] for place in (0, 1)]
    if shapes[0] != shapes[1]:
        raise InputError(
            f"factors of shapes {shapes[0]} and {shapes[1]}: only decompositions of the same modes "
            "with as many components can be compared"
        )
    likeness = np.ones((left.n_components,) * 2)
    for one_factor, other_factor in factors:
        likeness *= _unit(one_factor).T @ _unit(other_factor)
    if len({*chosen}) < len(left.dims):
        # two columns of a component may change their sign together: where one of them is in a mode
        # that is left out, the product over the others is negative for what is the same component
        likeness = np.abs(likeness)
    if weights:
        a, b = _sizes(left)[:, None], _sizes(right)[None]
        likeness *= 1 - np.abs(a - b) / np.maximum(np.maximum(a, b), np.finfo(float).tiny)
    pairs = linear_sum_assignment(-likeness)
    return float(likeness[pairs].mean())


def _matched(state: CPState, like: CPState, mode: int) -> NDArray[Any]:
    """The factor of a state for a mode of another, its rows in the same order."""
    dim = like.dims[mode]
    same_modes = set(state.dims) == set(like.dims)
    factor = state.factors[state.dims.index(dim) if same_modes else mode]
    known, wanted = state.labels.get(dim), like.labels.get(dim)
    if known is None or wanted is None or np.array_equal(known, wanted):
        return factor
    rows = state.index_of(dim).find(wanted)
    if len(known) != len(wanted) or (rows < 0).any():
        raise InputError(
            f"the {dim} labels differ: give decompositions of the same ones, or modes="
        )
    return factor[rows]


def _sizes(state: CPState) -> NDArray[np.float64]:
    """λ as of columns of length 1, which those of counts and of fixed factors have not."""
    norms = [np.linalg.norm(np.asarray(factor, np.float64), axis=0) for factor in state.factors]
    return state.weights * np.prod(norms, axis=0)


def _unit(factor: NDArray[Any]) -> NDArray[np.float64]:
    columns = np.asarray(factor, np.float64)
    norms = np.linalg.norm(columns, axis=0)
    return columns / np.where(norms > 0, norms, 1.0)


def _checked(
    components: int | Iterable[int], seeds: Any, options: dict[str, Any]
) -> tuple[list[int], list[int]]:
    given = [components] if isinstance(components, int | np.integer) else components
    counts = sorted({*_numbers(given, "components", 1)})
    if not counts:
        raise InputError(f"components={components!r}: give some numbers of at least 1")
    starts = _numbers(range(seeds) if isinstance(seeds, int | np.integer) else seeds, "seeds", 0)
    if len({*starts}) < 2:
        raise InputError(f"seeds={seeds!r}: give two or more, as they are compared")
    own = {"n_components", "random_state", "n_init", "n_ranks", "transport", "checkpoint_path"}
    if own & {*options}:
        raise InputError(
            f"{', '.join(sorted(own & {*options}))} cannot be given: each of these fits has its own"
        )
    return counts, starts


def _numbers(given: Any, name: str, least: int) -> list[int]:
    if not isinstance(given, Iterable):
        raise InputError(f"{name}={given!r}: give a whole number or some")
    return [whole_number(each, f"each of {name}", least) for each in given]


def _halves(tensor: LabelledTensor, mode: int) -> list[LabelledTensor]:
    """The slices of a mode that hold something, drawn into two tensors."""
    used = distinct(tensor.coordinates[mode], tensor.shape[mode])
    if len(used) < 2:
        raise InputError(f"only {len(used)} slice of {tensor.dims[mode]} holds anything: no halves")
    side = np.full(tensor.shape[mode], -1)
    side[np.random.default_rng(0).permutation(used)] = np.arange(len(used)) % 2
    found = []
    for half in (0, 1):
        own = np.flatnonzero(side == half)
        chosen = side[tensor.coordinates[mode]] == half
        coordinates = tensor.coordinates[:, chosen].copy()
        coordinates[mode] = np.searchsorted(own, coordinates[mode])
        shape = tuple(len(own) if m == mode else n for m, n in enumerate(tensor.shape))
        labels = {dim: names for dim, names in tensor.labels.items() if dim != tensor.dims[mode]}
        found.append(
            replace(tensor, coordinates=coordinates, values=tensor.values[chosen], shape=shape,
                    labels=labels)
        )  # fmt: skip
    return found


def _run(
    jobs: list[tuple[int, int, dict[str, Any]]],
    data: list[LabelledTensor],
    client: Any,
    progress: bool,
) -> list[_Fitted]:
    """All fits: tasks on a cluster, or here."""
    if client is None:
        told = tracked(jobs, "fitting", progress)
        return [_fit_one(data[place], r, options) for place, r, options in told]
    there = client.scatter(data, hash=False)
    # the longest first, so that no worker begins one when the others are done
    order = sorted(range(len(jobs)), key=lambda i: -jobs[i][1])
    tasks: list[Any] = [None] * len(jobs)
    for i in order:
        place, r, options = jobs[i]
        tasks[i] = client.submit(_fit_one, there[place], r, options, pure=False)
    try:
        return client.gather(tasks)
    finally:
        client.cancel(tasks)


def _fit_one(tensor: LabelledTensor, n_components: int, options: dict[str, Any]) -> _Fitted:
    """One fit in this process, and how superdiagonal its core is."""
    begin = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DaskpartWarning)  # halves have slices without entries
        model = CPDecomposition(n_components, **options).fit(tensor)
    core = _core_consistency(
        tensor.coordinates, tensor.values.astype(np.float64), model.state_, model.missing
    )
    state = replace(model.state_, history=[], settings={}, labels={})
    return _Fitted(state, core, perf_counter() - begin)


def _row(
    n_components: int, fits: list[_Fitted], halves: list[_Fitted], split: int
) -> dict[str, Any]:
    """The row of the table of one number of components."""
    fits = sorted(fits, key=lambda fitted: -fitted.state.fit)
    best, others = fits[0], fits[1:]
    compared = [mode for mode in range(len(best.state.dims)) if mode != split]
    return {
        "components": n_components,
        "fit": best.state.fit,
        "fit_spread": best.state.fit - fits[-1].state.fit,
        "core_consistency": best.core,
        "match": float(np.median([factor_match_score(best.state, o.state) for o in others])),
        "split_match": factor_match_score(halves[0].state, halves[1].state, modes=compared),
        "iterations": sum(fitted.state.epoch for fitted in (*fits, *halves)),
        "seconds": sum(fitted.seconds for fitted in (*fits, *halves)),
    }


def _core_consistency(
    coordinates: NDArray[Any], values: NDArray[np.float64], state: CPState, missing: Missing
) -> float:
    """Of nonzeros in row-major order, at positions in the factors."""
    n_components, n_modes = state.n_components, len(state.dims)
    ideal = np.zeros((n_components,) * n_modes)
    ideal[(np.arange(n_components),) * n_modes] = 1
    factors = [np.asarray(factor, np.float64) for factor in state.factors]
    factors[0] = factors[0] * state.weights
    inverses: list[NDArray[Any]] = [np.linalg.pinv(factor) for factor in factors]
    if missing == "unknown":
        residual = values - values_at(state, coordinates)
        difference = _core(coordinates, residual, inverses)
    else:
        difference = _core(coordinates, values, inverses) - ideal
    return float(100 * (1 - np.sum(difference**2) / n_components))


def _core(
    coordinates: NDArray[Any], values: NDArray[np.float64], inverses: list[NDArray[Any]]
) -> NDArray[np.float64]:
    """X ×_1 A_1⁺ … ×_M A_M⁺ of a sparse X in row-major order, the last mode first."""
    current, n_components = values[:, None], len(inverses[0])
    for mode in reversed(range(len(coordinates))):
        index, before = coordinates[mode], coordinates[:mode]
        new = np.ones(len(index), bool)
        new[1:] = (before[:, 1:] != before[:, :-1]).any(axis=0)
        begin = np.flatnonzero(new)  # entries that share all modes before this one are summed
        pointer = np.append(begin, len(index))
        summed = np.empty((len(begin), n_components, current.shape[1]))
        for r, row in enumerate(inverses[mode]):
            sums = scipy.sparse.csr_array(
                (row[index], np.arange(len(index)), pointer), shape=(len(begin), len(index))
            )
            summed[:, r] = sums @ current
        current, coordinates = summed.reshape(len(begin), -1), before[:, begin]
    return current.reshape((n_components,) * len(inverses))
