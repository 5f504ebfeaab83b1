"""What a CP-ALS iteration sends, from its plan: after Tables 2 to 5 of Abubaker et al..

    Table 2    messages: point to point (largest, average) against the embedding
    Table 3    naive against aware embedding
    Table 4    hypercube mapping (HP) against random nonzeros
    Table 5    packed owners against drawn ones

Source: Abubaker, Karsavuran, Aykanat, "Scalable Unsupervised ML: Latency Hiding in Distributed
Sparse Tensor Decomposition", §6. Their times are measured ones with computing, ours are of the
messages alone by an α–β model.
"""

from __future__ import annotations

import csv
import warnings
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks import data
from daskpart.containers.tensor import LabelledTensor
from daskpart.data_models import medium_grain
from daskpart.errors import BalanceWarning
from daskpart.models import CPDecomposition
from daskpart.models.cp.cut import PARTITIONERS, nonzero_parts
from daskpart.models.cp.report import CPPlanReport

from .output import Origin, markdown_table, out_option, write_numbers, write_section
from .tensor_messages_plot import draw

COMPONENTS = 16
ALPHA_BETA = (2e-6, 1e-10)  # an MPI cluster
COLUMNS = (
    "tensor", "modes", "K", "nonzeros by", "method", "owners", "messages max", "messages mean",
    "volume", "volume max", "concurrent volume", "ms of messages", "imbalance", "dealt out",
)  # fmt: skip
GROUPS, SINGLE = "groups", "single nonzeros"
FINER = {"medium-grain": "fine-grain", "hypercube": "hypercube-fine-grain"}
CASES = (  # nonzeros by, method, owners
    ("medium-grain", "p2p", "packed"),
    ("random", "emb-naive", "packed"),
    ("random", "emb", "packed"),
    ("random", "emb", "random"),
    ("hypercube", "emb-naive", "packed"),
    ("hypercube", "emb", "packed"),
    ("hypercube", "emb", "random"),
)


def dealt_out(tensor: LabelledTensor, n_ranks: int) -> str:
    """What a cut deals to ranks: groups of nonzeros, as long as every rank can get one."""
    enough = medium_grain(tensor, row_length=COMPONENTS).hypergraph.n_vertices >= n_ranks
    return GROUPS if enough else SINGLE


def reports(name: str, n_ranks: int, what: str) -> dict[tuple[str, str, str], CPPlanReport]:
    """Case → its report; each cut is made once."""
    tensor = data.tensor(name)
    given: Any = tensor.to_coo()
    parts = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BalanceWarning)  # some slices weigh more than a part
        for cut in dict.fromkeys(case[0] for case in CASES):
            chosen = FINER.get(cut, cut) if what == SINGLE else cut
            parts[cut] = nonzero_parts(
                tensor, n_ranks, PARTITIONERS.get(chosen, chosen), n_components=COMPONENTS,
                random_state=0,
            )  # fmt: skip
    return {
        (cut, method, owners): CPDecomposition(
            COMPONENTS, n_ranks=n_ranks, method=method, partitioner=parts[cut], owners=owners,
            alpha_beta=ALPHA_BETA,
        ).plan(given).report()
        for cut, method, owners in CASES
    }  # fmt: skip


def line(name: str, case: tuple[str, str, str], report: CPPlanReport, what: str) -> list:
    """One line of the numbers."""
    of_nonzeros = float(report.nonzeros.max() / report.nonzeros.mean()) - 1  # as the paper has it
    return [
        name, len(report.dims), report.n_ranks, *case, report.messages_max,
        round(report.messages_mean, 1), report.volume, report.volume_max,
        report.concurrent_volume, 1e3 * report.predicted_seconds, round(of_nonzeros, 3), what,
    ]  # fmt: skip


def table_2(rows: list[list], n_ranks: int) -> str:
    """Messages of a rank in an iteration."""
    of_case = _by_case(rows, n_ranks)
    lines = []
    for name in _names(rows):
        p2p, emb = (of_case[name, cut, how, "packed"] for cut, how in
                    (("medium-grain", "p2p"), ("hypercube", "emb")))  # fmt: skip
        lines.append([name, p2p[6], p2p[7], emb[6]])
    return markdown_table(("tensor", "P2P max", "P2P avg", "EMB max (= avg)"), lines)


def ratio_table(
    rows: list[list], column: int, over: tuple[str, str, str], under: tuple[str, str, str]
) -> list:
    """Geometric mean over the tensors of one column, case `over` by case `under`, for each K."""
    found = []
    for n_ranks in _ranks(rows):
        of_case = _by_case(rows, n_ranks)
        ratios = [
            of_case[name, *over][column] / of_case[name, *under][column] for name in _names(rows)
        ]
        found.append(float(np.exp(np.mean(np.log(ratios)))))
    return found


