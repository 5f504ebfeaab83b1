"""What a graph network's estimators share in training: parameters, checks, plan, text.

X, y, graph ─► problem ─► plan ─► GCNText ─► weights        what they are good for: `fitted_network`
"""

from __future__ import annotations

import os
from abc import abstractmethod
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _num_samples, validate_data

from daskpart._floor.checks import finite_number
from daskpart.containers.tables import table_in_memory
from daskpart.errors import InputError
from daskpart.models.base.callbacks import with_callbacks
from daskpart.models.base.class_weights import refuse_balanced
from daskpart.models.base.docstrings import with_words_of_fit
from daskpart.models.base.parameters import AT_LEAST_0, COUNT, POSITIVE, SHARE
from daskpart.models.base.plan import FitPlan, check_partitioner
from daskpart.models.base.problem import canonical_rows, refuse_times, refused, share_held_out
from daskpart.models.base.state import State
from daskpart.models.networks.activations import ACTIVATIONS
from daskpart.models.networks.losses import Loss
from daskpart.models.networks.sizes import check_shapes, widths_of
from daskpart.models.optimisation.learning_rates import OF_NETWORKS, LearningRate, in_another_fit
from daskpart.models.optimisation.optimisers import (
    BEGAN,
    OPTIMIZERS,
    Optimizer,
    require_one_decay,
    slots_from,
    with_decay,
)
from daskpart.partitions import Partition

from .batch_plan import BatchPlan, batches_of, plan_batches, seeded
from .communication import COMMUNICATIONS
from .fitted_network import FittedNetwork
from .graph import read_features, read_graph
from .layers import LAYERS, kind_of, make_layers, shapes_by_name
from .minibatch import BatchText
from .network import Network
from .plan import PARTITIONERS, GCNPlan, plan_fit
from .problem import FIRST_PRODUCTS, GraphProblem, split_labelled
from .sampling import SAMPLERS
from .state import GCNState
from .targets import Targets
from .text import GCNText
from .vertex_names import by_vertex, in_order, mask_of, names_of_rows, placed

# columns that are best at their lowest, and at their highest
MONITORS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "loss": (("validation_loss",), ()),
    "score": ((), ("validation_score",)),
    "both": (("validation_loss",), ("validation_score",)),
}
_OF_RATE = ("learning_rate", "initial_learning_rate", "power_t")


