"""The command `daskpart`: options here, what they do in `_cli`.

    daskpart fit mf RATINGS --ranks 4 --eta 4 --components 32 --out DIR
    daskpart fit cp TENSOR --ranks 4 --rank 16 --out DIR
    daskpart partition DATA --parts 8 --out DIR
    daskpart simulate allreduce --ranks 4096 --bytes 80000
    mpiexec -n 6 daskpart fit mf RATINGS --ranks 4 --cluster mpi --out DIR

Exit code 0: done; 1: the run failed; 2: what was asked or given cannot be used; 130: Ctrl-C, after
the last whole epoch was written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ._cli.cluster import KINDS
from ._cli.fit_cp_command import fit_cp
from ._cli.options import COUNT as _COUNT
from ._cli.options import POSITIVE as _POSITIVE
from ._cli.options import SEED as _SEED
from ._cli.options import SHARE as _SHARE
from ._cli.options import choice as _choice
from ._cli.options import number as _number
from ._cli.options import options as _options
from ._cli.options import output as _output
from ._cli.options import pictures as _pictures
from ._cli.terminal import (
    INTERRUPTED,
    MpiPlace,
    errors_as_one_line,
    silence_unless_speaking,
    warnings_as_lines,
)
from .errors import InputError

_FORMATS = (
    "ratings", "parquet", "adjacency", "edges", "mtx", "npz", "libsvm", "tns", "hgr", "patoh",
    "metis",
)  # fmt: skip
_METHODS = ("auto", "random", "block", "metis", "direct", "recursive", "hypercube", "parsa")
_MODELS = (
    "auto", "column-net", "row-net", "column-net-self-loops", "graph", "bipartite", "fine-grain",
    "medium-grain", "stochastic",
)  # fmt: skip
_OBJECTIVES = ("connectivity", "cut-net", "power")
_PARTITIONERS = ("power", "connectivity", "cut-net", "metis", "random", "block")


class _Commands(click.Group):
    """A group that keeps the order of declaration in `--help`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="daskpart", message="daskpart %(version)s")
def cli() -> None:
    """Cut sparse data so that the parts share little, and learn from it in parallel.

    \b
    Try it, no data needed:
      daskpart fit mf python-source --ranks 4 --out first-run
    """


@cli.group(cls=_Commands)
def fit() -> None:
    """Learn a model and write it, with a report, to a folder."""


_input = _choice("--format", _FORMATS, None, "Format of the file.  [default: told from the file]")


