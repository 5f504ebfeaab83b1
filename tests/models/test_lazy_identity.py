"""Which lazy data are the same data: those that Dask knows by the same name."""

from __future__ import annotations

import runpy
import subprocess
import sys

import dask.array as da
import numpy as np
import pytest
import sparse
import xarray as xr

import daskpart
from daskpart.errors import InputError
from daskpart.models.matrix_factorization.state import MFState

OPTIONS = {"n_ranks": 2, "max_iter": 2, "partitioner": "random", "transport": "local"}
SHAPES = {daskpart.CPDecomposition: (12, 10, 8), daskpart.MatrixFactorization: (30, 20)}
KINDS = pytest.mark.parametrize("kind", SHAPES)
WRAPS = pytest.mark.parametrize("wrapped", [False, True])


def lazy(kind, seed, wrapped=False):
    shape = SHAPES[kind]
    found = da.from_array(sparse.random(shape, nnz=200, random_state=seed), chunks=-1)
    return xr.DataArray(found, name="X") if wrapped else found


def model(kind, **changes):
    more = {"tol": 0} if kind is daskpart.CPDecomposition else {}
    return kind(2, **(OPTIONS | more | changes))


@WRAPS
@KINDS
def test_a_plan_of_other_lazy_data_is_refused(kind, wrapped):
    plan = model(kind).plan(lazy(kind, 1, wrapped))
    model(kind).fit(lazy(kind, 1, wrapped), plan=plan)
    with pytest.raises(InputError, match="the plan was made for other data"):
        model(kind).fit(lazy(kind, 2, wrapped), plan=plan)


@WRAPS
@KINDS
def test_a_checkpoint_of_other_lazy_data_is_refused(kind, wrapped, tmp_path):
    kept = {"checkpoint_path": tmp_path / "run.npz"}
    model(kind, **kept).fit(lazy(kind, 1, wrapped))
    more = model(kind, max_iter=3, resume=True, **kept)
    with pytest.raises(InputError, match="data: 'Dask array"):
        more.fit(lazy(kind, 2, wrapped))
    assert more.fit(lazy(kind, 1, wrapped)).n_iter_ == 3


def test_a_warm_start_trains_on_other_lazy_data():
    kind = daskpart.CPDecomposition
    first, second = lazy(kind, 1), lazy(kind, 2)
    found = model(kind, max_iter=30, warm_start=True, tol=1e-2).fit(first).fit(second)
    expected = model(kind, max_iter=30, tol=1e-2, warm_start=True).fit(first)
    expected.fit(second.compute())
    assert found.n_iter_ == expected.n_iter_
    assert found.fit_ == pytest.approx(expected.fit_, abs=1e-9)


PROGRAM = """
import sys
import dask.array as da, numpy as np, sparse
import daskpart

blocks = da.from_array(np.eye(12)[:, :9], chunks=(6, 9)).map_blocks(sparse.COO) * 2
daskpart.MatrixFactorization(
    2, n_ranks=2, partitioner="random", transport="local", max_iter=int(sys.argv[1]),
    checkpoint_path=sys.argv[2], resume=True,
).fit(blocks)
"""


def test_lazy_data_built_alike_are_the_same_in_another_process(tmp_path, monkeypatch):
    script, path = tmp_path / "fit.py", str(tmp_path / "run.npz")
    script.write_text(PROGRAM)
    monkeypatch.setattr(sys, "argv", [str(script), "2", path])
    runpy.run_path(str(script))
    subprocess.run([sys.executable, script, "4", path], check=True, timeout=300)
    state = MFState.load(tmp_path / "run.epoch-000004.npz")
    assert state.epoch == 4 and [row["epoch"] for row in state.history] == [1, 2, 3, 4]
    assert np.isfinite(state.user_factors).all()
