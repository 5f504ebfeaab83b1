"""What `daskpart.read` says to bad archives of NumPy and bad Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import scipy.sparse as sp
import sparse

import daskpart
from daskpart.errors import ReadError


def test_archives_that_are_something_else(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, weights=np.ones(3))
    with pytest.raises(ReadError, match=r"expected the keys of .* found 'weights'"):
        daskpart.read(path)
    np.savez(path, adj_indptr=[0, 1, 5], adj_indices=[1])
    with pytest.raises(ReadError, match="not an archive that can be read"):
        daskpart.read(path)
    with path.open("wb") as stream:
        np.save(stream, np.ones(3))
    with pytest.raises(ReadError, match="it is no zip"):
        daskpart.read(path)
    np.savez(path, adj_indptr=np.array([{}], dtype=object))
    with pytest.raises(ReadError, match="not an archive that can be read"):
        daskpart.read(path)
    sparse.save_npz(path, sparse.COO(np.array([[0]]), np.ones(1), shape=(2,), fill_value=1.0))
    with pytest.raises(ReadError, match="expected the fill value 0"):
        daskpart.read(path)
    sp.save_npz(path, sp.csr_array(np.array([[1.0, np.nan]])))
    with pytest.raises(ReadError, match="expected finite values, found 1"):
        daskpart.read(path)


@pytest.mark.parametrize("format", ["csr", "csc", "bsr"])
def test_a_pointer_that_rises_and_falls_to_nothing_is_not_followed(
    tmp_path: Path, format: str
) -> None:
    path, nothing = tmp_path / "a.npz", np.zeros((0, 1, 1) if format == "bsr" else 0)
    damaged = {"format": format, "shape": (3, 3), "data": nothing, "indices": np.zeros(0, int)}
    np.savez(path, **damaged, indptr=[0, 900, 900, 0])
    with pytest.raises(ReadError, match="must form a non-decreasing sequence"):
        daskpart.read(path)
    np.savez(path, adj_indptr=[0, 900, 900, 0], adj_indices=np.zeros(0, int))
    with pytest.raises(ReadError, match="must form a non-decreasing sequence"):
        daskpart.read(path)


@pytest.mark.parametrize("columns", [("user", "item"), ("source", "target")])
def test_lists_in_a_parquet_file_are_no_ids(tmp_path: Path, columns: tuple[str, str]) -> None:
    path = tmp_path / "x.parquet"
    pandas.DataFrame({columns[0]: [[1], [2]], columns[1]: [1, 2], "weight": 1.0}).to_parquet(path)
    with pytest.raises(ReadError, match=rf"{path}: a .* id is a number or text; found array"):
        daskpart.read(path)


@pytest.mark.parametrize(
    "values",
    [
        pandas.date_range("2024-01-01", periods=2),
        pandas.date_range("2024-01-01", periods=2, tz="Europe/Berlin"),
        pandas.to_timedelta([1, 2], unit="s"),
    ],
)
def test_times_in_a_parquet_file_are_no_ratings(tmp_path: Path, values: Any) -> None:
    """Pandas makes numbers of them, such as microseconds since 1970."""
    path = tmp_path / "x.parquet"
    pandas.DataFrame({"user": ["a", "b"], "item": [1, 2], "when": values}).to_parquet(path)
    with pytest.raises(ReadError, match=r"row 0: expected a finite rating .*, found Time") as told:
        daskpart.read(path)
    assert "the column 'when' says when. Say columns=(user, item)" in str(told.value)
    assert daskpart.read(path, columns=("user", "item")).data.data.tolist() == [1, 1]


def test_dates_without_times_are_no_ratings(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    days = pandas.date_range("2024-02-29", periods=2).date
    pandas.DataFrame({"source": ["a", "b"], "target": [1, 2], "weight": days}).to_parquet(path)
    with pytest.raises(ReadError, match=r"'weight' says when\. Say columns=\(source, target\)"):
        daskpart.read(path)


@pytest.mark.parametrize("value", [1e-50, 1e300])
def test_weights_of_an_archive_that_float32_cannot_hold(tmp_path, value):
    path = tmp_path / "graph.npz"
    np.savez(path, adj_indptr=[0, 1, 2], adj_indices=[1, 0], adj_data=[1, value])
    with pytest.raises(ReadError, match=r"float32 can hold, found 1e.* at entry 1 of adj_data"):
        daskpart.read(path)


@pytest.mark.parametrize("ids", [[1, -2], [1.0, 2.5], np.uint64([1, 2**63 + 1])])
def test_ids_of_parquet_that_are_none_are_told_what_ids_are(tmp_path, ids):
    pandas.DataFrame({"user": ids, "item": [1, 2], "rating": [3, 4]}).to_parquet(
        path := tmp_path / "x.parquet"
    )
    with pytest.raises(ReadError, match=r"row [01]: .* ids are whole numbers from 0 to 2\^63 - 1"):
        daskpart.read(path)


def test_text_of_parquet_may_be_bytes(tmp_path):
    """As files of other programs have it, which do not say that their bytes are text."""
    path = tmp_path / "x.parquet"
    users = [" Zoë".encode(), b"ann", "Zoë".encode()]
    pandas.DataFrame({"user": users, "item": [1, 2, 3], "rating": [3, 4, 5]}).to_parquet(path)
    found = daskpart.read(path)
    assert found["user"].values.tolist() == ["Zoë", "ann"]
    assert found.data.todense().tolist() == [[3, 0, 5], [0, 4, 0]]
    users[1] = b"\xff"
    pandas.DataFrame({"user": users, "item": [1, 2, 3], "rating": [3, 4, 5]}).to_parquet(path)
    with pytest.raises(ReadError, match="a user id is a number or text"):
        daskpart.read(path)


def test_an_archive_of_one_dimension(tmp_path):
    sp.save_npz(tmp_path / "x.npz", sp.coo_array(([1], ([2],)), shape=(4,)))
    with pytest.raises(ReadError, match=r"expected a matrix, found an array of the shape \(4,\)"):
        daskpart.read(tmp_path / "x.npz")
