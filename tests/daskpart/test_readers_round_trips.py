"""Write, read, compare: ratings, tensors, examples, matrices, archives, compressed or not."""

from __future__ import annotations

import io
from pathlib import Path

import hypothesis.extra.numpy as hnp
import numpy as np
import pandas
import pytest
import scipy.io
import scipy.sparse as sp
import sparse
import xarray
from hypothesis import given
from hypothesis import strategies as st
from packed_files import OPENERS, write

import daskpart
from daskpart.errors import DaskpartWarning, InputError, ReadError

COMPRESSIONS = st.sampled_from(sorted(OPENERS))
FLOAT32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
FLOAT64 = st.floats(allow_nan=False, allow_infinity=False)


def write_lines(path: Path, lines: list[str]) -> Path:
    return write(path, "".join(line + "\n" for line in lines))


IDS = st.one_of(st.integers(0, 20), st.integers(0, 2**53 - 1))


@given(
    st.dictionaries(st.tuples(IDS, IDS), FLOAT32, min_size=1, max_size=30),
    st.sampled_from([("u.data", "\t"), ("ratings.dat", "::"), ("ratings.csv", ",")]),
    st.booleans(),
    COMPRESSIONS,
)
def test_ratings(
    folder: Path, cells: dict, dialect: tuple[str, str], stamped: bool, compression: str
) -> None:
    name, delimiter = dialect
    stamp = [881250949] if stamped else []
    lines = [delimiter.join(map(str, [*cell, value, *stamp])) for cell, value in cells.items()]
    path = write_lines(folder / (name + compression), lines)
    ratings = daskpart.read(path, format="ratings")
    where = zip(*ratings.data.coords, strict=True)
    users, items = ratings["user"].values, ratings["item"].values
    found = [(int(users[row]), int(items[column])) for row, column in where]
    assert dict(zip(found, ratings.data.data.tolist(), strict=True)) == cells
    assert found == sorted(found)  # labels are sorted, entries row-major


@given(st.data(), COMPRESSIONS)
def test_tensors(folder: Path, data: st.DataObject, compression: str) -> None:
    order = data.draw(st.integers(1, 5))
    shape = data.draw(st.tuples(*[st.integers(1, 60_000)] * order))
    where = st.tuples(*[st.integers(0, extent - 1) for extent in shape])
    cells = data.draw(st.dictionaries(where, FLOAT64, min_size=1, max_size=30))
    behind = data.draw(st.sampled_from(["", " # of May, new", " %"]))
    lines = ["# a comment"] + [
        " ".join(str(index + 1) for index in cell) + f" {value}{behind}"
        for cell, value in cells.items()
    ]
    path = write_lines(folder / f"x.tns{compression}", lines)
    tensor = daskpart.read(path, shape=shape)
    assert tensor.shape == shape and tensor.coords.dtype == np.int32
    found = [tuple(map(int, cell)) for cell in tensor.coords.T]
    assert dict(zip(found, tensor.data.tolist(), strict=True)) == cells
    assert found == sorted(found)
    assert daskpart.read(path).shape == tuple(max(mode) + 1 for mode in zip(*cells, strict=True))


@given(
    st.lists(
        st.tuples(FLOAT64, st.dictionaries(st.integers(1, 10_000), FLOAT64, max_size=8)),
        min_size=1,
        max_size=12,
    ),
    COMPRESSIONS,
    st.booleans(),
)
def test_examples(folder: Path, examples: list, compression: str, zero_based: bool) -> None:
    lines = [
        " ".join([str(label), *(f"{i - zero_based}:{value}" for i, value in features.items())])
        for label, features in examples
    ]
    path = write_lines(folder / f"x.libsvm{compression}", lines)
    data, target = daskpart.read(path, n_features=10_000, zero_based=zero_based)
    assert target.tolist() == [label for label, _ in examples]
    assert data.shape == (len(examples), 10_000) and data.has_canonical_format
    for row, (_, features) in enumerate(examples):
        held = slice(data.indptr[row], data.indptr[row + 1])
        found = zip((data.indices[held] + 1).tolist(), data.data[held].tolist(), strict=True)
        assert dict(found) == features


MATRICES = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=8),
    elements=st.one_of(st.just(0.0), st.floats(-1e6, 1e6)),
)


@given(MATRICES, COMPRESSIONS, st.booleans())
def test_matrix_market(folder: Path, dense: np.ndarray, compression: str, symmetric: bool) -> None:
    if symmetric:
        side = min(dense.shape)
        dense = dense[:side, :side] + dense[:side, :side].T
    path = folder / f"x.mtx{compression}"
    content = io.BytesIO()
    symmetry = "symmetric" if symmetric else "general"
    scipy.io.mmwrite(content, sp.coo_array(dense), symmetry=symmetry)
    write(path, content.getvalue())
    matrix = daskpart.read(path)
    assert isinstance(matrix, sp.csr_array)
    np.testing.assert_array_equal(matrix.toarray(), dense)


