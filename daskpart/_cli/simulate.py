"""`daskpart simulate`: what messages would cost on any number of ranks, counted in this process.

    expand, reduce      data ─► cut ─► plan ─► point to point, through a hypercube
    allreduce           so many bytes on so many ranks, by each algorithm
    sparse-allreduce    N, k, or data whose parts give the entries; counted or expected
    plan                a plan in a file

Each gives lines of one table: messages, bytes and α–β seconds of one way to do it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import daskpart
from daskpart._floor.progress import tracked
from daskpart._floor.tables import fixed, text_lines
from daskpart.collectives import (
    Simulation,
    embed,
    expand_plan,
    expected_allreduces,
    random_vectors,
    simulate,
    simulate_allreduce,
    simulate_sparse_allreduce,
)
from daskpart.collectives.cost_model import CostModel, Problem
from daskpart.collectives.hypercube import load_plan
from daskpart.collectives.simulator import DENSE_ALGORITHMS
from daskpart.collectives.sparse_steps import ALGORITHMS
from daskpart.connectivity import Connectivity
from daskpart.containers.dask_blocks import cut_by_part
from daskpart.data_models import DataModel, build
from daskpart.errors import InputError, ReadError
from daskpart.partitions import WITHOUT_ROWS

from .cut import check_objective, parts_of
from .inputs import load_any
from .pictures import check_picture, save_picture
from .terminal import answer, say, say_aside

ROUTINGS = ("point-to-point", "aware", "naive")
_MOST_COUNTED_RANKS, _MOST_COUNTED_ENTRIES = 512, 20_000_000
_MOST_COUNTED_MESSAGES, _MOST_PRICED_RANKS = 50_000_000, 2**16  # some seconds


@dataclass(frozen=True)
class CostSettings:
    """What every simulation is told: the α–β model, and where the table goes."""

    alpha: float
    beta: float
    json: bool
    plot: Path | None

    def __post_init__(self) -> None:
        if self.plot is not None:
            check_picture(self.plot)


@dataclass(frozen=True)
class Cutting:
    """How data are cut, where there are any."""

    partition: Path | None
    model: str
    method: str
    objective: str
    epsilon: float
    random_state: int
    format: str | None


class Line(NamedTuple):
    """One way on one number of ranks; bytes and seconds."""

    ranks: int
    algorithm: str
    rounds: int
    messages: float  # of the busiest rank, as bytes
    bytes: float
    total_bytes: float
    seconds: float
    seconds_without_lock_step: float | None  # None: an expected figure, all ranks alike


Job = Callable[[], Line]


def run_plan(
    kind: str, data: str, parts: Sequence[int], routing: str, row_bytes: int,
    cut: Cutting, cost: CostSettings,
) -> None:  # fmt: skip
    """`simulate expand` and `simulate reduce`."""
    connectivities = list(_connectivities(data, parts, cut, cost))
    ways = ROUTINGS if routing == "all" else (routing,)

    def line(connectivity: Connectivity, way: str) -> Line:
        plan = expand_plan(connectivity)
        plan = plan if kind == "expand" else plan.reversed()
        if way != "point-to-point":
            plan = embed(plan, aware=way == "aware")
        return _line(way, simulate(plan, row_bytes=row_bytes, alpha=cost.alpha, beta=cost.beta))

    jobs = [partial(line, connectivity, way) for connectivity in connectivities for way in ways]
    _tell(f"{kind} of {data}, {row_bytes:,} bytes a row", jobs, cost)


def run_allreduce(ranks: Sequence[int], n_bytes: int, algorithm: str, cost: CostSettings) -> None:
    """`simulate allreduce`."""
    names = tuple(DENSE_ALGORITHMS) if algorithm == "all" else (algorithm,)

    def line(n_ranks: int, name: str) -> Line:
        found = simulate_allreduce(n_ranks, n_bytes, name, alpha=cost.alpha, beta=cost.beta)
        return _line(name, found)

    jobs: list[Job] = []
    for n_ranks in ranks:
        few = [name for name in names if _n_messages(name, n_ranks) <= _MOST_COUNTED_MESSAGES]
        if not few:
            raise InputError(
                f"--ranks {n_ranks}: {' and '.join(names)} would send over "
                f"{_MOST_COUNTED_MESSAGES:,} messages, more than can be counted here; take fewer "
                "ranks"
            )
        if len(few) < len(names):
            left_out = ", ".join(name for name in names if name not in few)
            say_aside(f"{n_ranks:,} ranks: too many messages to count by {left_out}")
        jobs += [partial(line, n_ranks, name) for name in few]
    _tell(f"allreduce of {n_bytes:,} bytes", jobs, cost)


def _n_messages(algorithm: str, n_ranks: int) -> int:
    """About as many as a dense allreduce sends, which is what counting them costs."""
    halvings = (n_ranks - 1).bit_length()
    rounds = {"star": 2, "ring": 2 * n_ranks, "rabenseifner": 2 * halvings}
    return n_ranks * rounds.get(algorithm, halvings)


def run_sparse_allreduce(
    data: str | None, ranks: Sequence[int], dimension: int, nonzeros: int, algorithm: str,
    how: str, spread: str, dtype: str, cut: Cutting, cost: CostSettings,
) -> None:  # fmt: skip
    """`simulate sparse-allreduce`."""
    if algorithm not in ("all", *ALGORITHMS):
        raise InputError(f"--algorithm {algorithm}; allowed are all, {', '.join(ALGORITHMS)}")
    ranks = ranks or (() if cut.partition else (8, 64))
    if max(ranks, default=0) > _MOST_PRICED_RANKS:
        raise InputError(f"--ranks {max(ranks)}: at most {_MOST_PRICED_RANKS:,} are priced here")
    names = ALGORITHMS if algorithm == "all" else (algorithm,)
    if data is not None:
        if how == "expected":
            raise InputError("--how expected is for entries spread evenly; data is counted")
        jobs = [
            job
            for connectivity in _connectivities(data, ranks, cut, cost)
            for job in _counted(_items_of(connectivity), connectivity.n_items, names, dtype, cost)
        ]
        _tell(f"sparse allreduce of what the parts of {data} touch", jobs, cost)
        return
    jobs = []
    for n_ranks in ranks:
        if _is_counted(how, spread, n_ranks, nonzeros):
            vectors = random_vectors(
                n_ranks, dimension, nonzeros, spread=spread, random_state=cut.random_state
            )
            jobs += _counted(vectors, dimension, names, dtype, cost)
        else:
            jobs += _expected(n_ranks, dimension, nonzeros, names, dtype, cost)
    _tell(f"sparse allreduce of {nonzeros:,} of {dimension:,} {dtype} a rank", jobs, cost)


def run_file(path: Path, row_bytes: int, cost: CostSettings) -> None:
    """`simulate plan`."""
    try:
        plan = load_plan(path)
    except ReadError:
        _refuse_plan_of_fit(path)
        raise
    found = simulate(plan, row_bytes=row_bytes, alpha=cost.alpha, beta=cost.beta, name=path.name)
    answer(json.dumps(found.to_dict()) if cost.json else repr(found))
    _draw("traffic", plan, cost)


def _refuse_plan_of_fit(path: Path) -> None:
    """Say so where it is one: it holds the cut, and no messages."""
    from daskpart.models.base.plan import SavedPlan

    try:
        SavedPlan.load(path)
    except InputError:
        return
    raise InputError(
        f"{path} is the plan of a fit: it holds the cut, and messages follow from the data. "
        f"'daskpart fit MODEL DATA --plan {path}' says what they cost; 'daskpart simulate expand "
        "DATA' cuts data, and counts messages"
    )


# -- jobs ---


def _connectivities(
    data: str, parts: Sequence[int], cut: Cutting, cost: CostSettings
) -> Iterator[Connectivity]:
    """What parts of the data share (columns of a matrix), cut into each number of parts."""
    loaded = load_any(data, cut.format, cut.model)
    if cut.partition is not None:
        model, given = parts_of(loaded, data, cut.partition, cut.model, cut.random_state)
        _refuse_without_rows(model)
        if parts and set(parts) != {given.n_parts}:
            raise InputError(
                f"{cut.partition} has {given.n_parts} parts: leave out the number of ranks"
            )
        partitions = [given]
    else:
        most = max(parts or (8,))
        model = build(loaded, cut.model, n_parts=most, random_state=cut.random_state)
        _refuse_without_rows(model)
        check_objective(cut.method, model)
        partitions = [
            daskpart.partition(
                model, n_parts, cut.objective, method=cut.method, epsilon=cut.epsilon,
                random_state=cut.random_state,
            )
            for n_parts in tracked(parts or (8,), "cutting", not cost.json)
        ]  # fmt: skip
    for partition in partitions:
        connectivity = Connectivity.from_partition(model.hypergraph, partition)
        yield connectivity.with_random_owners(cut.random_state)


def _refuse_without_rows(model: DataModel) -> None:
    if model.name in WITHOUT_ROWS:
        raise InputError(
            f"parts of the model {model.name!r} share {WITHOUT_ROWS[model.name]}, which are no "
            "rows that could be sent: take another --model, such as column-net-self-loops"
        )


def _items_of(connectivity: Connectivity) -> list[np.ndarray]:
    items = np.repeat(np.arange(connectivity.n_items), np.diff(connectivity.pointer))
    return [own for (own,) in cut_by_part(connectivity.parts, connectivity.n_parts, items)]


def _is_counted(how: str, spread: str, n_ranks: int, entries: int) -> bool:
    few = n_ranks <= _MOST_COUNTED_RANKS and n_ranks * entries <= _MOST_COUNTED_ENTRIES
    if spread != "even" and (how == "expected" or (not few and how == "auto")):
        raise InputError(
            "only entries spread evenly have expected figures: --how counted with --spread "
            f"{spread}, and fewer ranks or nonzeros if memory ends"
        )
    return how == "counted" or (how == "auto" and few)


def _counted(
    vectors: list[np.ndarray], size: int, names: Sequence[str], dtype: str, cost: CostSettings
) -> list[Job]:
    entries = sum(map(len, vectors)) / len(vectors)
    problem = Problem(len(vectors), size, entries, dtype)
    choices = CostModel(message=cost.alpha, byte=cost.beta).best_of_each(problem)

    def line(name: str) -> Line:
        options = {"group": choices[name].group, "degrees": choices[name].degrees}
        found = simulate_sparse_allreduce(
            vectors, size, name, dtype=dtype, alpha=cost.alpha, beta=cost.beta,
            **options,  # type: ignore[arg-type]
        )  # fmt: skip
        return _line(name, found)

    return [partial(line, name) for name in names]


def _expected(
    n_ranks: int,
    dimension: int,
    nonzeros: int,
    names: Sequence[str],
    dtype: str,
    cost: CostSettings,
) -> list[Job]:
    found = expected_allreduces(
        n_ranks, dimension, nonzeros, dtype=dtype, alpha=cost.alpha, beta=cost.beta
    )
    lines = {
        entry.algorithm: Line(
            n_ranks, entry.algorithm, entry.n_rounds, entry.messages, entry.nbytes,
            entry.nbytes * n_ranks, entry.seconds, None,
        )
        for entry in found
    }  # fmt: skip
    return [partial(lines.__getitem__, name) for name in names]


def _line(name: str, found: Simulation) -> Line:
    return Line(
        found.n_ranks, name, found.n_rounds,
        np.maximum(found.messages_sent, found.messages_received).max().item(),
        np.maximum(found.bytes_sent, found.bytes_received).max().item(),
        float(found.bytes_sent.sum()), found.seconds, found.seconds_without_lock_step,
    )  # fmt: skip


# -- what is told ---


def _tell(title: str, jobs: Sequence[Job], cost: CostSettings) -> None:
    lines = [job() for job in tracked(jobs, "counting", not cost.json)]
    if cost.json:
        costs = {"alpha": cost.alpha, "beta": cost.beta}
        answer(json.dumps({"title": title, **costs, "lines": [line._asdict() for line in lines]}))
    else:
        answer(f"{title}; α {cost.alpha:g} s a message, β {cost.beta:g} s a byte")
        for row in table(lines):
            answer(row)
        if any(line.seconds_without_lock_step is None for line in lines):
            answer(
                "expected, by the closed form for entries spread evenly; --how counted merges some"
            )
    _draw("simulated", lines, cost)


def table(lines: Sequence[Line]) -> list[str]:
    """The lines as text, the fastest of each number of ranks marked."""
    heads = [
        "ranks",
        "algorithm",
        "rounds",
        "messages",
        "kB",
        "MB in all",
        "ms",
        "ms, no lock-step",
    ]
    rows = [heads]
    for line in lines:
        best = min(other.seconds for other in lines if other.ranks == line.ranks)
        free = line.seconds_without_lock_step
        rows.append([
            f"{line.ranks:,}", line.algorithm + (" *" if line.seconds == best else ""),
            f"{line.rounds:,}", f"{line.messages:,.0f}", fixed(line.bytes / 1e3, 1),
            fixed(line.total_bytes / 1e6, 1), fixed(1e3 * line.seconds, 3),
            "" if free is None else fixed(1e3 * free, 3),
        ])  # fmt: skip
    return [*text_lines(rows), "messages and kB of the busiest rank; * least time"]


def _draw(name: str, what: Any, cost: CostSettings) -> None:
    if cost.plot is None:
        return
    from daskpart import plots

    save_picture(cost.plot, (7.6, 4.2), partial(getattr(plots, name), what))
    if not cost.json:
        say(f"  {cost.plot}  picture")


def settings_of(kind: type, options: dict[str, Any]) -> Any:
    """Take out of a command's options those of a settings class."""
    return kind(**{entry.name: options.pop(entry.name) for entry in fields(kind)})
