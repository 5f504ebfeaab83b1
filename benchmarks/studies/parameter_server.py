"""What placement is worth to a parameter server: remote rows of an epoch, by who placed them.

    rows (data) on ranks      at random · by connectivity − 1 · by Parsa
    ids (parameters) on       hashed · least loaded of the ranks that need them · Parsa's V
    shards

Every rank pulls the parameters of its rows once and pushes them once, through a real
`ParameterServer`, whose own counters are the numbers here; a check holds them against the
connectivity. Paper: Li, Andersen, Smola 2015, whose 90 % is against random data and parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

import daskpart
from benchmarks import data
from daskpart.collectives import ParameterServer, ServerEndpoint, ServerReport

from .output import Origin, markdown_table, out_option, write_numbers, write_section
from .problem import connectivity_of, matrix

COLUMNS = (
    "data", "K", "rows placed by", "parameters placed by", "rows, all", "rows, remote",
    "remote rows gone", "remote rows of the busiest rank", "of the busiest shard",
)  # fmt: skip
CASES = ("ego-twitter:8", "ego-twitter:16", "ego-twitter:64", "gowalla:16", "imdb-bow:16")
BASELINE = ("random", "hash")
METHODS = {"random": "RAND", "connectivity − 1": "HP, λ−1"}


def epoch(endpoint: ServerEndpoint, needed: NDArray[np.int64]) -> None:
    """Pull what the own rows need, and push it."""
    endpoint.push(needed, endpoint.pull(needed))


def measured(connectivity: daskpart.Connectivity, placement: Any) -> ServerReport:
    """The traffic of one epoch, counted by the server.

    Raises
    ------
    RuntimeError
        When it differs from what the connectivity says.
    """
    n_ranks, n_items = connectivity.n_parts, connectivity.n_items
    items = np.repeat(np.arange(n_items), connectivity.connectivity)
    needed = [items[connectivity.parts == rank] for rank in range(n_ranks)]
    with ParameterServer(
        n_items, n_ranks=n_ranks, placement=placement, dtype=np.float32, schedule="in turn"
    ) as server:
        server.run(epoch, needed)
        local = int((connectivity.parts == server.placement[items]).sum())
        expected = {"rows, local": 2 * local, "rows, remote": 2 * (len(items) - local)}
        found = server.report.to_dict()
        if any(found[name] != rows for name, rows in expected.items()):
            raise RuntimeError(f"counted {found}, the connectivity says {expected}")
        return server.report


def spread(owners: NDArray[np.int32], n_parts: int) -> NDArray[np.int32]:
    """A placement of all items: those that no part touches are dealt round."""
    return np.where(owners < 0, np.arange(len(owners)) % n_parts, owners)


def cases(name: str, n_parts: int) -> Iterator[tuple[str, str, daskpart.Connectivity, Any]]:
    """Rows placed by, parameters placed by, the connectivity, and the placement."""
    triples = data.ratings(name)
    shape = (int(triples[0].max()) + 1, int(triples[1].max()) + 1)
    cells = matrix(triples, shape)
    hypergraph = daskpart.Hypergraph.column_net(cells)
    for label, method in METHODS.items():
        _, connectivity = connectivity_of(hypergraph, n_parts, method)
        owners = connectivity.with_packed_owners().owners
        assert owners is not None
        yield label, "hash", connectivity, "hashed"
        yield label, "least load", connectivity, spread(owners, n_parts)
    result = daskpart.parsa.partition(hypergraph, n_parts, polish=True, compare=False)
    connectivity = result.connectivity()
    yield "Parsa", "hash", connectivity, "hashed"
    yield "Parsa", "Parsa", connectivity, result.placement


def measure(name: str, n_parts: int) -> list[list]:
    """The lines of one data set."""
    lines = []
    baseline = 0
    for rows_by, parameters_by, connectivity, placement in cases(name, n_parts):
        report = measured(connectivity, placement)
        found = report.to_dict()
        remote = found["rows, remote"]
        if (rows_by, parameters_by) == BASELINE:
            baseline = remote
        lines.append(
            [
                name,
                n_parts,
                rows_by,
                parameters_by,
                found["rows, local"] + remote,
                remote,
                f"{1 - remote / baseline:.1%}",
                found["remote rows of the busiest rank"],
                found["remote rows of the busiest shard"],
            ]
        )
        click.echo(lines[-1])
    return lines


def verdict(name: str, n_parts: int, lines: list[list]) -> str:
    """The best placement of a data set, in words."""
    of_data = [line for line in lines if line[:2] == [name, n_parts]]
    best = min(of_data, key=lambda line: line[5])
    return (
        f"- {name}, K = {n_parts}: rows by {best[2]}, parameters by {best[3]}: {best[6]} of the "
        f"remote rows of random placement are gone."
    )


@click.command()
@click.option("--case", "cases_of", multiple=True, default=CASES, show_default=True, help="DATA:K")
@out_option
def main(cases_of: tuple[str, ...], out: Path) -> None:
    """Write the table of remote rows of a parameter server, by placement."""
    origin = Origin.here()
    pairs = [(name, int(n_parts)) for name, n_parts in (case.split(":") for case in cases_of)]
    lines = [line for name, n_parts in pairs for line in measure(name, n_parts)]
    verdicts = "\n".join(verdict(name, n_parts, lines) for name, n_parts in pairs)
    body = (
        "Each of K ranks pulls the parameters (columns) that its rows touch and pushes them back, "
        "once: an epoch of a linear model or of Parsa itself, over a `ParameterServer` that counts "
        "what goes to another worker's shard. Remote rows gone: against random rows and hashed "
        "parameters. The paper of Parsa reports up to 90 % on its data. Rows by connectivity − 1: "
        "direct K-way partition, ε = 0.03; Parsa: with its polish, parameters by its own sweep; "
        "least load: each parameter to the rank with the least traffic among those that need "
        "it.\n\n"
        f"{markdown_table(COLUMNS, lines)}\n\n{verdicts}"
    )
    write_numbers(out, "parameter_server", COLUMNS, lines, origin)
    write_section(out, "parameter_server", "Placement on a parameter server", body, origin)


if __name__ == "__main__":
    main()
