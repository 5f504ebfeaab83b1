"""A rank's layout: MTTKRP along every mode against a dense einsum, and what it costs in bytes."""

from __future__ import annotations

import string

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskpart.errors import InputError
from daskpart.models.tensor_layout import TensorLayout


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
    layout = TensorLayout.build(coordinates, dense[dense != 0], shape, memory=memory, rank=rank)
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
