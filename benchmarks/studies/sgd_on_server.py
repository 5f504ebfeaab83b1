"""SGD with its weights on a parameter server beside SGD by allreduce: traffic, staleness, loss.

    samples placed by     random · Parsa
    gradients added by    an allreduce ("auto") · the server with τ = 0, 1, 4, ∞

Plain SGD in the same steps of the same samples, on threads of one process. Counted are the bytes
between ranks, and between a rank and another one's shard, an epoch. With τ > 0 the loss differs a
little from run to run.
"""

from __future__ import annotations

import math
from pathlib import Path

import click

import daskpart

from . import linear_server
from .linear_server import FILES
from .output import Origin, markdown_table, out_option, write_numbers, write_section

COLUMNS = (
    "data", "K", "placed by", "added by", "τ", "MB an epoch", "of the allreduce", "staleness",
    "training loss", "ms a step",
)  # fmt: skip
DELAYS = (0, 1, 4, math.inf)


def measure(name: str, n_ranks: int, epochs: int, batch_size: int) -> list[list]:
    """The lines of one data set."""
    X, y = linear_server.samples(name)
    lines = []
    for partitioner in ("random", "parsa"):
        of_allreduce = None
        for delay in (None, *DELAYS):
            how = {} if delay is None else {"aggregation": "server", "delay": delay}
            model = daskpart.LogisticRegression(
                solver="sgd", optimizer="sgd", average=False, partitioner=partitioner, tol=0.0,
                max_iter=epochs, batch_size=batch_size, n_ranks=n_ranks, transport="local", **how,
            ).fit(X, y)  # fmt: skip
            history = model.history_
            n_bytes = float(history["bytes"].mean())
            of_allreduce = of_allreduce or n_bytes
            n_steps = -(-len(y) // (n_ranks * batch_size))
            by, word = ("allreduce", "–") if delay is None else ("server", delay)
            stale = 0.0 if delay is None else float(history["staleness"].mean())
            lines.append([
                name, n_ranks, partitioner, by, "∞" if delay == math.inf else word, n_bytes / 1e6,
                n_bytes / of_allreduce, stale, float(history["loss"].iloc[-1]),
                1e3 * float(history["seconds"].median()) / n_steps,
            ])  # fmt: skip
            click.echo(lines[-1])
    return lines


@click.command()
@click.option("--data", "names", multiple=True, default=tuple(FILES), show_default=True)
@click.option("--ranks", default=8, show_default=True)
@click.option("--epochs", default=10, show_default=True)
@click.option("--batch-size", default=32, show_default=True, help="Samples of a rank in a step.")
@out_option
def main(names: tuple[str, ...], ranks: int, epochs: int, batch_size: int, out: Path) -> None:
    """Write the table of SGD on the parameter server beside SGD by allreduce."""
    origin = Origin.here()
    lines = [line for name in names for line in measure(name, ranks, epochs, batch_size)]
    body = (
        "`LogisticRegression(solver='sgd', optimizer='sgd')`, the last weights, "
        f"{ranks} ranks on threads of one process, batches of {batch_size} a rank, {epochs} "
        "epochs. By allreduce every rank gets the sum of all gradients; from the server it fetches "
        "the weights that its batch touches, and sends what moves them. Bytes are those that go to "
        "another rank, or to another rank's shard. Staleness: by how many batches the slowest rank "
        "was behind when weights were fetched, in the mean. With τ = 0 the steps are those of the "
        "allreduce.\n\n"
        f"{markdown_table(COLUMNS, lines)}"
    )
    write_numbers(out, "sgd_on_server", COLUMNS, lines, origin)
    write_section(out, "sgd_on_server", "SGD on the parameter server", body, origin)


if __name__ == "__main__":
    main()
