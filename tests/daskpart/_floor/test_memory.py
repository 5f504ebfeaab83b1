"""What a step frees is there for the next one, with the settings of Dask's workers too."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

SCRIPT = """
import resource
import numpy as np
from daskpart._floor.memory import give_back_freed_memory, keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        arrays = [np.ones(1 << 20, np.uint8) for _ in range(8)]
        del arrays
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

before = faults()
keep_freed_memory()
faults()
kept = faults()
arrays = [np.ones(1 << 20, np.uint8) for _ in range(8)]
del arrays
give_back_freed_memory()
print(before, kept, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="settings of glibc")
@pytest.mark.parametrize("of_user", [False, True])
def test_steps_reuse_memory(of_user):
    environment = {**os.environ, "MALLOC_TRIM_THRESHOLD_": "65536"}
    environment.pop("MALLOC_MMAP_THRESHOLD_", None)
    if of_user:
        environment["MALLOC_MMAP_THRESHOLD_"] = "65536"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, env=environment
    )
    before, after, given_back = map(int, done.stdout.split())
    assert before > 5000
    if of_user:
        assert after > 5000  # who has set it keeps it
    else:
        assert after < before / 10
        assert after + 1000 < given_back < before / 2  # fresh pages once, and kept again
