"""`warm_up`: the next process finds machine code for what most users need."""

from __future__ import annotations

import subprocess
import sys

import pytest

WARM_UP = "from daskpart._warm_up import warm_up; assert warm_up() > 0"
USE = """
import warnings
from dataclasses import replace
warnings.simplefilter("ignore")
import daskpart
from daskpart._floor.kernels import compile_seconds
counts = daskpart.datasets.load_python_source()["counts"]
for n_parts in (3, 70):
    daskpart.partition(counts, n_parts)
    daskpart.partition(counts, n_parts, "power")
nets = daskpart.Hypergraph.column_net(counts)
daskpart.partition(replace(nets, net_costs=10_000 * nets.net_costs), 3)
daskpart.MatrixFactorization(8, n_ranks=3).fit(counts)
daskpart.ImplicitFactorization(8, n_ranks=3, max_iter=2).fit(counts)
X, y = counts.data.to_scipy_sparse().tocsr()[:90, :200], [0, 1, 2] * 30
for solver in ("sgd", "lbfgs"):
    daskpart.LogisticRegression(n_ranks=3, solver=solver, max_iter=2).fit(X, y)
daskpart.MLPClassifier((5,), n_ranks=3, max_iter=2).fit(X, y)
daskpart.GCNClassifier(n_ranks=3, max_iter=2).fit(X @ X.T, y)
assert compile_seconds() == 0, compile_seconds()
"""


def test_what_would_not_be_kept_is_not_compiled(monkeypatch, capsys, run_cli):
    """It took minutes, and said "warm", where no folder can be written to."""
    monkeypatch.setattr("daskpart._warm_up.why_not_kept", lambda: "the disk is full")
    assert run_cli("warm-up") == 2
    assert "cannot be kept for later processes: the disk is full" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.timeout(1200)  # as long as both processes may take: an empty cache on a busy machine
def test_nothing_is_left_to_compile():
    for code in (WARM_UP, USE):
        subprocess.run([sys.executable, "-c", code], check=True, timeout=600)
