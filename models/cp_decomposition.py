"""CP decomposition of sparse tensors, partition-aware: the estimator.

    tensor ─► plan (rank of each nonzero, owners, messages) ─► CP-ALS on ranks ─► labelled factors
                  plan_report_                                    history_          comm_report_

`fit` reads top down: check, plan, iterate, keep. The two algorithms are in `cp_als`, what drives
them and survives a lost worker in `cp_fitting`, what a decomposition is good for in `cp_model`.

Source: Abubaker, Karsavuran, Aykanat, "Scalable Unsupervised ML: Latency Hiding in Distributed
Sparse Tensor Decomposition".
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from dask.base import tokenize
from sklearn.base import BaseEstimator

from daskpart.collectives import Communicator, communicator_for
from daskpart.partitions import Partition

from .callbacks import (
    CallbackSupportMixin,
    Checkpoint,
    EpochCallback,
    TrainingProgress,
    epoch_contexts,
    with_callbacks,
)
from .checkpoints import CheckpointWriter
from .convergence import FitTolerance
from .cp_als import Update
from .cp_checks import check_settings, default_ranks
from .cp_fitting import CPTrainer, TrainingSettings
from .cp_model import CPModel
from .cp_planning import ALPHA_BETA, PlanSettings, check_plan_settings
from .cp_reports import CPCommunicationReport, CPPlanReport, report_plan
from .cp_sources import same_modes, source_of
from .cp_starts import first_factors
from .cp_state import CPState

# the parameters that decide the bits of a fit
_IDENTITY = ("rank", "method", "partitioner", "owners", "epsilon", "engine", "nonnegative",
             "ridge", "init", "memory", "random_state")  # fmt: skip
_CHOSEN = "chosen_method"


class CPDecomposition(CallbackSupportMixin, CPModel, BaseEstimator):
    """Decompose a sparse tensor X ≈ Σ_r λ_r u_r ∘ v_r ∘ w_r … by ALS over `n_ranks` ranks.

    Nonzeros are dealt to ranks by a partitioner; factor rows that several ranks touch have an
    owner. An entry that is not stored is 0. Any number of modes from 2 on.

    Parameters
    ----------
    rank : int
        R, number of components.
    n_iter : int, default=50
        Most iterations.
    tol : float, default=1e-5
        Stop when an iteration changes the fit by less; 0: never.
    method : {"auto", "p2p", "emb-naive", "emb"}, default="auto"
        How rows travel: point to point (Algorithm 1), or inside the allreduces of norms and Grams
        (Algorithm 2), where a rank handles 2·M·log2 K messages an iteration. "auto": the one with
        the smaller predicted time on the transport at hand.
    n_ranks : int or None, default=None
        K. None: a power of two, as many as the cluster's workers have threads, or this process
        cores.
    partitioner : str, Partition or array, default="auto"
        "random", "fine-grain", "medium-grain", "hypercube", "hypercube-fine-grain", a
        `daskpart.Partition` of the nonzeros or of a grain, or the rank of each nonzero in row-major
        order. "auto": "hypercube" for embedded methods where K is a power of two, else
        "medium-grain".
    owners : {"packed", "random"}, default="packed"
        Owners of shared rows: packed so that no rank moves many more rows than the others, or
        drawn.
    epsilon : float, default=0.03
        Imbalance that the partitioner may use.
    engine : str or Engine, default="multilevel"
        Two-way engine of the partitioner.
    nonnegative : bool, default=False
        Keep every factor at 0 or above (HALS).
    ridge : float, default=0.0
        Added to the diagonal of each system of normal equations.
    init : {"random", "nvecs"} or list of arrays, default="random"
        Factors to begin from: uniform in [0, 1), leading singular vectors of each unfolding, or
        given, one of shape (I_m, R) a mode.
    n_init : int, default=1
        Random starts; the one with the best fit is kept.
    dtype : {None, "float32", "float64"}, default=None
        Of the factors; None: that of the tensor.
    memory : {"fast", "small"}, default="fast"
        Layout of the nonzeros on a rank: at most twice their bytes (int32 coordinates and values),
        or at most these bytes and more time. Both take at most twice while it is made.
    transport : {"auto", "local", "graph", "dask", "mpi"}, default="auto"
        How ranks send; see `MatrixFactorization`.
    alpha_beta : (float, float) or None, default=None
        Seconds a message and seconds a byte, for method="auto"; None: rough figures of the
        transport.
    warm_start : bool, default=False
        Begin at the factors of the last fit.
    checkpoint_path : path or None, default=None
        ``run.npz`` or ``run.zarr``; written every `checkpoint_every` iterations, the last two stay.
    checkpoint_every : int, default=1
    resume : bool, default=False
        Begin at the newest checkpoint, if there is one; gives the bits of an unbroken fit.
    random_state : int, default=0
        Fixes everything: partition, owners, first factors.
    verbose : int, default=0
        1: progress bar with the fit.

    Attributes
    ----------
    weights_ : xarray.DataArray of float64, shape (R,)
        λ.
    factors_ : list of xarray.DataArray, one a mode, shape (I_m, R)
        Columns of length 1.
    fit_ : float
        1 − ‖X − X̂‖/‖X‖.
    history_ : pandas.DataFrame
        One row an iteration: fit, fit_change, seconds, seconds_computing, seconds_communicating
        (means over ranks), volume (rows sent), messages.
    n_iter_ : int
    method_ : str
        The method that was used.
    plan_report_ : CPPlanReport
    comm_report_ : CPCommunicationReport

    Examples
    --------
    >>> import daskpart, sparse
    >>> tensor = sparse.random((20, 15, 10), nnz=300, random_state=0)
    >>> model = daskpart.CPDecomposition(3, n_ranks=2, n_iter=5).fit(tensor)
    >>> [factor.shape for factor in model.factors_]
    [(20, 3), (15, 3), (10, 3)]
    """

    def __init__(
        self,
        rank: int,
        *,
        n_iter: int = 50,
        tol: float = 1e-5,
        method: str = "auto",
        n_ranks: int | None = None,
        partitioner: Any = "auto",
        owners: str = "packed",
        epsilon: float = 0.03,
        engine: Any = "multilevel",
        nonnegative: bool = False,
        ridge: float = 0.0,
        init: Any = "random",
        n_init: int = 1,
        dtype: str | None = None,
        memory: str = "fast",
        transport: str = "auto",
        alpha_beta: tuple[float, float] | None = None,
        warm_start: bool = False,
        checkpoint_path: str | os.PathLike | None = None,
        checkpoint_every: int = 1,
        resume: bool = False,
        random_state: int = 0,
        verbose: int = 0,
    ) -> None:
        self.rank = rank
        self.n_iter = n_iter
        self.tol = tol
        self.method = method
        self.n_ranks = n_ranks
        self.partitioner = partitioner
        self.owners = owners
        self.epsilon = epsilon
        self.engine = engine
        self.nonnegative = nonnegative
        self.ridge = ridge
        self.init = init
        self.n_init = n_init
        self.dtype = dtype
        self.memory = memory
        self.transport = transport
        self.alpha_beta = alpha_beta
        self.warm_start = warm_start
        self.checkpoint_path = checkpoint_path
        self.checkpoint_every = checkpoint_every
        self.resume = resume
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(self, X: Any, y: Any = None) -> Self:
        """Decompose a tensor.

        Parameters
        ----------
        X : container
            sparse.COO or GCXS of order 2 or more, scipy.sparse, a Dask array of sparse blocks, an
            xarray.DataArray over one of these (dims and coordinates carry over to the factors), or
            the path of a FROSTT ``.tns`` file, which may be compressed.
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        InputError
            For bad parameters or tensors; before anything is computed.
        DivergenceError
            When factors became NaN or infinite; those of an earlier iteration are kept.
        KeyboardInterrupt
            After Ctrl-C, with the factors of a whole iteration kept.
        """
        check_settings(self)
        source = source_of(X)
        kept = self._checkpointed(source) if self.resume else None
        plan_settings = self.plan_settings(source)
        if kept is not None and self.method == "auto":  # as it was chosen when it began
            plan_settings = replace(plan_settings, method=kept.settings[_CHOSEN])
        start = kept or self._start(source)
        last = max(self.n_iter, start.epoch) if kept else start.epoch + self.n_iter
        return self._train(X, source, plan_settings, start, last)

    def _train(
        self, X: Any, source: Any, plan_settings: PlanSettings, start: CPState, last: int
    ) -> Self:
        n_ranks = plan_settings.n_ranks

        def connect(after_loss: bool) -> Communicator:
            return communicator_for("graph" if after_loss else self.transport, n_ranks)

        plans = source.plan(plan_settings)
        settings = TrainingSettings(
            Update(self.nonnegative, float(self.ridge)), self.dtype or source.dtype, self.memory
        )
        trainer = CPTrainer(plans, source.pieces, settings, connect, start, chosen=_CHOSEN)
        own, best = self._own_callbacks(), None
        try:
            best = self._earlier_starts(trainer, source)
            with epoch_contexts(
                self, start.epoch, last, X=X, own=own, history=start.history
            ) as epochs:
                for epoch in epochs:
                    row = trainer.run(epoch.number)
                    epoch.done(row, snapshot=trainer.state)
            trainer.state()
        finally:
            trainer.close()
            self._keep(trainer, best)
        return self

    def _earlier_starts(self, trainer: CPTrainer, source: Any) -> CPState | None:
        """The best of all starts but the last, which `fit` does with all callbacks."""
        enough, best, last = FitTolerance(self.tol), None, trainer.kept
        for start in range(1, self.n_init):
            trainer.begin_again(self._start(source, start))
            for iteration in range(1, self.n_iter + 1):
                if enough.reached(trainer.run(iteration)):
                    break
            state = trainer.state()
            best = state if best is None or state.fit > best.fit else best
        if best is not None:
            trainer.begin_again(last)
        return best

    def _keep(self, trainer: CPTrainer, best: CPState | None) -> None:
        """Make the last kept iteration the fitted state, also after an error or Ctrl-C."""
        state = trainer.kept
        if best is not None and not state.fit > best.fit:
            state = best
        if trainer.plan is None or not state.epoch:
            return
        self.state_ = state
        self.n_iter_ = state.epoch
        self.method_ = trainer.plan.method
        self.comm_report_: CPCommunicationReport = trainer.communication()
        transport = self.comm_report_.transport
        pair = self.alpha_beta or ALPHA_BETA.get(transport, ALPHA_BETA["mpi"])
        self.plan_report_: CPPlanReport = report_plan(trainer.plan, state.dims, pair)

    def _start(self, source: Any, start: int = 0) -> CPState:
        """Where a fit begins that does not resume."""
        settings = self._identity(source)
        if self.warm_start and hasattr(self, "state_"):
            same_modes(self.state_.dims, self.state_.shape, source)
            return replace(self.state_, settings=settings)
        factors = first_factors(
            self.init,
            source.tensor,
            source.shape,
            self.rank,
            random_state=self.random_state,
            start=start,
            nonnegative=self.nonnegative,
        )
        typed: list[Any] = [factor.astype(self.dtype or source.dtype) for factor in factors]
        return CPState(
            np.ones(self.rank), typed, tuple(source.dims), dict(source.labels), settings=settings
        )

    def plan_settings(self, source: Any) -> PlanSettings:
        """What decides the plan for a source of `cp_sources`, checked."""
        settings = PlanSettings(
            n_ranks=self._n_ranks(),
            method=self.method,
            partitioner=self.partitioner,
            owners=self.owners,
            epsilon=self.epsilon,
            engine=self.engine,
            random_state=self.random_state,
            n_components=int(self.rank),
            itemsize=np.dtype(self.dtype or source.dtype).itemsize,
            alpha_beta=self.alpha_beta,
        )
        check_plan_settings(settings)
        return settings

    def _n_ranks(self) -> int:
        return default_ranks(self.transport) if self.n_ranks is None else int(self.n_ranks)

    def _identity(self, source: Any) -> dict[str, Any]:
        """What must be equal for a resumed fit to be the same fit."""
        chosen = {name: getattr(self, name) for name in _IDENTITY}
        described = {
            name: value if isinstance(value, str | int | float | bool | None) else tokenize(value)
            for name, value in chosen.items()
        }
        if isinstance(self.partitioner, Partition):
            described["partitioner"] = f"partition {tokenize(self.partitioner.assignment)}"
        return {
            **described,
            "n_ranks": self._n_ranks(),
            "dtype": self.dtype or source.dtype,
            "shape": list(source.shape),
            "data": source.fingerprint(),
        }

    def _checkpointed(self, source: Any) -> CPState | None:
        assert self.checkpoint_path is not None  # checked
        writer = CheckpointWriter(self.checkpoint_path, self.checkpoint_every, state=CPState)
        found: CPState | None = writer.latest()
        if found is not None:
            wanted = {**self._identity(source), _CHOSEN: found.settings[_CHOSEN]}
            found.check_resumes(wanted, self.checkpoint_path)
        return found

    def _own_callbacks(self) -> Sequence[EpochCallback]:
        own: list[EpochCallback] = []
        if self.verbose:
            own.append(TrainingProgress())
        own.append(FitTolerance(self.tol))
        if self.checkpoint_path is not None:
            own.append(Checkpoint(self.checkpoint_path, self.checkpoint_every))
        return own