@given(MATRICES, st.sampled_from(["csr", "csc", "coo", "bsr", "dia"]), COMPRESSIONS)
def test_archives(folder: Path, dense: np.ndarray, layout: str, compression: str) -> None:
    path = folder / f"x.npz{compression}"
    content = io.BytesIO()
    sp.save_npz(content, sp.coo_array(dense).asformat(layout))
    write(path, content.getvalue())
    matrix = daskpart.read(path)
    assert isinstance(matrix, sp.csr_array)
    assert matrix.nnz == np.count_nonzero(dense)  # not what pads blocks and diagonals
    np.testing.assert_array_equal(matrix.toarray(), dense)


@pytest.mark.parametrize("kind", [sparse.COO, sparse.GCXS])
def test_archives_of_pydata_sparse(folder: Path, kind: type) -> None:
    dense = np.arange(24.0).reshape(2, 3, 4) * (np.arange(24).reshape(2, 3, 4) % 5 == 0)
    path = folder / f"{kind.__name__}.npz"
    sparse.save_npz(path, kind.from_numpy(dense))
    tensor = daskpart.read(path)
    assert isinstance(tensor, sparse.COO)
    np.testing.assert_array_equal(tensor.todense(), dense)


def test_an_archive_of_what_xarray_makes_of_a_series(folder: Path) -> None:
    index = pandas.MultiIndex.from_tuples([(0, 1), (2, 0)], names=["user", "item"])
    ratings = xarray.DataArray.from_series(pandas.Series([3.0, 4.0], index), sparse=True)
    sparse.save_npz(folder / "series.npz", ratings.data)
    found = daskpart.read(folder / "series.npz")
    assert found.fill_value == 0 and found.todense().tolist() == [[0, 3], [4, 0]]


def test_explicit_zeros_stay(folder: Path) -> None:
    header = "%%MatrixMarket matrix coordinate real general"
    assert (
        daskpart.read(write_lines(folder / "z.mtx", [header, "2 2 2", "1 1 0", "2 1 4"])).nnz == 2
    )
    assert daskpart.read(write_lines(folder / "z.tns", ["1 1 0", "2 1 4"])).nnz == 2
    assert daskpart.read(write_lines(folder / "z.libsvm", ["1 1:0 2:4"])).data.nnz == 2


def test_a_mode_with_an_index_0_is_0_based(folder: Path) -> None:
    path = write_lines(folder / "zero.tns", ["1 0 2 5", "2 3 1 6"])
    with pytest.warns(DaskpartWarning, match="mode 2 holds the index 0, so this mode is read as 0"):
        tensor = daskpart.read(path)
    assert tensor.shape == (2, 4, 2)
    assert tensor.todense()[0, 0, 1] == 5 and tensor.todense()[1, 3, 0] == 6


def test_a_tensor_may_be_said_to_be_0_based(folder: Path) -> None:
    """Of a mode without an index 0 nothing else tells."""
    path = write_lines(folder / "zero.tns", ["1 0 2 5", "2 3 1 6"])
    tensor = daskpart.read(path, zero_based=True)
    assert tensor.shape == (3, 4, 3)
    assert tensor.todense()[1, 0, 2] == 5 and tensor.todense()[2, 3, 1] == 6
    with pytest.raises(InputError, match="zero_based=False, but mode 2 holds the index 0"):
        daskpart.read(path, zero_based=False)
    one = write_lines(folder / "one.tns", ["1 1 5", "2 3 6"])
    assert (daskpart.read(one, zero_based=False) != daskpart.read(one)).nnz == 0


def test_repeated_cells_of_a_tensor_are_summed_beyond_2_to_the_62(folder: Path) -> None:
    far = "60000 80000 20000 1000 100"
    path = write_lines(folder / "far.tns", [f"{far} 1", "1 1 1 1 1 2", f"{far} 3"])
    with pytest.warns(DaskpartWarning, match="1 entries repeat .* values are summed"):
        tensor = daskpart.read(path)
    assert tensor.data.tolist() == [2, 4]


def test_parquet(folder: Path) -> None:
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(
        {"ts": [1, 2, 3], "user_id": [7, 3, 7], "movieId": ["b", "b", "a"], "rating": [1.5, 2, 3]}
    )
    frame.to_parquet(folder / "r.parquet")
    ratings = daskpart.read(folder / "r.parquet")
    assert ratings["user"].values.tolist() == [3, 7]
    assert ratings["item"].values.tolist() == ["a", "b"]
    assert ratings.data.todense().tolist() == [[0, 2], [3, 1.5]]
    assert ratings.dtype == np.float32
    frame.assign(user_id=[7.0, 3.0, 7.0]).to_parquet(folder / "r.parquet")
    assert daskpart.read(folder / "r.parquet").identical(ratings)
    frame.assign(user_id=[7, -3, 7]).to_parquet(folder / "r.parquet")
    with pytest.raises(ReadError, match=r"row 1: no usable user id, found .*-3"):
        daskpart.read(folder / "r.parquet")
    frame.assign(user_id=[None] * 3).to_parquet(folder / "r.parquet")
    with pytest.raises(ReadError, match="row 0: no usable user id, found None"):
        daskpart.read(folder / "r.parquet")
    (folder / "r.parquet").write_bytes(b"PAR1 and then nonsense")
    with pytest.raises(ReadError, match="not a parquet file that can be read"):
        daskpart.read(folder / "r.parquet")


