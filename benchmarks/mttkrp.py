"""MTTKRP and whole iterations of CP-ALS on one thread, and what a layout costs."""

from __future__ import annotations

import numpy as np

from benchmarks.serial_cp import SerialCP
from daskpart.models.cp.layout.layout import TensorLayout

from .data import tensor


def layout_and_start(
    name: str, rank: int, dtype: str, memory: str = "fast"
) -> tuple[TensorLayout, list[np.ndarray]]:
    """A real tensor laid out, and random first factors."""
    given = tensor(name)
    values = given.values.astype(dtype)
    layout = TensorLayout.build(given.coordinates, values, given.shape, memory=memory)
    generator = np.random.default_rng(0)
    return layout, [generator.random((extent, rank)).astype(dtype) for extent in given.shape]


class Iteration:
    """One iteration of CP-ALS, everything included."""

    params = (["imdb-reviews", "fb15k-237.train", "splatt-med"], [16, 32], ["float32", "float64"])
    param_names = ("data", "rank", "dtype")
    timeout = 600

    def setup(self, data: str, rank: int, dtype: str) -> None:
        self.model = SerialCP(*layout_and_start(data, rank, dtype))
        self.model.iterate(2)  # compiles, and fills what is kept from iteration to iteration

    def time_iteration(self, data: str, rank: int, dtype: str) -> None:
        """All modes: MTTKRP, solve, norms, Gram; then the fit."""
        self.model.iterate()


class OneMode:
    """MTTKRP along each mode by itself, nothing kept."""

    params = (["imdb-reviews", "splatt-med"], [0, 1, 2], ["fast", "small"])
    param_names = ("data", "mode", "memory")
    timeout = 600

    def setup(self, data: str, mode: int, memory: str) -> None:
        self.layout, self.factors = layout_and_start(data, 16, "float64", memory)
        self.time_mttkrp(data, mode, memory)

    def time_mttkrp(self, data: str, mode: int, memory: str) -> None:
        """R = 16, float64."""
        for factor in self.factors:
            factor[0, 0] += 1.0  # what was kept no longer holds
        self.layout.mttkrp(mode, self.factors)


class Layout:
    """Building a layout, and its bytes."""

    params = (["imdb-reviews", "splatt-med"], ["fast", "small"])
    param_names = ("data", "memory")
    timeout = 600

    def setup(self, data: str, memory: str) -> None:
        self.time_build(data, memory)

    def time_build(self, data: str, memory: str) -> None:
        """From coordinates in row-major order."""
        self.layout, self.factors = layout_and_start(data, 16, "float64", memory)

    def track_bytes(self, data: str, memory: str) -> float:
        """Bytes of layout and kept sums over those of coordinates and values."""
        for mode in range(self.layout.n_modes):
            self.layout.mttkrp(mode, self.factors)
        return self.layout.nbytes / self.layout.coordinate_bytes

    track_bytes.unit = "ratio"  # type: ignore[attr-defined]
