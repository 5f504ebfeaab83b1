"""`daskpart simulate`: what it prints is what the library counts."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse

import daskpart
from daskpart.collectives import (
    embed,
    expand_plan,
    simulate,
    simulate_allreduce,
    simulate_sparse_allreduce,
)
from daskpart.collectives.sparse_steps import ALGORITHMS
from daskpart.connectivity import Connectivity
from daskpart.containers.matrix import as_matrix
from daskpart.hypergraph import Hypergraph


@pytest.fixture
def simulated(run_cli, capsys):
    """Run a simulation; gives the lines of its JSON."""

    def run(*arguments):
        assert run_cli("simulate", *arguments, "--json") == 0
        return json.loads(capsys.readouterr().out)

    return run


def test_help_shows_what_there_is(run_cli, capsys):
    assert run_cli("simulate", "--help") == 0
    out = capsys.readouterr().out
    for command in ("expand", "reduce", "allreduce", "sparse-allreduce", "plan"):
        assert f"\n  {command}" in out
    assert "daskpart simulate allreduce --ranks 64 --ranks 4096" in out
    assert run_cli("simulate", "sparse-allreduce", "--help") == 0
    assert "--spread" in capsys.readouterr().out


def test_allreduce_up_to_4096_ranks(simulated, run_cli, capsys):
    lines = simulated("allreduce", "--ranks", 8, "--ranks", 4096, "--bytes", 80_000,
                      "--algorithm", "hypercube")["lines"]  # fmt: skip
    assert [(line["ranks"], line["messages"]) for line in lines] == [(8, 3), (4096, 12)]
    for line in lines:
        found = simulate_allreduce(line["ranks"], 80_000)
        assert line["seconds"] == found.seconds
        assert line["total_bytes"] == found.bytes_sent.sum()
    assert run_cli("simulate", "allreduce", "--ranks", 16, "--bytes", 1_000_000) == 0
    out = capsys.readouterr().out
    assert out.startswith("allreduce of 1,000,000 bytes; α 2e-06 s a message")
    assert next(line for line in out.splitlines()[2:-1] if "*" in line).split()[1] == "rabenseifner"


def test_few_bytes_are_no_zero_in_the_table(run_cli, capsys):
    cheap = ("--alpha", 1e-9, "--beta", 0, "--algorithm", "ring")
    assert run_cli("simulate", "allreduce", "--ranks", 4, "--bytes", 8, *cheap) == 0
    line = capsys.readouterr().out.splitlines()[2]  # of 6 rounds
    found = simulate_allreduce(4, 8, "ring", alpha=1e-9, beta=0)
    kilobytes, megabytes = found.bytes_sent.max() / 1e3, found.bytes_sent.sum() / 1e6
    assert line.split()[-4:] == [f"{kilobytes:.2g}", f"{megabytes:.2g}", "6e-06", "6e-06"]


@pytest.mark.parametrize("amount", ["80000", "80_000", "8e4", "80kB"])
def test_amounts_as_people_write_them(amount, simulated):
    arguments = ("--ranks", "1_6", "--bytes", amount, "--algorithm", "star")
    (line,) = simulated("allreduce", *arguments)["lines"]
    assert line["ranks"] == 16 and line["total_bytes"] == 2 * 15 * 80_000


def test_a_ring_too_long_to_count_is_left_out_of_all(run_cli, capsys):
    assert run_cli("simulate", "allreduce", "--ranks", 8192, "--json") == 0
    captured = capsys.readouterr()
    lines = json.loads(captured.out)["lines"]  # the note is no part of it
    assert {line["algorithm"] for line in lines} == {"hypercube", "rabenseifner", "star"}
    assert "too many messages to count by ring" in captured.err


@pytest.mark.parametrize("kind", ["expand", "reduce"])
def test_plans_of_a_matrix(kind, rating_file, simulated, tmp_path):
    matrix = daskpart.read(rating_file)
    partition = daskpart.partition(matrix, 4, method="block")
    partition.save(tmp_path / "partition.npz")
    arguments = (kind, rating_file, "--partition", tmp_path / "partition.npz", "--row-bytes", 64)
    lines = simulated(*arguments, "--random-state", 3)["lines"]
    hypergraph = Hypergraph.column_net(matrix)
    connectivity = Connectivity.from_partition(hypergraph, partition).with_random_owners(3)
    plan = expand_plan(connectivity)
    found = simulate(plan if kind == "expand" else plan.reversed(), row_bytes=64)
    assert [line["algorithm"] for line in lines] == ["point-to-point", "aware", "naive"]
    partition.write(tmp_path / "parts.txt")
    as_text = (*arguments[:3], tmp_path / "parts.txt", *arguments[4:])
    assert simulated(*as_text, "--random-state", 3)["lines"] == lines
    assert lines[0]["total_bytes"] == 64 * connectivity.connectivity_minus_one()
    assert lines[0]["seconds"] == found.seconds
    assert [line["rounds"] for line in lines] == [1, 2, 2]
    assert lines[0]["total_bytes"] <= lines[1]["total_bytes"] <= lines[2]["total_bytes"]


def test_plans_of_whatever_can_be_cut(simulated, tmp_path):
    """A tensor by its default model, a hypergraph as it is, and a model by name."""
    tensor = tmp_path / "facts.tns"
    entries = {tuple(row) for row in np.random.default_rng(0).integers(1, 7, (60, 3)).tolist()}
    tensor.write_text("".join(f"{i} {j} {k} 1.0\n" for i, j, k in sorted(entries)))
    model = daskpart.data_models.medium_grain(tensor)
    model.hypergraph.write(tmp_path / "facts.hgr")
    for name in ("facts.tns", "facts.hgr"):
        line = simulated("expand", tmp_path / name, "--parts", 3, "--row-bytes", 1)["lines"][0]
        partition = daskpart.partition(model, 3)
        pairs = Connectivity.from_partition(model.hypergraph, partition)
        assert line["total_bytes"] == pairs.connectivity_minus_one(), name
    partition = daskpart.partition(tensor, 3, model="fine-grain", method="block")
    partition.save(tmp_path / "fine.npz")
    line = simulated("reduce", tensor, "--partition", tmp_path / "fine.npz", "--row-bytes", 1)
    pairs = daskpart.data_models.fine_grain(tensor).connectivity(partition)
    assert line["lines"][0]["total_bytes"] == pairs.connectivity_minus_one()


def test_several_numbers_of_parts_and_a_picture(rating_file, run_cli, capsys, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "seconds.png"
    code = run_cli("simulate", "expand", rating_file, "--parts", 2, "--parts", 4,
                   "--method", "random", "--plot", picture)  # fmt: skip
    assert code == 0
    out = capsys.readouterr().out
    assert f"{picture}  picture" in out
    assert out.count("point-to-point") == 2
    assert picture.read_bytes()[1:4] == b"PNG"


def test_a_picture_that_cannot_be_written_is_told_before_anything_is_computed(
    tmp_path, run_cli, capsys, monkeypatch
):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("daskpart._cli.simulate.simulate_allreduce", pytest.fail)
    (tmp_path / "file").touch()
    for path, code in ((tmp_path / "x.xyz", 2), (tmp_path / "file" / "x.png", 1)):
        assert run_cli("simulate", "allreduce", "--plot", path) == code
    told = capsys.readouterr()
    assert "'xyz' is not supported" in told.err and "nothing can be written" in told.err
    assert not told.out


def test_sparse_allreduce_counted_and_expected(simulated):
    common = ("sparse-allreduce", "--ranks", 8, "--dimension", "1e5", "--nonzeros", "1e3")
    counted = simulated(*common, "--how", "counted")["lines"]
    expected = simulated(*common, "--how", "expected")["lines"]
    assert [line["algorithm"] for line in counted] == list(ALGORITHMS)
    for one, other in zip(counted, expected, strict=True):
        assert one["messages"] == other["messages"]
        assert one["bytes"] == pytest.approx(other["bytes"], rel=0.06)
        assert other["seconds_without_lock_step"] is None
    narrow = simulated(*common, "--spread", "power-law", "--algorithm", "butterfly")["lines"]
    assert len(narrow) == 1
    even = next(line for line in counted if line["algorithm"] == "butterfly")
    assert narrow[0]["total_bytes"] < even["total_bytes"]  # entries coincide


def test_sparse_allreduce_of_a_matrix(rating_file, simulated):
    matrix = daskpart.read(rating_file)
    lines = simulated("sparse-allreduce", rating_file, "--ranks", 4, "--method", "random",
                      "--algorithm", "ssar-recursive-doubling")["lines"]  # fmt: skip
    partition = daskpart.partition(matrix, 4, method="random", random_state=0)
    coo = as_matrix(matrix)
    parts = partition.assignment[coo.rows]
    touched = [np.unique(coo.columns[parts == part]) for part in range(4)]
    found = simulate_sparse_allreduce(touched, coo.shape[1], "ssar-recursive-doubling")
    assert lines[0]["messages"] == 2
    assert lines[0]["total_bytes"] == found.bytes_sent.sum() > 0


def test_a_plan_in_a_file(tmp_path, run_cli, capsys, simulated):
    pytest.importorskip("matplotlib")
    counts = daskpart.datasets.power_law_ratings(60, 40, 600, random_state=0)
    hypergraph = Hypergraph.column_net(counts)
    partition = daskpart.partition(counts, 3, method="random")
    connectivity = Connectivity.from_partition(hypergraph, partition).with_random_owners(0)
    plan = expand_plan(connectivity)
    plan.save(tmp_path / "plan.npz")
    picture = tmp_path / "traffic.png"
    assert run_cli("simulate", "plan", tmp_path / "plan.npz", "--plot", picture) == 0
    assert capsys.readouterr().out.startswith("Simulation of plan.npz: 3 ranks, 1 round")
    assert picture.exists()
    summary = simulated("plan", tmp_path / "plan.npz", "--row-bytes", 8)
    assert summary["bytes_sent"]["total"] == 8 * plan.total_rows
    embedded = embed(plan, aware=False)
    embedded.save(tmp_path / "plan.npz")
    summary = simulated("plan", tmp_path / "plan.npz", "--row-bytes", 8)
    assert summary["bytes_sent"]["total"] == 8 * embedded.total_rows > 8 * plan.total_rows


def test_plans_of_messages_and_plans_of_fits_are_told_apart(tmp_path, rating_file, run_cli, capsys):
    path = tmp_path / "plan.npz"
    given = ("--ranks", 2, "--max-iter", 1, "--no-plots", "--plan", path, "--out", tmp_path / "out")
    assert run_cli("fit", "mf", rating_file, *given) == 0
    capsys.readouterr()
    assert run_cli("simulate", "plan", path) == 2
    told = capsys.readouterr().err
    assert "is the plan of a fit" in told and "damaged" not in told
    counts = daskpart.read(rating_file)
    partition = daskpart.partition(counts, 2, method="random")
    connectivity = Connectivity.from_partition(Hypergraph.column_net(counts), partition)
    expand_plan(connectivity.with_random_owners(0)).save(path)
    np.savez(tmp_path / "objects.npz", some=np.array([None]))
    for foreign in (path, tmp_path / "objects.npz"):
        assert run_cli("fit", "mf", rating_file, *given[:-4], "--plan", foreign) == 2
        told = capsys.readouterr().err
        assert "holds no plan of a fit, or is damaged: give what plan.save(path)" in told
        assert "pickle" not in told and "checkpoint" not in told


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("expand", "absent.mtx"), "absent.mtx: no such file"),
        (("allreduce", "--ranks", 0), "not in the range x>=1"),
        (("allreduce", "--ranks", 100_000_000), "more than can be counted here"),
        (("sparse-allreduce", "--ranks", "1e8"), "at most 65,536 are priced"),
        (("allreduce", "--bytes", "much"), "'much': write an amount of bytes"),
        (("allreduce", "--bytes", "1e400"), "write an amount of bytes"),
        (("allreduce", "--algorithm", "tree"), "'tree' is not one of"),
        (("sparse-allreduce", "--algorithm", "tree"), "--algorithm tree; allowed are all, ssar"),
        (("sparse-allreduce", "--nonzeros", "1e9"), "entries do not fit"),
        (("sparse-allreduce", "--dimension", "10.5"), "'10.5': it must be a whole"),
        (
            ("sparse-allreduce", "--ranks", 4096, "--nonzeros", "1e5", "--spread", "power-law"),
            "only entries spread evenly have expected figures",
        ),
        (("sparse-allreduce", "python-source", "--how", "expected"), "data is counted"),
        (("allreduce", "--plot", "x.bogus"), "--plot x.bogus: Format 'bogus' is not supported"),
    ],
)
def test_what_cannot_be_simulated(arguments, words, run_cli, capsys):
    assert run_cli("simulate", *arguments) == 2
    assert words in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("model", "shared"),
    [("graph", "edges"), ("stochastic", "nets of mini-batches that were drawn")],
)
def test_what_is_no_row_cannot_be_sent(model, shared, tmp_path, run_cli, capsys):
    path = tmp_path / "A.npz"
    scipy.sparse.save_npz(path, scipy.sparse.eye_array(8, k=1, format="csr"))
    assert run_cli("simulate", "expand", path, "--model", model, "--parts", 2) == 2
    told = capsys.readouterr()
    assert f"share {shared}, which are no rows" in told.err and "cutting" not in told.err


def test_a_partition_of_another_number_of_parts(rating_file, tmp_path, run_cli, capsys):
    daskpart.partition(daskpart.read(rating_file), 4, method="block").save(tmp_path / "p.npz")
    code = run_cli(
        "simulate", "expand", rating_file, "--partition", tmp_path / "p.npz", "--parts", 8
    )
    assert code == 2
    assert "has 4 parts: leave out the number of ranks" in capsys.readouterr().err
