"""Tensors of every container are the same tensor; broken ones are refused by name."""

from __future__ import annotations

import gzip
from pathlib import Path

import dask.array
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sparse
import xarray
from hypothesis import given
from hypothesis import strategies as st

import daskpart
from daskpart.containers.matrix import as_matrix
from daskpart.containers.tensor import LabelledTensor, as_tensor, from_coordinates
from daskpart.errors import DaskpartWarning, InputError, ReadError


@st.composite
def coo_tensors(draw: st.DrawFn) -> sparse.COO:
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=2, max_size=5)))
    n_cells = int(np.prod(shape))
    cells = draw(st.lists(st.integers(0, n_cells - 1), min_size=1, max_size=30, unique=True))
    coordinates = np.stack(np.unravel_index(np.sort(cells), shape))
    values = np.arange(1.0, len(cells) + 1)
    return sparse.COO(coordinates, values, shape=shape)


def assert_same(tensor: LabelledTensor, expected: sparse.COO) -> None:
    assert tensor.coordinates.dtype == np.int32 and tensor.coordinates.flags.c_contiguous
    assert np.array_equal(tensor.coordinates, expected.coords)
    assert np.array_equal(tensor.values, expected.data)
    assert tensor.shape == expected.shape
    assert (tensor.n_modes, tensor.nnz) == (expected.ndim, expected.nnz)


