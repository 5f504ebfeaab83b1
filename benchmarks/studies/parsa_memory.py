"""Place one libsvm file in this process, and print its peak memory: a step of the study of Parsa.

    python -m benchmarks.studies.parsa_memory FILE SMALL_FILE K LIMIT_IN_MB|none   ──▶ one line JSON

A process of its own, since a peak cannot be taken back; the small file compiles the kernels first.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import daskpart


def main(path: str, few: str, n_parts: int, limit: str) -> dict[str, Any]:
    """MB that the run added at most, CPU seconds, and the report."""
    daskpart.parsa(few, n_parts, memory_limit="1 GB", n_blocks=2)
    daskpart.parsa(few, n_parts)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before, begin = _kilobytes("VmRSS"), time.process_time()
    how: dict[str, Any] = {} if limit == "none" else {"memory_limit": int(limit) * 10**6}
    result = daskpart.parsa(path, n_parts, **how)
    return {
        "peak_mb": (_kilobytes("VmHWM") - before) * 1024 / 1e6,
        "seconds": time.process_time() - begin,
        "told": result.to_dict(),
    }


def _kilobytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])))
