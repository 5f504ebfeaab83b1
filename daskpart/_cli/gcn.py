"""What `daskpart fit gcn` adds to the driver: features and labels, and the section on vertices."""

from __future__ import annotations

import io
from functools import partial
from typing import Any, ClassVar

import click
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from daskpart.errors import InputError, ReadError
from daskpart.models.graph_convolution.vertex_names import in_order, rows_by_name, with_isolated
from daskpart.readers import detection, read
from daskpart.readers.contents import sparse_inside
from daskpart.readers.example_tables import is_table
from daskpart.readers.streams import location, only_names_separator, unpacked

from .classes import draw_confusion, draw_learning, judged, most_frequent, no_better
from .inputs import BUILT_IN, GRAPHS, load_graph
from .model import Data, Fit, Model
from .options import SHARE, format_of, number, refuse
from .tables import as_meant, cells_of, lines_of, read_table

_LABEL_NAMES = {"label", "labels", "class", "classes", "category", "y", "target"}
_MASKS = ("train", "validation", "test")
_VERTEX_NAMES = {"vertex", "node", "id", "name", "nodeid", "node_id", "vertex_id"}


class _GCN(Model):
    """Classify the vertices of GRAPH by graph convolution, from the labels of some.

    GRAPH is a file of edges (source target [weight], by number or by name, with or without a
    header), a square matrix (Matrix Market, .npz), a METIS graph (.graph), or python-source, the
    built-in data: which module of Python's standard library imports which, with the names that
    they use as features and their packages as labels. An .npz may have features and labels beside
    its edges (adj_indptr, …), and which vertices are to train on, to validate and to judge by
    (train_idx, val_idx, test_idx); all others need --labels.

    An edge counts from its source to its target, as row and column of a matrix do, unless
    --symmetrize is given: vertex i reads the features of those that its row names.
    """

    estimator = "GCNClassifier"
    example = "edges.txt --labels y.txt"
    argument = "GRAPH"
    options = (
        format_of(GRAPHS),
        click.Option(["--features"], metavar="FILE",
                     help="Of the vertices: .npy, .npz, .mtx, or a table (.csv, .parquet), whose "
                     "first column may name them.  [default: those in GRAPH, else identity]"),
        click.Option(["--labels"], metavar="FILE",
                     help="A label a line, in the order of the vertices, -1: unlabelled; or the "
                     "name and the label of those that have one.  [default: those in GRAPH]"),
        number("--test-fraction", 0.2, "Share of the labelled vertices to judge by.", SHARE),
    )  # fmt: skip
    words: ClassVar[dict[str, str]] = {
        "hidden": "Widths of the hidden layers.",
        "layer": 'What a layer computes. "sgc" is best without hidden layers, --hidden 0.',
        "layer_options": 'Parameters of the layer, such as heads=4: of "sgc" hops; of "appnp" '
        'hops, teleport; of "gin" epsilon; of "gat" heads, output_heads, slope, attention_dropout.',
        "optimizer": "How weights follow from gradients.",
        "weight_decay": "Share of each matrix of weights that is added to its gradient.",
        "batch_size": "Train on mini-batches of so many vertices, or, below 1, of this share of "
        "them; a step each, and in an epoch every vertex once. Not given: full batches, exact.",
        "sampler": 'What a mini-batch is. "neighbour": labelled vertices, and of each layer\'s '
        'vertices at most 10 neighbours; "layer": labelled vertices, and for each layer as many, '
        'drawn by importance; "vertex": any vertices, and the edges among them.',
        "validation_fraction": "Share of the labelled vertices that are held out, as --patience "
        "needs.",
        "partitioner": 'How vertices are cut. "auto" weighs the seconds that a cut saves over the '
        'fit against those of cutting: in one process it takes "block". "connectivity", exact in '
        'what travels; "stochastic", by sampled mini-batches; "metis" (the graph), "random", '
        "\"block\"; or arguments of daskpart.partition; or a file that 'daskpart partition' wrote, "
        "with one part a rank.",
    }
    template = "gcn.html"

    def check(self, source: str, given: dict[str, Any], estimator: Any) -> None:
        """Refuse what the built-in data have, or is of another way to train."""
        if source == BUILT_IN:
            refuse(("format", "features", "labels"), f"{BUILT_IN} has all that is needed")
        if estimator.learning_rate != "invscaling":
            refuse(("power_t",), "it is of --learning-rate invscaling")
        if not estimator.hidden:
            refuse(("activation",), "there is no hidden layer")
        if estimator.batch_size is None:
            refuse(("sampler",), "without --batch-size batches are full")
        if estimator.patience is None:
            refuse(("monitor",), "it is what --patience looks at")

    def load(self, source: str, given: dict[str, Any]) -> Data:
        """Read graph, features and labels, and hide the labels of some vertices."""
        graph, X, y, masks = _read(source, given)
        labelled = ((y != -1) & ~pd.isna(y) & (y.astype(str) != "-1")).to_numpy()
        train, validation, test = _split(source, labelled, masks, given)
        shown = y.astype(object)
        shown[~(train | validation)] = None
        n_features = "no" if X is None else f"{X.shape[1]:,}"
        validate = f"{validation.sum():,} to validate, " if validation.any() else ""
        words = (
            f"{source}: a graph of {len(y):,} vertices, {n_features} features, "
            f"{train.sum():,} labelled vertices to train on, {validate}{test.sum():,} to judge by"
        )
        more = {"validation_mask": validation} if validation.any() else {}
        return Data(X, [words], (y, np.flatnonzero(test)), {"y": shown, "graph": graph, **more})

    def judge(self, fit: Fit) -> dict[str, Any]:
        """Accuracy on the hidden labels, and the counts of right and wrong ones."""
        y, test = fit.data.test
        if not test.size:
            return {}
        found, wanted = np.asarray(_asked(fit, "predict"))[test], y.to_numpy()[test]
        return judged(wanted, found, fit.model.classes_)

    def told(self, fit: Fit) -> list[str]:
        """Accuracy in a sentence."""
        if "test_accuracy" not in fit.judgement:
            return []
        share, n = fit.judgement["test_accuracy"], fit.judgement["n_test"]
        often = most_frequent(fit.judgement)
        line = f"{share:.1%} of {n:,} hidden labels are right; the most frequent class makes up "
        return [f"{line}{often:.1%}", *no_better(fit.judgement)]

    def tables(self, fit: Fit) -> dict[str, tuple[pd.DataFrame, str]]:
        """The class of every vertex, and its embedding."""
        found = pd.DataFrame({"label": np.asarray(_asked(fit, "predict"))})
        names = fit.model.vertex_names_
        found.insert(0, "vertex", np.arange(len(found)) if names is None else names)
        embedding = pd.DataFrame(np.asarray(_asked(fit, "transform")))
        embedding.insert(0, "vertex", found["vertex"])
        # those of most files that are numbered begin at 1
        counted = "; vertices are counted from 0" if names is None else ""
        words = f"{_embedding_words(fit.model)}, one line a vertex"
        return {
            "labels.csv": (found, f"the class of every vertex{counted}"),
            "embedding.csv": (embedding, words + counted),
        }

    def draw(self, fit: Fit, album: Any) -> None:
        """Learning curves, confusion, embedding, halo."""
        from daskpart import plots

        draw_learning(fit.model.history_, album, ", under dropout; validation without")
        draw_confusion(fit.judgement, album, "Hidden labels")
        classes = np.asarray(_asked(fit, "predict"))
        album.draw(
            "embedding",
            (6.4, 4.8),
            partial(plots.embedding, np.asarray(_asked(fit, "transform")), classes),
            alt="Vertices in the plane of their two largest components, coloured by class",
            caption=f"{_embedding_words(fit.model).capitalize()}, rows scaled to length 1, on two "
            "principal components, by predicted class.",
        )
        if fit.plan.n_ranks > 1:
            self._draw_halo(fit, album)

    def _draw_halo(self, fit: Fit, album: Any) -> None:
        from daskpart import plots

        report = fit.plan.report()
        album.draw(
            "halo",
            (9.4, 3.8),
            partial(plots.traffic, fit.plan.forward, unit="rows a product"),
            partial(plots.halo, report.n_own, report.n_halo),
            alt="Rows that each rank sends to each other, and own and halo rows of each rank",
            caption="Who sends how many rows of H to whom in one product with Â; own rows of each "
            "rank, and those of others that it reads.",
        )
        album.draw(
            "partition",
            (5.2, 3.2),
            partial(plots.part_weights, report.n_entries, unit="nonzeros"),
            alt="Nonzeros of each rank",
            caption="Nonzeros of the rows of each rank.",
        )

    def page(self, fit: Fit) -> dict[str, Any]:
        """Key numbers."""
        numbers = {"vertices": int(fit.plan.n_own.sum()), "rows_an_epoch": fit.plan.report().volume}
        if "test_accuracy" in fit.judgement:
            numbers = {"test_accuracy": round(fit.judgement["test_accuracy"], 4), **numbers}
        return {"numbers": numbers}


