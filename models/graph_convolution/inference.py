"""A trained network on a graph, layer by layer, in this process; and weights trained elsewhere.

PyTorch Geometric         DGL                        here
conv1.lin.weight (d', d)  layers.0.weight (d, d')    0.weight (d, d')
conv1.bias                layers.0.bias              0.bias
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from daskpart.collectives.transports import communicator_for

from .network import Network
from .passes import RankModel
from .plan import plan_fit
from .problem import GraphProblem
from .text import infer, laid_out


def outputs_of(
    problem: GraphProblem, network: Network, weights: Mapping[str, Any], place: int = -1
) -> NDArray[Any]:
    """Values behind a layer for every vertex, in the order of the graph.

    Parameters
    ----------
    problem : GraphProblem
    network : Network
    weights : dict of str to ndarray
    place : int
        Which boundary of layers; -1: outputs, -2: the last hidden layer.
    """
    plan = plan_fit(problem, network, 1, partitioner="block", random_state=0)
    with communicator_for("local", 1) as comm:
        prepared, data = laid_out(comm, plan, problem)
        model = comm.values([RankModel(list(weights.values()), {})])
        found = comm.run(infer, data, prepared[0], model, network=network, place=place)
        return comm.gather(found)[0]  # type: ignore[index]
