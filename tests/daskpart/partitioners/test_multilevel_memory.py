"""What our engine needs beside its input: a bound on the peak, levels put aside, narrow numbers."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from daskpart.hypergraph import Hypergraph
from daskpart.partitioners.multilevel import compressed
from daskpart.partitioners.multilevel.bipartition import bipartition_level
from daskpart.partitioners.multilevel.coarsen import coarsen
from daskpart.partitioners.multilevel.compressed import Finest, level_of, packed
from daskpart.partitioners.multilevel.level import (
    connectivities,
    contract,
    with_transpose,
    without_transpose,
)

MOST = 4, 7  # times the bytes of the pins: of large nets; of netlists, of few pins a vertex

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
for hypergraph, n_parts in ((made(20_000, 30_000, 40), 8), (made(120_000, 120_000, 4), 4)):
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = kilobytes("VmRSS")
    engine.partition(hypergraph, n_parts)
    print(1024 * (kilobytes("VmHWM") - before) / hypergraph.pins.nbytes)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_peak_memory_is_bounded():
    """A million pins in a process of its own, where what is freed is given back at once."""
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    done = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, env=environment, check=True
    )
    peaks = [float(line) for line in done.stdout.split()]
    for peak, most in zip(peaks, MOST, strict=True):
        assert 2 < peak < most  # less than its own copy of the pins both ways: nothing was measured


def test_a_lean_level_is_turned_again():
    """The nets of the vertices are those that the pins tell, in order."""
    rng = np.random.default_rng(1)
    hypergraph = Hypergraph.from_nets(np.arange(0, 601, 3), rng.integers(0, 50, 600), 50)
    level = with_transpose(level_of(hypergraph))
    again = with_transpose(without_transpose(level))
    assert without_transpose(level).nets.size == 0 and with_transpose(level) is level
    for vertex in range(50):
        begin, end = again.vertex_pointer[vertex : vertex + 2]
        owners = np.repeat(np.arange(level.net_costs.size), np.diff(level.net_pointer))
        np.testing.assert_array_equal(again.nets[begin:end], owners[level.pins == vertex])


def assert_equal_levels(level, other):
    """The same numbers of the same types."""
    for array, expected in zip(level, other, strict=True):
        assert array.dtype == expected.dtype
        np.testing.assert_array_equal(array, expected)


def made(n_vertices, n_nets, size, largest_weight, largest_cost):
    """Random nets; some repeat a net or name a vertex twice, some vertices and nets weigh 0."""
    rng = np.random.default_rng(n_nets)
    pins = rng.integers(0, n_vertices, (n_nets, size))
    pins[::5] = pins[0]
    return Hypergraph.from_nets(
        np.arange(0, pins.size + 1, size),
        pins.ravel(),
        n_vertices,
        rng.integers(0, largest_weight, n_vertices, endpoint=True),
        rng.integers(0, largest_cost, n_nets, endpoint=True),
    )


def test_steps_make_their_levels_again():
    """Each level of a coarsening is what merging the finer one gave, though only packed."""
    level = level_of(made(900, 3000, 3, 3, 3))
    again = Finest(made(900, 3000, 3, 3, 3))
    rng = np.random.default_rng(2)
    steps, coarsest, _ = coarsen(
        again.taken(), np.zeros(900, np.int32), 100, 50, rng, False, again.level
    )
    assert len(steps) > 2 and coarsest.nets.size == 0
    assert steps[2].again == steps[1].coarse  # nearly as large as the one that is kept
    for step in steps:
        assert_equal_levels(step.again(), level)
        level = contract(level, step.target.astype(np.int32), int(step.target.max()) + 1)
    assert_equal_levels(coarsest, level)


@pytest.mark.parametrize("largest", [0, 1, 255, 256, 2**16, 2**33])
def test_a_packed_level_comes_back(largest):
    """Whatever is the narrowest type of its weights and costs."""
    level = level_of(made(300, 800, 3, largest, max(largest, 1)))
    kept = packed(level)
    assert_equal_levels(kept(), level)
    small = sum(array.nbytes for array in kept.args[0][:4])
    assert small <= sum(array.nbytes for array in level) * (0.6 if largest < 256 else 1)


def test_the_finest_level_is_made_again():
    """From the hypergraph, without nets that were dropped and with what merged ones cost."""
    finest = Finest(made(200, 900, 3, 2, 2))
    first = finest.taken()
    again = finest.level()
    assert first is not again and finest.level() is again
    assert_equal_levels(again, first)
    assert first.net_costs.max() > 2 and first.net_costs.size < 900


@pytest.mark.parametrize("largest", ["weight", "cost"])
def test_large_sums_take_eight_bytes(largest):
    """Weights or costs whose sum int32 would not hold; a level has one type for both."""
    few = 2**30
    weights, costs = (few, 1) if largest == "weight" else (1, few)
    nets = np.arange(0, 10, 2), [0, 1, 2, 3, 0, 1, 2, 3], 4
    for n_heavy, wanted in ((1, np.int32), (2, np.int64)):
        hypergraph = Hypergraph.from_nets(
            *nets,
            [weights] * n_heavy + [1] * (4 - n_heavy),
            [costs] * n_heavy + [1] * (4 - n_heavy),
        )
        level = level_of(hypergraph)
        assert level.weights.dtype == level.net_costs.dtype == wanted
        assert level.net_costs.sum() == hypergraph.net_costs.sum()
        merged = contract(level, np.array([0, 0, 0, 1], np.int32), 2)
        assert merged.weights.sum() == hypergraph.total_weight


def test_four_and_eight_bytes_give_the_same_sides(monkeypatch):
    """The type of the sums is storage, nothing else."""
    hypergraph = made(600, 1200, 3, 3, 3)
    targets = np.array([[1], [1]]) * (hypergraph.total_weight // 2 + 1)
    found = []
    for most in (compressed.MOST_SMALL, 0):
        monkeypatch.setattr(compressed, "MOST_SMALL", most)
        level, rng = level_of(hypergraph), np.random.default_rng(3)
        assert level.weights.itemsize == (4 if most else 8)
        free = np.full(600, -1, np.int8)
        found.append(bipartition_level(level, targets, targets * 11 // 10, free, rng, 1))
    np.testing.assert_array_equal(*found)
    assert 0 < found[0].sum() < 600


def test_parts_of_nets_are_counted_without_a_copy_of_the_pins(least_peak):
    pins = np.tile(np.arange(40, dtype=np.int32), 1000)
    nets = Hypergraph.from_nets(np.arange(0, pins.size + 1, 40), pins, 40)
    part = np.arange(40, dtype=np.int32) % 7
    for writeable in (True, False):
        given = nets.pins.view()
        given.flags.writeable = writeable
        found, peak = least_peak(
            lambda given=given: connectivities(nets.net_pointer, given, part, 7)
        )
        np.testing.assert_array_equal(found, np.full(1000, 7))
        assert peak < nets.pins.nbytes / 4
