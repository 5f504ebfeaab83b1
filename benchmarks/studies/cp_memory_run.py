"""Lay out and fit one tensor, and print what its ranks held: a step of the study of memory.

    python -m benchmarks.studies.cp_memory_run TENSOR.npz TYPE K CUT R           ──▶ one line JSON

A process of its own: what others freed before would hide a part of its peak.
"""

from __future__ import annotations

import json
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import begin_peak, peak_since
from daskpart.collectives import LocalCommunicator
from daskpart.containers.tensor import LabelledTensor
from daskpart.models.cp.als import Update
from daskpart.models.cp.layout.layout import MEMORY
from daskpart.models.cp.plan import CPPlan, PlanSettings, plan_fit
from daskpart.models.cp.ranks import RankNonzeros, RankRows, arrange, rows_of_ranks, split_nonzeros
from daskpart.models.cp.state import CPState
from daskpart.models.cp.text import CPText

TURNS = 5
FEW = 2000


def loaded(path: str, dtype: str) -> LabelledTensor:
    """The tensor that `saved` wrote, with values of a type."""
    with np.load(path) as held:
        shape = tuple(held["shape"].tolist())
        dims = tuple(f"mode_{mode}" for mode in range(len(shape)))
        return LabelledTensor(held["coordinates"], held["values"].astype(dtype), shape, dims)


def saved(tensor: LabelledTensor, path: Path) -> Path:
    """Write a tensor for another process, which need not read it as text again."""
    arrays = {"coordinates": tensor.coordinates, "values": tensor.values}
    np.savez(path, **arrays, shape=np.array(tensor.shape))
    return path


def planned(tensor: LabelledTensor, n_ranks: int, cut: str, n_components: int) -> CPPlan:
    """Algorithm 2 on nonzeros dealt out by a partitioner."""
    settings = PlanSettings(
        n_ranks=n_ranks, method="emb", partitioner=cut, owners="packed",
        random_state=0, n_components=n_components,
        itemsize=tensor.values.itemsize,
    )  # fmt: skip
    return plan_fit(tensor, settings)[0]


def held_by(
    piece: RankNonzeros, rows: RankRows, memory: str, n_components: int
) -> dict[str, float]:
    """What one rank holds over its nonzeros: at most while building, afterwards, and factors."""
    dtype = piece.values.dtype
    own = piece.coordinates.nbytes + piece.values.nbytes
    tracemalloc.start()
    given = RankNonzeros(piece.rank, piece.coordinates.copy(), piece.values.copy())
    tensor = arrange(given, rows, dtype=str(dtype), memory=memory)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    factors = [np.ones((len(held), n_components), dtype) for held in rows.rows]
    for mode in range(len(factors)):
        tensor.layout.mttkrp(mode, factors)  # keeps sums
    return {
        "layout": tensor.layout.nbytes / own,
        "peak": peak / own,
        "factors": sum(factor.nbytes for factor in factors) / own,
    }


def fitted(
    tensor: LabelledTensor, plan: CPPlan, memory: str, n_components: int
) -> tuple[float, float]:
    """Bytes that all ranks together held at most, and least seconds of an iteration."""
    n_ranks, dtype = plan.n_ranks, str(tensor.values.dtype)
    generator = np.random.default_rng(0)
    start = [generator.random((extent, n_components)).astype(dtype) for extent in tensor.shape]
    plan = replace(plan, choice=replace(plan.choice, memory=memory))
    assert plan.parts is not None
    before = begin_peak()
    with LocalCommunicator(n_ranks) as comm:
        pieces = split_nonzeros(tensor, plan.parts, n_ranks)
        options: dict[str, Any] = {"update": Update(), "dtype": dtype, "tolerance": 0.0}
        text = CPText(comm, plan, pieces, tensor.shape, **options)
        text.begin_from(CPState(np.ones(n_components), start, tensor.dims))
        steps = text.run(1, TURNS)
    return peak_since(before), min(step.seconds for step in steps[1:])


def measured(
    tensor: LabelledTensor, plan: CPPlan, memory: str, n_components: int
) -> dict[str, Any]:
    """Ratios of the worst rank, and of the whole process while it fits."""
    pieces = split_nonzeros(tensor, plan.parts, plan.n_ranks)
    rows = rows_of_ranks(plan.numberings, tensor.shape)
    ranks = [held_by(*pair, memory, n_components) for pair in zip(pieces, rows, strict=True)]
    del pieces
    process, seconds = fitted(tensor, plan, memory, n_components)
    own = tensor.coordinates.nbytes + tensor.values.nbytes
    worst = max(ranks, key=lambda held: held["peak"] - held["factors"])
    return {**worst, "process": process / own, "bytes": own, "ms": 1e3 * seconds}


def main(path: str, dtype: str, n_ranks: int, cut: str, n_components: int) -> dict[str, Any]:
    """What was measured with each layout, on one plan."""
    tensor = loaded(path, dtype)
    few = LabelledTensor(
        np.ascontiguousarray(tensor.coordinates[:, :FEW]), tensor.values[:FEW], tensor.shape,
        tensor.dims,
    )  # fmt: skip
    fitted(few, planned(few, 2, "random", n_components), "fast", n_components)  # compiles
    plan = planned(tensor, n_ranks, cut, n_components)
    return {memory: measured(tensor, plan, memory, n_components) for memory in MEMORY}


if __name__ == "__main__":
    file, dtype, n_ranks, cut, n_components = sys.argv[1:]
    print(json.dumps(main(file, dtype, int(n_ranks), cut, int(n_components))))
