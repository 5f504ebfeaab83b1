"""Factors of implicit feedback, clicks and plays and purchases, by weighted ALS: the estimator.

    events ─► plan (users cut, owners of items, expands) ─► ALS on ranks ─► labelled factors

What is stored is an event, seen so many times; all that is not stored counts too, as a weak no.
What an iteration is stands in `als`; what a fitted model is good for in
`matrix_factorization.recommending`, shared with the factorization of ratings.

Sources: Hu, Koren, Volinsky, "Collaborative Filtering for Implicit Feedback Datasets" (ICDM 2008);
Takács, Pilászy, Tikk, "Applications of the Conjugate Gradient Method for Implicit Feedback" (RecSys
2011); Rendle, Krichene, Zhang, Koren, "Revisiting the Performance of iALS" (RecSys 2022) for the
regularization by frequency; the same, "iALS++: Speeding up Matrix Factorization with Subspace
Optimization" (2021) for the subspace solver.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.utils._param_validation import StrOptions

from daskpart._floor.blas import one_blas_thread
from daskpart._floor.checks import whole_number
from daskpart.containers.matrix import LabelledMatrix
from daskpart.errors import InputError
from daskpart.models.base.callbacks import with_callbacks
from daskpart.models.base.docstrings import with_shared_words, with_words_of_fit
from daskpart.models.base.fitted import as_fitted
from daskpart.models.base.parameters import AT_LEAST_0, COUNT, POSITIVE
from daskpart.models.base.plan import ROW_PARTITIONERS, FitPlan, check_partitioner
from daskpart.models.base.problem import check_components
from daskpart.models.base.progress import Measure
from daskpart.models.base.state import State
from daskpart.models.matrix_factorization.growing import continues, has_the_same, joined
from daskpart.models.matrix_factorization.problem import Ratings, as_events
from daskpart.models.matrix_factorization.rank_data import fill_starting_rows
from daskpart.models.matrix_factorization.recommending import (
    Recommender,
    ndcg_of_events,
    seen_pattern,
)
from daskpart.models.optimisation.nonnegative import nonnegative_rows

from .als import SWEEPS, Events, Solve
from .growing import grown
from .kernels.solving import UNMOVED, gram_of
from .plan import ImplicitPlan, events_of_ranks, plan_fit
from .state import ImplicitState
from .text import ImplicitText

_EXACT_SWEEPS = 5000  # of coordinate descent from 0, at most: no other iteration moves these rows
_STEEP = 2.0**12  # α · count from which float32 is too coarse, and active sets are exact
_SINGULAR = 1e-10  # of the largest eigenvalue, below which one is taken for 0


@with_shared_words()
class ImplicitFactorization(Recommender):
    """Factorize implicit feedback P ≈ W·Hᵀ by weighted alternating least squares over ranks.

    Minimises Σ c_ij (p_ij − ⟨w_i, h_j⟩)² + Σ λ_i ‖w_i‖² + Σ λ_j ‖h_j‖² over **all** pairs: p = 1
    and c = 1 + α · count where an event is stored, p = 0 and c = 1 elsewhere.

    Parameters
    ----------
    n_components : int, default=64
        F, length of a factor row.
    alpha : float, default=1.0
        α, what an event adds to the confidence: c = 1 + α · count, as in Spark. The package
        `implicit` has c = α · count: for its α give counts of α · count − 1 and alpha=1, or where
        all counts are 1 alpha = α − 1.
    regularization : float, default=0.01
        λ, weight of the squared norms of the factors; that of `implicit`. 0 needs, except with
        solver="cg", no more components than users and items that have events.
    frequency_exponent : float, default=0.0
        ν; the λ of a row is regularization · (its events)^ν. 0: the same for all, as in `implicit`;
        1: as much as in a sum over events, as in Spark.
    solver : {"cg", "cholesky", "subspace"}, default="cg"
        How a row is solved: `cg_steps` of conjugate gradients from the row as it was; exactly; or
        exactly in one block of `block_size` components after the other, from the row as it was
        (iALS++), for more than some 100 components. Rows with an α · count from 2²⁴ on are solved
        exactly, in float64, by all three.
    cg_steps : int, default=3
        Steps of "cg" for each row and iteration.
    block_size : int, default=64
        Components that "subspace" solves for at once.
    nonnegative : bool, default=False
        Keep factors at 0 or above, by coordinate descent; needs solver="cholesky".
    n_ranks : int or None, default=None
        K, number of parts. None: as many as a given partition has, else as the workers have
        threads, or as this process has cores.
    partitioner : str, dict, Partition or int array of shape (M,), default="auto"
        How users are cut: "power", "connectivity", "cut-net", "metis", "random", "block", or as for
        `MatrixFactorization`; so too "auto".
    init_scale : float, default=0.1
        First components of items are uniform in ± this / √F.
    max_iter : int, default=15
        Iterations.
    tol : float, default=0.0
        Stop when the loss changes by less.
    validation_fraction : float, default=0.0
        Share of the events held out to measure `validation_ndcg`: the mean NDCG at 10, as of
        `score`.
    patience : int or None, default=None
        Stop after so many iterations in which that became no better; the model then has the factors
        of the best iteration.
    user, item, rating : str or None, default=None
        Names of the columns of a DataFrame; None: told by names that people use or by their order.
        A frame needs no ratings: each line is one event.
    {words of transport}
    warm_start : bool, default=False
        Begin at the factors of the last fit; users and items whose labels are new are solved first,
        as in `partial_fit`.
    {words of checkpoints}
    random_state : int, RandomState or None, default=0
        Fixes partition and first factors.
    {words of verbose}

    Attributes
    ----------
    user_factors_, item_factors_ : xarray.DataArray of float32, shape (M, F) and (N, F)
        A user or item without events has a row of zeros.
    state_ : ImplicitState
    history_ : pandas.DataFrame
        One row an iteration: loss (the objective over the number of events), validation_ndcg (where
        events are held out), seconds, volume and messages.
    n_iter_ : int
    best_iteration_ : int or None
        The iteration whose factors the model has, by `patience`; None without it: the last.
    plan_report_ : ImplicitPlanReport
    comm_report_ : CommunicationReport
    partition_ : Partition
    seen_ : scipy.sparse.csr_array of bool, shape (M, N)
        What users had in the fit, which `recommend` leaves out.
    n_features_in_ : int
    new_rows_distance_ : float
        After `partial_fit` with new users or items: ‖Z − Z*‖ / ‖Z*‖ over their rows Z, Z* being the
        exact solution of each while the rows of the other side stay.

    Examples
    --------
    >>> import daskpart
    >>> clicks = daskpart.datasets.power_law_ratings(200, 100, 4000, random_state=0)
    >>> model = daskpart.ImplicitFactorization(8, n_ranks=2, max_iter=5).fit(clicks)
    >>> model.recommend(0, n=3).shape
    (3, 3)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Recommender._parameter_constraints,
        "alpha": [POSITIVE],
        "frequency_exponent": [AT_LEAST_0],
        "solver": [StrOptions({"cg", "cholesky", "subspace"})],
        "cg_steps": [COUNT],
        "block_size": [COUNT],
        "init_scale": [POSITIVE],
    }
    _decide_plan: ClassVar[tuple[str, ...]] = ("n_components", "partitioner")
    _decide_bits: ClassVar[tuple[str, ...]] = (
        *_decide_plan,
        *("alpha", "regularization", "frequency_exponent", "solver", "cg_steps", "nonnegative"),
        *("block_size", "init_scale"),
    )
    _measures: ClassVar[tuple[Measure, ...]] = (
        Measure("loss", "loss", step="iteration"),
        Measure("validation_ndcg", "validation", "NDCG@10", step="iteration"),
    )
    _state_class: ClassVar[type[State]] = ImplicitState
    _tolerance_column: ClassVar[str | None] = "loss_change"
    biases = False  # what `Recommender` asks for

    n_components: int
    alpha: float
    frequency_exponent: float
    solver: str
    cg_steps: int
    partitioner: Any
    init_scale: float
    state_: ImplicitState
    new_rows_distance_: float

    def __init__(
        self,
        n_components: int = 64,
        *,
        alpha: float = 1.0,
        regularization: float = 0.01,
        frequency_exponent: float = 0.0,
        solver: str = "cg",
        cg_steps: int = 3,
        block_size: int = 64,
        nonnegative: bool = False,
        n_ranks: int | None = None,
        partitioner: Any = "auto",
        init_scale: float = 0.1,
        max_iter: int = 15,
        tol: float = 0.0,
        validation_fraction: float = 0.0,
        patience: int | None = None,
        user: str | None = None,
        item: str | None = None,
        rating: str | None = None,
        transport: str = "auto",
        warm_start: bool = False,
        checkpoint_path: str | os.PathLike | None = None,
        checkpoint_every: int = 1,
        resume: bool = False,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self._set_parameters(locals())

    @with_callbacks
    @with_words_of_fit
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        validation: Any = None,
        plan: FitPlan | None = None,
        client: Any = None,
    ) -> Self:
        """Factorize events.

        Parameters
        ----------
        X : container of shape (M, N)
            Counts above 0, or what else says how sure an event is: what `MatrixFactorization.fit`
            takes, or a (user, item) DataFrame with one line an event. Positions that come more than
            once are added up. A Dask array is computed here.
        y : ignored
        validation : container, optional
            Events to measure `validation_ndcg` on, with users and items of X; those that X has,
            too, are left out (`score` would count them).
        {words of fit}
        """
        return self._fit(X, y, plan=plan, client=client, validation=validation)

    @with_callbacks
    def partial_fit(
        self, X: Any, y: Any = None, *, validation: Any = None, client: Any = None
    ) -> Self:
        """Take in users and items that are new; or do one more iteration on X.

        Where X and the fit have labels and not the same users and items, X is a batch: only those
        that the fit has not are solved for, exactly, in this process: new users from their events
        on known items, new items from those of all users, new users again. Known rows stay as they
        are, so that X need not have the old events, and new events of known users count for new
        items, and as seen. How far the new rows are from their optimum then is in
        `new_rows_distance_`; for the known ones to move too, fit all events with
        ``warm_start=True``. No iteration is done then, so that nothing is held out and
        `validation` is refused.

        Else X has the shape and the labels of the fit, and all of its events: all rows are solved
        once more, from the factors so far (or from the beginning). Parameters and errors are those
        of `fit`, but that nothing is held out of X, whatever `validation_fraction` is.
        """
        self._check_parameters()
        if getattr(self, "state_", None) is not None:
            events = self._entries(X)
            whole = joined(events, self.state_)
            lacks_some = whole.shape != events.shape
            if continues(whole, self.state_) or (lacks_some and has_the_same(whole, self.state_)):
                if validation is not None:
                    raise InputError(
                        "new users and items are solved for, without an iteration to measure: "
                        "leave validation out, and judge by score"
                    )
                return self._grow(whole)
            X = whole if lacks_some else events  # it is refused by what is not the same
        return self._fit(X, y, client=client, one_step=True, validation=validation)

    def _grow(self, matrix: LabelledMatrix) -> Self:
        """Take in the users and items of `matrix` behind those of the fit."""
        check_components(self.state_, self.n_components)
        self.state_, self.new_rows_distance_ = grown(
            self.state_.unwatched(self.state_.watched_behind), matrix, self._as_fitted()._exact_rows
        )
        self.seen_ = seen_pattern(matrix, self.seen_)
        self.n_features_in_ = matrix.shape[1]
        return self

    def score(self, X: Any, y: Any = None, *, unknown: str = "raise") -> float:
        """Give the mean NDCG at 10 over the whole catalogue: higher is better.

        Parameters
        ----------
        X : container
            What users took to, any container that `fit` takes.
        y : ignored
        unknown : {"raise", "nan"}, default="raise"
            Users and items that the model does not know: an error, or left out.

        Returns
        -------
        score : float
            Between 0 and 1. What a user had in the fit is left out of its ranking, unless it is in
            X too. A user who had nothing in it gets no list, and counts 0.

        Raises
        ------
        InputError
            For users or items that the model does not know, or when none is left; for counts that
            are not above 0, as in `fit`.
        """
        return self._ndcg(X, unknown)

    def explain(self, X_new: Any, item: Any, n: int = 10) -> pd.DataFrame:
        """Why an item is recommended: what each event of a user adds to its score.

        With the items held fixed a user's row is a weighted sum over what they have, w = A⁻¹ Σ_j
        c_j h_j, so the score of item i is one too: Σ_j c_j ⟨h_i, A⁻¹ h_j⟩.

        Parameters
        ----------
        X_new : container of one row, or dict
            Events of one user, new or of the fit, as `recommend_new` takes them.
        item : label
            What is to be explained.
        n : int, default=10

        Returns
        -------
        explained : DataFrame
            Columns item (after the name of the axis) and contribution: the `n` events that add
            most, largest first. Those of all events add up to the score of `recommend_new`; that of
            `recommend` is by the row of the fit, which iterations may not have brought so far.

        Raises
        ------
        InputError
            For several users or items, an unknown item, `n` < 1, or a nonnegative model, whose rows
            are no such sums.

        Notes
        -----
        Source: Hu, Koren, Volinsky, "Collaborative Filtering for Implicit Feedback Datasets" (ICDM
        2008), section 5.
        """
        state, n = self._fitted(), whole_number(n, "n", 1)
        fitted, index = self._as_fitted(), state.items()
        if fitted.nonnegative:
            raise InputError(
                "a nonnegative model has no explanations: its rows are no sums over events"
            )
        asked = index.positions(index.listed(item))
        if asked.size != 1:
            raise InputError(f"explain takes one item at a time, got {asked.size}")
        if isinstance(X_new, (str, Integral)):
            raise InputError(
                f"explain takes events, not a user: give what {X_new!r} has, as a dict item → count"
            )
        matrix, columns = self._new_rows(X_new)
        if matrix.shape[0] != 1:
            raise InputError(f"explain takes the events of one user, got {matrix.shape[0]} rows")
        events = fitted._events(matrix.row_pointer(), columns, matrix.values)
        parts = fitted._contributions(events, state.item_factors.astype(np.float64), asked[0])
        most = np.argsort(-parts, kind="stable")[:n]
        named = index.take(columns[most])
        return pd.DataFrame({state.item_name: named, "contribution": parts[most]})

    def _check(self) -> None:
        check_partitioner(self.partitioner, [*ROW_PARTITIONERS], self.n_ranks)
        if self.nonnegative and self.solver != "cholesky":
            raise InputError('nonnegative=True needs solver="cholesky"')

    def _entries(self, X: Any) -> LabelledMatrix:
        events = as_events(X, self._columns())
        most = float(self.alpha) * float(events.values.max())
        if most > float(np.finfo(np.float32).max):
            raise InputError(
                f"alpha times the counts goes up to {most:g}, beyond the range of float32 (3e38): "
                "lower alpha, or scale the counts, as by their logarithm"
            )
        return events

    def _problem(self, X: Any, y: Any, data: dict[str, Any], random_state: int) -> Ratings:
        problem = self._held_out(Ratings(self._entries(X)), data, random_state, kind="events")
        if not self.regularization and self.solver != "cg" and not self.nonnegative:
            self._refuse_singular(problem.matrix)
        return problem

    def _refuse_singular(self, events: LabelledMatrix) -> None:
        """Refuse more components than rows of a side span, where no penalty chooses among them."""
        for side, positions in (("users", events.rows), ("items", events.columns)):
            n_there = int(np.count_nonzero(np.bincount(positions)))
            if self.n_components > n_there:
                raise InputError(
                    f"regularization=0 and n_components={self.n_components}, while {n_there} "
                    f"{side} have events: the equations of a row are singular, many solutions are "
                    "as good. Raise regularization, take fewer components, or solver='cg', which "
                    "goes to one of them"
                )

    def _evaluation(self, problem: Ratings) -> Any:
        return None if problem.validation is None else ndcg_of_events(problem)

    def _monitored(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return (), ("validation_ndcg",)

    def _make_plan(
        self, problem: Ratings, n_ranks: int, *, transport: str, random_state: int, kept: Any
    ) -> ImplicitPlan:
        return plan_fit(
            problem.matrix,
            n_ranks,
            partitioner=self.partitioner,
            n_components=int(self.n_components),
            row_work=self._solving().row_work(int(self.n_components)),
            random_state=random_state,
            steps=int(self.max_iter),
            transport=transport,
            kept=kept,
        )

    def _first_state(self, problem: Ratings, plan: ImplicitPlan) -> ImplicitState:
        n_components = int(self.n_components)
        state = problem.blank(n_components, ImplicitState)
        scale = self.init_scale / np.sqrt(n_components)
        fill_starting_rows(state.item_factors, "item", plan.random_state, scale)
        if self.nonnegative:
            np.abs(state.item_factors, out=state.item_factors)
        return state

    def _going_on(self, state: ImplicitState, problem: Ratings) -> ImplicitState:
        check_components(state, self.n_components)
        whole = joined(problem.matrix, state)
        if whole.shape == problem.shape and continues(whole, state):
            state, _ = grown(state.unwatched(state.epoch), whole, self._exact_rows)
        return problem.in_order(state)

    def _solving(self) -> Solve:
        return Solve(
            self.solver,
            int(self.cg_steps),
            int(self.block_size),
            float(self.regularization),
            float(self.frequency_exponent),
            SWEEPS if self.nonnegative else 0,
        )

    def _text(
        self, session: Any, plan: ImplicitPlan, problem: Ratings, state: ImplicitState
    ) -> ImplicitText:
        return ImplicitText(
            session,
            plan,
            events_of_ranks(problem.matrix, plan, float(self.alpha)),
            solve=self._solving(),
            n_events=problem.matrix.nnz,
            tolerance=self._tolerance,
            init_scale=float(self.init_scale),
        )

    def _keep_more(self, problem: Ratings, plan: ImplicitPlan) -> None:
        self.partition_, self.seen_ = plan.partition, seen_pattern(problem.matrix)
        if hasattr(self, "new_rows_distance_"):  # of an earlier call
            del self.new_rows_distance_

    def _solve(self, matrix: LabelledMatrix, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows of new users, solved exactly; no biases."""
        items = self._fitted().item_factors
        rows = self._as_fitted()._exact_rows(matrix.row_pointer(), columns, matrix.values, items)
        return rows, np.zeros(len(rows), np.float32)

    def _as_fitted(self) -> Self:
        return as_fitted(self, "alpha", "regularization", "frequency_exponent", "nonnegative")

    @one_blas_thread
    def _exact_rows(
        self, pointer: np.ndarray, columns: np.ndarray, values: np.ndarray, other: np.ndarray
    ) -> np.ndarray:
        """Rows of one side, each from its events on rows of the other.

        Without a regularization many may be as good: that of least norm is taken.
        """
        events = self._events(pointer, columns, values)
        rows = np.zeros((events.n_owned, other.shape[1]), np.float32)
        if not self.regularization and not self.nonnegative:
            # in float64: the rounding of float32 would pass for a direction of its own
            some = np.flatnonzero(np.diff(events.pointer))
            for row, left, right in self._systems(events, some, other.astype(np.float64)):
                rows[row] = _inverse(left) @ right
            return rows
        gram = np.empty((other.shape[1], other.shape[1]))
        gram_of(other, len(other), gram)
        if not self.nonnegative:
            return self._signed_rows(events, other, gram)
        solve = replace(self._solving(), solver="cholesky", n_sweeps=_EXACT_SWEEPS)
        solve(events, other, gram, rows)
        found = rows.copy()
        replace(solve, n_sweeps=1)(events, other, gram, rows)  # moves those that are not there yet
        moved = np.abs(rows - found).max(axis=1) > UNMOVED * rows.max(axis=1)
        hard = np.union1d(np.flatnonzero(moved), events.rows_from(_STEEP))
        if hard.size:
            for row, left, right in self._systems(events, hard, other.astype(np.float64)):
                rows[row] = nonnegative_rows(left[None], right[None])[0]
        return rows

    def _events(self, pointer: np.ndarray, columns: np.ndarray, values: np.ndarray) -> Events:
        weights = (self.alpha * values).astype(np.float32)
        return Events(pointer, columns.astype(np.int32), weights)

    def _systems(
        self, events: Events, rows: np.ndarray, other: np.ndarray
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Some rows, each with its matrix and right side in float64."""
        gram, unit = other.T @ other, np.eye(other.shape[1])
        ridge = self.regularization * np.diff(events.pointer) ** self.frequency_exponent
        for row in rows.tolist():
            own = slice(*events.pointer[row : row + 2])
            read, weights = other[events.columns[own]], events.weights[own].astype(np.float64)
            left = gram + read.T @ (weights[:, None] * read) + ridge[row] * unit
            yield row, left, read.T @ (1 + weights)

    @one_blas_thread
    def _contributions(self, events: Events, other: np.ndarray, asked: int) -> np.ndarray:
        """What each event of one row adds to its score of a row of the other side."""
        ((_, left, _),) = self._systems(events, np.zeros(1, np.int64), other)
        return (1.0 + events.weights) * (other[events.columns] @ (_inverse(left) @ other[asked]))

    def _signed_rows(self, events: Events, other: np.ndarray, gram: np.ndarray) -> np.ndarray:
        """All in float64, which costs no more here, and no later iteration makes up for rounding.

        In float32 counts of 10⁵ may leave a row nowhere near its minimum.
        """
        rows = np.zeros((events.n_owned, other.shape[1]))
        solve = replace(self._solving(), solver="cholesky", n_sweeps=0)
        solve(events, other.astype(np.float64), gram, rows)
        n_singular = int(np.isnan(rows[:, 0]).sum())
        if n_singular:
            raise InputError(
                f"{n_singular} of {len(rows)} new rows cannot be solved, as alpha times the counts "
                f"goes up to {events.weights.max():g}, or the regularization is too weak. Lower "
                "alpha, or scale the counts, as by their logarithm"
            )
        return rows.astype(np.float32)


def _inverse(left: np.ndarray) -> np.ndarray:
    """Of the matrix of a row; without a regularization its solution is that of least norm."""
    return np.linalg.pinv(left, rcond=_SINGULAR, hermitian=True)
