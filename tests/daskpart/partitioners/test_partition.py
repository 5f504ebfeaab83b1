"""`partition`: what it chooses, what it records, what it refuses, and the table of the docs."""

from __future__ import annotations

import itertools
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import daskpart
from daskpart.connectivity import Connectivity
from daskpart.errors import BalanceWarning, EngineError, InputError
from daskpart.hypergraph import Hypergraph
from daskpart.partitioners import METHODS, CutNet, PowerConnectivity, partition
from daskpart.partitioners.balance import fill_empty_parts, heaviest_allowed, with_weights
from daskpart.readers import read


@pytest.fixture(scope="module")
def matrix() -> scipy.sparse.csr_array:
    """A 300 × 200 pattern of 8 blocks under noise, rows shuffled."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 300, 4000)
    inside = rows % 8 * 25 + rng.integers(0, 25, 4000)
    columns = np.where(rng.random(4000) < 0.9, inside, rng.integers(0, 200, 4000))
    unique = np.unique(rows * 200 + columns)
    values = np.ones(len(unique), np.float32)
    return scipy.sparse.csr_array((values, (unique // 200, unique % 200)), shape=(300, 200))


@pytest.mark.parametrize("method", sorted(METHODS))
@pytest.mark.parametrize("n_parts", [1, 2, 3, 8])
def test_every_method_balances_repeats_and_records_itself(matrix, method, n_parts):
    result = partition(matrix, n_parts, method=method, epsilon=0.1, random_state=5)
    assert result == partition(matrix, n_parts, method=method, epsilon=0.1, random_state=5)
    assert result.imbalance <= 0.1 and result.n_parts == n_parts
    assert result.assignment.dtype == np.int32
    assert result.part_weights.sum() == matrix.nnz
    recorded = {name: result.info[name] for name in ("method", "random_state", "epsilon", "model")}
    assert recorded == {
        "method": method,
        "random_state": 5,
        "epsilon": 0.1,
        "model": "column-net",
    }
    assert (result.info["shape"], result.info["nnz"]) == ((300, 200), matrix.nnz)
    assert result.info["seconds"] > 0


def test_seeds_matter():
    noise = scipy.sparse.random_array((300, 200), density=0.1, random_state=0)
    for method in ("random", "recursive"):
        first, other = (
            partition(noise, 4, "power", method=method, random_state=seed) for seed in (0, 1)
        )
        assert first != other


@pytest.mark.parametrize("method", ["metis", "direct", "recursive"])
def test_searching_beats_chance(matrix, method):
    hypergraph = Hypergraph.column_net(matrix)
    found, chance = (
        Connectivity.from_partition(hypergraph, partition(hypergraph, 8, method=m))
        for m in (method, "random")
    )
    assert found.connectivity_minus_one() < 0.6 * chance.connectivity_minus_one()


@pytest.mark.parametrize(
    ("objective", "method", "options"),
    [
        ("connectivity", "direct", {}),
        ("power", "recursive", {}),
        ("cut-net", "recursive", {}),
        (CutNet(), "recursive", {}),
        ("connectivity", "recursive", {"fixed": np.full(300, -1)}),
    ],
)
def test_auto_chooses_by_objective(matrix, objective, method, options):
    assert partition(matrix, 2, objective, **options).info["method"] == method


def test_the_polish_lowers_the_power_and_the_cost_paid_is_before_it(matrix):
    hypergraph = Hypergraph.column_net(matrix)
    plain = partition(hypergraph, 8, "power", polish=False)
    polished = partition(hypergraph, 8, "power")
    before, after = (
        Connectivity.from_partition(hypergraph, result).power(2) for result in (plain, polished)
    )
    assert plain.info["cost_paid"] == before == polished.info["cost_paid"]
    assert after <= before and polished.info["rho"] == 2


@pytest.mark.parametrize("method", sorted({*METHODS} - {"metis"}))
@pytest.mark.parametrize("epsilon", [1.0, 10.0])
def test_no_part_is_emptied_where_the_balance_would_allow_it(method, epsilon):
    noise = scipy.sparse.random_array((60, 40), density=0.05, rng=0)
    for objective in ("power", "cut-net"):
        found = partition(noise, 5, objective, method=method, epsilon=epsilon)
        assert len(np.unique(found.assignment)) == 5


def test_the_cost_paid_is_in_units_of_the_objective(matrix):
    found = partition(matrix, 5, "power", rho=1.5, polish=False)
    pairs = Connectivity.from_partition(Hypergraph.column_net(matrix), found)
    assert found.info["cost_paid"] == pytest.approx(pairs.power(1.5), rel=1e-3)


def test_models_say_what_is_cut(matrix):
    assert partition(matrix, 3, model="row-net").n_vertices == 200
    assert partition(matrix, 3, model="row-net").info["shape"] == (300, 200)
    square = matrix[:200, :]
    for method in ("metis", "recursive"):
        result = partition(square, 3, model="graph", method=method, epsilon=0.1)
        assert (result.n_vertices, result.info["shape"]) == (200, (200, 200))
    assert partition(Hypergraph.column_net(matrix), 3).info["model"] == "hypergraph"


def test_fixed_vertices_stay_through_recursion_and_polish(matrix):
    fixed = np.full(300, -1)
    fixed[:30] = np.arange(30) % 4
    result = partition(matrix, 4, "power", fixed=fixed, epsilon=0.1)
    assert (result.assignment[:30] == fixed[:30]).all()


def test_any_object_of_the_protocol_is_an_engine(matrix):
    class Alternating:
        name = "alternating"

        def bipartition(self, hypergraph, targets, epsilon, fixed, random_state):
            return np.arange(hypergraph.n_vertices, dtype=np.int8) % 2

        def partition(self, hypergraph, n_parts, epsilon, random_state):
            return np.arange(hypergraph.n_vertices, dtype=np.int32) % n_parts

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BalanceWarning)
        for method in ("direct", "recursive"):
            result = partition(matrix, 4, method=method, engine=Alternating(), polish=False)
            assert result.info["engine"] == "alternating"
            assert np.bincount(result.assignment).tolist() == [75] * 4

    class Wrong(Alternating):
        def __init__(self, answer):
            self.answer = answer

        def partition(self, hypergraph, n_parts, epsilon, random_state):
            return np.full(hypergraph.n_vertices, self.answer)

    for answer in (4, 0.5, np.nan):
        with pytest.raises(EngineError, match="300 parts, each 0 to 3, were asked"):
            partition(matrix, 4, engine=Wrong(answer))


# METIS meets no balance on so few vertices; test_metis has its own case
@pytest.mark.parametrize("method", sorted({*METHODS} - {"metis"}))
def test_empty_rows_and_columns_and_isolated_vertices_are_normal_data(method):
    rows, columns = [0, 0, 5, 5, 7, 7], [1, 2, 1, 8, 2, 8]
    matrix = scipy.sparse.coo_array((np.ones(6), (rows, columns)), shape=(9, 10))
    result = partition(matrix, 3, method=method)
    assert result.part_weights.tolist() == [2, 2, 2]


def filled_in_plain_python(assignment, weights, n_parts, free):
    """Half of what is free in the heaviest part that can spare it, all anew for each empty one."""
    part = assignment.copy()
    for empty in sorted({*range(n_parts)} - {*assignment.tolist()}):
        load, sizes = np.bincount(part, weights, n_parts), np.bincount(part, minlength=n_parts)
        spare = np.minimum(np.bincount(part[free], minlength=n_parts), sizes - 1)
        donors = [donor for donor in range(n_parts) if spare[donor] > 0]
        if not donors:
            break
        donor = max(donors, key=lambda each: load[each])
        own = np.flatnonzero((part == donor) & free)
        n_given = np.count_nonzero(2 * np.cumsum(weights[own]) <= weights[own].sum())
        part[own[: min(max(n_given, 1), spare[donor])]] = empty
    return part


@given(st.integers(0, 2**32 - 1))
def test_empty_parts_are_filled_and_fixed_vertices_stay(seed):
    rng = np.random.default_rng(seed)
    n_parts, n_vertices = int(rng.integers(1, 9)), int(rng.integers(9, 40))
    start = rng.integers(0, rng.integers(1, n_parts + 1), n_vertices).astype(np.int32)
    weights = rng.integers(0, 5, n_vertices)
    filled = fill_empty_parts(start, weights, n_parts)
    assert np.bincount(filled, minlength=n_parts).all()
    assert np.bincount(filled, weights).max() <= np.bincount(start, weights).max()
    fixed = np.where(rng.random(n_vertices) < 0.5, start, -1)
    held = fill_empty_parts(start, weights, n_parts, fixed)
    assert (held[fixed >= 0] == start[fixed >= 0]).all()
    assert np.bincount(held, minlength=n_parts)[np.unique(start)].all()
    for found, free in ((filled, fixed < n_parts), (held, fixed < 0)):
        wanted = filled_in_plain_python(start, weights, n_parts, free)
        np.testing.assert_array_equal(found, wanted)


def test_an_engine_that_leaves_parts_empty_gets_them_filled(matrix):
    class Lazy:
        name = "lazy"

        def bipartition(self, hypergraph, targets, epsilon, fixed, random_state):
            return np.zeros(hypergraph.n_vertices, np.int8)

        def partition(self, hypergraph, n_parts, epsilon, random_state):
            return np.zeros(hypergraph.n_vertices, np.int32)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BalanceWarning)
        for method in ("direct", "recursive"):
            result = partition(matrix, 6, "power", method=method, engine=Lazy())
            assert np.bincount(result.assignment, minlength=6).all()


@pytest.mark.parametrize("method", sorted(METHODS))
def test_one_vertex_too_heavy_is_a_warning_with_the_imbalance_reached(method):
    heavy = Hypergraph.from_nets([0, 2, 4], [0, 1, 2, 3], 8, [50, 1, 1, 1, 1, 1, 1, 1])
    with pytest.warns(BalanceWarning) as caught:
        result = partition(heavy, 4, method=method)
    assert len(caught) == 1
    message = str(caught[0].message)
    assert f"imbalance {result.imbalance:.4g} was reached where 0.03 was asked" in message
    assert "vertex 0 alone weighs 50: use fewer parts" in message


def test_weights_that_do_not_divide_are_a_warning_of_the_searching_methods():
    weights = Hypergraph.from_nets([0], [], 5, vertex_weights=[4, 4, 4, 4, 4])
    with pytest.warns(BalanceWarning, match="8, 7 was allowed, and no better was found"):
        partition(weights, 3, method="recursive")


def test_where_nothing_weighs_an_uneven_number_of_vertices_is_a_warning():
    weightless = Hypergraph.from_nets([0, 2], [0, 1], 2, vertex_weights=[0, 0])
    with pytest.warns(
        BalanceWarning, match="imbalance 1 was .* of 2 parts weighs 2, 1 was allowed"
    ):
        result = partition(weightless, 2, fixed=[1, 1])
    assert result.weights.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((0,), {}, "n_parts is 0: it must be at least 1"),
        ((301,), {}, "n_parts is 301, but there are only 300 vertices to share out"),
        ((2.5,), {}, "n_parts is 2.5: give a whole number"),
        (("4",), {}, "n_parts is '4': give a whole number"),
        ((4,), {"epsilon": -0.1}, "epsilon is -0.1: give a finite number of at least 0"),
        ((4,), {"epsilon": np.nan}, "epsilon is nan"),
        ((4,), {"epsilon": 10**30}, "give a finite number of at least 0 and at most 1e+06"),
        ((4, "volume"), {}, "objective is 'volume': 'connectivity', 'cut-net', 'power'"),
        ((4, 7), {}, "objective is 7"),
        ((4,), {"method": "best"}, "method is 'best': use one of 'auto', 'random', 'block'"),
        (
            (4,),
            {"model": "tensor"},
            "model is 'tensor': use one of 'auto', 'column-net', 'row-net'",
        ),
        ((4,), {"method": []}, "method is []: use one of 'auto'"),
        ((4,), {"method": np.array(["auto"])}, "use one of 'auto'"),
        ((4,), {"model": {"graph"}}, "model is {'graph'}: use one of 'auto'"),
        ((4,), {"engine": ["multilevel"]}, "engine=['multilevel'] is not known"),
        ((4,), {"fixed": [[0], [0, 1]]}, "fixed parts are a list of which NumPy makes no array"),
        ((4,), {"engine": "patoh"}, "engine='patoh' is not known"),
        ((4,), {"engine": "patoh", "method": "block"}, "engine='patoh' is not known"),
        ((4,), {"engine": object()}, "is not known"),
        ((4,), {"random_state": -1}, "random_state is -1: it must be at least 0"),
        ((4,), {"random_state": None}, "random_state is None: give a whole number"),
        ((4, "power"), {"rho": 0.5}, "rho is 0.5: give a finite number of at least 1"),
        ((4, "power"), {"rho": "2"}, "rho is '2': give a finite number of at least 1"),
        ((200, "power"), {"rho": 9}, "rho is 9: with 200 parts λ^rho grows too large"),
        ((4,), {"fixed": [0, 1]}, "2 fixed parts were given for 300 vertices"),
        ((4,), {"fixed": np.full(300, 4)}, "vertex 0 is fixed in part 4: give 0 to 3, or -1"),
        ((4,), {"fixed": np.full(300, -1), "method": "direct"}, "fixed vertices need method='rec"),
    ],
)
def test_bad_input_is_refused_with_its_value(matrix, arguments, options, message):
    with pytest.raises(InputError) as caught:
        partition(matrix, *arguments, **options)
    assert message in str(caught.value)


@pytest.mark.parametrize("objective", ["power", PowerConnectivity(3)])
def test_metis_refuses_an_objective_that_it_does_not_know(matrix, objective):
    with pytest.raises(InputError, match="method='metis' cannot minimise the objective 'power'"):
        partition(matrix, 2, objective, method="metis")


def test_seconds_are_of_the_clock_that_leaves_out_compiling(matrix, monkeypatch):
    module = sys.modules[partition.__module__]
    monkeypatch.setattr(module, "working_clock", itertools.count(5, 100).__next__)
    assert partition(matrix, 2, method="block").info["seconds"] == 100


def test_the_graph_model_refuses_a_matrix_that_is_not_square(matrix):
    with pytest.raises(InputError, match="the graph model needs a square matrix"):
        partition(matrix, 4, model="graph")


@pytest.mark.data
def test_power_recursion_lowers_every_metric_on_ml_100k(shared_data):
    """Σλ², volume and staleness at η = 8, K = 16. λ_max stays at K, but for far fewer items."""
    ratings = read(shared_data / "ratings" / "ml-100k.u.data.gz", format="ratings")
    hypergraph = Hypergraph.column_net(ratings)
    chance, found = (
        Connectivity.from_partition(hypergraph, partition(hypergraph, 16, "power", method=method))
        for method in ("random", "recursive")
    )
    for metric in (
        Connectivity.power,
        lambda incidence: incidence.pasgd_volume(8),
        lambda incidence: incidence.pasgd_staleness(8),
        Connectivity.connectivity_minus_one,
    ):
        assert metric(found) < 0.9 * metric(chance)
    assert found.max_connectivity() <= chance.max_connectivity()
    assert found.histogram()[-1] < 0.5 * chance.histogram()[-1]


def test_an_objective_needs_a_name():
    class Nameless:
        keeps_cut_nets = True

        def cost_table(self, n_parts):
            return np.maximum(np.arange(n_parts + 1) - 1, 0)

    with pytest.raises(InputError, match="or an object with name, keeps_cut_nets"):
        daskpart.partition(np.eye(4), 2, Nameless())
    with pytest.raises(InputError, match="or an object with name, keeps_cut_nets"):
        daskpart.partition(np.eye(4), 2, CutNet)  # the class, and no object of it


@pytest.mark.parametrize(
    "prices", [[0, 0], [0, 0, 2, 1], [0, 1, 1, 1], [0, 0, 0.5, 1], "none"], ids=str
)
def test_an_objective_needs_a_cost_table_that_is_one(prices):
    class Priced:
        name, keeps_cut_nets = "own", True

        def cost_table(self, n_parts):
            return np.array(prices)

    with pytest.raises(InputError, match=r"give an int64\[4\] that begins with 0, 0"):
        daskpart.partition(scipy.sparse.eye_array(4), 3, Priced())


@pytest.mark.parametrize("method", sorted(METHODS))
def test_where_no_vertex_weighs_anything_their_number_is_balanced(method):
    rng = np.random.default_rng(0)
    weightless = Hypergraph.from_nets(np.arange(0, 241, 3), rng.integers(0, 60, 240), 60, [0] * 60)
    found = partition(weightless, 4, method=method, epsilon=0.2)
    assert np.bincount(found.assignment, minlength=4).max() <= 18
    assert found.weights.tolist() == [0] * 60
    refined = daskpart.refine(weightless, found, epsilon=0.2)
    assert np.bincount(refined.assignment, minlength=4).max() <= 18
    assert refined.weights.tolist() == [0] * 60
    if method in ("random", "block"):
        assert refined.info["metric_after"] < refined.info["metric_before"]


def test_a_part_of_one_free_vertex_beside_fixed_ones_gives_it_away():
    nets = Hypergraph.from_nets([0, 2, 4], [0, 2, 1, 3], 5, net_costs=[5, 5])
    fixed = [0, 1, -1, -1, -1]
    for method in ("hypercube", "recursive"):
        found = partition(nets, 4, method=method, fixed=fixed)
        assert np.bincount(found.assignment, minlength=4).min() > 0
        assert found.assignment[:2].tolist() == [0, 1]


@given(st.data())
def test_parts_are_filled_wherever_free_vertices_allow_it(data):
    n_parts, n_vertices = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 12))
    parts = st.integers(0, n_parts - 1)
    assignment = np.array(data.draw(st.lists(parts, min_size=n_vertices, max_size=n_vertices)))
    held = np.array(data.draw(st.lists(st.booleans(), min_size=n_vertices, max_size=n_vertices)))
    fixed = np.where(held, assignment, -1).astype(np.int32)
    filled = fill_empty_parts(
        assignment.astype(np.int32), np.ones(n_vertices, np.int64), n_parts, fixed
    )
    assert (filled[held] == assignment[held]).all()
    n_filled = len(np.unique(assignment[held])) + np.count_nonzero(~held)
    assert len(np.unique(filled)) == min(n_filled, n_parts)


@settings(max_examples=60)
@given(st.data())
@pytest.mark.parametrize("method", sorted(METHODS))
def test_options_that_meet(method, data):
    """Weights of all kinds, any ε and fixed vertices: each is heeded, or a warning says so."""
    n = data.draw(st.integers(1, 12))
    n_parts = data.draw(st.integers(1, n))
    weight = st.sampled_from(data.draw(st.sampled_from([(0,), (1,), (0, 1, 7), (1, 10**15)])))
    weights = data.draw(st.lists(weight, min_size=n, max_size=n))
    nets = data.draw(st.lists(st.sets(st.integers(0, n - 1)), max_size=8))
    pins = [pin for net in nets for pin in sorted(net)]
    pointer = np.cumsum([0, *map(len, nets)])
    hypergraph = Hypergraph.from_nets(pointer, pins, n, vertex_weights=weights)
    epsilon = data.draw(st.sampled_from([0.0, 0.03, 3.0, 1e6]))
    options = {"method": method, "epsilon": epsilon, "even": data.draw(st.booleans())}
    fixed = np.full(n, -1)
    if METHODS[method].takes_fixed:
        part = st.integers(-1, n_parts - 1)
        options["fixed"] = fixed = np.array(data.draw(st.lists(part, min_size=n, max_size=n)))
    objective = data.draw(st.sampled_from(["connectivity", "cut-net"]))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = partition(hypergraph, n_parts, objective, **options)
    held = fixed >= 0
    np.testing.assert_array_equal(found.assignment[held], fixed[held])
    n_filled = min(n_parts, len(np.unique(fixed[held])) + int((~held).sum()))
    assert len(np.unique(found.assignment)) == n_filled
    counted = with_weights(hypergraph).vertex_weights
    load = np.bincount(found.assignment, counted, n_parts)
    is_heavy = load.max() > heaviest_allowed(int(counted.sum()), n_parts, epsilon)
    assert {each.category for each in told} <= ({BalanceWarning} if is_heavy else set())
    assert told or not is_heavy or not METHODS[method].searches


def test_the_hypercube_balances_before_it_moves():
    rng = np.random.default_rng(3)
    weights = rng.integers(1, 40, 60)
    nets = Hypergraph.from_nets(np.arange(0, 361, 6), rng.integers(0, 60, 360), 60, weights)
    with warnings.catch_warnings():
        warnings.simplefilter("error", BalanceWarning)
        for seed in range(4):
            partition(nets, 12, method="hypercube", random_state=seed, epsilon=0.03)


@pytest.mark.parametrize("rho", [400, 700.5, 1e300])
def test_a_power_beyond_floating_point_is_refused(matrix, rho):
    with pytest.raises(InputError, match="use a smaller rho"):
        partition(matrix, 8, "power", rho=rho)


def test_sums_beyond_64_bits_are_refused():
    dear = Hypergraph.from_nets([0, 2, 4], [0, 1, 2, 3], 4, net_costs=[2**61] * 2)
    words = r"the net costs may come to 1.38e\+19 with 4 parts"
    with pytest.raises(InputError, match=words):
        partition(dear, 4)
    with pytest.raises(InputError, match=words):
        daskpart.refine(dear, daskpart.Partition([0, 1, 2, 3], 4))


def test_large_weights_do_not_overflow_the_limits():
    heavy = Hypergraph.from_nets([0, 2, 4], [0, 1, 2, 3], 4, [2**58] * 4)
    assert partition(heavy, 2, epsilon=1e6).part_weights.min() > 0


def test_filling_many_empty_parts_looks_through_the_vertices_as_often_as_filling_one(monkeypatch):
    start, weights = np.zeros(4000, np.int32), np.ones(4000, np.int64)
    looked, counted = [], np.bincount

    def bincount(ids, *rest, **more):
        looked.append(len(ids))
        return counted(ids, *rest, **more)

    monkeypatch.setattr(np, "bincount", bincount)
    for n_parts in (2, 1000):
        assert len(np.unique(fill_empty_parts(start, weights, n_parts))) == n_parts
    assert looked[: len(looked) // 2] == looked[len(looked) // 2 :]
