"""One function in front of all partitioners: what is cut, how, and what comes back.

data ──model──▶ Hypergraph ──method, objective, engine──▶ Partition (assignment, info)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskpart._floor.checks import checked_seed, one_of
from daskpart._floor.kernels import working_clock
from daskpart._floor.words import listed
from daskpart.data_models import build
from daskpart.errors import InputError
from daskpart.partitions import Partition

from .balance import heaviest_allowed, stacked, warn_if_too_heavy, with_weights
from .checks import (
    check_epsilon_of_each,
    check_even,
    check_prices,
    checked_epsilons,
    checked_fixed,
    checked_further_weights,
    checked_n_parts,
)
from .engine import Engine, get_engine, quiet_about_balance
from .methods import METHODS, Method, Task, looks_at_nets
from .multilevel import MultilevelEngine
from .objectives import ConnectivityMinusOne, Objective, PowerConnectivity, objective_named
from .relief import relieve


def partition(
    data: Any,
    n_parts: int,
    objective: str | Objective = "connectivity",
    *,
    method: str = "auto",
    model: str = "auto",
    engine: str | Engine = "multilevel",
    epsilon: float | Sequence[float] = 0.03,
    random_state: int = 0,
    rho: float = 2,
    fixed: ArrayLike | None = None,
    further_weights: ArrayLike | None = None,
    polish: bool = True,
    even: bool = True,
) -> Partition:
    """Cut sparse data into parts that weigh the same and share little.

    Parameters
    ----------
    data : matrix, tensor or graph in any container; path; Hypergraph; DataModel
        Matrices as `daskpart.containers.as_matrix` takes them (scipy.sparse, sparse.COO, Dask,
        xarray, frames), tensors as `daskpart.containers.as_tensor` does, files as `daskpart.read`
        does, hypergraphs (.hgr, .u, .graph) among them.
    n_parts : int
        From 1 to the number of vertices.
    objective : "connectivity", "cut-net", "power", or an Objective, default="connectivity"
        Connectivity - 1, the number of cut nets, or λ^ρ summed over the cut nets; each net times
        its cost. An object like those in `daskpart.partitioners.objectives` brings its own table.
        METIS knows the first two only; random and block look at weights alone.
    method : "auto", "direct", "recursive", "parsa", "hypercube", "metis", "random", "block"
        auto: direct for connectivity and for further weights, recursive for all else and wherever
        vertices are fixed.
        parsa: fast, for the whole result and for data larger than memory see `daskpart.parsa`.
        hypercube: parts are ranks of a hypercube, at a small concurrent volume, whatever the
        objective.
    model : str, default="auto"
        What becomes a vertex, and what a net that is shared (see `daskpart.data_models`):
        "column-net", "row-net", "bipartite" for matrices; "column-net-self-loops", "stochastic",
        "graph" for square matrices; "medium-grain", "fine-grain" for tensors. auto: "medium-grain"
        for order 3 and more, else "column-net". Not used where `data` is a hypergraph or a model.
    engine : "multilevel", "mtkahypar", or an Engine, default="multilevel"
        What bipartitions (see `daskpart.partitioners.engine`).
    epsilon : float, or a sequence of them, default=0.03
        No part should weigh more than (1 + epsilon) × the mean, in each weight; or one for the
        weight of the model, and then one for each of `further_weights`. Where no vertex weighs
        anything, their number is balanced.
    random_state : int, default=0
        Same number, same partition.
    rho : float, default=2
        ρ of the objective "power", at least 1.
    fixed : int[n_vertices], optional
        The part that a vertex must go to, -1 where it is free. Methods recursive and
        hypercube only.
    further_weights : whole numbers or bool [n_vertices] or [n_vertices, n], optional
        Each of these is shared evenly, too, beside the weight that the model gives a vertex: which
        vertices are labelled, say, or what each takes of memory (multi-constraint partitioning).
        By position, in the order of the vertices; an index of names is not looked at. Vertices are
        the rows of a matrix, or the columns by "row-net"; of a tensor build the model first: its
        `vertex_of` has the vertex of each nonzero. Anything of which NumPy makes an array, frames
        among it. Method direct and engine multilevel only, without `fixed`, and with `even`.
    polish : bool, default=True
        Whether direct, recursive, parsa and hypercube end with single-vertex moves that lower what
        they minimise. Where a net's price rises with λ, as for "power", the first three add two
        V-cycles (`daskpart.partitioners.multilevel.v_cycle`) that move whole clusters, if there are
        65,536 pins or more.
    even : bool, default=True
        False: only the heaviest part is bounded, as in the paper, so that direct and recursive may
        empty parts down to a single vertex where that lowers the objective. It takes about 1/ε
        parts before the others have room for one; a rank is then nearly idle.

    Returns
    -------
    Partition
        Its `info` tells how it was made, the model among it, so that `Partition.nonzero_parts` can
        say where each stored value went; ``seconds`` leave out the compiling of kernels, which a
        machine does once; ``cost_paid`` is the objective's value that the recursion added up,
        before the polish and before parts that it left empty were filled;
        ``further_imbalances`` has one number for each further weight.

    Raises
    ------
    InputError
        Anything out of the ranges above; the message says what is allowed.

    Warns
    -----
    BalanceWarning
        A part had to be heavier than epsilon allows. No part is left empty but where fixed vertices
        leave none to fill it with.

    Notes
    -----
    Power-connectivity: Abubaker, Caglayan, Karsavuran, Aykanat, "Minimizing Staleness and
    Communication Overhead in Distributed SGD for Collaborative Filtering", section 4, Algorithm 3
    and Theorem 1.

    Examples
    --------
    >>> import daskpart, scipy.sparse
    >>> X = scipy.sparse.random(60, 40, 0.1, "csr", random_state=0)
    >>> partition = daskpart.partition(X, 4)                    # of the rows
    >>> partition.assignment.shape, bool(partition.imbalance <= 0.03)
    ((60,), True)
    """
    started = working_clock()
    goal = objective_named(objective, rho)
    epsilon, random_state = checked_epsilons(epsilon), checked_seed(random_state)
    engine = get_engine(engine)
    method = _chosen_method(method, goal, fixed is not None, further_weights is not None)
    if further_weights is not None:
        _check_engine_of_further_weights(engine)
        check_even(even)
    built = build(
        data, model, n_parts=n_parts, random_state=random_state, nets=looks_at_nets(method)
    )
    hypergraph = built.hypergraph
    n_parts = checked_n_parts(n_parts, hypergraph.n_vertices)
    wanted = None if fixed is None else checked_fixed(fixed, hypergraph.n_vertices, n_parts)
    priced = goal if METHODS[method].follows_objective else ConnectivityMinusOne()
    check_prices(hypergraph, priced, n_parts)
    info: dict[str, Any] = {
        "method": method,
        "objective": goal.name if METHODS[method].follows_objective else None,
        "epsilon": epsilon,
        "random_state": random_state,
        **built.info,
    }
    if isinstance(goal, PowerConnectivity) and info["objective"]:
        info["rho"] = goal.rho
    counted = with_weights(hypergraph)
    weights = [counted.vertex_weights]  # their number, where nothing weighs
    if further_weights is not None:
        weights += checked_further_weights(further_weights, counted.vertex_weights)
        counted = replace(counted, vertex_weights=stacked(weights))
    check_epsilon_of_each(epsilon, len(weights))
    epsilons = np.broadcast_to(epsilon, len(weights)).tolist()
    asked = epsilons if further_weights is not None else epsilons[0]
    task = Task(counted, n_parts, goal, engine, asked, random_state, wanted, polish, info)
    with quiet_about_balance():  # engines warn of every piece; the whole is stated once below
        assignment = _found(task, METHODS[method], even)
    info["seconds"] = working_clock() - started
    result = Partition(assignment, n_parts, hypergraph.vertex_weights, info)
    first, *further = (replace(result, weights=each) for each in weights)
    warn_if_too_heavy(first, epsilons[0], searched=METHODS[method].searches)
    for place, (each, share) in enumerate(zip(further, epsilons[1:], strict=True)):
        warn_if_too_heavy(each, share, searched=True, what=f" of further weight {place}")
    if further:
        info["further_imbalances"] = [each.imbalance for each in further]
    return result


def _found(task: Task, method: Method, even: bool) -> NDArray[np.int32]:
    assignment = method.find(task)
    if even or not method.follows_objective:
        return assignment
    task.info["even"] = False
    most = heaviest_allowed(task.hypergraph.total_weight, task.n_parts, task.epsilon)
    return relieve(
        task.hypergraph, assignment, task.goal.cost_table(task.n_parts), most, task.fixed
    )


def _check_engine_of_further_weights(engine: Engine) -> None:
    if not isinstance(engine, MultilevelEngine):
        raise InputError(
            f"further_weights need engine='multilevel': {engine.name!r} knows one weight a vertex"
        )


def _chosen_method(method: str, goal: Objective, has_fixed: bool, has_further: bool) -> str:
    one_of(method, "method", ["auto", *METHODS])
    if has_further:
        if has_fixed:
            raise InputError("fixed and further_weights exclude each other: give one of the two")
        if method not in ("auto", "direct"):
            raise InputError(f"further_weights need method='direct', not {method!r}")
        return "direct"
    if method == "auto":
        by_engine = isinstance(goal, ConnectivityMinusOne) and not has_fixed
        return "direct" if by_engine else "recursive"
    if not METHODS[method].knows(goal):
        able = [name for name, other in METHODS.items() if other.follows_objective]
        raise InputError(
            f"method={method!r} cannot minimise the objective {goal.name!r}: use one of "
            f"{listed(able)}, or objective='connectivity' or 'cut-net'"
        )
    if has_fixed and not METHODS[method].takes_fixed:
        able = [name for name, other in METHODS.items() if other.takes_fixed]
        raise InputError(
            f"fixed vertices need method={able[0]!r}, not {method!r}: use one of {listed(able)}"
        )
    return method
