"""Place one libsvm file in this process, and print its peak memory: a step of the study of Parsa.

    python -m benchmarks.studies.parsa_memory FILE SMALL_FILE K LIMIT_IN_MB|none   ──▶ one line JSON

A process of its own, since a peak cannot be taken back; the small file compiles the kernels first.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import daskpart
from benchmarks.measuring import begin_peak, peak_since


def main(path: str, few: str, n_parts: int, limit: str) -> dict[str, Any]:
    """MB that the run added at most, CPU seconds, and the report."""
    daskpart.parsa.partition(few, n_parts, memory_limit="1 GB", n_blocks=2)
    daskpart.parsa.partition(few, n_parts)
    before, begin = begin_peak(), time.process_time()
    how: dict[str, Any] = {} if limit == "none" else {"memory_limit": int(limit) * 10**6}
    result = daskpart.parsa.partition(path, n_parts, **how)
    return {
        "peak_mb": peak_since(before) / 1e6,
        "seconds": time.process_time() - begin,
        "told": result.to_dict(),
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])))