def _embedding_words(model: Any) -> str:
    """What `transform` gives."""
    return "the last hidden layer" if model.hidden else "the outputs (there is no hidden layer)"


def _asked(fit: Fit, what: str) -> Any:
    """What the model answers for all vertices: each question is asked once."""
    if what not in fit.answers:
        fit.answers[what] = getattr(fit.model, what)(fit.data.X)
    return fit.answers[what]


def _read(
    source: str, given: dict[str, Any]
) -> tuple[Any, Any, pd.Series, dict[str, NDArray[np.bool_]]]:
    """Graph, features, labels, and masks of vertices."""
    if source == BUILT_IN:
        from daskpart.datasets import load_python_source

        modules = load_python_source()
        label = modules["label"]
        packages = label["package"].to_numpy().astype(object)
        packages[label.to_numpy() < 0] = None
        y = pd.Series(packages, index=label["module"].to_numpy())
        return modules["imports"], modules["counts"], y, {}
    graph, beside = load_graph(source, given["format"])
    if given["labels"] is None and "label" not in beside:
        raise InputError("--labels is missing: a file with the labels of the vertices")
    is_named = hasattr(graph, "dims") and graph.dims[0] in graph.coords
    names = pd.Index(graph.coords[graph.dims[0]].values if is_named
                     else np.arange(graph.shape[0]))  # fmt: skip
    features = beside["features"].data if "features" in beside else None
    if given["features"] is not None:
        features, names = _features(given["features"], names, is_named)
    if given["labels"] is None:
        y = pd.Series(beside["label"].data, index=names)
    else:
        y = _labels(given["labels"], names)
    return graph, features, y, {name: beside[name].data for name in _MASKS if name in beside}