class GraphNetwork(FittedNetwork):
    """What the classifier and the regressor share; parameters are documented there."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **FittedNetwork._parameter_constraints,
        "hidden": [COUNT, tuple, list],
        "layer": [StrOptions(set(LAYERS)), type],
        "layer_options": [dict, None],
        "activation": [StrOptions(set(ACTIVATIONS))],
        "dropout": [SHARE],
        "optimizer": [StrOptions(set(OPTIMIZERS)), Optimizer],
        "learning_rate": [StrOptions(set(OF_NETWORKS))],
        "initial_learning_rate": [POSITIVE],
        "power_t": [AT_LEAST_0],
        "weight_decay": [AT_LEAST_0, tuple, list],
        "batch_size": [COUNT, Interval(Real, 0, 1, closed="neither"), None],
        "sampler": [StrOptions(set(SAMPLERS)), *SAMPLERS.values()],
        "validation_fraction": [SHARE],
        "monitor": [StrOptions(set(MONITORS))],
        "symmetrize": ["boolean"],
        "first_product": [StrOptions(set(FIRST_PRODUCTS))],
        "communication": [StrOptions({"auto", *COMMUNICATIONS})],
        "partitioner": [str, dict, Partition, "array-like"],
        "dtype": [StrOptions({"float32", "float64"})],
    }
    _decide_plan: ClassVar[tuple[str, ...]] = (
        *("hidden", "layer", "layer_options", "activation", "dropout", "symmetrize"),
        *("first_product", "partitioner", "dtype", "validation_fraction", "communication"),
        *("batch_size", "sampler"),
    )
    _decide_bits: ClassVar[tuple[str, ...]] = (
        *_decide_plan,
        *("optimizer", *_OF_RATE, "weight_decay", "monitor"),
    )
    _state_class: ClassVar[type[State]] = GCNState

    activation: str
    dropout: float
    class_weight: Any = None  # of a classifier
    optimizer: Any
    learning_rate: str
    initial_learning_rate: float
    power_t: float
    weight_decay: Any
    validation_fraction: float
    monitor: str
    symmetrize: bool
    first_product: str
    communication: str
    partitioner: Any

    def __init__(
        self,
        hidden: Any = (16,),
        *,
        layer: Any = "gcn",
        layer_options: dict[str, Any] | None = None,
        activation: str = "relu",
        dropout: float = 0.5,
        optimizer: Any = "adam",
        learning_rate: str = "constant",
        initial_learning_rate: float = 0.01,
        power_t: float = 0.5,
        weight_decay: Any = 5e-4,
        batch_size: int | float | None = None,
        sampler: Any = "neighbour",
        max_iter: int = 200,
        validation_fraction: float = 0.0,
        patience: int | None = None,
        monitor: str = "loss",
        symmetrize: bool = False,
        first_product: str = "auto",
        communication: str = "auto",
        partitioner: Any = "auto",
        n_ranks: int | None = None,
        transport: str = "auto",
        dtype: str = "float32",
        warm_start: bool = False,
        checkpoint_path: str | os.PathLike | None = None,
        checkpoint_every: int = 1,
        resume: bool = False,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self._set_parameters(locals())

    # -- fit ---

    @with_callbacks
    @with_words_of_fit
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        graph: Any = None,
        validation_mask: Any = None,
        plan: FitPlan | None = None,
        client: Any = None,
    ) -> Self:
        """Train on the labelled vertices of a graph.

        Parameters
        ----------
        X : container of shape (n, d), or None
            Features: numpy, scipy.sparse, pydata/sparse, Dask, xarray, a DataFrame (whose index
            names the vertices). Rows without names are in the order of the graph's vertices, also
            where these have names, such as the nodes of networkx or the labels of a DataArray; only
            beside a list of edges between names this is an error. None: the identity.
        y : array-like of shape (n,) or (n, n_columns)
            Labels. Of several columns each is a class of its own (0 and 1), which has the name of
            the column in a DataFrame, or a number. Unlabelled is a vertex whose class is −1, NaN or
            None; of several columns NaN in any, or −1 in all; where y holds numbers
            (`GCNRegressor`), NaN in any column, and nothing else; and what a MaskedArray masks. A
            Series or DataFrame whose index names vertices is matched by name, and may leave out
            those without labels. An array is in the order of the rows of X, and so is pandas'
            default index where its numbers are no names. A matrix has the names of the rows of X;
            where X has none, or edges are between numbers, 0 to n − 1 are the names of vertices.
        graph : container, optional
            scipy.sparse, pydata/sparse, Dask array of sparse chunks, DataArray, all square: row i
            says whom vertex i reads; networkx, whose rows are in the order of its nodes, or rising
            where these are numbers; or an edge list, DataFrame (source, target, weight), int array
            of shape (m, 2), or list of tuples. None: no edges, so that each vertex stands for
            itself, and this is a plain network.
        validation_mask : array of bool of shape (n,), of positions or of names, optional
            Labelled vertices that are not trained on; their loss and score go into the history. An
            array is in the order of the rows of X; a Series of bool is matched by name.
        {words of fit}
        """
        return self._fit(
            X, y, plan=plan, client=client, graph=graph, validation_mask=validation_mask
        )

    @with_callbacks
    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Any = None,
        *,
        graph: Any = None,
        validation_mask: Any = None,
        client: Any = None,
    ) -> Self:
        """Train one more epoch, from the weights so far (or from the beginning).

        Parameters and errors are those of `fit`; `classes` names all classes, where the first y
        lacks some, or the columns of y, in their order, where these are several classes. Calls
        behind it know them: they may lack any, and a new one is an error. Of numbers there are
        none, so give no classes.
        """
        return self._fit(
            X, y, client=client, one_step=True, graph=graph, validation_mask=validation_mask,
            classes=classes,
        )  # fmt: skip

    # -- what the base asks ---

    @abstractmethod
    def _targets(self, y: Any, classes: Any, goes_on: bool) -> Targets:
        """Labels, checked; of the classes of the last fit where this one goes on."""

    @abstractmethod
    def _loss(self, problem: GraphProblem) -> Loss:
        """What is minimised."""

    def _check(self) -> None:
        check_partitioner(self.partitioner, ["auto", *PARTITIONERS], self.n_ranks)
        widths = widths_of(self.hidden)
        of_layers = None if isinstance(self.weight_decay, Real) else self.weight_decay
        if of_layers is not None and len(of_layers) != len(widths) + 1:
            raise InputError(
                f"weight_decay has {len(self.weight_decay)} numbers; give one, or one for each of "
                f"the {len(widths) + 1} layers"
            )
        for decay in of_layers or ():
            finite_number(decay, "weight_decay")
        require_one_decay(self.optimizer, self.weight_decay, "weight_decay")
        make_layers(self.layer, (1, *widths, 1), self.layer_options or {}, False)
        if self.first_product == "kept" and not kind_of(self.layer).can_keep:
            raise InputError(
                f"first_product='kept': layer={self.layer!r} multiplies what is learned by Â, "
                "which is another in each epoch: leave it out"
            )
        self._check_batches()

    def _check_batches(self) -> None:
        if self.batch_size is None:
            if isinstance(self.partitioner, str) and self.partitioner == "stochastic":
                raise InputError(
                    "partitioner='stochastic' is made of mini-batches: give batch_size, or use "
                    "'connectivity'"
                )
            if self.sampler != "neighbour":  # the default
                raise InputError(
                    f"sampler={self.sampler!r} draws mini-batches: give batch_size, or leave it out"
                )
            return
        for name, value in (("first_product", "kept"), ("communication", "broadcast")):
            if getattr(self, name) == value:
                raise InputError(
                    f"{name}={value!r} is for full batches: leave it out, or batch_size"
                )
        if getattr(self.sampler, "seeds", None) is not None:
            raise InputError(
                f"the {type(self.sampler).__name__} has seeds, but mini-batches begin at the "
                "vertices that are trained on: leave them out, and label only these in y"
            )

    def _problem(self, X: Any, y: Any, data: dict[str, Any], random_state: int) -> GraphProblem:
        if y is None:
            raise InputError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        X, y, mask = map(table_in_memory, (X, y, data.get("validation_mask")))
        one_step = data.get("one_step", False)
        if one_step:
            refuse_balanced(self.class_weight)
        goes_on = one_step and hasattr(self, "state_")
        targets = self._targets(y, data.get("classes"), self._goes_on(one_step))
        share = share_held_out(self, "validation_mask", data)
        label_names, row_names = names_of_rows(y), names_of_rows(X)
        graph, n_labels = table_in_memory(data.get("graph")), len(targets.values)
        problem = self._read(X, graph, n_labels, label_names, reset=not goes_on)
        n = problem.n_vertices
        targets = by_vertex(targets, *placed(label_names, row_names, problem.names, n, "labels"))
        held = None
        if mask is not None:
            held = mask_of(mask, problem.names, row_names, n, "validation_mask")
        training, validation = split_labelled(targets, held, share, random_state)
        return replace(problem, targets=targets, training=training, validation=validation)

    def _read(
        self, X: Any, graph: Any, n_labels: int | None, label_names: Any, *, reset: bool = True
    ) -> GraphProblem:
        X, names = read_features(X)
        n = None if X is None else int(_num_samples(X))
        if X is None and graph is None:
            raise InputError("X=None needs a graph: give graph=…, or features")
        if n is None and label_names is None:
            n = n_labels
        if label_names is None and n_labels not in (None, n):
            raise InputError(
                f"X and y differ in length: {n} rows of features, {n_labels} labels; give one of "
                "each for every vertex"
            )
        read = read_graph(graph, n, names, bool(self.symmetrize), label_names)
        if X is not None:
            given = X
            refuse_times(X)
            try:
                # what is neither, such as whole numbers, becomes the first
                dtypes = [np.dtype(self.dtype), np.float32, np.float64]
                X = validate_data(self, X, accept_sparse="csr", dtype=dtypes, reset=reset)
            except ValueError as error:
                raise refused(error, given) from error
            X = canonical_rows(X) if issparse(X) else X  # dropout draws by row and column
            order = in_order(read.names, names, "features")
            X = X if order is None else X[order]
        nobody = np.zeros(read.adjacency.shape[0], bool)
        nothing = Targets(nobody, nobody, None, 1, "numbers")
        return GraphProblem(read.adjacency, X, nothing, nobody, nobody, read.names)

    def _most_ranks(self, problem: GraphProblem) -> float:
        return problem.n_vertices

    def _network(self, problem: GraphProblem, seed: int, keeps: bool | None = None) -> Network:
        targets, options = problem.targets, self.layer_options or {}
        kind, is_sampled = kind_of(self.layer), self.batch_size is not None
        if keeps is None:
            hops = int(options.get("hops", kind.hops))
            keeps = not is_sampled and problem.keeps_product(kind, hops, self.first_product)
        widths = (problem.n_inputs, *widths_of(self.hidden), targets.n_outputs)
        return Network(
            layers=make_layers(self.layer, widths, options, keeps),
            activation=self.activation,
            dropout=float(self.dropout),
            loss=self._loss(problem),
            dtype=self.dtype,
            seed=seed,
            n_terms=int(problem.training.sum()) * targets.terms_a_vertex,
            n_validation=int(problem.validation.sum()) * targets.terms_a_vertex,
            is_sampled=is_sampled,
            spreads=(targets.spreads(problem.training), targets.spreads(problem.validation)),
        )

    def _make_plan(
        self, problem: GraphProblem, n_ranks: int, *, transport: str, random_state: int, kept: Any
    ) -> GCNPlan:
        network, batches = self._network(problem, random_state), None
        if self.batch_size is not None:
            batches = batches_of(problem, network, self.sampler, self.batch_size, random_state)
        plan = plan_fit(
            problem,
            network,
            n_ranks,
            partitioner=self.partitioner,
            communication=self.communication if batches is None else "expand",
            n_slots=len(self._optimizer(network).slots),
            keeps_best=self.patience is not None,
            sampler=None if batches is None else seeded(batches, problem),
            random_state=random_state,
            steps=int(self.max_iter),
            transport=transport,
            kept=kept,
        )
        return plan if batches is None else plan_batches(plan, problem, batches)

    def _optimizer(self, network: Network) -> Optimizer:
        return with_decay(self.optimizer, network.decays(self.weight_decay))

    def _first_state(self, problem: GraphProblem, plan: GCNPlan) -> GCNState:
        weights = plan.network.first_weights()
        slots = self._optimizer(plan.network).first_slots(list(weights.values()))
        return GCNState(weights, slots)

    def _going_on(self, state: GCNState, problem: GraphProblem) -> GCNState:
        network = self._network(problem, 0)
        check_shapes(shapes_by_name(network.layers), state.weights)
        weights = {name: own.astype(self.dtype, copy=False) for name, own in state.weights.items()}
        slots = self._optimizer(network).first_slots(list(weights.values()))
        dtypes = {name: slot.dtype for name, slot in slots.items()}
        if dtypes != {name: state.slots[name].dtype for name in state.slots if name != BEGAN}:
            began = slots_from(state.epoch) if slots else {}
            return replace(state, weights=weights, slots=slots | began)
        return replace(state, weights=weights)

    def _in_another_fit(self, state: GCNState, settings: dict[str, Any]) -> GCNState:
        return replace(state, learning_rate_state=in_another_fit(state, settings, _OF_RATE))

    def _text(self, session: Any, plan: GCNPlan, problem: GraphProblem, state: GCNState) -> GCNText:
        rate = LearningRate(
            self.learning_rate, float(self.initial_learning_rate), float(self.power_t)
        )
        optimizer = self._optimizer(plan.network)
        kind: Any = BatchText if isinstance(plan, BatchPlan) else GCNText
        return kind(session, plan, problem, optimizer, rate, self._watch())

    def _monitored(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return MONITORS[self.monitor]

    def _keep_more(self, problem: GraphProblem, plan: GCNPlan) -> None:
        targets = problem.targets
        names = targets.columns if targets.kind == "numbers" else targets.classes
        self._name_outputs(names, targets.n_outputs, targets.kind == "several")
        self.partition_, self.n_outputs_ = plan.partition, targets.n_outputs
        self.keeps_product_ = plan.network.layers[0].keeps_product
        # without edges and features there is still the number of vertices
        is_needed = problem.adjacency.nnz or problem.features is None
        self.graph_ = problem.adjacency if is_needed else None
        self.vertex_names_ = problem.names
        if problem.features is None:  # nor has it those of a step before
            for name in ("n_features_in_", "feature_names_in_"):
                self.__dict__.pop(name, None)