_cutting = (
    _number("--rho", 2.0, "Exponent of the power objective.", click.FloatRange(min=1)),
    _number("--epsilon", 0.03, "Share of the mean by which a part may be too heavy.",
            click.FloatRange(min=0)),
    _choice("--engine", ("multilevel", "mtkahypar"), "multilevel", "What cuts in two."),
)  # fmt: skip
_ratings_options = _options(
    _input,
    _number("--test-fraction", 0.1, "Share of the ratings held out to judge by.", _SHARE),
    _number("--seed", 0, "Fixes everything drawn at random.", _SEED),
)
_parallel_options = _options(
    _number("--ranks", None, "Ranks that train side by side.  [default: 4]", _COUNT),
    _number("--eta", None, "Synchronisations an epoch.  [default: as many as ranks]", _COUNT),
    click.option(
        "--partitioner",
        default="power",
        show_default=True,
        metavar=f"[{'|'.join(_PARTITIONERS)}|FILE]",
        help="How rows are dealt to ranks, or a partition.npz of 'daskpart partition'.",
    ),
    *_cutting,
    _choice("--axis", ("rows", "columns", "auto"), None, "What is dealt.  [default: rows]"),
    _choice(
        "--transport",
        ("auto", "local", "graph", "dask", "mpi"),
        "auto",
        "How rows travel between ranks; auto: the fastest that the cluster can run.",
    ),
    _choice("--cluster", KINDS, "none", "Where the ranks run; mpi: start it with mpiexec."),
    _number("--workers", None, "Workers of the cluster.  [default: as many as ranks]", _COUNT),
)
_training_options = _options(
    _number("--components", 32, "Length of a factor row.", _COUNT),
    _number("--epochs", 20, "Passes over the ratings.", _COUNT),
    _choice(
        "--learning-rate", ("adagrad", "constant", "decay", "bold-driver"), "adagrad",
        "How the step size goes on from the first.",
    ),
    _number("--initial-learning-rate", None, "First step size.  [default: fits the schedule]",
            _POSITIVE),
    _number("--regularization", 0.05, "Pull of the factors towards 0.", click.FloatRange(min=0)),
    click.option("--biases/--no-biases", default=True, show_default=True,
                 help="Mean, user and item biases beside the factors."),
    _choice("--averaging", ("mean", "ratings"), "mean", "Weights when copies of a row meet."),
    _number("--validation-fraction", 0.0, "Share of the training ratings watched in training.",
            _SHARE),
    _number("--patience", None, "Stop after so many epochs without a lower validation RMSE.",
            _COUNT),
)  # fmt: skip
_keeping_options = _options(
    click.option("--checkpoint", type=click.Path(path_type=Path), metavar="PATH",
                 help="Keep the state while training: a folder, or a name ending .npz or .zarr."),
    _number("--checkpoint-every", 1, "Epochs between two checkpoints.", _COUNT),
    click.option("--resume", is_flag=True, help="Go on from the newest state at --checkpoint."),
    _output("daskpart-output"),
    _choice("--model-format", ("npz", "zarr"), "npz", "One file, or a zarr folder."),
    _pictures,
)  # fmt: skip


@fit.command("mf", short_help="Matrix factorization of ratings.")
@click.argument("ratings")
@_ratings_options
@_parallel_options
@_training_options
@_keeping_options
@click.pass_context
def fit_mf(ctx: click.Context, **options: Any) -> None:
    """Factorize RATINGS: predict what is not in a sparse matrix from what is.

    RATINGS is a file of user, item, rating (MovieLens u.data, ratings.dat, ratings.csv; Matrix
    Market; scipy or pydata/sparse .npz; also .gz, .xz, .bz2), or python-source, the built-in data:
    how often each module of Python's standard library uses each name.

    \b
    One process:           daskpart fit mf u.data --ranks 4 --eta 4 --out run
    Worker processes:      daskpart fit mf u.data --ranks 4 --cluster processes --out run
    MPI, 4 workers:        mpiexec -n 6 daskpart fit mf u.data --ranks 4 --cluster mpi --out run

    More synchronisations (--eta) mean fresher rows and smaller messages, but more of them; with as
    many as ranks no rank ever works on a stale row.
    """
    from ._cli.fit_mf import FitSettings, run

    ctx.exit(run(FitSettings(**options), ctx.obj))


fit.add_command(fit_cp)
_model = _choice("--model", _MODELS, "auto", "What becomes a vertex, and what a net.")


