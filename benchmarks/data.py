"""Data sets for the benchmarks: the real ones where they are, and made ones of the same kind.

A benchmark whose data set is absent raises NotImplementedError in `setup`, which asv takes as
"skip".
"""

from __future__ import annotations

import os
import pickle
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Triples = tuple[np.ndarray, np.ndarray, np.ndarray]


def data_folder() -> Path:
    """Folder of the real data sets: $DASKPART_DATA, or `shared/data` beside the checkout.

    Raises
    ------
    NotImplementedError
        Where there is none.
    """
    beside_checkout = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("DASKPART_DATA", beside_checkout))
    if not folder.is_dir():
        raise NotImplementedError(f"no data sets at {folder}; set DASKPART_DATA")
    return folder


@cache
def ratings(name: str) -> Triples:
    """Users, items (int32, from 0, without gaps) and ratings (float32) of a data set.

    Parameters
    ----------
    name : str
        "ml-1m", "ml-100k", "gowalla", "imdb-bow" (documents × words), "imdb-bigrams",
        "ego-twitter" (who follows whom), or "power-law-10m" (made: 10⁷ ratings of 200,000 users and
        20,000 items).
    """
    import daskpart
    from daskpart.containers.matrix import as_matrix

    if name == "power-law-10m":
        X = daskpart.datasets.power_law_ratings(200_000, 20_000, 10_000_000, random_state=0)
    else:
        files = {
            "ml-1m": ("ratings/ml-1m.ratings.dat.xz", {}),
            "ml-100k": ("ratings/ml-100k.u.data.gz", {}),
            "gowalla": ("ratings/gowalla.train.txt.gz", {"format": "adjacency"}),
            "imdb-bow": ("linear/imdb-bow.train.libsvm.xz", {}),
            "imdb-bigrams": ("linear/imdb-bigrams.train.libsvm.xz", {}),
            "ego-twitter": ("graphs/ego-twitter.mtx.xz", {}),
        }
        file, options = files[name]
        X = daskpart.read(data_folder() / file, **options)
        X = X[0] if isinstance(X, tuple) else X  # labelled examples
    matrix = as_matrix(X)
    return matrix.rows, matrix.columns, matrix.values.astype(np.float32)


def split(triples: Triples, test_fraction: float = 0.1) -> tuple[Triples, Triples]:
    """A random training and test part, by numpy's RandomState(0)."""
    train = np.random.RandomState(0).rand(triples[0].size) >= test_fraction
    return (
        tuple(column[train] for column in triples),  # type: ignore[return-value]
        tuple(column[~train] for column in triples),
    )


_GRAPHS = {
    "soc-Slashdot0902": "soc-Slashdot0902.mtx.xz",
    "ego-twitter": "ego-twitter.mtx.xz",
    "email-Enron": "email-Enron.mtx.gz",
    "cit-HepPh": "cit-HepPh.mtx.gz",
    "ca-AstroPh": "ca-AstroPh-cc1.mtx.gz",
    "coauthor-physics": "coauthor-physics.npz",
    "amazon-photo": "amazon-photo.npz",
    "pubmed": "pubmed-nofeatures.npz",
}


@cache
def graph(name: str) -> Any:
    """A graph as a square sparse matrix, directed where the graph is.

    One of `_GRAPHS`, or one that is made: "arxiv-like" (169,343 vertices, some 2.4·10⁶ entries, as
    ogbn-arxiv with both directions has), "power-law-10m" (500,000 vertices, some 10⁷).
    """
    import daskpart

    if name in _MADE:
        return _power_law_graph(*_MADE[name])
    read = daskpart.read(data_folder() / "graphs" / _GRAPHS[name])
    return read["adjacency"].data if _GRAPHS[name].endswith(".npz") else read


def undirected(name: str) -> Any:
    """A graph of `graph` as a scipy CSR array of ones, both ways, without loops."""
    from scipy.sparse import coo_array

    from daskpart.containers.matrix import as_matrix

    entries = as_matrix(graph(name))
    keeps = entries.rows != entries.columns
    ends = entries.rows[keeps], entries.columns[keeps]
    one_way = coo_array((np.ones(keeps.sum(), np.float32), ends), entries.shape).tocsr()
    both = (one_way + one_way.T).tocsr()
    both.data[:] = 1
    return both