def _split(
    source: str, labelled: NDArray[np.bool_], masks: dict[str, NDArray[np.bool_]],
    given: dict[str, Any],
) -> tuple[NDArray[np.bool_], ...]:  # fmt: skip
    """Labelled vertices to train on, to validate on and to judge by: as the file says, or drawn."""
    none = np.zeros(len(labelled), bool)
    if masks:
        options = ("test_fraction", "validation_fraction")
        refuse(options, f"{source} says which vertices are for training and which are not")
        test, validation = (labelled & masks.get(name, none) for name in ("test", "validation"))
        train = labelled & masks.get("train", ~none) & ~validation & ~test
        if not train.any():
            raise InputError(f"{source}: no labelled vertex is for training alone")
        return train, validation & ~test, test
    known = np.flatnonzero(labelled)
    random = np.random.default_rng(np.random.SeedSequence(given["random_state"] or 0))
    test = none.copy()
    test[known[random.random(known.size) < given["test_fraction"]]] = True
    if known.size and not (labelled & ~test).any():
        raise InputError(
            f"--test-fraction {given['test_fraction']:g} holds out all {known.size:,} labelled "
            "vertices, and leaves none to train on: give a smaller one"
        )
    return labelled & ~test, none, test


def _labels(path: str, vertices: pd.Index) -> pd.Series:
    """A label a vertex, in their order; None where the file has none."""
    lines = [line for line in lines_of(path) if line.strip()]
    lines = lines[1:] if lines and only_names_separator(lines[0].encode()) else lines
    if not lines:
        raise InputError(f"{path}: there are no labels in it")
    mark = next((mark for mark in "\t,;" if len(detection.cells_of(lines[0], mark)) > 1), None)
    head = detection.cells_of(lines[0], mark)
    if len(head) > 2:
        raise InputError(
            f"{path}: {len(head)} columns; give a label a line, or the name of a vertex and its "
            "label"
        )
    try:
        table = cells_of(  # as text: a vertex or a class may be called NA
            io.StringIO("\n".join(lines)),
            path,
            sep=mark or r"\s+",
            header=0 if _is_header(head, lines[1:], mark, vertices) else None,
            skipinitialspace=True,
        ).fillna("")
    except pd.errors.ParserError as error:
        raise InputError(
            f"{path}: not all lines have as many columns as the first, {lines[0]!r}; where a label "
            "has a space in it, give lines of the name of a vertex, a tab, and the label"
        ) from error
    labels = as_meant(table.iloc[:, -1])
    if table.shape[1] == 1:
        if len(labels) != len(vertices):
            raise InputError(
                f"{path}: {len(labels):,} labels for {len(vertices):,} vertices; give one a line, "
                "−1 where it is unknown, or the name of a vertex and its label"
            )
        _refuse_names(path, vertices, "a table of the name of a vertex and its label")
        return pd.Series(labels.to_numpy(), index=vertices)
    rows = rows_by_name(vertices.to_numpy(), _names(table.iloc[:, 0], vertices), f"{path}: labels")
    if rows is None:
        return pd.Series(labels.to_numpy(), index=vertices)
    return pd.Series(labels.astype(object).reindex(rows).to_numpy(), index=vertices)


