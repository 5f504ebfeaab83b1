"""A trained graph network in use: outputs, embeddings, weights of elsewhere, and what is judged.

    state_ ─┬─ coefs_, set_coefs(coefs)
    graph_ ─┴─ outputs of all vertices ─► transform, and what `predict` and `score` are made of

Vertices are named by their names everywhere; where the graph has none, by position.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._set_output import _wrap_data_with_container

from daskpart._floor.checks import real_numbers, require_like
from daskpart.containers.tables import table_in_memory
from daskpart.errors import InputError
from daskpart.models.base.estimator import DistributedEstimator
from daskpart.models.base.fitted import as_fitted
from daskpart.models.base.problem import checked_weights, text_objects
from daskpart.models.base.session import client_for
from daskpart.models.networks.sizes import widths_of
from daskpart.partitions import Partition

from .graph import Graph
from .inference import outputs_of
from .layers import make_layers, shapes_by_name
from .network import ANSWERED_BY, Network
from .problem import GraphProblem
from .state import GCNState
from .targets import Targets
from .vertex_names import by_row, by_vertex, mask_of, named, names_of_rows, placed


class FittedNetwork(DistributedEstimator):
    """What estimators of graph networks share once they are fitted; they have their own `fit`.

    Attributes
    ----------
    hidden, layer, layer_options, dtype
        Parameters of the estimator.
    """

    hidden: Any
    layer: Any
    layer_options: dict[str, Any] | None
    dtype: str
    state_: GCNState
    graph_: Any
    vertex_names_: NDArray[Any] | None

    @abstractmethod
    def _read(
        self, X: Any, graph: Any, n_labels: int | None, label_names: Any, *, reset: bool = True
    ) -> GraphProblem:
        """Graph and features as a problem without labels."""

    @abstractmethod
    def _network(self, problem: GraphProblem, seed: int, keeps: bool | None = None) -> Network:
        """The network of the parameters; `keeps` says whether its first product is kept."""

    @property
    def coefs_(self) -> dict[str, NDArray[Any]]:
        """Weights by name: "0.weight" of shape (d_in, d_out), "0.bias", "1.weight" …"""
        return self._fitted().weights

    def set_coefs(
        self, coefs: Mapping[str, Any], *, classes: Any = None, several: bool = False
    ) -> Self:
        """Take weights that were trained elsewhere; then `predict` with ``graph=…``.

        Parameters
        ----------
        coefs : dict of str to ndarray
            As `coefs_` has them; `predict` then takes features, and of a network that was trained
            without any an identity (`scipy.sparse.eye_array`). Of PyTorch Geometric and DGL see
            `daskpart.models.graph_convolution.state_dicts.coefs_from_state_dict`.
        classes : array-like, optional
            Names of the outputs, one each; default: their numbers.
        several : bool, default=False
            Whether a vertex may have several classes at once, each with a probability of its own.

        Raises
        ------
        InputError
            For weights of another network than the parameters make, or that are no finite numbers,
            or not a class an output.
        """
        self._check_parameters()
        require_like(coefs, "coefs", ("items",), "a dict of names to arrays, as coefs_ is")
        given = {
            name: real_numbers(weight, f"{name} value", np.ndim(weight)).astype(self.dtype, "C")
            for name, weight in coefs.items()
        }
        if "0.weight" not in given:
            raise InputError(f"coefs lack '0.weight'; they have {', '.join(given) or 'nothing'}")
        n_inputs = len(given["0.weight"])
        n_outputs = len(given.get(f"{len(widths_of(self.hidden))}.bias", ()))
        widths = (n_inputs, *widths_of(self.hidden), n_outputs)
        wanted = shapes_by_name(make_layers(self.layer, widths, self.layer_options or {}, False))
        shapes = {name: weight.shape for name, weight in given.items()}
        if shapes != wanted:
            raise InputError(f"the parameters make a network of {wanted}; coefs have {shapes}")
        names = None if classes is None else text_objects(np.asarray(classes))
        if names is not None and names.shape != (n_outputs,):
            raise InputError(
                f"classes has shape {names.shape}, coefs have {n_outputs} outputs: name each of "
                "them, or leave classes out"
            )
        weights = {name: given[name] for name in wanted}
        self._take(GCNState(weights, settings=self._settings_of(ANSWERED_BY)), n_inputs)
        self.n_outputs_ = n_outputs
        self.keeps_product_, self.graph_, self.vertex_names_ = False, None, None
        self._name_outputs(names, n_outputs, several)
        return self

    @abstractmethod
    def _name_outputs(self, names: Any, n_outputs: int, several: bool) -> None:
        """What `predict` calls the outputs."""

    def transform(self, X: Any = None, *, graph: Any = None, client: Any = None) -> Any:
        """Embeddings: the values behind the last hidden layer; outputs where there is none.

        Parameters
        ----------
        X : container of shape (n, d), or None
            Features, as in `fit`.
        graph : container, optional
            Another graph; default: that of the fit.
        client : distributed.Client, optional
            Compute on its workers, as in `predict`.

        Returns
        -------
        ndarray of shape (n, d), or DataFrame where vertices have names, in the order of X
            After ``set_output`` the frame that it asks for.
        """
        place = -2 if widths_of(as_fitted(self, *ANSWERED_BY).hidden) else -1
        found = named(*self._answers(X, graph, client, place), self.get_feature_names_out())
        return _wrap_data_with_container("transform", found, X, self)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Name the columns of `transform`: embedding0, embedding1 and so on."""
        hidden = widths_of(as_fitted(self, *ANSWERED_BY).hidden)
        width = hidden[-1] if hidden else self.n_outputs_
        return np.array([f"embedding{place}" for place in range(width)], dtype=object)

    def _answers(self, X: Any, graph: Any, client: Any, place: int = -1) -> tuple[Any, Any]:
        """What `_outputs` gives, in the order of the rows of X."""
        X = table_in_memory(X)
        return by_row(*self._outputs(X, graph, client, place), names_of_rows(X))

    def _outputs(
        self, X: Any, graph: Any, client: Any, place: int = -1
    ) -> tuple[NDArray[Any], Any]:
        """Outputs of the network, or values before them, and the names of the vertices."""
        weights, fitted = self._fitted().weights, as_fitted(self, *ANSWERED_BY)
        partition = None if graph is not None else getattr(self, "partition_", None)
        if graph is None and self.graph_ is not None:
            graph = Graph(self.graph_, self.vertex_names_)
        if X is None and hasattr(self, "n_features_in_"):
            raise InputError("the model was fitted on features: give X")
        if X is not None and not hasattr(self, "n_features_in_"):
            raise InputError("the model was fitted without features: leave X out")
        X, graph = table_in_memory(X), table_in_memory(graph)
        problem = fitted._read(X, graph, None, None, reset=False)
        if problem.n_inputs != len(weights["0.weight"]):
            raise InputError(
                f"the model was fitted on the identity of {len(weights['0.weight'])} vertices, "
                f"the graph has {problem.n_inputs}: such a model knows no others"
            )
        problem = replace(problem, targets=replace(problem.targets, n_outputs=self.n_outputs_))
        network = fitted._network(problem, 0, self.keeps_product_).of_fit(weights)
        where = self._asked_ranks(client, partition, problem.n_vertices)
        return outputs_of(problem, network, weights, place, **where), problem.names

    def _asked_ranks(self, client: Any, partition: Partition | None, n: int) -> dict[str, Any]:
        """Where outputs are computed: ranks as of the fit where a client is given, else here."""
        if client is None:
            return {}
        where = {"transport": self.transport, "client": client_for(self.transport, client)}
        if partition is not None and partition.n_vertices == n:
            return {"n_ranks": partition.n_parts, "partitioner": partition, **where}
        n_ranks = self.n_ranks or self._default_ranks(client)
        return {"n_ranks": min(int(n_ranks), n), **where}  # blocks: to cut a graph takes longer

    def _judged(
        self, targets: Targets, X: Any, y: Any, sample_weight: Any, mask: Any, graph: Any,
        client: Any,
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:  # fmt: skip
        """Of the labelled vertices that are judged by: outputs, targets, weights."""
        X, mask = map(table_in_memory, (X, mask))
        outputs, vertices = self._outputs(X, graph, client)
        row_names, label_names = names_of_rows(X), names_of_rows(y)
        weight = checked_weights(sample_weight, targets.values)
        if graph is None and self.graph_ is None and row_names is None and label_names is not None:
            # as in a fit without a graph: nothing but y names the rows of X
            vertices = label_names if len(label_names) == len(outputs) else None
        rows, n_rows = placed(label_names, row_names, vertices, len(outputs), "labels")
        targets = by_vertex(targets, rows, n_rows)
        weight = weight if rows is None else weight[rows]
        chosen = targets.labelled & (weight > 0)
        if mask is not None:
            chosen = chosen & mask_of(mask, vertices, row_names, len(outputs), "mask")
        if not chosen.any():
            raise InputError("no labelled vertex is left to judge by: see y, mask, sample_weight")
        return outputs[chosen], targets.values[chosen], weight[chosen]
