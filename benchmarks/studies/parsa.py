"""Parsa beside other partitioners, against |E|, against τ, and in little memory.

methods    random, Parsa in four ways, METIS, direct K-way; one placement of parameters for all
growth     rows of a data set, 1/64 to all: seconds against |E| at several k
delay      parallel Parsa on a parameter server: what is lost for τ
memory     a libsvm file in a new process: its peak against the limit that was given
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import click
import numpy as np
import scipy.sparse

import daskpart
from benchmarks import data
from daskpart.errors import BalanceWarning
from daskpart.parsa import NeighbourSets, place_parameters
from daskpart.parsa.bipartite import Bipartite

from .output import Origin, out_option, write_numbers, write_section

EPSILON, SEED = 0.03, 0
SHARES = (1 / 64, 1 / 16, 1 / 4, 1 / 2, 1)
GROWTH_PARTS = (4, 16, 64)
DELAYS = (0, 1, 2, 4, 8, 15, math.inf)
SCHEDULES = {"delay": "in turn", "delay, stalest": "stalest"}
WORKERS, BLOCKS = 16, 64
OURS: dict[str, dict[str, Any]] = {
    "Parsa": {},
    "8 blocks": {"n_blocks": 8},
    "8 blocks, 2 extra passes": {"n_blocks": 8, "extra_passes": 2},
    "Parsa + polish": {"polish": True, "epsilon": EPSILON},
    "8 blocks, 2 extra passes + polish": {
        "n_blocks": 8,
        "extra_passes": 2,
        "polish": True,
        "epsilon": EPSILON,
    },
}
OTHERS = {"METIS": "metis", "direct K-way": "direct"}


@dataclass(frozen=True)
class Line:
    """One measured case; None where a number is not of that experiment."""

    experiment: str
    data: str
    case: str
    n_parts: int
    n_edges: int
    memory_maximum: int | None = None
    memory_total: int | None = None
    traffic_maximum: int | None = None
    traffic_total: int | None = None
    imbalance: float | None = None
    blocks: int | None = None
    seconds: float | None = None
    peak_mb: float | None = None


@cache
def graph(name: str) -> Bipartite:
    """Rows (documents, users) as data, columns as parameters."""
    rows, columns, values = data.ratings(name)
    return Bipartite.from_matrix(scipy.sparse.coo_array((values, (rows, columns))))


def _line(experiment: str, name: str, case: str, told: dict[str, Any], seconds: float) -> Line:
    names = ("memory, maximum", "memory, total", "traffic, maximum", "traffic, total")
    return Line(
        experiment, name, case, told["parts"], told["edges"], *(told[n] for n in names),
        round(told["imbalance"], 4), told.get("blocks"), round(seconds, 3),
    )  # fmt: skip


def _timed(*arguments: Any, **options: Any) -> tuple[daskpart.parsa.ParsaResult, float]:
    begin = time.process_time()
    result = daskpart.parsa.partition(*arguments, random_state=SEED, **options)
    return result, time.process_time() - begin


def methods(name: str, n_parts: int) -> Iterator[Line]:
    """Random parts, Parsa in its ways, and other partitioners."""
    given = graph(name)
    for case, options in OURS.items():
        result, seconds = _timed(given, n_parts, compare=case == "Parsa", **options)
        told = result.to_dict()
        if case == "Parsa":
            chance = {n.removeprefix("random: "): v for n, v in told.items() if "random: " in n}
            yield _line("methods", name, "random", {**told, **chance, "blocks": None}, 0.0)
        yield _line("methods", name, case, told, seconds)
    hypergraph = given.hypergraph()
    whole = given.select(np.arange(given.n_data, dtype=np.int32))
    for case, method in OTHERS.items():
        begin = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BalanceWarning)  # the imbalance stands in the table
            found = daskpart.partition(
                hypergraph, n_parts, method=method, epsilon=EPSILON, random_state=SEED
            )
        seconds = time.process_time() - begin
        sets = NeighbourSets.empty(given.n_parameters, n_parts)
        sets.add(whole, found.assignment)
        placed = place_parameters(sets.bits, sets.sizes)
        told = {
            "parts": n_parts, "edges": given.n_edges, "imbalance": found.imbalance,
            "memory, maximum": int(sets.sizes.max()), "memory, total": int(sets.sizes.sum()),
            "traffic, maximum": int(placed.traffic.max()),
            "traffic, total": int(placed.traffic.sum()),
        }  # fmt: skip
        yield _line("methods", name, case, told, seconds)


def growth(name: str) -> Iterator[Line]:
    """Seconds for the first rows of a data set."""
    given = graph(name)
    for share in SHARES:
        n_data = max(int(share * given.n_data), max(GROWTH_PARTS))
        end = given.data_pointer[min(n_data, given.n_data)]
        part = Bipartite(
            given.n_parameters, given.data_pointer[: n_data + 1], given.parameters[:end]
        )
        for n_parts in GROWTH_PARTS:
            result, seconds = min(
                (_timed(part, n_parts, compare=False) for _ in range(3)), key=lambda run: run[1]
            )
            yield _line("growth", name, f"{share:.3g} of the rows", result.to_dict(), seconds)


def delays(name: str, n_parts: int, experiment: str) -> Iterator[Line]:
    """Parallel Parsa with workers that call in turn, or as late as the delay allows."""
    given = graph(name)
    for delay in DELAYS:
        result, seconds = _timed(
            given, n_parts, n_blocks=min(BLOCKS, given.n_data), workers=WORKERS, delay=delay,
            transport="local", schedule=SCHEDULES[experiment], compare=False,
        )  # fmt: skip
        case = "τ = ∞" if delay == math.inf else f"τ = {delay}"
        yield _line(experiment, name, case, result.to_dict(), seconds)


def memory(name: str, n_parts: int, limits: Iterable[int], copies: int) -> Iterator[Line]:
    """The peak of a new process that places a libsvm file, limited to so many MB."""
    given = graph(name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.libsvm"
        write_libsvm(given, path, copies)
        size = path.stat().st_size / 1e6
        few = Path(folder) / "few.libsvm"
        few.write_text("".join(f"1 {i % 5 + 1}:1 {i % 7 + 6}:1\n" for i in range(10 * n_parts)))
        for limit in ("none", *map(str, limits)):
            found = _in_new_process(str(path), str(few), str(n_parts), limit)
            case = f"{size:.0f} MB file, " + ("no limit" if limit == "none" else f"{limit} MB")
            line = _line("memory", name, case, found["told"], found["seconds"])
            yield replace(line, peak_mb=round(found["peak_mb"], 1))


def _in_new_process(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.studies.parsa_memory", *arguments]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root)
    if done.returncode:
        raise OSError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout)


def write_libsvm(graph: Bipartite, path: Path, copies: int) -> None:
    """The graph as text, several times: later copies have features of their own."""
    with open(path, "w") as file:
        for copy in range(copies):
            named = graph.parameters + np.int64(1 + copy * graph.n_parameters)
            entries = np.char.add(named.astype("U10"), ":1").tolist()
            ends = zip(graph.data_pointer[:-1], graph.data_pointer[1:], strict=True)
            file.writelines(" ".join(["1", *entries[a:b]]) + "\n" for a, b in ends)


@click.command()
@click.option("--data", "names", multiple=True, default=("imdb-bigrams", "ego-twitter"),
              show_default=True)  # fmt: skip
@click.option("--parts", default=16, show_default=True)
@click.option("--limit", "limits", multiple=True, type=int, default=(140, 200, 400),
              show_default=True, help="MB.")  # fmt: skip
@click.option("--copies", default=2, show_default=True, help="Of the first data set, in the file.")
@out_option
def main(names: tuple[str, ...], parts: int, limits: tuple[int, ...], copies: int, out: Path):
    """Write the study of Parsa: data/parsa.csv, parsa.png, parsa.md."""
    from .parsa_plot import draw, section

    origin = Origin.here()
    lines: list[Line] = []
    few = Bipartite.from_matrix(scipy.sparse.eye_array(64).tocsr())
    daskpart.parsa.partition(few, 2, polish=True)  # compiles
    daskpart.parsa.partition(few, 2, n_blocks=4, workers=2, transport="local")
    daskpart.partition(few.hypergraph(), 2)
    wanted: list[Iterator[Line]] = [methods(name, parts) for name in names]
    wanted += [growth(name) for name in names]
    wanted += [delays(name, parts, experiment) for experiment in SCHEDULES for name in names]
    wanted.append(memory(names[0], parts, limits, copies))
    for experiment in wanted:
        try:
            for line in experiment:
                lines.append(line)
                click.echo(line)
        except OSError as error:  # no /proc, or a limit that is too low
            click.echo(f"left out: {error}")
    columns = [field.name for field in fields(Line)]
    write_numbers(out, "parsa", columns, map(astuple, lines), origin)
    draw(lines, out / "parsa.png")
    write_section(out, "parsa", "Parsa", section(lines, parts), origin)


def slope(points: list[tuple[int, float]]) -> float:
    """Exponent p of seconds ~ |E|^p, by least squares on logarithms; NaN of fewer than two."""
    proper = [(math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0]
    if len({x for x, _ in proper}) < 2:
        return math.nan
    x, y = np.array(proper).T
    return float(np.polyfit(x, y, 1)[0])


if __name__ == "__main__":
    main()
