"""How much of the communication of graph convolution local products hide.

    overlapped        post ─► local · own ─► collect ─► + remote · halo
    one after other   post ─► collect ─► local · own ─► + remote · halo

Both are the same messages and products with the same bits. What ranks wait for messages in the
second and no longer in the first is hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np

from daskpart.collectives import Timeline, record_timelines
from daskpart.models.graph_convolution.layers import LAYERS
from daskpart.models.graph_convolution.layers.gcn import GCN
from daskpart.models.graph_convolution.products import (
    add_remote_product,
    local_product,
    pack_message,
)

from .clusters import has_mpiexec, in_mpi_job, on_dask_workers
from .gcn_epoch import cut, fitted, lay_down_cuts
from .output import Origin, markdown_table, out_option, write_numbers, write_section

LABELS = ("forward", "backward")
CUTS = ("HP", "RP")
COLUMNS = ("graph", "transport", "K", "cut", "rows an epoch", "ms computing",
           "ms blocked, one after other", "ms blocked, overlapped", "hidden")  # fmt: skip


@dataclass(frozen=True)
class OneAfterOther(GCN):
    """GCN that multiplies only when all messages are there."""

    def aggregate(
        self, comm: Any, data: Any, prepared: Any, before: Any, *_: Any, **__: Any
    ) -> Any:
        """One hop."""
        return _product(comm, data, prepared, before, back=False)

    def aggregate_back(
        self, comm: Any, data: Any, prepared: Any, back: Any, *_: Any, **__: Any
    ) -> Any:
        """One hop."""
        return _product(comm, data, prepared, back, back=True)


def _product(comm: Any, data: Any, prepared: Any, message: Any, *, back: bool) -> Any:
    pending = comm.post(prepared.rounds[0], message, pack_message)
    inbox = comm.collect(pending, comm.map(_nothing, data), _arrived)
    total = comm.map(local_product, data, message, back=back)
    return comm.update(_add, total, inbox, data, back=back)


def _nothing(data: Any) -> None:
    return None


def _arrived(state: None, inbox: Any) -> Any:
    return inbox


def _add(total: np.ndarray, inbox: Any, data: Any, *, back: bool) -> np.ndarray:
    return add_remote_product(total, inbox, data, back=back)


def measured(
    client: Any, transport: str, n_ranks: int, names: Sequence[str], n_epochs: int, folder: str
) -> list[list]:
    """Lines of the table on one set of workers."""
    rows = []
    with client.as_current() if client else nullcontext():
        for name in names:
            for way in CUTS:
                parameters = cut(folder, name, n_ranks, way)
                found = []
                for layer in (OneAfterOther, GCN):
                    LAYERS["gcn"] = layer  # type: ignore[index]
                    model, timeline = _run(name, parameters, n_ranks, transport, n_epochs)
                    found.append(_blocked(timeline) / (n_ranks * n_epochs))
                waited, left = found
                computing = timeline.seconds("computing").mean() / n_epochs
                rows.append([
                    name, transport, n_ranks, way, model.plan_report_.volume,
                    1e3 * float(computing), 1e3 * waited, 1e3 * left,
                    1 - left / waited if waited else None,
                ])  # fmt: skip
    return rows


def _run(
    name: str, parameters: dict[str, Any], n_ranks: int, transport: str, n_epochs: int
) -> tuple[Any, Timeline]:
    with record_timelines() as recorded:
        model = fitted(
            name, 64, n_epochs, first_product="each", n_ranks=n_ranks, transport=transport,
            **parameters,
        )  # fmt: skip
    return model, recorded[-1]


def _blocked(timeline: Timeline) -> float:
    """Seconds of all ranks."""
    total = timeline.by_name()
    return sum(total.get(("blocked", label), 0.0) for label in LABELS)


def _all_lines(
    transports: Sequence[str], ranks: Sequence[int], names: list[str], n_epochs: int, folder: str
) -> list[list]:
    rows: list[list] = []
    for transport in transports:
        if transport == "mpi" and not has_mpiexec():
            click.echo("no mpiexec in this environment: MPI is left out")
            continue
        for n_ranks in ranks:
            arguments = (transport, n_ranks, names, n_epochs, folder)
            if transport == "local":
                rows += measured(None, *arguments)
            else:
                on_workers = in_mpi_job if transport == "mpi" else on_dask_workers
                rows += on_workers(measured, n_ranks, *arguments)
            click.echo(rows[-len(CUTS) * len(names) :])
    return rows


def draw(rows: list[list], path: Path) -> None:
    """What ranks wait an epoch, one after other and overlapped."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(5, 0.55 * len(rows) + 1.5), 4), layout="constrained")
    panel, places = figure.subplots(), np.arange(len(rows))
    panel.bar(places - 0.2, [row[6] for row in rows], 0.4, label="one after other")
    panel.bar(places + 0.2, [row[7] for row in rows], 0.4, label="overlapped")
    names = [f"{row[0]}\n{row[1]}, K = {row[2]}, {row[3]}" for row in rows]
    panel.set_xticks(places, names, rotation=60, ha="right", fontsize=8)
    panel.set_ylabel("ms blocked an epoch")
    panel.legend()
    figure.savefig(path, dpi=90)


@click.command()
@click.option("--graph", "names", multiple=True, default=("arxiv-like", "coauthor-physics"))
@click.option("--ranks", multiple=True, type=int, default=(2, 4), show_default=True)
@click.option("--epochs", default=10, show_default=True)
@click.option("--transport", "transports", multiple=True, default=("dask", "mpi"),
              type=click.Choice(("local", "dask", "mpi")), show_default=True)  # fmt: skip
@out_option
def main(
    names: tuple[str, ...], ranks: tuple[int, ...], epochs: int, transports: tuple[str, ...],
    out: Path,
) -> None:  # fmt: skip
    """Write the table of what is hidden."""
    origin = Origin.here()
    with TemporaryDirectory() as folder:
        lay_down_cuts(folder, names, ranks, CUTS)
        rows = _all_lines(transports, ranks, list(names), epochs, folder)
    body = (
        "Two layers, 128 dense features, hidden 64, float32, the first product in each epoch; a "
        "process a rank. *Blocked*: what a rank waits for the messages of an epoch's products, "
        "from its timeline, mean of the ranks; it holds what the slowest rank is late, too. "
        "*Overlapped*: messages travel while a rank multiplies its own columns, as it is always "
        "done; *one after other*: the same messages and products, multiplied only when all "
        "messages are there. *Hidden*: the share of the second that the first is without.\n\n"
        "![What ranks wait for messages](gcn_overlap.png)\n\n"
        f"{markdown_table(COLUMNS, rows)}\n"
    )
    write_numbers(out, "gcn_overlap", COLUMNS, rows, origin)
    draw(rows, out / "gcn_overlap.png")
    write_section(out, "gcn_overlap", "Communication hidden behind products", body, origin)


if __name__ == "__main__":
    main()
