"""Both algorithms of CP-ALS against a dense reference, their messages against the plan."""

from __future__ import annotations

from functools import partial
from math import log2

import numpy as np
import pytest
import sparse
from dense_cp import assert_close, dense_cp, first_factors
from fit_tools import Connected
from hypothesis import given
from hypothesis import strategies as st

import daskpart
from daskpart.collectives import LocalCommunicator
from daskpart.containers.numbering import number_owned
from daskpart.containers.tensor import as_tensor
from daskpart.errors import DivergenceError, InputError
from daskpart.models.base.trainer import Trainer
from daskpart.models.cp.als import Update
from daskpart.models.cp.cut import PARTITIONERS as ARGUMENTS
from daskpart.models.cp.plan import PlanSettings, choose, plan_fit
from daskpart.models.cp.ranks import split_nonzeros, to_local
from daskpart.models.cp.state import CPState
from daskpart.models.cp.text import CPText

METHODS = ("p2p", "emb-naive", "emb")
PARTITIONERS = ("random", "medium-grain", "fine-grain", "hypercube")
SHAPES = {2: (40, 30), 3: (30, 20, 10), 4: (20, 15, 10, 6)}
RANK = 3


def tensor_of(n_modes, nnz=500):
    """Drawn by numpy: `sparse.random` takes seconds where most cells are filled."""
    shape, random = SHAPES[n_modes], np.random.default_rng(n_modes)
    cells = random.choice(np.prod(shape), nnz, replace=False)
    coordinates = np.array(np.unravel_index(cells, shape))
    return as_tensor(sparse.COO(coordinates, random.random(nnz), shape=shape))


def settings(n_ranks, method="emb", partitioner="random", **changes):
    given_settings = {
        "owners": "packed",
        "random_state": 0,
        "n_components": RANK,
        "itemsize": 8,
    }
    if isinstance(partitioner, str) and partitioner in ARGUMENTS:
        # groups of so few nonzeros need room
        partitioner = {**ARGUMENTS[partitioner], "epsilon": 0.3}
    return PlanSettings(n_ranks, method, partitioner, **(given_settings | changes))


def start_of(tensor):
    return CPState(np.ones(RANK), first_factors(tensor.shape, RANK), tensor.dims)


def trainer(tensor, plan_settings, update=None, start=None, dtype="float64"):
    n_ranks = plan_settings.n_ranks
    plan = choose(plan_fit(tensor, plan_settings))

    def text(comm):
        pieces = split_nonzeros(tensor, plan.parts, n_ranks)
        options = {"update": update or Update(), "dtype": dtype, "tolerance": 0.0}
        return CPText(comm, plan, pieces, tensor.shape, **options)

    start = start or start_of(tensor)
    ranks = Connected(partial(LocalCommunicator, n_ranks, n_threads=1))
    return Trainer(ranks, text, start, n_ranks, plan.expected())


def run_to(trained, last):
    while trained.run(last)[-1]["epoch"] < last:
        pass


def run(tensor, plan_settings, n_iterations=4, **options):
    """State, rows of the history and communication report after some iterations."""
    trained = trainer(tensor, plan_settings, **options)
    try:
        run_to(trained, n_iterations)
        report = trained.traffic.report(
            unit="iteration", how="", transport="local", memory=trained.memory, memory_expected=[]
        )
        return trained.state(), report
    finally:
        trained.close()


@pytest.fixture(scope="module", params=[2, 3, 4])
def case(request):
    tensor = tensor_of(request.param)
    reference = dense_cp(tensor.to_coo().todense(), start_of(tensor).factors, 4)
    return tensor, reference


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_the_serial_result(case, method, n_ranks):
    tensor, reference = case
    for owners in ("packed", "random"):
        state, report = run(tensor, settings(n_ranks, method, owners=owners))
        assert_close(state, reference, 1e-10)
        assert report.matches, report


@pytest.mark.filterwarnings("ignore::daskpart.errors.BalanceWarning")
@pytest.mark.parametrize("partitioner", PARTITIONERS[1:])
@pytest.mark.parametrize("method", METHODS)
def test_every_partition_gives_the_serial_result(case, method, partitioner):
    tensor, reference = case
    state, report = run(tensor, settings(4, method, partitioner))
    assert_close(state, reference, 1e-10)
    assert report.matches, report


@pytest.mark.parametrize("method", ["emb", "emb-naive"])
@pytest.mark.parametrize("n_ranks", [2, 4, 8])
def test_a_rank_of_an_embedded_method_handles_two_log_messages_a_mode(case, method, n_ranks):
    tensor, _ = case
    _, report = run(tensor, settings(n_ranks, method), n_iterations=2)
    assert set(report.measured_messages) == {2 * tensor.n_modes * log2(n_ranks)}


@pytest.mark.parametrize(("n_modes", "messages"), [(3, 72), (4, 96)])
def test_messages_at_4096_ranks_are_those_of_table_2(n_modes, messages):
    tensor = tensor_of(n_modes, nnz=4500 if n_modes == 3 else 9000)
    (plan,) = plan_fit(tensor, settings(4096))
    assert set(plan.expected().messages) == {messages}
    report = plan.report()
    assert report.messages_max == messages == report.messages_mean
    (direct,) = plan_fit(tensor, settings(4096, "p2p"))
    assert direct.report().messages_max > messages


def test_aware_moves_no_more_than_naive():
    tensor = tensor_of(3)
    for n_ranks in (3, 8):
        volumes = [
            plan_fit(tensor, settings(n_ranks, method))[0].report().volume
            for method in ("emb", "emb-naive")
        ]
        assert volumes[0] < volumes[1]