@given(coo_tensors())
def test_every_container_gives_the_same_tensor(coo: sparse.COO) -> None:
    tensor = as_tensor(coo)
    assert_same(tensor, coo)
    assert tensor.dims == tuple(f"mode_{mode}" for mode in range(coo.ndim))
    assert as_tensor(tensor) is tensor
    assert_same(as_tensor(tensor.to_coo()), coo)
    assert_same(as_tensor(tensor.to_xarray()), coo)
    assert_same(as_tensor(coo.asformat("gcxs")), coo)
    chunked = dask.array.from_array(coo, chunks=tuple(max(1, side // 2) for side in coo.shape))
    assert_same(as_tensor(chunked), coo)


@given(coo_tensors(), st.randoms(use_true_random=False))
def test_the_order_of_entries_does_not_matter(coo: sparse.COO, random: object) -> None:
    order = list(range(coo.nnz))
    random.shuffle(order)  # type: ignore[attr-defined]
    assert_same(from_coordinates(coo.coords[:, order], coo.data[order], coo.shape), coo)


def test_repeats_are_summed_and_counted() -> None:
    coordinates = [[1, 0, 1, 1], [0, 2, 0, 0], [1, 1, 1, 1]]
    with pytest.warns(DaskpartWarning, match="2 of 4 entries repeat a cell"):
        tensor = from_coordinates(coordinates, [1.5, 2, 3, 4], (2, 3, 2))
    assert tensor.coordinates.tolist() == [[0, 1], [2, 0], [1, 1]]
    assert tensor.values.tolist() == [2, 8.5]
    with pytest.warns(DaskpartWarning, match="repeat"), pytest.raises(InputError, match="no value"):
        from_coordinates([[0, 0], [1, 1]], [1, -1], (1, 2))
    with (
        pytest.warns(DaskpartWarning, match="repeat"),
        pytest.raises(InputError, match=r"infinite, the first \(inf\) at mode_0 0, mode_1 1"),
    ):
        from_coordinates([[0, 0], [1, 1]], np.full(2, 3e38, np.float32), (1, 2))


def test_stored_zeros_are_left_out_and_types_kept() -> None:
    values = np.array([0, 2], np.float32)
    tensor = from_coordinates([[0, 1], [0, 1]], values, (2, 2))
    assert tensor.values.dtype == np.float32 and tensor.coordinates.tolist() == [[1], [1]]
    assert as_tensor(scipy.sparse.eye_array(3, dtype=np.int8)).values.dtype == np.float64


def test_names_and_labels_come_along() -> None:
    coo = sparse.COO([[0, 1], [1, 0], [0, 0]], [1.0, 2.0], shape=(2, 2, 1))
    array = xarray.DataArray(coo, dims=("film", "word", "stars"), coords={"film": ["a", "b"]})
    tensor = as_tensor(array)
    assert tensor.dims == ("film", "word", "stars")
    assert list(tensor.labels) == ["film"] and tensor.labels["film"].tolist() == ["a", "b"]
    assert tensor.to_xarray().identical(array)
    matrix = as_matrix(array[:, :, 0])
    assert as_tensor(matrix).labels["film"].tolist() == ["a", "b"]
    assert "film" in repr(tensor) and "<table>" in tensor._repr_html_()


def test_a_shape_may_be_larger_than_what_occurs() -> None:
    tensor = as_tensor(scipy.sparse.eye_array(3), shape=(4, 5))
    assert tensor.shape == (4, 5) and as_tensor(tensor, shape=(6, 6)).shape == (6, 6)
    with pytest.raises(InputError, match=r"mode_0 2 of entry 2 is outside .* 0 to 1"):
        as_tensor(tensor, shape=(2, 5))


@pytest.mark.parametrize("form", ["bsr", "dia"])
def test_padding_is_no_entry(form: str) -> None:
    dense = np.zeros((4, 6))
    dense[[0, 1, 3], [2, 2, 5]] = 1, 2, 3
    data = scipy.sparse.bsr_array(dense, blocksize=(2, 3)).asformat(form)
    tensor = as_tensor(data, missing="unknown")
    np.testing.assert_array_equal(tensor.coordinates, np.nonzero(dense))
    assert tensor.values.tolist() == [1, 2, 3]


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "small.tns.gz"
    with gzip.open(path, "wt") as file:
        file.write("2 1 3 1.5\n1 2 1 -2\n")
    assert_same(as_tensor(path), daskpart.read(path))
    assert as_tensor(str(path), shape=(4, 4, 4)).shape == (4, 4, 4)
    with pytest.raises(ReadError, match="no such file"):
        as_tensor(tmp_path / "none.tns")


@pytest.mark.parametrize(
    "lines", ["a,b,c,d\n1,2,3,4.5\n2,3,1,5.5\n", "k;b;c d\n1 2;x,3,4.5\n"]
)  # of unknown columns, and of no format that is known
def test_of_a_table_a_frame_is_asked_for(tmp_path: Path, lines: str) -> None:
    """The columns of ratings were: an option of `read`, which who gives a path cannot give."""
    path = tmp_path / "table.txt"
    path.write_text(lines)
    with pytest.raises(ReadError, match=r"DataFrame, such as pandas.read_csv\(path\)\)$") as told:
        as_tensor(path)
    assert "columns=" not in str(told.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.ones((2, 2)), r"sparse.COO.from_numpy\(array\) keeps"),
        ("[1]", "no such file"),
        (3, "cannot read an int"),
        (dask.array.ones((2, 2, 2)), "dense chunks"),
        (sparse.COO([[0]], [1.0], shape=(2,)), r"shape \(2,\) was given: give one of two modes"),
        (sparse.COO([[0], [0]], [1.0], shape=(1, 2**31)), "each mode may be 0 to 2147483647 long"),
        (sparse.COO([[0], [0]], [1.0], shape=(2, 2), fill_value=1.0), "fill value 1.0"),
        (sparse.COO([[0], [1]], [np.nan], shape=(2, 2)), "1 of 1 values are NaN .* mode_1 1"),
        ([(7, "x", 1.0), (9, "y", np.nan)], r"at mode_0 1 \(9\), mode_1 1 \(y\)"),
        (sparse.COO([[], []], [], shape=(2, 2)), "no value but zeros"),
        (sparse.COO([[0], [1]], [1j], shape=(2, 2)), "complex"),
    ],
)
def test_what_cannot_be_used_is_refused(data: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_tensor(data)


@pytest.mark.parametrize(
    ("coordinates", "message"),
    [
        ([[0, 1], [0, -1]], "mode_1 -1 of entry 1 is outside"),
        ([[0, 1]], "indices of 1 modes were given"),
        ([[0], [1]], "indices of mode_0 of shape .1,. and type int64"),
        ([[0.5, 1], [0, 1]], "type float64"),
    ],
)
def test_broken_coordinates_are_refused(coordinates: list, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_coordinates(coordinates, [1.0, 2.0], (2, 2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": 3}, "extents have 0 dimensions"),
        ({"shape": "abc"}, "extents have 0 dimensions"),
        ({"shape": (2.5, 2)}, "extent 0 is 2.5"),
        ({"shape": (10**30, 2)}, "extents are of type object: give whole numbers"),
        ({"missing": "none"}, "missing is 'none': use one of 'zero', 'unknown'"),
        ({"missing": ["zero"]}, "missing is .'zero'.: use one of"),
    ],
)
def test_odd_options_are_refused(options: dict, message: str) -> None:
    with pytest.raises(
        InputError, match="values go with a DataFrame of indices: a COO has its own"
    ):
        as_tensor(sparse.COO([[0], [1]], [1.0], shape=(2, 2)), values=[1.0])
    for data in (sparse.COO([[0], [1]], [1.0], shape=(2, 2)), as_tensor([(0, 1, 1.0)])):
        with pytest.raises(InputError, match=message):
            as_tensor(data, **options)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"coordinates": None}, "coordinates is None: give an array for each mode"),
        ({"coordinates": [[[0], [0, 1]], [0, 1]]}, "coordinates are a list of which NumPy makes"),
        ({"values": np.ones((2, 2))}, r"values have the shape \(2, 2\)"),
        ({"dims": 2}, "dims is 2: give a name for each mode"),
        ({"labels": ["a"]}, "labels is a list: give a dict"),
    ],
)
def test_odd_entries_are_refused(changes: dict, message: str) -> None:
    entries = {"coordinates": [[0, 1], [0, 1]], "values": [1.0, 2.0], "shape": (2, 2)}
    with pytest.raises(InputError, match=message):
        from_coordinates(**(entries | changes))


