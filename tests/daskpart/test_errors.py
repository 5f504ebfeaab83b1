"""Warnings: each names the line of the user, however deep in the house its reason shows."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import sparse
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import daskpart
from daskpart.errors import BalanceWarning, DaskpartWarning, warn

ROOT = Path(daskpart.__file__).parents[1]
TENSOR = sparse.random((8, 7, 6), nnz=40, random_state=0)
MATRIX = scipy.sparse.random(40, 8, 0.5, format="csr", random_state=0)
CLASSES = np.arange(40) % 2
LOCAL = {"n_ranks": 2, "transport": "local"}


def _linear():
    return daskpart.models.LogisticRegression(max_iter=1, **LOCAL)


def _decomposition():
    return daskpart.CPDecomposition(2, missing="unknown", ridge=9.0, max_iter=1, **LOCAL)


def _repeats(tmp_path):
    path = tmp_path / "edges.tns"
    path.write_text("1 1 1 2.0\n1 1 1 3.0\n2 2 2 1.0\n")
    return daskpart.read(path)


@pytest.mark.parametrize(
    "work",
    [
        _repeats,
        lambda _: daskpart.partition(daskpart.Hypergraph.from_nets([0, 2], [0, 1], 2, [9, 1]), 2),
        lambda _: _decomposition().fit(TENSOR),
        lambda _: _decomposition().plan(TENSOR),
        lambda _: daskpart.MatrixFactorization(2, eta=9, max_iter=1, **LOCAL).fit(MATRIX),
        lambda _: _linear().fit(MATRIX, CLASSES),
        lambda _: cross_val_score(_linear(), MATRIX, CLASSES, cv=2),
        lambda _: make_pipeline(_linear()).fit(MATRIX, CLASSES),
    ],
)
def test_a_warning_names_the_line_of_the_user(tmp_path, work):
    with pytest.warns(DaskpartWarning) as told:
        work(tmp_path)
    assert {each.filename for each in told} == {__file__}


def test_a_category_may_be_given():
    with pytest.warns(BalanceWarning, match="^words$") as told:
        warn("words", BalanceWarning)
    assert told[0].filename == __file__


def test_nothing_warns_by_itself():
    """It would have to count how many calls of the house there are between."""
    others = []
    for folder in ("daskpart", "collectives", "models"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn":
                    others.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert [each.partition(":")[0] for each in others] == ["daskpart/errors.py"], others
