"""A rank's layout: MTTKRP along every mode against a dense einsum, and what it costs in bytes."""

from __future__ import annotations

import copy
import itertools
import pickle
import string
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskpart._floor.lanes import aligned_rows, is_spread
from daskpart.errors import InputError
from daskpart.models.cp.layout.layout import TensorLayout
from daskpart.models.cp.layout.sorting import fibre_length
from daskpart.models.cp.layout.structures import Fibres, SortedNonzeros, fingerprint_of


def dense_mttkrp(dense: np.ndarray, mode: int, factors: list[np.ndarray]) -> np.ndarray:
    """The definition, by numpy."""
    axes = string.ascii_lowercase[: dense.ndim]
    others = [k for k in range(dense.ndim) if k != mode]
    rows = ",".join(axes[k] + "z" for k in others)
    return np.einsum(f"{axes},{rows}->{axes[mode]}z", dense, *(factors[k] for k in others))


def random_tensor(shape: tuple[int, ...], density: float, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return generator.normal(size=shape) * (generator.random(shape) < density)


@given(
    shape=st.lists(st.integers(1, 6), min_size=2, max_size=5).map(tuple),
    density=st.sampled_from([0.0, 0.1, 0.6, 1.0]),
    rank=st.integers(1, 20),
    memory=st.sampled_from(["fast", "small"]),
    seed=st.integers(0, 100),
)
def test_every_mode_equals_a_dense_einsum(shape, density, rank, memory, seed) -> None:
    dense = random_tensor(shape, density, seed)
    coordinates = np.array(np.nonzero(dense)).astype(np.int32)
    factors = [np.random.default_rng(seed + m).normal(size=(n, rank)) for m, n in enumerate(shape)]
    layout = TensorLayout.build(coordinates, dense[dense != 0], shape, memory=memory)
    for mode in range(len(shape)):
        out = np.full((shape[mode], rank), np.nan)
        assert layout.mttkrp(mode, factors, out) is out
        np.testing.assert_allclose(out, dense_mttkrp(dense, mode, factors), rtol=0, atol=1e-10)
        assert layout.mttkrp(mode, factors).tobytes() == out.tobytes()


@pytest.mark.parametrize(
    ("shape", "options", "words"),
    [((3, 4), {"memory": "tiny"}, "fast, small"), ((3,), {}, "modes"), ((3, 4, 5), {}, "modes")],
)
def test_what_does_not_fit_is_refused(shape, options, words) -> None:
    with pytest.raises(InputError, match=words):
        TensorLayout.build(np.zeros((2, 1), np.int32), np.ones(1), shape, **options)


def layout_of(dense: np.ndarray, **options: str) -> TensorLayout:
    return TensorLayout.build(
        np.array(np.nonzero(dense)).astype(np.int32), dense[dense != 0], dense.shape, **options
    )


@pytest.mark.parametrize("rank", [1, 8, 11, 33, 70])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_number_of_components(rank, dtype) -> None:
    dense = random_tensor((5, 12, 3), 0.7, 1).astype(dtype)
    layout, generator = layout_of(dense), np.random.default_rng(0)
    factors = [generator.normal(size=(n, rank)).astype(dtype) for n in dense.shape]
    for mode in range(3):
        got = layout.mttkrp(mode, factors)
        assert got.dtype == dtype
        wanted = dense_mttkrp(dense.astype(float), mode, [f.astype(float) for f in factors])
        np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-4 if dtype == np.float32 else 1e-11)


@given(
    shape=st.lists(st.integers(4, 6), min_size=3, max_size=4).map(tuple),
    memory=st.sampled_from(["fast", "small"]),
    seed=st.integers(0, 100),
)
def test_kept_sums_give_the_same_bits_as_factors_change(shape, memory, seed) -> None:
    dense = random_tensor(shape, 1.0, seed)
    layout, generator = layout_of(dense, memory=memory), np.random.default_rng(seed)
    factors = [generator.normal(size=(n, 3)) for n in shape]
    for _ in range(12):
        mode = int(generator.integers(len(shape)))
        fresh = layout_of(dense, memory=memory).mttkrp(mode, factors)
        assert layout.mttkrp(mode, factors).tobytes() == fresh.tobytes()
        changed = factors[generator.integers(len(shape))]  # one entry, whichever factor
        changed[generator.integers(len(changed)), generator.integers(3)] += 1e-12


