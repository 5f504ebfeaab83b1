"""Labels and the positions that they stand for."""

from __future__ import annotations

import json
import re
from datetime import date
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from daskpart.containers.matrix import from_triples
from daskpart.errors import InputError
from daskpart.models.base.labels import LabelIndex, more_labels, pack_labels, unpack_labels
from daskpart.models.matrix_factorization.pairs import pair_positions, side_positions
from daskpart.models.matrix_factorization.problem import Ratings, hold_out
from daskpart.models.matrix_factorization.state import blank_state
from daskpart.models.samples.given import classes_in


def test_labels_are_looked_up():
    names = LabelIndex(np.array(["ann", "bob", "cy"], dtype=object), 3, "user")
    assert names.positions(["cy", "ann", "cy"]).tolist() == [2, 0, 2]
    assert names.take(np.array([1])).tolist() == ["bob"]
    with pytest.raises(InputError, match=r"2 users are unknown to the model: 'x', 'y';.*'ann'"):
        names.positions(["x", "ann", "y", "x"])
    dates = LabelIndex(np.array(["2020-01-01", "2021-01-01"], "datetime64[ns]"), 2, "day")
    assert dates.positions(["2021-01-01"]).tolist() == [1]
    assert dates.find(["2021-01-01", "who knows"]).tolist() == [1, -1]
    with pytest.raises(InputError, match="day labels occur more than once: 1"):
        LabelIndex(np.array([1, 1]), 2, "day")


@pytest.mark.parametrize(
    ("labels", "unknown", "shown"),
    [
        (["Aliens", "Toy Story (1995)", "Up", "Zorro"], "Toy Story", "'Toy Story (1995)'"),
        (["a", "b", "c", "7"], 7, "'7'"),
        ([10, 20, 30, 7], "7", "7"),
        (["a", "b", "c", "d"], "something else", "'a', 'b', 'c'"),
        (["ä", "b", ("c", 1)], ("c", 2), "('c', 1)"),
        (np.array(["2020-05-17", "2021-03-01"], "datetime64[ns]"), "2021-03-02",
         "'2021-03-01', '2020-05-17'"),
    ],
)  # fmt: skip
def test_an_unknown_label_is_told_those_that_are_written_nearly_so(labels, unknown, shown):
    names = labels if isinstance(labels, np.ndarray) else np.empty(len(labels), object)
    names[:] = labels
    with pytest.raises(InputError, match=re.escape(f"such as {shown}. Leave")):
        LabelIndex(names, len(names), "film").positions([unknown])


def test_positions_stand_in_for_labels():
    positions = LabelIndex(None, 4, "item")
    assert positions.positions([3, 0.0]).tolist() == [3, 0]
    assert positions.take(np.array([2], np.int32)).tolist() == [2]
    many = r"6 items are unknown to the model: 4, 5, 6, 7, 8, …; .* are 0 … 3"
    with pytest.raises(InputError, match=many):
        positions.positions(np.arange(10))
    for wrong in ([-1], [1.5], [float("nan")], [2**40]):
        with pytest.raises(InputError, match="unknown"):
            positions.positions(wrong)
    assert positions.positions(np.array([3, 0], object)).tolist() == [3, 0]
    assert positions.positions([]).tolist() == []
    day = np.datetime64("1970-01-02")
    for wrong in (["a"], ["3"], [True], ["3", 1], [b"3"], [day], pd.Series(["3"])):
        for look_up in (positions.positions, positions.find):
            with pytest.raises(InputError, match="has no item labels: give positions 0 … 3"):
                look_up(wrong)


def test_a_set_is_no_label():
    names = LabelIndex(np.array(["ann", "bob"], dtype=object), 2, "user")
    with pytest.raises(InputError, match="can be no label of a user: give a label, or a list"):
        names.positions([{"ann", "bob"}])


def test_a_dataset_is_no_list_of_labels():
    users = xr.Dataset({"user": ("line", ["ann"])})
    for names in (np.array(["ann", "bob"], dtype=object), None):
        with pytest.raises(InputError, match=r"user is a Dataset of 'user'.*dataset\['user'\]"):
            LabelIndex(names, 2, "user").listed(users)


