"""Mt-KaHyPar as an engine: slower than our own, a little better, always in a child process.

    this process                                 child (fresh for each call, killed with it)
    clean nets, fit weights into int32  --npz-->  Mt-KaHyPar, one thread, seed given
    check the answer                    <--npy--

Why a child: Mt-KaHyPar holds the GIL for the whole solve (a Dask worker would miss its
heartbeats), takes its thread count once per process, and repeats itself only in the first call of
a process. Why the cleaning: it rejects empty nets, counts repeated pins twice, keeps weights in
int32, and silently ignores fixed vertices whose total weight is 0.
Gottesbüren et al. 2021, https://github.com/kahypar/mt-kahypar (MIT).
"""

from __future__ import annotations

import importlib.util
import io
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from daskpart._floor.checks import one_of, whole_number
from daskpart._floor.distinct import distinct
from daskpart._floor.sums import sums_by_key
from daskpart.errors import EngineError

from .checks import checked_epsilon, checked_n_parts
from .engine import check_bipartition, warn_if_unbalanced

if TYPE_CHECKING:
    from daskpart.hypergraph import Hypergraph

WORKER = Path(__file__).with_name("_mtkahypar_worker.py")
PRESETS = ("default", "quality")
LARGEST = 2**31 - 2  # what the sum of all weights, or of all costs that can be paid, may be


class MtKaHyParEngine:
    """Mt-KaHyPar in a child process; see `daskpart.partitioners.engine.Engine`.

    Parameters
    ----------
    preset : {"default", "quality"}
    n_threads : int, default=1
        More than one is faster, but then the same seed no longer gives the same parts.
    timeout : float or None
        Seconds after which a call is given up with an EngineError.

    Raises
    ------
    EngineError
        mtkahypar is not installed, or (by the methods) its process failed, died or took too long.
    """

    name = "mtkahypar"

    def __init__(
        self, preset: str = "default", n_threads: int = 1, timeout: float | None = None
    ) -> None:
        one_of(preset, "preset", PRESETS)
        n_threads = whole_number(n_threads, "n_threads", 1)
        if importlib.util.find_spec("mtkahypar") is None:
            raise EngineError(
                "engine 'mtkahypar' is not installed: pip install 'daskpart[quality]', "
                "or use engine='multilevel'"
            )
        self.preset = preset
        self.n_threads = n_threads
        self.timeout = timeout

    def bipartition(
        self,
        hypergraph: Hypergraph,
        targets: np.ndarray,
        epsilon: float,
        fixed: np.ndarray | None = None,
        random_state: int = 0,
    ) -> np.ndarray:
        """Cut in two; returns int8[n_vertices]."""
        targets, fixed = check_bipartition(hypergraph, targets, epsilon, fixed)
        side = self._solve(hypergraph, targets, epsilon, fixed, random_state).astype(np.int8)
        if np.any(side[fixed >= 0] != fixed[fixed >= 0]):
            raise EngineError(
                "Mt-KaHyPar moved a fixed vertex; use engine='multilevel' for this hypergraph"
            )
        weights = sums_by_key(side, hypergraph.vertex_weights, 2)
        warn_if_unbalanced(weights, targets, epsilon)
        return side

    def partition(
        self, hypergraph: Hypergraph, n_parts: int, epsilon: float = 0.03, random_state: int = 0
    ) -> np.ndarray:
        """Cut into K parts of small connectivity - 1; returns int32[n_vertices]."""
        epsilon = checked_epsilon(epsilon)
        n_parts = checked_n_parts(n_parts, hypergraph.n_vertices)
        if n_parts == 1:
            return np.zeros(hypergraph.n_vertices, np.int32)
        targets = np.full(n_parts, hypergraph.vertex_weights.sum() / n_parts)
        free = np.full(hypergraph.n_vertices, -1, np.int8)
        part = self._solve(hypergraph, targets, epsilon, free, random_state)
        weights = sums_by_key(part, hypergraph.vertex_weights, n_parts)
        warn_if_unbalanced(weights, targets, epsilon)
        return part

    def _solve(
        self,
        hypergraph: Hypergraph,
        targets: np.ndarray,
        epsilon: float,
        fixed: np.ndarray,
        random_state: int,
    ) -> np.ndarray:
        task = _task(hypergraph, targets, epsilon, fixed)
        if task["net_costs"].size == 0 or hypergraph.n_vertices <= 1:
            return _fill(hypergraph.vertex_weights, targets, fixed)
        task["seed"] = np.array(int(random_state) % 2**31)
        task["n_threads"] = np.array(self.n_threads)
        task["preset"] = np.array(self.preset.upper())
        part = _call(task, self.timeout)
        if part.shape != fixed.shape or part.min() < 0 or part.max() >= targets.size:
            raise EngineError("Mt-KaHyPar returned no partition; use engine='multilevel'")
        return part

    def __repr__(self) -> str:
        return f"MtKaHyParEngine(preset={self.preset!r}, n_threads={self.n_threads})"


