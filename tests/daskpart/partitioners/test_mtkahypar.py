"""Mt-KaHyPar in its child process: what is sent, and what happens when the child fails."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

from daskpart.errors import EngineError, InputError
from daskpart.hypergraph import Hypergraph
from daskpart.partitioners import mtkahypar

needs_mtkahypar = pytest.mark.skipif(
    importlib.util.find_spec("mtkahypar") is None, reason="mtkahypar is not installed"
)


def ring(n: int = 60, weights=None, costs=None) -> Hypergraph:
    """Vertex i and i + 1 share a net."""
    pins = np.stack([np.arange(n), (np.arange(n) + 1) % n], axis=1).ravel()
    return Hypergraph.from_nets(np.arange(0, 2 * n + 1, 2), pins, n, weights, costs)


@needs_mtkahypar
def test_same_seed_same_parts():
    first, again = (mtkahypar.MtKaHyParEngine().partition(ring(), 3, 0.03, 7) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(np.bincount(first), [20, 20, 20])


@needs_mtkahypar
def test_the_library_stays_out_of_this_process():
    """It would hold the GIL and take its thread count once and for all."""
    code = (
        "import sys, numpy as np\n"
        "from daskpart.hypergraph import Hypergraph\n"
        "from daskpart.partitioners.engine import get_engine\n"
        "graph = Hypergraph.from_nets([0, 2, 4, 6], [0, 1, 1, 2, 2, 3], 4)\n"
        "print(get_engine('mtkahypar').partition(graph, 2, 0.0, 0).tolist())\n"
        "assert 'mtkahypar' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("[0, 0, 1, 1]", "[1, 1, 0, 0]")


def test_what_the_child_is_sent():
    """Repeated pins, empty nets, nets of one pin and of cost 0 stay here; anchors weigh 1."""
    given = Hypergraph(
        n_vertices=4,
        net_pointer=np.array([0, 3, 3, 4, 6, 8]),
        pins=np.array([0, 1, 1, 2, 2, 3, 0, 3], np.int32),
        vertex_weights=np.array([0, 5, 5, 0]),
        net_costs=np.array([3, 1, 1, 2, 0]),
    )
    fixed = np.array([0, -1, -1, -1], np.int8)
    task = mtkahypar._task(given, np.array([5, 5]), 0.2, fixed)
    assert task["net_pointer"].tolist() == [0, 2, 4]
    assert task["pins"].tolist() == [0, 1, 2, 3]
    assert task["net_costs"].tolist() == [3, 2]
    assert task["vertex_weights"].tolist() == [1, 5, 5, 0]
    assert task["limits"].tolist() == [7, 6]


def test_weights_and_costs_are_made_to_fit():
    vast = ring(4, weights=[2**40, 2**40, 1, 0], costs=[2**50, 1, 2**49, 2**50])
    task = mtkahypar._task(vast, np.array([2**40 + 1, 2**40]), 0.03, np.full(4, -1, np.int8))
    for entry in ("vertex_weights", "net_costs"):
        assert task[entry].dtype == np.int32
        assert task[entry].astype(np.int64).sum() < 2**31
    assert task["vertex_weights"][3] == 0
    assert task["net_costs"].min() == 1
    np.testing.assert_allclose(task["net_costs"][0] / task["net_costs"][2], 2, rtol=1e-6)


def test_not_installed(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EngineError, match=r"pip install 'daskpart\[quality\]'"):
        mtkahypar.MtKaHyParEngine()


@needs_mtkahypar
@pytest.mark.parametrize(
    ("body", "options", "message"),
    [
        ("raise SystemExit('no luck today')", {}, "exit status 1.*no luck today"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", {}, "killed by SIGKILL"),
        ("pass", {}, "said nothing"),
        ("import time; time.sleep(60)", {"timeout": 0.2}, r"0\.2 s"),
    ],
)
@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL")
def test_a_child_that_dies_or_takes_too_long_is_an_engine_error(
    tmp_path, monkeypatch, body, options, message
):
    worker = tmp_path / "worker.py"
    worker.write_text(f"import sys\nsys.stdin.buffer.read()\n{body}\n")
    monkeypatch.setattr(mtkahypar, "WORKER", worker)
    with pytest.raises(EngineError, match=f"(?s){message}"):
        mtkahypar.MtKaHyParEngine(**options).partition(ring(), 2, 0.03, 0)


@needs_mtkahypar
@pytest.mark.parametrize("options", [{"preset": "best"}, {"n_threads": 0}])
def test_options_are_checked(options):
    with pytest.raises(InputError, match=next(iter(options))):
        mtkahypar.MtKaHyParEngine(**options)
