"""Real files, with the counts that are known of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import daskpart
from daskpart.errors import DaskpartWarning

pytestmark = pytest.mark.data


@pytest.mark.parametrize(
    ("name", "shape", "nnz"),
    [
        ("ratings/ml-100k.u.data.gz", (943, 1682), 100_000),
        ("ratings/ml-100k.u1.base.gz", (943, 1650), 80_000),
        ("ratings/ml-100k.u1.test.gz", (459, 1410), 20_000),
        ("ratings/ml-1m.ratings.dat.xz", (6040, 3706), 1_000_209),
        ("ratings/lastfm-2k.user_artists.dat.gz", (1892, 17_632), 92_834),
        ("tensors/splatt-small.tns.gz", (2, 3, 2), 6),
        ("tensors/splatt-med5.tns.gz", (60_114, 83_826, 23_034, 1132, 100), 100_000),
        ("tensors/fb15k-237.train.tns.gz", (14_504, 237, 14_505), 272_115),
        ("tensors/wikipeople-3.tns.gz", (66, 12_268, 12_270, 12_251), 25_820),
        ("tensors/math-tags.tns.xz", (1620, 1629, 90), 561_482),
        ("graphs/email-Enron.mtx.gz", (36_692, 36_692), 367_662),
        ("graphs/cit-HepPh.mtx.gz", (34_546, 34_546), 421_578),
        ("graphs/soc-Slashdot0902.mtx.xz", (82_168, 82_168), 948_464),
        ("hypergraphs/gemat11.mtx.gz", (4929, 4929), 33_185),
    ],
)
def test_shapes_and_counts(shared_data: Path, name: str, shape: tuple[int, ...], nnz: int) -> None:
    data = daskpart.read(shared_data / name)
    held = data if hasattr(data, "nnz") else data.data
    assert (held.shape, held.nnz) == (shape, nnz)


def test_movielens_1m_is_exact(shared_data: Path) -> None:
    ratings = daskpart.read(shared_data / "ratings/ml-1m.ratings.dat.xz")
    histogram = np.bincount(ratings.data.data.astype(int)).tolist()
    assert histogram == [0, 56_174, 107_557, 261_197, 348_971, 226_310]
    movie = ratings.sel(item=2858).data
    assert movie.nnz == 3428
    assert movie.data.mean() == pytest.approx(4.3174, abs=1e-4)
    assert int(ratings["item"].max()) == 3952


@pytest.mark.parametrize(
    ("part", "nnz"), [("train", 719_081), ("valid", 91_047), ("test", 217_242)]
)
def test_gowalla(shared_data: Path, part: str, nnz: int) -> None:
    path = shared_data / f"ratings/gowalla.{part}.txt.gz"
    checkins = daskpart.read(path, format="adjacency")
    assert checkins.sizes["user"] == 29_858 and checkins.data.nnz == nnz
    assert int(checkins["item"].max()) < 40_981


@pytest.mark.parametrize(
    ("name", "shape", "nnz", "positive"),
    [
        ("a9a.libsvm.gz", (32_560, 122), 451_578, 7841),
        ("a9a.t.libsvm.gz", (16_281, 122), 225_731, 3846),
        ("w8a.libsvm.gz", (49_749, 300), 579_586, 1479),
        ("agaricus.test.libsvm.gz", (1611, 126), 35_442, 776),
    ],
)
def test_examples(
    shared_data: Path, name: str, shape: tuple[int, int], nnz: int, positive: int
) -> None:
    data, target = daskpart.read(shared_data / "linear" / name)
    assert (data.shape, data.nnz, int((target > 0).sum())) == (shape, nnz, positive)


def test_examples_agree_with_scikit_learn(shared_data: Path) -> None:
    from sklearn.datasets import load_svmlight_file

    path = shared_data / "linear" / "agaricus.test.libsvm.gz"
    data, target = daskpart.read(path)
    expected, expected_target = load_svmlight_file(str(path))
    np.testing.assert_array_equal(target, expected_target)
    assert (data != expected).nnz == 0


@pytest.mark.parametrize(
    ("name", "n_nodes", "n_edges", "features", "n_classes"),
    [
        ("cora", 2708, 5278, (1433, 49_216), 7),
        ("citeseer", 3327, 4552, (3703, 105_165), 6),
        ("pubmed-nofeatures", 19_717, 44_324, None, 3),
        ("amazon-photo", 7650, 119_081, (745, 1_979_909), 8),
    ],
)
def test_graphs(
    shared_data: Path,
    name: str,
    n_nodes: int,
    n_edges: int,
    features: tuple[int, int] | None,
    n_classes: int,
) -> None:
    graph = daskpart.read(shared_data / "graphs" / f"{name}.npz")
    assert graph.sizes["node"] == n_nodes and graph["adjacency"].data.nnz == 2 * n_edges
    assert int(graph["label"].max()) == n_classes - 1
    assert ("features" in graph) == (features is not None)
    if features is not None:
        assert (graph.sizes["feature"], graph["features"].data.nnz) == features
    assert not (graph["train"] & graph["test"]).any()


def test_a_file_with_one_0_based_mode(shared_data: Path) -> None:
    one_based = daskpart.read(shared_data / "tensors/splatt-small4.tns.gz")
    with pytest.warns(DaskpartWarning, match="mode 4 holds the index 0"):
        mixed = daskpart.read(shared_data / "tensors/splatt-small4_zeroidx.tns.gz")
    assert (one_based != mixed).nnz == 0


def test_a_mesh_is_a_graph_and_not_taken_for_ratings(shared_data: Path) -> None:
    assert daskpart.read(shared_data / "graphs/4elt.graph.gz").n_nets == 45_878
