"""The command `daskpart`: options here, what they do in `_cli`.

    daskpart fit mf RATINGS --ranks 4 --eta 4 --components 32 --out DIR
    daskpart fit implicit EVENTS --ranks 4 --components 64 --out DIR
    daskpart fit cp TENSOR --ranks 4 --components 16 --out DIR
    daskpart recommend DIR --user LABEL
    daskpart partition DATA --parts 8 --out DIR
    daskpart simulate allreduce --ranks 4096 --bytes 80000
    mpiexec -n 6 daskpart fit mf RATINGS --ranks 4 --cluster mpi --out DIR

Exit code 0: done; 1: the run failed; 2: what was asked or given cannot be used; 130: Ctrl-C, and
143: SIGTERM, 129: SIGHUP, 138: SIGUSR1, after the last whole epoch was written.
"""

from __future__ import annotations

import gc
from contextlib import suppress
from typing import Any

import click

from ._cli import options as _o
from ._cli.fit import MODELS, FitCommand
from ._cli.mpi import MpiPlace, dismiss, joins, serve, silence_unless_speaking
from ._cli.stops import INTERRUPTED, stops_as_ctrl_c
from ._cli.terminal import (
    errors_as_one_line,
    imports_uncollected,
    let_output_lack_letters,
    say,
    warnings_as_lines,
)

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
_METRICS = (
    *_OBJECTIVES, "max-connectivity", "concurrent-volume", "routed-volume", "busiest-volume",
    "max-send-volume", "max-volume",
)  # fmt: skip
_OF_SEVERAL_WEIGHTS = _METRICS[:4]  # as of `daskpart.partitioners.refinement.goals`
_AT_LEAST_0 = click.FloatRange(min=0)


def _refuse_of_method(method: str, refines: bool = False) -> None:
    """Refuse what a method of cutting does not look at, and moves behind it do not either."""
    from .partitioners import looks_at_nets
    from .partitioners.metis import is_installed as has_metis  # else an engine stands in

    of_weights = not looks_at_nets(method)
    if of_weights or method == "hypercube":
        _o.refuse(("objective",), f"--method {method} has no choice of it")
    if refines:
        return
    if of_weights:
        _o.refuse(("epsilon",), f"--method {method} is as even as weights allow")
    if of_weights or method == "parsa" or (method == "metis" and has_metis()):
        _o.refuse(("engine",), f"--method {method} uses none")


class _Commands(click.Group):
    """A group that keeps the order of declaration in `--help`."""

    command_class = _o.Command

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


