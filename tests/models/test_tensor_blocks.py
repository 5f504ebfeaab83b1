"""Keys by which nonzeros come in an order good for caches, and layouts that are sorted by them."""

from __future__ import annotations

import numpy as np
import pytest

from daskpart.models.cp.layout.blocks import block_keys, popularity_keys, popularity_pays
from daskpart.models.cp.layout.layout import TensorLayout
from daskpart.models.cp.layout.sorting import Nonzeros

SHAPE = (4, 300, 90)  # fibres along mode 1 in pieces, along mode 2 by blocks


@pytest.fixture(scope="module")
def dense() -> np.ndarray:
    generator = np.random.default_rng(0)
    often = generator.permutation(np.linspace(0.6, 1.0, SHAPE[1]))[:, None]
    return generator.normal(size=SHAPE) * (generator.random(SHAPE) < often)


def nonzeros_of(dense: np.ndarray) -> Nonzeros:
    return Nonzeros(np.array(np.nonzero(dense)).astype(np.int32), dense[dense != 0])


def test_groups_double_from_the_most_popular_on(dense) -> None:
    given = nonzeros_of(dense)
    keys, leaves = popularity_keys(given, 1, 300), given.index(1)
    group = np.array([keys[leaves == leaf].max() for leaf in range(300)])
    assert (keys == group[leaves]).all()
    assert np.bincount(group).tolist() == [128, 128, 44]
    counts = np.bincount(leaves)
    for k in range(2):
        assert counts[group == k].min() >= counts[group == k + 1].max()


def test_blocks_are_halved_while_their_pieces_stay_long() -> None:
    counts = 2 * 32 * np.array([1, 2, 5])  # of each row, spread over 2 fibres of 400 leaves
    row = np.repeat(np.arange(3), counts)
    leaf = np.concatenate([np.arange(count) % 400 for count in counts])
    given = Nonzeros(np.array([row, leaf, np.arange(row.size) % 2], np.int32), np.ones(row.size))
    keys = block_keys(given, (3, 400, 2), 0, 1)
    times = np.array([0, 1, 2])[row]
    np.testing.assert_array_equal(keys, 2**times + leaf * 2**times // 400)
    assert block_keys(given, (3, 400, 20), 0, 1) is None


@pytest.mark.parametrize(("length", "extent"), [(1e9, 128), (15.9, 129), (23.9, 257)])
def test_short_fibres_stay_whole(length, extent) -> None:
    assert not popularity_pays(length, extent, 8)
    assert popularity_pays(length + 0.1, extent, 8) == (extent > 128)
    assert popularity_pays(2 * length + 0.2, extent, 4) == (extent > 128)
    assert not popularity_pays(2 * length, extent, 4)


@pytest.mark.parametrize("memory", ["fast", "small"])
def test_a_layout_in_pieces_equals_a_dense_einsum(dense, memory) -> None:
    given = nonzeros_of(dense)
    layout = TensorLayout.build(given.coordinates, given.values, SHAPE, memory=memory)
    first, second = layout.structures[0], layout.structures[-1]
    assert first.leaf == 1 and first.n_fibres == 4 * 90 and len(first.pieces) > 2.5 * first.n_fibres
    assert second is first or (second.leaf == 2 and second.n_fibres > 1.5 * 4 * 300)
    for structure in layout.structures:
        found = np.zeros(SHAPE)
        found[tuple(structure.index(mode) for mode in range(3))] = structure.values
        np.testing.assert_array_equal(found, dense)
    factors = [np.random.default_rng(m).normal(size=(n, 9)) for m, n in enumerate(SHAPE)]
    for mode, text in enumerate(("abc,bz,cz->az", "abc,az,cz->bz", "abc,az,bz->cz")):
        wanted = np.einsum(text, dense, *(factors[k] for k in range(3) if k != mode), optimize=True)
        got = layout.mttkrp(mode, factors)
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-10)
        assert layout.mttkrp(mode, factors).tobytes() == got.tobytes()


def test_sums_without_room_are_not_kept(dense) -> None:
    given = nonzeros_of(dense)
    layout = TensorLayout.build(given.coordinates, given.values, SHAPE)
    factors = [np.random.default_rng(m).normal(size=(n, 1200)) for m, n in enumerate(SHAPE)]
    got = layout.mttkrp(0, factors)
    assert not layout.products.sums.size
    wanted = np.einsum("abc,bz,cz->az", dense, *factors[1:], optimize=True)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-8)
