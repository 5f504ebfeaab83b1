"""The command: help, errors, where it runs, what it reads, and `daskpart partition`."""

from __future__ import annotations

import csv
import errno
import io
import os
import signal
import subprocess
import sys
import time
import warnings
from types import SimpleNamespace

import click
import numpy as np
import pytest
import scipy.sparse
import sparse
from command_results import metrics_of

import daskpart
from daskpart import cli, data_models
from daskpart.__main__ import main
from daskpart._cli import cluster, inputs, mf, mpi, pictures, stops, terminal
from daskpart._cli.fit import MODELS, FitCommand
from daskpart.errors import DaskpartWarning, InputError, MissingPackageError
from daskpart.partitioners import METHODS
from daskpart.readers.detection import FORMATS

# help, version, errors


def test_help_names_the_commands_and_a_first_line_to_type(capsys, run_cli):
    assert run_cli("--help") == 0
    out = capsys.readouterr().out
    assert "daskpart fit mf python-source" in out
    assert out.index("  fit") < out.index("  partition")


@pytest.mark.parametrize(
    ("command", "options"),
    [
        (
            ("fit", "mf"),
            ("--ranks", "--eta", "--cluster", "--checkpoint-path", "--resume", "--out"),
        ),
        (("partition",), ("--parts", "--method", "--objective", "--epsilon", "--out")),
    ],
)
def test_help_of_a_command_lists_its_options_with_defaults(command, options, capsys, run_cli):
    assert run_cli(*command, "-h") == 0
    out = capsys.readouterr().out
    assert all(option in out for option in options) and "[default: " in out