def test_text_in_another_encoding_is_no_label():
    """As a terminal sends it; by pandas 2 it is one that is unknown."""
    names = LabelIndex(np.array(["ann", "bob"], dtype=object), 2, "user")
    with pytest.raises(InputError, match=r"can be no label of a user|is unknown to the model"):
        names.positions(["b\udcf6b"])


ZONED = pd.date_range("2020-01-01", periods=3, freq="D", tz="Europe/Berlin")
OF_PANDAS = {
    "days": np.array([date(2020, 1, 1), date(1815, 12, 10)]),
    "zoned": ZONED,
    "fixed zone": pd.DatetimeIndex(["2020-01-01T00:00+01:00", "2020-01-01T00:00+01:00"]),
    "zoned days of summer and winter": pd.date_range(
        "2020-10-25", periods=30, freq="h", tz="Europe/Berlin", unit="us"
    ),
    "periods": pd.period_range("2020-01", periods=3, freq="M"),
    "quarters": pd.period_range("2020-01", periods=3, freq="Q-MAR"),
    "ages": pd.interval_range(0, 90, freq=30, closed="left"),
    "fractions": pd.cut([0.1, 0.9], 3).categories,
    "spans": pd.interval_range(ZONED[0], ZONED[2]),
}


@pytest.mark.parametrize("labels", OF_PANDAS.values(), ids=OF_PANDAS)
def test_times_and_intervals_are_kept_without_pickle(labels):
    labels = np.asarray(labels, dtype=object)
    arrays, description = pack_labels(labels, "labels.0")
    assert all(array.dtype.kind != "O" for array in arrays.values())
    found = unpack_labels(arrays, "labels.0", json.loads(json.dumps(description)))
    assert found.dtype == object and found.tolist() == labels.tolist()
    assert [type(each) for each in found] == [type(each) for each in labels]
    assert list(map(str, found)) == list(map(str, labels))
    if description["kind"] == "zoned":
        assert str(found[0].tz) == str(labels[0].tz)


@pytest.mark.parametrize("labels", [*OF_PANDAS.values(), ["ann", "bob"], [3, 5]])
def test_single_labels_are_found_whatever_holds_them(labels):
    labels = pd.unique(np.asarray(labels, dtype=object))
    index = LabelIndex(labels, len(labels), "day")
    for asked in ([*labels], [*xr.DataArray(labels)], [*xr.DataArray(labels)[::-1]][::-1]):
        assert index.positions(asked).tolist() == [*range(len(labels))]


@given(
    st.lists(
        st.one_of(
            st.text(max_size=3),
            st.integers(-(2**63), 2**63 - 1).map(np.int64),
            st.floats(allow_nan=False, width=32).map(np.float32),
            st.text(max_size=3).map(np.str_),
            st.booleans().map(np.bool_),
        ),
        min_size=1,
    )
)
def test_scalars_of_numpy_are_kept_as_the_numbers_and_texts_that_they_are(given_labels):
    labels = np.empty(len(given_labels), object)
    labels[:] = given_labels
    arrays, description = pack_labels(labels, "user")
    found = unpack_labels(arrays, "user", json.loads(json.dumps(description)))
    assert found.tolist() == labels.tolist()
    assert [hash(label) for label in found] == [hash(label) for label in labels]


def test_numbers_of_half_precision_are_found():
    """pandas makes no index of them, which was said in its own words."""
    short = np.array([3, 5], np.float16)
    for known, asked in (([5, 3], short), (short, [3, 5]), (short, short)):
        index = LabelIndex(np.asarray(known), 2, "user")
        assert index.take(index.positions(asked)).tolist() == [3, 5]


def test_labels_of_other_types_are_refused():
    zones = pd.Timestamp("2020", tz="UTC"), pd.Timestamp("2020", tz="Europe/Berlin")
    for strange in ((1, 2), b"a"), zones, (date(2020, 1, 1), "x"):
        labels = np.empty(2, dtype=object)
        labels[:] = strange
        with pytest.raises(InputError, match="text, numbers, dates, periods or intervals; x hold"):
            pack_labels(labels, "x")


