"""Top n of all users by the package `implicit`, run by a Python that has it: see `implicit_peer`.

`python recommend_peer.py JOB`: JOB is a JSON file with factors (an .npz of user and item), n and
threads. The answer is one line of JSON: seconds, CPU seconds, bytes above those of the factors.
"""

from __future__ import annotations

import json
import resource
import sys
from time import perf_counter, process_time
from typing import Any

BATCH = 4096


def main(path: str) -> None:
    """Recommend to all, answer."""
    import numpy as np
    from implicit.cpu.topk import topk

    with open(path, encoding="utf-8") as file:
        job: dict[str, Any] = json.load(file)
    with np.load(job["factors"]) as factors:
        users, items = factors["user"], factors["item"]
    topk(items, users[:10], job["n"], num_threads=job["threads"])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin, begin_cpu = perf_counter(), process_time()
    for first in range(0, len(users), BATCH):
        topk(items, users[first : first + BATCH], job["n"], num_threads=job["threads"])
    answer = {"seconds": perf_counter() - begin, "cpu": process_time() - begin_cpu}
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({**answer, "memory": 1024.0 * (after - before)}))


if __name__ == "__main__":
    main(sys.argv[1])
