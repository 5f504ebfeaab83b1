"""Partitioners, each usable alone, behind one function.

partition(data, n_parts, objective="power")

method      what it does                                           objectives
random      shuffled, balanced by weight                            –
block       contiguous, balanced by weight                          –
metis       METIS on the graph or on the star expansion             –
direct      K-way by the engine, then the polish                    any
recursive   n_parts - 1 bipartitions, then the polish               any
auto        direct for 'connectivity', recursive for the others
"""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskpart._checks import whole_number, whole_numbers
from daskpart.errors import BalanceWarning, EngineError, InputError
from daskpart.hypergraph import Hypergraph
from daskpart.partitions import Partition

from .balance import fill_empty_parts, heaviest_allowed, warn_if_too_heavy
from .engine import Engine, get_engine
from .metis import is_installed, metis_parts
from .objectives import (
    ConnectivityMinusOne,
    CutNet,
    Objective,
    PowerConnectivity,
    objective_named,
)
from .polish import polish as polish_parts
from .recursive import recursive_bipartition
from .relief import relieve
from .simple import block_parts, random_parts

__all__ = [
    "ConnectivityMinusOne",
    "CutNet",
    "Engine",
    "Objective",
    "PowerConnectivity",
    "get_engine",
    "partition",
]

METHODS = ("auto", "random", "block", "metis", "direct", "recursive")
_MODELS = {
    "column-net": Hypergraph.column_net,
    "row-net": Hypergraph.row_net,
    "graph": Hypergraph.graph,
}


def partition(
    data: Any,
    n_parts: int,
    objective: str | Objective = "connectivity",
    *,
    method: str = "auto",
    model: str = "column-net",
    engine: str | Engine = "multilevel",
    epsilon: float = 0.03,
    random_state: int = 0,
    rho: float = 2,
    fixed: ArrayLike | None = None,
    polish: bool = True,
    even: bool = True,
) -> Partition:
    """Cut sparse data into parts that weigh the same and share little.

    Parameters
    ----------
    data : Hypergraph, sparse matrix, sparse.COO, DataFrame, DataArray, …
        A hypergraph, or anything that `daskpart.containers.as_coo` takes.
    n_parts : int
        From 1 to the number of vertices.
    objective : "connectivity", "cut-net", "power", or an Objective
        Connectivity - 1, the number of cut nets, or λ^ρ summed over the cut nets; each net times
        its cost. An object like those in `daskpart.partitioners.objectives` brings its own table.
    method : "auto", "direct", "recursive", "metis", "random", "block"
        auto: direct for connectivity, recursive for all else and wherever vertices are fixed.
    model : "column-net", "row-net", "graph"
        How a matrix becomes a hypergraph: rows are cut, columns are cut, or (square matrices) rows
        of the symmetric pattern A + Aᵀ. Not used where `data` is a hypergraph.
    engine : "multilevel", "mtkahypar", or an Engine
        What bipartitions (see `daskpart.partitioners.engine`).
    epsilon : float
        No part should weigh more than (1 + epsilon) × the mean.
    random_state : int
        Same number, same partition.
    rho : float
        ρ of the objective "power", at least 1.
    fixed : int[n_vertices], optional
        The part that a vertex must go to, -1 where it is free. Method recursive only.
    polish : bool
        Whether direct and recursive end with single-vertex moves that lower the objective.
    even : bool
        False: only the heaviest part is bounded, as in the paper, so that direct and recursive may
        empty parts down to a single vertex where that lowers the objective. It takes about 1/ε
        parts before the others have room for one; a rank is then nearly idle.

    Returns
    -------
    Partition
        Its `info` tells how it was made; ``cost_paid`` is the objective's value that the recursion
        added up before the polish.

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
    """
    started = time.perf_counter()
    goal = objective_named(objective, rho)
    epsilon, random_state = _checked_epsilon(epsilon), _checked_seed(random_state)
    method = _chosen_method(method, goal, fixed is not None)
    hypergraph, origin = _as_hypergraph(data, model)
    n_parts = _checked_n_parts(n_parts, hypergraph.n_vertices)
    wanted = None if fixed is None else _checked_fixed(fixed, hypergraph.n_vertices, n_parts)
    info: dict[str, Any] = {
        "method": method,
        "objective": goal.name if method in ("direct", "recursive") else None,
        "epsilon": epsilon,
        "random_state": random_state,
        **origin,
    }
    if isinstance(goal, PowerConnectivity) and info["objective"]:
        info["rho"] = goal.rho
    with warnings.catch_warnings():
        # engines warn of every piece; what counts is the whole, stated once below
        warnings.simplefilter("ignore", BalanceWarning)
        if method in ("direct", "recursive"):
            assignment = _searched(hypergraph, n_parts, goal, engine, wanted, polish, info)
            if not even:
                info["even"] = False
                most = heaviest_allowed(hypergraph.total_weight, n_parts, epsilon)
                assignment = relieve(hypergraph, assignment, goal.tolls(n_parts), most, wanted)
        else:
            assignment = _unsearched(hypergraph, n_parts, engine, info)
    info["seconds"] = time.perf_counter() - started
    result = Partition(assignment, n_parts, hypergraph.vertex_weights, info)
    warn_if_too_heavy(result, epsilon, searched=method not in ("random", "block"))
    return result


