"""What each event of a user adds to the score of an item."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_implicit_factorization import counts, model

from daskpart.errors import InputError


@given(
    user=st.integers(8, 59),
    item=st.integers(0, 39),
    alpha=st.sampled_from([0.5, 1.0, 20.0]),
    exponent=st.sampled_from([0.0, 0.5, 1.0]),
    regularization=st.sampled_from([0.0, 0.01, 1.0]),
)
def test_contributions_are_terms_of_the_closed_form(user, item, alpha, exponent, regularization):
    X = counts()
    fitted = model(max_iter=1).fit(X)
    fitted.set_params(
        alpha=alpha, frequency_exponent=exponent, regularization=regularization
    ).partial_fit(X)
    own = X[[user]]
    told = fitted.explain(own, item, n=40)
    H, c = fitted.item_factors_.values.astype(float), alpha * own.toarray()[0].astype(float)
    ridge = regularization * own.nnz**exponent * np.eye(H.shape[1])
    towards = np.linalg.solve(H.T @ H + H.T @ (c[:, None] * H) + ridge, H[item])
    expected = pd.Series((1 + c) * (H @ towards))[own.indices]
    got = told.set_index("item")["contribution"]
    np.testing.assert_allclose(got[own.indices], expected, rtol=1e-5, atol=1e-7)
    assert (np.diff(told["contribution"]) <= 0).all()
    score = fitted.transform(own).values[0] @ H[item]
    assert told["contribution"].sum() == pytest.approx(score, abs=1e-5)


def test_items_go_by_their_labels_and_the_most_telling_come_first():
    table = pd.DataFrame(
        {"user": list("aabbccdd"), "item": ["x", "y", "x", "y", "z", "w", "z", "w"]}
    )
    fitted = model(n_ranks=2, max_iter=10).fit(table)
    told = fitted.explain({"x": 1, "z": 1}, "y", n=1)
    assert told.to_dict("list")["item"] == ["x"]  # who has x has y
    assert told["contribution"][0] > 0
    both = fitted.explain({"x": 1, "z": 1}, "y")
    assert both["item"].tolist() == ["x", "z"]


def test_what_cannot_be_explained_is_told():
    X = counts()
    fitted = model(max_iter=1).fit(X)
    with pytest.raises(InputError, match="events of one user, got 2 rows"):
        fitted.explain(X[:2], 0)
    with pytest.raises(InputError, match="one item at a time, got 2"):
        fitted.explain(X[[0]], [3, 4])
    with pytest.raises(InputError, match=r"events, not a user: give what 0 has"):
        fitted.explain(0, 3)
    with pytest.raises(InputError, match="40"):
        fitted.explain(X[[0]], 40)
    with pytest.raises(InputError, match="n is 0"):
        fitted.explain(X[[0]], 0, n=0)
    nonnegative = model(max_iter=1, solver="cholesky", nonnegative=True).fit(X)
    with pytest.raises(InputError, match="no explanations"):
        nonnegative.explain(X[[0]], 0)
