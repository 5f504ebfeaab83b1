"""A trained network on a whole graph, layer by layer: in this process, or on ranks of a cluster.

    graph, features, weights ─► plan ─► enter ─ Â ─ leave, layer by layer ─► values of vertices

Of a layer only what the next one needs is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.collectives.transports import communicator_for

from .network import Network
from .passes import RankModel
from .plan import plan_fit
from .problem import GraphProblem
from .text import infer, laid_out


def outputs_of(
    problem: GraphProblem,
    network: Network,
    weights: Mapping[str, Any],
    place: int = -1,
    *,
    n_ranks: int = 1,
    partitioner: Any = "block",
    transport: str = "local",
    client: Any = None,
) -> NDArray[Any]:
    """Values behind a layer for every vertex, in the order of the graph.

    Parameters
    ----------
    problem : GraphProblem
    network : Network
    weights : dict of str to ndarray
    place : int
        Which boundary of layers; -1: outputs, -2: the last hidden layer.
    n_ranks, partitioner, transport, client
        Where, as for a fit; default: one rank in this process.
    """
    plan = plan_fit(
        problem, network, n_ranks, partitioner=partitioner, random_state=0, forecasts_memory=False
    )
    partition = plan.partition
    assert partition is not None
    with communicator_for(transport, n_ranks, client, oversubscribe=True) as comm:
        own = [partition.members(rank) for rank in range(n_ranks)]  # one pass makes up for no other
        prepared, data = laid_out(comm, plan, problem, own)
        model = comm.values([RankModel(list(weights.values()), {})] * n_ranks)
        found: Any = comm.gather(
            comm.run(infer, data, prepared[0], model, network=network, place=place)
        )
    whole = np.empty((partition.n_vertices, found[0].shape[1]), found[0].dtype)
    for vertices, rows in zip(own, found, strict=True):
        whole[vertices] = rows
    return whole