def _unsearched(
    hypergraph: Hypergraph, n_parts: int, engine: str | Engine, info: dict[str, Any]
) -> NDArray[np.int32]:
    """The methods that have no objective of ours."""
    if info["method"] == "random":
        return random_parts(hypergraph, n_parts, info["random_state"])
    if info["method"] == "block":
        return block_parts(hypergraph, n_parts)
    stand_in = None if is_installed() else get_engine(engine)
    info["engine"] = "metis" if stand_in is None else stand_in.name
    epsilon, random_state = info["epsilon"], info["random_state"]
    if n_parts == 1:
        return np.zeros(hypergraph.n_vertices, np.int32)
    assignment = metis_parts(hypergraph, n_parts, epsilon, random_state, stand_in)
    return fill_empty_parts(assignment, hypergraph.vertex_weights, n_parts)


def _searched(
    hypergraph: Hypergraph,
    n_parts: int,
    goal: Objective,
    engine: str | Engine,
    fixed: NDArray[np.int32] | None,
    polish: bool,
    info: dict[str, Any],
) -> NDArray[np.int32]:
    """Direct or recursive partitioning, then the polish; `info` learns the engine and the costs."""
    cutter = get_engine(engine)
    info["engine"] = cutter.name
    epsilon, random_state = info["epsilon"], info["random_state"]
    tolls = goal.tolls(n_parts)
    if info["method"] == "recursive":
        started = time.perf_counter()
        found = recursive_bipartition(
            hypergraph, n_parts, goal, cutter, epsilon, random_state, fixed
        )
        assignment = found.assignment
        info["cost_paid"] = found.cost_paid
        info["engine_seconds"] = found.engine_seconds
        info["recursion_seconds"] = time.perf_counter() - started
    elif n_parts == 1:
        assignment = np.zeros(hypergraph.n_vertices, np.int32)
    else:
        answer = np.asarray(cutter.partition(hypergraph, n_parts, epsilon, random_state))
        assignment = _checked_answer(answer, hypergraph.n_vertices, n_parts, cutter.name)
    assignment = fill_empty_parts(assignment, hypergraph.vertex_weights, n_parts, fixed)
    if not polish or n_parts == 1:
        return assignment
    most = heaviest_allowed(hypergraph.total_weight, n_parts, epsilon)
    least = math.floor((1 - epsilon) * hypergraph.total_weight / n_parts)
    return polish_parts(
        hypergraph, assignment, tolls, (least, most), random_state=random_state, fixed=fixed
    )


def _as_hypergraph(data: Any, model: str) -> tuple[Hypergraph, dict[str, Any]]:
    """The hypergraph, and what is known of the data that it came from."""
    if isinstance(data, Hypergraph):
        return data, {"model": "hypergraph"}
    if model not in _MODELS:
        raise InputError(f"model is {model!r}: {_listed(_MODELS)}")
    hypergraph = _MODELS[model](data)
    n_vertices, n_nets = hypergraph.n_vertices, hypergraph.n_nets
    shape = {
        "column-net": (n_vertices, n_nets),
        "row-net": (n_nets, n_vertices),
        "graph": (n_vertices, n_vertices),
    }[model]
    return hypergraph, {"model": model, "shape": shape, "nnz": hypergraph.total_weight}


def _chosen_method(method: str, goal: Objective, has_fixed: bool) -> str:
    if method not in METHODS:
        raise InputError(f"method is {method!r}: {_listed(METHODS)}")
    if method == "auto":
        by_engine = isinstance(goal, ConnectivityMinusOne) and not has_fixed
        return "direct" if by_engine else "recursive"
    if has_fixed and method != "recursive":
        raise InputError(f"fixed vertices need method='recursive' or 'auto', not {method!r}")
    return method


def _checked_n_parts(n_parts: int, n_vertices: int) -> int:
    n_parts = whole_number(n_parts, "n_parts", least=1)
    if n_parts > n_vertices:
        raise InputError(
            f"n_parts is {n_parts}, but there are only {n_vertices} vertices to share out: "
            f"give 1 to {n_vertices}"
        )
    return n_parts


def _checked_epsilon(epsilon: float) -> float:
    ok = isinstance(epsilon, int | float | np.number) and not isinstance(epsilon, bool)
    if not ok or not math.isfinite(epsilon) or epsilon < 0:
        raise InputError(f"epsilon is {epsilon!r}: give a finite number of at least 0, like 0.03")
    return float(epsilon)


def _checked_seed(random_state: int) -> int:
    return whole_number(random_state, "random_state", least=0, most=2**63 - 1)


def _checked_fixed(fixed: ArrayLike, n_vertices: int, n_parts: int) -> NDArray[np.int32]:
    parts = whole_numbers(fixed, "fixed part")
    if len(parts) != n_vertices:
        raise InputError(f"{len(parts)} fixed parts were given for {n_vertices} vertices")
    wrong = np.flatnonzero((parts < -1) | (parts >= n_parts))
    if len(wrong):
        raise InputError(
            f"vertex {wrong[0]} is fixed in part {parts[wrong[0]]}: "
            f"give 0 to {n_parts - 1}, or -1 where it is free"
        )
    return parts.astype(np.int32)


def _checked_answer(answer: NDArray, n_vertices: int, n_parts: int, name: str) -> NDArray[np.int32]:
    in_range = answer.shape == (n_vertices,) and not ((answer < 0) | (answer >= n_parts)).any()
    if not in_range:
        raise EngineError(
            f"engine {name!r} answered an array of shape {answer.shape}: "
            f"{n_vertices} parts, each 0 to {n_parts - 1}, were asked"
        )
    return answer.astype(np.int32, copy=False)


def _listed(names: Any) -> str:
    return "use one of " + ", ".join(repr(name) for name in names)