def test_a_second_mode_reads_the_sums_of_the_first() -> None:
    layout = layout_of(random_tensor((4, 60, 3), 1.0, 0))
    factors = [np.ones((n, 2)) for n in layout.shape]
    layout.mttkrp(0, factors)
    layout.products.sums[:] = 7.0  # read, as the leaf's factor stands: 3 fibres a row
    assert (layout.mttkrp(2, factors) == 4 * 7.0).all()
    assert (layout.mttkrp(0, factors) == 3 * 7.0).all()
    factors[1][5, 1] = 1.5
    assert (layout.mttkrp(0, factors) != 3 * 7.0).all()


def test_kept_sums_are_not_carried_along() -> None:
    layout = layout_of(random_tensor((4, 60, 3), 1.0, 0))
    layout.mttkrp(0, [np.ones((n, 2)) for n in layout.shape])
    assert layout.products.sums.size
    assert not pickle.loads(pickle.dumps(layout)).products.sums.size
    assert not copy.copy(layout.products).sums.size


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_fingerprint_sees_values_and_places(dtype) -> None:
    """Of round numbers, too, which differ in few bits, as a start of zeros and ones has them."""
    seen = {fingerprint_of(np.zeros((41, 2), dtype))}
    values = (1, -1, 0.5, 2, -0.0)
    for place, value in itertools.product(np.ndindex(41, 2), values):
        factor = np.zeros((41, 2), dtype)
        factor[place] = value
        seen.add(fingerprint_of(factor))
    assert len(seen) == 1 + 41 * 2 * len(values)


@pytest.mark.parametrize(
    ("shape", "density", "kinds"),
    [
        ((30, 40), 0.2, [SortedNonzeros, SortedNonzeros]),
        ((30, 40, 50), 0.002, [SortedNonzeros]),
        ((6, 40, 5), 0.9, [Fibres, Fibres]),
        ((12, 12, 500), 0.02, [Fibres, SortedNonzeros]),
    ],
)
def test_the_structure_follows_the_length_of_fibres(shape, density, kinds) -> None:
    dense = random_tensor(shape, density, 0)
    assert [type(structure) for structure in layout_of(dense).structures] == kinds
    small = layout_of(dense, memory="small").structures
    assert [type(structure) for structure in small] == kinds[:1]


@pytest.mark.parametrize("leaf", [0, 1, 2])
def test_fibre_length_is_estimated_well(leaf) -> None:
    coordinates = np.array(np.nonzero(random_tensor((20, 30, 40), 0.3, 0))).astype(np.int32)
    exact = coordinates.shape[1] / len(np.unique(np.delete(coordinates, leaf, 0), axis=1).T)
    assert fibre_length(coordinates, leaf) == pytest.approx(exact, rel=0.05)


@given(
    shape=st.lists(st.integers(1, 300), min_size=2, max_size=5).map(tuple),
    nnz=st.integers(50, 400),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 50),
)
def test_bytes_stay_below_what_is_promised(shape, nnz, dtype, seed) -> None:
    drawn = np.random.default_rng(seed).integers(0, np.array(shape)[:, None], (len(shape), nnz))
    coordinates = np.unique(drawn, axis=1).astype(np.int32)
    values = np.ones(coordinates.shape[1], dtype)
    for memory, most in (("fast", 2), ("small", 1)):
        layout = TensorLayout.build(coordinates, values, shape, memory=memory)
        for mode in range(len(shape)):
            layout.mttkrp(mode, [np.ones((extent, 4), dtype) for extent in shape])
        assert layout.nbytes <= most * (coordinates.nbytes + values.nbytes) + 8


def test_index_types_are_as_small_as_they_can_be() -> None:
    fibres = layout_of(np.ones((2, 300, 3))).structures[0]
    assert fibres.leaf == 1 and fibres.leaves.dtype == np.uint16
    assert layout_of(np.ones((2, 200, 3))).structures[0].leaves.dtype == np.uint8
    wide = TensorLayout.build(np.array([[0, 69_999], [0, 1]], np.int32), np.ones(2), (70_000, 2))
    assert wide.structures[0].coordinates.dtype == np.uint32


@pytest.mark.parametrize("memory", ["fast", "small"])
def test_a_rank_without_nonzeros_gives_zeros(memory) -> None:
    layout = layout_of(np.zeros((3, 4, 5)), memory=memory)
    factors = [np.ones((n, 2)) for n in layout.shape]
    for mode in range(3):
        assert not layout.mttkrp(mode, factors, np.full((layout.shape[mode], 2), 7.0)).any()
    assert layout.nbytes < 200


