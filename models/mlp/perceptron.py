"""What the perceptrons share: parameters and their words, network, plan, what a fitted one tells.

X, y ─► Samples ─► Network, SamplesPlan ─► Training ─► MLPText ─► MLPState ─► coefs_
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils._param_validation import StrOptions

from daskpart._floor.checks import real_numbers
from daskpart._floor.checks import several as as_list
from daskpart.errors import InputError
from daskpart.models.base.fitted import as_fitted
from daskpart.models.base.parameters import AT_LEAST_0, COUNT, POSITIVE
from daskpart.models.base.state import State
from daskpart.models.networks.activations import ACTIVATIONS
from daskpart.models.networks.losses import Loss
from daskpart.models.networks.sizes import check_shapes, widths_of
from daskpart.models.optimisation.aggregation import Aggregator
from daskpart.models.optimisation.optimisers import (
    OPTIMIZERS,
    Optimizer,
    require_one_decay,
    slots_from,
    with_decay,
)
from daskpart.models.optimisation.schedules import SCHEDULES, schedule_of
from daskpart.models.samples.estimator import SampleModel
from daskpart.models.samples.plan import SamplesPlan
from daskpart.models.samples.problem import Outputs

from .memory import passing_bytes
from .network import Network
from .sgd import Training, is_full
from .state import MLPState
from .text import MLPText

SHARED_PARAMETERS = """\
hidden_layer_sizes : int or tuple of int, default=(100,)
    Widths of the hidden layers; (): one layer.
activation : {"relu", "tanh", "logistic", "elu", "identity"}, default="relu"
    Between layers.
alpha : float, default=1e-4
    Strength of the L2 penalty ½ alpha ‖W‖² on the mean loss; biases are left out. (scikit-learn
    divides its alpha by the samples of a step, or by the sum of their weights.)
optimizer : {"adam", "sgd", "momentum", "adagrad"} or Optimizer, default="adam"
    With `top_k`, "sgd" and "momentum": the others divide by the size of what arrived, which TopK
    makes rare and large. An Optimizer has numbers of your own, such as ``Momentum(0.95)``; without
    a weight decay it takes alpha. (scikit-learn says solver, and its "sgd" is
    ``Momentum(0.9, nesterov=True)``.)
learning_rate : {"constant", "invscaling", "step"}, default="constant"
    The rate as it is; over t^power_t, t counting steps; halved each 10 epochs.
learning_rate_init : float, default=0.001
    First learning rate.
power_t : float, default=0.5
    Of "invscaling": 1 is 1/t, 0.5 is 1/√t.
batch_size : int, default=64
    Samples of each rank in a step: K ranks take K · batch_size.
max_iter : int, default=200
    Epochs.
tol : float, default=1e-4
    Stop when the least loss fell by less in the last ten epochs; 0: do all epochs.
shuffle : bool, default=True
    Shuffle the samples over all ranks, and anew in each epoch.
aggregation : str, default="auto"
    How the gradients of a layer are added up: "dense", an algorithm of
    `daskpart.collectives.sparse_allreduce`, or "auto", which takes the quickest at each epoch and
    gives the bits of "dense".
top_k : int or None, default=None
    Send the k largest entries of each bucket of a layer's gradient only, and keep the rest for the
    next step. A fit that resumes keeps it too, and so does `partial_fit` (on other ranks in sum);
    with ``warm_start=True`` other data or other parameters begin with nothing kept.
top_k_bucket : int or None, default=512
    Length of a bucket; None: a layer is one bucket.
top_k_approximate : bool, default=False
    Draw entries by their size, k of a bucket in expectation.
n_ranks : int or None, default=None
    Ranks that hold the samples. None: as many as the workers have threads, or as this process has
    cores.
validation_fraction : float, default=0.0
    Share of the samples that is held out, to measure `validation_loss` on after each epoch; or give
    `eval_set` to ``fit``. Drawn by `random_state`, whatever the classes are; `partial_fit` learns
    from all.
patience : int or None, default=None
    Stop after so many epochs without a lower `validation_loss`; the model then has the weights of
    the epoch with the lowest.
{words of transport}
warm_start : bool, default=False
    Begin at the weights of the last fit.
{words of checkpoints}
random_state : int, RandomState or None, default=0
    Fixes first weights, shuffles, and what approximate TopK draws.
{words of verbose}
"""
SHARED_ATTRIBUTES = """\
coefs_ : list of ndarray of shape (n_inputs, n_outputs)
    Matrix of each layer, in the dtype of X (float32 or float64).
