"""Our engine against Mt-KaHyPar DEFAULT on real data: within 10 % in connectivity - 1.

`python -m benchmarks partition_engine` measures more graphs, and K = 64: Mt-KaHyPar alone takes
minutes.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import daskpart
from daskpart.connectivity import Connectivity
from daskpart.hypergraph import Hypergraph
from daskpart.partitioners.engine import get_engine
from daskpart.partitions import Partition


def _ml_100k(folder: Path) -> Hypergraph:
    ratings = daskpart.read(folder / "ratings" / "ml-100k.u.data.gz", format="ratings")
    return Hypergraph.column_net(ratings)


def _coauthor_cs(folder: Path) -> Hypergraph:
    with np.load(folder / "graphs" / "coauthor-cs.npz") as graph:
        n = int(graph["n_nodes"])
        arrays = (np.ones(graph["adj_indices"].size), graph["adj_indices"], graph["adj_indptr"])
    adjacency = scipy.sparse.csr_array(arrays, (n, n))
    return Hypergraph.column_net(adjacency + scipy.sparse.eye_array(n))


def _bundle1(folder: Path) -> Hypergraph:
    """Points that few cameras see: dense blocks, cut within tight limits."""
    return daskpart.read(next((folder / "hypergraphs").glob("bundle1.mtx.hgr.*")))


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.skipif(
    importlib.util.find_spec("mtkahypar") is None, reason="mtkahypar is not installed"
)
@pytest.mark.parametrize(
    ("load", "n_parts"),
    [(_ml_100k, 8), (_coauthor_cs, 8), (_bundle1, 8)],
)
def test_within_a_tenth_of_mtkahypar(shared_data, load, n_parts):
    hypergraph = load(shared_data)
    found = {}
    for name in ("multilevel", "mtkahypar"):
        part = get_engine(name).partition(hypergraph, n_parts, 0.03, 1)
        weights = np.bincount(part, hypergraph.vertex_weights, minlength=n_parts)
        assert weights.max() <= 1.03 * weights.mean()
        partition = Partition(part, n_parts, hypergraph.vertex_weights, {})
        found[name] = Connectivity.from_partition(hypergraph, partition).connectivity_minus_one()
    assert found["multilevel"] <= 1.10 * found["mtkahypar"]