@pytest.mark.parametrize(
    ("known", "new", "fits"),
    [
        (np.array(["a", "b"]), np.array(["long"], object), True),
        (np.array([1, 2]), np.array([3.5]), True),
        (np.array([1, 2]), np.array([3], object), True),
        (np.array([1, "a"], object), np.array(["b"]), True),
        (np.array(["2026-01-01"], "M8[D]"), np.array(["2026-01-02"], "M8[s]"), True),
        (np.array(["2026-01-01"], "M8[D]"), np.array(["tomorrow"]), False),
        (np.array(["a"], object), np.array([1, "b"], object), False),
        (np.array([1, 2]), np.array(["3"]), False),
    ],
)
def test_more_labels_are_of_one_kind_whatever_holds_them(known, new, fits):
    if not fits:
        with pytest.raises(InputError, match="give labels of one kind"):
            more_labels(known, new, "user")
        return
    every = more_labels(known, new, "user")
    assert (every[: len(known)] == known).all() and (every[len(known) :] == new).all()


NUMBERS = [0, 1, -1, 7.5, 2**53 + 1, 2**63 + 1, 2**31, -(2**63), 2**24 + 1]


def is_in(number: float, dtype: np.dtype) -> bool:
    if dtype.kind == "f":
        return Fraction(float(dtype.type(number))) == Fraction(number)
    limits = np.iinfo(dtype)
    return Fraction(number).denominator == 1 and limits.min <= number <= limits.max


@given(
    st.data(), *[st.sampled_from([np.dtype(code) for code in ("u8", "i8", "f8", "i4", "f4")])] * 2
)
def test_no_number_becomes_another_one_behind_new_ones(data, one, other):
    """As numpy makes floats of int64 beside uint64."""
    known, new = (
        np.array(data.draw(st.lists(st.sampled_from(held), min_size=1, max_size=4)), dtype)
        for dtype in (one, other)
        if (held := [each for each in NUMBERS if is_in(each, dtype)])
    )
    numbers = [Fraction(each) for each in (*known.tolist(), *new.tolist())]
    try:
        every = more_labels(known, new, "user")
    except InputError as error:
        assert "would be rounded" in str(error)
        assert not any(all(is_in(each, dtype) for each in numbers) for dtype in (one, other))
    else:
        assert [Fraction(each) for each in every.tolist()] == numbers


def test_a_tuple_may_be_a_label():
    pairs = LabelIndex(pd.Series([("a", 1), ("b", 2), ("c", 1)]).to_numpy(), 3, "user")
    assert pairs.positions([("c", 1), ("a", 1)]).tolist() == [2, 0]
    assert pairs.positions(pairs.listed(("b", 2))).tolist() == [1]
    assert pairs.positions(pairs.listed((("b", 2), ("a", 1)))).tolist() == [1, 0]
    names = LabelIndex(np.array(["ann", "bob"], dtype=object), 2, "user")
    assert names.positions(names.listed(("bob", "ann"))).tolist() == [1, 0]
    with pytest.raises(InputError, match="unknown to the model: 'a', 1"):
        names.positions(names.listed(("a", 1)))


LEAVES = st.one_of(st.text(), st.integers(), st.floats(allow_nan=False), st.booleans())


@given(st.lists(st.recursive(LEAVES, lambda each: st.lists(each, max_size=3).map(tuple))))
def test_tuples_are_kept_however_deep(given_labels):
    labels = np.fromiter(given_labels, dtype=object, count=len(given_labels))
    packed = pack_labels(labels, "x")
    found = unpack_labels(*packed[:1], "x", json.loads(json.dumps(packed[1])))
    assert repr(found.tolist()) == repr(given_labels)


