"""The package `implicit` as a peer, run by a Python that has it: `python implicit_peer.py JOB`.

It stands alone, as that Python need not have daskpart. JOB is a JSON file: train (a scipy .npz),
model ("bpr", with a rate, else ALS), components, alpha, regularization, iterations, threads, turns,
users and n (of top-n lists), out (.npz of the factors). The answer is one line of JSON: seconds of
each.
"""

from __future__ import annotations

import json
import sys
from time import perf_counter, process_time
from typing import Any


def models(job: dict[str, Any]) -> dict[str, Any]:
    """What makes each model to measure, by name."""
    from implicit.cpu.als import AlternatingLeastSquares
    from implicit.cpu.bpr import BayesianPersonalizedRanking

    common = {
        "factors": job["components"], "random_state": 0, "regularization": job["regularization"],
        "iterations": job["iterations"], "num_threads": job["threads"],
    }  # fmt: skip
    if job.get("model") == "bpr":
        return {"bpr": lambda: BayesianPersonalizedRanking(learning_rate=job["rate"], **common)}
    alpha = 1 + job["alpha"]
    return {
        "cg": lambda: AlternatingLeastSquares(alpha=alpha, use_cg=True, **common),
        "cholesky": lambda: AlternatingLeastSquares(alpha=alpha, use_cg=False, **common),
    }


def main(path: str) -> None:
    """Fit, recommend, answer."""
    import numpy as np
    import scipy.sparse

    with open(path, encoding="utf-8") as file:
        job: dict[str, Any] = json.load(file)
    train = scipy.sparse.load_npz(job["train"]).tocsr()
    answer: dict[str, Any] = {}
    for name, make in models(job).items():
        seconds, cpu = [], []
        for _ in range(job["turns"]):
            model = make()
            begin, begin_cpu = perf_counter(), process_time()
            model.fit(train, show_progress=False)
            seconds.append(perf_counter() - begin)
            cpu.append(process_time() - begin_cpu)
        users = np.arange(min(job["users"], train.shape[0]))
        begin, begin_cpu = perf_counter(), process_time()
        model.recommend(users, train[users], N=job["n"])
        answer[name] = {
            "seconds": min(seconds) / job["iterations"], "cpu": min(cpu) / job["iterations"],
            "recommend": perf_counter() - begin, "recommend_cpu": process_time() - begin_cpu,
        }  # fmt: skip
        out = f"{job['out']}.{name}.npz"
        np.savez(out, user=model.user_factors, item=model.item_factors)
    print(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1])
