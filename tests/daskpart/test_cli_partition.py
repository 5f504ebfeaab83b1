"""`daskpart partition`, `convert` and `simulate`: what is taken, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse

import daskpart


@pytest.fixture(scope="module")
def graph_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("graph") / "A.npz"
    graph = scipy.sparse.random_array((40, 40), density=0.1, rng=np.random.default_rng(0))
    scipy.sparse.save_npz(path, graph.tocsr())
    return path


def test_mini_batches_of_a_graph_are_compared(graph_file, tmp_path, capsys, run_cli):
    few = ("--parts", 3, "--no-plots", "--out", tmp_path)
    assert run_cli("partition", graph_file, "--model", "stochastic", "--compare", *few) == 0
    assert "direct" in capsys.readouterr().out


def test_a_table_with_a_header_alone_has_no_values(tmp_path, capsys, run_cli):
    path = tmp_path / "empty.csv"
    path.write_text("a,b,c,value\n")
    assert run_cli("fit", "cp", path, "--value", "value", "--out", tmp_path / "out") == 2
    assert "column 'value' is empty" in capsys.readouterr().err