@pytest.mark.parametrize("labels", [None, np.array([3, 5, 7])])
def test_masked_labels_are_refused(labels):
    index = LabelIndex(labels, 8 if labels is None else 3, "user")
    with pytest.raises(InputError, match="labels hold 1 masked"):
        index.find(np.ma.masked_array([3, 5], mask=[0, 1]))
    assert (index.find(np.ma.masked_array([3, 5], mask=[0, 0])) >= 0).all()


def looked_up(monkeypatch):
    """How many labels are looked up at a time, from here on; positions are not looked up."""
    counts, found = [], LabelIndex._in_index

    def counted(index, wanted):
        counts.append(len(wanted))
        return found(index, wanted)

    monkeypatch.setattr(LabelIndex, "_in_index", counted)
    return counts


@pytest.mark.parametrize("dtype", ["str", "string", "category"])
def test_texts_of_a_column_are_looked_up_once(monkeypatch, dtype):
    names = ("user", "item")
    state = blank_state((3, 2), 1, names, (np.array(["c", "a", "b"]), np.array(["y", "x"])))
    lines = [("a", "x"), ("b", "y"), ("a", "x"), ("?", "y"), (None, "x"), ("c", None)]
    frame = pd.DataFrame(lines * 3, columns=names)
    as_objects = pair_positions(frame.astype(object), state, "nan")
    counts = looked_up(monkeypatch)
    found = pair_positions(frame.astype(dtype), state, "nan")
    assert [side.tolist() for side in found] == [side.tolist() for side in as_objects]
    assert [side.dtype for side in found] == [side.dtype for side in as_objects]
    assert counts == [5, 3]
    with pytest.raises(InputError, match=r"2 users are unknown to the model: '\?', (None|nan)"):
        pair_positions(frame.astype(dtype), state)


def test_what_is_held_out_of_a_fit_is_not_looked_up(monkeypatch):
    entries = np.array([[0, 1, 1, 2], [1, 0, 1, 0]])
    labels = (np.array(["c", "a", "b"]), np.array(["y", "x"]))
    ratings = Ratings(from_triples(*entries, np.ones(4), (3, 2), *labels))
    counts = looked_up(monkeypatch)
    held_out = ratings.with_validation(None, 0.5, 0).validation
    _, outside = hold_out(ratings.matrix, 0.5, 0)
    assert held_out.rows.tolist() == outside.rows.tolist()
    assert held_out.columns.tolist() == outside.columns.tolist() and not counts


@given(
    st.lists(st.integers(0, 9), max_size=20), st.permutations(range(10)), st.sampled_from([5, 10])
)
def test_each_entry_has_the_position_of_its_label(entries, labels, n):
    entries, labels = np.array(entries, np.int32), np.array(labels)
    known, plain = LabelIndex(np.arange(n), n, "item"), LabelIndex(None, n, "item")
    by_label = side_positions(entries, labels, known, "nan")
    by_place = side_positions(entries, None, known, "nan")
    assert by_label.tolist() == known.find(labels[entries]).tolist()
    assert by_place.tolist() == plain.find(entries).tolist()
    assert by_label.dtype == by_place.dtype == np.int32
    if (by_place < 0).any():
        with pytest.raises(InputError, match="unknown to the model"):
            side_positions(entries, None, known)


@given(st.lists(st.sampled_from(["b", "a", "", "ab", "é"]), min_size=1, max_size=20))
def test_classes_of_objects_are_those_of_numpy(labels):
    y = np.array([*labels, None], object)[:-1]
    found, expected = classes_in(y), np.unique(y)
    assert found.tolist() == expected.tolist() and found.dtype == expected.dtype == object
    as_text = y.astype(str)
    assert classes_in(as_text).dtype == as_text.dtype
    with pytest.raises(TypeError):
        classes_in(np.array([*labels, 1], object))


def test_labels_that_are_the_same_are_not_put_in_order():
    class Label(str):
        n_compared = 0
        __slots__ = ()

        def __lt__(self, other):
            Label.n_compared += 1
            return super().__lt__(other)

    y = np.array([Label("ab"[n % 2]) for n in range(1000)], object)
    assert classes_in(y).tolist() == ["a", "b"] and Label.n_compared < 10
