"""The package `implicit` as a peer, run by a Python that has it: `python implicit_peer.py JOB`.

It stands alone, as that Python need not have daskpart. JOB is a JSON file: train (a scipy .npz),
components, alpha, regularization, iterations, threads, turns, users and n (of top-n lists), out
(.npz of the factors). The answer is one line of JSON: seconds of each.
"""

from __future__ import annotations

import json
import sys
from time import perf_counter, process_time
from typing import Any


def main(path: str) -> None:
    """Fit, recommend, answer."""
    import numpy as np
    import scipy.sparse
    from implicit.cpu.als import AlternatingLeastSquares

    with open(path, encoding="utf-8") as file:
        job: dict[str, Any] = json.load(file)
    train = scipy.sparse.load_npz(job["train"]).tocsr()
    answer: dict[str, Any] = {}
    for solver in ("cg", "cholesky"):
        seconds, cpu = [], []
        for _ in range(job["turns"]):
            model = AlternatingLeastSquares(
                factors=job["components"], alpha=1 + job["alpha"], random_state=0,
                regularization=job["regularization"], iterations=job["iterations"],
                use_cg=solver == "cg", num_threads=job["threads"],
            )  # fmt: skip
            begin, begin_cpu = perf_counter(), process_time()
            model.fit(train, show_progress=False)
            seconds.append(perf_counter() - begin)
            cpu.append(process_time() - begin_cpu)
        users = np.arange(min(job["users"], train.shape[0]))
        begin, begin_cpu = perf_counter(), process_time()
        model.recommend(users, train[users], N=job["n"])
        answer[solver] = {
            "seconds": min(seconds) / job["iterations"], "cpu": min(cpu) / job["iterations"],
            "recommend": perf_counter() - begin, "recommend_cpu": process_time() - begin_cpu,
        }  # fmt: skip
        out = f"{job['out']}.{solver}.npz"
        np.savez(out, user=model.user_factors, item=model.item_factors)
    print(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1])
