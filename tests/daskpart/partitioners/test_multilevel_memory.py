"""What our engine needs beside its input: a bound on the peak of a process, and lean levels."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from daskpart.hypergraph import Hypergraph
from daskpart.partitioners.multilevel.coarsen import coarsen
from daskpart.partitioners.multilevel.level import lean, level_of, turned

MOST = 6  # times the bytes of the pins

CHILD = """
from pathlib import Path
import numpy as np
from daskpart.hypergraph import Hypergraph
from daskpart.partitioners.multilevel import MultilevelEngine

def made(n_vertices, n_nets, size):
    rng = np.random.default_rng(0)
    middle = rng.integers(0, n_vertices, n_nets)[:, None]
    pins = (middle + rng.normal(0, 60, (n_nets, size)).astype(np.int64)) % n_vertices
    return Hypergraph.from_nets(np.arange(0, pins.size + 1, size), pins.ravel(), n_vertices)

def kilobytes(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))

engine = MultilevelEngine()
engine.partition(made(8000, 4000, 25), 8)  # compiles
hypergraph = made(20_000, 30_000, 40)
Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
before = kilobytes("VmRSS")
engine.partition(hypergraph, 8)
print(1024 * (kilobytes("VmHWM") - before) / hypergraph.pins.nbytes)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_peak_memory_is_bounded():
    """A million pins in a process of its own, where what is freed is given back at once."""
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    done = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, env=environment, check=True
    )
    peak = float(done.stdout)
    assert 2 < peak < MOST  # less than its own copy of the pins both ways: nothing was measured


def test_a_lean_level_is_turned_again():
    """The nets of the vertices are those that the pins tell, in order."""
    rng = np.random.default_rng(1)
    hypergraph = Hypergraph.from_nets(np.arange(0, 601, 3), rng.integers(0, 50, 600), 50)
    level = turned(level_of(hypergraph))
    again = turned(lean(level))
    assert lean(level).nets.size == 0 and turned(level) is level
    for vertex in range(50):
        begin, end = again.vertex_pointer[vertex : vertex + 2]
        owners = np.repeat(np.arange(level.net_costs.size), np.diff(level.net_pointer))
        np.testing.assert_array_equal(again.nets[begin:end], owners[level.pins == vertex])


def test_levels_put_aside_are_lean():
    """What the steps of a coarsening hold until they are needed again."""
    rng = np.random.default_rng(2)
    hypergraph = Hypergraph.from_nets(np.arange(0, 9001, 3), rng.integers(0, 900, 9000), 900)
    level = turned(level_of(hypergraph))
    steps, coarsest, _ = coarsen(level, np.zeros(900, np.int32), 100, 50, rng)
    assert len(steps) > 1
    assert all(step.level.nets.size == 0 for step in steps) and coarsest.nets.size == 0
