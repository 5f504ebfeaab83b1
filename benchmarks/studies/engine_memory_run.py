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
from daskpart.partitioners.multilevel import MultilevelEngine, k_way


def measured(hypergraph: Hypergraph, n_parts: int) -> dict[str, float]:
    """Bytes that the engine added at most, those of the hypergraph, and CPU seconds."""
    engine = MultilevelEngine()
    for least in (0, k_way.LARGE):  # compile what large levels take, too, and both kinds
        k_way.LARGE = least
        for vertices, nets, pins in ((8000, 20_000, 3), (1500, 3000, 100)):
            engine.partition(_made(vertices, nets, pins), n_parts, EPSILON, SEED)
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


def _made(vertices: int, nets: int, pins_a_net: int) -> Hypergraph:
    """Large enough for every kernel to be used; with long nets the table of gains is not folded."""
    pins = np.random.default_rng(0).integers(0, vertices, nets * pins_a_net)
    return Hypergraph.from_nets(np.arange(0, pins.size + 1, pins_a_net), pins, vertices)


if __name__ == "__main__":
    print(json.dumps(measured(Hypergraph.load(sys.argv[1]), int(sys.argv[2]))))
