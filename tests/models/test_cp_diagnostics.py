"""Core consistency, matches of factors, and the number of components that they name."""

from __future__ import annotations

import dataclasses
from itertools import permutations

import numpy as np
import pytest
import sparse
from dense_cp import whole
from hypothesis import given
from hypothesis import strategies as st

import daskpart
from daskpart.errors import InputError
from daskpart.models import core_consistency, factor_match_score
from daskpart.models.cp.state import CPState

OPTIONS = {"n_ranks": 1, "transport": "local", "max_iter": 60, "tol": 1e-8}


def planted(n_components=5, shape=(25, 22, 20), noise=0.05, seed=3):
    """Components that share few indices, and noise where they are: sparse, nonnegative."""
    random = np.random.default_rng(seed)
    factors = [
        random.random((extent, n_components)) * (random.random((extent, n_components)) < 0.6)
        for extent in shape
    ]
    dense = whole(factors, np.ones(n_components))
    dense[dense > 0] += noise * dense.std() * random.normal(size=int((dense > 0).sum()))
    return sparse.COO.from_numpy(dense), factors


def dense_core_consistency(array, state):
    """By a least squares problem of all core entries at once."""
    factors = [f.copy() for f in state.factors]
    factors[0] = factors[0] * state.weights
    product = factors[0]
    for factor in factors[1:]:
        product = np.kron(product, factor)
    core, *_ = np.linalg.lstsq(product, array.ravel(), rcond=None)
    ideal = np.zeros((state.n_components,) * array.ndim)
    for r in range(state.n_components):
        ideal[(r,) * array.ndim] = 1
    return 100 * (1 - np.sum((core - ideal.ravel()) ** 2) / state.n_components)


@pytest.mark.parametrize("shape", [(6, 5, 4), (5, 4, 3, 3)])
@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_core_consistency_is_that_of_the_dense_problem(shape, n_components):
    tensor = sparse.random(shape, density=0.5, random_state=n_components)
    model = daskpart.CPDecomposition(n_components, **OPTIONS | {"max_iter": 8}).fit(tensor)
    expected = dense_core_consistency(tensor.todense(), model.state_)
    assert core_consistency(tensor, model) == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_core_consistency_of_unknown_entries_fills_them_in():
    tensor = sparse.random((6, 5, 4), density=0.6, random_state=0)
    options = OPTIONS | {"max_iter": 8, "missing": "unknown", "ridge": 1e-3}
    model = daskpart.CPDecomposition(2, **options).fit(tensor)
    filled = whole(model.state_.factors, model.state_.weights)
    filled[tuple(tensor.coords)] = tensor.data
    expected = dense_core_consistency(filled, model.state_)
    assert core_consistency(tensor, model) == pytest.approx(expected, rel=1e-6)


@given(st.integers(1, 4), st.integers(0, 2**16))
def test_the_match_score_is_that_of_the_best_permutation(n_components, seed):
    random = np.random.default_rng(seed)
    one, other = (
        CPState(random.random(n_components) + 0.1,
                [random.normal(size=(n, n_components)) for n in (5, 4, 3)], ("a", "b", "c"))
        for _ in range(2)
    )  # fmt: skip
    units = [[f / np.linalg.norm(f, axis=0) for f in state.factors] for state in (one, other)]
    best = max(
        np.mean([np.prod([a[:, r] @ b[:, s] for a, b in zip(*units, strict=True)])
                 for r, s in enumerate(order)])
        for order in permutations(range(n_components))
    )  # fmt: skip
    assert factor_match_score(one, other) == pytest.approx(best)
    # as of a fixed factor, whose columns have any length
    scale = random.uniform(0.1, 10, n_components)
    same = CPState(one.weights / scale, [one.factors[0] * scale, *one.factors[1:]], one.dims)
    assert factor_match_score(one, same, weights=True) == pytest.approx(1)
    assert factor_match_score(one, other, modes=[1]) <= 1 + 1e-12


@given(st.lists(st.sampled_from([1.0, -1.0]), min_size=6, max_size=6), st.integers(0, 2**16))
def test_signs_that_a_mode_left_out_shares_do_not_count(signs, seed):
    """The columns of a component may change their signs in pairs."""
    factors = [np.random.default_rng(seed).normal(size=(n, 3)) for n in (6, 5, 4)]
    first, second = np.reshape(signs, (2, 3))
    turned = [factors[0] * first, factors[1] * second, factors[2] * first * second]
    one, other = (CPState(np.ones(3), each, ("a", "b", "c")) for each in (factors, turned))
    for modes in (None, [1, 2], [0, 2], [1]):
        assert factor_match_score(one, other, modes=modes) == pytest.approx(1)


