"""Every container gives the same triples; what cannot be used is refused with a message."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sparse
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import daskpart
from daskpart.containers.column_names import pair_columns, rating_columns, time_column
from daskpart.containers.coordinates import as_labels, stable_order
from daskpart.containers.matrix import (
    LabelledMatrix,
    as_matrix,
    frame_triples,
    from_triples,
    number_column,
)
from daskpart.errors import DaskpartWarning, InputError

SHAPE = (13, 9)


def ratings(seed: int = 0, shape: tuple[int, int] = SHAPE, nnz: int = 40) -> scipy.sparse.coo_array:
    """Ratings in shuffled order, two of them explicit zeros, one of these negative."""
    generator = np.random.default_rng(seed)
    position = generator.choice(shape[0] * shape[1], nnz, replace=False)
    values = generator.integers(1, 6, nnz).astype(np.float64)
    values[:2] = 0, -0.0
    return scipy.sparse.coo_array((values, np.divmod(position, shape[1])), shape=shape)


def same(left: LabelledMatrix, right: LabelledMatrix) -> bool:
    return left.shape == right.shape and all(
        np.array_equal(getattr(left, name), getattr(right, name))
        for name in ("rows", "columns", "values")
    )


def as_pydata(matrix: scipy.sparse.coo_array) -> sparse.COO:
    return sparse.COO(np.stack(matrix.coords), matrix.data, shape=matrix.shape)


CONTAINERS = {
    "coo_array": lambda m: m,
    "coo_matrix": scipy.sparse.coo_matrix,
    "csr_array": lambda m: m.tocsr(),
    "csc_array": lambda m: m.tocsc(),
    "lil_array": lambda m: m.tolil(),
    "dok_array": lambda m: m.todok(),
    "sparse.COO": as_pydata,
    "sparse.GCXS": lambda m: sparse.GCXS(as_pydata(m)),
    "dask of COO": lambda m: da.from_array(as_pydata(m), chunks=(4, 9)),
    "dask of COO in two dimensions": lambda m: da.from_array(as_pydata(m), chunks=(5, 4)),
    "xarray of COO": lambda m: xr.DataArray(as_pydata(m)),
    "xarray of dask": lambda m: xr.DataArray(da.from_array(as_pydata(m), chunks=(4, 3))),
    "frame": lambda m: pd.DataFrame({"user": m.row, "item": m.col, "rating": m.data}),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_every_container_gives_the_same_triples(name):
    matrix = ratings()
    expected = np.lexsort(matrix.coords[::-1])
    got = as_matrix(CONTAINERS[name](matrix.copy()))
    assert got.shape == SHAPE
    assert got.rows.dtype == got.columns.dtype == np.int32
    np.testing.assert_array_equal(got.rows, matrix.row[expected])
    np.testing.assert_array_equal(got.columns, matrix.col[expected])
    np.testing.assert_array_equal(got.values, matrix.data[expected])
    assert np.count_nonzero(got.values == 0) == 2, "explicit zeros are ratings"


@pytest.mark.parametrize("form", ["bsr", "dia"])
def test_padding_is_no_rating(form):
    matrix = ratings()
    got = as_matrix(matrix.asformat(form))
    assert got.nnz == matrix.nnz - 2
    np.testing.assert_array_equal(got.to_scipy().toarray(), matrix.toarray())


@pytest.mark.parametrize("back", ["to_coo", "to_scipy", "to_xarray", "to_frame"])
def test_the_way_back(back):
    first = as_matrix(ratings())
    assert same(as_matrix(getattr(first, back)()), first)


def test_what_xarray_makes_of_a_series():
    """Its absent entries are NaN: nothing is known of them."""
    book = pd.DataFrame({"reader": [3, 3, 8], "book": ["a", "b", "b"], "stars": [5.0, 0.0, 2.0]})
    array = xr.DataArray.from_series(book.set_index(["reader", "book"]).stars, sparse=True)
    assert np.isnan(array.data.fill_value)
    for data in (array, array.copy(data=da.from_array(array.data, chunks=1))):
        matrix = as_matrix(data)
        assert matrix.values.tolist() == [5.0, 0.0, 2.0]
        assert matrix.row_labels.tolist() == [3, 8]


def test_small_coordinates_in_pydata_sparse():
    coo = as_matrix(ratings()).to_coo()
    assert coo.coords.dtype == np.int32
    assert coo.fill_value == 0


def test_transposed_twice_is_the_same():
    matrix = as_matrix(
        xr.DataArray(
            as_pydata(ratings()), dims=("reader", "book"), coords={"book": np.arange(9) * 10}
        )
    )
    turned = matrix.transposed()
    assert same(turned, as_matrix(ratings().T.tocoo()))
    assert (turned.row_name, turned.column_name) == ("book", "reader")
    np.testing.assert_array_equal(turned.row_labels, np.arange(9) * 10)
    assert same(turned.transposed(), matrix)


def test_row_pointer():
    matrix = as_matrix(ratings())
    np.testing.assert_array_equal(matrix.row_pointer(), matrix.to_scipy().indptr)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 7), max_size=40))
def test_counting_order_is_the_stable_order(keys):
    keys = np.array(keys, np.int32)
    np.testing.assert_array_equal(stable_order(keys, 8), np.argsort(keys, kind="stable"))


@pytest.mark.parametrize(
    ("given_dtype", "kept"),
    [
        ("float16", "float32"),
        ("float32", "float32"),
        ("float64", "float64"),
        ("int8", "float64"),
        ("uint64", "float64"),
        ("bool", "float64"),
    ],
)
def test_value_types(given_dtype, kept):
    values = np.array([1, 0, 1]).astype(given_dtype)
    assert from_triples([0, 1, 1], [0, 0, 1], values, (2, 2)).values.dtype == kept


@pytest.mark.parametrize("form", ["csr", "csc", "bsr", "coo", "dia"])
@pytest.mark.parametrize("stored", [">f8", ">f4", ">i4", "float16"])
def test_scipy_arrays_of_types_that_it_cannot_convert(form, stored):
    table = np.array([[0.0, 2, 0], [3, 0, 4]])
    matrix = scipy.sparse.coo_array(table).asformat(form)
    matrix.data = matrix.data.astype(stored)  # as a file of another machine has them
    got = as_matrix(matrix)
    assert got.rows.tolist() == [0, 1, 1] and got.columns.tolist() == [1, 0, 2]
    assert got.values.tolist() == [2, 3, 4] and got.values.dtype.isnative


def test_coordinates_and_dimensions_become_labels_and_names():
    users = [f"reader {i}" for i in range(SHAPE[0])]
    data = xr.DataArray(as_pydata(ratings()), dims=("reader", "book"), coords={"reader": users})
    got = as_matrix(data)
    assert (got.row_name, got.column_name) == ("reader", "book")
    assert got.row_labels.tolist() == users
    assert got.row_labels.dtype.kind == "U", "labels save without pickle"
    assert got.column_labels is None
    assert got.to_xarray().coords["reader"].values.tolist() == users


def test_frame_by_name_whatever_the_order_of_columns():
    frame = pd.DataFrame(
        {
            "time": [9, 8, 7],
            "rating": [1.0, 2.0, 3.0],
            "item": [30, 10, 20],
            "user": ["b", "a", "b"],
        }
    )
    got = as_matrix(frame)
    assert got.row_labels.tolist() == ["a", "b"]
    assert got.column_labels.tolist() == [10, 20, 30]
    assert (got.rows.tolist(), got.columns.tolist()) == ([0, 1, 1], [0, 1, 2])
    assert got.values.tolist() == [2.0, 3.0, 1.0]


def test_a_frame_and_a_file_know_the_same_names(tmp_path):
    frame = pd.DataFrame({"Stars": [4.0, 5.0], "User.ID": [7, 3], "item-id": [1, 2]})
    frame.to_csv(tmp_path / "x.csv", index=False)
    assert same(as_matrix(frame), as_matrix(daskpart.read(tmp_path / "x.csv")))


def test_a_kind_behind_the_name_of_a_column_is_no_part_of_it(tmp_path):
    """As in the files of RecBole."""
    head = "timestamp:float\titem_id:token\trating:float\tuser_id:token\n"
    (tmp_path / "ml.inter").write_text(head + "881250949\t242\t3\t196\n891717742\t302\t4\t186\n")
    found = daskpart.read(tmp_path / "ml.inter")
    assert found["user"].values.tolist() == [186, 196]
    assert found["item"].values.tolist() == [242, 302]
    frame = pd.read_csv(tmp_path / "ml.inter", sep="\t")
    assert as_matrix(frame).to_scipy().toarray().tolist() == [[0, 4], [3, 0]]
    assert found.data.todense().tolist() == [[0, 4], [3, 0]]


def test_counts_are_known_by_name_among_others_and_behind_ratings(tmp_path):
    """Of events they counted 1 a line, whatever stood there, and with a price beside them too."""
    frame = pd.DataFrame({"price": [2.0, 3.0], "Plays": [9, 4], "member": [7, 3], "sku": [1, 2]})
    frame.to_csv(tmp_path / "x.csv", index=False)
    read = as_matrix(daskpart.read(tmp_path / "x.csv"))
    assert frame_triples(frame, events=True)[2].tolist() == [9, 4]
    assert same(as_matrix(frame), read)
    rated = frame.assign(stars=5)
    assert rating_columns(rated) == rating_columns(rated, events=True) == (2, 3, 4)
    assert rating_columns(rated, (None, None, "Plays")) == (2, 3, 1)


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_beside_a_rating_a_count_is_no_value_in_a_file_either(tmp_path, format):
    """The file was refused, of which the frame was read."""
    frame = pd.DataFrame({"user": [1, 2], "item": [3, 4], "count": [9, 8], "rating": [4.0, 5.0]})
    if format == "csv":
        frame.to_csv(tmp_path / "x.csv", index=False)
    else:
        pytest.importorskip("pyarrow")
        frame.to_parquet(tmp_path / "x.parquet")
    read = as_matrix(daskpart.read(tmp_path / f"x.{format}"))
    assert same(as_matrix(frame), read) and read.values.tolist() == [4.0, 5.0]


@pytest.mark.parametrize("name", ["played", "n"])
def test_counts_behind_users_and_items_are_read_of_events_too(tmp_path, name):
    """Of a frame each line counted 1, whatever stood there; of a file it was read."""
    frame = pd.DataFrame({"user": [1, 1, 2], "item": [7, 8, 7], name: [9, 1, 50]})
    frame.to_csv(tmp_path / "x.csv", index=False)
    read = as_matrix(daskpart.read(tmp_path / "x.csv"))
    assert frame_triples(frame, events=True)[2].tolist() == read.values.tolist() == [9, 1, 50]
    for other in (frame.astype({name: str}), frame.assign(shop=3), frame[["user", "item"]]):
        assert rating_columns(other, events=True) == (0, 1, None)


@pytest.mark.parametrize("unit", ["datetime64[us]", "datetime64[ns, UTC]"])
def test_a_column_of_dates_says_when_whatever_it_is_called(unit):
    frame = pd.DataFrame({"Kunde": ["b", "a"], "Artikel": [1, 2], "Sterne": [4.0, 5.0]})
    dated = frame.assign(Datum=pd.Series(["2026-01-02", "2026-01-03"]).astype(unit))
    assert same(as_matrix(dated), as_matrix(frame))
    assert time_column(dated) == "Datum" and time_column(frame) is None
    assert time_column(dated.assign(timestamp=[1, 2])) == "timestamp"
    clicks = dated.drop(columns="Sterne")
    assert rating_columns(clicks, events=True) == (0, 1, None)
    with pytest.raises(InputError, match=r"'Datum' holds datetime64"):
        as_matrix(clicks)


def test_frame_by_position_keeps_its_names():
    got = as_matrix(pd.DataFrame({"reader": [5, 3], "book": [1, 2], "stars": [4, 5]}))
    assert (got.row_name, got.column_name) == ("reader", "book")
    assert got.row_labels.tolist() == [3, 5]
    assert same(as_matrix(got.to_frame()), got)


def test_named_tuples_are_records_with_the_names_of_their_fields():
    frame = pd.DataFrame({"book": [1, 2], "reader": [5, 3], "rating": [4.0, 5.0]})
    columns = ("reader", "book", "rating")
    got = as_matrix(list(frame.itertuples(index=False)), columns)
    assert same(got, as_matrix(frame, columns))
    with pytest.raises(InputError, match="no list of records"):
        as_matrix([*frame.itertuples(index=False), (1, 2)])


def test_repeats_keep_the_last_with_a_warning():
    matrix = scipy.sparse.coo_array(([1.0, 2.0, 3.0, 4.0], ([1, 0, 1, 1], [1, 1, 1, 1])))
    with pytest.warns(DaskpartWarning, match="2 of 4 ratings repeat a position"):
        got = as_matrix(matrix)
    assert (got.rows.tolist(), got.values.tolist()) == ([0, 1], [2.0, 4.0])


BAD_VALUES = scipy.sparse.coo_array(([1.0, np.inf, np.nan], ([0, 2, 1], [0, 3, 1])), shape=(3, 4))
BAD = {
    "dense": (np.eye(3), "dense array of shape .3, 3."),
    "list": ([[1, 2]], "no list of records"),
    "no records": ([], "the list is empty"),
    "a path": (
        "ratings.csv",
        r"cannot read a str as a sparse matrix; give daskpart.read\(path\), ",
    ),
    "decimal commas": (
        pd.DataFrame({"user": [1], "item": [2], "rating": ["3,5"]}),
        r"Convert it, as by pandas.read_csv\(…, decimal=','\), or name",
    ),
    "nothing stored": (scipy.sparse.csr_array((3, 4)), "nothing is stored: the 3 x 4 matrix"),
    "no rows": (scipy.sparse.csr_array((0, 4)), "nothing is stored: the 0 x 4 matrix"),
    "not finite": (BAD_VALUES, r"2 of 3 ratings.*\(inf\) at user 2, item 3"),
    "complex": (scipy.sparse.csr_array(np.eye(2) * 1j), "dtype complex128"),
    "three dimensions": (sparse.zeros((2, 2, 2)), "3 dimensions with shape"),
    "one dimension": (scipy.sparse.coo_array([1.0, 2.0]), "1 dimensions"),
    "fill value": (sparse.COO.from_numpy(np.eye(3), fill_value=1), "fill value 1"),
    "dask dense": (da.ones((4, 4), chunks=2), "Dask array of dense chunks"),
    "dask of three": (da.from_array(sparse.zeros((2, 2, 2))), "3 dimensions"),
    "xarray dense": (xr.DataArray(np.eye(3)), "dense array"),
    "frame of two": (pd.DataFrame({"a": [1], "b": [2]}), r"columns 'a', 'b' was given"),
    "frame without a user": (
        pd.DataFrame({"user": ["a", None], "item": [1, 2], "rating": [1, 2]}),
        "'user' has 1 missing value, the first in row 1 .counted from 0.; each",
    ),
    "frame of lists": (
        pd.DataFrame({"user": [[1], [2]], "item": [1, 2], "rating": [1, 2]}),
        r"'user' holds what cannot be put in order .*, the first \[1\]",
    ),
    "frame of numbers beside bytes": (
        pd.DataFrame({"user": [1, 2], "item": [b"a", 1.5], "rating": [1, 2]}),
        "'item' holds what cannot be put in order",
    ),
    "frame of words": (pd.DataFrame({"a": [1], "b": [2], "c": ["good"]}), "numbers are needed"),
    "frame with NA": (
        pd.DataFrame({"a": [1, 1], "b": [2, 3], "c": pd.array([1, None], dtype="Int64")}),
        r"1 of 2 ratings.*at a 0 \(1\), b 1 \(3\)",
    ),
    "empty frame": (pd.DataFrame({"user": [], "item": [], "rating": []}), "nothing is stored"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_used_is_refused(name):
    data, message = BAD[name]
    with pytest.raises(InputError, match=message):
        as_matrix(data)


@pytest.mark.parametrize(("row", "shape"), [(-1, (3, 3)), (3, (3, 3))])
def test_positions_outside_are_refused(row, shape):
    with pytest.raises(InputError, match=f"user {row} of entry 1 is outside"):
        from_triples([0, row], [0, 1], [1.0, 2.0], shape)


def test_sides_beyond_int32_are_refused():
    with pytest.raises(InputError, match="each side may be at most 2147483647"):
        from_triples([0], [0], [1.0], (2**31, 3))


TABLE = pd.DataFrame({"who": ["b", "a", "b"], "what": [2, 1, 1], "how": [3.0, 4.0, 5.0]})


def assert_is_the_table(matrix):
    assert matrix.row_labels.tolist() == ["a", "b"] and matrix.column_labels.tolist() == [1, 2]
    assert matrix.rows.tolist() == [0, 1, 1] and matrix.columns.tolist() == [0, 0, 1]
    assert matrix.values.tolist() == [4, 5, 3]


@pytest.mark.parametrize("n_columns", [2, 3, 4, 5])
def test_sparse_columns_are_a_matrix_and_no_records(n_columns):
    """Three of them were read as user, item and rating; the advice keeps all names."""
    matrix = scipy.sparse.random_array((6, n_columns), density=0.5, rng=np.random.default_rng(0))
    index, columns = list("abcdef"), list("vwxyz"[:n_columns])
    frame = pd.DataFrame.sparse.from_spmatrix(matrix, index, columns)
    with pytest.raises(InputError, match="that is a matrix") as refused:
        as_matrix(frame)
    advice = str(refused.value).partition("keep its names ")[2]
    found = as_matrix(eval(advice, {"xarray": xr, "sparse": sparse, "frame": frame}))
    assert found.row_labels.tolist() == index and found.column_labels.tolist() == columns
    np.testing.assert_array_equal(found.to_scipy().todense(), matrix.todense())


def test_sparse_columns_that_are_named_so_are_records():
    frame = pd.DataFrame({"user": [1, 2], "item": [0, 3], "rating": [0.0, 4.0]})
    found = as_matrix(frame.astype(pd.SparseDtype(float, 0.0)))
    assert found.values.tolist() == [0, 4] and found.row_labels.tolist() == [1, 2]


@pytest.mark.parametrize("index", [["who"], ["who", "what"]])
def test_a_frame_with_users_in_its_index_is_told_so(index):
    with pytest.raises(InputError, match=r"named index, which is not read \(reset_index\(\)"):
        as_matrix(TABLE.set_index(index))


def test_columns_of_a_frame_may_be_named():
    turned = TABLE[["how", "who", "what"]].assign(when=0)
    assert_is_the_table(as_matrix(turned, ("who", "what", "how")))
    known = turned.rename(columns={"what": "movieId", "how": "stars"})
    assert_is_the_table(as_matrix(known, ("who", None, None)))
    with pytest.raises(InputError, match="no columns called 'whom'"):
        as_matrix(turned, ("whom", "what", "how"))
    with pytest.raises(InputError, match="say which they are: user=, item=, rating="):
        as_matrix(turned, ("who", None, None))
    for odd in (None, "who", ("who", "what")):
        with pytest.raises(InputError, match="give three names"):
            as_matrix(turned, odd)
    with pytest.raises(InputError, match="repeats is 'mean': use one of 'last', 'sum'"):
        as_matrix(turned, ("who", "what", "how"), repeats="mean")


def test_a_column_of_a_frame_is_what_its_name_says():
    """Not what its place says, where these differ."""
    users, items, values = ([1, 2], [7, 8], [3.0, 4.0])
    columns = {"movie": items, "user": users, "minutes": values}
    found = as_matrix(pd.DataFrame(columns)).to_frame()
    assert found.to_numpy().tolist() == [[1, 7, 3], [2, 8, 4]]
    for order in (["minutes", "user", "movie"], ["movie", "minutes", "user"]):
        with pytest.raises(InputError, match="say which they are"):
            as_matrix(pd.DataFrame(columns)[order])
    with pytest.raises(InputError, match="say which they are"):
        as_matrix(pd.DataFrame({"movie": items, "who": users, "minutes": values}))
    assert pair_columns(pd.DataFrame({"movie": items, "who": users})) is None
    assert pair_columns(pd.DataFrame({"who": users, "movie": items})) == (0, 1)


def test_lists_of_records():
    records = [("b", 2, 3.0), ("a", 1, 4.0), ("b", 1, 5.0)]
    assert_is_the_table(as_matrix(records))
    named = as_matrix(records, ("who", None, "how"))
    assert_is_the_table(named)
    assert (named.row_name, named.column_name) == ("who", "item")
    assert_is_the_table(
        as_matrix(TABLE.set_axis(["user", "item", "rating"], axis=1).to_dict("records"))
    )
    for wrong in ([("a", 1, 2.0), ("b", 1)], [1, 2], ["abc", "def", 3]):
        with pytest.raises(InputError, match="list"):
            as_matrix(wrong)
    with pytest.raises(InputError, match=r"array.tolist\(\)"):
        as_matrix(np.ones((5, 3)))


def test_a_dask_frame_is_a_frame():
    frame = pytest.importorskip("dask.dataframe").from_pandas(TABLE, npartitions=2)
    assert_is_the_table(as_matrix(frame))
    assert_is_the_table(as_matrix(frame.assign(extra=1), ("who", "what", "how")))


def test_text_is_no_rating():
    with pytest.raises(InputError, match=r"column 'how' holds .*the first '3.0'.*to_numeric"):
        as_matrix(TABLE.astype({"how": str}))
    with pytest.raises(InputError, match=r"the first 'yes'.*yes and no by table\['how'\] == 'yes'"):
        as_matrix(TABLE.assign(how="yes"))
    with pytest.raises(InputError, match=r"holds object, the first 'no'"):
        as_matrix(TABLE.assign(how=pd.Series([None, *["no"] * (len(TABLE) - 1)], dtype=object)))


def test_bools_with_gaps_are_numbers_with_gaps():
    """pandas reads them so from a file in which a cell is empty."""
    answers = pd.Series([True, None, *[False] * (len(TABLE) - 2)], dtype=object)
    found = number_column(answers)
    assert found.dtype == np.float64 and np.isnan(found[1])
    np.testing.assert_array_equal(found, number_column(answers.astype("boolean")))


def test_repeats_may_be_summed_and_events_counted():
    clicks = pd.DataFrame({"user": [1, 1, 2, 1], "item": [5, 5, 5, 6]})
    matrix = as_matrix(clicks, repeats="sum")
    assert matrix.values.tolist() == [2, 1, 1] and matrix.values.dtype == np.float32
    timed = clicks.assign(timestamp=0)
    assert as_matrix(timed, repeats="sum").values.tolist() == [2, 1, 1]
    weighed = clicks.assign(rating=[1.0, 2.5, 1.0, 1.0])
    assert as_matrix(weighed, repeats="sum").values.tolist() == [3.5, 1, 1]
    small = clicks.assign(rating=np.float32([1, 2**24, 1, -(2**24)]), item=5, user=1)
    assert as_matrix(small, repeats="sum").values.tolist() == [2]  # rounded once
    large = clicks.assign(rating=np.float32([2e38, 2e38, 1, 1]))
    with pytest.raises(
        InputError, match=r"sums of ratings are NaN or infinite.*user 0 \(1\), item"
    ):
        as_matrix(large, repeats="sum")
    with pytest.raises(InputError, match="a DataFrame with the columns 'user', 'item'"):
        as_matrix(clicks)


def test_labels_that_numpy_would_pad_or_cut_stay_as_they_are():
    assert as_labels(["tea", "jam"]).dtype == "<U3"
    alike = as_labels(np.array(["a", "a\0"], dtype=object))
    assert alike.tolist() == ["a", "a\0"]
    n = 3000
    long = as_labels(np.array([*map(str, range(n)), "x" * 100_000], dtype=object))
    assert long.nbytes < 100 * n and long[-1] == "x" * 100_000


@pytest.mark.parametrize("words", [["tea", "jam"], []])
def test_text_of_any_width_is_text_of_one(words):
    found = as_labels(np.array(words, np.dtypes.StringDType()))
    assert found.dtype.kind == "U" and found.tolist() == words


@pytest.mark.parametrize(
    "labels",
    [
        np.array([5, 2, 9]),
        np.array([2**64 - 1, 0], np.uint64),
        np.array([0.5, 1.5], np.float32),
        np.array(["2020-01-02", "1970-01-01"], "M8[s]"),
        np.array([True, False]),
    ],
)
def test_objects_of_one_kind_of_number_or_time_are_labels_of_that_kind(labels):
    objects = np.empty(len(labels), object)
    objects[:] = list(labels)  # scalars of NumPy, as a row of a mixed table or a node of a graph
    found = as_labels(objects)
    assert found.dtype == labels.dtype and np.array_equal(found, labels)


def test_objects_of_several_kinds_stay_what_they_are():
    """2**60 and 2**60 + 1 are one float64."""
    labels = np.array([2**60, 2**60 + 1, 0.5], object)
    assert as_labels(labels).tolist() == labels.tolist() and as_labels(labels).dtype == object


def test_categories_that_do_not_occur_are_no_users():
    kinds = {"who": pd.CategoricalDtype([*"zyxba"]), "what": pd.CategoricalDtype([3, 2, 1])}
    matrix = as_matrix(TABLE.astype(kinds).query("who != 'a'"))
    assert matrix.row_labels.tolist() == ["b"] and matrix.column_labels.tolist() == [2, 1]
    assert matrix.columns.tolist() == [0, 1] and matrix.values.tolist() == [3, 5]


def test_a_frame_without_rows_says_so():
    with pytest.raises(InputError, match="column 'rating' is empty"):
        as_matrix(pd.DataFrame(columns=["user", "item", "rating"]))
