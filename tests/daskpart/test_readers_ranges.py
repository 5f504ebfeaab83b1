"""A libsvm file in byte ranges is the file read whole, wherever it is cut and however packed."""

from __future__ import annotations

from itertools import pairwise

import distributed
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from packed_files import OPENERS, write

import daskpart
from daskpart.errors import InputError, ReadError
from daskpart.readers.libsvm import Rows, Wanted, block_of
from daskpart.readers.libsvm_kernel import plain_lines
from daskpart.readers.ranges import chunks_between, rows_between, survey, text_size
from daskpart.readers.scanning import Chunk, apart_by, rows_of

TEXT = (
    b"# a remark\n+1 1:0.5 3:2 7:1e-3\n\n-1 2:1\n+1\n-1 1:1 9:4 # c\r\n  2.5 4:1 3:2\n"
    b"1 1:0.30000000000000004 2:1e-320 3:-0\n"
)


def assert_same_rows(one: Rows, other: Rows) -> None:
    for mine, theirs in zip(one, other, strict=True):
        assert mine.tolist() == theirs.tolist()


@given(
    st.lists(st.integers(0, len(TEXT) + 20), max_size=6),
    st.integers(1, 60),
    st.booleans(),
    st.sampled_from(sorted(OPENERS)),
)
def test_any_cut_gives_every_line_once(folder, cuts, chunk_bytes, line_end, compression):
    content = TEXT if line_end else TEXT.rstrip(b"\n")
    path = str(write(folder / f"cut.libsvm{compression}", content))
    borders = [0, *sorted(cuts), None]
    pairs = list(pairwise(borders))
    chunks = [chunk for pair in pairs for chunk in chunks_between(path, *pair, chunk_bytes)]
    assert b"".join(chunk.text for chunk in chunks) == content
    assert [chunk.start for chunk in chunks] == [
        sum(len(before.text) for before in chunks[:n]) for n in range(len(chunks))
    ]
    whole = rows_between(path, 0, None, Wanted())
    parts = [rows_between(path, *pair, Wanted()) for pair in pairs]
    assert_same_rows(Rows.joined(parts), whole)
    assert text_size(path) == len(content)


@pytest.mark.parametrize("compression", sorted(OPENERS))
@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 5, 8, 20])
def test_pieces_are_the_whole_file(folder, compression, n_ranks):
    path = write(folder / f"whole.libsvm{compression}", b"\xef\xbb\xbf" + TEXT * 9)
    file, whole = survey(path), daskpart.read(path)
    assert file.shape == whole.data.shape and file.nnz == whole.data.nnz
    assert file.labels.tolist() == np.unique(whole.target).tolist()
    collection = file.pieces(n_ranks)
    assert repr(collection) == f"RankCollection<npartitions={n_ranks}>"
    pieces = collection.compute()
    assert len(pieces) == n_ranks
    data = sp.vstack([piece.data for piece in pieces], "csr")
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(data, name), getattr(whole.data, name))
    assert np.concatenate([piece.target for piece in pieces]).tolist() == whole.target.tolist()


NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(allow_nan=False, allow_infinity=False, places=8).map(str),
    st.from_regex(
        r"[+-]?([0-9]{1,25}\.?[0-9]{0,25}|\.[0-9]{1,20})(e[+-]?[0-9]{1,3})?", fullmatch=True
    ),
).filter(lambda text: abs(float(text)) < 1e308)