_MADE = {"arxiv-like": (169_343, 1_200_000), "power-law-10m": (500_000, 5_250_000)}


def _power_law_graph(n_vertices: int, n_edges: int) -> Any:
    """Undirected: one end of an edge by a power law of exponent 0.6, the other any vertex."""
    from scipy.sparse import coo_array

    random = np.random.default_rng(0)
    chances = np.arange(1, n_vertices + 1) ** -0.6
    popular = random.choice(n_vertices, n_edges, p=chances / chances.sum())
    ends = random.permutation(n_vertices)[popular], random.integers(0, n_vertices, n_edges)
    one_way = coo_array((np.ones(n_edges, np.float32), ends), (n_vertices, n_vertices)).tocsr()
    both = (one_way + one_way.T).tocsr()
    both.data[:] = 1
    return both


class LabelledGraph(NamedTuple):
    """A graph with features (None: there are none), labels, and a split."""

    adjacency: Any
    features: Any
    labels: np.ndarray
    training: np.ndarray
    validation: np.ndarray
    testing: np.ndarray


@cache
def labelled_graph(name: str) -> LabelledGraph:
    """A graph to classify: "cora", "citeseer", "pubmed", "coauthor-physics", …

    Rows of the features add up to 1, as in Kipf and Welling's code. Those of "pubmed" are in the
    files that Planetoid was published as, `ind.pubmed.allx`, `.tx` and `.test.index` in the folder
    of graphs; there are none without these.
    """
    from scipy.sparse import csr_array, diags_array

    folder = data_folder() / "graphs"
    path = next(folder.glob(f"{name}*.npz"), None)
    if path is None:
        raise NotImplementedError(f"no graph {name} in {folder}")
    with np.load(path) as file:
        found = dict(file)
    n = int(found["n_nodes"])
    ones = np.ones(len(found["adj_indices"]), np.float32)
    adjacency = csr_array((ones, found["adj_indices"], found["adj_indptr"]), shape=(n, n))
    features = None
    if "feat_indices" in found:
        indices = found["feat_indices"].astype(np.int32)
        values = found.get("feat_data", np.ones(len(indices))).astype(np.float32)
        features = csr_array((values, indices, found["feat_indptr"]), shape=found["feat_shape"])
    elif (folder / f"ind.{name}.allx").exists():
        features = _published_features(folder, name)
    if features is not None:
        sums = np.asarray(features.sum(axis=1)).ravel()
        inverse = np.divide(1, sums, out=np.zeros_like(sums), where=sums > 0)
        features = (diags_array(inverse) @ features).tocsr().astype(np.float32)
    split = (found[f"{part}_idx"].astype(np.int64) for part in ("train", "val", "test"))
    return LabelledGraph(adjacency, features, found["labels"].astype(np.int64), *split)


def _published_features(folder: Path, name: str) -> Any:
    """Features in the order of the vertices; the last of them are published in another order.

    The files are pickles of scipy matrices by Python 2; nothing else in them is opened.
    """
    from scipy.sparse import csr_array, csr_matrix, vstack

    class Matrices(pickle.Unpickler):
        def find_class(self, module: str, kind: str) -> Any:
            if (module, kind) == ("scipy.sparse.csr", "csr_matrix"):
                return csr_matrix
            if (module, kind) == ("numpy.core.multiarray", "_reconstruct"):
                return np.ndarray.__reduce__(np.empty(0))[0]
            if module == "numpy" and kind in ("ndarray", "dtype"):
                return getattr(np, kind)
            raise pickle.UnpicklingError(f"{module}.{kind} is no part of a matrix")

    def read(part: str) -> Any:
        with (folder / f"ind.{name}.{part}").open("rb") as file:
            return Matrices(file, encoding="latin1").load()

    known, tested = read("allx"), read("tx")
    place = np.loadtxt(folder / f"ind.{name}.test.index", dtype=np.int64)
    return csr_array(vstack([known, tested[np.argsort(place)]], format="csr"))


