"""Parts as ranks of a hypercube: concurrent and maximum volume against random and against HP.

    nonzeros at random                     EMB-rand of the paper (Table 4 normalises to it)
    groups at random                       medium grain, dealt out
    HP                                     medium grain, direct K-way, parts as they are numbered
    HP, renumbered                         ... and numbered by a mapping of the K parts
    mapping                                Algorithm 3
    mapping, moves                         ... and moves that lower the concurrent volume (default)
    ..., busiest rank                      ... refined for the rows of the busiest rank instead

Abubaker, Karsavuran, Aykanat, "Scalable Unsupervised ML: Latency Hiding in Distributed Sparse
Tensor Decomposition", §5 and §6.2, Tables 4 and 5.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click
import numpy as np

import daskpart
from benchmarks import data
from daskpart.connectivity import Connectivity
from daskpart.containers.tensor import LabelledTensor
from daskpart.data_models import DataModel, fine_grain, medium_grain
from daskpart.errors import BalanceWarning
from daskpart.owners import embedded_packed_owners, hypercube_volume, random_owners
from daskpart.partitioners import get_engine
from daskpart.partitioners.refinement.renumber import renumbered
from daskpart.partitions import Partition

from .hypercube_mapping_plot import draw
from .output import Origin, markdown_table, out_option, write_numbers, write_section

COLUMNS = (
    "tensor", "K", "partition", "concurrent volume", "to random", "total volume",
    "max volume, random owners", "max volume, packed", "packed to random owners",
    "max volume to random", "Σ(λ−1)", "imbalance", "CPU seconds",
)  # fmt: skip
ENGINE = get_engine("multilevel")
RANDOM = "nonzeros at random"
TOLD = {"mapping": "mapping alone", "mapping, moves": "with moves"}


def partitions(
    tensor: LabelledTensor, n_parts: int
) -> Iterator[tuple[str, DataModel, Partition, float]]:
    """Name, model, partition, CPU seconds of each."""
    fine, groups = fine_grain(tensor), medium_grain(tensor)
    hp: Partition | None = None
    mapped: Partition | None = None
    for name in (RANDOM, "groups at random", "HP", "HP, renumbered", "mapping", "mapping, moves",
                 "HP, busiest rank", "mapping, busiest rank"):  # fmt: skip
        model = fine if name == RANDOM else groups
        begun = time.process_time()
        if "random" in name:
            found = daskpart.partition(model, n_parts, method="random")
        elif name == "HP":
            found = hp = daskpart.partition(model, n_parts, method="direct")
        elif name.startswith("mapping") and not name.endswith("rank"):
            moves = name.endswith("moves")
            found = daskpart.partition(model, n_parts, method="hypercube", polish=moves)
            mapped = found
        elif name == "HP, renumbered":
            assert hp is not None
            found = renumbered(model.hypergraph, hp, partial(concurrent, model), ENGINE)
        else:
            start = hp if name.startswith("HP") else mapped
            found = daskpart.refine(model, start, "busiest-volume")
        yield name, model, found, time.process_time() - begun


def concurrent(model: DataModel, partition: Partition) -> int:
    """Of all nets, one expand."""
    return model.connectivity(partition).concurrent_volume()


def modes_of(model: DataModel, partition: Partition) -> list[Connectivity]:
    """Who shares each row of each factor."""
    assert model.tensor is not None
    return [model.mode_connectivity(partition, mode) for mode in range(model.tensor.n_modes)]


def busiest(modes: list[Connectivity]) -> tuple[int, int]:
    """Rows in all, and of the rank that sends and receives most, over all modes."""
    volumes = [hypercube_volume(mode) for mode in modes]
    of_rank = np.sum([volume.rows_of_rank for volume in volumes], axis=0)
    return sum(volume.total_rows for volume in volumes), int(of_rank.max())


def measure(name: str, n_parts: int) -> list[list]:
    """The lines of one tensor and one K."""
    tensor = data.tensor(name)
    rows: list[list] = []
    for words, model, partition, seconds in partitions(tensor, n_parts):
        modes = modes_of(model, partition)
        shared = concurrent(model, partition)
        _, drawn = busiest(random_owners(modes))
        total, packed = busiest(embedded_packed_owners(modes))
        base = rows[0] if rows else None
        rows.append(
            [
                name, n_parts, words, shared,
                round(shared / base[3], 3) if base else 1.0, total, drawn, packed,
                round(packed / drawn, 3), round(packed / base[7], 3) if base else 1.0,
                sum(mode.connectivity_minus_one() for mode in modes),
                round(partition.imbalance, 3), round(seconds, 2),
            ]
        )  # fmt: skip
        click.echo(rows[-1])
    return rows


def compile_kernels(tensor: LabelledTensor) -> None:
    """Cut the tensor in two every way, so that seconds below are those of cutting."""
    for _ in partitions(tensor, 4):
        pass


def verdict(rows: list[list]) -> str:
    """The paper's averages beside ours, in words."""
    lines = []
    for name, words in TOLD.items():
        own = [row for row in rows if row[2] == name]
        means = [np.exp(np.mean(np.log([row[at] for row in own]))) - 1 for at in (4, 9, 8)]
        lines.append(
            f"- Hypercube mapping, {words}, geometric means against random nonzeros: concurrent "
            f"volume {means[0]:+.0%} (paper, K = 4096: −90 %), maximum volume {means[1]:+.0%} "
            f"(−65 %); packed owners against random ones {means[2]:+.0%} (−15 %)."
        )
    best = {
        at: np.mean([min(r[at] for r in rows if r[:2] == key) / next(
            r[at] for r in rows if [*r[:2], r[2]] == [*key, "mapping"]) for key in keys(rows)]) - 1
        for at in (3, 7)
    }  # fmt: skip
    lines.append(
        f"- The best of ours against the paper's method, mean: concurrent volume {best[3]:+.0%}, "
        f"maximum volume {best[7]:+.0%}."
    )
    return "\n".join(lines)


