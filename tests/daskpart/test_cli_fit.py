"""`daskpart fit mf` in this process: what it writes, resumes, refuses and keeps."""

from __future__ import annotations

import csv
import errno
import io
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from command_results import metrics_of

import daskpart
from daskpart._floor import archive
from daskpart._floor.tables import fixed
from daskpart.datasets import train_test_split_ratings
from daskpart.models.base.checkpoints import CheckpointWriter

SMALL_FIT = ("--ranks", "3", "--n-components", "4", "--max-iter", "3", "--partitioner", "block")


def test_fit_writes_a_model_that_loads_and_numbers_that_agree(
    tmp_path, rating_file, capsys, run_cli
):
    out = tmp_path / "out"
    arguments = ("--validation-fraction", 0.1, "--model-format", "zarr", "--out", out)
    assert run_cli("fit", "mf", rating_file, *SMALL_FIT, *arguments) == 0
    told = capsys.readouterr().out
    metrics = metrics_of(out)
    assert metrics["ended"] == "done" and metrics["epochs"] == 3
    assert metrics["test_rmse"] < metrics["mean_rmse"]
    assert metrics["communication"]["matches"] is True
    assert metrics["plan"]["volume"] == sum(metrics["communication"]["expected_rows"])
    assert f"test RMSE {metrics['test_rmse']:.4f}" in told

    model = daskpart.MatrixFactorization.load(out / "model")
    _, test = train_test_split_ratings(daskpart.read(rating_file), 0.1, 0)
    assert -model.score(test) == pytest.approx(metrics["test_rmse"], rel=1e-9)
    with (out / "history.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    training = sum(float(row["seconds"]) for row in rows)
    assert metrics["training_seconds"] == pytest.approx(training)
    assert training < metrics["fit_seconds"]
    spent = f"{fixed(training, 2)} s; with set-up"
    assert f"3 epochs, {spent}" in told
    assert f"3 epochs in {spent}" in (out / "report.html").read_text()
    assert (out / "factors.zarr").is_dir()
    assert daskpart.Partition.load(out / "partition.npz") == model.partition_
    pictures = {"training", "spy", "partition", "traffic", "timeline"}
    assert {path.stem for path in out.glob("*.png")} == pictures
    page = (out / "report.html").read_text()
    assert page.count("data:image/png;base64,") == len(pictures)
    assert str(out / "model") in page


def test_it_is_told_which_epoch_the_model_is_of(tmp_path, rating_file, capsys, run_cli):
    given = ("--validation-fraction", 0.3, "--patience", 2, "--max-iter", 40, "--out", tmp_path)
    assert run_cli("fit", "mf", rating_file, "--ranks", "2", "--no-plots", *given) == 0
    metrics, model = metrics_of(tmp_path), daskpart.MatrixFactorization.load(tmp_path / "model")
    best = metrics["best_epoch"]
    assert metrics["ended"] == "stopped early" and best == model.best_iteration_ < model.n_iter_
    assert metrics["train_rmse"] == model.history_["train_rmse"][best - 1]
    sentence = f"he model is that of epoch {best}, the best on what was held out"
    page = (tmp_path / "report.html").read_text()
    assert f"t{sentence}" in capsys.readouterr().out and f"T{sentence}." in page


@pytest.mark.parametrize(
    ("transport", "arguments"),
    [
        ("local", ()),
        ("graph", ("--cluster", "threads", "--transport", "graph")),
        ("dask", ("--cluster", "threads")),
        pytest.param(
            "dask", ("--cluster", "processes", "--transport", "dask"), marks=pytest.mark.cluster
        ),
    ],
)
def test_recording_shows_who_did_what_and_changes_no_bit(
    transport, arguments, tmp_path, rating_file, run_cli, forked_workers
):
    plain, drawn = tmp_path / "plain", tmp_path / "drawn"
    given = ("fit", "mf", rating_file, *SMALL_FIT)
    assert run_cli(*given, "--no-plots", "--out", plain) == 0
    assert run_cli(*given, *arguments, "--out", drawn) == 0
    fits = [daskpart.MatrixFactorization.load(folder / "model") for folder in (plain, drawn)]
    for name in ("user_factors", "item_factors", "item_bias"):
        one, other = (getattr(fit.state_, name) for fit in fits)
        assert one.tobytes() == other.tobytes(), name
    communication = metrics_of(drawn)["communication"]
    assert communication["transport"] == transport and communication["matches"]
    page = (drawn / "report.html").read_text()
    assert "Rows per epoch from the rank" in page and "<p>The whole fit, " in page
    assert "seconds blocked, all" in page
    assert (drawn / "timeline.png").exists() and not list(plain.glob("*.png"))


def test_fit_on_a_partition_of_the_columns_from_a_file(tmp_path, rating_file, capsys, run_cli):
    cut, out = tmp_path / "cut", tmp_path / "out"
    model = ("--parts", 3, "--model", "row-net", "--no-plots", "--out", cut)
    assert run_cli("partition", rating_file, *model) == 0
    given = ("fit", "mf", rating_file, "--partitioner", cut / "partition.npz", "--out", out)
    small = ("--components", 4, "--max-iter", 2)
    assert run_cli(*given, *small) == 0
    metrics = metrics_of(out)
    assert (metrics["plan"]["axis"], metrics["plan"]["n_ranks"]) == ("columns", 3)
    assert metrics["communication"]["matches"] is True
    model = daskpart.MatrixFactorization.load(out / "model")
    loaded = daskpart.Partition.load(cut / "partition.npz")
    assert np.array_equal(model.partition_.assignment, loaded.assignment)

    assert run_cli(*given, *small, "--axis", "rows") == 2
    assert "cuts columns" in capsys.readouterr().err
    assert run_cli(*given, *small, "--ranks", 4) == 2
    assert "has 3 parts" in capsys.readouterr().err
    for absent, words in (("absent.npz", "no such file"), ("absent", "choose one of 'auto', ")):
        assert run_cli("fit", "mf", rating_file, "--partitioner", absent) == 2
        assert words in capsys.readouterr().err


def test_a_partitioner_of_arguments_is_what_python_gets(tmp_path, rating_file, run_cli):
    out = tmp_path / "out"
    arguments = ("--partitioner", "objective=power,rho=3,epsilon=0.2", "--no-plots", "--out", out)
    assert run_cli("fit", "mf", rating_file, *SMALL_FIT[:-2], *arguments) == 0
    model = daskpart.MatrixFactorization.load(out / "model")
    assert model.partitioner == {"objective": "power", "rho": 3, "epsilon": 0.2}


@pytest.mark.parametrize("model", ["mf", "implicit", "cp", "gcn"])
def test_a_partitioner_of_unknown_arguments_is_refused_before_the_data(model, capsys, run_cli):
    for given, odd in (
        ("epsilom=0.1,rho=2", "'epsilom'"),
        ("n_parts=2,seed=3", "'n_parts', 'seed'"),
    ):
        arguments = ("--partitioner", given, "--ranks", 2)
        assert run_cli("fit", model, "python-source", *arguments) == 2
        told = capsys.readouterr()
        assert told.out == "" and f"partitioner has {odd}, which" in told.err
        assert "it takes objective, method, model, engine, epsilon, random_state" in told.err


def test_more_ranks_than_rows_are_refused(tmp_path, rating_file, capsys, run_cli):
    assert run_cli("fit", "mf", rating_file, "--ranks", 500, "--out", tmp_path / "out") == 2
    assert "500 ranks need as many rows to share out; there are 150" in capsys.readouterr().err


def test_more_synchronisations_than_ranks_are_clipped_with_one_note(
    tmp_path, rating_file, capsys, run_cli
):
    arguments = (*SMALL_FIT, "--eta", 9, "--no-plots", "--out", tmp_path / "out")
    assert run_cli("fit", "mf", rating_file, *arguments) == 0
    captured = capsys.readouterr()
    assert (captured.out + captured.err).count("note: --eta 9 is more than --n-ranks 3") == 1
    assert metrics_of(tmp_path / "out")["plan"]["eta"] == 3


def test_axis_auto_takes_what_moves_less(tmp_path, rating_file, run_cli):
    volumes = {}
    for axis in ("rows", "columns", "auto"):
        arguments = ("--axis", axis, "--no-plots", "--out", tmp_path / axis)
        assert run_cli("fit", "mf", rating_file, *SMALL_FIT, *arguments) == 0
        volumes[axis] = metrics_of(tmp_path / axis)["plan"]["volume"]
    assert volumes["auto"] == min(volumes["rows"], volumes["columns"])


@pytest.mark.parametrize("axis", ["rows", "columns"])
def test_a_fit_takes_the_partition_that_another_wrote(tmp_path, rating_file, run_cli, axis):
    cut = ("--axis", axis, "--no-plots", "--partitioner", "connectivity", "--out", tmp_path / "one")
    assert run_cli("fit", "mf", rating_file, *SMALL_FIT, *cut) == 0
    given = ("--no-plots", "--partitioner", tmp_path / "one" / "partition.npz")
    assert run_cli("fit", "mf", rating_file, *SMALL_FIT, *given, "--out", tmp_path / "two") == 0
    one, two = (metrics_of(tmp_path / name)["plan"] for name in ("one", "two"))
    assert one["axis"] == two["axis"] == axis and one["volume"] == two["volume"]


def test_resumed_fit_has_the_bits_of_an_unbroken_one(tmp_path, rating_file, capsys, run_cli):
    whole, state, parted = tmp_path / "whole", tmp_path / "state", tmp_path / "parted"
    arguments = ("fit", "mf", rating_file, *SMALL_FIT, "--partitioner", "power", "--no-plots")
    assert run_cli(*arguments, "--max-iter", 5, "--out", whole) == 0
    checkpoint = ("--checkpoint-path", state, "--out", parted)
    assert run_cli(*arguments, "--max-iter", 2, *checkpoint) == 0
    assert "done after 2 epochs, " in capsys.readouterr().out
    assert run_cli(*arguments, "--max-iter", 5, *checkpoint, "--resume") == 0
    assert "done after 5 epochs (2 in earlier runs), " in capsys.readouterr().out
    assert "<p>5 epochs (2 in earlier runs) in " in (parted / "report.html").read_text()
    one, other = (daskpart.MatrixFactorization.load(out / "model") for out in (whole, parted))
    assert np.array_equal(one.user_factors_, other.user_factors_)
    assert np.array_equal(one.item_factors_, other.item_factors_)
    assert run_cli(*arguments, "--regularization", 0.5, *checkpoint, "--resume") == 2
    assert "belongs to another fit" in capsys.readouterr().err
    assert run_cli(*arguments, "--max-iter", 2, *checkpoint) == 2
    told = capsys.readouterr()
    assert "is of a later epoch than 0" in told.err and "planning" not in told.out


def test_divergence_keeps_the_last_finite_state_and_exits_with_1(
    tmp_path, rating_file, capsys, run_cli
):
    out = tmp_path / "out"
    wild = ("--learning-rate", "constant", "--initial-learning-rate", 0.9, "--max-iter", 30)
    outcome = run_cli("fit", "mf", rating_file, *SMALL_FIT, *wild, "--no-plots", "--out", out)
    captured = capsys.readouterr()
    assert outcome == 1
    assert "diverged" in captured.out + captured.err
    assert not (out / "model").exists() or metrics_of(out)["ended"] == "diverged"


def test_a_checkpoint_that_cannot_be_written_costs_no_epoch(
    tmp_path, rating_file, capsys, run_cli, monkeypatch
):
    """The disk of the checkpoints is full, or another job writes there: --out has its own place."""
    usual = CheckpointWriter.write

    def full(self, state):
        if state.epoch == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return usual(self, state)

    monkeypatch.setattr(CheckpointWriter, "write", full)
    arguments = (
        *SMALL_FIT,
        "--no-plots",
        "--checkpoint-path",
        tmp_path / "state.npz",
        "--max-iter",
        9,
    )
    assert run_cli("fit", "mf", rating_file, *arguments, "--out", tmp_path / "out") == 1
    assert "\nNo space left on device\n" in capsys.readouterr().out
    metrics = metrics_of(tmp_path / "out")
    assert metrics["ended"] == "failed" and metrics["epochs"] == 3
    assert "An error broke it off" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize("folder", ["out", "checkpoints"])
def test_a_folder_that_cannot_be_written_to_is_said_before_the_fit(
    folder, tmp_path, rating_file, capsys, run_cli, monkeypatch
):
    usual = tempfile.TemporaryFile

    def refuse(dir):
        if Path(dir).name == folder:
            raise OSError(errno.EROFS, "Read-only file system", "tmp1234")
        return usual(dir=dir)

    (tmp_path / folder).mkdir()
    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    checkpoints = ("--checkpoint-path", tmp_path / "checkpoints")
    arguments = (*SMALL_FIT, *checkpoints, "--no-plots", "--out", tmp_path / "out")
    assert run_cli("fit", "mf", rating_file, *arguments) == 1
    words = f"nothing can be written to the folder {tmp_path / folder}: Read-only file system"
    assert capsys.readouterr().err == f"Error: {words}\n"


def test_a_file_whose_name_is_no_utf_8(tmp_path, rating_file, run_cli):
    source = os.fsencode(tmp_path / "ratings-") + b"\xe4.data"
    Path(os.fsdecode(source)).write_bytes(Path(rating_file).read_bytes())
    arguments = (*SMALL_FIT, "--no-plots", "--out", tmp_path / "out")
    assert run_cli("fit", "mf", os.fsdecode(source), *arguments) == 0
    assert (tmp_path / "out" / "report.html").is_file()


def test_a_full_disk_is_said_once_and_nothing_is_called_written(
    tmp_path, rating_file, capsys, run_cli, monkeypatch
):
    def full(file, **arrays):
        raise OSError(errno.ENOSPC, "No space left on device", str(file.name))

    monkeypatch.setattr(archive.np, "savez", full)
    arguments = ("fit", "mf", rating_file, *SMALL_FIT, "--no-plots", "--out", tmp_path / "out")
    assert run_cli(*arguments) == 1
    captured = capsys.readouterr()
    assert "written:" not in captured.out
    error = captured.err.splitlines()[-1]
    assert error.startswith(f"Error: {tmp_path / 'out' / 'model'} was not written: No space left")
    assert error.count("was not written") == 1
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_an_output_without_all_letters_gets_question_marks(
    encoding, tmp_path, rating_file, run_cli, monkeypatch
):
    """Such as a log of Windows: "…" and "η" are no reason to lose a fit."""
    output = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr("sys.stdout", output)
    arguments = (*SMALL_FIT, "--no-plots", "--out", tmp_path / "out")
    assert run_cli("fit", "mf", rating_file, *arguments) == 0
    output.flush()
    assert "report.html" in output.buffer.getvalue().decode(encoding, "replace")


def test_values_that_are_all_alike_are_told(tmp_path, capsys, run_cli):
    path = tmp_path / "alike.mtx"
    cells = [f"{row} {column} 1" for row in range(1, 5) for column in range(1, 4)]
    header = ("%%MatrixMarket matrix coordinate real general", "4 3 12")
    path.write_text("\n".join((*header, *cells)))
    arguments = ("--ranks", 2, "--max-iter", 1, "--no-plots", "--out", tmp_path / "out")
    assert run_cli("fit", "mf", path, *arguments) == 0
    assert "note: all values are 1" in capsys.readouterr().out


def test_results_of_another_run_are_told_and_stay(tmp_path, rating_file, capsys, run_cli):
    (tmp_path / "thesis.csv").write_text("years of work")
    given = ("--no-plots", "--out", tmp_path)
    fit = ("fit", "mf", rating_file, *SMALL_FIT, *given)
    assert run_cli(*fit, "--model-format", "zarr") == 0
    (tmp_path / "component_3.png").write_bytes(b"")
    assert "which this run did not write" not in capsys.readouterr().err
    assert run_cli("partition", rating_file, "--method", "block", *given) == 0
    left = "component_3.png, factors.zarr, history.csv, model, which this run did not write"
    assert left in capsys.readouterr().err
    assert run_cli(*fit) == 0
    left = "also has assignment.csv, component_3.png, factors.zarr, which this run did not write"
    assert left in capsys.readouterr().err
    assert {"factors.zarr", "component_3.png", "thesis.csv"} <= {*os.listdir(tmp_path)}


@pytest.mark.parametrize(
    ("name", "words"),
    [("model", "is no saved model"), ("factors.zarr", "is not what daskpart writes there")],
)
def test_a_folder_that_is_not_of_a_fit_is_not_replaced(
    tmp_path, rating_file, capsys, run_cli, name, words
):
    out = tmp_path / "out"
    (out / name).mkdir(parents=True)
    (out / name / "thesis.txt").write_text("years of work")
    given = ("--no-plots", "--model-format", "zarr", "--out", out)
    assert run_cli("fit", "mf", rating_file, *SMALL_FIT, *given) == 2
    assert words in capsys.readouterr().err
    assert (out / name / "thesis.txt").exists()
    shutil.rmtree(out)
    for _ in range(2):  # those of a fit are
        assert run_cli("fit", "mf", rating_file, *SMALL_FIT, *given) == 0


@pytest.mark.parametrize("loss", ["squared", "bpr"])
def test_equal_values_are_worth_a_note_where_they_are_predicted(loss, tmp_path, capsys, run_cli):
    path = tmp_path / "clicks.csv"
    path.write_text("user,item\n" + "".join(f"{u},{u % 5 + i}\n" for u in range(9) for i in (1, 3)))
    options = ("--loss", loss, "--max-iter", 1, "--components", 2, "--no-plots", "--ranks", 1)
    assert run_cli("fit", "mf", path, *options, "--out", tmp_path / "run") == 0
    assert ("there is nothing to predict" in capsys.readouterr().out) == (loss != "bpr")


def test_a_table_of_which_no_column_of_ratings_was_named_is_asked_for_it(tmp_path, capsys, run_cli):
    path, words = tmp_path / "table.csv", "; --rating names the column of the ratings"
    path.write_text("who,what,much\n" + "".join(f"{n % 5},{n % 7},{n % 3}\n" for n in range(35)))
    few = (
        "--max-iter",
        1,
        "--components",
        2,
        "--no-plots",
        "--ranks",
        1,
        "--out",
        tmp_path / "run",
    )
    columns = ("--user", "who", "--item", "what")
    for more, is_asked in (((), True), (("--rating", "much"), False)):
        assert run_cli("fit", "mf", path, *columns, *more, *few) == 0
        assert (words in capsys.readouterr().out) == is_asked


def test_events_of_bpr_that_come_again_count_again(tmp_path, capsys, run_cli):
    path, out = tmp_path / "plays.csv", tmp_path / "run"
    pairs = [(u, i) for u in range(6) for i in range(u % 3, 6, 2)]
    path.write_text("user,item,count\n" + "".join(f"{u},{i},2\n" for u, i in [*pairs, pairs[4]]))
    options = ("--loss", "bpr", "--test-fraction", 0, *SMALL_FIT, "--no-plots", "--out", out)
    assert run_cli("fit", "mf", path, *options) == 0
    told = capsys.readouterr()
    assert f"{len(pairs)} values" in told.out and "last" not in told.err
    path.write_text(path.read_text() + "0,0,-9\n")
    assert run_cli("fit", "mf", path, *options) == 2
    told = capsys.readouterr().err
    assert f"{path}: counts go down to -7" in told and "fit mf --loss logistic' learns" in told