intercepts_ : list of ndarray of shape (n_outputs,)
n_layers_, n_outputs_ : int
    Layers, that of the features among them; columns of the last.
loss_ : float
    Of the last epoch.
several_ : bool
    Whether y had several columns.
n_features_in_, feature_names_in_ : int, ndarray of str
n_iter_ : int
    Epochs done.
best_iteration_ : int or None
    The epoch whose weights the model has, by `patience`; None without it: the last.
history_ : pandas.DataFrame
    One row an epoch: loss (with the penalty; each sample's before its step), its change, score (of
    a classifier, alike), density of the summed gradients, learning_rate, validation_loss and
    validation_score (of what is held out), seconds, seconds_computing, seconds_communicating (means
    over ranks), messages, bytes.
state_ : MLPState
    All that a further epoch needs.
plan_report_, comm_report_ : PlanReport, CommunicationReport
"""


class Perceptron(SampleModel):
    """What the classifier and the regressor share; parameters are documented there."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SampleModel._parameter_constraints,
        "hidden_layer_sizes": [COUNT, tuple, list],
        "activation": [StrOptions(set(ACTIVATIONS))],
        "alpha": [AT_LEAST_0],
        "optimizer": [StrOptions(set(OPTIMIZERS)), Optimizer],
        "learning_rate": [StrOptions(set(SCHEDULES) - {"optimal"})],
        "learning_rate_init": [POSITIVE],
        "power_t": [AT_LEAST_0],
    }
    _decide_plan: ClassVar[tuple[str, ...]] = (
        "hidden_layer_sizes",
        "optimizer",
        "batch_size",
        "shuffle",
    )
    _decide_bits: ClassVar[tuple[str, ...]] = (
        *_decide_plan,
        *("activation", "alpha", "learning_rate", "learning_rate_init", "power_t"),
        *("aggregation", "top_k", "top_k_bucket", "top_k_approximate"),
    )
    _state_class: ClassVar[type[State]] = MLPState

    hidden_layer_sizes: Any
    activation: str
    alpha: float
    optimizer: Any
    learning_rate: str
    learning_rate_init: float
    power_t: float
    several_: bool = False
    state_: MLPState

    def __init__(
        self,
        hidden_layer_sizes: Any = (100,),
        *,
        activation: str = "relu",
        alpha: float = 1e-4,
        optimizer: Any = "adam",
        learning_rate: str = "constant",
        learning_rate_init: float = 1e-3,
        power_t: float = 0.5,
        batch_size: int = 64,
        max_iter: int = 200,
        tol: float = 1e-4,
        shuffle: bool = True,
        aggregation: str = "auto",
        top_k: int | None = None,
        top_k_bucket: int | None = 512,
        top_k_approximate: bool = False,
        n_ranks: int | None = None,
        validation_fraction: float = 0.0,
        patience: int | None = None,
        transport: str = "auto",
        warm_start: bool = False,
        checkpoint_path: Any = None,
        checkpoint_every: int = 1,
        resume: bool = False,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self._set_parameters(locals())

    # -- what a model of the two says ---

    def _loss_of(self, several: bool) -> Loss:
        """The loss; several: where a sample has several targets."""
        raise NotImplementedError

    def _score_of(self, outputs: NDArray[Any], target: NDArray[Any]) -> float:
        """Accuracy, or R²."""
        raise NotImplementedError

    # -- what the base asks ---

    def _check(self) -> None:
        self._hidden_widths()
        require_one_decay(self.optimizer, self.alpha, "alpha")
        if self.top_k is None and self.top_k_approximate:
            raise InputError("top_k_approximate needs top_k")

    def _hidden_widths(self) -> tuple[int, ...]:
        return widths_of(self.hidden_layer_sizes, "hidden_layer_sizes")

    def _network_of(self, problem: Any) -> Network:
        widths = (problem.n_features, *self._hidden_widths(), problem.n_outputs)
        loss = self._loss_of(problem.several)
        return Network(widths, self.activation, loss, np.dtype(problem.dtype).name)

    def _make_plan(
        self, problem: Any, n_ranks: int, *, transport: str, random_state: int, kept: Any
    ) -> SamplesPlan:
        seed = random_state if self.shuffle else None
        members = problem.members(n_ranks, seed, int(self.batch_size))
        network, optimizer = self._network_of(problem), self._optimizer()
        size = np.dtype(network.dtype).itemsize * sum(network.sizes())
        batch = min(int(self.batch_size) * n_ranks, problem.n_samples) / n_ranks
        dense = is_full(problem.n_stored, problem.n_samples, problem.n_features)
        return SamplesPlan(
            n_ranks=n_ranks,
            partitioner="shuffle" if self.shuffle else problem.unshuffled,
            members=members,
            weight_bytes=size * (1 + len(optimizer.slots) + (self.top_k is not None)),
            row_bytes=problem.bytes_of(members, dense=dense),
            passing_bytes=passing_bytes(
                network,
                n_ranks,
                entries_a_batch=batch * problem.n_stored / problem.n_samples,
                optimizer=optimizer,
                has_top_k=self.top_k is not None,
            ),
            on_disk=problem.on_disk,
        )

    def _first_state(self, problem: Any, plan: Any) -> MLPState:
        weights = self._network_of(problem).first_weights(plan.random_state)
        return MLPState(weights=weights, residual=self._no_residual(plan.n_ranks, weights))

    def _no_residual(self, n_ranks: int, weights: dict[str, NDArray[Any]]) -> NDArray[Any]:
        kept = 0 if self.top_k is None else sum(each.size for each in weights.values())
        return np.zeros((n_ranks, kept), weights["0.weight"].dtype)

    def _going_on(self, state: Any, problem: Any) -> Any:
        network = self._network_of(problem)
        check_shapes(network.shapes(), state.weights)
        # in the dtype of the data at hand, as a first fit; a count of steps stays one
        weights, slots = (
            {
                name: each.astype(network.dtype, copy=False) if each.dtype.kind == "f" else each
                for name, each in arrays.items()
            }
            for arrays in (state.weights, state.slots)
        )
        residual = state.residual.astype(network.dtype, copy=False)
        return replace(state, weights=weights, slots=slots, residual=residual)

    def _in_another_fit(self, state: Any, settings: dict[str, Any]) -> Any:
        state = replace(super()._in_another_fit(state, settings), least=np.zeros(0))
        if state.settings.get("optimizer") != settings["optimizer"]:
            state = replace(state, slots=slots_from(state.steps))
        blank = self._no_residual(settings["n_ranks"], state.weights)
        return replace(state, residual=self._residual_on(state.residual, blank))

    def _keep_more(self, problem: Any, plan: Any) -> None:
        super()._keep_more(problem, plan)
        self.several_ = problem.several

    def _text(self, session: Any, plan: Any, problem: Any, state: Any) -> MLPText:
        rows = self._rows(session, plan, problem, bool(self.shuffle))
        network = self._network_of(problem)
        fit = Training(
            network=network,
            alpha=float(self.alpha),
            schedule=schedule_of(
                self.learning_rate, float(self.learning_rate_init), power=float(self.power_t)
            ),
            optimizer=self._optimizer(),
            aggregators=self._aggregators(network, plan.random_state),
            passing=tuple(plan.passing_bytes.tolist()),
            sizes=plan.sizes,
            batch_size=int(self.batch_size),
            block=problem.steps_of_block(int(self.batch_size)),
            random_state=plan.random_state,
            shuffle=bool(self.shuffle),
        )
        return MLPText(session, rows, fit, self._tolerance)

    def _optimizer(self) -> Optimizer:
        return with_decay(self.optimizer, (float(self.alpha), 0.0))

    def _aggregators(self, network: Network, random_state: int) -> tuple[Aggregator, ...]:
        """One a layer; of approximate TopK each draws for itself."""
        return tuple(self._aggregator(random_state + place) for place in range(network.n_layers))

    def _evaluation(self, problem: Any) -> Any:
        held = problem.validation
        if held is None:
            return None
        network = self._network_of(problem)

        def evaluate(state: MLPState) -> dict[str, float]:
            outputs = held.outputs(partial(outputs_of, network=network, weights=state.weights))
            targets = network.targets(held.target)
            n_terms = 1 if targets.ndim == 1 else targets.shape[1]
            total = network.loss.sums(outputs, targets, held.weight)[0]
            return {
                "validation_loss": float(total / (held.n_samples * n_terms)),
                "validation_score": self._score_of(outputs, targets),
            }

        return evaluate

    # -- what a fitted model tells ---

    def set_coefs(
        self, coefs: Any, intercepts: Any, *, classes: Any = None, several: bool = False
    ) -> Self:
        """Take weights that were trained elsewhere, to predict with, or to go on from.

        ``partial_fit`` goes on from them, and ``fit`` with ``warm_start=True``.

        Parameters
        ----------
        coefs : list of array of shape (n_inputs, n_outputs)
            Matrix of each layer, as `coefs_` here and in scikit-learn. Of two classes the last may
            have one column, as there: the score of the second.
        intercepts : list of array of shape (n_outputs,)
        classes : array of shape (n_classes,), optional
            Of a classifier, in rising order; default: their numbers.
        several : bool, default=False
            Of a classifier: whether a sample may have several classes, which are numbers then.

        Raises
        ------
        InputError
            For weights of another network than the parameters make, or that are no finite numbers,
            or not a class an output.
        """
        self._check_parameters()
        matrices, biases = (
            [
                real_numbers(each, f"{name}[{place}] value", n_dimensions)
                for place, each in enumerate(as_list(given, name, f"a list of arrays, as {name}_"))
            ]
            for name, given, n_dimensions in (("coefs", coefs, 2), ("intercepts", intercepts, 1))
        )
        is_short = all(np.asarray(each).dtype == np.float32 for each in (*coefs, *intercepts))
        shapes, lengths = [each.shape for each in matrices], [len(each) for each in biases]
        n_inputs, n_outputs = (shapes[0][0], shapes[-1][1]) if shapes else (0, 0)
        wanted = [*pairwise((n_inputs, *self._hidden_widths(), n_outputs))]
        if shapes != wanted or lengths != [below for _, below in wanted]:
            raise InputError(
                f"the parameters make a network of layers {wanted}; coefs have {shapes}, "
                f"intercepts {lengths}"
            )
        if is_classifier(self) and not several and n_outputs == 1:
            n_outputs = 2  # a sigmoid of z is a softmax of 0 and z
            matrices[-1] = np.pad(matrices[-1], ((0, 0), (1, 0)))
            biases[-1] = np.pad(biases[-1], (1, 0))
        found = self._given_classes(classes, n_outputs)
        if found is not None and several and not np.array_equal(found, np.arange(n_outputs)):
            raise InputError(
                f"classes={classes!r}: where a sample may have several, they are the numbers of "
                "the outputs; leave them out"
            )
        weights = {
            f"{place}.{name}": array.astype(np.float32 if is_short else np.float64, "C")
            for place, layer in enumerate(zip(matrices, biases, strict=True))
            for name, array in zip(("weight", "bias"), layer, strict=True)
        }
        state = MLPState(
            weights=weights,
            residual=np.zeros((1, 0)),
            settings=self._settings_of(self._decide_bits),
        )
        self._take(state, n_inputs)
        several = bool(several) if is_classifier(self) else n_outputs > 1
        self._keep_more(Outputs(n_outputs, found, several), None)
        return self

    @property
    def coefs_(self) -> list[NDArray[Any]]:
        """Matrix of each layer."""
        return self._arrays("weight")

    @property
    def intercepts_(self) -> list[NDArray[Any]]:
        """Bias of each layer."""
        return self._arrays("bias")

    def _arrays(self, kind: str) -> list[NDArray[Any]]:
        weights = self._fitted().weights
        return [array for name, array in weights.items() if name.endswith(kind)]

    @property
    def n_layers_(self) -> int:
        """Layers, that of the features among them."""
        return len(self.coefs_) + 1

    @property
    def n_outputs_(self) -> int:
        """Columns of the last layer."""
        return self.coefs_[-1].shape[1]

    @property
    def loss_(self) -> float:
        """Of the last epoch."""
        return self._fitted().loss

    def _outputs(self, X: Any) -> NDArray[Any]:
        """Outputs of the network for rows, of shape (n_samples, n_outputs)."""
        rows, weights = self._checked_rows(X), self._fitted().weights
        matrices, loss = self.coefs_, self._loss_of(self.several_)
        widths = (len(matrices[0]), *(each.shape[1] for each in matrices))
        activation = as_fitted(self, "activation").activation
        network = Network(widths, activation, loss, matrices[0].dtype.name)
        return outputs_of(rows, network=network, weights=weights)


def outputs_of(rows: Any, *, network: Network, weights: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """Outputs of a network for csr or dense rows."""
    inputs = rows.astype(network.dtype, copy=False)
    return network.forward(network.joined(weights), inputs)[-1]
