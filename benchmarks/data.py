"""Data sets for the benchmarks: the real ones where they are, and made ones of the same kind.

A benchmark whose data set is absent raises NotImplementedError in `setup`, which asv takes as
"skip".
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

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
    """A real graph as a square sparse matrix, directed where the graph is; one of `_GRAPHS`."""
    import daskpart

    read = daskpart.read(data_folder() / "graphs" / _GRAPHS[name])
    return read["adjacency"].data if _GRAPHS[name].endswith(".npz") else read


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
