"""`daskpart fit mlp`: what it writes, resumes and refuses."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from command_results import metrics_of, whole_and_resumed
from sklearn.datasets import dump_svmlight_file

import daskpart

SMALL = ("--ranks", 3, "--hidden-layer-sizes", 8, "--batch-size", 8, "--tol", 0)


@pytest.fixture(scope="module")
def sample_file(tmp_path_factory):
    """200 samples of 12 features, in three classes."""
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 12))
    path = tmp_path_factory.mktemp("samples") / "X.libsvm"
    dump_svmlight_file(X, X[:, :3].argmax(axis=1), str(path), zero_based=False)
    return path


def test_fit_writes_a_model_that_loads(sample_file, tmp_path, capsys, run_cli):
    out = tmp_path / "out"
    arguments = (*SMALL, "--max-iter", 4, "--top-k", 3, "--top-k-bucket", 20, "--out", out)
    assert run_cli("fit", "mlp", sample_file, *arguments) == 0
    told = capsys.readouterr().out
    assert "200 samples of 12 features" in told and "of all 131 weights" in told
    metrics = metrics_of(out)
    assert re.search(r"all ranks send [\d.]+ kB an epoch", told)  # few of them, no 0.0194 MB
    assert metrics["epochs"] == 4 and np.sum(metrics["confusion"]) == metrics["n_test"] == 20
    model = daskpart.MLPClassifier.load(out / "model")
    assert [each.shape for each in model.coefs_] == [(12, 8), (8, 3)]
    assert model.state_.residual.any()
    assert (out / "labels.csv").read_text().startswith("label,found")
    pictures = {path.stem for path in out.glob("*.png")}
    assert pictures == {"training", "sent", "confusion", "traffic", "timeline"}
    page = (out / "report.html").read_text()
    assert page.count("data:image/png;base64,") == len(pictures)
    assert "Each entry of a vector counts as a row." in page and "planned. All" not in page
    assert "<p>The last epochs, " in page


def test_a_page_has_no_section_without_content(sample_file, tmp_path, run_cli):
    """Of one rank that was judged by nothing: no classes, no sums, nothing sent."""
    arguments = ("--ranks", 1, "--hidden-layer-sizes", 8, "--max-iter", 1, "--test-fraction", 0)
    assert run_cli("fit", "mlp", sample_file, *arguments, "--out", tmp_path) == 0
    assert {path.stem for path in tmp_path.glob("*.png")} == {"training", "timeline"}
    page = (tmp_path / "report.html").read_text()
    assert "Classes</h2>" not in page and "Sums of gradients</h2>" not in page
    assert "<p>1 epoch in " in page and "has nobody to send to" in page
    assert "The whole fit, from what it sets up before its first epoch" in page


def test_classes_weigh_as_is_said(sample_file, tmp_path, run_cli):
    weighed = ("--class-weight", "balanced", "--max-iter", 2, "--no-plots", "--out", tmp_path)
    assert run_cli("fit", "mlp", sample_file, *SMALL, *weighed) == 0
    model = daskpart.MLPClassifier.load(tmp_path / "model")
    assert model.class_weight == model.state_.settings["class_weight"] == "balanced"


def test_patience_looks_at_a_share_that_is_held_out(sample_file, tmp_path, capsys, run_cli):
    more = (
        "--validation-fraction",
        0.25,
        "--patience",
        2,
        "--max-iter",
        300,
        "--learning-rate-init",
        0.1,
    )
    assert run_cli("fit", "mlp", sample_file, *SMALL, *more, "--no-plots", "--out", tmp_path) == 0
    told = capsys.readouterr().out
    assert "200 samples" in told
    held = "135 to learn from, 45 held out to measure the loss on after each epoch, 20 held out"
    assert held in told
    assert "the best on what was held out" in told and "stopped early" in told
    history = pd.read_csv(tmp_path / "history.csv", index_col="epoch")
    metrics = metrics_of(tmp_path)
    best = metrics["best_epoch"]  # its weights are those of the model, so is its loss
    assert best == history["validation_loss"].idxmin() < metrics["epochs"] == len(history)
    assert metrics["train_loss"] == pytest.approx(history["loss"][best], rel=1e-12)
    assert f"training loss {metrics['train_loss']:.6g}" in told


def test_resume_gives_the_bits_of_an_unbroken_fit(sample_file, tmp_path, run_cli):
    options = (*SMALL, "--top-k", 2, "--test-fraction", 0)
    models = whole_and_resumed(run_cli, tmp_path, "mlp", sample_file, *options)
    whole, rest = map(daskpart.MLPClassifier.load, models)
    np.testing.assert_array_equal(whole.coefs_[0], rest.coefs_[0])
    np.testing.assert_array_equal(whole.state_.residual, rest.state_.residual)


def test_what_cannot_be_is_refused(sample_file, tmp_path, capsys, run_cli):
    real = tmp_path / "real.libsvm"
    real.write_text("1 1:2\n0.5 2:1\n")
    for arguments, words in (
        ((real,), "sample 2 has the label 0.5"),
        ((tmp_path / "absent",), "no such file"),
        ((sample_file, "--top-k-approximate"), "--top-k-approximate needs --top-k"),
    ):
        assert run_cli("fit", "mlp", *arguments, "--out", tmp_path / "out") != 0
        assert words in capsys.readouterr().err
