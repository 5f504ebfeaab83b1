"""Seconds to the same test RMSE: 2 ranks on 2 cores beside LIBMF with 2 threads."""

from __future__ import annotations

from pathlib import Path

import click

from benchmarks import libmf_peer
from benchmarks.factorization import MOST_EPOCHS, RANKS, RATES, REGULARIZATIONS, side_by_side

from .output import Origin, markdown_table, out_option, write_numbers, write_section

COLUMNS = (
    "target", "who", "rate", "regularization", "epochs", "worst test RMSE", "fit, s",
    "training, s",
)  # fmt: skip


@click.command()
@click.option("--data", "name", default="ml-1m", show_default=True)
@click.option("--target", "targets", multiple=True, type=float, default=(0.86, 0.85))
@click.option("--components", default=32, show_default=True)
@click.option("--partitioner", default="block", show_default=True)
@click.option("--turns", default=15, show_default=True)
@out_option
def main(
    name: str, targets: tuple[float, ...], components: int, partitioner: str, turns: int, out: Path
) -> None:
    """Write the comparison; set LIBMF_OBJ to compare with your own build."""
    origin = Origin.here()
    rows, words = [], []
    for target in targets:
        own, peer = side_by_side(name, target, components, turns, partitioner)
        for who, side in (("daskpart", own), ("LIBMF", peer)):
            rows.append(
                [target, who, side.rate, side.regularization, side.n_epochs,
                 round(side.test_rmse, 4), side.fit_seconds, side.training_seconds]
            )  # fmt: skip
            click.echo(rows[-1])
        words.append(
            f"- RMSE {target}: LIBMF takes {peer.fit_seconds / own.fit_seconds:.2f} times as long "
            f"for the whole fit, {peer.training_seconds / own.training_seconds:.2f} times for "
            "training alone."
        )
    body = (
        f"{name}, random 90/10 split, {components} components, {RANKS} ranks (local transport, "
        f"partitioner {partitioner}, η = {RANKS}) beside LIBMF with {RANKS} threads "
        f"({libmf_peer.build_name()}). Ours from a scipy COO matrix in memory, "
        "LIBMF from its array. Each with the setting that "
        f"needs the fewest epochs (at most {MOST_EPOCHS}) of rates {RATES} and regularizations "
        f"{REGULARIZATIONS}, found beforehand on the test part. \"Fit\" is all that happens after "
        "that; \"training\" is ours without partition, plan and arrangement, and LIBMF's without "
        f"its set-up (by the difference of a longer fit). The least of {turns} "
        "turns side by side each.\n\n"
        f"{markdown_table(COLUMNS, rows)}\n\n" + "\n".join(words)
    )  # fmt: skip
    write_numbers(out, "time_to_rmse", COLUMNS, rows, origin)
    write_section(out, "time_to_rmse", "Seconds to the same test RMSE", body, origin)


if __name__ == "__main__":
    main()
