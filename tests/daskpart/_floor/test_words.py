"""Names for many, and for what cannot be read."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import sparse
import xarray
from networkx import Graph

from daskpart._floor.words import not_read, plural
from daskpart.containers.matrix import as_matrix
from daskpart.errors import InputError
from daskpart.readers.libsvm import Examples


@pytest.mark.parametrize(
    ("one", "many"),
    [
        ("user", "users"), ("movieId", "movieIds"), ("city", "cities"), ("day", "days"),
        ("y", "ies"), ("class", "classes"), ("box", "boxes"), ("batch", "batches"),
        ("vertex", "vertices"), ("index", "indices"), ("", "s"),
        ("movies", "movies"), ("Künstler", "Künstler"), ("mode_0", "mode_0"), ("sex", "sexes"),
        ("nr.", "nr."), ("status", "statuses"),
    ],
)  # fmt: skip
def test_plurals(one: str, many: str) -> None:
    assert plural(one) == many


class Frame:
    """Of a library that pandas takes frames of, as polars is."""

    def to_pandas(self) -> None: ...


class SparkFrame:
    def toPandas(self) -> None: ...  # as Spark calls it


def test_frames_of_other_libraries_go_by_pandas() -> None:
    assert "give its toPandas(), edges" in not_read(SparkFrame(), "graph", "edges")
    assert (
        not_read(Frame(), "graph", "edges")
        == "cannot read a Frame as a graph; give its to_pandas(), edges"
    )
    assert not_read(3, "graph", "edges") == "cannot read an int as a graph; give edges"
    assert "give networkx.to_scipy_sparse_array(graph), a" in not_read(Graph(), "matrix", "a")
    assert "give pandas.DataFrame(it) if it holds columns, a" in not_read({"i": [1]}, "matrix", "a")
    assert not_read({1: [2]}, "graph", "edges") == "cannot read a dict as a graph; give edges"


def test_results_of_readers_are_told_what_in_them_is_read() -> None:
    matrix = scipy.sparse.csr_array(np.eye(2))
    dataset = xarray.Dataset({"counts": (("user", "item"), sparse.COO.from_scipy_sparse(matrix))})
    for given, instead in ((dataset, "one of its variables"), (Examples(matrix, []), "its data")):
        with pytest.raises(InputError, match=f"; give {instead}, scipy.sparse"):
            as_matrix(given)
    assert as_matrix(dataset["counts"]).nnz == as_matrix(Examples(matrix, []).data).nnz == 2
