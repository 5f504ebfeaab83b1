"""`daskpart fit cp`: its options. What it does is in `fit_cp`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .cluster import KINDS
from .options import COUNT, SEED, choice, number, options, output, pictures

_PARTITIONERS = (
    "auto", "random", "fine-grain", "medium-grain", "hypercube", "hypercube-fine-grain",
)  # fmt: skip
_AT_LEAST_0 = click.FloatRange(min=0)

_tensor_options = options(
    choice("--format", ("tns", "mtx", "npz"), None,
           "Format of the file.  [default: told from the file]"),
    click.option("--names", metavar="A,B,…", help="Names of the modes, in order."),
    click.option("--labels", metavar="MODE=FILE", multiple=True,
                 help="Names of the indices of a mode, one a line; may be repeated."),
    number("--seed", 0, "Fixes everything drawn at random.", SEED),
)  # fmt: skip
_parallel_options = options(
    number("--ranks", None, "Ranks that work side by side.  [default: 4]", COUNT),
    choice("--method", ("auto", "p2p", "emb-naive", "emb"), "auto",
           "Rows travel point to point, or inside allreduces; auto: what is predicted faster."),
    choice("--partitioner", _PARTITIONERS, "auto", "How nonzeros are dealt to ranks."),
    choice("--owners", ("packed", "random"), "packed", "Who owns a row that several share."),
    number("--epsilon", 0.03, "Share of the mean by which a rank may have too many nonzeros.",
           _AT_LEAST_0),
    choice("--engine", ("multilevel", "mtkahypar"), "multilevel", "What cuts in two."),
    choice("--transport", ("auto", "local", "graph", "dask", "mpi"), "auto",
           "How rows travel between ranks."),
    choice("--cluster", KINDS, "none", "Where the ranks run; mpi: start it with mpiexec."),
    number("--workers", None, "Workers of the cluster.  [default: as many as ranks]", COUNT),
)  # fmt: skip
_training_options = options(
    number("--rank", 16, "Components.", COUNT),
    number("--iterations", 50, "Most iterations.", COUNT),
    number("--tolerance", 1e-5, "Stop when an iteration changes the fit by less.", _AT_LEAST_0),
    click.option("--nonnegative", is_flag=True, help="Keep every factor at 0 or above."),
    number("--ridge", 0.0, "Pull of the factors towards 0.", _AT_LEAST_0),
    choice("--init", ("random", "nvecs"), "random", "First factors: drawn, or singular vectors."),
    number("--starts", 1, "Random starts; the best is kept.", COUNT),
    choice("--dtype", ("float32", "float64"), None, "Of the factors.  [default: of the file]"),
    choice("--memory", ("fast", "small"), "fast", "Layout of the nonzeros."),
)  # fmt: skip
_keeping_options = options(
    click.option("--checkpoint", type=click.Path(path_type=Path), metavar="PATH",
                 help="Keep the state while training: a folder, or a name ending .npz or .zarr."),
    number("--checkpoint-every", 1, "Iterations between two checkpoints.", COUNT),
    click.option("--resume", is_flag=True, help="Go on from the newest state at --checkpoint."),
    output("daskpart-output"),
    choice("--model-format", ("npz", "zarr"), "npz", "One file, or a zarr folder."),
    pictures,
)  # fmt: skip


@click.command("cp", short_help="CP decomposition of a sparse tensor.")
@click.argument("tensor")
@_tensor_options
@_parallel_options
@_training_options
@_keeping_options
@click.pass_context
def fit_cp(ctx: click.Context, **given: Any) -> None:
    """Decompose TENSOR into components: what goes together along all of its modes.

    TENSOR is a file of indices and a value a line (FROSTT .tns; also .gz, .xz, .bz2), or a matrix
    (Matrix Market, .npz), which has two modes.

    \b
    One process:           daskpart fit cp X.tns --rank 16 --ranks 4 --out run
    Worker processes:      daskpart fit cp X.tns --ranks 4 --cluster processes --out run
    MPI, 4 workers:        mpiexec -n 6 daskpart fit cp X.tns --ranks 4 --cluster mpi --out run

    With --names and --labels the components are told and drawn by their names.
    """
    from .fit_cp import FitSettings, run

    ctx.exit(run(FitSettings(**given), ctx.obj))