def _by_case(rows: list[list], n_ranks: int) -> dict[tuple, list]:
    return {(row[0], *row[3:6]): row for row in rows if row[2] == n_ranks}


def _names(rows: list[list]) -> list[str]:
    return list(dict.fromkeys(row[0] for row in rows))


def _ranks(rows: list[list]) -> list[int]:
    return list(dict.fromkeys(row[2] for row in rows))


def ratios(rows: list[list]) -> list[list]:
    """Lines of Tables 3, 4 and 5: geometric means over the tensors."""
    seconds, concurrent, largest = 11, 10, 9
    hp, random = ("hypercube", "emb", "packed"), ("random", "emb", "packed")
    wanted = (
        ("3: aware / naive, random, time", seconds, random, ("random", "emb-naive", "packed")),
        ("3: aware / naive, HP, time", seconds, hp, ("hypercube", "emb-naive", "packed")),
        ("4: HP / random, concurrent volume", concurrent, hp, random),
        ("4: HP / random, max volume", largest, hp, random),
        ("4: HP / random, time", seconds, hp, random),
        ("5: packed / drawn owners, HP, max volume", largest, hp, ("hypercube", "emb", "random")),
        ("EMB HP / P2P HP, time", seconds, hp, ("medium-grain", "p2p", "packed")),
    )
    return [[words, *ratio_table(rows, column, *cases)] for words, column, *cases in wanted]


def section(rows: list[list]) -> str:
    """The text around the tables."""
    ranks = _ranks(rows)
    finer = dict.fromkeys(f"{row[0]} at K = {row[2]:,}" for row in rows if row[-1] == SINGLE)
    told = (
        f"On {', '.join(finer)} there are fewer groups than ranks: there single nonzeros are dealt "
        "out.\n\n"
        if finer
        else ""
    )
    return (
        "From plans, with no run. P2P is Algorithm 1 on a medium-grain cut, EMB is Algorithm 2 "
        "(aware embedding), HP cuts are medium-grain or hypercube ones of equal nonzeros, "
        f"R = {COMPONENTS}; time is of the messages of an iteration at "
        f"α = {ALPHA_BETA[0]:g} s, β = {ALPHA_BETA[1]:g} s a byte, all allreduces included.\n\n"
        f"{told}"
        f"Messages that a rank handles in an iteration at K = {ranks[-1]:,} (Table 2; allreduces "
        f"of P2P come on top):\n\n{table_2(rows, ranks[-1])}\n\n"
        "Ratios, geometric means over the tensors (Tables 3 to 5; the paper: 0.72–0.90, "
        "concurrent volume 0.10, max volume 0.35, packed owners 0.83–0.85). Its tensors have up "
        "to a thousand times as many nonzeros: here a rank of the largest K has between some and "
        "some hundred, so that fewer rows can be kept together, and the time is that of the "
        "2·M·log2 K messages, whatever they carry:\n\n"
        f"{markdown_table(('table', *(f'K = {n:,}' for n in ranks)), ratios(rows))}\n\n"
        "All embedded methods send as many messages, so their lines in the first column fall "
        "together.\n\n"
        "![Messages and time of an iteration](tensor_messages.png)"
    )


def load(numbers: Path) -> list[list]:
    """The lines of the numbers as they were written."""
    with open(numbers, newline="", encoding="utf-8") as file:
        lines = list(csv.reader(line for line in file if not line.startswith("#")))[1:]
    whole, fractions = (1, 2, 6, 8, 9, 10), (7, 11, 12)
    return [
        [
            int(cell) if place in whole else float(cell) if place in fractions else cell
            for place, cell in enumerate(line)
        ]
        for line in lines
    ]


@click.command()
@click.option(
    "--tensor", "names", multiple=True, show_default=True,
    default=("math-tags", "fb15k-237.train", "lastfm-tags", "wikipeople-3", "splatt-med4"),
)  # fmt: skip
@click.option("--ranks", multiple=True, type=int, default=(128, 512, 4096), show_default=True)
@click.option("--redraw", is_flag=True, help="Only write again, from data/tensor_messages.csv.")
@out_option
def main(names: tuple[str, ...], ranks: tuple[int, ...], redraw: bool, out: Path) -> None:
    """Write the tables."""
    numbers = out / "data" / "tensor_messages.csv"
    if redraw:
        origin, rows = Origin.of(numbers), load(numbers)
    else:
        origin, rows = Origin.here(), []
        for name in names:
            for n_ranks in ranks:
                what = dealt_out(data.tensor(name), n_ranks)
                for case, report in reports(name, n_ranks, what).items():
                    rows.append(line(name, case, report, what))
                click.echo(rows[-1])
        write_numbers(out, "tensor_messages", COLUMNS, rows, origin)
    draw(rows, out / "tensor_messages.png")
    write_section(out, "tensor_messages", "What a CP-ALS iteration sends", section(rows), origin)


if __name__ == "__main__":
    main()