def normalised(adjacency: Any) -> Any:
    """D^−1/2 (A + I) D^−1/2, a CSR matrix in float32 with int32 indices."""
    from scipy.sparse import csr_array, diags_array, eye_array

    looped = csr_array(adjacency) + eye_array(adjacency.shape[0], format="csr")
    roots = diags_array(1 / np.sqrt(np.asarray(looped.sum(axis=1)).ravel()))
    found = (roots @ looped @ roots).tocsr().astype(np.float32)
    found.indptr, found.indices = found.indptr.astype(np.int32), found.indices.astype(np.int32)
    return found


@cache
def tensor(name: str) -> Any:
    """A real tensor, a `LabelledTensor`, by the name of its file without ending.

    For example "imdb-reviews", "math-tags", "fb15k-237.train", "lastfm-tags", "wikipeople-3".
    """
    import daskpart
    from daskpart.containers.tensor import as_tensor

    found = sorted((data_folder() / "tensors").glob(f"{name}.tns.*"))
    if not found:
        raise NotImplementedError(f"no tensor {name} in {data_folder() / 'tensors'}")
    return as_tensor(daskpart.read(found[0]))


@cache
def samples(name: str) -> tuple[tuple[Any, np.ndarray], tuple[Any, np.ndarray]]:
    """Samples (csr_matrix) and labels 0 and 1, to learn from and to judge by.

    Parameters
    ----------
    name : str
        "a9a", "imdb-bow" or "imdb-bigrams".
    """
    import scipy.sparse

    import daskpart

    files = {
        "a9a": ("a9a.libsvm.gz", "a9a.t.libsvm.gz"),
        "imdb-bow": ("imdb-bow.train.libsvm.xz", "imdb-bow.test.libsvm.xz"),
        "imdb-bigrams": ("imdb-bigrams.train.libsvm.xz", "imdb-bigrams.test.libsvm.xz"),
    }
    train, test = (daskpart.read(data_folder() / "linear" / file) for file in files[name])
    width = max(train.data.shape[1], test.data.shape[1])
    pairs = []
    for part in (train, test):
        rows = (part.data.data, part.data.indices, part.data.indptr)
        X = scipy.sparse.csr_matrix(rows, shape=(part.data.shape[0], width))
        pairs.append((X, (part.target > 0).astype(int)))
    return pairs[0], pairs[1]


@cache
def drawn_digits(n_samples: int = 60_000, side: int = 28) -> tuple[np.ndarray, np.ndarray]:
    """Made pictures of ten classes in the size of MNIST: float32 pixels, and classes.

    Each class has four strokes through random points; a picture is one of them, moved by up to
    two pixels, in another strength, under noise. Most pixels are 0.
    """
    random = np.random.default_rng(0)
    y, kind = random.integers(0, 10, n_samples), random.integers(0, 4, n_samples)
    shapes = np.stack([_stroke(random, side) for _ in range(40)]).reshape(10, 4, side, side)
    moves = random.integers(-2, 3, (n_samples, 2))
    X = np.empty((n_samples, side * side), np.float32)
    for place in range(n_samples):
        picture = np.roll(shapes[y[place], kind[place]], moves[place], axis=(0, 1)).ravel()
        noise = random.normal(0, 0.25, side * side) * (picture > 0)
        X[place] = np.clip(random.uniform(0.5, 1) * picture + noise, 0, 1)
    return X, y


def _stroke(random: np.random.Generator, side: int) -> np.ndarray:
    """A soft line through five points."""
    points = random.uniform(5, side - 5, (5, 2))
    along = np.linspace(0, 4, 60)
    path = np.stack([np.interp(along, np.arange(5), points[:, axis]) for axis in (0, 1)], axis=1)
    grid = np.stack(np.meshgrid(np.arange(side), np.arange(side), indexing="ij"), axis=-1)
    gaps = np.square(grid[:, :, None] - path).sum(axis=-1).min(axis=2)
    return np.where(gaps < 5, np.exp(-gaps / 1.5), 0).astype(np.float32)
