"""What all linear models share: parameters and their words, samples, plan, options of the text.

    X, y ─► Samples ─► SamplesPlan ─► Sgd or Lbfgs ─► LinearText ─► LinearState ─► coef_, intercept_

A model of the three says its loss, how strong its penalty is, and what its targets are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from daskpart._floor.checks import as_array, real_numbers
from daskpart.errors import DaskpartWarning, InputError, warn
from daskpart.models.base.docstrings import with_shared_words
from daskpart.models.base.parameters import AT_LEAST_0, POSITIVE
from daskpart.models.base.session import client_for
from daskpart.models.base.state import State
from daskpart.models.base.text import Text
from daskpart.models.optimisation.aggregation import NAMES, Aggregator
from daskpart.models.optimisation.optimisers import OPTIMIZERS, slots_from
from daskpart.models.optimisation.schedules import SCHEDULES, schedule_of
from daskpart.models.samples.estimator import SampleModel, is_lazy_or_file
from daskpart.models.samples.files import FileSamples
from daskpart.models.samples.plan import SamplesPlan
from daskpart.models.samples.problem import Outputs, Samples
from daskpart.models.samples.rows import in_columns

from .delayed_blocks import DelayedBlocks
from .lbfgs import LEAST_TOLERANCE, MAX_TRIES, N_PAIRS, Lbfgs
from .losses import Loss, mean_loss
from .placement import PARTITIONERS, placed_rows, random_rows
from .server import BlocksText, ServerConnection, SgdServerText
from .sgd import ANEW, MEAN_BEGAN, Sgd
from .sgd_on_server import ServerSgd
from .state import LinearState
from .text import LinearText

LAZY = ("sgd", "adagrad")  # optimisers whose steps touch only entries of their gradient
UNMOVED = 1e-6  # share of its size to which a gradient fell whose search did not begin to work
_SHARED = """\
fit_intercept : bool, default=True
    Fit an intercept, which is not penalised.
solver : {"lbfgs", "sgd"}, default="lbfgs"
    "lbfgs": full gradients, to the optimum, also with an L1 term (OWL-QN). "sgd": batches, with
    sparse updates.
max_iter : int, default=100
    Iterations of L-BFGS, or epochs.
tol : float, default=1e-4
    Stop when no entry of the gradient is larger (lbfgs; of a regression as a share of the largest
    at weights of 0, where that is below 1; with an L1 term of the pseudo-gradient), or when the
    loss changes less from an epoch to the next (sgd, server); of averaged SGD that at the mean
    weights, which is looked at after epochs 1, 3, 7, 15 and so on. With 0 lbfgs stops where it
    finds no step, or one that lowers neither loss nor gradient; of the others all epochs are done.
batch_size : int, default=128
    Samples of each rank in a step of SGD: K ranks take K · batch_size.
optimizer : {"auto", "sgd", "adagrad", "momentum", "adam"}, default="auto"
    "adagrad" has a rate for each weight, so features may be of any scale, as counts of words are.
    "momentum" and "adam" change all weights in every step. "auto" is "adagrad" of classifiers, and
    "sgd" with `top_k`, on a parameter server, and of LinearRegression.
learning_rate : {"auto", "optimal", "constant", "invscaling", "step"}, default="auto"
    "optimal": 1 / (λ (t0 + t)); "constant": eta0; "invscaling": eta0 / t^power_t; "step": eta0
    halved each 10 epochs. "auto" is "constant" by AdaGrad, else "optimal", of LinearRegression
    "invscaling".
eta0 : float, default=%s
    First learning rate.
power_t : float, default=0.5
    Of "invscaling": 1 is 1/t, 0.5 is 1/√t.
average : bool or "auto", default="auto"
    Predict with a mean of the weights at the ends of epochs, in which late ones weigh most: the
    weights themselves never stop moving. "auto" does where it can be done, without an L1 term,
    with ``optimizer="sgd"`` or "adagrad", and on no parameter server.
shuffle : bool, default=True
    Shuffle the samples over all ranks, and anew in each epoch. Data sorted by class need it.
partitioner : {"auto", "random", "parsa", "connectivity"}, default="auto"
    How samples are placed on ranks. "parsa" and "connectivity" put samples together that have the
    same features, so that a rank touches few of them and sends less; each rank then shuffles its
    own, and goes through them `batch_size` at a time until it has no more. "auto" is "parsa" on a
    parameter server and samples in memory, else "random".