def _shrink(amounts: np.ndarray, total: int) -> tuple[np.ndarray, int]:
    """Divide whole numbers so that what adds up to `total` fits into int32; none turns into 0."""
    divisor = -(-total // LARGEST)
    if divisor <= 1:
        return amounts.astype(np.int32), 1
    divisor = -(-total // (LARGEST // 2))  # room for the ones that are rounded up
    shrunk = np.maximum(amounts // divisor, np.minimum(amounts, 1))
    return shrunk.astype(np.int32), divisor


def _clean_nets(hypergraph: Hypergraph) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (net_pointer, pins, costs) of the nets with a cost and two or more different pins."""
    sizes = np.diff(hypergraph.net_pointer)
    net_of = np.repeat(np.arange(sizes.size), sizes)
    n_vertices = max(hypergraph.n_vertices, 1)
    keys = distinct(net_of * n_vertices + hypergraph.pins, sizes.size * n_vertices)
    net_of, pins = np.divmod(keys, n_vertices)
    kept = (np.bincount(net_of, minlength=sizes.size) >= 2) & (hypergraph.net_costs > 0)
    pins, net_of = pins[kept[net_of]], net_of[kept[net_of]]
    counts = np.bincount(net_of, minlength=sizes.size)[kept]
    net_pointer = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return net_pointer, pins.astype(np.int32), hypergraph.net_costs[kept]


def _task(
    hypergraph: Hypergraph, targets: np.ndarray, epsilon: float, fixed: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the arrays the child needs, all traps of the module docstring heeded."""
    net_pointer, pins, costs = _clean_nets(hypergraph)
    payable = np.minimum(np.diff(net_pointer), targets.size) - 1
    costs, _ = _shrink(costs, sum(int(c) * int(p) for c, p in zip(costs, payable, strict=True)))
    weights, divisor = _shrink(hypergraph.vertex_weights, int(hypergraph.vertex_weights.sum()))
    limits = np.maximum(np.floor((1.0 + epsilon) * targets), np.ceil(targets)) // divisor
    weightless = (fixed >= 0) & (weights == 0)
    weights[weightless] = 1  # and as much more room on their side: the balance stays what it was
    limits += np.bincount(fixed[weightless], minlength=targets.size)
    return {
        "net_pointer": net_pointer,
        "pins": pins,
        "net_costs": costs,
        "vertex_weights": weights,
        "fixed": fixed.astype(np.int32) if np.any(fixed >= 0) else np.zeros(0, np.int32),
        "limits": np.minimum(limits, LARGEST).astype(np.int64),
        "n_parts": np.array(targets.size),
        "epsilon": np.array(epsilon),
    }


def _fill(weights: np.ndarray, targets: np.ndarray, fixed: np.ndarray) -> np.ndarray:
    """Balance vertices that no net joins: the heaviest first, to the part with most room."""
    part = fixed.astype(np.int32)
    room = targets.astype(np.float64)
    np.subtract.at(room, part[part >= 0], weights[part >= 0])
    free = np.flatnonzero(part < 0)
    for vertex in free[np.argsort(-weights[free], kind="stable")]:
        part[vertex] = np.argmax(room)
        room[part[vertex]] -= weights[vertex]
    return part


def _call(task: dict[str, np.ndarray], timeout: float | None) -> np.ndarray:
    """Run the child and return what it found."""
    message = io.BytesIO()
    np.savez(message, **task)  # type: ignore[arg-type]
    command = [sys.executable, "-P", str(WORKER)]
    try:
        child = subprocess.run(
            command, input=message.getvalue(), capture_output=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise EngineError(
            f"Mt-KaHyPar was not done after {timeout:g} s; allow more or use engine='multilevel'"
        ) from error
    except OSError as error:
        raise EngineError(f"no process for Mt-KaHyPar could be started: {error}") from error
    if child.returncode == 0 and child.stdout:
        return np.load(io.BytesIO(child.stdout))
    how = f"exit status {child.returncode}"
    if child.returncode < 0:
        how = f"killed by {signal.Signals(-child.returncode).name}"
    detail = child.stderr.decode(errors="replace").strip()[-800:]
    raise EngineError(f"the Mt-KaHyPar process failed ({how}): {detail or 'it said nothing'}")
