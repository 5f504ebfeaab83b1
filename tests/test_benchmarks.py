"""Every benchmark and every study run once, on ratings so few that nothing is measured.

Whoever renames what they call finds out here, not when the next table is wanted.
"""

from __future__ import annotations

import importlib
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sparse
from click.testing import CliRunner

import daskpart
from benchmarks.studies import __main__ as pages
from benchmarks.studies.__main__ import recorded_commands
from daskpart.collectives import CostModel, LocalCommunicator
from daskpart.containers.matrix import as_matrix
from daskpart.containers.tensor import LabelledTensor, as_tensor
from daskpart.errors import InputError

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted(
    path.stem for path in (ROOT / "benchmarks").glob("*.py") if not path.stem.startswith("_")
)


def test_the_list_of_benchmarks_is_whole() -> None:
    told = (ROOT / "benchmarks" / "README.md").read_text()
    studies = (ROOT / "benchmarks" / "studies").glob("*.py")
    scripts = [path.stem for path in studies if "\nif __name__ ==" in path.read_text()]
    scripts.remove("__main__")  # which runs the others
    asv = [
        path.stem
        for path in (ROOT / "benchmarks").glob("*.py")
        if re.search(r"^    def (time|track|peakmem)_", path.read_text(), re.MULTILINE)
    ]
    # other studies run these
    steps = {
        "clusters",
        "cold_start_run",
        "cp_memory_run",
        "dask_ml_run",
        "engine_memory_run",
        "parsa_memory",
    }
    assert not [name for name in {*scripts, *asv} - steps if f"`{name}`" not in told]


