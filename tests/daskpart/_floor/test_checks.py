"""Numbers as users give them."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from daskpart._floor.checks import (
    finite_number,
    fraction,
    ids_below,
    one_of,
    path_text,
    random_generator,
    real_numbers,
    several,
    whole_numbers,
)
from daskpart.errors import InputError


@pytest.mark.parametrize("value", [0, 2.5, np.float32(1), np.int64(3)])
def test_finite_numbers_pass(value: object) -> None:
    found = finite_number(value, "alpha")
    assert type(found) is float and found == value


@pytest.mark.parametrize("value", [None, True, 10**400, "1", -1, math.nan, math.inf, [1.0], 1j])
def test_all_else_is_refused_by_its_name(value: object) -> None:
    words = f"alpha is {value!r}: give a finite number of at least 0"
    with pytest.raises(InputError, match=re.escape(words)):
        finite_number(value, "alpha")


def test_a_bound_may_be_left_out() -> None:
    assert finite_number(2, "alpha", 1, above=True) == 2
    with pytest.raises(InputError, match="alpha is 1: give a finite number above 1"):
        finite_number(1, "alpha", 1, above=True)


ODD = [None, [], ["a"], {"a": 1}, {1}, 1, math.nan, np.ones(2), np.array("a"), b"a", object]


@pytest.mark.parametrize("value", [*ODD, "c", ""], ids=repr)
def test_a_word_is_one_of_those_allowed(value: object) -> None:
    assert one_of("a", "method", {"a": 1, "b": 2}) == "a"
    with pytest.raises(InputError, match=r"method is (.|\n)*: use one of 'a', 'b'"):
        one_of(value, "method", ["a", "b"])


@pytest.mark.parametrize("value", [*ODD, ""], ids=repr)
def test_a_path_is_text_or_a_path(value: object) -> None:
    assert path_text("a") == path_text(Path("a")) == "a"
    with pytest.raises(InputError, match=r"folder is (.|\n)*: give a path"):
        path_text(value, "folder")


@pytest.mark.parametrize("value", [-1, 2.5, "a", math.nan, {}], ids=repr)
def test_a_seed_is_a_whole_number(value: object) -> None:
    given = np.random.default_rng(0)
    assert random_generator(given) is given and random_generator(0).random() == given.random()
    with pytest.raises(InputError, match=r"random_state is .*: give a whole number"):
        random_generator(value)


@pytest.mark.parametrize("value", [0, 1, -0.5, math.nan, math.inf, None, "0.5", [0.5], True])
def test_a_share_is_between_0_and_1(value: object) -> None:
    assert fraction(np.float32(0.5), "share") == 0.5
    with pytest.raises(InputError, match=r"share=.*; it must be between 0 and 1, both excluded"):
        fraction(value, "share")


@pytest.mark.parametrize("check", [real_numbers, whole_numbers])
def test_what_is_masked_is_no_number(check) -> None:
    assert check(np.ma.array([1, 2]), "weight").tolist() == [1, 2]
    with pytest.raises(InputError, match="weights hold 1 masked values: fill them"):
        check(np.ma.array([1, 2], mask=[0, 1]), "weight")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (1, r"weights have the shape \(\): give an array of 1 dimension$"),
        ([[1]], "weights have the shape"),
        ([[1], [1, 2]], "weights are a list of which NumPy makes no array"),
        (["a"], "weights are of type"),
        ([None, "a"], "weights are of type object"),
        ([1j], "weights are of type complex128"),
        (np.array(["2020"], "M8[D]"), "weights are of type datetime64"),
        ([1, math.inf, math.nan], "2 NaN or infinite among 3 weights"),
    ],
)
def test_real_numbers(values: object, message: str) -> None:
    assert real_numbers(np.array([1, 2.5], object), "weight").tolist() == [1, 2.5]
    with pytest.raises(InputError, match=message):
        real_numbers(values, "weight")


def test_ids_are_below_a_limit() -> None:
    assert ids_below([0.0, 2.0], 3, "part").dtype == np.int32
    for wrong in ([3], [-1]):
        with pytest.raises(InputError, match=r"part -?\d is out of range: parts are 0 to 2"):
            ids_below(wrong, 3, "part")


def test_several() -> None:
    assert several((1, 2), "methods", "names") == [1, 2]
    for wrong in (None, 1, np.array(1)):
        with pytest.raises(InputError, match=r"methods is .*: give names"):
            several(wrong, "methods", "names")
