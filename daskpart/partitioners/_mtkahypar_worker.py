"""What runs in the child process of `mtkahypar.MtKaHyParEngine`: one call of Mt-KaHyPar.

    stdin   an .npz of arrays  ->  Mt-KaHyPar  ->  stdout   an .npy: the part of each vertex

It is started by its path, not as a module, so the child imports numpy and mtkahypar and nothing
else; whatever the library prints goes to stderr, because stdout carries the answer.
"""

from __future__ import annotations

import io
import itertools
import os
import sys

import numpy as np


def solve(task: dict[str, np.ndarray]) -> np.ndarray:
    """Partition once; see `mtkahypar._task` for the entries. Returns int32[n_vertices]."""
    import mtkahypar

    n_parts, n_vertices = int(task["n_parts"]), task["vertex_weights"].size
    initializer = mtkahypar.initialize(int(task["n_threads"]), print_warnings=False)
    mtkahypar.set_seed(int(task["seed"]))
    context = initializer.context_from_preset(getattr(mtkahypar.PresetType, str(task["preset"])))
    context.set_partitioning_parameters(n_parts, float(task["epsilon"]), mtkahypar.Objective.KM1)
    context.logging = False
    pins, bounds = task["pins"].tolist(), task["net_pointer"].tolist()
    nets = [pins[a:b] for a, b in itertools.pairwise(bounds)]
    hypergraph = initializer.create_hypergraph(
        context, n_vertices, len(nets), nets, task["vertex_weights"], task["net_costs"]
    )
    if task["fixed"].size > 0:
        hypergraph.add_fixed_vertices(task["fixed"].tolist(), n_parts)
    context.set_individual_target_block_weights(task["limits"].tolist())
    return np.fromiter(hypergraph.partition(context).get_partition(), np.int32, n_vertices)


def main() -> None:
    """Read one task from stdin, write its answer to stdout."""
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with np.load(io.BytesIO(sys.stdin.buffer.read())) as task:
        part = solve(dict(task))
    message = io.BytesIO()  # a pipe cannot be saved to directly
    np.save(message, part)
    answer.write(message.getvalue())
    answer.close()


if __name__ == "__main__":
    main()
