"""Numbers as users give them."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from daskpart._floor.checks import finite_number
from daskpart.errors import InputError


@pytest.mark.parametrize("value", [0, 2.5, np.float32(1), np.int64(3)])
def test_finite_numbers_pass(value: object) -> None:
    found = finite_number(value, "alpha")
    assert type(found) is float and found == value


@pytest.mark.parametrize("value", [None, "1", -1, math.nan, math.inf, [1.0], 1j])
def test_all_else_is_refused_by_its_name(value: object) -> None:
    words = f"alpha is {value!r}: give a finite number of at least 0"
    with pytest.raises(InputError, match=re.escape(words)):
        finite_number(value, "alpha")


def test_a_bound_may_be_left_out() -> None:
    assert finite_number(2, "alpha", 1, above=True) == 2
    with pytest.raises(InputError, match="alpha is 1: give a finite number above 1"):
        finite_number(1, "alpha", 1, above=True)