@cli.command("partition", short_help="Cut a matrix, a tensor or a hypergraph into parts.")
@click.argument("data")
@_options(
    _number("--parts", 8, "Number of parts.", _COUNT),
    _choice("--method", _METHODS, "auto", "How to cut; auto fits the objective."),
    _choice("--objective", _OBJECTIVES, "connectivity", "What the cut makes small."),
    _model,
    *_cutting,
    _number("--seed", 0, "Fixes everything drawn at random.", _SEED),
    _input,
    _output("daskpart-partition"),
    click.option("--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
                 help="Also write the part of each vertex to this file, one a line."),
    click.option("--compare", is_flag=True,
                 help="Cut by every method, and say what each costs; writes no partition."),
    click.option("--memory-limit", metavar="SIZE",
                 help="With parsa: read a libsvm file in blocks that fit, such as 2GB."),
    _pictures,
)  # fmt: skip
def partition_command(memory_limit: str | None, compare: bool, **options: Any) -> None:
    """Cut DATA, anything sparse, into parts that weigh the same and share little.

    DATA is a file (Matrix Market, .npz, ratings, edges, libsvm; tensors .tns; hypergraphs hMETIS
    .hgr, PaToH .u, METIS .graph; also .gz, .xz, .bz2) or python-source, the built-in data. Writes
    the partition, its metrics, pictures and a report.

    \b
    auto models: the rows of a matrix, groups of nonzeros of a tensor, a hypergraph as it is.
    """
    from ._cli import compare as comparison
    from ._cli import cut, place

    settings = cut.CutSettings(**options)
    if compare:
        given = click.get_current_context().get_parameter_source
        for name in comparison.UNUSED:
            if given(name) is ParameterSource.COMMANDLINE:
                option = f"--{name.replace('_', '-')}"
                raise InputError(f"--compare cuts by every method: leave {option} away")
        comparison.run(settings)
    elif memory_limit is None:
        cut.run(settings)
    else:
        place.run(settings, memory_limit)


@cli.command("convert", short_help="Write data as a hypergraph for another partitioner.")
@click.argument("data")
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@_options(_model, _input)
def convert_command(data: str, target: Path, model: str, format: str | None) -> None:
    """Write DATA to TARGET, whose name tells the format: .hgr, .u or .graph, also with .gz.

    DATA is what 'daskpart partition' takes. The result of the other partitioner comes back with
    daskpart.Partition.from_file.
    """
    from ._cli.convert import run

    run(data, target, model, format)


_ROUTINGS = ("point-to-point", "aware", "naive", "all")
_DENSE = ("hypercube", "rabenseifner", "ring", "star", "all")
_picture = click.Path(dir_okay=False, path_type=Path)
_cost_options = _options(
    _number("--alpha", 2e-6, "Seconds a message.", click.FloatRange(min=0)),
    _number("--beta", 1e-10, "Seconds a byte.", click.FloatRange(min=0)),
    click.option("--json", is_flag=True, help="Print JSON instead of a table."),
    click.option("--plot", type=_picture, metavar="PATH", help="Draw the seconds into this file."),
)
_cut_options = _options(
    click.option("--partition", type=_picture, metavar="FILE",
                 help="Parts from 'daskpart partition', instead of cutting now."),
    _model,
    _choice("--method", _METHODS, "auto", "How to cut."),
    _choice("--objective", _OBJECTIVES, "connectivity", "What the cut makes small."),
    _number("--epsilon", 0.03, "Share of the mean by which a part may be too heavy.",
            click.FloatRange(min=0)),
    _number("--seed", 0, "Fixes everything drawn at random.", _SEED),
    _input,
)  # fmt: skip


def _many(name: str, words: str, default: tuple[int, ...] = ()) -> Any:
    return click.option(name, type=_COUNT, multiple=True, default=default, metavar="N",
                        show_default=bool(default), help=words)  # fmt: skip


@cli.group("simulate", cls=_Commands, short_help="What messages would cost, on any ranks.")
def simulate_group() -> None:
    """Count messages and bytes, and price them by α + β·bytes a message; nothing is sent.

    \b
    daskpart simulate expand python-source --parts 8 --parts 64
    daskpart simulate allreduce --ranks 64 --ranks 4096 --bytes 80000
    daskpart simulate sparse-allreduce --ranks 512 --dimension 1e7 --nonzeros 1e5
    """


