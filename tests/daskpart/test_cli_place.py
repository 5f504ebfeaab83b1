"""`daskpart partition --memory-limit`: a libsvm file in blocks, and what the folder then holds."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from command_results import metrics_of

import daskpart


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """300 examples with up to 8 of 120 features."""
    rng = np.random.default_rng(0)
    file = tmp_path_factory.mktemp("data") / "few.libsvm"
    rows = (np.sort(rng.choice(120, rng.integers(0, 9), replace=False)) + 1 for _ in range(300))
    file.write_text("".join("1 " + " ".join(f"{c}:1" for c in row) + "\n" for row in rows))
    return file


def test_the_folder_holds_what_the_function_gives(path, tmp_path, run_cli, capsys):
    out = tmp_path / "out"
    options = ("--parts", 4, "--method", "parsa", "--random-state", 3, "--out", out)
    limit = ("--memory-limit", "68MB", "--output", tmp_path / "parts.txt")
    assert run_cli("partition", path, *options, *limit) == 0
    wanted = daskpart.parsa.partition(path, 4, memory_limit="68MB", random_state=3)
    assert wanted.to_dict()["blocks"] >= 1
    assert daskpart.parsa.ParsaResult.load(out / "parsa.npz") == wanted
    assert daskpart.Partition.load(out / "partition.npz") == wanted.partition
    for name, what, parts in (
        ("assignment.csv", "row", wanted.partition.assignment),
        ("owners.csv", "column", wanted.owners),
    ):
        with (out / name).open() as file:
            header, *lines = csv.reader(file)
        assert header == [what, "part"]
        assert [int(part) for _, part in lines] == parts.tolist()
    told = metrics_of(out)
    assert told["metrics"]["memory, total"] == wanted.to_dict()["memory, total"]
    assert told["settings"]["memory_limit"] == "68MB" and told["settings"]["parts"] == 4
    assert not {"model", "objective", "epsilon", "engine", "rho", "start"} & set(told["settings"])
    assert (out / "parts.png").exists() and "random" in (out / "report.html").read_text()
    said = capsys.readouterr().out
    assert "random parts" in said and "rows are counted from 0" in said
    assert (tmp_path / "parts.txt").read_text().split() == [
        str(part) for part in wanted.partition.assignment
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--memory-limit", "1GB"), "needs --method parsa, not auto"),
        (("--memory-limit", "much", "--method", "parsa"), "--memory-limit is 'much'"),
        (("--memory-limit", "2XB", "--method", "parsa"), "--memory-limit is '2XB'"),
        (("--memory-limit", "1kB", "--method", "parsa"), "are needed"),
    ],
)
def test_what_cannot_be_used_is_one_line(path, arguments, words, run_cli, capsys):
    assert run_cli("partition", path, *arguments) == 2
    told = capsys.readouterr()
    assert words in told.err
    assert ("dealing" in told.out) == (words == "are needed")  # which only the file can tell


def test_a_missing_file_is_one_line(tmp_path, run_cli, capsys):
    options = ("--method", "parsa", "--memory-limit", "1GB")
    assert run_cli("partition", tmp_path / "absent.libsvm", *options) == 2
    assert "no such file" in capsys.readouterr().err
