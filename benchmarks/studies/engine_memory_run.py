"""Partition one instance in this process, and print its peak memory: a step of a study.

    python -m benchmarks.studies.engine_memory_run HYPERGRAPH.npz K              ──▶ one line JSON

A process of its own, since what others freed before would hide a part of the peak.
"""

from __future__ import annotations

import gc
import json
import sys
import time

import numpy as np

from benchmarks.measuring import begin_peak, peak_since
from benchmarks.partition_engine import EPSILON, SEED
from daskpart.hypergraph import Hypergraph
from daskpart.partitioners.multilevel import MultilevelEngine


def measured(hypergraph: Hypergraph, n_parts: int) -> dict[str, float]:
    """Bytes that the engine added at most, those of the hypergraph, and CPU seconds."""
    engine = MultilevelEngine()
    engine.partition(_made(), n_parts, EPSILON, SEED)  # compiles
    gc.collect()
    before, begin = begin_peak(), time.process_time()
    engine.partition(hypergraph, n_parts, EPSILON, SEED)
    seconds = time.process_time() - begin
    arrays = (
        hypergraph.net_pointer, hypergraph.pins, hypergraph.vertex_weights, hypergraph.net_costs,
    )  # fmt: skip
    return {
        "peak": peak_since(before),
        "pins": hypergraph.pins.nbytes,
        "input": sum(array.nbytes for array in arrays),
        "vertices": hypergraph.n_vertices,
        "seconds": seconds,
    }


def _made() -> Hypergraph:
    """Large enough for every kernel to be used."""
    pins = np.random.default_rng(0).integers(0, 8000, 60_000)
    return Hypergraph.from_nets(np.arange(0, pins.size + 1, 3), pins, 8000)


if __name__ == "__main__":
    print(json.dumps(measured(Hypergraph.load(sys.argv[1]), int(sys.argv[2]))))
