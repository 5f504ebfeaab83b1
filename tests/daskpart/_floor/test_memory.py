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
given_back = faults()
keep_freed_memory()
faults()
print(before, kept, given_back, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="settings of glibc")
@pytest.mark.parametrize("trims", [False, True])
@pytest.mark.parametrize("of_user", [False, True])
def test_steps_reuse_memory(of_user, trims):
    environment = {**os.environ, "MALLOC_TRIM_THRESHOLD_": "65536"}
    if not trims:
        del environment["MALLOC_TRIM_THRESHOLD_"]
    environment.pop("MALLOC_MMAP_THRESHOLD_", None)
    if of_user:
        environment["MALLOC_MMAP_THRESHOLD_"] = "65536"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, env=environment
    )
    before, after, given_back, again = map(int, done.stdout.split())
    if of_user:
        assert min(before, after, again) > 5000  # who has set it keeps it
        return
    assert max(after, again) < 500
    if trims:  # as Dask's workers do, until something is kept once more
        assert min(before, given_back) > 5000
    else:
        assert after + 1000 < given_back < 5000  # fresh pages once, and kept again
