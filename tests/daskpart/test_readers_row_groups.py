"""Examples in parquet: row groups cut into blocks, so that each rank has some, and read once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import daskpart
from daskpart.errors import ReadError
from daskpart.readers import row_groups, survey

pytest.importorskip("pyarrow")
_N_ROWS = 200


def _frame(n_rows: int = _N_ROWS) -> pd.DataFrame:
    random = np.random.default_rng(0)
    cells = random.normal(size=(n_rows, 3)) * (random.random((n_rows, 3)) < 0.6)
    frame = pd.DataFrame(cells, columns=[*"abc"])
    return frame.assign(y=np.array(["no", "yes"])[(cells.sum(axis=1) > 0).astype(int)])


def _whole(frame: pd.DataFrame, pieces) -> None:
    """Whether pieces, one after the other, are all rows of a table."""
    data = sp.vstack([piece.data for piece in pieces]).toarray()
    np.testing.assert_array_equal(data, frame[[*"abc"]].to_numpy())
    target = np.concatenate([piece.target for piece in pieces])
    assert target.tolist() == frame["y"].tolist()


@pytest.mark.parametrize("n_groups", [1, 2, 7, 100])
def test_each_rank_has_its_share_of_few_row_groups(tmp_path: Path, n_groups) -> None:
    frame = _frame()
    frame.to_parquet(tmp_path / "x.parquet", row_group_size=_N_ROWS // n_groups)
    file = survey(tmp_path / "x.parquet", label="y")
    assert sum(block.n_rows for block in file.blocks) == _N_ROWS
    for n_ranks in (1, 3, 8):
        pieces = file.pieces(n_ranks).compute()
        _whole(frame, pieces)
        sizes = [len(piece.target) for piece in pieces]
        # equal bytes, those of what stands before the rows of a group among them
        mean, most = _N_ROWS / n_ranks, max(block.n_rows for block in file.blocks)
        assert max(abs(size - mean) for size in sizes) < 0.15 * mean + most


@settings(max_examples=25)
@given(
    sizes=st.lists(st.integers(1, 90), min_size=1, max_size=6),
    cut=st.integers(0, 400),
    round_bytes=st.integers(1, 10_000),
)
def test_any_consecutive_blocks_are_the_rows_between(
    tmp_path_factory, sizes, cut, round_bytes
) -> None:
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    frame = _frame(sum(sizes))
    path = tmp_path_factory.mktemp("groups") / "x.parquet"
    table = pyarrow.Table.from_pandas(frame, preserve_index=False)
    with ParquetWriter(path, table.schema) as writer:
        for begin, size in zip(np.cumsum([0, *sizes]), sizes, strict=False):
            writer.write_table(table.slice(begin, size), row_group_size=size)
    file = survey(path, label="y")
    cut = min(cut, len(file.blocks))
    both = [file.examples_of(each) for each in (range(cut), range(cut, len(file.blocks)))]
    _whole(frame, both)
    assert len(both[0].target) == file.row_pointer[cut]
    by_block = [len(rows.labels) for rows in file.rows_by_block(range(len(file.blocks)))]
    assert by_block == np.diff(file.row_pointer).tolist()
    # rounds have all blocks in order, are no more than their bytes need, and cut no group
    own = range(cut, len(file.blocks))
    rounds = file.in_rounds(own, round_bytes)
    assert [block for each in rounds for block in each] == [*own]
    if own:
        n_bytes = file.blocks[-1].stop - file.blocks[cut].start
        assert len(rounds) <= -(-n_bytes // round_bytes)
        groups = np.cumsum([0, *file.wanted.table.blocks_of_groups]).tolist()
        assert {each.start for each in rounds} <= {cut, *groups}


def test_a_row_group_is_unpacked_once_for_all_that_is_read_of_it(tmp_path: Path, monkeypatch):
    frame = _frame()
    frame.to_parquet(tmp_path / "x.parquet", row_group_size=_N_ROWS // 2)
    file = survey(tmp_path / "x.parquet", label="y")
    read, pieces = [], row_groups._pieces
    monkeypatch.setattr(
        row_groups, "_pieces", lambda path, number, *more: read.append(number) or
        pieces(path, number, *more)
    )  # fmt: skip
    every = range(len(file.blocks))
    assert len([*file.rows_by_block(every)]) == len(file.blocks) > 2
    assert read == [0, 1]
    # nor is it cut into rounds, which would unpack it again
    rounds = file.in_rounds(every, 1)
    assert [len(each) for each in rounds] == [len(file.blocks) // 2] * 2
    own = file.ranges(3)[1]
    assert next(file.row_pointer[each.stop] for each in file.in_rounds(own, 1)) == _N_ROWS // 2


def test_rows_that_were_added_to_a_row_group_are_seen(tmp_path: Path) -> None:
    frame = _frame()
    frame[:100].to_parquet(tmp_path / "x.parquet")
    file = survey(tmp_path / "x.parquet", label="y")
    frame.to_parquet(tmp_path / "x.parquet")
    with pytest.raises(ReadError, match="when it was surveyed"):
        file.pieces(2).compute()


def test_messages_count_rows_of_the_group(tmp_path: Path) -> None:
    frame = _frame()
    frame.assign(b=frame["b"].mask(frame.index == 150)).to_parquet(tmp_path / "x.parquet")
    with pytest.raises(ReadError, match=r"row group 0, row 150: expected a finite .* column 'b'"):
        survey(tmp_path / "x.parquet", label="y")
    frame.assign(y=frame["y"].mask(frame.index == 150)).to_parquet(tmp_path / "x.parquet")
    with pytest.raises(ReadError, match="row group 0, row 150: there is no label in column 'y'"):
        survey(tmp_path / "x.parquet", label="y")


def test_a_fit_and_a_split_of_one_row_group(tmp_path: Path) -> None:
    frame = _frame()
    frame.to_parquet(tmp_path / "x.parquet")
    frame.to_csv(tmp_path / "x.csv", index=False)
    files = [survey(tmp_path / name, label="y") for name in ("x.parquet", "x.csv")]
    fits = [daskpart.LogisticRegression(n_ranks=3, max_iter=20).fit(file) for file in files]
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, atol=1e-4)
    assert fits[0].score(files[0]) == fits[1].score(files[1])
    halves = [file.split(0.4, random_state=1) for file in files]
    for of_parquet, of_csv in zip(*halves, strict=True):
        assert of_parquet.shape == of_csv.shape
        found, expected = (
            np.concatenate([piece.target for piece in file.pieces(3).compute()])
            for file in (of_parquet, of_csv)
        )
        assert found.tolist() == expected.tolist()