def test_version(capsys, run_cli):
    assert run_cli("--version") == 0
    assert capsys.readouterr().out == f"daskpart {daskpart.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("partition", "absent.mtx"), "absent.mtx: no such file"),
        (("fit", "mf", "absent.data"), "'python-source'"),
        (("fit", "mf", "x", "--resume"), "--resume needs --checkpoint-path"),
        (("fit", "mf", "x", "--checkpoint-path", "run.txt"), "must end in one of .npz, .zarr"),
        (
            ("fit", "mf", "python-source", "--patience", "2"),
            "--patience needs --validation-fraction",
        ),
        (("fit", "mf", "x", "--cluster", "somewhere"), "nor HOST:PORT"),
        (("fit", "mf", "x", "--cluster", ":8786"), "nor HOST:PORT"),
        (("fit", "mf", "x", "--checkpoint-every", "2"), "needs --checkpoint-path"),
        (("partition", "x", "--rho", "3"), "of the objective power: leave out --rho"),
        (("partition", "x", "--method", "block", "--engine", "mtkahypar"), "leave out --engine"),
        (
            ("partition", "x", "--method", "hypercube", "--objective", "cut-net"),
            "leave out --objective",
        ),
        (("fit", "mf", "x", "--cluster", "4"), "write processes --workers 4"),
        (("recommend", "run", "--all", "--output", "x.pq"), "as .csv, .csv.gz or .parquet"),
        (("predict", "run", "pairs.csv", "--output", "x.xlsx.gz"), "as .csv, .csv.gz or .parquet"),
        (("fit", "mf", "x", "--plan", "plan.txt"), "must end in one of .npz, .zarr"),
        (("fit", "mf", "x", "--workers", "2"), "--workers goes with --cluster threads"),
        (("fit", "mf", "x", "--cluster", "mpi"), "mpiexec -n 6 daskpart"),
        (("fit", "mf", "x", "--cluster", "threads", "--transport", "local"), "use auto"),
        (("fit", "mf", "x", "--transport", "dask"), "needs --cluster threads or processes or mpi"),
        (("fit", "mf", "x", "--cluster", "threads", "--transport", "mpi"), "needs --cluster mpi"),
        (("fit", "mf"), "Missing argument 'RATINGS'"),
        (("fit", "mf", "x", "--out", ""), "'--out': the path is empty: give a name"),
        (("fit", "mf", "x", "--plan", ""), "'--plan': the path is empty: give a name"),
        (("partition", "x", "--output", ""), "'--output': the path is empty: give a name"),
        (("convert", "x", ""), "the path is empty: give a name"),
        (("convert", "x", "x.mtx"), "name a file that ends in .hgr, .u or .graph"),
        (("fit", "mf", "x", "--ranks", "0"), "not in the range 1<=x<=65536"),
        (("fit", "mf", "x", "--test-fraction", "1"), "not in the range 0<=x<1"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_exit_code_2(arguments, words, capsys, run_cli):
    assert run_cli(*arguments) == 2
    told = capsys.readouterr().err
    assert words in told and "Traceback" not in told


@pytest.mark.parametrize(
    "arguments",
    [
        ("fit", "mf", "python-source", "--plan", "file/plan.npz", "--out", "out"),
        ("recommend", "absent", "--all", "--output", "file/top.csv"),
    ],
)
def test_a_file_that_cannot_be_written_is_told_before_the_work(
    arguments, capsys, tmp_path, monkeypatch, run_cli
):
    """A plan was cut first, for hours it may be, and lost."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("in the way")
    assert run_cli(*arguments) == 1
    told = capsys.readouterr()
    assert told.out == "" and "nothing can be written to the folder file" in told.err


def test_an_unwritable_folder_is_one_line_and_exit_code_1(rating_file, capsys, tmp_path, run_cli):
    (tmp_path / "file").write_text("in the way")
    outcome = run_cli(
        "partition", rating_file, "--method", "block", "--out", tmp_path / "file" / "out"
    )
    assert outcome == 1
    assert "file" in capsys.readouterr().err.splitlines()[-1]


COMMANDS = [["fit", "mf"], ["partition"], ["partition", "--compare"]]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_that_a_folder_is_unwritable_is_told_before_the_work(
    command, rating_file, capsys, tmp_path, run_cli
):
    (tmp_path / "file").write_text("in the way")
    assert run_cli(*command, rating_file, "--out", tmp_path / "file" / "out") == 1
    told = capsys.readouterr()
    assert told.out == "" and "nothing can be written to the folder" in told.err


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_mistyped_name_leaves_no_folder(command, tmp_path, monkeypatch, run_cli):
    monkeypatch.chdir(tmp_path)
    assert run_cli(*command, "raitngs.csv") != 0
    assert not [*tmp_path.iterdir()]


def test_own_warnings_are_plain_lines_and_others_keep_their_form(capsys):
    with terminal.warnings_as_lines():
        warnings.warn("eta is clipped", DaskpartWarning, stacklevel=1)
        with pytest.warns(RuntimeWarning):
            warnings.warn("not ours", RuntimeWarning, stacklevel=1)
    assert capsys.readouterr().err == "note: eta is clipped\n"


def test_warnings_of_other_libraries_for_users_are_one_line_once(capsys):
    """That of scikit-learn of y had its place in the code, once as planned and once as fitted."""
    with terminal.warnings_as_lines():
        warnings.simplefilter("always")
        for _ in range(2):
            warnings.warn("y has many classes", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "note: y has many classes\n"


def test_a_full_disk_is_one_line():
    with pytest.raises(terminal.OneLineError, match="No space left") as told:
        with terminal.errors_as_one_line():
            raise OSError(errno.ENOSPC, "No space left on device")
    assert told.value.exit_code == 1


def test_memory_that_does_not_suffice_is_one_line():
    with pytest.raises(terminal.OneLineError, match=r"not enough memory: Unable .* PiB") as told:
        with terminal.errors_as_one_line():
            np.empty(2**57, np.int8)
    assert told.value.exit_code == 1


def test_a_package_that_is_missing_is_one_line_and_an_import_that_breaks_is_not():
    with pytest.raises(terminal.OneLineError, match="a picture needs ink") as told:
        with terminal.errors_as_one_line():
            raise MissingPackageError("a picture needs ink")
    assert told.value.exit_code == 1
    with pytest.raises(ImportError, match="cannot import"):
        with terminal.errors_as_one_line():
            raise ImportError("cannot import name 'ink'; pip install it again")


def test_a_reader_that_leaves_is_no_traceback():
    process = subprocess.Popen(
        [sys.executable, "-m", "daskpart", "fit", "mf", "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 1
    process.stderr.close()


def test_a_second_ctrl_c_at_once_does_not_break_off_what_answers_the_first():
    usual = signal.getsignal(signal.SIGINT)
    with stops.one_ctrl_c_at_a_time(pause=0.3):
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        time.sleep(0.4)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is usual


@pytest.mark.parametrize(("stop", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_reading_is_one_word(stop, exit_code, monkeypatch, capsys, run_cli):
    monkeypatch.setattr("daskpart._cli.mf.load_matrix", lambda *_, **__: os.kill(os.getpid(), stop))
    usual = signal.signal(stop, signal.default_int_handler)  # else SIGTERM could end the tests
    try:
        assert run_cli("fit", "mf", "x") == exit_code
    finally:
        signal.signal(stop, usual)
    assert capsys.readouterr().err.strip() == "interrupted"


def test_ctrl_c_is_answered_while_the_command_line_is_imported(monkeypatch):
    class Interrupts:
        """A finder of modules that Ctrl-C comes in the middle of."""

        @staticmethod
        def find_spec(name, *_):
            if name == "daskpart.cli":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "daskpart.cli")
    monkeypatch.setattr(sys, "meta_path", [Interrupts, *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130


# where it runs


@pytest.mark.parametrize(
    ("variables", "place", "speaks"),
    [
        ({}, (0, 1), True),
        ({"PMI_RANK": "0", "PMI_SIZE": "6"}, (0, 6), False),
        ({"PMI_RANK": "1", "PMI_SIZE": "6"}, (1, 6), True),
        ({"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "6"}, (5, 6), False),
        ({"PMI_RANK": "0", "PMI_SIZE": "1"}, (0, 1), True),
        ({"PMIX_RANK": "2", "SLURM_STEP_NUM_TASKS": "6"}, (2, 6), False),
        ({"SLURM_STEP_NUM_TASKS": "6"}, (0, 1), True),
    ],
)
def test_only_the_client_speaks_under_mpiexec(variables, place, speaks, monkeypatch):
    for name in list(os.environ):
        if name.startswith(("PMI_", "PMIX_", "OMPI_", "SLURM_")):
            monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = mpi.MpiPlace.from_environment()
    assert (found.rank, found.size) == place
    assert found.speaks is speaks


@pytest.mark.parametrize(("n_ranks", "told"), [(4, True), (2, False)])
def test_ranks_that_share_threads_are_told(n_ranks, told, capsys):
    from daskpart._cli.cluster import tell_shared_threads

    tell_shared_threads(SimpleNamespace(nthreads=lambda: {"a": 1, "b": 1}), n_ranks)
    err = capsys.readouterr().err
    assert ("4 ranks share 2 threads of the workers" in err and "from -n 6 on" in err) == told


def test_mpi_needs_three_processes_and_mpiexec_needs_mpi(monkeypatch):
    world = SimpleNamespace(Get_size=lambda: 6)
    library = SimpleNamespace(COMM_WORLD=world, Get_library_version=lambda: "Open MPI v5.0.11, of")
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", library)
    with pytest.raises(InputError, match="has 2 processes: it needs at least 3"):
        cluster.check_cluster("mpi", None, "auto", mpi.MpiPlace(0, 2))
    with pytest.raises(InputError, match="started 6 copies of this command"):
        cluster.check_cluster("none", None, "auto", mpi.MpiPlace(3, 6))
    cluster.check_cluster("mpi", None, "auto", mpi.MpiPlace(3, 6))
    world.Get_size = lambda: 1
    with pytest.raises(InputError, match=r"started 6 .* sees 1: .*, Open MPI v5.0.11, or"):
        cluster.check_cluster("mpi", None, "auto", mpi.MpiPlace(3, 6))


def test_silence_hides_what_the_other_processes_say(capsys):
    with mpi.silence_unless_speaking(mpi.MpiPlace(4, 6)):
        print("said six times")
    assert capsys.readouterr().out == ""


# the input


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("small.tns", "1 1 1 2.0\n2 2 2 3.0\n", "tensor of 3 modes"),
        ("notes.txt", "to be or not to be\n", "--format one of"),
    ],
)
def test_a_file_that_is_no_matrix_is_refused_with_what_it_is_or_needs(tmp_path, name, text, words):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        inputs.load_matrix(str(path))


def test_one_of_something_is_told_as_one(tmp_path):
    path = tmp_path / "one.csv"
    path.write_text("user,item,rating\n7,1,3\n")
    words = inputs.in_words(inputs.load_matrix(str(path)), "one.csv")
    assert words == "one.csv: 1 value in 1 user × 1 item (100.00% known)"


def test_a_judgement_hints_at_what_was_learnt_by_heart():
    good = {"test_rmse": 0.9, "test_mae": 0.7, "mean_rmse": 1.1, "n_test": 60, "n_strangers": 0}
    names = ("user", "item")
    (sentence,) = mf.judged({**good, "train_rmse": 0.8}, names)
    assert "(18.2% better)" in sentence
    assert sentence.startswith("test RMSE 0.9000 (18.2% better), ")  # the model is, not the mean
    assert "(10.0% worse)" in mf.judged({**good, "test_rmse": 1.21, "train_rmse": 1.0}, names)[0]
    dull = mf.judged({**good, "mean_rmse": 0.0, "train_rmse": 1.0}, names)
    assert dull[0].endswith("answering the mean every time gives 0.0000")  # no share of nothing
    by_heart = mf.judged({**good, "n_strangers": 2, "train_rmse": 0.4}, names)
    assert by_heart[1].startswith("2 of them belong to a user or item without")
    assert "--regularization" in by_heart[2]
    one = mf.judged({**good, "n_strangers": 1, "train_rmse": 0.8}, names)
    assert one[1].startswith("1 of them belongs to a user or item")


# daskpart partition


@pytest.mark.parametrize("model", ["column-net", "row-net"])
def test_partition_writes_what_the_function_returns(tmp_path, capsys, model, run_cli):
    matrix = scipy.sparse.random_array((60, 40), density=0.08, rng=np.random.default_rng(0))
    scipy.sparse.save_npz(tmp_path / "matrix.npz", matrix.tocsr())
    out = tmp_path / "out"
    arguments = ("--parts", 3, "--model", model, "--random-state", 7, "--out", out)
    assert run_cli("partition", tmp_path / "matrix.npz", *arguments) == 0

    expected = daskpart.partition(matrix, 3, model=model, random_state=7)
    assert daskpart.Partition.load(out / "partition.npz") == expected
    with (out / "assignment.csv").open() as file:
        header, *lines = csv.reader(file)
    assert header == ["row" if model == "column-net" else "column", "part"]
    assert [int(part) for _, part in lines] == expected.assignment.tolist()
    assert metrics_of(out)["metrics"]["parts"] == 3
    page = (out / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 2 and "http" not in page.split("<body>")[1]
    told = capsys.readouterr().out
    assert "60 rows × 40 columns" in told and str(out / "report.html") in told
    assert f"as text; {header[0]}s are counted from 0" in told  # those of an .mtx file begin at 1


def test_partition_takes_tensors_and_hypergraphs(tmp_path, capsys, run_cli):
    tensor = sparse.random((9, 8, 7), nnz=60, random_state=0)
    lines = zip(*(tensor.coords + 1), tensor.data.tolist(), strict=True)
    (tmp_path / "t.tns").write_text("".join(f"{i} {j} {k} {v!r}\n" for i, j, k, v in lines))
    out, parts = tmp_path / "out", tmp_path / "parts.txt"
    arguments = ("--parts", 3, "--no-plots", "--out", out, "--output", parts)
    assert run_cli("partition", tmp_path / "t.tns", *arguments) == 0
    expected = daskpart.partition(tensor, 3)
    assert daskpart.Partition.from_file(parts).assignment.tolist() == expected.assignment.tolist()
    nonzeros = daskpart.Partition.from_file(out / "nonzero-parts.txt.gz")
    assert nonzeros.assignment.tolist() == expected.nonzero_parts(tensor).tolist()
    told = capsys.readouterr().out
    assert "60 nonzeros in a tensor of 9 × 8 × 7" in told and "parts of the groups" in told

    assert run_cli("convert", tmp_path / "t.tns", tmp_path / "t.hgr.gz") == 0
    assert daskpart.read(tmp_path / "t.hgr.gz") == data_models.medium_grain(tensor).hypergraph
    assert run_cli("partition", tmp_path / "t.hgr.gz", *arguments) == 0
    assert daskpart.Partition.from_file(parts).assignment.tolist() == expected.assignment.tolist()
    assert "nets with" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["a.hgr", "a.u"])
def test_nets_without_pins_are_not_converted(tmp_path, capsys, run_cli, name):
    """KaHyPar and Mt-KaHyPar refuse the whole file for one of them."""
    pointer, pins = [0, 2, 2, 3, 3], [0, 3, 1]
    whole = daskpart.Hypergraph.from_nets(pointer, pins, 4, [1, 2, 3, 4], [5, 6, 7, 8])
    whole.write(tmp_path / "whole.hgr")
    assert run_cli("convert", tmp_path / "whole.hgr", tmp_path / name) == 0
    filled = daskpart.Hypergraph.from_nets([0, 2, 3], pins, 4, [1, 2, 3, 4], [5, 7])
    assert daskpart.read(tmp_path / name) == filled
    assert "left out: 2 nets without pins" in capsys.readouterr().out


def test_a_metis_graph_of_edges_is_the_graph_itself(tmp_path, capsys, run_cli):
    """Not the column-net, whose nets may all be pairs, and so edges of another graph."""
    edges = tmp_path / "ring.edges"
    edges.write_text("0 1\n1 2\n2 3\n3 0\n0 0\n")
    assert run_cli("convert", edges, tmp_path / "ring.graph") == 0
    found = daskpart.read(tmp_path / "ring.graph")
    pairs = found.pins.reshape(-1, 2).tolist()
    assert sorted(map(sorted, pairs)) == [[0, 1], [0, 3], [1, 2], [2, 3]]

    (tmp_path / "tall.csv").write_text("a,x,1\nb,x,2\nc,y,1\n")
    assert run_cli("convert", tmp_path / "tall.csv", tmp_path / "tall.graph") != 0
    told = " ".join(capsys.readouterr().err.split())
    assert "tall.graph is to be a graph, and" in told and "is 3 × 2: write .hgr or .u" in told
    assert not (tmp_path / "tall.graph").exists()


@pytest.mark.parametrize("model", ["graph", "column-net-self-loops", "stochastic", "bipartite"])
def test_partition_by_every_model_of_a_graph(tmp_path, model, run_cli):
    matrix = scipy.sparse.random_array((60, 60), density=0.05, rng=np.random.default_rng(0))
    scipy.sparse.save_npz(tmp_path / "graph.npz", matrix.tocsr())
    arguments = ("--parts", 2, "--model", model, "--no-plots", "--out", tmp_path / "out")
    assert run_cli("partition", tmp_path / "graph.npz", *arguments) == 0
    expected = daskpart.partition(matrix, 2, model=model)
    assert daskpart.Partition.load(tmp_path / "out" / "partition.npz") == expected


@pytest.mark.parametrize("name", MODELS)
def test_help_does_not_offer_what_only_python_can_give(name, capsys, run_cli):
    assert run_cli("fit", name, "--help") == 0
    told = " ".join(capsys.readouterr().out.split())
    words = (
        "RandomState", "tuple", '{"', "a daskpart.Partition", "or within this one", "(I_m, R)",
        "MatrixFactorization", "eval_set", "strata and copies", "see negatives",
    )  # fmt: skip
    assert not [word for word in words if word in told]
    assert ". not given" not in told and "[default" in told


@pytest.mark.parametrize("name", ["mf", "cp", "gcn", "implicit"])
def test_options_of_fit_are_the_parameters_of_the_estimator(name):
    command = FitCommand(name)
    context = click.Context(command)
    offered = {each.name: each for each in command.get_params(context)}
    estimator = getattr(daskpart, command.model.estimator)()
    left_out = {"verbose", "warm_start", "alpha_beta", "fixed_modes"}
    columns = {"user", "item", "rating"} & {*estimator.get_params()}  # they are read by
    assert columns <= {*offered}
    for parameter, default in estimator.get_params().items():
        if parameter in columns:
            continue
        if parameter in left_out:
            assert parameter not in offered
            continue
        option = offered[parameter]
        assert f"--{parameter.replace('_', '-')}" in option.opts[0].partition("/")[0]
        assert option.get_default(context) == default, parameter
        assert option.help
    choices = offered["transport"].type.choices
    assert list(choices) == ["auto", "local", "graph", "dask", "mpi"]  # as the docstring has them


def test_what_the_command_offers_is_what_the_function_takes():
    assert set(cli._MODELS) == set(data_models.NAMES)
    assert set(cli._METHODS) <= {"auto", *METHODS}
    assert set(cli._FORMATS) == set(FORMATS)


@pytest.mark.parametrize(
    ("model", "head", "told"),
    [
        ("fine-grain", "nonzero", "of the nonzeros, 500 nonzeros each"),
        ("bipartite", "user", "of the users, 18 to 19 users each"),
    ],
)
def test_what_is_cut_of_a_matrix_with_names(
    tmp_path, rating_file, capsys, run_cli, model, head, told
):
    """Nonzeros are more than the names of rows, and vertices that all weigh 1 hold no values."""
    options = ("--model", model, "--method", "block", "--no-plots", "--out", tmp_path)
    assert run_cli("partition", rating_file, *options) == 0
    said = capsys.readouterr().out
    assert told in said and ("counted from 0" in said) == (head == "nonzero")
    with (tmp_path / "assignment.csv").open() as file:
        header, *lines = csv.reader(file)
    assert header == [head, "part"]
    partition = daskpart.Partition.load(tmp_path / "partition.npz")
    assert [int(part) for _, part in lines] == partition.assignment.tolist()


def test_an_end_of_file_that_nobody_typed_is_told_as_the_error_that_it_is(monkeypatch):
    """As of bytecode that a full disk cut short: click takes it for Ctrl-D, so for a Ctrl-C."""

    def cut_short(*arguments: object, **options: object) -> None:
        raise EOFError("marshal data too short")

    monkeypatch.setattr("daskpart._cli.convert.run", cut_short)
    with pytest.raises(EOFError, match="marshal data"):
        cli.main(["convert", "python-source", "x.hgr"])


def test_the_exit_code_stays_where_nobody_reads_the_error(tmp_path, monkeypatch, run_cli):
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "stderr", Full())
    assert run_cli("convert", tmp_path / "absent.mtx", tmp_path / "x.hgr") == 2


def test_without_matplotlib_all_but_the_pictures_is_written(
    tmp_path, rating_file, capsys, monkeypatch, run_cli
):
    monkeypatch.setattr(pictures, "find_spec", lambda name: None)
    out = tmp_path / "out"
    assert run_cli("partition", rating_file, "--method", "block", "--out", out) == 0
    assert "pip install 'daskpart[plot]'" in capsys.readouterr().out
    assert (out / "report.html").exists() and not list(out.glob("*.png"))


def test_partition_without_pictures(tmp_path, rating_file, run_cli):
    out = tmp_path / "out"
    assert run_cli("partition", rating_file, "--method", "block", "--no-plots", "--out", out) == 0
    assert not list(out.glob("*.png")) and (out / "report.html").exists()
    with (out / "assignment.csv").open() as file:
        assert next(csv.reader(file)) == ["user", "part"]


def test_a_wave_behind_an_equals_sign_is_home(tmp_path, rating_file, run_cli, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    options = ("--method=block", "--no-plots", "--out=~/my out", "--output=~/parts/p ü")
    assert run_cli("partition", rating_file, *options) == 0
    assert [found.name for found in tmp_path.iterdir()] == ["home"]
    assert (tmp_path / "home" / "my out" / "partition.npz").is_file()
    assert (tmp_path / "home" / "parts" / "p ü").is_file()