class _Models(_Commands):
    """Our models by name, those of a user by module and class."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if ":" not in cmd_name:
            return super().get_command(ctx, cmd_name)
        with imports_uncollected():
            from ._cli.own import OwnCommand

            return OwnCommand(cmd_name)


@cli.group(cls=_Models)
def fit() -> None:
    """Learn a model and write it, with a report, to a folder.

    \b
    A model of your own:  daskpart fit package.module:Class DATA
                          daskpart fit ./my_model.py:Class DATA
    """


for _name in MODELS:
    fit.add_command(FitCommand(_name))


def _input() -> click.Option:
    words = "Format of the file.  [default: told from the file]"
    return _o.choice("--format", _FORMATS, None, words)


def _model() -> click.Option:
    return _o.choice("--model", _MODELS, "auto", "What becomes a vertex, and what a net.")


def _cutting(shares: click.ParamType = _AT_LEAST_0, more: str = "") -> list[click.Option]:
    balance = f"Share of the mean by which a part may be too heavy{more}."
    return [
        _model(),
        _o.choice("--method", _METHODS, "auto", "How to cut; auto fits the objective."),
        _o.choice("--objective", _OBJECTIVES, "connectivity", "What the cut makes small."),
        _o.number("--epsilon", 0.03, balance, shares),
        _o.number("--random-state", 0, "Fixes everything drawn at random.", _o.SEED),
        _input(),
    ]


@cli.command("recommend", short_help="The best items of users, by a model that fit wrote.")
@click.argument("folder", type=_o.Place())
@_o.options(
    click.Option(["--user", "users"], multiple=True, metavar="LABEL",
                 help="For whom; may be repeated."),
    click.Option(["--all", "everybody"], is_flag=True, help="For all users of the model."),
    _o.number("-n", 10, "Items a user.", _o.COUNT),
    click.Option(["--include-seen"], is_flag=True,
                 help="Also items that the user had in the fit; those that it held out to judge by "
                 "are given in any case."),
    _o.file("--output", "Write to this file, .csv or .parquet, instead of the screen."),
)  # fmt: skip
def recommend_command(**options: Any) -> None:
    """The best items of users, by the model in FOLDER, which `daskpart fit` wrote.

    \b
    daskpart recommend run --user 42 -n 5
    daskpart recommend run --all --output top10.parquet
    """
    from ._cli import use

    use.recommend(**options)


@cli.command("predict", short_help="A number for each pair, by a model that fit wrote.")
@click.argument("folder", type=_o.Place())
@click.argument("pairs", type=_o.Place())
@_o.options(_o.file("--output", "Write to this file, .csv or .parquet, instead of the screen."))
def predict_command(**options: Any) -> None:
    """A number for each line of PAIRS, a CSV or Parquet table with columns of users and items.

    Pairs with a user or an item that the model of FOLDER does not know are counted, and get the
    mean; by implicit factors 0.

    \b
    daskpart predict run pairs.csv --output predicted.csv
    """
    from ._cli import use

    use.predict(**options)


@cli.command("partition", short_help="Cut a matrix, a tensor or a hypergraph into parts.")
@click.argument("data")
@_o.options(
    _o.number("--parts", 8, "Number of parts.", _o.COUNT),
    *_cutting(_o.SHARES, "; with --further-weights also one for each weight, the model's first"),
    _o.number("--rho", 2.0, "Exponent of the power objective.", click.FloatRange(min=1)),
    _o.file("--further-weights", "Whole numbers, a line for each vertex: each column is shared "
            "evenly, too."),
    _o.file("--start", "Measure these parts, or with --refine improve them, instead of cutting."),
    _o.choice("--refine", _METRICS, None, "What moves of single vertices lower in the end."),
    _o.choice("--engine", ("multilevel", "mtkahypar"), "multilevel", "What cuts in two."),
    _o.output("daskpart-partition"),
    _o.file("--output", "Also write the part of each vertex to this file, one a line; "
            "to a name in .npz, what --partitioner and --start read."),
    click.Option(["--compare"], is_flag=True,
                 help="Cut by every method, and say what each costs; writes no partition."),
    click.Option(["--memory-limit"], metavar="SIZE",
                 help="With parsa: read a libsvm file in blocks that fit, such as 2GB."),
    _o.pictures(),
)  # fmt: skip
def partition_command(memory_limit: str | None, compare: bool, **options: Any) -> None:
    """Cut DATA, anything sparse, into parts that weigh the same and share little.

    DATA is a file (Matrix Market, .npz, ratings, edges, libsvm; tensors .tns; hypergraphs hMETIS
    .hgr, PaToH .u, METIS .graph; also .gz, .xz, .bz2) or python-source, the built-in data. Writes
    the partition, its metrics, pictures and a report. With --start the parts are those of a file,
    which 'daskpart partition' or another partitioner wrote.

    \b
    auto models: the rows of a matrix, groups of nonzeros of a tensor, a hypergraph or a METIS graph
    as it is.
    """
    from ._cli import compare as comparison
    from ._cli import cut, place

    settings = cut.CutSettings(**options)
    if compare:
        _o.refuse(comparison.UNUSED, "--compare cuts by every method")
        comparison.run(settings)
    elif memory_limit is not None:
        _o.refuse(place.UNUSED, "--memory-limit is for Parsa's own goal")
        place.run(settings, memory_limit)
    else:
        if settings.start is not None:
            _o.refuse(cut.UNUSED_WITH_START, "with --start nothing is cut")
        if settings.start is not None and settings.refine is None:
            unused = ("epsilon", "rho", "engine", "further_weights")
            _o.refuse(unused, "without --refine parts stay as they are")
        _refuse_of_method(settings.method, settings.refine is not None)
        if settings.refine not in (None, *_OF_SEVERAL_WEIGHTS):
            _o.refuse(("further_weights",), f"--refine {settings.refine} looks at one weight")
        if "power" not in (settings.objective, settings.refine):
            _o.refuse(("rho",), "it is of the objective power")
        cut.run(settings, parts_typed=_o.is_typed("parts"))


@cli.command("convert", short_help="Write data for another partitioner, or a graph in parts.")
@click.argument("source", metavar="DATA")
@click.argument("target", type=_o.Place())
@_o.options(
    _model(),
    _input(),
    _o.choice("--to", ("dgl", "pyg", "parmetis"), None, "Write a graph in parts, to a folder."),
    _o.file("--partition", "With --to: parts from 'daskpart partition', or one a line."),
)
def convert_command(**options: Any) -> None:
    """Write DATA to TARGET, whose name tells the format: .hgr, .u or .graph, also with .gz.

    DATA is what 'daskpart partition' takes; a .graph of a square matrix is the graph of its
    entries, and other files hold the nets of --model. The result of the other partitioner comes
    back with daskpart.Partition.from_file. With --to, TARGET is a folder, and gets a graph and its
    parts as DGL, PyTorch Geometric or ParMETIS have them:

    \b
      daskpart partition web.mtx --model column-net-self-loops --output web.parts
      daskpart convert web.mtx web-dgl --to dgl --partition web.parts
    """
    from ._cli.convert import run

    if options["to"] is not None:
        _o.refuse(("model",), "--to writes the graph itself")
    run(**options)


_ROUTINGS = ("point-to-point", "aware", "naive", "all")
_DENSE = ("hypercube", "rabenseifner", "ring", "star", "all")


def _cost() -> list[click.Option]:
    return [
        _o.number("--alpha", 2e-6, "Seconds a message.", _AT_LEAST_0),
        _o.number("--beta", 1e-10, "Seconds a byte.", _AT_LEAST_0),
        click.Option(["--json"], is_flag=True, help="Print JSON instead of a table."),
        _o.file("--plot", "Draw the seconds into this file.", "PATH"),
    ]


_HOW_TO_CUT = ("method", "objective", "epsilon")


def _cut_before() -> list[click.Option]:
    words = "Parts from 'daskpart partition', or one a line, instead of cutting now."
    return [_o.file("--partition", words), *_cutting()]


def _refuse_of_cut(cut: Any) -> None:
    """Refuse what `daskpart simulate` would not look at to have its parts."""
    if cut.partition is not None:
        _o.refuse(_HOW_TO_CUT, "with --partition nothing is cut")
    _refuse_of_method(cut.method)


def _row_bytes() -> click.Option:
    return _o.number("--row-bytes", 128, "Bytes of a row.", _o.Bytes(min=1))


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
    @_o.options(
        _o.many("--parts", "Parts, one a rank; may be repeated.  [default: 8]"),
        _o.choice("--routing", _ROUTINGS, "all", "Straight, or embedded in a hypercube."),
        *(_row_bytes(), *_cut_before(), *_cost()),
    )
    def command(**options: Any) -> None:
        from ._cli import simulate

        cost = simulate.settings_of(simulate.CostSettings, options)
        cut = simulate.settings_of(simulate.Cutting, options)
        _refuse_of_cut(cut)
        simulate.run_plan(kind, **options, cut=cut, cost=cost)


_plan_command("expand", "Send each shared row from its owner to all that share it.")
_plan_command("reduce", "Send each shared row from all that share it to its owner.")


@simulate_group.command("allreduce", short_help="Combine an array of all ranks, on all ranks.")
@_o.options(
    _o.many("--ranks", "Ranks; may be repeated.", (8, 64, 512, 4096)),
    _o.number("--bytes", 8, "Bytes of the array.", _o.Bytes(min=0)),
    _o.choice("--algorithm", _DENSE, "all", "How."),
    *_cost(),
)
def simulate_allreduce_command(**options: Any) -> None:
    """Combine an array of so many bytes that every rank has, so that every rank has the result."""
    from ._cli import simulate

    cost = simulate.settings_of(simulate.CostSettings, options)
    n_bytes = options.pop("bytes")
    simulate.run_allreduce(**options, n_bytes=n_bytes, cost=cost)


@simulate_group.command("sparse-allreduce", short_help="Combine a sparse vector of all ranks.")
@click.argument("data", required=False)
@_o.options(
    _o.many("--ranks", "Ranks (parts of DATA); may be repeated.  [default: 8, 64]"),
    _o.number("--dimension", 1_000_000, "Length of the vectors.", _o.COUNT),
    _o.number("--nonzeros", 10_000, "Entries of a rank.", _o.COUNT),
    click.Option(["--algorithm"], default="all", show_default=True,
                 help="One of the table that is printed, or all."),
    _o.choice("--how", ("auto", "counted", "expected"), "auto",
              "Merge real indices, or use the closed form; auto counts up to 512 ranks that "
              "have 2e7 nonzeros together."),
    _o.choice("--spread", ("even", "power-law"), "even", "Where entries lie."),
    _o.choice("--dtype", ("float32", "float64"), "float32", "Type of the values."),
    *(*_cut_before(), *_cost()),
)  # fmt: skip
def simulate_sparse_command(**options: Any) -> None:
    """Combine a sparse vector of every rank, so that every rank has the result.

    Entries are made up, or with DATA what each part touches, of a matrix the columns of its rows:
    the pattern of a gradient.
    """
    from ._cli import simulate

    cost = simulate.settings_of(simulate.CostSettings, options)
    cut = simulate.settings_of(simulate.Cutting, options)
    if options["data"] is None:
        _o.refuse(("partition", "model", *_HOW_TO_CUT, "format"), "without DATA nothing is cut")
    else:
        _o.refuse(("dimension", "nonzeros", "spread"), "DATA says itself where entries lie")
        _refuse_of_cut(cut)
    simulate.run_sparse_allreduce(**options, cut=cut, cost=cost)


@simulate_group.command("plan", short_help="A plan in a file.")
@click.argument("path", type=_o.Place())
@_o.options(_row_bytes(), *_cost())
def simulate_plan_command(**options: Any) -> None:
    """Count the plan at PATH, which Plan.save wrote; --plot draws who sends how much to whom."""
    from ._cli import simulate

    cost = simulate.settings_of(simulate.CostSettings, options)
    simulate.run_file(**options, cost=cost)


@cli.command("warm-up", short_help="Compile what most runs need, once.")
def warm_up_command() -> None:
    """Compile the kernels of partitioning and of the models into the cache on disk.

    For the image of a container, or before a job: later processes load what is there.
    """
    from ._warm_up import warm_up

    say(f"warm after {warm_up():.1f} s")


def main(arguments: list[str] | None = None) -> None:
    """Run the command and end the process with its exit code."""
    place = MpiPlace.from_environment()
    let_output_lack_letters()
    gc.set_threshold(50_000)  # imports make many objects that stay: looking for cycles is wasted
    with silence_unless_speaking(place), warnings_as_lines():
        if not joins(place):
            code = _run(arguments, place)
        elif not place.speaks:
            code = serve(place)
        else:
            code = 1  # of an error that nobody expects
            try:
                code = _run(arguments, place)
            finally:
                dismiss(code, place)
    gc.freeze()  # or the interpreter looks, for a second, for cycles in what ends with it
    raise SystemExit(code)


def _run(arguments: list[str] | None, place: MpiPlace) -> int:
    """Run the command here; gives its exit code."""
    with stops_as_ctrl_c() as received:
        code = _exit_code(arguments, place)
    return 128 + received[0] if received and code == INTERRUPTED else code


def _exit_code(arguments: list[str] | None, place: MpiPlace) -> int:
    try:
        with errors_as_one_line():
            return cli.main(arguments, "daskpart", standalone_mode=False, obj=place) or 0
    except click.exceptions.Abort as stop:
        if isinstance(stop.__cause__, EOFError):  # that click takes for Ctrl-D: nobody is asked
            raise stop.__cause__ from None
        click.echo("interrupted", err=True)  # on a line of its own: click has ended the last
        return INTERRUPTED
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        with suppress(OSError):  # nobody reads it: the code says it, too
            error.show()
        return error.exit_code