@given(
    st.lists(
        st.tuples(
            NUMBERS,
            st.dictionaries(st.integers(0, 2**40), NUMBERS, max_size=5),
            st.sampled_from([" ", "\t", "  "]),
            st.sampled_from(["\n", "\r\n", " \n", "\n\n"]),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_the_kernel_reads_what_the_scanner_reads(rows):
    text = "".join(
        label + "".join(f"{gap}{index}:{value}" for index, value in sorted(pairs.items())) + end
        for label, pairs, gap, end in rows
    ).encode()
    plain = plain_lines(text)
    assert plain is not None
    numbers = [float(each) for label, pairs, *_ in rows for each in (label, *pairs.values())]
    assert len(numbers) == len(plain.values) + len(plain.labels)
    assert plain.labels.tolist() == [float(label) for label, *_ in rows]
    assert plain.values.tolist() == [
        float(value) for _, pairs, *_ in rows for _, value in sorted(pairs.items())
    ]
    scanned = rows_of(Chunk("x", text, apart_by(":"), 0))
    assert scanned.n_rows == len(plain.labels)
    assert np.diff(scanned.pointer).tolist() == (1 + 2 * plain.lengths).tolist()
    assert scanned.numbers[scanned.pointer[:-1]].tolist() == plain.labels.tolist()


@given(st.text(" \t\n\r#%:.+-eE0123456789xn\v", max_size=40))
def test_what_the_kernel_takes_the_scanner_takes(text):
    content = text.encode()
    plain = plain_lines(content)
    if plain is None or not content:
        return
    chunk = Chunk("x", content, apart_by(":"), 0)
    scanned = rows_of(chunk)
    values = np.ones(len(scanned.numbers), bool)
    values[scanned.pointer[:-1]] = False
    assert scanned.numbers[~values].tolist() == plain.labels.tolist()
    assert scanned.numbers[values][1::2].tolist() == plain.values.tolist()
    assert scanned.numbers[values][::2].tolist() == plain.indices.tolist()
    block_of(chunk, Wanted())


BAD = [
    ("1 3:1\n-1 3:1 4:\n", {}, "line 2: expected a label and then index:value pairs"),
    ("1 3:1\n-1 3:1 4", {}, "line 2: expected a label and then index:value pairs"),
    ("1 3:1\n-1 4:1 3:2 4:2\n", {}, "line 2: expected each feature once, found 4 twice"),
    ("1 3:1\n-1 3:nan\n", {}, "line 2: expected a finite feature value"),
    ("1 3:1\n-1 3:1e999\n", {}, "line 2: expected a finite feature value"),
    ("1 3:1\n-1 3:x\n", {}, "line 2: expected a number, found 'x'"),
    ("1 3:1\n0 3:1\n", {"labels": (-1, 1)}, "line 2: expected one of the labels -1, 1; found 0"),
    ("1 3:1\n1 4:1\n", {"n_features": 3}, "line 2: expected feature indices up to 3, .*found 4"),
    ("1 2:1\n1 3:1\n", {"n_features": 3, "zero_based": True}, "line 2: .*indices up to 2"),
]


@pytest.mark.parametrize(("content", "options", "message"), BAD)
def test_the_line_of_a_mistake_is_named_from_any_range(tmp_path, content, options, message):
    before = 700
    path = tmp_path / "bad.libsvm"
    path.write_text("1 1:1 2:2\n" * before + content)
    message = message.replace("line 2", f"line {before + 2}")
    with pytest.raises(ReadError, match=f"bad.libsvm, {message}"):
        survey(path, **options)
    packed = write(tmp_path / "bad.libsvm.gz", path.read_bytes())
    with pytest.raises(ReadError, match=message):
        survey(packed, **options)
    with pytest.raises(ReadError, match=message):
        rows_between(str(path), 500, None, Wanted.checked(**options))


def test_features_in_any_order_and_a_last_line_that_breaks_off(tmp_path):
    """Within a pair that is told; within a number there is a number left."""
    path, broken = tmp_path / "x.libsvm", "1 2:2 1:1\n-1 9:9 1:2 3:2"
    wanted = np.zeros((2, 9))
    wanted[0, :2], wanted[1, [0, 2, 8]] = (1, 2), (2, 2, 9)
    for text in (broken, broken + "\n"):
        path.write_text(text)
        for found in (daskpart.read(path), *survey(path).pieces(1).compute()):
            assert found.data.has_sorted_indices and found.target.tolist() == [1, -1]
            np.testing.assert_array_equal(found.data.toarray(), wanted)
    for text in (broken[:-1], broken[:-2]):
        path.write_text(text)
        for read in (survey, daskpart.read):
            with pytest.raises(ReadError, match=r"line 2: expected a label .* '-1 9:9 1:2 3"):
                read(path)


def test_files_that_cannot_be_surveyed(tmp_path):
    with pytest.raises(ReadError, match="there is no such file"):
        survey(tmp_path / "absent.libsvm")
    for content in ("", "# only this\n", "\n\n"):
        (tmp_path / "few.libsvm").write_text(content)
        with pytest.raises(ReadError, match="there are no examples in it"):
            survey(tmp_path / "few.libsvm")
    (tmp_path / "few.libsvm").write_text("1 0:1 6:1\n")
    with pytest.raises(InputError, match="n_features=6, but the file needs 7"):
        survey(tmp_path / "few.libsvm", n_features=6)
    with pytest.raises(InputError, match="the feature index 0 occurs"):
        survey(tmp_path / "few.libsvm", zero_based=False)
    with pytest.raises(InputError, match="n_features is 0"):
        survey(tmp_path / "few.libsvm", n_features=0)
    cut = write(tmp_path / "cut.libsvm.gz", TEXT * 50)
    cut.write_bytes(cut.read_bytes()[:-20])
    with pytest.raises(ReadError, match="ends early"):
        survey(cut)


def test_a_file_that_changes_meanwhile(tmp_path):
    path = write(tmp_path / "x.libsvm", TEXT * 9)
    file = survey(path)
    path.write_bytes(TEXT * 5)
    with pytest.raises(ReadError, match="when it was surveyed"):
        file.pieces(3).compute()


def test_many_labels_are_no_classes(tmp_path):
    path = tmp_path / "x.libsvm"
    path.write_text("".join(f"{label} 1:1\n" for label in range(10_001)))
    assert survey(path).labels is None


def test_the_same_on_a_cluster(folder):
    path = write(folder / "cluster.libsvm", TEXT * 9)
    here = survey(path)
    with distributed.Client(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as client:
        there = survey(path, client=client)
        pieces = there.pieces(2).compute()
    assert there.fingerprint() == here.fingerprint() and there.shape == here.shape
    assert sum(piece.data.shape[0] for piece in pieces) == here.shape[0]


def test_real_files(shared_data):
    for name in ("a9a.libsvm.gz", "imdb-bow.test.libsvm.xz"):
        path = shared_data / "linear" / name
        file, whole = survey(path), daskpart.read(path)
        data = sp.vstack([piece.data for piece in file.pieces(3).compute()], "csr")
        assert data.indptr.tolist() == whole.data.indptr.tolist()
        assert data.data.tobytes() == whole.data.data.tobytes()


@pytest.mark.parametrize("compression", sorted(OPENERS))
def test_of_a_small_file_each_of_several_ranks_has_some(tmp_path, compression):
    path = write(tmp_path / f"x.libsvm{compression}", b"1 1:1 2:5\n-1 3:2\n" * 999)
    file = survey(path)
    sizes = [len(piece.target) for piece in file.pieces(5).compute()]
    assert sum(sizes) == 1998 and min(sizes) > 300
    assert sum(len(rows.labels) for rows in file.rows_by_block(range(len(file.blocks)))) == 1998


@pytest.mark.parametrize("compression", ["", ".gz"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"9:4 # c", b"9:5 # c"),  # a value
        (b"9:4 # c", b"99:4 #c"),  # a feature that has no place
        (b"\n-1 2:1\n", b"\n-3 2:1\n"),  # a class that nobody knows
        (b"+1 1:0.5", b"+1 0:0.5"),  # all features numbered otherwise
        (b"\n+1\n-1 1:1", b"\n+1 -1 1:1"),  # one row less
        (b"7:1e-3\n\n", b"7:1e-3\n\n\n"),  # a byte more
    ],
)
def test_a_file_of_as_many_rows_that_changes_meanwhile(tmp_path, compression, before, after):
    path = write(tmp_path / f"x.libsvm{compression}", TEXT * 9)
    file = survey(path)
    assert sum(len(piece.target) for piece in file.pieces(3).compute()) == file.shape[0]
    halves = (TEXT * 8).rsplit(before, 1)
    assert len(halves) == 2
    write(path, after.join(halves) + TEXT)
    with pytest.raises(ReadError, match=r"(?s)when it was surveyed|expected a label"):
        file.pieces(3).compute()
    with pytest.raises(ReadError, match=r"(?s)when it was surveyed|expected a label"):
        for rows in file.rows_by_block(range(len(file.blocks))):
            assert rows.indices.max(initial=0) <= 9  # no row of changed text is given first


@pytest.mark.parametrize("text", ["1,3 5:0.2 7:1\n2 1:1\n", "2 1:1\n1,2,3 2:4\n", "a,b 1:2\n"])
def test_several_labels_a_line_are_said_not_to_be_read(tmp_path, text):
    path = tmp_path / "topics.libsvm"
    path.write_text(text)
    number = 2 if text.startswith("2") else 1
    said = rf"topics\.libsvm, line {number}: .*several labels is not read: .*multilabel=True"
    for reader in (daskpart.read, survey):
        with pytest.raises(ReadError, match=said):
            reader(path)
