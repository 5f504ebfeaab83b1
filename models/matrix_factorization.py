"""Matrix factorization of sparse ratings, partition-aware: the estimator.

    ratings ─► plan (partition, sub-epochs, messages) ─► η-PASGD on ranks ─► labelled factors
                 plan_report_                              history_          comm_report_

`fit` reads top down: check, plan, train, keep. What training does is in `pasgd`, what drives it and
survives a lost worker in `fitting`, what a fitted model is good for in `recommending`.

Source: Abubaker et al., "Minimizing Staleness and Communication Overhead in Distributed SGD for
Collaborative Filtering".
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from dask.base import tokenize
from sklearn.base import BaseEstimator

from daskpart.collectives import Communicator, communicator_for
from daskpart.collectives.transports import TRANSPORTS
from daskpart.containers.matrix import LabelledMatrix
from daskpart.errors import InputError
from daskpart.partitions import Partition

from .callbacks import (
    CallbackSupportMixin,
    Checkpoint,
    EarlyStopping,
    EpochCallback,
    TrainingProgress,
    epoch_contexts,
    with_callbacks,
)
from .checkpoints import CheckpointWriter
from .fitting import Trainer, TrainingSettings
from .learning_rates import learning_rate
from .pasgd import RowLayout
from .planning import FitPlan, PlanSettings, as_ratings, check_plan_settings, plan_fit
from .ratings import Validation, blank_factors, data_fingerprint, hold_out, same_labels
from .recommending import FactorModel, seen_pattern
from .reports import CommunicationReport, PlanReport
from .snapshot import Factors

# the parameters that decide the bits of a fit
_IDENTITY = (
    *("n_ranks", "eta", "partitioner", "rho", "epsilon", "engine", "axis", "averaging"),
    *("learning_rate", "initial_learning_rate", "regularization", "biases", "init_scale"),
    "random_state",
)


class MatrixFactorization(CallbackSupportMixin, FactorModel, BaseEstimator):
    """Factorize sparse ratings R ≈ μ + b_i + b_j + W·Hᵀ by SGD over `n_ranks` ranks.

    Rows are split over ranks by a partitioner. Item rows that several ranks touch are averaged
    and passed on `eta` times an epoch (η-PASGD); with ``eta = n_ranks`` no update is ever stale.
    Minimises Σ (r_ij − r̂_ij)² + γ (‖w_i‖² + ‖h_j‖² + b_i² + b_j²) over the stored entries; an
    explicit zero is a rating of zero, an absent entry is unknown.

    Parameters
    ----------
    n_components : int, default=32
        F, length of a factor row.
    n_ranks : int, default=4
        K, number of parts. May exceed the workers.
    eta : int or None, default=None
        η, synchronisations an epoch; None: `n_ranks`, which is free of staleness.
    partitioner : str or Partition, default="power"
        "power" (λ^ρ by recursive bipartitioning), "connectivity", "cut-net", "metis", "random",
        "block", or a `daskpart.Partition` with `n_ranks` parts.
    rho : float, default=2
        ρ of "power".
    epsilon : float, default=0.03
        Imbalance that the partitioner may use.
    engine : str or Engine, default="multilevel"
        Two-way engine of the partitioner; "mtkahypar" with the extra `quality`.
    axis : {"rows", "columns", "auto"}, default="rows"
        What is split; "auto" plans both and takes the one that moves fewer rows.
    averaging : {"mean", "ratings"}, default="mean"
        Whether copies of a row weigh alike, or by the ratings that each rank applied.
    learning_rate : {"adagrad", "constant", "decay", "bold-driver"}, default="adagrad"
        How the rate moves; "adagrad" keeps one sum of squared gradients a row.
    initial_learning_rate : float or None, default=None
        Rate of the first epoch; None: 0.1 for adagrad, 0.02 for decay, 0.01 for the others.
    regularization : float, default=0.05
        γ.
    biases : bool, default=True
        Fit μ, b_i and b_j too.
    init_scale : float, default=0.1
        First components are uniform in ± this.
    max_epochs : int, default=20
    validation_fraction : float, default=0.0
        Share of the ratings held out to measure `validation_rmse`.
    patience : int or None, default=None
        Stop after so many epochs without a better validation RMSE.
    transport : {"auto", "local", "graph", "dask", "mpi"}, default="auto"
        How ranks send: in this process; by a Dask task graph; as long tasks, one a thread, over
        Dask comms or MPI. "auto": "local" without a client, else "mpi" or "dask" where threads
        suffice, else "graph", which is also the way on after a lost worker.
    checkpoint_path : path or None, default=None
        ``run.npz`` or ``run.zarr``; written every `checkpoint_every` epochs, the last two stay.
    checkpoint_every : int, default=1
    resume : bool, default=False
        Begin at the newest checkpoint, if there is one; gives the bits of an unbroken fit.
    random_state : int, default=0
        Fixes everything: partition, owners, order of ratings, first factors.
    verbose : int, default=0
        1: progress bar with RMSE.

    Attributes
    ----------
    user_factors_, item_factors_ : xarray.DataArray of float32, shape (M, F) and (N, F)
    user_bias_, item_bias_ : xarray.DataArray of float32
    global_mean_ : float
    history_ : pandas.DataFrame
        One row an epoch: train_rmse (each error before its own update), validation_rmse, seconds,
        seconds_computing, seconds_communicating (means over ranks), staleness, volume (rows),
        learning_rate.
    plan_report_ : PlanReport
        What an epoch was planned to move.
    comm_report_ : CommunicationReport
        What it moved, beside eq. 8 and 9.
    partition_ : Partition
    connectivity_ : Connectivity
    n_features_in_ : int

    Examples
    --------
    >>> import daskpart
    >>> ratings = daskpart.datasets.power_law_ratings(200, 100, 4000, random_state=0)
    >>> model = daskpart.MatrixFactorization(8, n_ranks=2, max_epochs=5).fit(ratings)
    >>> model.item_factors_.shape
    (100, 8)
    """

    def __init__(
        self,
        n_components: int = 32,
        *,
        n_ranks: int = 4,
        eta: int | None = None,
        partitioner: str | Partition = "power",
        rho: float = 2,
        epsilon: float = 0.03,
        engine: Any = "multilevel",
        axis: str = "rows",
        averaging: str = "mean",
        learning_rate: str = "adagrad",
        initial_learning_rate: float | None = None,
        regularization: float = 0.05,
        biases: bool = True,
        init_scale: float = 0.1,
        max_epochs: int = 20,
        validation_fraction: float = 0.0,
        patience: int | None = None,
        transport: str = "auto",
        checkpoint_path: str | os.PathLike | None = None,
        checkpoint_every: int = 1,
        resume: bool = False,
        random_state: int = 0,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_ranks = n_ranks
        self.eta = eta
        self.partitioner = partitioner
        self.rho = rho
        self.epsilon = epsilon
        self.engine = engine
        self.axis = axis
        self.averaging = averaging
        self.learning_rate = learning_rate
        self.initial_learning_rate = initial_learning_rate
        self.regularization = regularization
        self.biases = biases
        self.init_scale = init_scale
        self.max_epochs = max_epochs
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.transport = transport
        self.checkpoint_path = checkpoint_path
        self.checkpoint_every = checkpoint_every
        self.resume = resume
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(self, X: Any, y: Any = None, *, validation: Any = None) -> Self:
        """Factorize ratings.

        Parameters
        ----------
        X : container of shape (M, N)
            scipy.sparse, pydata/sparse (COO, GCXS), a Dask array of sparse chunks, an
            xarray.DataArray over one of these (its coordinates label the factors), or a
            (user, item, rating) DataFrame.
        y : ignored
        validation : container, optional
            Ratings to measure `validation_rmse` on, with users and items of X.

        Returns
        -------
        self

        Raises
        ------
        InputError
            For bad parameters or ratings; before anything is computed.
        DivergenceError
            When factors became NaN or infinite; those of the last good epoch are kept.
        KeyboardInterrupt
            After Ctrl-C, with the factors of the last whole epoch kept.
        """
        settings = self._checked()
        ratings, held_out = self._training_ratings(X, validation)
        start = self._checkpointed(ratings) if self.resume else None
        first = start.epoch if start else 0
        return self._train(ratings, held_out, settings, start, max(self.max_epochs, first))

    @with_callbacks
    def partial_fit(self, X: Any, y: Any = None, *, validation: Any = None) -> Self:
        """Train one more epoch on X, from the factors so far (or from the beginning).

        Parameters and errors are those of `fit`; X has the shape and the labels of the first fit.
        """
        settings = self._checked()
        ratings, held_out = self._training_ratings(X, validation)
        start = getattr(self, "factors_", None)
        if start is not None:
            same_labels(start, ratings)
        return self._train(ratings, held_out, settings, start, (start.epoch if start else 0) + 1)

    def _train(
        self,
        ratings: Any,
        held_out: Validation | None,
        settings: TrainingSettings,
        start: Factors | None,
        max_epochs: int,
    ) -> Self:
        plan = plan_fit(ratings, self._plan_settings())
        blank = blank_factors(ratings, settings.layout.n_components, self._identity(ratings))
        score = held_out.rmse if held_out is not None else None
        n_ranks = plan.settings.n_ranks

        def connect(after_loss: bool) -> Communicator:
            return communicator_for("graph" if after_loss else self.transport, n_ranks)

        trainer = Trainer(plan, settings, connect, start, blank, score)
        first = start.epoch if start else 0
        history = start.history if start else []
        own = self._own_callbacks()
        try:
            with epoch_contexts(
                self, first, max_epochs, X=ratings, own=own, history=history
            ) as epochs:
                for epoch in epochs:
                    row = trainer.run(epoch.number)
                    epoch.done(row, snapshot=trainer.last_factors)
        finally:
            trainer.close()
            self._keep(trainer, plan, ratings)
        return self

    def _keep(self, trainer: Trainer, plan: FitPlan, ratings: Any) -> None:
        """Make the last whole epoch the fitted state, also after an error or Ctrl-C."""
        if trainer.factors is None:
            return
        self.factors_ = trainer.factors
        self.plan_report_: PlanReport = plan.report(trainer.settings.layout.words)
        self.comm_report_: CommunicationReport = trainer.communication()
        self.partition_, self.connectivity_ = plan.partition, plan.connectivity
        self.seen_ = seen_pattern(ratings) if isinstance(ratings, LabelledMatrix) else None
        self.n_features_in_ = trainer.factors.n_items
        self.n_iter_ = trainer.factors.epoch

    def _checked(self) -> TrainingSettings:
        _check_count("n_components", self.n_components)
        _check_count("max_epochs", self.max_epochs)
        for name in ("regularization", "init_scale"):
            value = getattr(self, name)
            if not 0 <= value < float("inf"):
                raise InputError(f"{name}={value!r} must be a finite number of at least 0")
        if self.resume and self.checkpoint_path is None:
            raise InputError("resume=True needs checkpoint_path, to know where to begin")
        if self.transport not in TRANSPORTS:
            known = ", ".join(map(repr, TRANSPORTS))
            raise InputError(f"transport={self.transport!r} is unknown; choose one of {known}")
        rate = learning_rate(self.learning_rate, self.initial_learning_rate)
        return TrainingSettings(
            layout=RowLayout(int(self.n_components), bool(self.biases), rate.per_row),
            learning_rate=rate,
            regularization=float(self.regularization),
            init_scale=float(self.init_scale),
            random_state=self.random_state,
        )

    def _plan_settings(self) -> PlanSettings:
        _check_count("n_ranks", self.n_ranks)
        eta = self.n_ranks if self.eta is None else self.eta
        _check_count("eta", eta)
        return check_plan_settings(
            PlanSettings(
                n_ranks=int(self.n_ranks),
                eta=int(eta),
                partitioner=self.partitioner,
                rho=self.rho,
                epsilon=self.epsilon,
                engine=self.engine,
                axis=self.axis,
                averaging=self.averaging,
                random_state=self.random_state,
            )
        )

    def _training_ratings(self, X: Any, validation: Any) -> tuple[Any, Validation | None]:
        """What to train on, and what is held out."""
        ratings = as_ratings(X)
        if validation is not None:
            if self.validation_fraction:
                raise InputError("give validation=… or validation_fraction, not both")
            return ratings, Validation(as_ratings(validation), ratings)
        if not self.validation_fraction:
            if self.patience is not None:
                raise InputError("patience needs validation=… or validation_fraction above 0")
            return ratings, None
        return hold_out(ratings, self.validation_fraction, self.random_state)

    def _identity(self, ratings: Any) -> dict[str, Any]:
        """What must be equal for a resumed fit to be the same fit."""
        chosen = {name: getattr(self, name) for name in _IDENTITY}
        described = {
            name: value if isinstance(value, str | int | float | None) else repr(value)
            for name, value in chosen.items()
        }
        if isinstance(self.partitioner, Partition):
            described["partitioner"] = f"partition {tokenize(self.partitioner.assignment)}"
        return {**described, "data": data_fingerprint(ratings)}

    def _checkpointed(self, ratings: Any) -> Factors | None:
        assert self.checkpoint_path is not None  # checked
        found = CheckpointWriter(self.checkpoint_path, self.checkpoint_every).latest()
        if found is not None:
            found.check_resumes(
                self._identity(ratings), ratings.shape, self.n_components, self.checkpoint_path
            )
        return found

    def _own_callbacks(self) -> Sequence[EpochCallback]:
        own: list[EpochCallback] = []
        if self.verbose:
            own.append(TrainingProgress())
        if self.patience is not None:
            own.append(EarlyStopping(self.patience))
        if self.checkpoint_path is not None:
            own.append(Checkpoint(self.checkpoint_path, self.checkpoint_every))
        return own


def plan_report(
    X: Any,
    n_ranks: int,
    eta: int | None = None,
    *,
    partitioner: str | Partition = "power",
    random_state: int = 0,
    **parameters: Any,
) -> PlanReport:
    """What one epoch of a fit would move, without training.

    Parameters
    ----------
    X : container
        As for `MatrixFactorization.fit`.
    n_ranks, eta, partitioner, random_state, **parameters
        As for `MatrixFactorization`.

    Returns
    -------
    PlanReport
        λ histogram, λ_max, volume (eq. 8), staleness (eq. 9), messages, imbalance.
    """
    model = MatrixFactorization(
        n_ranks=n_ranks,
        eta=eta,
        partitioner=partitioner,
        random_state=random_state,
        **parameters,
    )
    settings = model._checked()
    return plan_fit(as_ratings(X), model._plan_settings()).report(settings.layout.words)


def _check_count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{name}={value!r} must be a whole number of at least 1")
