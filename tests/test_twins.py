"""The twins in plain mpi4py compute what ours do: otherwise their seconds would say nothing."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import sparse

import daskpart
from daskpart.containers.matrix import as_matrix
from daskpart.containers.tensor import as_tensor

ROOT = Path(__file__).resolve().parents[1]
N_STEPS = 4


@pytest.fixture
def sides(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Both sides of the comparison, on few ratings and a small tensor."""
    monkeypatch.syspath_prepend(str(ROOT))
    ratings = as_matrix(daskpart.datasets.power_law_ratings(120, 60, 2000, random_state=0))
    triples = (ratings.rows, ratings.columns, ratings.values.astype(np.float32))
    tensor = as_tensor(sparse.random((20, 15, 10), nnz=300, random_state=0))
    data = importlib.import_module("benchmarks.data")
    monkeypatch.setattr(data, "ratings", lambda name: triples)
    monkeypatch.setattr(data, "tensor", lambda name: tensor)
    random = np.random.default_rng(0)
    X = scipy.sparse.random(1200, 300, 0.02, "csr", random_state=random)
    samples = X, (X @ random.normal(size=300) > 0).astype(int)
    monkeypatch.setattr(data, "samples", lambda name: (samples, samples))
    edges = scipy.sparse.random_array((400, 400), density=0.02, rng=np.random.default_rng(0))
    monkeypatch.setattr(data, "graph", lambda name: edges.tocsr())
    sides = importlib.import_module("benchmarks.twins.sides")
    monkeypatch.setattr(sides, "N_POINTS", 500)
    return sides


@pytest.mark.mpi
@pytest.mark.slow
def test_twins_give_what_ours_do(sides: Any, tmp_path: Path) -> None:
    """Ours on threads, which have the bits of every transport; the twins under mpiexec.

    Two ranks, ours under mpiexec too: the study of that name in `test_benchmarks`.
    """
    n_ranks = 4
    clusters = importlib.import_module("benchmarks.studies.clusters")
    if not clusters.has_mpiexec():
        pytest.skip("no mpiexec: pip install 'daskpart[mpi]'")
    kinds = ["MF:few", "ALS:few", "CP:few", "GCN:few", "SGD:few", "k-means"]
    folder = importlib.import_module("benchmarks.twins.folder")
    names = sides.lay_down(tmp_path, kinds, n_ranks)
    assert names == [
        "MF few",
        "ALS few",
        "CP Algorithm 1 few",
        "CP Algorithm 2 few",
        "GCN few",
        "SGD few",
        "k-means",
    ]
    sides.ours(None, str(tmp_path), N_STEPS, transport="local")
    seconds = clusters.on_mpi_ranks(folder.twin, n_ranks, str(tmp_path), N_STEPS)
    assert [len(steps) for steps in seconds] == [N_STEPS] * len(names)
    said = {
        name: sides.agreement(path, name)
        for path, name in zip(folder.files(str(tmp_path)), names, strict=True)
    }
    assert said["MF few"] == said["CP Algorithm 2 few"] == said["SGD few"] == "same bits"


def test_a_twin_that_differs_is_told(sides: Any, tmp_path: Path) -> None:
    write = importlib.import_module("benchmarks.twins.folder").write
    ours, ids = np.arange(6.0).reshape(3, 2), np.array([0, 2])
    write(tmp_path / "ours", {"centres": ours})
    write(tmp_path / "twin-0", {"centres": (ids, ours[ids])})
    assert sides.agreement(tmp_path, "MF few") == "same bits"
    write(tmp_path / "twin-1", {"centres": (ids, ours[ids] + 1e-9)})
    assert sides.agreement(tmp_path, "k-means") == "equal to rounding"
    with pytest.raises(RuntimeError, match="bits are not ours"):
        sides.agreement(tmp_path, "MF few")
    write(tmp_path / "twin-1", {"centres": (ids, ours[ids] + 0.1)})
    with pytest.raises(RuntimeError, match="centres of twin-1 differs"):
        sides.agreement(tmp_path, "k-means")