aggregation : str, default="auto"
    How gradients are added up: "dense", an algorithm of `daskpart.collectives.sparse_allreduce`,
    or "auto", which takes the quickest at each epoch and gives the bits of "dense". "server": the
    weights lie on a parameter server, and a rank fetches and moves those that its batch touches;
    for ``optimizer="sgd"`` without an L1 term.
delay : int or math.inf, default=0
    On a parameter server: by how many batches (or blocks, of ``solver="server"``) a rank may run
    ahead of the slowest. 0 is synchronous and gives the same bits on every transport.
top_k : int or None, default=None
    Send the k largest entries of a rank's gradient only, and keep the rest for the next step. A fit
    that resumes keeps it too, and so does `partial_fit` (on other ranks in sum); with
    ``warm_start=True`` other data or other parameters begin with nothing kept.
top_k_bucket : int or None, default=None
    Choose the k largest of every so many coordinates.
top_k_approximate : bool, default=False
    Draw entries by their size, k in expectation, which is quicker than choosing.
overlap : bool, default=False
    Add up gradients while the next batch is computed: its gradient is one step stale. One rank
    alone has nothing to add up, and so nothing stale.
n_ranks : int or None, default=None
    Ranks that hold the samples. None: as many as the workers have threads; without a cluster as
    many as this process has cores, and one for "sgd".
validation_fraction : float, default=0.0
    Share of the samples that is held out, to measure `validation_loss` on after each epoch; or give
    `eval_set` to ``fit``. Drawn by `random_state`, whatever the classes are; `partial_fit` learns
    from all.
patience : int or None, default=None
    Stop after so many epochs without a lower `validation_loss`; the model then has the weights of
    the epoch with the lowest.
{words of transport}
warm_start : bool, default=False
    Begin at the weights of the last fit. Those of features that no sample of this one has are moved
    by the penalty alone: "lbfgs", "server" and AdaGrad take them to 0, other SGD step by step.
    `partial_fit` goes on with them.
{words of checkpoints}
random_state : int, RandomState or None, default=0
    Fixes the shuffles, and what approximate TopK draws.
{words of verbose}
"""
_SHARED_ATTRIBUTES = """\
n_features_in_, feature_names_in_ : int, ndarray of str
n_iter_ : int
    Epochs or iterations done.
best_iteration_ : int or None
    The one whose weights the model has, by `patience`; None without it: the last.
