"""The bits of both models, as they were before the models got a base: no change of order unnoticed.

Kernels vectorise by the processor. So that bits are the same on every x86-64 processor with AVX2, a
process of its own compiles for that level of the architecture, whatever the one at hand has beyond.
AdaGrad's steps go by 1/√x, which processors of each maker estimate in a way of their own.
Partitioners count, on every processor alike: cuts are made here, with kernels that other tests need
too. `python tests/models/test_digests.py > tests/models/digests.json` writes the fixture anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

FILE = Path(__file__).with_name("digests.json")

RATINGS = {
    **{f"K={k} eta={eta}": {"n_ranks": k, "eta": eta}
       for k in (1, 2, 3, 4, 5, 8) for eta in sorted({1, min(2, k), k})},
    "columns": {"axis": "columns"},
    "auto axis": {"axis": "auto", "eta": 2},
    "power": {"partitioner": "power", "eta": 2},
    "connectivity": {"partitioner": "connectivity"},
    "block": {"partitioner": "block", "n_components": 17},
    "by ratings": {"averaging": "ratings", "eta": 1},
    "constant": {"learning_rate": "constant", "biases": False, "eta": 2},
    "decay": {"learning_rate": "decay", "eta": 2},
    "bold driver": {"learning_rate": "bold-driver", "eta": 2},
    "validation": {"validation_fraction": 0.2, "eta": 2},
    "seed": {"random_state": 7},
    "resumed": {"learning_rate": "bold-driver", "eta": 2, "resume": True},
}  # fmt: skip
TENSORS = {
    **{f"{method} K={k} modes={modes}": {"method": method, "n_ranks": k, "modes": modes}
       for method in ("p2p", "emb", "emb-naive") for k in (1, 2, 3, 4, 5, 8) for modes in (2, 3, 4)
       if k in (3, 4) or modes == 3},
    "auto": {"method": "auto"},
    # the paper's models, as named ones weigh rows too
    "medium-grain": {"partitioner": {"model": "medium-grain"}},
    "hypercube": {"partitioner": {"model": "medium-grain", "method": "hypercube"}},
    "drawn owners": {"owners": "random"},
    "nonnegative": {"nonnegative": True},
    "ridge": {"ridge": 0.1, "method": "p2p"},
    "float32": {"dtype": "float32"},
    "small": {"memory": "small", "modes": 4},
    "vectors": {"init": "nvecs"},
    "starts": {"n_init": 3},
    "tolerance": {"tol": 3e-3, "max_iter": 50},
    "lazy": {"lazy": True},
    "resumed": {"resume": True},
    "resumed p2p": {"resume": True, "method": "p2p"},
}  # fmt: skip

LEVEL = {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": "", "OPENBLAS_CORETYPE": "Haswell"}
CUT = ("power", "connectivity", "medium-grain", "hypercube")  # by kernels of the partitioners


def digest(*arrays) -> str:
    """Of the bits of some arrays."""
    whole = hashlib.sha256()
    for array in arrays:
        array = np.ascontiguousarray(array)
        whole.update(f"{array.dtype} {array.shape}".encode())
        whole.update(array.tobytes())
    return whole.hexdigest()[:16]


def ratings_fitted(options: dict):
    """A factorization of 80 × 50 ratings."""
    import daskpart

    chosen = {
        "n_components": 6, "n_ranks": 4, "partitioner": "random", "transport": "local",
        "max_iter": 4,
    } | options  # fmt: skip
    ratings = daskpart.datasets.power_law_ratings(80, 50, 1500, random_state=0)
    return _fitted(daskpart.MatrixFactorization, chosen, ratings)


def of_ratings(options: dict) -> str:
    """Of all that a fit of ratings gives."""
    fitted = ratings_fitted(options)
    state, history = fitted.state_, fitted.history_
    rows = history[["train_rmse", "validation_rmse", "learning_rate"]].to_numpy(np.float64)
    counts = history[["staleness", "volume"]].to_numpy(np.int64)
    return digest(
        state.user_factors, state.item_factors, state.user_bias, state.item_bias,
        state.user_gradient, state.item_gradient, np.float64(state.global_mean), rows, counts,
        np.asarray(fitted.comm_report_.traffic, np.float64),
    )  # fmt: skip


def drawn_tensor(modes: int):
    """A random tensor."""
    import sparse

    shape = {2: (40, 30), 3: (30, 20, 10), 4: (20, 15, 10, 6)}[modes]
    random = np.random.default_rng(len(shape))
    cells = random.choice(np.prod(shape), 500, replace=False)
    return sparse.COO(np.array(np.unravel_index(cells, shape)), random.random(500), shape=shape)


def of_tensor(options: dict) -> str:
    """Of a decomposition of a random tensor."""
    import dask.array as da

    import daskpart

    chosen = {
        "n_components": 5, "n_ranks": 4, "partitioner": "random", "transport": "local",
        "max_iter": 4, "tol": 0,
    } | options  # fmt: skip
    tensor = drawn_tensor(chosen.pop("modes", 3))
    if chosen.pop("lazy", False):
        tensor = da.from_array(tensor, chunks=(10, 20, 5))
    fitted = _fitted(daskpart.CPDecomposition, chosen, tensor)
    state, history = fitted.state_, fitted.history_
    rows = history[["fit", "fit_change"]].to_numpy(np.float64)
    counts = history[["volume", "messages"]].to_numpy(np.int64)
    measured = np.asarray(fitted.comm_report_.measured_messages, np.float64)
    return digest(*state.factors, state.weights, rows, counts, measured)


def _fitted(kind, options: dict, data):
    if not options.pop("resume", False):
        return kind(**options).fit(data)
    with tempfile.TemporaryDirectory() as folder:
        options["checkpoint_path"] = Path(folder) / "run.npz"
        kind(**options).fit(data)
        return kind(**{**options, "max_iter": 7}, resume=True).fit(data)


def libraries() -> str:
    """Those that decide how kernels are vectorised, and in which order is added."""
    import numba
    import scipy

    return f"numba {numba.__version__}, NumPy {np.__version__}, SciPy {scipy.__version__}"


def estimates() -> str:
    """Of 1/√x, as this processor makes them."""
    import numba

    @numba.njit(fastmath=True)
    def inverted(values):
        for i in range(len(values)):
            values[i] = np.float32(1.0) / np.sqrt(values[i])

    values = np.arange(1, 1000, dtype=np.float32)
    inverted(values)
    return digest(values)


def cuts() -> dict[str, np.ndarray]:
    """The ranks by the partitioners of `CUT`: of users, and of nonzeros."""
    from daskpart.containers.tensor import as_tensor
    from daskpart.models.cp.cut import nonzero_parts

    tensor = as_tensor(drawn_tensor(3))
    users = {n: ratings_fitted(RATINGS[n]).partition_.assignment for n in CUT[:2]}
    return users | {
        n: nonzero_parts(tensor, 4, TENSORS[n]["partitioner"], n_components=5, random_state=0)
        for n in CUT[2:]
    }


def digests_here(path: str) -> dict:
    """By kernels of this process, with the cuts at `path`."""
    with np.load(path) as held:
        given = {name: {"partitioner": parts} for name, parts in held.items()}
    return {
        "libraries": libraries(),
        "estimates": estimates(),
        "ratings": {name: of_ratings(o | given.get(name, {})) for name, o in RATINGS.items()},
        "tensor": {name: of_tensor(o | given.get(name, {})) for name, o in TENSORS.items()},
    }


def digests() -> dict:
    """By this file as a program that compiles for `LEVEL`."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "cuts.npz")
        np.savez(path, **cuts())
        done = subprocess.run(
            [sys.executable, __file__, path],
            env=os.environ | LEVEL,
            stdout=subprocess.PIPE,
            check=True,
        )
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, str]]:
    """The digests of today, by this file as a program."""
    kept = json.loads(FILE.read_text())
    if kept["libraries"] != libraries():
        pytest.skip(f"the fixture is of {kept['libraries']}, here are {libraries()}")
    features = llvm.get_host_cpu_features()
    if not (features.get("avx2") and features.get("fma")):
        pytest.skip("the fixture is of x86-64 processors with AVX2")
    return digests()


CASES = [("ratings", name) for name in RATINGS] + [("tensor", name) for name in TENSORS]


@pytest.mark.parametrize(("model", "name"), CASES)
def test_the_bits_are_as_they_were(found, model, name):
    kept = json.loads(FILE.read_text())
    is_adagrad = model == "ratings" and "learning_rate" not in RATINGS[name]
    if is_adagrad and found["estimates"] != kept["estimates"]:
        pytest.skip("the fixture is of a processor that estimates 1/√x otherwise")
    assert found[model][name] == kept[model][name]


if __name__ == "__main__":
    sys.path.insert(0, str(FILE.parents[2]))
    warnings.simplefilter("ignore")
    print(json.dumps(digests_here(sys.argv[1]) if sys.argv[1:] else digests(), indent=1))