def test_five_planted_components_are_named(tmp_path):
    tensor, _ = planted()
    found = daskpart.cp_diagnostics(tensor, range(2, 8), seeds=4)
    assert found.n_components == 5, found
    assert list(found.table["components"]) == list(range(2, 8))
    row = found.table.set_index("components").loc[5]
    assert row["core_consistency"] > 95 and row["match"] > 0.99 and row["split_match"] > 0.95
    assert "5 components" in repr(found)
    assert "1 component:" in repr(dataclasses.replace(found, n_components=1))
    assert '<th style="text-align:right;padding:2px 8px">fit_spread</th>' in found._repr_html_()
    pytest.importorskip("matplotlib").use("Agg")
    ax = found.plot()
    assert len(ax.lines) == 5 and ax.get_xlabel() == "components"
    assert [each.get_text() for each in ax.texts] == ["5 passes all tests"]
    ax.figure.savefig(tmp_path / "diagnostics.png")


@pytest.mark.cluster
def test_fits_are_tasks_of_a_cluster(client):
    tensor, _ = planted(2, (12, 10, 8))
    options = {"seeds": [1, 2], "max_iter": 10, "missing": "unknown", "ridge": 1e-3}
    far = daskpart.cp_diagnostics(tensor, [1, 2], client=client, **options)
    names = ["components", "fit", "core_consistency", "match", "split_match", "iterations"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("daskpart.models.cp.diagnostics.client_for", lambda *_: None)
        near = daskpart.cp_diagnostics(tensor, [1, 2], **options)
    assert far.table[names].equals(near.table[names])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"components": []}, "some numbers of at least 1"),
        ({"components": [0, 2]}, "each of components is 0: it must be at least 1"),
        ({"components": None}, "components=None: give a whole number or some"),
        ({"components": "many"}, "each of components is 'm'"),
        ({"seeds": 1.5}, "seeds=1.5: give a whole number or some"),
        ({"seeds": 1}, "two or more"),
        ({"seeds": [3, 3]}, "two or more"),
        ({"n_init": 3}, "n_init cannot be given"),
        ({"split_mode": "user"}, "split_mode='user' is unknown"),
    ],
)
def test_bad_options(options, words):
    tensor = sparse.random((5, 4, 3), density=0.5, random_state=0)
    with pytest.raises(InputError, match=words):
        daskpart.cp_diagnostics(tensor, **{"components": [1], "seeds": 2} | options)


def test_bad_tensors():
    with pytest.raises(InputError, match="three modes or more"):
        daskpart.cp_diagnostics(sparse.random((5, 4), density=0.5, random_state=0))
    slice_only = sparse.COO(np.array([[0, 0], [1, 2], [0, 1]]), [1.0, 2.0], shape=(9, 4, 3))
    with pytest.raises(InputError, match="only 1 slice of mode_0"):
        daskpart.cp_diagnostics(slice_only, [1])
    one = CPState(np.ones(2), [np.ones((3, 2))] * 3, ("a", "b", "c"))
    other = CPState(np.ones(1), [np.ones((3, 1))] * 3, ("a", "b", "c"))
    with pytest.raises(InputError, match="as many components"):
        factor_match_score(one, other)


def test_modes_and_indices_are_matched_by_name():
    random = np.random.default_rng(1)
    factors = [random.normal(size=(n, 2)) for n in (5, 4, 3)]
    names = {"a": np.array([*"vwxyz"]), "b": np.arange(4)}
    one = CPState(np.ones(2), factors, ("a", "b", "c"), names)
    order = np.array([3, 0, 4, 1, 2])
    other = CPState(
        np.ones(2),
        [factors[1], factors[0][order], factors[2]],
        ("b", "a", "c"),
        {**names, "a": names["a"][order]},
    )
    assert factor_match_score(one, other) == pytest.approx(1)
    assert factor_match_score(other, one) == pytest.approx(1)
    strange = CPState(np.ones(2), factors, ("a", "b", "c"), {"a": np.array([*"VWXYZ"])})
    with pytest.raises(InputError, match="the a labels differ"):
        factor_match_score(one, strange)
    assert factor_match_score(one, strange, modes=[1, 2]) == pytest.approx(1)
    matrix = CPState(np.ones(2), factors[:2], ("a", "b"))
    with pytest.raises(InputError, match="give as many"):
        factor_match_score(one, matrix)