@pytest.mark.data
def test_truth_values_are_the_values() -> None:
    """Of the last column, where nothing is named so, and no column is of fractions."""
    frame = pd.DataFrame({"who": [3, 1, 3], "task": [1, 2, 2], "passed": [True, False, True]})
    for kind in ("bool", "boolean"):
        tensor = as_tensor(frame.astype({"passed": kind}), missing="unknown")
        assert tensor.dims == ("who", "task")
        assert tensor.values.tolist() == [0, 1, 1]
    with pytest.raises(InputError, match="does not tell which"):
        as_tensor(frame.assign(trips=[3, 1, 2]))  # whether it was passed may be a mode
    assert as_tensor(frame.assign(weight=0.5)).values.tolist() == [0.5, 0.5, 0.5]


def test_years_that_became_fractions_are_not_taken_for_values() -> None:
    """As pandas makes of a column of years with some missing, once these lines are dropped."""
    frame = pd.DataFrame({"who": ["ann", "bob"], "year": [2020.0, 2021.0], "n": [3, 4]})
    with pytest.raises(InputError, match=r"'who', 'year', 'n' does not tell .* call it 'value'"):
        as_tensor(frame)
    named = as_tensor(frame.rename(columns={"n": "value"}))
    assert named.dims == ("who", "year") and named.values.tolist() == [3, 4]
    told = [
        frame[["who", "n", "year"]],  # the last column
        frame.assign(year=[0.5, 1.0]),  # fractions
        frame.assign(n=["a", "b"]),  # no other numbers
    ]
    for each in told:
        assert as_tensor(each).dims == ("who", "n")


def test_modes_in_an_index_are_not_read() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": [1, 3], "value": [0.5, 1.5]}).set_index(["a", "b"])
    for data in (frame, frame["value"], frame.reset_index("b")):
        with pytest.raises(InputError, match=r"index are not read: give X.reset_index\(\)"):
            as_tensor(data)


def test_an_index_0_in_a_one_based_file_is_said(shared_data: Path) -> None:
    with pytest.warns(DaskpartWarning, match="mode 4 holds the index 0"):
        tensor = as_tensor(shared_data / "tensors" / "splatt-small4_zeroidx.tns.gz")
    assert tensor.shape == (2, 2, 3, 3) and tensor.nnz == 8


@pytest.mark.parametrize("read", [as_tensor, as_matrix])
def test_rows_of_a_dense_array_are_no_records(read):
    """They were read as such, with fractions as indices."""
    with pytest.raises(InputError, match=r"\[1.0, 0.5, 2.0\] would have a fraction as its"):
        read([[1.0, 0.0, 3.0], [1.0, 0.5, 2.0]])
    assert read([[1.0, 0.0, 3.5], [1, 1, 2.0]]).nnz == 2


def test_what_the_error_says_of_missing_cells_keeps_zeros_and_labels() -> None:
    import xarray

    coords = {"site": ["b", "a"], "month": ["Jan", "Feb", "Mar"]}
    X = xarray.DataArray([[0.0, np.nan, 2.0], [3.0, 0.0, np.nan]], coords)
    with pytest.raises(InputError, match=r"from_series\(X.to_series\(\).dropna\(\), sparse=True"):
        as_tensor(X)
    data = xarray.DataArray.from_series(X.to_series().dropna(), sparse=True)
    tensor = as_tensor(data, missing="unknown")
    assert tensor.values.tolist() == [0, 2, 3, 0]
    assert {dim: names.tolist() for dim, names in tensor.labels.items()} == coords