def keys(rows: list[list]) -> list[list]:
    """The pairs of a tensor and a K."""
    return [list(key) for key in dict.fromkeys((row[0], row[1]) for row in rows)]


@click.command()
@click.option("--tensor", "names", multiple=True, default=("math-tags", "lastfm-tags"),
              show_default=True)  # fmt: skip
@click.option("--parts", multiple=True, type=int, default=(64, 512), show_default=True)
@out_option
def main(names: tuple[str, ...], parts: tuple[int, ...], out: Path) -> None:
    """Write the table of hypercube mappings."""
    origin = Origin.here()
    warnings.simplefilter("ignore", BalanceWarning)  # some groups weigh more than a part may
    compile_kernels(data.tensor(names[0]))
    rows = [row for name in names for n_parts in parts for row in measure(name, n_parts)]
    draw(rows, out / "hypercube_mapping.png")
    body = (
        "Nonzeros of a tensor over K ranks, factor rows embedded into a hypercube allreduce; "
        "volumes are rows of one expand of every mode, ε = 0.03, seed 0. Concurrent volume counts "
        "copies of a row that move in one round once; the maximum volume is what the busiest rank "
        "sends and receives, with owners drawn from the sharers, or packed. HP is the medium-grain "
        "hypergraph, cut directly into K parts. The lines behind *mapping* are not in the paper: "
        "single-vertex moves afterwards; numbering the parts of any other cut by a mapping of the "
        "K parts alone; moves that relieve the busiest rank of each round.\n\n"
        "![Concurrent and maximum volume of each method](hypercube_mapping.png)\n\n"
        f"{markdown_table(COLUMNS, rows)}\n\n{verdict(rows)}"
    )
    write_numbers(out, "hypercube_mapping", COLUMNS, rows, origin)
    write_section(out, "hypercube_mapping", "Hypercube mapping", body, origin)


if __name__ == "__main__":
    main()
