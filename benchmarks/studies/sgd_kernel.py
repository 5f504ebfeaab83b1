"""Updates per second of the SGD kernel beside LIBMF's: one thread, float32, in turns."""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter

import click

from benchmarks import data, libmf_peer
from benchmarks.sgd_kernel import SgdKernel

from .output import Origin, markdown_table, out_option, write_numbers, write_section

COLUMNS = (
    "data", "components", "rate", "ours, M updates/s", "LIBMF, M updates/s", "ratio",
)  # fmt: skip
WANTED = 1.5
ITERATIONS = (3, 13)  # of a short and a long fit by LIBMF, whose set-up cancels
PASSES = 5


def measure(name: str, n_components: int, rate: str, turns: int) -> list:
    """One line: the least seconds of each over turns side by side."""
    suite, triples = SgdKernel(), data.ratings(name)
    suite.setup(name, n_components, rate)
    passes, fits = [], {n: [] for n in ITERATIONS}  # type: tuple[list, dict[int, list]]
    for _ in range(turns):
        for n_iterations, seconds in fits.items():
            seconds.append(libmf_peer.fit(triples, n_components, n_iterations)[1])
        for _ in range(PASSES):
            begin = perf_counter()
            suite.time_pass(name, n_components, rate)
            passes.append(perf_counter() - begin)
    short, long = ITERATIONS
    peer = (min(fits[long]) - min(fits[short])) / (long - short)
    millions = triples[0].size / 1e6
    speeds = (millions / min(passes), millions / peer, peer / min(passes))
    return [name, n_components, rate, *(round(float(speed), 2) for speed in speeds)]


@click.command()
@click.option("--data", "names", multiple=True, default=("ml-1m", "power-law-10m"))
@click.option("--components", multiple=True, type=int, default=(32, 50, 64), show_default=True)
@click.option("--rate", "rates", multiple=True, default=("adagrad", "constant"), show_default=True)
@click.option("--turns", default=5, show_default=True)
@out_option
def main(
    names: tuple[str, ...], components: tuple[int, ...], rates: tuple[str, ...], turns: int,
    out: Path,
) -> None:  # fmt: skip
    """Write the table of updates per second; set LIBMF_OBJ to compare with your own build."""
    origin = Origin.here()
    rows = []
    for name in names:
        for n_components in components:
            for rate in rates:
                rows.append(measure(name, n_components, rate, turns))
                click.echo(rows[-1])
    least = min(row[-1] for row in rows)
    body = (
        "Passes over all ratings, one thread, float32. Ours: the kernel in the order in which a "
        "fit takes the ratings, biases included; LIBMF: the difference of a long and a short fit, "
        "which takes its set-up away, without biases. The least seconds of each over "
        f"{turns} turns, one after the other in one run. LIBMF: {libmf_peer.build_name()}; "
        "its own rate is adaptive, like adagrad.\n\n"
        f"{markdown_table(COLUMNS, rows)}\n\n"
        f"Least ratio {least:.2f} (wanted: {WANTED} in each line)."
    )
    own_build = bool(os.environ.get("LIBMF_OBJ"))  # both tables stand in the documentation
    name = "sgd_kernel_simd" if own_build else "sgd_kernel"
    title = "SGD kernel, beside LIBMF " + ("built with SIMD" if own_build else "as PyPI has it")
    write_numbers(out, name, COLUMNS, rows, origin)
    write_section(out, name, title, body, origin)


if __name__ == "__main__":
    main()
