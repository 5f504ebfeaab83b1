"""tensorly's CP-ALS under a mask, run by a Python that has it: `python completion_peer.py JOB`.

It stands alone, as that Python need not have daskpart. JOB is a JSON file: cells (an .npz of cells,
values, shape), components, starts, iterations, out (.npz of the factors, weights in the first). The
answer is one line of JSON: CPU seconds of all starts.
"""

from __future__ import annotations

import json
import sys
from time import process_time
from typing import Any


def main(path: str) -> None:
    """Fit from each start, keep the best, answer."""
    import numpy as np
    from tensorly.decomposition import parafac

    with open(path, encoding="utf-8") as file:
        job: dict[str, Any] = json.load(file)
    with np.load(job["cells"]) as given:
        cells, values, shape = given["cells"], given["values"], tuple(given["shape"])
    tensor, mask = np.zeros(shape), np.zeros(shape)
    tensor[tuple(cells)], mask[tuple(cells)] = values, 1.0
    best, least = None, np.inf
    begin = process_time()
    for start in range(job["starts"]):
        found = parafac(
            tensor, job["components"], mask=mask, n_iter_max=job["iterations"], init="random",
            random_state=start, tol=1e-9,
        )  # fmt: skip
        factors = [np.array(factor) for factor in found.factors]
        factors[0] = factors[0] * found.weights
        there = np.prod([factor[i] for factor, i in zip(factors, cells, strict=True)], axis=0)
        error = float(np.linalg.norm(there.sum(axis=1) - values))
        if error < least:
            best, least = factors, error
    seconds = process_time() - begin
    assert best is not None
    np.savez(job["out"], *best)
    print(json.dumps({"cpu": seconds}))


if __name__ == "__main__":
    main(sys.argv[1])
