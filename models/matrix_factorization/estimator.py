"""Matrix factorization of sparse ratings, partition-aware: the estimator.

    ratings ─► plan (partition, sub-epochs, messages) ─► η-PASGD on ranks ─► labelled factors
                 plan_report_                              history_          comm_report_

What an epoch is stands in `pasgd`, what the ranks are given in `text`, what a fitted model is good
for in `recommending`; the loop, checkpoints and reports are those of every model (`models.base`).

Source: Abubaker et al., "Minimizing Staleness and Communication Overhead in Distributed SGD for
Collaborative Filtering".
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import StrOptions

from daskpart.containers.matrix import LabelledMatrix
from daskpart.errors import InputError, warn
from daskpart.models.base.callbacks import with_callbacks
from daskpart.models.base.docstrings import with_shared_words, with_words_of_fit
from daskpart.models.base.fitted import as_fitted
from daskpart.models.base.parameters import AT_LEAST_0, COUNT, POSITIVE
from daskpart.models.base.plan import ROW_PARTITIONERS, FitPlan, check_partitioner
from daskpart.models.base.problem import check_components
from daskpart.models.base.progress import Measure
from daskpart.models.base.state import State
from daskpart.models.optimisation.learning_rates import (
    DEFAULT_RATES,
    LearningRate,
    in_another_fit,
    learning_rate,
)
from daskpart.models.optimisation.log_loss import log_losses
from daskpart.partitions import Partition

from .growing import continues, grown, joined, new_rows_distance
from .held_out import with_held_out
from .mean import with_biases, without_biases
from .pairs import entry_positions
from .pasgd import RowLayout
from .plan import MFPlan, plan_fit, rank_seen, rank_weights, with_negatives
from .predicting import checked_clip, predictions, refuse_clip
from .problem import Ratings
from .recommending import Recommender, ndcg_of_events, seen_pattern
from .state import MFState
from .text import MFText
from .yes_or_no import as_answers, log_odds

_KINDS = {"squared": "ratings", "logistic": "answers", "bpr": "events"}  # of what is stored


@with_shared_words()
class MatrixFactorization(Recommender):
    """Factorize sparse ratings R ≈ μ + b_i + b_j + W·Hᵀ by SGD over `n_ranks` ranks.

    Rows are split over ranks by a partitioner. Item rows that several ranks touch are averaged
    and passed on `eta` times an epoch (η-PASGD); with ``eta = n_ranks`` no update is ever stale.
    Minimises Σ (r_ij − r̂_ij)² + γ (‖w_i‖² + ‖h_j‖² + b_i² + b_j²) over the stored entries; an
    explicit zero is a rating of zero, an absent entry is unknown. Under ``loss="logistic"`` ratings
    are yes or no (likes and dislikes, ads clicked and passed by), and r̂ the log-odds of yes. Under
    ``loss="bpr"`` entries are events (clicks, plays), and what a user has is scored above what it
    has not.

    Parameters
    ----------
    n_components : int, default=32
        F, length of a factor row.
    n_ranks : int or None, default=None
        K, number of parts. May exceed the workers. None: as many as a given partition has, else
        as the workers have threads, or as this process has cores.
    eta : int or None, default=None
        η, synchronisations an epoch; None: as many as ranks, which is free of staleness (1 under
        "gasgd").
    partitioner : str, dict, Partition or int array of shape (M,), default="auto"
        "power" (λ² by recursive bipartitioning), "connectivity", "cut-net", "metis", "random",
        "block"; "auto", which weighs the seconds that a cut saves over the fit against those of
        cutting, so depends on the transport and on `max_iter`, and says in the plan what it
        weighed: in one process rows are cut in blocks; or the arguments of
        `daskpart.partition`, such as ``{"objective": "power", "rho": 3, "epsilon": 0.1}``; or a
        `daskpart.Partition` with one part a rank; or the part of each row.
    axis : {"rows", "columns", "auto"}, default="rows"
        What is split; "auto" plans both and takes the one that moves fewer rows.
    schedule : {"pasgd", "dsgd", "gasgd"}, default="pasgd"
        "pasgd": η-PASGD, as above. Two more to compare it with: "dsgd", in which blocks of items
        rotate over the ranks in K strata whatever `eta` is, nothing stale; and "gasgd",
        in which single ratings are cut and rows of both factors are averaged `eta` times (1 by
        default; `partitioner` then cuts stored entries).
    loss : {"squared", "logistic", "bpr"}, default="squared"
        "logistic": −ln σ(r̂_ij) of a yes and −ln σ(−r̂_ij) of a no, + γ/2 (…). Yes is 1 or True, no
        is 0 or False, or else −1; `predict` gives the probability of yes.
        "bpr": −ln σ(r̂_ij − r̂_in) + γ/2 (…) over events (i, j) and an item n that user i has not,
        drawn anew in each epoch from the items that the rank holds in that sub-epoch, and weighed
        by their share of all items. Needs the users cut (``axis="rows"``, no "gasgd"). There are no
        user biases then, and no mean.
    nonnegative : bool, default=False
        Keep factors at 0 or above, by projection after each update; biases may have any sign, and
        "logistic" needs them.
    averaging : {"mean", "ratings"}, default="mean"
        Whether copies of a row weigh alike, or by the ratings that each rank applied.
    learning_rate : {"adagrad", "constant", "decay", "bold-driver"}, default="adagrad"
        How the rate moves; "adagrad" keeps one sum of squared gradients a row.
    initial_learning_rate : float or None, default=None
        Rate of the first epoch; None: 0.1 for adagrad, 0.02 for decay, 0.01 for the others.
    regularization : float, default=0.05
        γ, weight of the squared norms of factors and biases, once a rating (as reg_all of Surprise;
        of ratings divided by a power of two near their standard deviation).
    biases : bool, default=True
        Fit μ, b_i and b_j too.
    init_scale : float, default=0.1
        First components are uniform in ± this.
    clip : bool or (low, high), default=False
        Keep predictions within the range of the ratings of the fit, or within this one; also when
        it is set behind a fit, as no training depends on it. With "squared" alone.
    user, item, rating : str or None, default=None
        Names of the columns of a DataFrame; None: told by names that people use (userId, movie_id,
        stars, …) or by their order.
    max_iter : int, default=20
        Epochs.
    validation_fraction : float, default=0.0
        Share of the ratings held out to measure `validation_rmse`, with "logistic"
        `validation_loss`; with "bpr", of the events, to measure `validation_ndcg`: the mean NDCG at
        10, as of `score`.
    patience : int or None, default=None
        Stop after so many epochs in which that became no better; the model then has the factors of
        the best epoch.
    transport : {"auto", "local", "graph", "dask", "mpi"}, default="auto"
        How ranks send: in this process; by a Dask task graph; as long tasks over Dask comms or
        MPI. "auto": "local" without a client, else "mpi" or "dask", where ranks share threads if
        they must, or "graph" while another fit holds the workers. "dask" and "mpi" by name need
        a thread a rank, but go on with fewer after a lost worker.
    warm_start : bool, default=False
        Begin at the factors of the last fit. Users and items whose labels are new are solved first,
        those without a rating now stay as they are, both as in `partial_fit`; what was seen is what
        they have now.
    {words of checkpoints}
    random_state : int, RandomState or None, default=0
        Fixes everything: partition, owners, order of ratings, first factors. A RandomState or None
        draws the seed.
    verbose : int, default=0
        1: RMSE or loss in a bar, or a line a step where the output is no terminal, after a second.

    Attributes
    ----------
    user_factors_, item_factors_ : xarray.DataArray of float32, shape (M, F) and (N, F)
    user_bias_, item_bias_ : xarray.DataArray of float32
    global_mean_ : float
        μ; under "logistic" the log-odds of the mean.
    state_ : MFState
        All of these, unlabelled, and what a further epoch needs.
    history_ : pandas.DataFrame
        One row an epoch: train_rmse (each error before its own update; with "logistic" and "bpr"
        train_loss, a mean), validation_rmse (validation_loss, validation_ndcg), seconds,
        seconds_computing, seconds_communicating (means over ranks), staleness, volume (rows),
        messages, learning_rate.
    n_iter_ : int
    best_iteration_ : int or None
        The epoch whose factors the model has, by `patience`; None without it: the last.
    plan_report_ : MFPlanReport
        What an epoch was planned to move, and each rank to hold.
    comm_report_ : CommunicationReport
        What it moved, beside eq. 8 and 9.
    partition_ : Partition
    connectivity_ : Connectivity
    seen_ : scipy.sparse.csr_array of bool, shape (M, N), or None
        What users had in the fit, which `recommend` leaves out; None where they lay on workers.
    n_features_in_ : int
    new_rows_distance_ : float
        After `partial_fit` with new users or items: ‖Z − Z*‖ / ‖Z*‖ over their rows Z, Z* being the
        solution of each from its ratings while the rows of the other side stay. 0: only the
        rows that were known before could still move, as they would in a fit of all ratings.

    Examples
    --------
    >>> import daskpart
    >>> ratings = daskpart.datasets.power_law_ratings(200, 100, 4000, random_state=0)
    >>> model = daskpart.MatrixFactorization(8, n_ranks=2, max_iter=5).fit(ratings)
    >>> model.item_factors_.shape
    (100, 8)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Recommender._parameter_constraints,
        "eta": [COUNT, None],
        "axis": [StrOptions({"rows", "columns", "auto"})],
        "schedule": [StrOptions({"pasgd", "dsgd", "gasgd"})],
        "loss": [StrOptions(set(_KINDS))],
        "averaging": [StrOptions({"mean", "ratings"})],
        "learning_rate": [StrOptions(set(DEFAULT_RATES))],
        "initial_learning_rate": [POSITIVE, None],
        "biases": ["boolean"],
        "init_scale": [AT_LEAST_0],
        "clip": ["boolean", tuple, list],
    }
    _decide_plan: ClassVar[tuple[str, ...]] = (
        *("n_components", "eta", "partitioner", "axis", "schedule", "averaging"),
        *("learning_rate", "biases"),
    )
    _decide_bits: ClassVar[tuple[str, ...]] = (
        *_decide_plan,
        *("loss", "nonnegative", "initial_learning_rate", "regularization", "init_scale"),
    )
    _measures: ClassVar[tuple[Measure, ...]] = (
        Measure("train_rmse", "train", "RMSE"),
        Measure("train_loss", "train", "loss"),
        Measure("validation_rmse", "validation", "RMSE"),
        Measure("validation_loss", "validation", "loss"),
        Measure("validation_ndcg", "validation", "NDCG@10"),
    )
    _state_class: ClassVar[type[State]] = MFState

    n_components: int
    eta: int | None
    partitioner: Any
    axis: str
    averaging: str
    learning_rate: str
    initial_learning_rate: float | None
    init_scale: float
    new_rows_distance_: float

    def __init__(
        self,
        n_components: int = 32,
        *,
        n_ranks: int | None = None,
        eta: int | None = None,
        partitioner: Any = "auto",
        axis: str = "rows",
        schedule: str = "pasgd",
        loss: str = "squared",
        nonnegative: bool = False,
        averaging: str = "mean",
        learning_rate: str = "adagrad",
        initial_learning_rate: float | None = None,
        regularization: float = 0.05,
        biases: bool = True,
        init_scale: float = 0.1,
        clip: bool | tuple[float, float] = False,
        user: str | None = None,
        item: str | None = None,
        rating: str | None = None,
        max_iter: int = 20,
        validation_fraction: float = 0.0,
        patience: int | None = None,
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
        sample_weight: Any = None,
        validation: Any = None,
        plan: FitPlan | None = None,
        client: Any = None,
    ) -> Self:
        """Factorize ratings.

        Parameters
        ----------
        X : container of shape (M, N)
            scipy.sparse, pydata/sparse (COO, GCXS), a Dask array of sparse chunks, an
            xarray.DataArray over one of these (its coordinates label the factors), or a
            (user, item, rating) DataFrame (pandas, Dask, polars, pyarrow or DuckDB), which may have
            a fourth column of timestamps, or a list of such records. Values of any scale: see
            `scaling`.
        y : ignored
        sample_weight : array or series of nnz (of Dask too), or container like X, optional
            What each rating counts, 0 or more; one is given for each stored entry (each line of a
            table) in the order of X. The gradient of a rating is multiplied by its weight, that of
            its penalty too: two ratings in one step, where repeating it would make two. Weight 0
            is a rating that is not there. RMSE or loss of training and μ are weighted as well. A
            step grows with its weight, so scale weights to about 1.
        validation : container, optional
            Ratings to measure `validation_rmse` (or `validation_loss`) on, with users and items of
            X; with "bpr" events to measure `validation_ndcg` on; those that X has, too, are left
            out.
        {words of fit}
        """
        return self._fit(
            X, y, plan=plan, client=client, validation=validation, sample_weight=sample_weight
        )

    @with_callbacks
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        validation: Any = None,
        client: Any = None,
    ) -> Self:
        """Train one more epoch on X, from the factors so far (or from the beginning).

        Parameters and errors are those of `fit`. Where X and the fit have labels, X may have other
        users and items: the new ones are solved from their ratings, as by `transform` (with "bpr"
        they begin as in `fit`), and stand behind the known ones from then on; those that X lacks
        stay as they are. How far the new rows are from their optimum then is in
        `new_rows_distance_`. Without labels X has the shape of the fit. Nothing is held out of X,
        whatever `validation_fraction` is.
        """
        return self._fit(
            X, y, client=client, one_step=True, sample_weight=sample_weight, validation=validation
        )

    def score(self, X: Any, y: Any = None, *, unknown: str = "raise") -> float:
        """Minus the RMSE over the stored entries of X, or what the loss has: higher is better.

        Parameters
        ----------
        X : container
            Any container of ratings that `fit` takes.
        y : ignored
        unknown : {"raise", "mean", "nan"}, default="raise"
            Users and items that the model does not know: an error; predicted as by `predict`, which
            "bpr" refuses; or left out.

        Returns
        -------
        score : float
            −RMSE, at most 0; with "logistic" minus the log loss, the mean of −ln of the
            probability that each rating was given; with "bpr" the mean NDCG at 10 over the whole
            catalogue, less what a user had in the fit and has not in X.

        Raises
        ------
        InputError
            For users or items that the model does not know, or when none is left; with "bpr" for
            counts that are not above 0, as in `fit`.
        """
        if as_fitted(self, "loss").loss == "bpr":
            return self._ndcg(X, unknown)
        matrix, state = self._entries(X), self._fitted()
        scores = predictions(state, *entry_positions(matrix, state, unknown), unknown)
        values = matrix.values
        if unknown == "nan":
            known = ~np.isnan(scores)
            if not known.any():
                raise InputError("the model knows user and item of none of these ratings")
            values, scores = values[known], scores[known]
        if self._logistic:  # of scores, as what rounds to a probability of 0 costs no infinity
            return -float(np.mean(log_losses(values, scores)))
        errors = np.subtract(values, self._shown()(scores), dtype=np.float64)
        return -float(np.sqrt(np.mean(np.square(errors, out=errors))))

    def _check(self) -> None:
        check_partitioner(self.partitioner, [*ROW_PARTITIONERS], self.n_ranks)
        if isinstance(self.partitioner, Partition) and self.axis == "auto":
            raise InputError('axis="auto" cannot choose for a given partition; say rows or columns')
        if self.schedule == "gasgd" and self.axis != "rows":
            raise InputError('schedule="gasgd" cuts single ratings: leave axis out')
        clip = checked_clip(self.clip)
        if self.loss == "bpr":
            if self.schedule == "gasgd" or self.axis != "rows":
                raise InputError(
                    'loss="bpr" needs all events of a user on one rank, to know what is unseen: '
                    'leave axis out, and take schedule="pasgd" or "dsgd"'
                )
            if clip is not False:
                raise InputError('scores of loss="bpr" have no range to clip to: leave clip out')
        elif self.loss == "logistic":
            refuse_clip(clip)
            if self.nonnegative and not self.biases:
                raise InputError(
                    "scores of nonnegative=True with biases=False are 0 or more, and so never say "
                    'no under loss="logistic": leave one of them out'
                )

    def _problem(self, X: Any, y: Any, data: dict[str, Any], random_state: int) -> Ratings:
        columns, weights, kind = self._columns(), data.get("sample_weight"), _KINDS[self.loss]
        ratings = Ratings.of(X, columns, kind=kind, sample_weight=weights)
        before = getattr(self, "state_", None) if data.get("one_step") else None
        if before is not None and ratings.in_memory:
            weights = None if ratings.weights is None else joined(ratings.weights, before)
            matrix = joined(ratings.matrix, before)
            ratings = Ratings(matrix, None, self.seen_, before.shape, weights)
        is_first = not self._goes_on(data.get("one_step", False))
        if kind == "answers" and ratings.in_memory and is_first:  # refuses before anything is cut
            log_odds(float(ratings.matrix.values.mean(dtype=np.float64)))
        return self._held_out(ratings, data, random_state, kind=kind)

    def _make_plan(
        self, problem: Ratings, n_ranks: int, *, transport: str, random_state: int, kept: Any
    ) -> MFPlan:
        eta = self.eta
        if eta is None:
            eta = 1 if self.schedule == "gasgd" else n_ranks
        if eta > n_ranks and self.schedule == "pasgd":
            warn(
                f"eta={eta} is more than n_ranks={n_ranks}; {n_ranks} is used, which already "
                "leaves no staleness"
            )
            eta = n_ranks
        return plan_fit(
            problem.matrix,
            n_ranks,
            schedule=self.schedule,
            eta=int(eta),
            partitioner=self.partitioner,
            axis=self.axis,
            averaging=self.averaging,
            layout=RowLayout(int(self.n_components), bool(self.biases), self._rate().per_row),
            random_state=random_state,
            steps=int(self.max_iter),
            transport=transport,
            kept=kept,
        )

    def _rate(self) -> LearningRate:
        return learning_rate(self.learning_rate, self.initial_learning_rate)

    def _first_state(self, problem: Ratings, plan: MFPlan) -> MFState:
        return problem.blank(plan.layout.n_components)

    def _going_on(self, state: MFState, problem: Ratings) -> MFState:
        check_components(state, self.n_components)
        before = state.settings.get("loss", self.loss)
        if before != self.loss and "logistic" in (before, self.loss):
            raise InputError(
                f'the last fit had loss="{before}", and loss="{self.loss}" cannot go on from its '
                "scores, which are of another kind: fit with warm_start=False"
            )
        if bool(self.biases) != state.settings.get("biases", bool(self.biases)):
            state = with_biases(state) if self.biases else without_biases(state)
        whole = joined(problem.matrix, state) if problem.in_memory else None
        if whole is not None and whole.shape == problem.shape and continues(whole, state):
            state = grown(
                state.unwatched(state.epoch),
                whole,
                regularization=float(self.regularization),
                biases=bool(self.biases),
                init_scale=float(self.init_scale),
                random_state=self._seed(state),
                nonnegative=bool(self.nonnegative),
                loss=self.loss,
                weights=None if problem.weights is None else joined(problem.weights, state),
            )
        state = problem.in_order(state)
        if self.nonnegative:
            factors = ("user_factors", "item_factors")
            state = replace(
                state, **{each: np.maximum(getattr(state, each), 0) for each in factors}
            )
        return state

    def _in_another_fit(self, state: MFState, settings: dict[str, Any]) -> MFState:
        chosen = ("learning_rate", "initial_learning_rate")
        memory = in_another_fit(state, settings, chosen)
        if state.settings.get("biases", settings["biases"]) != settings["biases"]:
            state = replace(state, unit=None)  # other values are trained on, see `mean`
        return replace(state, learning_rate_state=memory)

    def _plan_of_fit(self, plan: MFPlan, problem: Ratings) -> MFPlan:
        # a plan does not ask for weights, nor by which loss
        plan = replace(
            plan, rating_bytes=12 + 4 * (problem.weights is not None), held_out=None,
            negative_bytes=None,
        )  # fmt: skip
        if self.loss == "bpr":
            return with_negatives(plan, problem.seen_before)
        if problem.validation is None:
            return plan
        return with_held_out(plan, problem.validation, self.patience is not None)

    def _text(self, session: Any, plan: MFPlan, problem: Ratings, state: MFState) -> MFText:
        return MFText(
            session, plan, self._rate(), float(self.regularization), float(self.init_scale),
            state.unit if state.epoch else None, loss=self.loss,
            nonnegative=bool(self.nonnegative), weights=rank_weights(plan, problem.weights),
            seen_before=rank_seen(plan, problem.seen_before) if self.loss == "bpr" else None,
            validation=problem.validation, clip=checked_clip(self.clip),
            watch=None if self.loss == "bpr" else self._watch(),
        )  # fmt: skip

    def _entries(self, X: Any) -> LabelledMatrix:
        return as_answers(X, self._columns()) if self._logistic else super()._entries(X)

    def _new_rows(self, X_new: Any) -> Any:
        if as_fitted(self, "loss").loss == "bpr":
            raise InputError(
                'loss="bpr" has no closed form for new users: add them by partial_fit, with '
                "labels, or take ImplicitFactorization"
            )
        return super()._new_rows(X_new)

    def _evaluation(self, problem: Ratings) -> Any:
        # each user is ranked against all items: here, for no rank has them all (`_plan_of_fit`)
        here = self.loss == "bpr" and problem.validation is not None
        return ndcg_of_events(problem) if here else None

    def _monitored(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if self.loss == "bpr":
            return (), ("validation_ndcg",)
        return (("validation_loss",), ()) if self.loss == "logistic" else super()._monitored()

    def _keep_more(self, problem: Ratings, plan: MFPlan) -> None:
        self.partition_, self.connectivity_ = plan.partition, plan.connectivity
        self.seen_ = None
        # of a fit that went on from one whose ratings nobody kept, these are not all
        if problem.in_memory and (problem.known is None or problem.seen_before is not None):
            self.seen_ = seen_pattern(problem.matrix, problem.seen_before)
        nothing_drawn = self.loss == "bpr" and not self.state_.history[-1]["train_loss"]
        if nothing_drawn and problem.known is None:  # of a batch it may be so
            warn(
                "no item was left to draw that a user had not, so nothing was learnt: users have "
                "all items that their rank holds at a time. Take fewer ranks, a smaller eta, or "
                "leave out users who have everything"
            )
        if hasattr(self, "new_rows_distance_"):  # of an earlier fit
            del self.new_rows_distance_
        if problem.known not in (None, problem.shape) and self.loss != "bpr":
            self.new_rows_distance_ = new_rows_distance(
                self.state_,
                problem.matrix,
                problem.known,
                float(self.regularization),
                bool(self.biases),
                bool(self.nonnegative),
                self.loss,
                problem.weights,
            )
