"""Updates per second of the SGD kernel, one thread, float32, side by side with LIBMF."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from daskpart._floor.lanes import blank_rows
from daskpart.models.matrix_factorization.kernels.sgd import (
    lanes_of,
    padded_width,
    sgd_adagrad,
    sgd_fixed_rate,
)
from daskpart.models.matrix_factorization.rank_data import ITEM_BLOCK_BYTES, USER_BLOCK_BYTES

from . import libmf_peer
from .data import Triples, ratings

KERNELS = {"adagrad": sgd_adagrad, "constant": sgd_fixed_rate}


class SgdKernel:
    """One pass over all ratings in the order that a fit takes them."""

    params = (["ml-1m", "power-law-10m"], [32, 50, 64], ["adagrad", "constant"])
    param_names = ("data", "n_components", "rate")
    timeout = 600

    def setup(self, data: str, n_components: int, rate: str) -> None:
        self.triples = in_blocks(ratings(data), n_components)
        self.kernel, self.n_components = KERNELS[rate], n_components
        n_users, n_items = (int(ids.max()) + 1 for ids in self.triples[:2])
        width = padded_width(n_components)
        generator = np.random.default_rng(0)
        self.factors = [blank_rows(n, width, np.float32) for n in (n_users, n_items)]
        for factor in self.factors:
            factor[:, :n_components] = generator.uniform(-0.1, 0.1, (len(factor), n_components))
        self.no_weights = np.zeros(0, np.float32)
        self.vectors = [np.ones(n, np.float32) for n in (n_users, n_items) * 2]
        self.time_pass(data, n_components, rate)  # compiles

    def time_pass(self, data: str, n_components: int, rate: str) -> None:
        """One pass."""
        self.kernel(
            lanes_of(self.factors[0].shape[1]),
            *self.triples, 0, self.triples[0].size, self.n_components, *self.factors, *self.vectors,
            np.float32(3.5), np.float32(0.01), np.float32(0.05), True, self.no_weights, False,
            None,
        )  # fmt: skip

    def track_ratio_to_libmf(self, data: str, n_components: int, rate: str) -> float:
        """Updates per second over LIBMF's, one thread: medians of turns side by side."""
        own, peer = self.seconds_side_by_side(data, n_components, rate)
        return peer / own

    track_ratio_to_libmf.unit = "ratio"  # type: ignore[attr-defined]

    def seconds_side_by_side(
        self, data: str, n_components: int, rate: str, turns: int = 3
    ) -> tuple[float, float]:
        """Median seconds of a pass: ours, and LIBMF's, measured in turn."""
        own, peer = [], []
        for _ in range(turns):
            peer.append(libmf_peer.seconds_per_iteration(ratings(data), n_components))
            begin = perf_counter()
            for _ in range(5):
                self.time_pass(data, n_components, rate)
            own.append((perf_counter() - begin) / 5)
        return float(np.median(own)), float(np.median(peer))


def in_blocks(triples: Triples, n_components: int) -> Triples:
    """The ratings shuffled, then gathered into cache blocks, as `arrange_ratings` does."""
    generator = np.random.default_rng(0)
    row_bytes = 4 * padded_width(n_components)
    keys = []
    for ids, block_bytes in zip(triples[:2], (USER_BLOCK_BYTES, ITEM_BLOCK_BYTES), strict=True):
        n_rows = int(ids.max()) + 1
        n_blocks = -(-n_rows * row_bytes // block_bytes)
        keys.append((np.arange(n_rows) * n_blocks // n_rows)[ids])
    order = generator.permutation(triples[0].size)
    order = order[np.lexsort((keys[1][order], keys[0][order]))]
    rows, columns, values = triples
    return rows[order], columns[order], values[order]
