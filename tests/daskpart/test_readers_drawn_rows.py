"""A surveyed file in two: each row is in one of them, the same however the file is packed."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskpart.errors import InputError, ReadError
from daskpart.readers import ExamplesFile, survey
from daskpart.readers.ranges import numbered_alike

N_ROWS = 400


def text(n_rows: int = N_ROWS) -> str:
    """Row i has the target i and the feature 1 + i % 7, with the value i."""
    return "".join(f"{i} {1 + i % 7}:{i}\n" for i in range(n_rows))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    at = tmp_path_factory.mktemp("drawn")
    (at / "x.libsvm").write_text(text())
    (at / "x.libsvm.gz").write_bytes(gzip.compress(text().encode()))
    words = np.array(["no", "yes", "perhaps"])[np.arange(N_ROWS) % 3]
    frame = pd.DataFrame({"a": np.arange(N_ROWS), "b": 1.5, "said": words})
    frame.to_csv(at / "x.csv", index=False)
    frame.to_parquet(at / "x.parquet", row_group_size=90)
    return at


@pytest.fixture(scope="module")
def surveyed(folder: Path) -> dict[str, ExamplesFile]:
    return {name: survey(folder / name) for name in ("x.libsvm", "x.libsvm.gz")}


def rows(file: ExamplesFile) -> np.ndarray:
    """Targets of all rows, block by block."""
    read = [file.examples_of(range(block, block + 1)) for block in range(len(file.blocks))]
    return np.concatenate([each.target for each in read])


def check_counts(file: ExamplesFile) -> None:
    """What its blocks say is what is read."""
    whole = file.examples_of(range(len(file.blocks)))
    assert whole.data.shape == file.shape and whole.data.nnz == file.nnz
    labels, counts = np.unique(whole.target, return_counts=True)
    assert file.labels.tolist() == labels.tolist()
    assert file.label_counts.tolist() == counts.tolist()


@given(
    name=st.sampled_from(["x.libsvm", "x.libsvm.gz"]),
    fraction=st.floats(0.05, 0.95),
    seed=st.integers(0, 2**32),
)
def test_each_row_is_in_one_of_both(surveyed, name, fraction, seed):
    file = surveyed[name]
    rest, drawn = file.split(fraction, random_state=seed)
    rows_of_both = rows(rest), rows(drawn)
    assert sorted(np.concatenate(rows_of_both)) == list(range(N_ROWS))
    assert abs(drawn.shape[0] - fraction * N_ROWS) < 6 * np.sqrt(N_ROWS * fraction * (1 - fraction))
    for each, found in zip((rest, drawn), rows_of_both, strict=True):
        check_counts(each)
        assert (np.diff(found) > 0).all()
        joined = np.concatenate([piece.target for piece in each.pieces(3).compute()])
        assert joined.tolist() == found.tolist()
    assert rest.fingerprint() != drawn.fingerprint() != file.fingerprint()
    again = file.split(fraction, random_state=seed)[1]
    assert again.fingerprint() == drawn.fingerprint()


def test_packing_does_not_matter(folder):
    plain, packed = (survey(folder / name).split(0.3, random_state=5) for name in
                     ("x.libsvm", "x.libsvm.gz"))  # fmt: skip
    for one, other in zip(plain, packed, strict=True):
        assert rows(one).tolist() == rows(other).tolist()
        assert (one.first, one.n_features) == (other.first, other.n_features) == (1, 7)


@pytest.mark.parametrize("name", ["x.libsvm", "x.libsvm.gz"])
def test_what_is_left_can_be_split_again(folder, name):
    rest, test = survey(folder / name).split(0.2, random_state=0)
    train, held = rest.split(0.25, random_state=0)
    assert sorted([*rows(train), *rows(held), *rows(test)]) == list(range(N_ROWS))
    check_counts(train)
    assert train.fingerprint() != rest.split(0.25, random_state=1)[0].fingerprint()
    # the same seed again is another draw: those of small numbers are not all left
    assert np.isin(np.arange(40), rows(held)).any()


@pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
def test_tables_with_classes_that_are_text(folder, name):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    file = survey(folder / name, label="said")
    rest, drawn = file.split(0.3, random_state=1)
    for each in (rest, drawn):
        check_counts(each)
        assert each.labels.tolist() == ["no", "perhaps", "yes"]
    assert rest.shape[0] + drawn.shape[0] == N_ROWS


def test_a_class_that_is_drawn_whole_is_none_of_the_rest(tmp_path):
    (tmp_path / "x.csv").write_text("a,said\n" + "1,no\n2,yes\n" * 30 + "3,rare\n")
    file = survey(tmp_path / "x.csv", label="said")
    for seed in range(50):
        rest, drawn = file.split(0.5, random_state=seed)
        if "rare" in drawn.labels:
            break
    assert rest.labels.tolist() == ["no", "yes"] and drawn.labels.tolist() == ["no", "rare", "yes"]
    assert rest.label_counts.sum() == rest.shape[0] and drawn.label_counts[1] == 1


@pytest.mark.parametrize("fraction", [0, 1, -0.1, 1.5, float("nan"), "half", None])
def test_a_share_must_be_one(folder, fraction):
    with pytest.raises(InputError, match="fraction"):
        survey(folder / "x.libsvm").split(fraction)


def test_neither_may_be_empty(folder):
    with pytest.raises(InputError, match="none is drawn"):
        survey(folder / "x.libsvm").split(1e-9, random_state=0)
    with pytest.raises(InputError, match="none is left"):
        survey(folder / "x.libsvm").split(1 - 1e-9, random_state=0)


def test_a_file_that_changed_is_told(tmp_path):
    (tmp_path / "x.libsvm").write_text(text())
    file = survey(tmp_path / "x.libsvm")
    rest, _ = file.split(0.3, random_state=0)
    (tmp_path / "x.libsvm").write_text(text(N_ROWS // 2))
    for reads in (lambda: file.split(0.3), lambda: rows(rest)):
        with pytest.raises(ReadError, match="when it was surveyed"):
            reads()


def test_features_are_numbered_alike(tmp_path):
    (tmp_path / "x.libsvm").write_text("1 1:1 4:1\n0 2:1\n")
    (tmp_path / "from0.libsvm").write_text("1 0:1 4:1\n")
    (tmp_path / "wide.libsvm").write_text("1 5:1\n")
    train, test, wide = (survey(tmp_path / f"{name}.libsvm") for name in ("x", "from0", "wide"))
    assert [(each.first, each.n_features) for each in (train, test)] == [(1, 4), (0, 5)]
    both = numbered_alike(train, test)
    assert [(each.first, each.n_features) for each in both] == [(0, 5)] * 2
    assert [each.first for each in numbered_alike(train, train)] == [1, 1]
    both = numbered_alike(train, wide)
    assert [(each.first, each.n_features) for each in both] == [(1, 5)] * 2


def test_tables_have_the_same_columns_in_order(tmp_path):
    """Else features of one were taken for others of the fit, and numbers would say nothing."""
    heads = {"fit": "a,b,y", "more": "a,b,y", "turned": "b,a,y", "fewer": "a,y", "wider": "a,b,c,y"}
    for name, head in heads.items():
        (tmp_path / f"{name}.csv").write_text(f"{head}\n{head.count(',') * '1,'}0\n")
    file, *others = (survey(tmp_path / f"{name}.csv", label="y") for name in heads)
    assert numbered_alike(file, others[0]) == [file, others[0]]
    for other in others[1:]:
        with pytest.raises(InputError, match=r"are not those of .*fit\.csv, in order"):
            numbered_alike(file, other)