def test_auto_takes_the_smaller_predicted_time():
    tensor = tensor_of(3, nnz=80)  # a row has few sharers: forwarded ones are many of the rows
    plans = plan_fit(tensor, settings(8, "auto"))
    assert [plan.method for plan in plans] == ["p2p", "emb"]
    dear = plan_fit(tensor, settings(8, "auto", alpha_beta=(1.0, 0.0)))
    assert choose(dear).method == "emb"  # fewer messages
    cheap = plan_fit(tensor, settings(8, "auto", alpha_beta=(0.0, 1.0)))
    assert choose(cheap).method == "p2p"  # fewer rows


def test_float32_is_close_to_float64(case):
    tensor, reference = case
    state, _ = run(tensor, settings(3, itemsize=4), dtype="float32")
    assert {factor.dtype for factor in state.factors} == {np.dtype(np.float32)}
    assert_close(state, reference, 2e-3)


@pytest.mark.parametrize("ridge", [(0.5,) * 4, (0.5, 0.2, 0.0, 1.0)])
def test_a_ridge_is_that_of_the_reference(case, ridge):
    tensor, _ = case
    ridge = ridge[: tensor.n_modes]
    state, _ = run(tensor, settings(3), update=Update(ridge=ridge))
    reference = dense_cp(tensor.to_coo().todense(), start_of(tensor).factors, 4, ridge=ridge)
    assert_close(state, reference, 1e-10)


@pytest.mark.parametrize("method", ["p2p", "emb"])
def test_more_components_than_the_tensor_has(method):
    """Rank-deficient systems: a tensor of one component, and one column of the start is zero."""
    tensor = as_tensor(sparse.COO(np.ones((4, 3, 2))))
    start = start_of(tensor)
    start.factors[1][:, 2] = 0
    state, _ = run(tensor, settings(2, method), start=start)
    assert state.is_finite()
    assert state.fit == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("modes", [(True,) * 4, (False, True, False, True)])
@pytest.mark.parametrize("method", ["p2p", "emb"])
def test_nonnegative_factors(case, method, modes):
    tensor, _ = case
    modes = modes[: tensor.n_modes]
    update = Update(nonnegative=modes)
    state, _ = run(tensor, settings(3, method), update=update, n_iterations=12)
    assert tuple((factor >= 0).all() for factor in state.factors) == modes
    fits = [row["fit"] for row in state.history]
    assert np.diff(fits).min() > -1e-12 and fits[-1] > 0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_ranks", [3, 4])
def test_going_on_from_a_state_gives_the_same_bits(method, n_ranks):
    tensor = tensor_of(3)
    expected, _ = run(tensor, settings(n_ranks, method), n_iterations=5)
    first, _ = run(tensor, settings(n_ranks, method), n_iterations=2)
    again = trainer(tensor, settings(n_ranks, method), start=first)
    run_to(again, 5)
    state = again.state()
    again.close()
    for one, other in zip(state.factors, expected.factors, strict=True):
        np.testing.assert_array_equal(one, other)
    assert [row["fit"] for row in state.history] == [row["fit"] for row in expected.history]


def test_what_overflows_is_told():
    tensor = tensor_of(3)
    start = start_of(tensor)
    start.factors[1] *= 1e160
    with pytest.raises(DivergenceError, match="diverged in iteration 1"), np.errstate(all="ignore"):
        run(tensor, settings(2), start=start)
    huge = as_tensor(sparse.COO(np.full((3, 3), 1e200)))
    with pytest.raises(InputError, match="too large"), np.errstate(all="ignore"):
        run(huge, settings(2))
    single = daskpart.CPDecomposition(2, n_ranks=2, dtype="float32")
    with pytest.raises(InputError, match="too large"):  # and no warning of NumPy
        single.fit(sparse.COO(np.full((3, 3), 1e50)))


@given(st.integers(1, 9), st.integers(0, 2**16))
def test_owned_rows_of_all_ranks_are_the_whole_factor(n_ranks, seed):
    tensor = tensor_of(3, nnz=40)
    plan_settings = settings(n_ranks, random_state=seed, method=METHODS[seed % 3])
    (plan,) = plan_fit(tensor, plan_settings)
    for mode, connectivity in enumerate(plan.connectivities):
        numbering = number_owned(connectivity)
        owned = [numbering.first_group(rank) for rank in range(n_ranks)]
        assert sorted(np.concatenate(owned)) == list(range(tensor.shape[mode]))
        for rank in range(n_ranks):
            held = numbering.of_rank(rank)
            touched = tensor.coordinates[mode][plan.parts == rank]
            assert set(touched) <= set(held) and len(set(held)) == len(held)


@given(st.integers(1, 60), st.integers(0, 60), st.integers(0, 2**16))
def test_indices_become_places_of_rows_in_any_order(extent, nnz, seed):
    """Where the mode is longer than the nonzeros, too."""
    random = np.random.default_rng(seed)
    held = random.permutation(extent)[: random.integers(1, extent + 1)].astype(np.int32)
    expected = random.integers(len(held), size=nnz).astype(np.int32)
    index = held[expected]
    to_local(index, held, extent)
    np.testing.assert_array_equal(index, expected)


@pytest.mark.parametrize(
    ("partitioner", "words"),
    [
        (np.zeros(3, int), "there are 500 nonzeros"),
        (np.full(500, 9), "names ranks 9 to 9"),
        ({"model": "coarse-grain"}, "model='coarse-grain' cuts no tensor"),
    ],
)
def test_bad_partitions(partitioner, words):
    wrong = settings(2, partitioner=partitioner)
    with pytest.raises(InputError, match=words):
        plan_fit(tensor_of(3), wrong)
