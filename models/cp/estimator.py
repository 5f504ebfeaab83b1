"""CP decomposition of sparse tensors, partition-aware: the estimator.

    tensor ─► plan (rank of each nonzero, owners, messages) ─► CP-ALS on ranks ─► labelled factors
                  plan_report_                                    history_          comm_report_

The two algorithms are in `als`, what stored entries alone and counts change of them in `completion`
and `counts`, what the ranks are given in `text`, what a decomposition is good for in
`decomposition`; the loop, checkpoints and reports are those of every model (`models.base`).

Source: Abubaker, Karsavuran, Aykanat, "Scalable Unsupervised ML: Latency Hiding in Distributed
Sparse Tensor Decomposition".
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import StrOptions

from daskpart._floor.checks import finite_number
from daskpart.containers.tensor import Missing
from daskpart.errors import BalanceWarning, InputError, warn
from daskpart.models.base.callbacks import EpochContexts, Tolerance, with_callbacks
from daskpart.models.base.cutting import kept_cut
from daskpart.models.base.docstrings import with_shared_words, with_words_of_fit
from daskpart.models.base.estimator import DistributedEstimator
from daskpart.models.base.parameters import AT_LEAST_0, COUNT, SHARE
from daskpart.models.base.plan import FitPlan, check_partitioner
from daskpart.models.base.problem import check_components, share_held_out
from daskpart.models.base.progress import Measure
from daskpart.models.base.state import State
from daskpart.models.base.trainer import Trainer
from daskpart.partitions import Partition

from .als import Update
from .by_mode import by_place, nonnegative_modes, place_of_mode, ridge_modes
from .counts import check_counts, with_sums_of_1
from .cut import NAMES, OWNERS
from .decomposition import CPModel
from .entries import Aligned, entries_of
from .growing import others_updated, with_new_rows
from .held_out import with_held_out
from .layout.layout import MEMORY
from .logistic import answers_of, log_odds
from .losses import LOGISTIC, LOSSES, POISSON, SQUARED_ERROR, check_loss
from .plan import METHODS, CPPlan, PlanSettings, choose, warn_of_little_known
from .problem import TensorProblem
from .shuffle import problem_of
from .starts import (
    INITS,
    by_name,
    check_fixed,
    check_init,
    check_start,
    first_factors,
    fixed_factors,
)
from .state import CPState, better
from .text import CPText

_CHOSEN = "chosen_method"


@with_shared_words()
class CPDecomposition(CPModel):
    """Decompose a sparse tensor X ≈ Σ_r λ_r u_r ∘ v_r ∘ w_r … over `n_ranks` ranks.

    By least squares (ALS), or as counts, or as yes and no (`loss`). Nonzeros are dealt to ranks by
    a partitioner; factor rows that several ranks touch have an owner. An entry that is not stored
    is 0, or unknown (`missing`). Any number of modes from 2 on.

    Parameters
    ----------
    n_components : int, default=8
        R, number of components.
    max_iter : int, default=50
        Most iterations.
    tol : float, default=1e-5
        Stop when an iteration changes the fit by less; 0: never.
    method : {"auto", "p2p", "emb-naive", "emb"}, default="auto"
        How rows travel: point to point (Algorithm 1), or inside the allreduces of norms and Grams
        (Algorithm 2), where a rank handles 2·M·log2 K messages an iteration. "auto": the one with
        the smaller predicted time on the transport at hand.
    n_ranks : int or None, default=None
        K. None: as many as a given partition has parts, else the largest power of two that the
        threads of the cluster's workers suffice for, or the cores of this process.
    partitioner : str, dict, Partition or int array of shape (nnz,), default="auto"
        "block" (runs in row-major order), "random", "fine-grain", "medium-grain", "hypercube",
        "hypercube-fine-grain"; "auto", which weighs the seconds that a cut saves over the fit
        against those of cutting, so depends on the transport and on `max_iter`, and says in the
        plan what it weighed: it cuts by "hypercube" for embedded methods where K is a power of two,
        else by "medium-grain", or takes blocks, as in one process; or the
        arguments of `daskpart.partition`, such as ``{"model": "fine-grain", "epsilon": 0.1}``; or a
        `daskpart.Partition` of the nonzeros or of a grain; or the rank of each nonzero in row-major
        order.
    owners : {"packed", "random"}, default="packed"
        Owners of shared rows: packed so that no rank moves many more rows than the others, or
        drawn.
    missing : {"zero", "unknown"}, default="zero"
        What an entry is that is not stored: 0; or unknown, so that the stored entries alone are
        fitted, zeros among them. Then each factor row has a system of its own, whose half travels
        to the owner of the row: R(R + 3)/2 numbers in place of R; of counts (`loss`) 2 R.
    loss : {"squared", "poisson", "logistic"}, default="squared"
        What is minimised: ‖X − X̂‖², or Σ x̂ − x log x̂, which suits counts: values of 0 or above,
        most of them small. Under "poisson" all factors are 0 or above; an iteration is a
        multiplicative update of each mode (CP-APR), which never raises the loss, but takes longer
        than one of ALS and gains less: give it some hundred (`max_iter`). Or "logistic",
        Σ log(1 + exp(s)) − x s + ½ ridge Σ λ_r² over stored entries of yes and no, 1 and 0 (or −1),
        with ``missing="unknown"``: s is x̂ plus the log-odds of the share of yes; a little `ridge`
        keeps what could be told apart for certain from growing on.
    nonnegative : bool, list of modes, or list of bool, default=False
        Keep every factor at 0 or above (HALS), or those of some modes.
    ridge : float, list of float, or dict of mode to float, default=0.0
        Added to the diagonal of each system of normal equations; one for each mode, or for some. As
        columns of the other factors have length 1 there, all modes with the same one minimise the
        squared error + ridge · Σ λ_r² (and not ridge · Σ ‖U‖² of factors of any length, as l2_reg
        of tensorly does). λ_r² grows with the number of cells: over stored entries alone a ridge is
        small where it is far below their share of the cells.
    init : {"random", "nvecs"} or list of arrays, default="random"
        Factors to begin from: uniform in [0, 1), leading singular vectors of each unfolding, or
        given, one of shape (I_m, R) a mode. Of DataArrays modes and rows are told by their names.
    fixed_modes : dict of mode to array, default=None
        Factors that are known and stay as they are, such as spectra, or last year's users: each of
        shape (I_m, R), of a DataArray the rows by their labels. All other modes are fitted, and
        their columns alone have a norm, so λ is of the values as given. Nothing is sent for them.
    n_init : int, default=1
        Random starts; the one with the best fit is kept.
    dtype : {None, "float32", "float64"}, default=None
        Of the factors; None: that of the tensor.
    memory : {"fast", "small"}, default="fast"
        Layout of the nonzeros on a rank: at most twice their bytes (int32 coordinates and values),
        or at most these bytes and more time. Both take at most twice while it is made.
    {words of transport}
    alpha_beta : (float, float) or None, default=None
        Seconds a message and seconds a byte, for method="auto"; None: rough figures of the
        transport.
    validation_fraction : float, default=0.0
        Share of the stored entries that is held out to measure `validation_rmse` after each
        iteration, of counts and of yes and no `validation_loss`; needs ``missing="unknown"``.
    patience : int or None, default=None
        Stop after so many iterations in which that became no better; the model then has the
        factors of the best iteration, and of several starts that with the best.
    warm_start : bool, default=False
        Begin at the factors of the last fit.
    {words of checkpoints}
    random_state : int, RandomState or None, default=0
        Fixes everything: partition, owners, first factors. A RandomState or None draws the seed.
    verbose : int, default=0
        1: the fit after each iteration, in a bar, or a line a step where the output is no
        terminal.

    Attributes
    ----------
    weights_ : xarray.DataArray of float64, shape (R,)
        λ, in the order of the start (pyttb sorts components by them).
    factors_ : list of xarray.DataArray, one a mode, shape (I_m, R)
        Columns of length 1, of counts of sum 1; fixed ones as given. Also by the name of the mode.
    fit_ : float
        1 − ‖X − X̂‖/‖X‖; over the stored entries where others are unknown. Of counts the share of
        the Poisson deviance that is explained, 0 for one number in all cells that are known.
    history_ : pandas.DataFrame
        One row an iteration: fit, fit_change, validation_rmse (where entries are held out; of
        counts validation_loss, half of the mean Poisson deviance, of yes and no the mean log loss),
        seconds, seconds_computing, seconds_communicating (means over ranks), volume (rows sent),
        messages.
    n_iter_ : int
    best_iteration_ : int or None
        The iteration whose factors the model has, by `patience`; None without it: the last.
    method_ : str
        The method that was used.
    state_ : CPState
        Weights and factors, unlabelled.
    plan_report_ : CPPlanReport
    comm_report_ : CommunicationReport

    Examples
    --------
    >>> import daskpart, sparse
    >>> tensor = sparse.random((20, 15, 10), nnz=300, random_state=0)
    >>> model = daskpart.CPDecomposition(3, n_ranks=2, max_iter=5).fit(tensor)
    >>> [factor.shape for factor in model.factors_]
    [(20, 3), (15, 3), (10, 3)]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **DistributedEstimator._parameter_constraints,
        "n_components": [COUNT],
        "method": [StrOptions(set(METHODS))],
        "partitioner": [str, dict, Partition, "array-like"],
        "owners": [StrOptions(set(OWNERS))],
        "missing": [StrOptions({"zero", "unknown"})],
        "loss": [StrOptions(set(LOSSES))],
        "nonnegative": ["boolean", list, tuple, str],
        "ridge": [AT_LEAST_0, dict, list, tuple],
        "init": [StrOptions(set(INITS)), list, tuple],
        "fixed_modes": [dict, None],
        "n_init": [COUNT],
        "dtype": [StrOptions({"float32", "float64"}), None],
        "memory": [StrOptions(set(MEMORY))],
        "alpha_beta": [tuple, list, None],
        "validation_fraction": [SHARE],
    }
    _decide_plan: ClassVar[tuple[str, ...]] = (
        *("n_components", "method", "partitioner", "owners", "dtype", "memory", "alpha_beta"),
        *("missing", "loss", "fixed_modes", "validation_fraction"),
    )
    _decide_bits: ClassVar[tuple[str, ...]] = (
        *("n_components", "method", "partitioner", "owners", "memory"),
        *("missing", "loss", "nonnegative", "ridge", "init", "fixed_modes", "validation_fraction"),
    )
    _measures: ClassVar[tuple[Measure, ...]] = (
        Measure("fit", "fit", digits=".6f", step="iteration"),  # late ones differ in the fifth
        Measure("validation_rmse", "validation", "RMSE", step="iteration"),
        Measure("validation_loss", "validation", "loss", step="iteration"),
    )
    _takes_dense: ClassVar[bool] = False
    _state_class: ClassVar[type[State]] = CPState
    _tolerance_column: ClassVar[str | None] = "fit_change"

    n_components: int
    method: str
    partitioner: Any
    owners: str
    init: Any
    fixed_modes: Any
    n_init: int
    dtype: str | None
    memory: str
    alpha_beta: tuple[float, float] | None
    validation_fraction: float

    def __init__(
        self,
        n_components: int = 8,
        *,
        max_iter: int = 50,
        tol: float = 1e-5,
        method: str = "auto",
        n_ranks: int | None = None,
        partitioner: Any = "auto",
        owners: str = "packed",
        missing: Missing = "zero",
        loss: str = SQUARED_ERROR,
        nonnegative: Any = False,
        ridge: Any = 0.0,
        init: Any = "random",
        fixed_modes: dict[Any, Any] | None = None,
        n_init: int = 1,
        dtype: str | None = None,
        memory: str = "fast",
        transport: str = "auto",
        alpha_beta: tuple[float, float] | None = None,
        validation_fraction: float = 0.0,
        patience: int | None = None,
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
        """Decompose a tensor.

        Parameters
        ----------
        X : container
            sparse.COO or GCXS of order 2 or more, scipy.sparse, a Dask array of sparse blocks, an
            xarray.DataArray over one of these (dims and coordinates carry over to the factors), the
            path of a FROSTT ``.tns`` file, which may be compressed, a DataFrame with a column of
            labels for each mode and one of values, or a list of records ``(index, …, value)``, as
            which a list of lists is read, too.
        y : array of shape (n,), optional
            Values of a DataFrame all of whose columns are modes; else ignored.
        validation : container, optional
            Entries to measure `validation_rmse` (or `validation_loss`) on, with modes and indices
            of X; needs ``missing="unknown"``.
        {words of fit}
        """
        return self._fit(X, y, plan=plan, client=client, validation=validation)

    @with_callbacks
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        mode: int | str | None = None,
        validation: Any = None,
        client: Any = None,
    ) -> Self:
        """Do one more iteration on X from the factors so far; or take in new slices of one mode.

        Parameters
        ----------
        X : container
            With the modes and labels of the first fit. Of yes and no it may be of one of them, as
            the first may not: `fit_` is NaN then, a share of no deviance. With `mode`: the new
            slices alone, which have the indices of the fit along all other modes.
        y : array of shape (n,), optional
            As for `fit`.
        mode : int or str, optional
            The mode that grows, by place or by name. The rows of the new slices are solved for, and
            unless absent entries are unknown, or values counts, the other factors move with them,
            as if the old nonzeros were there (online CP), with `missing`, `loss`, `nonnegative`,
            `ridge` and `fixed_modes` of the fit. In this process. `fit_` is NaN then, as it would
            need them (`score` gives it), and `history_` begins anew.
        validation, client
            As for `fit`; `validation` is refused with `mode`, as no iteration is done then. Nothing
            is held out of X, whatever `validation_fraction` is.

        Returns
        -------
        self

        Raises
        ------
        InputError
            As `fit`; with `mode` for slices that the model has already, names that do not go with
            those of the fit, or `validation`.
        """
        if mode is not None:
            if validation is not None:
                raise InputError(
                    "new slices are solved for, without an iteration to measure: leave validation "
                    "out, and judge by score"
                )
            return self._grow(X, y, mode)
        return self._fit(X, y, client=client, one_step=True, validation=validation)

    def _grow(self, X: Any, y: Any, mode: int | str) -> Self:
        """Take in new slices along a mode."""
        state = self._fitted()
        state = state.unwatched(state.watched_behind)
        self._check_parameters()
        check_components(state, self.n_components)
        place = place_of_mode(mode, state.dims)
        fitted = self._as_fitted()
        aligned = Aligned(state, entries_of(X, y, fitted.missing))
        rows = self._new_rows(aligned, place)
        counts = fitted.loss == POISSON
        fixed = by_place(fitted.fixed_modes or {}, state.dims, "fixed_modes")
        norm = 1 if counts else 2
        if fitted.missing == "zero" and not counts:
            signs = nonnegative_modes(fitted.nonnegative, state.dims)
            ridge = ridge_modes(fitted.ridge, state.dims)
            state, rows = others_updated(state, aligned, place, rows, signs, ridge, fixed)
        self.state_ = with_new_rows(state, aligned, place, rows, norm=norm, fixed=fixed)
        if hasattr(self, "n_features_in_"):  # of a matrix
            self.n_features_in_ = self.state_.shape[1]
        return self

    def _check(self) -> None:
        check_partitioner(self.partitioner, NAMES, self.n_ranks)
        check_init(self.init, self.n_components, self.n_init)
        check_fixed(self.fixed_modes, self.n_components)
        if self.validation_fraction and self.missing == "zero":
            raise InputError(
                "validation_fraction holds out entries, and missing='zero' takes what is held out "
                "for 0: give missing='unknown'"
            )
        check_loss(self.loss, self.missing, self.ridge)
        pair = self.alpha_beta
        if pair is not None and len(pair) != 2:
            raise InputError(
                f"alpha_beta={pair!r} must be two numbers of at least 0: seconds a message and "
                "seconds a byte"
            )
        for seconds in pair or ():
            finite_number(seconds, "a number of alpha_beta")
        if self.n_init > 1 and (self.checkpoint_path is not None or self.warm_start):
            raise InputError(
                f"n_init={self.n_init} begins several times: it goes neither with checkpoint_path "
                "nor with warm_start"
            )

    def _check_yes_no(self, problem: TensorProblem, is_first: bool) -> None:
        if problem.tensor is not None:
            answers = answers_of(problem.tensor.values).tolist()
            if is_first:  # refuses before anything is cut
                log_odds(answers)
        if all(self._signs(problem.dims)):
            raise InputError(
                "nonnegative=True leaves no probability below the share of yes under "
                "loss='logistic': leave it out, or leave a mode free (nonnegative=[…])"
            )

    def _monitored(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        column = self._patience_column if self.loss == SQUARED_ERROR else "validation_loss"
        return (column,), ()

    def _signs(self, dims: tuple[str, ...]) -> tuple[bool, ...]:
        """Whether the factor of each mode is kept at 0 or above."""
        if self.loss == POISSON:
            return (True,) * len(dims)
        return nonnegative_modes(self.nonnegative, dims)

    def _default_ranks(self, client: Any) -> int:
        n_ranks = super()._default_ranks(client)
        return 1 << (n_ranks.bit_length() - 1)  # corners of a hypercube

    def _problem(self, X: Any, y: Any, data: dict[str, Any], random_state: int) -> TensorProblem:
        validation = data.get("validation")
        if validation is not None and self.missing == "zero":
            raise InputError(
                "validation entries are not in X, and missing='zero' takes them for 0: give "
                "missing='unknown'"
            )
        share = share_held_out(self, "validation", data)
        problem = problem_of(X, y, self.missing)
        if self.loss == POISSON and problem.tensor is not None:
            check_counts(problem.tensor.values)
        if self.loss == LOGISTIC:
            self._check_yes_no(problem, not self._goes_on(data.get("one_step", False)))
        nonnegative_modes(self.nonnegative, problem.dims)
        signs, dtype = self._signs(problem.dims), self._dtype(problem)
        if not self._goes_on(data.get("one_step", False)):
            check_start(by_name(self.init, problem.dims, problem.labels), problem, signs, dtype)
        problem.fixed = fixed_factors(self.fixed_modes, problem, signs, dtype)
        ridge_modes(self.ridge, problem.dims)
        problem = problem.with_validation(validation, share, random_state)
        if self.loss == LOGISTIC and problem.validation is not None:
            answers_of(problem.validation.values)
        if self.loss == POISSON and problem.validation is not None:
            check_counts(problem.validation.values)
        return problem

    def _make_plan(
        self,
        problem: TensorProblem,
        n_ranks: int,
        *,
        transport: str,
        random_state: int,
        kept: CPState | None,
    ) -> CPPlan:
        method = self.method
        if method == "auto" and kept is not None:
            method = kept.settings[_CHOSEN]  # as it was chosen when it began
        pair = self.alpha_beta
        settings = PlanSettings(
            n_ranks=n_ranks,
            method=method,
            partitioner=self.partitioner,
            owners=self.owners,
            random_state=random_state,
            n_components=int(self.n_components),
            itemsize=np.dtype(self.dtype or problem.dtype).itemsize,
            alpha_beta=None if pair is None else (pair[0], pair[1]),
            memory=self.memory,
            missing=self.missing,
            loss=self.loss,
            steps=int(self.max_iter) * int(self.n_init),
            transport=transport,
            kept_cut=kept_cut(kept, n_ranks),
            fixed=tuple(sorted(problem.fixed)),
        )
        plan = choose(problem.plan(settings))
        if plan.imbalance_told:
            imbalance = f"imbalance {plan.report().imbalance:.4g} of the work"
            told = f"{imbalance}; the cut: {plan.imbalance_told}"
            warn(told, BalanceWarning)
        if self.missing == "unknown":
            ridge = ridge_modes(self.ridge, problem.dims)
            warn_of_little_known(plan, ridge, problem.fixed)
        return plan

    def _chosen(self, plan: CPPlan) -> dict[str, Any]:
        return {_CHOSEN: plan.method, "dtype": f"float{8 * plan.choice.itemsize}"}

    def _first_state(self, problem: TensorProblem, plan: CPPlan, start: int = 0) -> CPState:
        factors = first_factors(
            by_name(self.init, problem.dims, problem.labels),
            problem.tensor,
            problem.shape,
            self.n_components,
            random_state=plan.random_state,
            start=start,
            nonnegative=self._signs(problem.dims),
        )
        fixed = problem.fixed
        typed: list[Any] = [
            fixed.get(place, factor).astype(self._dtype(problem))
            for place, factor in enumerate(factors)
        ]
        weights, labels = np.ones(self.n_components), dict(problem.labels)
        state = CPState(weights, typed, tuple(problem.dims), labels)
        return with_sums_of_1(state, fixed) if self.loss == POISSON else state

    def _going_on(self, state: CPState, problem: TensorProblem) -> CPState:
        check_components(state, self.n_components)
        problem.check_same(state)
        before = state.settings.get("loss", self.loss)
        if before != self.loss and LOGISTIC in (before, self.loss):
            raise InputError(
                f"the last fit had loss={before!r}, and loss={self.loss!r} cannot go on from its "
                "values, which are of another kind: fit with warm_start=False"
            )
        fixed = problem.fixed
        stayed = by_place(state.settings.get("fixed_modes") or {}, state.dims, "fixed_modes")
        if self.loss == POISSON and (
            state.settings.get("loss") != POISSON or {*stayed} != {*fixed}
        ):
            if any((factor < 0).any() for factor in state.factors):
                raise InputError(
                    "the factors to go on from hold negative values, and loss='poisson' takes "
                    "none: fit anew, or go on from a nonnegative fit"
                )
            state = with_sums_of_1(state, fixed)
        dtype, factors = self._dtype(problem), enumerate(state.factors)
        typed = [fixed.get(place, factor).astype(dtype) for place, factor in factors]
        return replace(state, factors=typed)

    def _dtype(self, problem: TensorProblem) -> str:
        return self.dtype or problem.dtype

    def _plan_of_fit(self, plan: CPPlan, problem: TensorProblem) -> CPPlan:
        if problem.validation is None:
            return replace(plan, held_out=None)
        keeps_best = self.patience is not None
        return with_held_out(plan, problem.validation, problem.fixed, keeps_best)

    def _text(self, session: Any, plan: CPPlan, problem: TensorProblem, state: CPState) -> CPText:
        return CPText(
            session,
            plan,
            problem.pieces(plan),
            state.shape,
            update=Update(self._signs(problem.dims), ridge_modes(self.ridge, problem.dims)),
            dtype=self._dtype(problem),
            tolerance=self._tolerance,
            watch=self._watch(),
        )

    def _train(
        self,
        trainer: Trainer,
        problem: TensorProblem,
        plan: CPPlan,
        start: State,
        last: int,
        epochs: EpochContexts,
    ) -> State:
        """The best of all starts; the last of them, number 0, with all callbacks.

        Of one step, as of `partial_fit`, and where a fit goes on there is but one.
        """
        enough = Tolerance(self._tolerance, "fit_change")
        n_starts = self.n_init if not start.epoch and last == self.max_iter else 1
        for number in range(1, n_starts):
            other = self._first_state(problem, plan, number)
            trainer.begin_again(replace(other, settings=start.settings))
            rows = trainer.run(self.max_iter)
            while rows[-1]["epoch"] < self.max_iter and not (
                enough.reached(rows[-1]) or trainer.ran_out
            ):
                rows = trainer.run(self.max_iter)
            trainer.earlier = better(trainer.state(), trainer.earlier)
        if trainer.earlier is not None:
            trainer.begin_again(start)
        self._run_steps(trainer, epochs)
        trainer.state()
        return self._best_kept(trainer)

    def _best_kept(self, trainer: Trainer) -> State:
        return better(trainer.kept, trainer.earlier)

    def _keep_more(self, problem: TensorProblem, plan: CPPlan) -> None:
        self.method_ = plan.method
        if not self.state_.weights.any():
            warn(
                "all components are 0, and so is the fit: values below 0 are out of reach of "
                "nonnegative factors. Give -X, or leave a mode free (nonnegative=[…])"
            )