def test_a_layout_describes_itself() -> None:
    text = repr(layout_of(np.ones((4, 30, 5))))
    assert "fibres along mode 1 of mean length 30.0" in text and "4 × 30 × 5" in text


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (np.ones((3, 2), np.float32), "factor 1 is float32"),
        (np.ones((4, 2)), r"shape \(4, 2\)"),
        (np.ones((2, 3)).T, "C-contiguous"),
    ],
)
def test_factors_that_do_not_fit_never_reach_the_kernels(wrong, words) -> None:
    layout = layout_of(np.ones((2, 3, 4)))
    with pytest.raises(InputError, match=words):
        layout.mttkrp(0, [np.ones((2, 2)), wrong, np.ones((4, 2))])


@pytest.mark.parametrize("index", [-1, 3])
def test_an_index_beyond_the_shape_is_named(index) -> None:
    with pytest.raises(InputError, match=f"index {index} in mode 1"):
        TensorLayout.build(np.array([[0], [index]], np.int32), np.ones(1), (2, 3))


def test_values_of_another_type_are_refused() -> None:
    with pytest.raises(InputError, match="float32 or float64"):
        TensorLayout.build(np.zeros((2, 1), np.int32), np.ones(1, int), (1, 1))


def test_two_threads_give_the_bits_of_one() -> None:
    dense = random_tensor((40, 300, 6), 0.5, 3)
    layout = layout_of(dense)
    factors = [np.random.default_rng(m).normal(size=(n, 16)) for m, n in enumerate(dense.shape)]
    alone = [layout.mttkrp(mode, factors).tobytes() for mode in range(3)]
    with ThreadPoolExecutor(2) as pool:
        pairs = pool.map(lambda m: layout.mttkrp(m % 3, factors).tobytes(), range(12))
        assert list(pairs) == alone * 4


@pytest.mark.parametrize("shift", [0, 16, 56])
def test_where_a_factor_begins_changes_no_bit(shift) -> None:
    layout, generator = layout_of(np.ones((4, 60, 3))), np.random.default_rng(0)
    plain = [generator.normal(size=(n, 8)) for n in layout.shape]
    moved = []
    for factor in plain:
        room = aligned_rows(len(factor) + 1, 8, float).reshape(-1)
        moved.append(room[shift // 8 : shift // 8 + factor.size].reshape(factor.shape))
        moved[-1][:] = factor
        assert is_spread(moved[-1]) == (shift != 0)
    for mode in range(3):
        fresh = layout_of(np.ones((4, 60, 3)))
        assert fresh.mttkrp(mode, moved).tobytes() == layout.mttkrp(mode, plain).tobytes()


@pytest.mark.parametrize(
    ("along_fibres", "modes"),
    [
        (1, (0,)),  # no fibres: nonzeros one by one
        (8, (0, 2, 0)),  # short fibres, then their sums as kept
        (2_000_000, (0, 2)),  # one fibre
    ],
)
def test_a_float32_sum_of_millions_keeps_its_digits(along_fibres, modes):
    """In a mode of one row, or along a fibre: one register summed all of it, and was 2.6 % off."""
    n = 2_000_000
    places = np.arange(n)
    coordinates = np.stack([np.zeros(n), places, places // along_fibres]).astype(np.int32)
    shape = (1, n, -(-n // along_fibres))
    layout = TensorLayout.build(coordinates, np.ones(n, np.float32), shape)
    factors = [np.full((rows, 1), 0.3, np.float32) for rows in shape]
    for mode in modes:
        wanted = n / shape[mode] * float(np.float32(0.3)) ** 2
        np.testing.assert_allclose(layout.mttkrp(mode, factors), wanted, rtol=1e-4)


@pytest.mark.parametrize("along_fibres", [1, 8])
@pytest.mark.parametrize("memory", ["fast", "small"])
def test_rows_that_take_turns_keep_their_digits(along_fibres, memory):
    """Where no run of terms goes to one row, the row itself was added to a million times."""
    n = 2_000_000
    fibre, leaf = np.divmod(np.arange(n), along_fibres)
    shape = (2, along_fibres, n // along_fibres, n // along_fibres)
    coordinates = np.stack([fibre % 2, leaf, fibre, fibre]).astype(np.int32)
    layout = TensorLayout.build(coordinates, np.ones(n, np.float32), shape, memory=memory)
    factors = [np.full((rows, 1), 0.3, np.float32) for rows in shape]
    for mode in (0, 1, 0):
        wanted = n / shape[mode] * float(np.float32(0.3)) ** 3
        np.testing.assert_allclose(layout.mttkrp(mode, factors), wanted, rtol=3e-4)
