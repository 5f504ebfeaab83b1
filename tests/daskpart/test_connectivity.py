"""Every metric against plain Python on random hypergraphs, and against the papers' figures."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypergraphs import hypergraph_of
from hypothesis import given
from hypothesis import strategies as st

from daskpart.connectivity import Connectivity
from daskpart.errors import InputError
from daskpart.hypergraph import Hypergraph
from daskpart.partitions import Partition

seeds = st.integers(0, 2**32 - 1)
parts_counts = st.sampled_from([1, 2, 3, 5, 8, 40])


def random_case(seed: int, n_parts: int) -> tuple[Hypergraph, Partition, list[dict[int, int]]]:
    """A hypergraph, a partition, and part → pins for each net, computed without any library."""
    rng = np.random.default_rng(seed)
    n_vertices = int(rng.integers(1, 60))
    nets = [
        rng.integers(0, n_vertices, size=rng.integers(0, 50)) for _ in range(rng.integers(0, 12))
    ]
    hypergraph = hypergraph_of(nets, n_vertices, net_costs=rng.integers(0, 9, len(nets)))
    partition = Partition(rng.integers(0, n_parts, n_vertices), n_parts)
    naive = []
    for net in nets:
        pins_in = defaultdict(int)
        for vertex in set(net.tolist()):
            pins_in[int(partition.assignment[vertex])] += 1
        naive.append(dict(pins_in))
    return hypergraph, partition, naive


@given(seeds, parts_counts)
def test_incidence_equals_plain_python(seed, n_parts):
    hypergraph, partition, naive = random_case(seed, n_parts)
    connectivity = Connectivity.from_partition(hypergraph, partition)
    for item, pins_in in enumerate(naive):
        start, stop = connectivity.pointer[item : item + 2]
        assert connectivity.parts[start:stop].tolist() == sorted(pins_in)
        assert connectivity.counts[start:stop].tolist() == [pins_in[k] for k in sorted(pins_in)]
    assert connectivity.parts.dtype == np.int32 and connectivity.counts.dtype == np.int64


@given(seeds, parts_counts, st.integers(1, 9))
def test_metrics_equal_plain_python(seed, n_parts, eta):
    hypergraph, partition, naive = random_case(seed, n_parts)
    connectivity = Connectivity.from_partition(hypergraph, partition)
    levels = [len(pins_in) for pins_in in naive]
    costs = hypergraph.net_costs.tolist()
    cut = [(cost, level) for cost, level in zip(costs, levels, strict=True) if level > 1]
    assert connectivity.connectivity.tolist() == levels
    assert connectivity.cut_net() == sum(cost for cost, _ in cut)
    assert connectivity.connectivity_minus_one() == sum(cost * (level - 1) for cost, level in cut)
    assert connectivity.soed() == sum(cost * level for cost, level in cut)
    assert connectivity.power(3) == sum(cost * level**3 for cost, level in cut)
    assert connectivity.power(1.5) == pytest.approx(sum(c * level**1.5 for c, level in cut))
    assert connectivity.max_connectivity() == max(levels, default=0)
    assert connectivity.histogram().tolist() == [levels.count(k) for k in range(n_parts + 1)]
    assert connectivity.pasgd_staleness(eta) == sum(max(level - eta, 0) for level in levels)
    assert connectivity.pasgd_volume(eta) == sum(volume_of_equation_8(k, eta) for k in levels)
    bits = sum(
        cost * sum(len({part >> bit & 1 for part in pins_in}) > 1 for bit in range(6))
        for cost, pins_in in zip(costs, naive, strict=True)
    )
    assert connectivity.concurrent_volume() == bits


def volume_of_equation_8(connectivity: int, eta: int) -> int:
    if connectivity < 2:
        return 0
    if eta == 1:
        return 2 * (connectivity - 1)
    return connectivity if connectivity <= eta else 2 * connectivity - eta


@given(seeds, parts_counts)
def test_volume_and_messages_of_ranks_equal_plain_python(seed, n_parts):
    hypergraph, partition, naive = random_case(seed, n_parts)
    connectivity = Connectivity.from_partition(hypergraph, partition).with_random_owners(seed)
    rng = np.random.default_rng(seed)
    anywhere = connectivity.with_owners(rng.integers(0, n_parts, hypergraph.n_nets))
    for owned in (connectivity, connectivity.with_packed_owners(), anywhere):
        rows = np.zeros((n_parts, n_parts), int)
        for owner, pins_in in zip(owned.owners.tolist(), naive, strict=True):
            for part in pins_in:
                rows[owner, part] += part != owner
        expand, reduce = owned.rank_volume("expand"), owned.rank_volume("reduce")
        assert expand.send.tolist() == rows.sum(axis=1).tolist() == reduce.receive.tolist()
        assert expand.receive.tolist() == rows.sum(axis=0).tolist() == reduce.send.tolist()
        assert expand.messages_sent.tolist() == (rows > 0).sum(axis=1).tolist()
        assert expand.messages_received.tolist() == (rows > 0).sum(axis=0).tolist()
        assert reduce.messages_sent.tolist() == expand.messages_received.tolist()
        assert expand.total_rows == rows.sum() and expand.total_messages == (rows > 0).sum()


@given(seeds, parts_counts)
def test_owners_are_sharers(seed, n_parts):
    hypergraph, partition, naive = random_case(seed, n_parts)
    connectivity = Connectivity.from_partition(hypergraph, partition)
    for owned in (connectivity.with_random_owners(seed), connectivity.with_packed_owners()):
        for owner, pins_in in zip(owned.owners.tolist(), naive, strict=True):
            assert owner in pins_in if pins_in else owner == -1


def test_least_loaded_owners_share_the_work():
    n_items = 400
    items = np.repeat(np.arange(n_items), 4)
    connectivity = Connectivity.from_pairs(items, np.tile(np.arange(4), n_items), n_items, 4)
    volume = connectivity.with_packed_owners().rank_volume()
    assert volume.send.tolist() == [300] * 4 and volume.receive.tolist() == [300] * 4


@given(seeds, parts_counts)
def test_packed_owners_balance_the_work_that_is_given(seed, n_parts):
    hypergraph, partition, naive = random_case(seed, n_parts)
    connectivity = Connectivity.from_partition(hypergraph, partition)
    work, load = np.random.default_rng(seed).integers(0, 9, len(naive)), np.zeros(n_parts, int)
    owners = connectivity.with_packed_owners(work).owners
    for item in np.argsort(-work, kind="stable"):
        sharers = sorted(naive[item])
        assert owners[item] == (min(sharers, key=lambda part: load[part]) if sharers else -1)
        load[owners[item]] += work[item] if sharers else 0
    with pytest.raises(InputError, match="amounts were given"):
        connectivity.with_packed_owners([*work, 1])


def test_random_owners_repeat_and_depend_on_the_seed():
    items = np.repeat(np.arange(100), 5)
    connectivity = Connectivity.from_pairs(items, np.tile(np.arange(5), 100), 100, 5)
    first = connectivity.with_random_owners(3)
    assert first == connectivity.with_random_owners(3)
    assert first != connectivity.with_random_owners(4) and first != connectivity
    assert np.bincount(first.owners).min() >= 8


@given(st.data(), st.integers(0, 6), st.integers(1, 5))
def test_equal_pairs_are_counted(data, n_items, n_parts):
    """Many or few of each: both ways to group them give the same."""
    pair = st.tuples(st.integers(0, max(n_items - 1, 0)), st.integers(0, n_parts - 1))
    pairs = data.draw(st.lists(pair, max_size=150 if n_items else 0))
    items, parts = (np.array([each[axis] for each in pairs], int) for axis in (0, 1))
    found = Connectivity.from_pairs(items, parts, n_items, n_parts)
    times = Counter(pairs)
    assert found.counts.tolist() == [times[each] for each in sorted(times)]
    assert found.parts.tolist() == [part for _, part in sorted(times)]
    assert np.diff(found.pointer).tolist() == [
        sum(item == each for item, _ in times) for each in range(n_items)
    ]
    given_counts = Connectivity.from_pairs(items, parts, n_items, n_parts, np.ones(len(items), int))
    assert found == given_counts
    assert found.counts.dtype == given_counts.counts.dtype == np.int64


@given(seeds)
def test_from_pairs_equals_from_partition(seed):
    hypergraph, partition, _ = random_case(seed, 5)
    items = np.repeat(np.arange(hypergraph.n_nets), np.diff(hypergraph.net_pointer))
    parts = partition.assignment[hypergraph.pins]
    shuffled = np.random.default_rng(seed).permutation(len(items))
    pairs = Connectivity.from_pairs(items[shuffled], parts[shuffled], hypergraph.n_nets, 5)
    whole = Connectivity.from_partition(hypergraph, partition)
    for name in ("pointer", "parts", "counts"):
        assert np.array_equal(getattr(pairs, name), getattr(whole, name))


def one_net(parts: list[int], n_parts: int) -> Connectivity:
    return Connectivity.from_pairs([0] * len(parts), parts, 1, n_parts)


def test_figure_2_of_the_pasgd_paper():
    connectivity = one_net([0, 1, 2, 3, 4, 5, 6], 8)
    assert (connectivity.pasgd_volume(1), connectivity.pasgd_staleness(1)) == (12, 6)
    assert (connectivity.pasgd_volume(4), connectivity.pasgd_staleness(4)) == (10, 3)


def test_figure_4_of_the_pasgd_paper():
    assert one_net([0, 1, 2, 3], 4).power(2) == 4 + 5 + 7 == 16


def test_figure_1_of_the_hypercube_mapping_paper():
    assert one_net([1, 2, 6, 7], 8).concurrent_volume() == 3


def test_figure_2_of_the_gcn_paper():
    """n4 joins v2…v6; parts {v1, v2}, {v3, v4}, {v5, v6}: volume 2, the graph model says 3."""
    partition = Partition([0, 0, 1, 1, 2, 2], 3)
    net = Hypergraph.from_nets([0, 5], [1, 2, 3, 4, 5], 6)
    assert Connectivity.from_partition(net, partition).connectivity.tolist() == [3]
    assert Connectivity.from_partition(net, partition).connectivity_minus_one() == 2
    edges = Hypergraph.from_nets([0, 2, 4, 6, 8], [3, 1, 3, 2, 3, 4, 3, 5], 6)
    assert Connectivity.from_partition(edges, partition).cut_net() == 3


def test_power_is_exact_beyond_64_bits():
    connectivity = Connectivity.from_pairs([0] * 1000, range(1000), 1, 1000)
    assert connectivity.power(8) == 1000**8
    dear = Connectivity.from_pairs([0, 0], [0, 3], 1, 4, costs=[2**62])
    assert dear.concurrent_volume() == 2 * 2**62


@pytest.mark.parametrize("with_owners", [False, True])
def test_save_and_load(tmp_path, with_owners):
    connectivity = Connectivity.from_pairs([0, 0, 2], [1, 0, 1], 4, 2, counts=[3, 1, 2])
    if with_owners:
        connectivity = connectivity.with_random_owners(0)
    connectivity.save(tmp_path / "parts.npz")
    assert Connectivity.load(tmp_path / "parts.npz") == connectivity


def test_shows_itself_in_plain_words():
    connectivity = one_net([0, 1, 2], 3).with_random_owners(0)
    assert "λ_max" in repr(connectivity) and "<table>" in connectivity._repr_html_()
    assert "rows, total" in repr(connectivity.rank_volume())
    assert "<table>" in connectivity.rank_volume("reduce")._repr_html_()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.rank_volume(), "rank_volume needs owners: call with_random_owners()"),
        (lambda c: c.power(float("nan")), "rho is nan: give a finite number"),
        (lambda c: c.power("2"), "rho is '2': give a finite number"),
        (lambda c: Connectivity.from_pairs([], [], -1, 3), "n_items is -1: it must be at least 0"),
        (lambda c: Connectivity.from_pairs([], [], 1, 0), "n_parts is 0: it must be at least 1"),
        (lambda c: c.rank_volume("gather"), "operation is 'gather': use one of 'expand', 'reduce'"),
        (lambda c: c.rank_volume(["expand"]), "operation is ['expand']: use one of"),
        (
            lambda c: c.power(10**12),
            "rho is 1000000000000: give a finite number of at least 0 and at",
        ),
        (lambda c: c.with_random_owners("seed"), "random_state is 'seed': give a whole number"),
        (lambda c: c.with_owners([[0], [0, 1]]), "owners are a list of which NumPy makes no array"),
        (lambda c: c.save(None), "path is None: give a path"),
        (lambda c: Connectivity.load(3), "path is 3: give a path"),
        (
            lambda c: c.pasgd_volume(0),
            "eta (synchronizations an epoch) is 0: it must be at least 1",
        ),
        (lambda c: c.pasgd_staleness(1.5), "eta (synchronizations an epoch) is 1.5"),
        (lambda c: c.with_owners([3]), "owner of item 0 is 3: owners are ranks 0 to 2"),
        (lambda c: c.with_owners([-1]), "owner of item 0 is -1"),
        (lambda c: c.with_owners([0, 1]), "owners of shape (2,)"),
        (
            lambda c: Connectivity.from_pairs([0, 0], [0, 1], 1, 3, counts=[2, 0]),
            "count 1 is 0: leave out pairs that do not occur",
        ),
        (
            lambda c: Connectivity.from_pairs([0], [3], 1, 3),
            "part 3 is out of range: parts are 0 to 2",
        ),
        (lambda c: Connectivity.from_pairs([-1], [0], 1, 3), "item -1 is out of range"),
        (lambda c: Connectivity.from_pairs([0], [0, 1], 1, 3), "1 items and 2 parts: give pairs"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InputError) as caught:
        call(one_net([0, 1, 2], 3))
    assert message in str(caught.value)


def test_a_partition_of_the_wrong_length_is_refused():
    net = Hypergraph.from_nets([0, 2], [0, 1], 3)
    with pytest.raises(InputError, match="assigns 2 vertices, the hypergraph has 3"):
        Connectivity.from_partition(net, Partition([0, 1], 2))
    with pytest.raises(InputError, match="partition is a list: give a Partition"):
        Connectivity.from_partition(net, [0, 1, 1])
    with pytest.raises(InputError, match=r"hypergraph is a list: .* Hypergraph.column_net\(data\)"):
        Connectivity.from_partition([[0, 1]], Partition([0, 1], 2))


def test_owners_of_no_items_may_be_an_empty_list():
    nothing = Connectivity.from_pairs([], [], 0, 3)
    assert nothing.with_owners([]).rank_volume().total_rows == 0


def test_a_fractional_power_beyond_floating_point_is_refused():
    pairs = Connectivity.from_pairs([0, 0, 0], [0, 1, 2], 1, 3)
    with pytest.raises(InputError, match=r"rho is 700.5: with a connectivity of 3"):
        pairs.power(700.5)
    assert pairs.power(700) == 3**700
