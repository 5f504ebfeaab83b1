"""Both sides of the comparison: what is given to ours and to the twin, and how results compare.

the parent    problem ─► folder: the problem for ours, a piece a rank for the twin
dask-mpi      ours(client, folder, steps)   ─► seconds of each step, results into the folder
MPI ranks     folder.twin(world, folder, …) ─► the same
the parent    agreement(folder): the same bits, or equal to rounding, or an error
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import data
from benchmarks.studies import gcn_epoch
from benchmarks.studies.problem import matrix
from daskpart import GCNClassifier
from daskpart.collectives import communicator_for
from daskpart.models import CPDecomposition, ImplicitFactorization, MatrixFactorization
from daskpart.models.cp.cut import cut_of_method
from daskpart.models.cp.starts import first_factors
from daskpart.models.linear.estimator import LogisticRegression
from daskpart.models.optimisation.learning_rates import learning_rate

from .folder import Arrays, files, read, write
from .lloyd import lloyd

COMPONENTS = {"MF": 32, "CP": 16, "ALS": 64}
N_POINTS, N_DIMENSIONS, N_CLUSTERS = 40_000, 4, 10
ALGORITHMS = {"Algorithm 1": "p2p", "Algorithm 2": "emb"}
SAME_BITS = ("MF", "CP Algorithm 2", "SGD")


class Result(NamedTuple):
    """Of one turn: seconds of each step, and arrays by name."""

    seconds: list[float]
    arrays: Arrays


class Problem(NamedTuple):
    """What both sides are given; pickled into a file."""

    fit: Callable[[str, Any, int], Result]  # ours: transport, client, steps
    train: Callable[[Any, Any, int], tuple[list[float], dict[str, Any]]]  # the twin's
    pieces: list[Any]


# -- problems, made in the parent process ---


def problems(names: Sequence[str], n_ranks: int) -> Iterable[tuple[str, Problem]]:
    """Name and problem; "MF:ml-1m", "CP:math-tags", "GCN:pubmed" and "k-means" are examples."""
    for name in names:
        kind, _, of = name.partition(":")
        if kind == "MF":
            yield f"MF {of}", factorization(of, n_ranks)
        elif kind == "CP":
            for algorithm, method in ALGORITHMS.items():
                yield f"CP {algorithm} {of}", decomposition(of, n_ranks, method)
        elif kind == "SGD":
            yield f"SGD {of}", classification(of, n_ranks)
        elif kind == "ALS":
            yield f"ALS {of}", implicit_factorization(of, n_ranks)
        elif kind == "GCN":
            yield f"GCN {of}", convolution(of, n_ranks)
        else:
            yield name, clustering(n_ranks)


def factorization(name: str, n_ranks: int) -> Problem:
    """η-PASGD with η = K, users split by the power of connectivity."""
    from . import pasgd

    users, items, values = data.ratings(name)
    X = matrix((users, items, values), (int(users.max()) + 1, int(items.max()) + 1))
    model = MatrixFactorization(COMPONENTS["MF"], n_ranks=n_ranks, partitioner="power")
    plan = model.plan(X, transport="local")
    rate = learning_rate(model.learning_rate, None).initial
    pieces = pasgd.pieces(plan, rate, model.regularization, model.init_scale)
    return Problem(partial(fit_factorization, X, plan), pasgd.train, pieces)


def fit_factorization(X: Any, plan: Any, transport: str, client: Any, n_steps: int) -> Result:
    """Ours."""
    model = MatrixFactorization(
        COMPONENTS["MF"], n_ranks=plan.n_ranks, partitioner="power", transport=transport,
        max_iter=n_steps,
    )  # fmt: skip
    model.fit(X, plan=plan, client=client)
    state = model.state_
    arrays = {"user_factors": state.user_factors, "item_factors": state.item_factors}
    return Result(model.history_["seconds"].tolist(), arrays)


def implicit_factorization(name: str, n_ranks: int) -> Problem:
    """Implicit ALS, conjugate gradients, users split by the power of connectivity."""
    from . import implicit

    users, items, _ = data.ratings(name)
    shape = (int(users.max()) + 1, int(items.max()) + 1)
    X = matrix((users, items, np.ones(len(users), np.float32)), shape)
    model = _implicit(n_ranks)
    plan = model.plan(X, transport="local")
    problem = model._problem(X, None, {}, 0)
    pieces = implicit.pieces(plan, problem.matrix, model, model._first_state(problem, plan))
    return Problem(partial(fit_implicit, X, plan), implicit.train, pieces)


def _implicit(n_ranks: int, **more: Any) -> ImplicitFactorization:
    return ImplicitFactorization(
        COMPONENTS["ALS"], regularization=1.0, n_ranks=n_ranks, partitioner="power", **more
    )


def fit_implicit(X: Any, plan: Any, transport: str, client: Any, n_steps: int) -> Result:
    """Ours."""
    model = _implicit(plan.n_ranks, transport=transport, max_iter=n_steps)
    model.fit(X, plan=plan, client=client)
    state = model.state_
    arrays = {"user_factors": state.user_factors, "item_factors": state.item_factors}
    return Result(model.history_["seconds"].tolist(), arrays)


def decomposition(name: str, n_ranks: int, method: str) -> Problem:
    """CP-ALS, R = 16, by the cut that suits the method."""
    from . import cp

    tensor = data.tensor(name)
    plan = _decomposition(method, n_ranks).plan(tensor, transport="mpi")
    factors = first_factors("random", None, tensor.shape, COMPONENTS["CP"], random_state=0)
    typed = [factor.astype(tensor.values.dtype) for factor in factors]
    fit = partial(fit_decomposition, tensor, plan, method)
    return Problem(fit, cp.train, cp.pieces(plan, tensor, typed))


def _decomposition(method: str, n_ranks: int, **more: Any) -> CPDecomposition:
    return CPDecomposition(
        COMPONENTS["CP"], n_ranks=n_ranks, method=method, tol=0,
        partitioner=cut_of_method(method, n_ranks), **more,
    )  # fmt: skip


def fit_decomposition(
    tensor: Any, plan: Any, method: str, transport: str, client: Any, n_steps: int
) -> Result:
    """Ours."""
    model = _decomposition(method, plan.n_ranks, transport=transport, max_iter=n_steps)
    model.fit(tensor, plan=plan, client=client)
    arrays = {f"factor {mode}": factor for mode, factor in enumerate(model.state_.factors)}
    arrays["fit"] = np.array([model.fit_])
    return Result(model.history_["seconds"].tolist(), arrays)


def convolution(name: str, n_ranks: int) -> Problem:
    """Two layers, 16 hidden columns, 128 random features, the first product in every epoch.

    Vertices are cut by connectivity.
    """
    from . import gcn

    adjacency, X, y = gcn_epoch.problem(name)
    model = _convolution(n_ranks)
    plan = model.plan(X, y, graph=adjacency, transport="mpi")
    problem = model._problem(X, y, {"graph": adjacency}, plan.random_state)
    pieces = gcn.pieces(plan, problem, model._optimizer(plan.network), model.initial_learning_rate)
    return Problem(partial(fit_convolution, (adjacency, X, y), plan), gcn.train, pieces)


def _convolution(n_ranks: int, **more: Any) -> GCNClassifier:
    return GCNClassifier(
        16, n_ranks=n_ranks, first_product="each", partitioner="connectivity", **more
    )


def fit_convolution(given: Any, plan: Any, transport: str, client: Any, n_steps: int) -> Result:
    """Ours."""
    adjacency, X, y = given
    model = _convolution(plan.n_ranks, transport=transport, max_iter=n_steps)
    model.fit(X, y, graph=adjacency, plan=plan, client=client)
    return Result(model.history_["seconds"].tolist(), model.state_.weights)


def classification(name: str, n_ranks: int) -> Problem:
    """Logistic regression by SGD, 250 samples a rank in a step, sparse gradients."""
    from . import linear

    (X, y), _ = data.samples(name)
    pieces = linear.pieces(_classifier(n_ranks), X, y)
    return Problem(partial(fit_classification, X, y, n_ranks), linear.train, pieces)


def _classifier(n_ranks: int, **more: Any) -> LogisticRegression:
    return LogisticRegression(
        solver="sgd", n_ranks=n_ranks, batch_size=250, tol=0, aggregation="ssar-split-allgather",
        **more,
    )  # fmt: skip


def fit_classification(
    X: Any, y: Any, n_ranks: int, transport: str, client: Any, n_steps: int
) -> Result:
    """Ours."""
    model = _classifier(n_ranks, transport=transport, max_iter=n_steps)
    model.fit(X, y, client=client)
    return Result(model.history_["seconds"].tolist(), {"weights": model.state_.weights})


def clustering(n_ranks: int) -> Problem:
    """k-means of points round random corners, the same points for any number of ranks."""
    from . import kmeans

    random = np.random.default_rng(0)
    corners = 10 * random.normal(size=(N_CLUSTERS, N_DIMENSIONS))
    points = corners[random.integers(0, N_CLUSTERS, N_POINTS)]
    points = points + random.normal(size=points.shape)
    pieces = kmeans.pieces(points, N_CLUSTERS, n_ranks)
    return Problem(partial(fit_clustering, pieces), kmeans.train, pieces)


def fit_clustering(pieces: list[Any], transport: str, client: Any, n_steps: int) -> Result:
    """Ours."""
    with communicator_for(transport, len(pieces), client) as communicator:
        points = communicator.values([piece.points for piece in pieces])
        seconds, centres = communicator.run(
            lloyd, points, centres=pieces[0].centres, n_steps=n_steps
        )
    return Result(seconds, {"centres": centres})


# -- a turn, under mpiexec ---


def ours(client: Any, folder: str, n_steps: int, transport: str = "mpi") -> list[list[float]]:
    """Seconds of the steps of every problem in the folder; results are put beside them."""
    return [_ours_of(client, path, n_steps, transport) for path in files(folder)]


def _ours_of(client: Any, path: Path, n_steps: int, transport: str) -> list[float]:
    problem = read(path / "problem")
    result = problem.fit(transport, client, n_steps)
    write(path / "ours", result.arrays)
    return result.seconds


def lay_down(folder: Path, names: Sequence[str], n_ranks: int) -> list[str]:
    """Write every problem into a folder of its own; gives their names, in that order."""
    found = []
    for number, (name, problem) in enumerate(problems(names, n_ranks)):
        place = folder / f"{number:02d}"
        place.mkdir()
        for rank, piece in enumerate(problem.pieces):
            write(place / f"piece-{rank}", (problem.train, piece))
        write(place / "problem", problem._replace(pieces=[]))
        found.append(name)
    return found


def agreement(path: Path, name: str) -> str:
    """How ours and the twin's results compare.

    Raises
    ------
    RuntimeError
        If they differ by more than rounding, or at all where both add in the same order.
    """
    ours = read(path / "ours")
    exact = True
    for part in sorted(path.glob("twin-*")):
        for key, (ids, rows) in read(part).items():
            exact = exact and np.array_equal(ours[key][ids], rows)
            scale = float(np.abs(ours[key]).max(initial=1e-12))
            if not np.allclose(ours[key][ids] / scale, rows / scale, rtol=0, atol=1e-4):
                raise RuntimeError(f"{name}: {key} of {part.name} differs from ours")
    if not exact and name.startswith(SAME_BITS):
        raise RuntimeError(f"{name}: the twin's bits are not ours")
    return "same bits" if exact else "equal to rounding"
