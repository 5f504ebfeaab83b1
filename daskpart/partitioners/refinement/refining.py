"""Make a partition better at one metric, whoever made it.

partition of any method or file ──▶ moves of single vertices ──▶ never worse, as balanced
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskpart._floor.checks import (
    checked_seed,
    one_of,
    require_partition,
    whole_number,
    whole_numbers,
)
from daskpart._floor.kernels import working_clock
from daskpart._floor.sums import sums_by_key
from daskpart._floor.words import listed
from daskpart.data_models import NAMES, DataModel, rebuild
from daskpart.errors import InputError
from daskpart.hypergraph import Hypergraph
from daskpart.partitioners.balance import bounds_of_moves, columns, stacked, with_weights
from daskpart.partitioners.checks import (
    check_epsilon_of_each,
    check_even,
    check_prices,
    checked_epsilons,
    checked_fixed,
    checked_further_weights,
)
from daskpart.partitioners.engine import Engine, get_engine
from daskpart.partitioners.objectives import objective_named
from daskpart.partitions import Partition

from .goals import METRICS, OF_SEVERAL_WEIGHTS, TABLES, Job, goal_named

_OWNED_BY_VERTICES = "column-net-self-loops"  # net j is of vertex j; stochastic merges nets


def refine(
    data: Any,
    partition: Partition,
    metric: str = "connectivity",
    *,
    model: str = "auto",
    rho: float = 2,
    owners: str | Sequence[int] | NDArray = "auto",
    epsilon: float | Sequence[float] = 0.03,
    random_state: int = 0,
    fixed: ArrayLike | None = None,
    further_weights: ArrayLike | None = None,
    even: bool = True,
    max_rounds: int = 8,
    cycles: int = 1,
    engine: str | Engine = "multilevel",
) -> Partition:
    """Lower one metric of a partition by moves of single vertices; never make it worse.

    Parameters
    ----------
    data : matrix, tensor or graph in any container; path; Hypergraph; DataModel
        What was cut; see `daskpart.partition`.
    partition : Partition
        Where to start, from any method or a file. It is not changed.
    metric : str, default="connectivity"
        "connectivity", "cut-net", "power"
            As the objectives of `daskpart.partition`.
        "max-connectivity"
            λ_max: the most parts that touch one net.
        "concurrent-volume", "routed-volume", "busiest-volume"
            Of an expand inside a hypercube allreduce (`daskpart.owners.hypercube_volume`): rows,
            copies that move in the same round once; all rows that travel; rows sent and received
            by the busiest rank of each round, summed over the rounds. Parts may be renumbered. The
            first is `Connectivity.concurrent_volume`, in bits of part numbers: where their number
            is no power of two, the rounds in which ranks fold are left out.
        "max-send-volume", "max-volume"
            Of a point-to-point expand: rows that the busiest rank sends; sends and receives.

        Rows count times the cost of their net.
    model : str, default="auto"
        As for `daskpart.partition`; auto: the one that the partition was made with, if it says so.
        It is built again with the seed and the row length that `partition.info` tells; one of
        other options (a sampler, θ) must be given as `data`.
    rho : float, default=2
        ρ of the metric "power".
    owners : "auto", "packed", "vertices", or int[n_nets], default="auto"
        Who owns a row, for the metrics that ask: packed as in `daskpart.owners`, all nets together
        (for "max-send-volume" by the rows sent alone);
        or wherever a vertex of the net is, the vertex of the same number or the one given. auto:
        "vertices" for graphs with self loops, else "packed".
    epsilon : float, or a sequence of them, default=0.03
        No part grows past (1 + epsilon) × the mean, or past the heaviest part of the start, in each
        weight; a sequence as for `daskpart.partition`. Where no vertex weighs anything, their
        number counts.
    random_state : int, default=0
        Same number, same partition.
    fixed : int[n_vertices], optional
        Vertices with a part here (not -1) stay where they are.
    further_weights : whole numbers or bool [n_vertices] or [n_vertices, n], optional
        Those that the partition shares evenly, as for `daskpart.partition`; without, only the
        weight of the model is looked at. For the first four metrics, and with `even`.
    even : bool, default=True
        False: parts may be emptied down to a vertex where that lowers "connectivity", "cut-net",
        "power" or "max-connectivity".
    max_rounds : int, default=8
        Rounds over all vertices, in each phase of the search.
    cycles : int, default=1
        For "connectivity", "cut-net" and "power": V-cycles before the moves, which move clusters of
        vertices by nets that cost what their price rises by; 0 leaves them out.
    engine : "multilevel", "mtkahypar", or an Engine, default="multilevel"
        What finds new numbers for parts.

    Returns
    -------
    Partition
        Its `info` holds ``refined`` (the metric), ``metric_before`` and ``metric_after``, and
        ``further_imbalances`` where further weights are given.

    Raises
    ------
    InputError
        An unknown metric, a partition of other data or of a model that cannot be built again,
        owners that are not in their nets, costs whose sums do not fit in 64 bits.

    Notes
    -----
    Within the power-of-λ metrics see Abubaker et al., "Minimizing Staleness and Communication
    Overhead in Distributed SGD for Collaborative Filtering"; for the hypercube their "Latency
    hiding in distributed sparse tensor decomposition", §5. Neither paper refines K ways.

    Examples
    --------
    >>> import daskpart, scipy.sparse
    >>> X = scipy.sparse.random(60, 40, 0.1, "csr", random_state=0)
    >>> start = daskpart.partition(X, 4, method="block")
    >>> better = daskpart.refine(X, start, "power")
    >>> better.info["metric_after"] < better.info["metric_before"]
    True
    """
    started = working_clock()
    one_of(metric, "metric", METRICS)
    one_of(model, "model", NAMES)
    require_partition(partition)
    goal, random_state = goal_named(metric, rho), checked_seed(random_state)
    epsilon = checked_epsilons(epsilon)
    if further_weights is not None:
        _check_metric_of_further_weights(metric)
        check_even(even)
    built = rebuild(data, partition, model, random_state=random_state)
    hypergraph = with_weights(built.hypergraph)
    n_vertices, n_parts = hypergraph.n_vertices, partition.n_parts
    partition.check_fits(n_vertices, "the data", shape=built.shape, nnz=built.nnz)
    priced = objective_named(metric if metric in TABLES else "connectivity", rho)
    check_prices(hypergraph, priced, n_parts)
    weights = [hypergraph.vertex_weights]
    if further_weights is not None:
        weights += checked_further_weights(further_weights, weights[0])
        hypergraph = replace(hypergraph, vertex_weights=stacked(weights))
    check_epsilon_of_each(epsilon, len(weights))
    weighed = Partition(partition.assignment, n_parts, weights[0], partition.info)
    job = Job(
        hypergraph,
        weighed,
        _bounds(hypergraph, weighed, epsilon),
        even,
        owner_vertices(owners, built),
        get_engine(engine),
        random_state,
        None if fixed is None else _kept(fixed, weighed),
        whole_number(max_rounds, "max_rounds", least=1),
        whole_number(cycles, "cycles", least=0),
    )
    before = goal.measure(hypergraph, weighed, job.owner_vertices)
    found = goal.lower(job) if n_parts > 1 else weighed
    after = goal.measure(hypergraph, found, job.owner_vertices)
    if after > before:
        found, after = weighed, before
    told = {"refined": metric, "metric_before": before, "metric_after": after}
    told["refine_seconds"] = working_clock() - started
    info = {**partition.info, **told}
    info.pop("further_imbalances", None)  # which were of the parts before
    if further_weights is not None:
        further = (replace(found, weights=each) for each in weights[1:])
        info["further_imbalances"] = [each.imbalance for each in further]
    return replace(found, weights=built.hypergraph.vertex_weights, info=info)


def _check_metric_of_further_weights(metric: str) -> None:
    if metric not in OF_SEVERAL_WEIGHTS:
        raise InputError(
            f"metric {metric!r} is lowered by moves that look at one weight a vertex: leave out "
            f"further_weights, or use one of {listed(OF_SEVERAL_WEIGHTS)}"
        )


def _bounds(
    hypergraph: Hypergraph, partition: Partition, epsilon: float | list[float]
) -> tuple[int, NDArray[np.int64]]:
    """The least and the most that a part may weigh: what ε allows, or what the start has.

    No part becomes empty, also where another one was so from the start.
    """
    load = sums_by_key(partition.assignment, columns(hypergraph), partition.n_parts)
    least, most = bounds_of_moves(hypergraph, partition.n_parts, epsilon)
    return max(1, min(least, int(load[:, 0].min()))), np.maximum(most, load.max(axis=0))


def _kept(fixed: ArrayLike, partition: Partition) -> NDArray[np.int32]:
    wanted = checked_fixed(fixed, len(partition.assignment), partition.n_parts)
    elsewhere = np.flatnonzero((wanted >= 0) & (wanted != partition.assignment))
    if len(elsewhere):
        vertex = elsewhere[0]
        raise InputError(
            f"vertex {vertex} is fixed in part {wanted[vertex]}, but the partition has it in part "
            f"{partition.assignment[vertex]}: fix vertices where they are"
        )
    return wanted


def owner_vertices(owners: str | Sequence[int] | NDArray, built: DataModel) -> NDArray[np.int64]:
    """The vertex that owns each net, int64[n_nets], or none where owners are packed."""
    hypergraph = built.hypergraph
    if isinstance(owners, str):
        if owners == "auto":
            owners = "vertices" if built.name == _OWNED_BY_VERTICES else "packed"
        if owners == "packed":
            return np.empty(0, np.int64)
        if owners != "vertices":
            raise InputError(f"owners is {owners!r}: 'auto', 'packed', 'vertices' or one a net")
        owners = np.arange(hypergraph.n_vertices)
    vertices = whole_numbers(owners, "owner")
    if len(vertices) != hypergraph.n_nets:
        raise InputError(f"{len(vertices)} owners for {hypergraph.n_nets} nets: give one each")
    _check_owners_are_pins(hypergraph, vertices)
    return vertices


def _check_owners_are_pins(hypergraph: Hypergraph, vertices: NDArray[np.int64]) -> None:
    sizes = np.diff(hypergraph.net_pointer)
    is_owner = hypergraph.pins == np.repeat(vertices, sizes)
    owned = np.add.reduceat(np.append(is_owner, False), hypergraph.net_pointer[:-1]) & (sizes > 0)
    nobody = (sizes == 0) & (vertices >= -1) & (vertices < hypergraph.n_vertices)
    wrong = np.flatnonzero(~owned & ~nobody)
    if len(wrong):
        raise InputError(
            f"net {wrong[0]} is owned by vertex {vertices[wrong[0]]}, which is not in it: "
            "an owner shares what it owns"
        )
