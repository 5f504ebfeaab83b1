"""The methods of `partition`, by name: one function each, and what it can do.

    task (hypergraph, n_parts, objective, engine, ε, seed, fixed vertices)
      └─▶ METHODS[name].find(task) ─▶ int32[n_vertices], the part of each vertex

A further method is one function and one line of `METHODS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.kernels import working_clock
from daskpart.hypergraph import Hypergraph

from .balance import bounds_of_moves, columns, fill_empty_parts
from .checks import checked_answer
from .engine import Engine
from .hypercube import hypercube_mapping
from .label_propagation import polish as polish_parts
from .metis import has_stars, is_installed, metis_parts
from .multilevel import rebalanced, v_cycle
from .objectives import ConnectivityMinusOne, CutNet, Objective
from .recursive import recursive_bipartition
from .refinement.bits import lower_concurrent_volume
from .simple import block_parts, random_parts

V_CYCLES = 2  # after the polish: together some 4 % of Σλ², for up to half of the time of all
V_CYCLE_PINS = 1 << 16  # fewer are cut in less time than the search of a V-cycle takes to compile


@dataclass(frozen=True)
class Task:
    """What a method is asked, all of it checked.

    Parameters
    ----------
    hypergraph : Hypergraph
        Some vertex of it weighs something. With further weights its `vertex_weights` are those of
        `balance.stacked`, int64[n_vertices, n_weights]; only "direct" is asked then.
    n_parts : int
        From 1 to the number of vertices.
    goal : Objective
        What to make small, where the method can choose.
    engine : Engine
        What bipartitions.
    epsilon : float
        With further weights a list, of one for each weight.
    random_state : int
    fixed : int32[n_vertices] or None
        The part of each fixed vertex, -1 for a free one.
    polish : bool
        Whether to end with single-vertex moves.
    info : dict
        `Partition.info` to be: a method adds what it has to tell.
    """

    hypergraph: Hypergraph
    n_parts: int
    goal: Objective
    engine: Engine
    epsilon: float
    random_state: int
    fixed: NDArray[np.int32] | None
    polish: bool
    info: dict[str, Any]


@dataclass(frozen=True)
class Method:
    """A method and what it can do.

    Parameters
    ----------
    find : callable
        Task → int32[n_vertices], no part empty where that can be.
    follows_objective : bool
        Whether it makes the objective that was asked small.
    takes_fixed : bool
        Whether vertices can be fixed.
    searches : bool
        Whether it looks for a small cut at all.
    only : tuple of types
        Where not empty, the objectives that it takes; others are refused, not dropped.
    """

    find: Callable[[Task], NDArray[np.int32]]
    follows_objective: bool = False
    takes_fixed: bool = False
    searches: bool = True
    only: tuple[type, ...] = ()

    def knows(self, goal: Objective) -> bool:
        """Whether it may be asked for this objective."""
        return not self.only or isinstance(goal, self.only)


def _random(task: Task) -> NDArray[np.int32]:
    return random_parts(task.hypergraph, task.n_parts, task.random_state)


def _block(task: Task) -> NDArray[np.int32]:
    return block_parts(task.hypergraph, task.n_parts)


def _metis(task: Task) -> NDArray[np.int32]:
    task.info["engine"] = "metis" if is_installed() else task.engine.name
    hypergraph, n_parts = task.hypergraph, task.n_parts
    if n_parts == 1:
        return np.zeros(hypergraph.n_vertices, np.int32)
    edge_cut = isinstance(task.goal, CutNet)
    # of stars METIS minimises the same whatever is asked
    if edge_cut and not has_stars(hypergraph):
        task.info["objective"] = task.goal.name
    assignment = metis_parts(
        hypergraph, n_parts, task.epsilon, task.random_state, task.engine, edge_cut=edge_cut
    )
    return fill_empty_parts(assignment, hypergraph.vertex_weights, n_parts)


def _direct(task: Task) -> NDArray[np.int32]:
    """K parts at once by the engine, then the polish."""
    engine = task.engine
    task.info["engine"] = engine.name
    hypergraph, n_parts = task.hypergraph, task.n_parts
    if n_parts == 1:
        return np.zeros(hypergraph.n_vertices, np.int32)
    answer = np.asarray(engine.partition(hypergraph, n_parts, task.epsilon, task.random_state))
    assignment = checked_answer(answer, hypergraph.n_vertices, n_parts, engine.name)
    return _finished(assignment, task)


def _recursive(task: Task) -> NDArray[np.int32]:
    """Bipartitions of bipartitions, then the polish; `info` learns the cost and the seconds."""
    engine = task.engine
    task.info["engine"] = engine.name
    started = working_clock()
    found = recursive_bipartition(
        task.hypergraph,
        task.n_parts,
        task.goal,
        engine,
        task.epsilon,
        task.random_state,
        task.fixed,
    )
    scale = getattr(task.goal, "scale", 1)  # costs are whole numbers, λ^ρ need not be
    task.info["cost_paid"] = found.cost_paid if scale == 1 else found.cost_paid / scale
    task.info["engine_seconds"] = found.engine_seconds
    task.info["recursion_seconds"] = working_clock() - started
    return _finished(found.assignment, task)


def _hypercube(task: Task) -> NDArray[np.int32]:
    """Parts that are ranks of a hypercube, then single-vertex moves; `info` learns the cost."""
    engine, hypergraph, n_parts = task.engine, task.hypergraph, task.n_parts
    found = hypercube_mapping(
        hypergraph, n_parts, engine, task.epsilon, task.random_state, task.fixed
    )
    task.info.update(objective="concurrent-volume", engine=engine.name)
    task.info.update(cost_paid=found.cost_paid, engine_seconds=found.engine_seconds)
    weights = hypergraph.vertex_weights
    assignment = fill_empty_parts(found.assignment, weights, n_parts, task.fixed)
    if not task.polish or n_parts == 1:
        return assignment
    # a part is at least as heavy as its heaviest vertex: where that is above the bound, to empty
    # parts that are lighter costs volume and lowers no maximum
    least, (allowed,) = bounds_of_moves(hypergraph, n_parts, task.epsilon)
    most = max(int(allowed), int(weights.max()))
    assignment = rebalanced(hypergraph, assignment, n_parts, most, task.fixed)
    return lower_concurrent_volume(
        hypergraph,
        assignment,
        n_parts,
        (least, int(allowed)),
        random_state=task.random_state,
        fixed=task.fixed,
    )


def _finished(assignment: NDArray[np.int32], task: Task) -> NDArray[np.int32]:
    """No part empty or too heavy, then moves that lower the objective, if asked."""
    hypergraph, n_parts = task.hypergraph, task.n_parts
    cost_table, weights = task.goal.cost_table(n_parts), columns(hypergraph)[:, 0]
    assignment = fill_empty_parts(assignment, weights, n_parts, task.fixed)
    if not task.polish or n_parts == 1:
        return assignment
    bounds = bounds_of_moves(hypergraph, n_parts, task.epsilon)
    assignment = rebalanced(hypergraph, assignment, n_parts, bounds[1], task.fixed)
    wishes: dict[str, Any] = {"random_state": task.random_state, "fixed": task.fixed}
    assignment = polish_parts(hypergraph, assignment, cost_table, bounds, **wishes)
    # where every part of a net costs the same, the engine's own search has done this already
    alike = len(set(np.diff(cost_table[1:]).tolist())) == 1
    n_cycles = 0 if alike or hypergraph.n_pins < V_CYCLE_PINS else V_CYCLES
    for _ in range(n_cycles):
        moved = v_cycle(hypergraph, assignment, cost_table, bounds, **wishes)
        if np.array_equal(moved, assignment):
            break
        assignment = polish_parts(hypergraph, moved, cost_table, bounds, **wishes)
    return assignment


def _parsa(task: Task) -> NDArray[np.int32]:
    """Each vertex in turn to a part that has most of its nets already, then the polish."""
    from daskpart import parsa  # which polishes with what is here

    weights = task.hypergraph.vertex_weights
    found = parsa.partition(
        task.hypergraph,
        task.n_parts,
        weights=weights,
        compare=False,
        random_state=task.random_state,
    )
    return _finished(found.partition.assignment, task)


METHODS = {
    "random": Method(_random, searches=False),
    "block": Method(_block, searches=False),
    "metis": Method(_metis, only=(ConnectivityMinusOne, CutNet)),
    "direct": Method(_direct, follows_objective=True),
    "recursive": Method(_recursive, follows_objective=True, takes_fixed=True),
    "hypercube": Method(_hypercube, takes_fixed=True),
    "parsa": Method(_parsa, follows_objective=True),
}


def looks_at_nets(method: str) -> bool:
    """Whether a method looks at what vertices share, so that nets must be built; "auto" does."""
    return method not in METHODS or METHODS[method].searches
