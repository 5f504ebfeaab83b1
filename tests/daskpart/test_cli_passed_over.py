"""An option that method, model or data leave unused is refused, not passed over."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from daskpart.hypergraph import Hypergraph
from daskpart.partitioners import metis

PARTITION = [
    ("--method random --epsilon 0.1", "epsilon"),
    ("--method block --epsilon 0.03", "epsilon"),
    ("--method metis --objective cut-net", "objective"),
    ("--method block --objective connectivity", "objective"),
    ("--method parsa --engine multilevel", "engine"),
    ("--compare --method direct", "method"),
]
SIMULATE = [
    ("--method random --objective cut-net", "objective"),
    ("--method hypercube --objective power", "objective"),
    ("--method metis --objective connectivity", "objective"),
    ("--method block --epsilon 0.1", "epsilon"),
]
FIT = [
    ("mf x --schedule dsgd --eta 2", "eta"),
    ("mf x --schedule dsgd --averaging ratings", "averaging"),
    ("mf x --schedule gasgd --axis rows", "axis"),
    ("mf x.mtx --user a --item b", "user"),
    ("implicit x --solver cholesky --cg-steps 2", "cg-steps"),
    ("implicit x --block-size 8", "block-size"),
    ("implicit x.mtx --user a --item b", "user"),
    ("cp python-source --format mtx", "format"),
    ("logistic x --test x --test-fraction 0.2", "test-fraction"),
    ("logistic x --batch-size 8", "batch-size"),
    ("logistic x --no-shuffle", "shuffle"),
    ("logistic x --average no", "average"),
    ("logistic x --solver server --aggregation dense", "aggregation"),
    ("logistic x --n-blocks 4", "n-blocks"),
    ("logistic x --solver sgd --power-t 1", "power-t"),
    ("svm x --solver sgd --learning-rate optimal --eta0 1", "eta0"),
    ("svm x --optimizer adam", "optimizer"),
    ("linear x --epsilon 2", "epsilon"),
    ("linear x --label y", "label"),
    ("mlp x --test x --test-fraction 0.2", "test-fraction"),
    ("mlp x --power-t 1", "power-t"),
    ("mlp x --hidden-layer-sizes 0 --activation tanh", "activation"),
    ("mlp x --top-k-bucket 64", "top-k-bucket"),
    ("mlp x --label 0", "label"),
    ("gcn python-source --labels y.txt", "labels"),
    ("gcn python-source --features X.npy", "features"),
    ("gcn python-source --format edges", "format"),
    ("gcn x --power-t 1", "power-t"),
    ("gcn x --hidden 0 --activation tanh", "activation"),
    ("gcn x --sampler neighbour", "sampler"),
    ("gcn x --monitor score", "monitor"),
]


@pytest.fixture
def refused(run_cli, capsys, tmp_path, monkeypatch):
    """Run a command that ends with the advice to leave an option out."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").write_text("1 1:0.5 2:1\n2 1:1\n1 2:0.25\n")
    matrix = scipy.sparse.random_array((30, 20), density=0.2, rng=np.random.default_rng(0))
    scipy.io.mmwrite(tmp_path / "x.mtx", matrix)

    def run(option: str, *arguments: object) -> None:
        assert run_cli(*arguments) == 2
        told = " ".join(capsys.readouterr().err.split())
        assert "leave" in told and f"--{option}" in told.partition("leave")[2]

    return run


@pytest.mark.parametrize(("options", "option"), PARTITION)
def test_of_partition(options, option, refused, rating_file):
    refused(option, "partition", rating_file, "--no-plots", *options.split())


@pytest.mark.parametrize("kind", ["expand", "reduce", "sparse-allreduce"])
@pytest.mark.parametrize(("options", "option"), SIMULATE)
def test_of_simulate(kind, options, option, refused, rating_file):
    refused(option, "simulate", kind, rating_file, *options.split())


@pytest.mark.parametrize(("arguments", "option"), FIT)
def test_of_fit(arguments, option, refused):
    refused(option, "fit", *arguments.split())


@pytest.mark.parametrize(
    "command", [["partition"], ["partition", "--compare"], ["simulate", "expand"]], ids=" ".join
)
def test_a_hypergraph_needs_no_model(command, refused):
    nets = scipy.sparse.random_array((12, 9), density=0.3, rng=np.random.default_rng(0))
    Hypergraph.column_net(nets).write("nets.hgr")
    refused("model", *command, "nets.hgr", "--model", "row-net")
    refused("model", "convert", "nets.hgr", "other.u", "--model", "row-net")


@pytest.mark.skipif(not metis.is_installed(), reason="an engine stands in for METIS")
def test_metis_uses_no_engine(refused, rating_file):
    refused("engine", "partition", rating_file, "--method", "metis", "--engine", "multilevel")


def test_what_acts_behind_the_method_is_taken(rating_file, tmp_path, run_cli):
    """Moves of single vertices look at ε, whoever made the parts."""
    options = ("--method", "block", "--parts", 4, "--refine", "connectivity", "--no-plots")
    found = []
    for epsilon in (0.01, 0.5):
        out = tmp_path / str(epsilon)
        given = ("--epsilon", epsilon, "--out", out)
        assert run_cli("partition", rating_file, *options, *given) == 0
        found.append((out / "partition.npz").read_bytes())
    assert found[0] != found[1]