PAGES = sorted((ROOT / "docs" / "benchmarks").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_records_can_be_typed(page: Path) -> None:
    for words in recorded_commands(page):
        assert words[:2] == ["python", "-m"]
        study = importlib.import_module(words[2]).main
        context = study.make_context(words[2], [*words[3:], "--out", "elsewhere"])
        assert context.params["out"] == Path("elsewhere")


def test_pages_are_measured_one_after_the_other(tmp_path: Path, monkeypatch: Any) -> None:
    typed = []
    for name in ("latency", "eta", "twins"):
        shutil.copy(ROOT / pages.PAGES / f"{name}.md", tmp_path)
    study = "python -m benchmarks.studies.gcn_accuracy --graph"
    two = f"```shell\n{study} cora && {study} pubmed\n```\n"
    (tmp_path / "gcn_accuracy.md").write_text(two)
    monkeypatch.setattr(pages, "PAGES", tmp_path)
    monkeypatch.setattr(pages.subprocess, "run", lambda words, check: _note(typed, words))
    done = CliRunner().invoke(pages.main, ["latency", "gcn_accuracy", "eta", "--out", "here"])
    assert [words[2].rpartition(".")[2] for words in typed] == [
        "latency", "gcn_accuracy", "gcn_accuracy", "eta",
    ]  # fmt: skip
    assert all(words[-2:] == ["--out", "here"] and words.count("--out") == 1 for words in typed)
    assert done.exit_code == 1 and "failed: eta" in done.output
    listed = CliRunner().invoke(pages.main, ["--list", "twins"])
    assert re.fullmatch(r"twins +[0-9a-f]{7}\S*, [0-9: -]+\n", listed.output)
    unknown = CliRunner().invoke(pages.main, ["latencies"])
    assert unknown.exit_code == 2 and "no page latencies" in unknown.output


def _note(typed: list[list[str]], words: list[str]) -> subprocess.CompletedProcess:
    typed.append(words)
    return subprocess.CompletedProcess(words, returncode=int(words[2].endswith("eta")))


def few_ratings(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Stands for any data set."""
    matrix = as_matrix(daskpart.datasets.power_law_ratings(120, 60, 2000, random_state=0))
    return matrix.rows, matrix.columns, matrix.values.astype(np.float32)


def few_pins(*_: Any) -> daskpart.Hypergraph:
    """Stands for any hypergraph."""
    return daskpart.Hypergraph.column_net(small_metrics_matrix())


def few_nonzeros(name: str) -> LabelledTensor:
    """Stands for any tensor."""
    return as_tensor(sparse.random((20, 15, 10), nnz=300, random_state=0))


def few_edges(name: str) -> Any:
    """Stands for any graph."""
    from scipy.sparse import random_array

    return random_array((400, 400), density=0.02, rng=np.random.default_rng(0)).tocsr()


def few_labels(name: str) -> Any:
    """Stands for any graph with labels and a split."""
    from benchmarks.data import LabelledGraph

    graph = few_edges(name)
    labels = np.arange(graph.shape[0]) % 3
    split = np.split(np.arange(graph.shape[0]), [60, 120])
    return LabelledGraph(graph, None, labels, *split)


class Peer:
    """Stands for `libmf.mf`: with two threads LIBMF itself may hang on so few ratings."""

    @staticmethod
    def MF(**options: Any) -> Peer:
        peer = Peer()
        peer.k = options["k"]
        return peer

    def fit(self, triples: np.ndarray) -> None:
        self.m, self.n = (int(ids.max()) + 1 for ids in triples.T[:2])
        self.b = float(triples[:, 2].mean())
        self.P, self.Q = (np.zeros((rows, self.k), np.float32) for rows in (self.m, self.n))
        self.model = self


def few_samples(name: str) -> Any:
    """Stands for any samples to learn from and to judge by."""
    import scipy.sparse

    random = np.random.default_rng(0)
    X = scipy.sparse.random(80, 30, 0.3, "csr", random_state=random)
    y = (X @ random.normal(size=30) > 0).astype(int)
    return (X, y), (X, y)


def few_signs(name: str) -> Any:
    """Stands for any samples of two classes."""
    (X, y), _ = few_samples(name)
    return X, 2.0 * y - 1


def few_clicks(folder: Path) -> Any:
    """Stands for any clicks to learn from and to judge by."""
    return daskpart.datasets.train_test_split_ratings(small_metrics_matrix(), 0.2)


def small_metrics_matrix() -> Any:
    users, items, ratings = few_ratings("")
    from scipy.sparse import coo_array

    return coo_array((ratings, (users, items))).tocsr()


QUICK: dict[str, dict[str, Any]] = {  # what no option of a study makes small
    "cp_counts": {"MANY": 3, "TIMED": 2, "COMPARED": 2},
    "cp_yes_no": {"SHAPES": ((9, 8, 7),), "ENTRIES": (200,), "MOST": 3, "TIMED": 2},
    "cp_kernel": {"PEER_SECONDS": 0.0, "TRIAD_FLOATS": 2**12},
    "cp_memory": {"TYPES": ("float32",)},
    "cp_switch": {"SHAPE": (200, 80, 80), "N_NONZEROS": 3000, "LENGTHS": (1, 4)},
    "gcn_minibatch": {"TRAININGS": {
        "full batch": {"max_iter": 2},
        "layers": {"sampler": "layer", "batch_size": 0.05, "max_iter": 1},
    }},
    "latency": {"TURN_SECONDS": 0.0, "TURNS": 1},
    "linear_memory": {"N_FEATURES": 10_000, "N_LINES": 300, "N_BLOCKS": 2},
    "linear_models": {"SUM_RANKS": 2, "SUM_TURNS": 2},
    "parsa": {"DELAYS": (0, 2, math.inf), "GROWTH_PARTS": (4,), "WORKERS": 4, "BLOCKS": 8},
    "sparse_allreduce": {"TURNS": 1},
}  # fmt: skip


@pytest.fixture
def small(
    monkeypatch: pytest.MonkeyPatch, forked_workers: None, rough_cost_model: Any
) -> Iterator[None]:
    """Every benchmark module sees few ratings, and few parts; clusters start at once."""
    monkeypatch.syspath_prepend(str(ROOT))
    factorization = importlib.import_module("benchmarks.factorization")
    monkeypatch.setattr(factorization, "RATES", (0.1,))
    monkeypatch.setattr(factorization, "REGULARIZATIONS", (0.05,))
    replaced = {
        "ratings": few_ratings, "samples": few_samples, "tensor": few_nonzeros, "graph": few_edges,
        "power_law_matrix": small_metrics_matrix,
        "N_USERS": 200, "N_ITEMS": 50, "N_RATINGS": 3000,
    }  # fmt: skip
    cuts = importlib.import_module("benchmarks.studies.reference_cuts")
    monkeypatch.setattr(cuts, "references", lambda folder: {("few", 2, 2): {"KaHyPar": 50}})
    monkeypatch.setattr(cuts, "netlist", few_pins)
    for name in ("partition_engine", "power_cycles"):
        engines = importlib.import_module(f"benchmarks.studies.{name}")
        monkeypatch.setattr(engines, "hypergraph_of", few_pins)
    implicit = importlib.import_module("benchmarks.studies.implicit_als")
    monkeypatch.setitem(implicit.DATA, "ml-1m", few_clicks)
    monkeypatch.setattr(implicit, "data_folder", Path)
    minibatch = importlib.import_module("benchmarks.studies.gcn_minibatch")
    batches = {case: (sampler, 0.25) for case, (sampler, _) in minibatch.CASES.items()}
    monkeypatch.setattr(minibatch, "CASES", batches)  # four, not a hundred of four vertices
    mlp = importlib.import_module("benchmarks.studies.mlp_topk")
    whole = mlp.digits
    monkeypatch.setattr(mlp, "digits", lambda: tuple(part[:90] for part in whole()))
    server = importlib.import_module("benchmarks.studies.linear_server")
    monkeypatch.setattr(server, "samples", few_signs)
    data = importlib.import_module("benchmarks.data")
    monkeypatch.setattr(data, "data_folder", Path)
    monkeypatch.setattr(data, "labelled_graph", few_labels)
    for name, constants in QUICK.items():
        study = importlib.import_module(f"benchmarks.studies.{name}")
        for constant, value in constants.items():
            monkeypatch.setattr(study, constant, value)
    peer = importlib.import_module("benchmarks.libmf_peer")
    monkeypatch.setattr(peer, "load", lambda: Peer)
    for name in MODULES:
        module = importlib.import_module(f"benchmarks.{name}")
        for attribute, value in replaced.items():
            if hasattr(module, attribute):
                monkeypatch.setattr(module, attribute, value)
    yield
    for module in [m for n, m in sys.modules.items() if n.startswith("benchmarks")]:
        for member in vars(module).values():
            if hasattr(member, "cache_clear"):
                member.cache_clear()  # what was made of few ratings


def first_cases(runner: Any, module: str) -> dict[tuple[type, str], tuple]:
    """The first parameters of every method, with no more parts than there are users."""
    found: dict[tuple[type, str], tuple] = {}
    for suite, method, parameters in runner.cases(rf"^{module}\."):
        found.setdefault((suite, method), parameters)
    return found


@pytest.mark.parametrize("module", MODULES)
def test_every_benchmark_runs_once(
    small: None, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = importlib.import_module("benchmarks.__main__")
    if module == "reading":
        monkeypatch.setattr(daskpart.datasets, "load_python_source", lambda cache: None)
    for (suite, method), parameters in first_cases(runner, module).items():
        if suite.__name__ == "Making":
            continue  # makes 10⁷ ratings, whatever the constants say
        instance = suite()
        if suite.__name__ == "TimeToRmse":
            parameters = (6.0,)  # nothing is learnt here
        try:
            for name in ("setup", method, "teardown"):
                if hasattr(instance, name):
                    result = getattr(instance, name)(*parameters)
                    assert name != method or result is None or np.isfinite(result)
        except NotImplementedError as reason:
            assert str(reason) == "not recursive", reason


def test_there_is_something_to_run(small: None) -> None:
    """In every module; and no method is a letter away from being run."""
    runner = importlib.import_module("benchmarks.__main__")
    for suite, _, _ in runner.cases(""):
        methods = [name for name, member in vars(suite).items() if callable(member)]
        assert [name for name in methods if re.match("(time|track|peakmem)[^_]", name)] == []
    having = {suite.__module__.split(".")[1] for suite, _, _ in runner.cases("")}
    peers = {"completion_peer", "graph_peers", "implicit_peer", "libmf_peer", "recommend_peer"}
    assert having == set(MODULES) - peers - {"data", "measuring", "serial_cp"}


STUDIES = {
    "parameter_server": ["--case", "few:4"],
    "gcn_partitions": ["--graph", "few", "--parts", "4", "--volume"],
    "further_weights": ["--ratings", "few", "--graph", "few", "--parts", "2"],
    "stochastic_partitions": ["--graph", "few", "--parts", "2", "--test", "2"],
    "partitions": ["--data", "few", "--parts", "4"],
    "parsa": ["--data", "few", "--parts", "4", "--limit", "70", "--copies", "2"],
    "eta": [
        "--data", "few", "--metrics-of", "other", "--ranks", "4", "--train", "4:RAND:1,4",
        "--train", "4:HP-λ²:1,4", "--epochs", "1", "--components", "3", "--processes", "1",
    ],
    "allreduce_model": ["--ranks", "2", "--transport", "local", "--problem", "1000", "50"],
    "engine_memory": ["--data", "few", "--parts", "4"],
    "embedding": ["--data", "few", "--ranks", "2", "--transport", "local", "--predict", "4"],
    "hypercube_mapping": ["--tensor", "few", "--parts", "4"],
    "cp_counts": ["--tensor", "few", "--components", "3"],
    "cp_yes_no": [],
    "cp_kernel": ["--tensor", "few", "--rank", "3", "--threads", "2", "--turns", "1"],
    "cp_memory": ["--tensor", "few", "--ranks", "2", "--rank", "3"],
    "cold_start": ["--block", "cuts", "--kept", "--turns", "1"],
    "latency": ["--ranks", "2", "--transport", "local"],
    "message_memory": ["--transport", "local", "--ranks", "4", "--ranks", "8", "--bytes", "8"],
    "sparse_allreduce": [
        "--ranks", "2", "--transport", "local", "--size", "1000", "--density", "0.1",
    ],
    "refine": ["--data", "few", "--parts", "8"],
    "implicit_als": ["--data", "ml-1m", "--components", "4", "--iterations", "1", "--turns", "1"],
    "bpr": ["--data", "ml-1m", "--components", "4", "--epochs", "1"],
    "schedules": [
        "--data", "few", "--ranks", "4", "--planned", "8", "--epochs", "2", "--components", "3",
        "--turns", "1",
    ],
    "recommend_all": ["--users", "90", "--items", "60", "--components", "4", "-n", "3"],
    "new_users": ["--data", "few", "--components", "4", "--epochs", "2", "--turns", "1"],
    "cp_missing": [
        "--tensor", "small", "--components", "2", "--iterations", "5", "--most", "3",
        "--seeds", "2",
    ],
    "linear_memory": ["--megabytes", "2", "--ranks", "2"],
    "compressed_files": ["--megabytes", "1", "--ranks", "2", "--turns", "1"],
    "linear_server": ["--data", "a9a", "--ranks", "2", "--epochs", "1"],
    "linear_overlap": [
        "--data", "a9a", "--ranks", "2", "--batch-size", "999", "--epochs", "2", "--turns", "1",
        "--transport", "local",
    ],
    "sgd_on_server": ["--data", "a9a", "--ranks", "2", "--epochs", "1", "--batch-size", "999"],
    "linear_optimum": ["--data", "few"],
    "linear_models": [
        "--data", "few", "--size", "3000", "--epochs", "1", "--samples", "200", "--turns", "1",
        "--megabytes", "1", "--processes", "1", "--most", "2",
    ],
    "ranks": ["--data", "few", "--ranks", "1", "--ranks", "4", "--epochs", "2"],
    "rmse_per_second": [
        "--data", "few", "--ranks", "4", "--case", "RAND:1", "--case", "HP-λ²:4", "--epochs", "2",
        "--updates-per-second", "1e6",
    ],
    "tensor_iterations": [
        "--tensor", "few", "--ranks", "2", "--ranks", "4", "--transport", "local",
    ],
    "partition_engine": ["--data", "ibm01", "--parts", "8"],
    "power_cycles": ["--data", "gowalla", "--parts", "4"],
    "reference_cuts": ["--instance", "few"],
    "gcn_scaling": ["--graph", "few", "--parts", "2", "--parts", "8"],
    "linear_aggregation": [
        "--ranks", "2", "--size", "3000", "--samples", "400", "--batch", "20",
        "--train", "2",
    ],
    "mlp_topk": [
        "--ranks", "2", "--epochs", "2", "--samples", "60", "--hidden", "4",
        "--picture-epochs", "1", "--picture-ranks", "2",
    ],
    "gcn_memory": ["--graph", "few", "--ranks", "2", "--model", "gcn 16"],
    "gcn_overlap": ["--graph", "few", "--ranks", "2", "--epochs", "2", "--transport", "local"],
    "gcn_accuracy": ["--graph", "few", "--layer", "gcn", "--seeds", "2", "--epochs", "3"],
    "gcn_minibatch": [
        "--graph", "few", "--labelled", "few", "--ranks", "2", "--epochs", "1", "--seeds", "1",
        "--timed", "few",
    ],
    "gcn_epoch": [
        "--graph", "few", "--hidden", "8", "--epochs", "2", "--ranks", "2", "--transport", "local",
    ],
    "spmm": ["--graph", "few", "--columns", "5", "--turns", "1"],
    "sparse_sum": ["--case", "1000", "100"],
    "tensor_messages": ["--tensor", "few", "--ranks", "4", "--ranks", "8"],
    "sgd_kernel": ["--data", "few", "--components", "5", "--rate", "adagrad", "--turns", "1"],
    "time_to_rmse": ["--data", "few", "--target", "6.0", "--components", "4", "--turns", "1"],
    "twins": [
        "--ranks", "2", "--problem", "MF:few", "--problem", "CP:few", "--problem", "GCN:few",
        "--problem", "ALS:few", "--problem", "SGD:few", "--problem", "k-means",
        "--steps", "3", "--turns", "1",
    ],
}  # fmt: skip


def test_every_study_is_tested() -> None:
    scripts = (ROOT / "benchmarks" / "studies").glob("*.py")
    with_main = {path.stem for path in scripts if "@click.command" in path.read_text()}
    assert with_main - {"__main__"} == set(STUDIES)  # which runs the others


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.mpi if n == "twins" else ()) for n in STUDIES]
)
def test_every_study_writes_its_section(small: None, name: str, tmp_path: Path) -> None:
    study = importlib.import_module(f"benchmarks.studies.{name}")
    if name == "twins" and not study.has_mpiexec():
        pytest.skip("no mpiexec: pip install 'daskpart[mpi]'")
    done = CliRunner().invoke(
        study.main, [*STUDIES[name], "--out", str(tmp_path)], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    section = (tmp_path / f"{name}.md").read_text()
    assert section.startswith("## ") and "Machine: " in section and "Versions: " in section
    numbers = (tmp_path / "data" / f"{name}.csv").read_text().splitlines()
    assert sum(line.startswith("#") for line in numbers) == 4
    widths = {line.count(",") for line in numbers if not line.startswith("#") and '"' not in line}
    assert len(numbers) > 5 and (len(widths) == 1 or any('"' in line for line in numbers))
    for picture in re.findall(r"\]\((.+?\.png)\)", section):
        assert (tmp_path / picture).stat().st_size > 1000


@pytest.mark.parametrize("name", ["eta", "tensor_messages"])
def test_a_long_study_can_be_drawn_again(small: None, name: str, tmp_path: Path) -> None:
    study = importlib.import_module(f"benchmarks.studies.{name}")
    run = [*STUDIES[name], "--out", str(tmp_path)]
    assert CliRunner().invoke(study.main, run, catch_exceptions=False).exit_code == 0
    section = (tmp_path / f"{name}.md").read_text()
    (tmp_path / f"{name}.png").unlink()
    again = CliRunner().invoke(study.main, ["--redraw", "--out", str(tmp_path)])
    assert again.exit_code == 0, again.output
    assert (tmp_path / f"{name}.md").read_text() == section
    assert (tmp_path / f"{name}.png").exists()


@pytest.fixture
def comparison(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.studies.cost_comparison")


def test_the_cost_model_held_against_the_clock(comparison: Any) -> None:
    names = ["ssar-recursive-doubling", "butterfly", "dense-ring"]
    with LocalCommunicator(4) as communicator:
        found = comparison.compare_with_model(communicator, [(2000, 20), (3000, 5)], names)
    assert [(row.size, row.algorithm) for row in found.rows] == [
        (size, name) for size in (2000, 3000) for name in names
    ]
    predicted = found.model.predict(4, 2000, 20)
    for row in found.rows[:3]:
        assert row.predicted == predicted[row.algorithm]
        assert 0 < row.measured < 5
    assert all(ratio >= 1 for ratio in found.auto_over_best().values())
    assert repr(found).startswith("Sparse allreduce on 4 ranks (local), predicted and measured")
    assert "dense-ring" in repr(found) and found._repr_html_().count("<tr>") == 7
    assert found.to_dict()["rows"][0]["entries"] == 20


@pytest.mark.parametrize(
    ("problem", "algorithm", "message"),
    [
        ((10, 11), "butterfly", "11 entries do not fit into a vector of size 10"),
        ((10, 0), "butterfly", "0 entries"),
        ((10**9, 5), "butterfly", "8000 MB"),
        ((10, 5), "tree", "unknown algorithm 'tree'"),
    ],
)
def test_comparisons_that_cannot_be_made(
    comparison: Any, problem: tuple[int, int], algorithm: str, message: str
) -> None:
    with LocalCommunicator(2) as communicator, pytest.raises(InputError, match=message):
        comparison.compare_with_model(communicator, [problem], [algorithm], CostModel(*[1e-6] * 9))