def _is_header(cells: list[str], others: list[str], mark: str | None, vertices: pd.Index) -> bool:
    """Whether the first line names the columns; a class may be called y or target, too."""
    is_known = cells[-1].lower() in _LABEL_NAMES
    if len(cells) == 1:
        return is_known and len(others) == len(vertices)
    if vertices.isin(_names(pd.Series(cells[:1]), vertices)).any():
        return is_known and cells[0].lower() in _VERTEX_NAMES
    if is_known or mark is None:
        return is_known
    classes = {detection.cells_of(line, mark)[-1] for line in others}
    return cells[-1] not in classes  # neither a vertex nor a class


def _features(path: str, vertices: pd.Index, may_add: bool) -> tuple[Any, pd.Index]:
    """A row a vertex, in their order; the vertices, and behind them those that have no edge."""
    if not is_table(path):
        _refuse_names(path, vertices, "a table (.csv, .parquet) whose first column names them")
        return _rows(path), vertices
    table = read_table(path)
    if str(table.index.name).lower() in _VERTEX_NAMES or table.index.dtype.kind not in "iufb":
        table = table.reset_index()  # the index of a DataFrame that was written to Parquet
    first = table.columns[0]
    is_name = str(first).lower() in _VERTEX_NAMES or table[first].dtype.kind not in "iufb"
    if not is_name:
        _refuse_names(path, vertices, "a first column that names them")
        return table, vertices
    names = _names(table.pop(first), vertices)
    if may_add:
        vertices = pd.Index(with_isolated(vertices.to_numpy(), names))
    order = in_order(vertices.to_numpy(), names, f"{path}: features")
    if len(table) != len(vertices):  # numbers from 0, which say nothing of these vertices
        raise InputError(
            f"{path}: {len(table):,} rows for {len(vertices):,} vertices; give one for each"
        )
    return (table if order is None else table.iloc[order]).set_axis(vertices), vertices


def _rows(path: str) -> Any:
    """Rows of numbers in a file without names: an array, or what is sparse in another file."""
    if path.endswith(".npy"):
        content = unpacked(location(path))
        try:
            found = np.load(content, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise InputError(f"{path}: cannot be read as an array of numbers ({error})") from error
        if found.dtype.kind not in "fiub":
            raise InputError(f"{path}: holds no numbers, but {found.dtype}; give a row for each "
                             "vertex, a column for each feature")  # fmt: skip
    else:
        try:
            found = read(path)
        except ReadError as error:
            if error.option != "format":  # --format is that of the graph
                raise
            raise InputError(f"{error.problem}; give .npy, .npz, .mtx or a table") from error
        if hasattr(found, "data_vars") and "features" in found:
            found = found["features"]
        found = sparse_inside(found, path)
        if not hasattr(found, "shape"):
            raise InputError(f"{path}: holds no rows of features; give .npy, .npz, .mtx or a table")
    if len(found.shape) != 2:
        raise InputError(f"{path}: has the shape {found.shape}; give a row for each vertex, a "
                         "column for each feature")  # fmt: skip
    return found


def _refuse_names(path: str, vertices: pd.Index, needed: str) -> None:
    """Refuse rows without names where vertices have some that are not numbers, so no order."""
    if vertices.dtype.kind not in "iu":
        raise InputError(
            f"{path}: the graph names its vertices, such as {vertices[0]!r}, and nothing says "
            f"which row is whose; give {needed}"
        )


def _names(found: pd.Series, vertices: pd.Index) -> NDArray[Any]:
    """Names in a file as numbers where those of the graph are, and all of them can be."""
    words = found.astype(str).str.strip()
    if vertices.dtype.kind in "iu" and words.str.fullmatch(r"\d{1,18}").all():
        return words.astype(np.int64).to_numpy()
    return words.to_numpy(dtype=object)


MODEL = _GCN()
