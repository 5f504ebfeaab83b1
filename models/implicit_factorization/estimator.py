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
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from daskpart.containers.matrix import Columns, LabelledMatrix
from daskpart.errors import InputError
from daskpart.models.base.callbacks import with_callbacks
from daskpart.models.base.estimator import COUNT, DistributedEstimator
from daskpart.models.base.plan import FitPlan, check_partitioner
from daskpart.models.base.progress import Measure
from daskpart.models.base.state import State
from daskpart.models.matrix_factorization.problem import Ratings, as_events
from daskpart.models.matrix_factorization.rank_data import fill_starting_rows
from daskpart.models.matrix_factorization.recommending import FactorModel, seen_pattern
from daskpart.partitions import Partition

from .als import Events, Solve
from .plan import PARTITIONERS, ImplicitPlan, events_of_ranks, plan_fit
from .state import ImplicitState
from .text import ImplicitText


class ImplicitFactorization(FactorModel, DistributedEstimator):
    """Factorize implicit feedback P ≈ W·Hᵀ by weighted alternating least squares over ranks.

    Minimises Σ c_ij (p_ij − ⟨w_i, h_j⟩)² + Σ λ_i ‖w_i‖² + Σ λ_j ‖h_j‖² over **all** pairs: p = 1
    and c = 1 + α · count where an event is stored, p = 0 and c = 1 elsewhere.

    Parameters
    ----------
    n_components : int, default=64
        F, length of a factor row.
    alpha : float, default=1.0
        α, what an event adds to the confidence.
    regularization : float, default=0.01
        λ.
    frequency_exponent : float, default=0.0
        ν; the λ of a row is regularization · (its events)^ν. 0: the same for all; 1: as much as in
        a sum over events.
    solver : {"cg", "cholesky", "subspace"}, default="cg"
        How a row is solved: `cg_steps` of conjugate gradients from the row as it was; exactly; or
        exactly in one block of `block_size` components after the other, from the row as it was
        (iALS++), for more than some 100 components.
    cg_steps : int, default=3
    block_size : int, default=64
    nonnegative : bool, default=False
        Keep factors at 0 or above, by coordinate descent; needs solver="cholesky".
    n_ranks : int or None, default=None
        K, number of parts. None: as many as the workers have threads, or this process cores.
    partitioner : str, dict, Partition or int array of shape (M,), default="power"
        How users are cut: "power", "connectivity", "cut-net", "metis", "random", "block", or as for
        `MatrixFactorization`.
    init_scale : float, default=0.1
        First components of items are uniform in ± this / √F.
    max_iter : int, default=15
        Iterations.
    tol : float, default=0.0
        Stop when the loss changes by less.
    user, item, rating : str or None, default=None
        Names of the columns of a DataFrame; None: told by names that people use or by their order.
        A frame needs no ratings: each line is one event.
    transport : {"auto", "local", "graph", "dask", "mpi"}, default="auto"
        How ranks send, as for `MatrixFactorization`.
    warm_start : bool, default=False
        Begin at the factors of the last fit.
    checkpoint_path : path or None, default=None
        ``run.npz`` or ``run.zarr``; written every `checkpoint_every` iterations.
    checkpoint_every : int, default=1
    resume : bool, default=False
        Begin at the newest checkpoint, if there is one; gives the bits of an unbroken fit.
    random_state : int, RandomState or None, default=0
        Fixes partition and first factors.
    verbose : int, default=0
        1: progress bar with the loss.

    Attributes
    ----------
    user_factors_, item_factors_ : xarray.DataArray of float32, shape (M, F) and (N, F)
        A user or item without events has a row of zeros.
    state_ : ImplicitState
    history_ : pandas.DataFrame
        One row an iteration: loss (the objective over the number of events), seconds, volume and
        messages.
    n_iter_ : int
    plan_report_ : ImplicitPlanReport
    comm_report_ : CommunicationReport
    partition_ : Partition
    n_features_in_ : int

    Examples
    --------
    >>> import daskpart
    >>> clicks = daskpart.datasets.power_law_ratings(200, 100, 4000, random_state=0)
    >>> model = daskpart.ImplicitFactorization(8, n_ranks=2, max_iter=5).fit(clicks)
    >>> model.recommend(0, n=3).shape
    (3, 3)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **DistributedEstimator._parameter_constraints,
        "n_components": [COUNT],
        "alpha": [Interval(Real, 0, np.inf, closed="neither")],
        "regularization": [Interval(Real, 0, np.inf, closed="left")],
        "frequency_exponent": [Interval(Real, 0, np.inf, closed="left")],
        "solver": [StrOptions({"cg", "cholesky", "subspace"})],
        "cg_steps": [COUNT],
        "block_size": [COUNT],
        "nonnegative": ["boolean"],
        "partitioner": [str, dict, Partition, "array-like"],
        "init_scale": [Interval(Real, 0, np.inf, closed="neither")],
        "user": [str, None],
        "item": [str, None],
        "rating": [str, None],
    }
    _decide_plan: ClassVar[tuple[str, ...]] = ("n_components", "partitioner")
    _decide_bits: ClassVar[tuple[str, ...]] = (
        *_decide_plan,
        *("alpha", "regularization", "frequency_exponent", "solver", "cg_steps", "nonnegative"),
        *("block_size", "init_scale"),
    )
    _measures: ClassVar[tuple[Measure, ...]] = (Measure("loss", "loss"),)
    _takes_dense: ClassVar[bool] = False
    _state_class: ClassVar[type[State]] = ImplicitState
    _tolerance_column: ClassVar[str | None] = "loss_change"
    biases = False  # what `FactorModel` asks for

    state_: ImplicitState

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
        partitioner: Any = "power",
        init_scale: float = 0.1,
        max_iter: int = 15,
        tol: float = 0.0,
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
        self.n_components = n_components
        self.alpha = alpha
        self.regularization = regularization
        self.frequency_exponent = frequency_exponent
        self.solver = solver
        self.cg_steps = cg_steps
        self.block_size = block_size
        self.nonnegative = nonnegative
        self.n_ranks = n_ranks
        self.partitioner = partitioner
        self.init_scale = init_scale
        self.max_iter = max_iter
        self.tol = tol
        self.user = user
        self.item = item
        self.rating = rating
        self.transport = transport
        self.warm_start = warm_start
        self.checkpoint_path = checkpoint_path
        self.checkpoint_every = checkpoint_every
        self.resume = resume
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(
        self, X: Any, y: Any = None, *, plan: FitPlan | None = None, client: Any = None
    ) -> Self:
        """Factorize events.

        Parameters
        ----------
        X : container of shape (M, N)
            Counts, or anything that says how sure an event is: what `MatrixFactorization.fit`
            takes, or a (user, item) DataFrame with one line an event. Positions that come more than
            once are added up. A Dask array is computed here.
        y : ignored
        plan : ImplicitPlan, optional
            Of these events, from `plan`.
        client : distributed.Client, optional
            Default: the current one.

        Returns
        -------
        self

        Raises
        ------
        InputError
            For bad parameters, or counts that are not above 0.
        DivergenceError
            When the equations of a row were singular.
        """
        return self._fit(X, y, plan=plan, client=client)

    @with_callbacks
    def partial_fit(self, X: Any, y: Any = None, *, client: Any = None) -> Self:
        """Do one more iteration on X, from the factors so far (or from the beginning).

        Parameters and errors are those of `fit`; X has the shape and the labels of the first fit.
        """
        return self._fit(X, y, client=client, one_step=True)

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
            X too.
        """
        return self._ndcg(X, unknown)

    def _check(self) -> None:
        check_partitioner(self.partitioner, [*PARTITIONERS], self.n_ranks)
        if self.nonnegative and self.solver != "cholesky":
            raise InputError('nonnegative=True needs solver="cholesky"')

    def _events(self, X: Any) -> LabelledMatrix:
        columns: Columns = (self.user, self.item, self.rating)
        return as_events(X, columns)

    def _problem(self, X: Any, y: Any, data: dict[str, Any], random_state: int) -> Ratings:
        return Ratings(self._events(X))

    def _make_plan(
        self, problem: Ratings, n_ranks: int, *, transport: str, random_state: int, kept: Any
    ) -> ImplicitPlan:
        return plan_fit(
            problem.matrix,
            n_ranks,
            partitioner=self.partitioner,
            n_components=int(self.n_components),
            random_state=random_state,
        )

    def _first_state(self, problem: Ratings, plan: ImplicitPlan) -> ImplicitState:
        n_components = int(self.n_components)
        state = problem.blank(n_components, ImplicitState)
        scale = self.init_scale / np.sqrt(n_components)
        fill_starting_rows(state.item_factors, plan.random_state, 0.0, scale)
        if self.nonnegative:
            np.abs(state.item_factors, out=state.item_factors)
        return state

    def _going_on(self, state: ImplicitState, problem: Ratings) -> ImplicitState:
        problem.check_same(state)
        return state

    def _solving(self) -> Solve:
        return Solve(
            self.solver,
            int(self.cg_steps),
            int(self.block_size),
            float(self.regularization),
            float(self.frequency_exponent),
            bool(self.nonnegative),
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
            tol=float(self.tol),
        )

    def _keep_more(self, problem: Ratings, plan: ImplicitPlan) -> None:
        self.partition_, self.seen_ = plan.partition, seen_pattern(problem.matrix)

    def _new_rows(self, X_new: Any) -> tuple[LabelledMatrix, np.ndarray]:
        from daskpart.models.matrix_factorization.pairs import item_positions

        matrix = self._events(X_new)
        return matrix, item_positions(matrix, self._fitted())

    def _solve(self, matrix: LabelledMatrix, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows of new users, solved exactly; no biases."""
        from .kernels.solving import gram_of

        items = self._fitted().item_factors
        gram = np.empty((items.shape[1], items.shape[1]))
        gram_of(items, len(items), gram)
        weights = (self.alpha * matrix.values).astype(np.float32)
        events = Events(matrix.row_pointer(), columns.astype(np.int32), weights)
        rows = np.zeros((matrix.shape[0], items.shape[1]), np.float32)
        solve = self._solving()
        exact = Solve("cholesky", 0, 0, solve.regularization, solve.exponent, solve.nonnegative)
        exact(events, items, gram, rows)
        return rows, np.zeros(len(rows), np.float32)