def _plan_command(kind: str, words: str) -> None:
    @simulate_group.command(
        kind,
        short_help=words,
        help=f"{words} DATA is as for "
        "'daskpart partition'; of a matrix rows are cut and columns are shared.",
    )
    @click.argument("data")
    @_many("--parts", "Parts, one a rank; may be repeated.  [default: 8]")
    @_choice("--routing", _ROUTINGS, "all", "Straight, or embedded in a hypercube.")
    @_number("--row-bytes", 128.0, "Bytes of a row.", _POSITIVE)
    @_cut_options
    @_cost_options
    def command(**options: Any) -> None:
        from ._cli import simulate

        cost = simulate.settings_of(simulate.CostSettings, options)
        cut = simulate.settings_of(simulate.CutSettings, options)
        simulate.run_plan(kind, **options, cut=cut, cost=cost)


_plan_command("expand", "Send each shared row from its owner to all that share it.")
_plan_command("reduce", "Send each shared row from all that share it to its owner.")


@simulate_group.command("allreduce", short_help="Combine an array of all ranks, on all ranks.")
@_many("--ranks", "Ranks; may be repeated.", (8, 64, 512, 4096))
@_number("--bytes", 8, "Bytes of the array.", click.IntRange(min=0))
@_choice("--algorithm", _DENSE, "all", "How.")
@_cost_options
def simulate_allreduce_command(**options: Any) -> None:
    """Combine an array of so many bytes that every rank has, so that every rank has the result."""
    from ._cli import simulate

    cost = simulate.settings_of(simulate.CostSettings, options)
    n_bytes = options.pop("bytes")
    simulate.run_allreduce(**options, n_bytes=n_bytes, cost=cost)


@simulate_group.command("sparse-allreduce", short_help="Combine a sparse vector of all ranks.")
@click.argument("data", required=False)
@_many("--ranks", "Ranks (parts of DATA); may be repeated.", (8, 64))
@_number("--dimension", 1e6, "Length of the vectors.", _POSITIVE)
@_number("--nonzeros", 1e4, "Entries of a rank.", _POSITIVE)
@click.option("--algorithm", default="all", show_default=True, help="One of the table, or all.")
@_choice(
    "--how",
    ("auto", "counted", "expected"),
    "auto",
    "Merge real indices, or use the closed form; auto counts up to 512 ranks.",
)
@_choice("--spread", ("even", "power-law"), "even", "Where entries lie.")
@_choice("--dtype", ("float32", "float64"), "float32", "Type of the values.")
@_cut_options
@_cost_options
def simulate_sparse_command(**options: Any) -> None:
    """Combine a sparse vector of every rank, so that every rank has the result.

    Entries are made up, or with DATA what each part touches, of a matrix the columns of its rows:
    the pattern of a gradient.
    """
    from ._cli import simulate

    cost = simulate.settings_of(simulate.CostSettings, options)
    cut = simulate.settings_of(simulate.CutSettings, options)
    simulate.run_sparse_allreduce(**options, cut=cut, cost=cost)


@simulate_group.command("plan", short_help="A plan in a file.")
@click.argument("path", type=click.Path(path_type=Path))
@_number("--row-bytes", 128.0, "Bytes of a row.", _POSITIVE)
@_cost_options
def simulate_plan_command(path: Path, row_bytes: float, **options: Any) -> None:
    """Count the plan at PATH, which Plan.save wrote; --plot draws who sends how much to whom."""
    from ._cli import simulate

    simulate.run_file(path, row_bytes, simulate.settings_of(simulate.CostSettings, options))


def main(arguments: list[str] | None = None) -> None:
    """Run the command and end the process with its exit code."""
    place = MpiPlace.from_environment()
    with silence_unless_speaking(place), warnings_as_lines():
        try:
            with errors_as_one_line():
                code = cli.main(arguments, "daskpart", standalone_mode=False, obj=place)
        except click.exceptions.Abort:
            click.echo("interrupted", err=True)  # on a line of its own: click has ended the last
            code = INTERRUPTED
        except click.exceptions.Exit as stop:
            code = stop.exit_code
        except click.ClickException as error:
            error.show()
            code = error.exit_code
    raise SystemExit(code or 0)


if __name__ == "__main__":
    main()