history_ : pandas.DataFrame
    One row an epoch: loss (with the penalty; of SGD each sample's before its step), its change,
    density of the summed gradients (on a parameter server the mean staleness of what was fetched,
    in batches or blocks), seconds, seconds_computing, seconds_communicating (means over
    ranks), messages, bytes.
state_ : LinearState
    All that a further epoch needs.
plan_report_, comm_report_ : PlanReport, CommunicationReport
"""


def shared_words(eta0: float) -> Callable[[Any], Any]:
    """Decorate an estimator whose docstring leaves out what all say alike.

    Parameters
    ----------
    eta0 : float
        Its default.
    """
    return with_shared_words(_SHARED % eta0, _SHARED_ATTRIBUTES)


class NotConvergedWarning(DaskpartWarning, ConvergenceWarning):
    """L-BFGS ended before the optimum; scikit-learn's own warning, too."""


class LinearModel(SampleModel):
    """What all linear models share: parameters, plan, text."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SampleModel._parameter_constraints,
        "fit_intercept": ["boolean"],
        "solver": [StrOptions({"lbfgs", "sgd"})],
        "optimizer": [StrOptions({"auto", *OPTIMIZERS})],
        "learning_rate": [StrOptions({"auto", *SCHEDULES})],
        "eta0": [POSITIVE],
        "power_t": [AT_LEAST_0],
        "average": ["boolean", StrOptions({"auto"})],
        "partitioner": [StrOptions(set(PARTITIONERS))],
        "aggregation": [StrOptions({"server", *NAMES})],
        "delay": [Interval(Real, 0, np.inf, closed="both")],
        "overlap": ["boolean"],
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
    }
    _decide_plan: ClassVar[tuple[str, ...]] = (
        *("solver", "batch_size", "shuffle", "partitioner"),
        "aggregation",  # on a server "auto" places rows otherwise
    )
    _decide_bits: ClassVar[tuple[str, ...]] = (
        *_decide_plan,
        *("l1_ratio", "fit_intercept", "optimizer", "learning_rate", "eta0", "power_t", "average"),
        *("delay", "top_k", "top_k_bucket", "top_k_approximate", "overlap"),
    )
    _state_class: ClassVar[type[State]] = LinearState
    _adaptive: ClassVar[str] = "adagrad"  # what "auto" is
    _decaying: ClassVar[str] = "optimal"

    l1_ratio: float
    fit_intercept: bool
    solver: str
    optimizer: str
    learning_rate: str
    eta0: float
    power_t: float
    average: bool | str
    partitioner: str
    delay: float
    overlap: bool
    epsilon: float = 0.0  # of the Huber loss
    state_: LinearState

    # -- what a model of the three says ---

    def _loss_of(self, n_outputs: int) -> Loss:
        raise NotImplementedError

    def _strength(self, problem: Any) -> float:
        """λ, of the mean loss."""
        raise NotImplementedError

    # -- fitting ---

    def _check(self) -> None:
        sgd = self.solver == "sgd"
        average = self.average != "auto" and bool(self.average)
        if self.solver == "lbfgs" and not self._loss_of(1).smooth:
            raise InputError("loss='hinge' has corners, so solver='lbfgs' stops short of it; "
                             "choose solver='sgd', or loss='squared_hinge'")  # fmt: skip
        if sgd and self._optimizer not in LAZY and average:
            raise InputError("average goes with optimizer='sgd' or 'adagrad'")
        if sgd and self._optimizer not in LAZY and self.l1_ratio:
            raise InputError("l1_ratio above 0 goes with optimizer='sgd' or 'adagrad'")
        if sgd and average and self.l1_ratio:
            raise InputError("average goes with l1_ratio=0: a mean of sparse weights is not sparse")
        if not sgd and (self.top_k is not None or self.overlap or average):
            raise InputError("top_k, overlap and average need solver='sgd'")
        if self.top_k is None and (self.top_k_bucket is not None or self.top_k_approximate):
            raise InputError("top_k_bucket and top_k_approximate need top_k")
        self._check_server()

    def _check_server(self) -> None:
        if self.delay and not self._on_server:
            raise InputError("delay goes with a parameter server: aggregation='server', or "
                             "LogisticRegression's solver='server'")  # fmt: skip
        if self.delay != np.inf and self.delay != int(self.delay):
            raise InputError(f"delay is {self.delay}: give a whole number, or math.inf")
        if self.aggregation != "server":
            return
        if self.solver != "sgd":
            raise InputError("aggregation='server' needs solver='sgd'")
        if self._optimizer != "sgd":
            raise InputError("aggregation='server' goes with optimizer='sgd' (or 'auto')")
        if self.l1_ratio:
            raise InputError("aggregation='server' goes with l1_ratio=0; LogisticRegression's "
                             "solver='server' takes an L1 term")  # fmt: skip
        if self.overlap or (self.average != "auto" and self.average):
            raise InputError("overlap and average need another aggregation than 'server', where "
                             "delay=1 does what overlap does")  # fmt: skip

    @property
    def _on_server(self) -> bool:
        """Whether weights lie on a parameter server."""
        return "server" in (self.solver, self.aggregation)

    def _default_ranks(self, client: Any) -> int:
        by_messages = self.solver == "sgd" and not self._on_server
        if by_messages and client_for(self.transport, client) is None:
            return 1  # in one process a step over a small batch takes less time than its messages
        return super()._default_ranks(client)

    def _make_plan(
        self, problem: Any, n_ranks: int, *, transport: str, random_state: int, kept: Any
    ) -> SamplesPlan:
        server = self.solver == "server"
        n_ranks = min(n_ranks, problem.n_samples) if self._on_server else n_ranks
        partitioner, placed = self._partitioner(problem), None
        # where no sample has an entry there is nothing to place by
        if partitioner != "random" and n_ranks > 1 and problem.n_stored:
            placed = placed_rows(problem, partitioner, n_ranks, random_state)
            partition = placed.partition
            members = [partition.members(rank) for rank in range(n_ranks)]
        else:
            partition = None
            members, partitioner = self._dealt_out(problem, n_ranks, random_state)
        held = len(OPTIMIZERS[self._optimizer].slots)
        behind = bool(self.l1_ratio) or self._optimizer == "adagrad"
        ways = {
            "sgd": 2 + self._averages + behind + held,
            "lbfgs": 6 + bool(self.l1_ratio) + 2 * N_PAIRS / n_ranks,
            "server": 5,
        }
        way = self.solver
        if self.aggregation == "server":  # the shard, twice, and what was not sent
            way, ways["shard"] = "shard", 2 / n_ranks + (self.top_k is not None)
        row_bytes = problem.bytes_of(members)
        if server:  # beside its rows: weights, and of each output a score and whether it is of it
            lengths = np.array([len(own) for own in members])
            row_bytes += (row_bytes > 0) * lengths * (8 + 9 * problem.n_outputs)
        return SamplesPlan(
            n_ranks=n_ranks,
            partition=partition,
            partitioner=partitioner,
            members=members,
            weight_bytes=int(8 * (problem.n_features + 1) * problem.n_outputs * ways[way]),
            row_bytes=row_bytes,
            on_disk=problem.on_disk,
            touched=None if placed is None else placed.touched,
            shards=None if placed is None else placed.shards,
            seconds=0.0 if placed is None else placed.seconds,
        )

    def _partitioner(self, problem: Any) -> str:
        if self.partitioner != "auto":
            return self.partitioner
        return "parsa" if self._on_server and type(problem) is Samples else "random"

    def _dealt_out(
        self, problem: Any, n_ranks: int, random_state: int
    ) -> tuple[list[NDArray[np.int64]], str]:
        """The samples of each rank where they are not placed, and in a word how."""
        if self.solver == "server" and not isinstance(problem, FileSamples):
            partition = random_rows(problem.n_samples, n_ranks, random_state)
            return [partition.members(rank) for rank in range(n_ranks)], "random"
        batch = int(self.batch_size) if self.solver == "sgd" else 1
        if self._shuffles:
            return problem.members(n_ranks, random_state, batch), "shuffle"
        return problem.members(n_ranks, None, batch), problem.unshuffled

    @property
    def _optimizer(self) -> str:
        """The name of the optimiser. AdaGrad divides by what arrives: under TopK that is little."""
        if self.optimizer != "auto":
            return self.optimizer
        return "sgd" if self.top_k is not None or self.aggregation == "server" else self._adaptive

    @property
    def _learning_rate(self) -> str:
        if self.learning_rate != "auto":
            return self.learning_rate
        return "constant" if self._optimizer == "adagrad" else self._decaying

    @property
    def _averages(self) -> bool:
        """Whether the mean of the weights is what is learnt."""
        if self.average == "auto":
            can = self._optimizer in LAZY and self.aggregation != "server"
            return can and not self.l1_ratio
        return bool(self.average)

    @property
    def _shuffles(self) -> bool:
        """Whether samples go to ranks in a random order."""
        return self.solver == "sgd" and bool(self.shuffle)

    def _first_state(self, problem: Any, plan: Any) -> LinearState:
        size = (problem.n_features + 1) * problem.n_outputs
        return LinearState(
            weights=np.zeros(size),
            residual=self._no_residual(plan.n_ranks, size),
            n_outputs=problem.n_outputs,
        )

    def _no_residual(self, n_ranks: int, size: int) -> NDArray[np.float64]:
        return np.zeros((n_ranks, 0 if self.top_k is None else size))

    def _going_on(self, state: Any, problem: Any) -> Any:
        size = (problem.n_features + 1) * problem.n_outputs
        if len(state.weights) != size or state.n_outputs != problem.n_outputs:
            raise InputError(
                f"the last fit was of {len(state.weights) // state.n_outputs - 1} features and "
                f"{state.n_outputs} outputs, these are {problem.n_features} and "
                f"{problem.n_outputs}; begin anew with warm_start=False"
            )
        if self.fit_intercept:
            return state
        weights, mean, residual = state.weights.copy(), state.mean.copy(), state.residual.copy()
        weights[-state.n_outputs :] = 0.0  # an intercept that the last fit may have had
        mean[-state.n_outputs :] = 0.0
        residual[:, -state.n_outputs :] = 0.0
        slots = {  # ".1" are of the intercept, which they would go on to move
            name: np.zeros_like(slot) if name.endswith(".1") else slot
            for name, slot in state.slots.items()
        }
        return replace(state, weights=weights, mean=mean, slots=slots, residual=residual)

    def _beginning(self, one_step: bool, *begins: Any) -> tuple[Any, int]:
        start: Any
        start, last = super()._beginning(one_step, *begins)
        anew = start.epoch and start.epoch == start.begun_behind and not one_step
        if anew and self.solver == "sgd" and not self._on_server:
            # what a batch of `partial_fit` lacks others have, so that is of its fit alone
            start = replace(start, slots={**start.slots, ANEW: np.array(1)})
        if anew and self.solver == "sgd" and self._averages:
            # epochs of other data say nothing of these; `partial_fit` goes on with one mean
            slots = {**start.slots, MEAN_BEGAN: np.array(start.epoch)}
            start = replace(start, mean=np.zeros(0), slots=slots)
        return start, last

    def _in_another_fit(self, state: Any, settings: dict[str, Any]) -> Any:
        blank = self._no_residual(settings["n_ranks"], len(state.weights))
        state = replace(state, residual=self._residual_on(state.residual, blank))
        # gradient and pairs of L-BFGS are of its data; slots and mean are of the optimiser
        if self.solver == "lbfgs" and state.is_of(state.on_own_ranks(settings)):
            return state
        state = super()._in_another_fit(state, settings)
        ways = ("solver", "optimizer", "top_k")
        moved = (state.settings.get("aggregation") == "server") != (self.aggregation == "server")
        other = moved or any(state.settings.get(way) != settings[way] for way in ways)
        if self.solver == "lbfgs" or other:
            weights = state.averaged.copy()
            slots = {} if self.solver == "lbfgs" else slots_from(state.steps)
            state = replace(state, weights=weights, mean=np.zeros(0), slots=slots)
        return state

    def _connection(self, plan: Any, client: Any) -> Any:
        if self._on_server:
            return ServerConnection(self.transport, plan.n_ranks, client)
        return super()._connection(plan, client)

    def _text(self, session: Any, plan: Any, problem: Any, state: Any) -> Text:
        if self._on_server:
            rows_on = partial(self._rows, plan=plan, problem=problem, shuffle=self._shuffles)
            fit = self._server_options(plan, problem)
            of_fit = SgdServerText if isinstance(fit, ServerSgd) else BlocksText
            return of_fit(session, plan, rows_on, fit, self._tolerance)
        rows = self._rows(session, plan, problem, self._shuffles)
        return LinearText(session, rows, self._options(plan, problem), self._tolerance)

    def _server_options(self, plan: Any, problem: Any) -> ServerSgd | DelayedBlocks:
        return ServerSgd(
            **self._shared_options(problem),
            **self._batch_options(plan, problem),
            l2=self._strength(problem),
            n_features=problem.n_features,
            compressor=self._compressor(plan.random_state),
            delay=float(self.delay),
        )

    def _train(
        self, trainer: Any, problem: Any, plan: Any, start: Any, last: int, epochs: Any
    ) -> State:
        state = super()._train(trainer, problem, plan, start, last, epochs)
        if self.solver == "lbfgs" and self.tol and state.epoch > start.epoch:
            first, row = state.history[start.epoch], state.history[-1]
            large = row["gradient"] >= UNMOVED * first["gradient"]  # for rounding to be the reason
            stuck = row["evaluations"] == MAX_TRIES and not row["change"] and large
            if stuck or (state.epoch == last and row["change"] >= self.tol):
                warn(
                    f"L-BFGS has not converged in {state.epoch} iterations: an entry of the "
                    f"gradient is still {row['gradient']:.2g}. Scale the features (StandardScaler, "
                    "MaxAbsScaler), or raise max_iter or tol.",
                    NotConvergedWarning,
                )
        return state

    @property
    def _tolerance(self) -> float:
        # where L-BFGS finds no step, its change is 0, and it would try the same ones ever after
        least = LEAST_TOLERANCE if self.solver == "lbfgs" else 0.0
        return max(super()._tolerance, least)

    def _options(self, plan: Any, problem: Any) -> Sgd | Lbfgs:
        l1, l2 = self._penalty(problem)
        if self.solver == "lbfgs":
            return Lbfgs(
                **self._shared_options(problem),
                l1=l1,
                l2=l2,
                n_samples=problem.n_samples,
                aggregator=Aggregator(self.aggregation),
                block_rows=problem.block_rows,
                scale_free=problem.classes is None,
            )
        return Sgd(
            **self._shared_options(problem),
            **self._batch_options(plan, problem),
            l1=l1,
            l2=l2,
            average=self._averages,
            overlap=bool(self.overlap) and plan.n_ranks > 1,  # one rank alone waits for no sum
            optimizer=OPTIMIZERS[self._optimizer](),
            aggregator=self._aggregator(plan.random_state),
        )

    def _penalty(self, problem: Any) -> tuple[float, float]:
        """Strengths of the L1 and the L2 term, of the mean loss."""
        strength = self._strength(problem)
        return strength * self.l1_ratio, strength * (1 - self.l1_ratio)

    def _shared_options(self, problem: Any) -> dict[str, Any]:
        """What every solver is told."""
        return {
            "loss": self._loss_of(problem.n_outputs).code,
            "epsilon": float(self.epsilon),
            "intercept": bool(self.fit_intercept),
            "n_outputs": problem.n_outputs,
        }

    def _batch_options(self, plan: Any, problem: Any) -> dict[str, Any]:
        """What SGD is told besides: batches and rates."""
        loss = self._loss_of(problem.n_outputs)
        return {
            "shuffle": bool(self.shuffle),
            "batch_size": int(self.batch_size),
            "block": problem.steps_of_block(int(self.batch_size)),
            "random_state": plan.random_state,
            "sizes": plan.sizes,
            "schedule": schedule_of(
                self._learning_rate, float(self.eta0), power=float(self.power_t),
                strength=self._strength(problem), steepest=loss.steepest,
            ),
            "curvature": loss.curvature,
        }  # fmt: skip

    def _evaluation(self, problem: Any) -> Any:
        held = problem.validation
        if held is None:
            return None
        loss = self._loss_of(held.n_outputs)

        def evaluate(state: LinearState) -> dict[str, float]:
            how = {"coefficients": state.coefficients, "intercepts": state.intercepts}
            scores = np.array(held.outputs(partial(scores_of_rows, **how)))  # to be spent
            target = in_columns(held.target)
            found = mean_loss(loss.code, float(self.epsilon), scores, target, held.weight)
            return {"validation_loss": found}

        return evaluate

    def set_coefs(self, coef: Any, intercept: Any = 0.0, *, classes: Any = None) -> Self:
        """Take weights that were trained elsewhere, to predict with, or to go on from.

        ``fit`` with ``warm_start=True`` goes on from them, and ``partial_fit``.

        Parameters
        ----------
        coef : array of shape (n_features,) or (n_outputs, n_features)
            As `coef_` here and in scikit-learn: of two classes one row, the score of the second.
        intercept : float or array of shape (n_outputs,), default=0.0
        classes : array of shape (n_classes,), optional
            Of a classifier, in rising order; default: their numbers.

        Raises
        ------
        InputError
            For arrays that do not fit each other, or that are no finite numbers, or not a class an
            output.
        """
        self._check_parameters()
        rows = real_numbers(np.atleast_2d(as_array(coef, "coef values")), "coef value", 2)
        n_outputs, n_features = rows.shape
        levels = real_numbers(np.atleast_1d(as_array(intercept, "intercepts")), "intercept")
        if np.ndim(intercept) and len(levels) != n_outputs:
            raise InputError(
                f"intercept has shape {levels.shape}, coef {rows.shape}: give one for each row, "
                "or one number"
            )
        if is_classifier(self) and n_outputs == 2:
            raise InputError(
                "coef has 2 rows: of two classes there is one, the score of the second; of more "
                "one each"
            )
        if n_outputs > 1 and not (is_classifier(self) or self._several_targets):
            raise InputError(f"coef has {n_outputs} rows: {type(self).__name__} has one output")
        found = self._given_classes(classes, 2 if n_outputs == 1 else n_outputs)
        weights = np.vstack((rows.T, np.broadcast_to(levels, n_outputs))).ravel()
        state = LinearState(
            weights=weights,
            residual=np.zeros((1, 0)),
            n_outputs=n_outputs,
            settings=self._settings_of(self._decide_bits),
        )
        self._take(state, n_features)
        self._keep_more(Outputs(n_outputs, found, n_outputs > 1), None)
        return self

    def _scores_or_lazily(self, name: str, X: Any) -> NDArray[np.float64]:
        """Answer of a method that gives the scores: a vector where there is one output."""
        if is_lazy_or_file(X):
            n_outputs = self._fitted().n_outputs
            return self._lazily(name, X, 0 if n_outputs == 1 else n_outputs, np.float64)
        scores = self._scores(X)
        return scores.ravel() if scores.shape[1] == 1 else scores

    def _scores(self, X: Any) -> NDArray[np.float64]:
        """Scores of shape (n_samples, n_outputs)."""
        rows, state = self._checked_rows(X), self._fitted()
        return scores_of_rows(rows, state.coefficients, state.intercepts)


def scores_of_rows(
    rows: Any, coefficients: NDArray[Any], intercepts: NDArray[Any]
) -> NDArray[np.float64]:
    """Scores of shape (n_rows, n_outputs)."""
    return np.asarray(rows @ coefficients.T + intercepts)