def test_an_index_of_parquet_that_names_a_side(folder: Path) -> None:
    lines = pandas.DataFrame({"user": ["a", "b", "a"], "item": [3, 4, 5], "plays": [1, 2, 3]})
    lines.to_parquet(folder / "x.parquet")
    expected = daskpart.read(folder / "x.parquet")
    for index in ("user", "item", ["user", "item"]):  # as groupby leaves them
        lines.set_index(index).to_parquet(folder / "x.parquet")
        xarray.testing.assert_identical(daskpart.read(folder / "x.parquet"), expected)
    other = lines.rename(columns={"user": "who"}).set_index("who")
    other.to_parquet(folder / "x.parquet")
    found = daskpart.read(folder / "x.parquet", columns=("who", "item", "plays"))
    assert found.coords["user"].values.tolist() == ["a", "b"]
    lines.set_index("user").assign(n=[7, 8, 9]).to_parquet(folder / "x.parquet")
    found = daskpart.read(folder / "x.parquet", columns=(0, 1, 2))  # of what is no index
    assert found.sizes == {"user": 3, "item": 3} and found.data.data.tolist() == [7, 8, 9]
    lines.set_index(pandas.Index([7, 8, 9], name="line")).to_parquet(folder / "x.parquet")
    xarray.testing.assert_identical(daskpart.read(folder / "x.parquet"), expected)


def test_edges_in_parquet(folder: Path) -> None:
    """Told by the names of the columns, or asked for; equal edges are summed, as of other files."""
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(
        {"source": ["b", "a", "b"], "target": ["a", "c", "a"], "weight": [1.5, 2, 3]}
    )
    frame.to_parquet(folder / "e.parquet")
    frame.to_csv(folder / "e.csv", index=False)
    with pytest.warns(DaskpartWarning, match="1 .*repeat"):
        of_csv = daskpart.read(folder / "e.csv", "edges")
    for format in (None, "edges"):
        with pytest.warns(DaskpartWarning, match="1 .*repeat"):
            assert daskpart.read(folder / "e.parquet", format).equals(of_csv)
    plain = frame.rename(columns={"source": "from here", "target": "to there"})
    plain.to_parquet(folder / "plain.parquet")
    with pytest.warns(DaskpartWarning, match="1 .*repeat"):
        assert daskpart.read(folder / "plain.parquet", "edges").equals(of_csv)


def test_parquet_without_pyarrow(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ImportError("no engine")

    monkeypatch.setattr(pandas, "read_parquet", refuse)
    path = write_lines(folder / "any.parquet", ["PAR1"])
    with pytest.raises(InputError, match=r"pip install 'daskpart\[io\]'"):
        daskpart.read(path)


def test_a_graph_archive(folder: Path) -> None:
    path = folder / "graph.npz"
    np.savez(
        path,
        n_nodes=3,
        adj_indptr=[0, 1, 3, 4],
        adj_indices=[1, 0, 2, 1],
        feat_indptr=[0, 1, 1, 2],
        feat_indices=[4, 0],
        feat_shape=[3, 5],
        feat_data=[0.5, 2.0],
        labels=[1, 0, -1],
        train_idx=[1],
        val_idx=[0],
    )
    graph = daskpart.read(path)
    assert graph["adjacency"].dims == ("node", "neighbour")
    assert graph["adjacency"].data.todense().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert graph["features"].data.todense()[[0, 2], [4, 0]].tolist() == [0.5, 2]
    assert graph["label"].values.tolist() == [1, 0, -1]
    assert graph["train"].values.tolist() == [False, True, False]
    assert "test" not in graph


def test_comments_behind_numbers_are_no_columns(folder: Path) -> None:
    """Also on the first line, which tells how many there are; a name may begin with such a sign."""
    for name, format in (("x.edges", "edges"), ("x.data", "ratings")):
        path = write_lines(folder / name, ["1 2 3 % heard, 2026", "2 3 4", "3 1 5 # new"])
        assert daskpart.read(path, format=format).data.data.tolist() == [3, 4, 5]
    names = write_lines(folder / "x.edges", ["5 #foo", "#bar 6"])
    assert daskpart.read(names)["source"].values.tolist() == ["#bar", "#foo", "5", "6"]
