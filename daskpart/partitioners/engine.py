"""The two-way engine behind one small protocol, so that partitioners do not care who cuts.

    recursive, hypercube, ...  ->  Engine.bipartition   fixed vertices, uneven targets, net costs
    direct                     ->  Engine.partition     K parts at once, connectivity - 1

`"multilevel"` is our own engine (numba, always there); `"mtkahypar"` runs Mt-KaHyPar in a child
process (``pip install 'daskpart[quality]'``). Any object with the same three names will do as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from daskpart.errors import BalanceWarning, InputError, warn

from .checks import checked_epsilon

if TYPE_CHECKING:
    from daskpart.hypergraph import Hypergraph

ENGINES = ("multilevel", "mtkahypar")


@runtime_checkable
class Engine(Protocol):
    """What a partitioning engine can do. Same arguments, same result, always."""

    name: str

    def bipartition(
        self,
        hypergraph: Hypergraph,
        targets: np.ndarray,
        epsilon: float,
        fixed: np.ndarray | None,
        random_state: int,
    ) -> np.ndarray:
        """Cut in two, at a small summed cost of the nets cut.

        Parameters
        ----------
        hypergraph : Hypergraph
        targets : int64[2]
            Wanted weight of each side; they add up to the total weight.
        epsilon : float
            Side s may weigh (1 + epsilon) * targets[s], or targets[s] rounded up.
        fixed : int8[n_vertices] or None
            -1 for a free vertex, 0 or 1 for one that must be on that side (its weight may be 0).
        random_state : int
            Seed.

        Returns
        -------
        int8[n_vertices]
            0 or 1. A `BalanceWarning` states the weights reached where a side is too heavy;
            `warn_if_unbalanced` gives it, and is silent while `partition` asks for pieces.
        """
        ...

    def partition(
        self, hypergraph: Hypergraph, n_parts: int, epsilon: float, random_state: int
    ) -> np.ndarray:
        """Cut into K parts at once, at a small connectivity - 1.

        Parameters
        ----------
        hypergraph : Hypergraph
        n_parts : int
            K.
        epsilon : float
            Share of the mean by which a part may be heavier.
        random_state : int
            The same gives the same parts.

        Returns
        -------
        int32[n_vertices]
            In 0..n_parts-1. A `BalanceWarning` states the imbalance reached where a part weighs
            more than (1 + epsilon) times the mean (or the mean rounded up).
        """
        ...


def get_engine(engine: str | Engine) -> Engine:
    """Return the engine of that name, or the engine given.

    Raises
    ------
    InputError
        For an unknown name or an object that is no engine.
    EngineError
        For ``"mtkahypar"`` where it is not installed.
    """
    if isinstance(engine, str) and engine == "multilevel":
        from .multilevel import MultilevelEngine

        return MultilevelEngine()
    if isinstance(engine, str) and engine == "mtkahypar":
        from .mtkahypar import MtKaHyParEngine

        return MtKaHyParEngine()
    if isinstance(engine, str) or not isinstance(engine, Engine):
        raise InputError(
            f"engine={engine!r} is not known; give one of {', '.join(map(repr, ENGINES))} or an "
            "object with `name`, `bipartition` and `partition` (daskpart.partitioners.engine)"
        )
    return engine


def check_bipartition(
    hypergraph: Hypergraph, targets: np.ndarray, epsilon: float, fixed: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return (targets int64[2], fixed int8[n_vertices]), or raise an InputError saying why not."""
    checked_epsilon(epsilon)
    targets = np.array(targets)
    total = int(hypergraph.vertex_weights.sum())
    if targets.shape != (2,) or targets.min() < 0 or int(targets.sum()) != total:
        raise InputError(
            f"targets={targets.tolist()} must be two weights of at least 0 that add up to the "
            f"total weight, {total}"
        )
    n = hypergraph.n_vertices
    fixed = np.full(n, -1, np.int8) if fixed is None else np.array(fixed)
    if fixed.shape != (n,) or not np.isin(fixed, (-1, 0, 1)).all():
        raise InputError(f"fixed must hold -1, 0 or 1 for each of the {n} vertices")
    return targets.astype(np.int64), fixed.astype(np.int8)


_quiet = ContextVar("quiet about balance", default=False)


@contextmanager
def quiet_about_balance() -> Iterator[None]:
    """Inside, `warn_if_unbalanced` says nothing: who asks for pieces judges the whole.

    It holds for this thread alone, as `warnings.catch_warnings` does not: where two threads leave
    that in the order in which they entered, the filters of the first stay for good.
    """
    token = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(token)


def warn_if_unbalanced(weights: np.ndarray, targets: np.ndarray, epsilon: float) -> None:
    """Warn with the imbalance reached where a part weighs more than it may, if not to be quiet.

    Parameters
    ----------
    weights, targets : float64 or int64 [n_parts]
        Reached and wanted weight of each part.
    epsilon : float
    """
    allowed = np.maximum((1.0 + epsilon) * targets, np.ceil(targets))
    if _quiet.get() or np.all(weights <= allowed):
        return
    worst = int(np.argmax(weights - allowed))
    reached = weights[worst] / targets[worst] - 1.0 if targets[worst] > 0 else np.inf
    warn(
        f"the balance asked for (epsilon={epsilon:g}) was not reached: part {worst} weighs "
        f"{weights[worst]:g}, {reached:.1%} more than its target of {targets[worst]:g}; "
        "a vertex may be too heavy, so allow a larger epsilon or ask for fewer parts",
        BalanceWarning,
    )
