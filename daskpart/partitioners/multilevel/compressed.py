"""Levels put aside while others are worked on, in little memory, and made again.

    hypergraph ──▶ finest level     let go; made again from the hypergraph, of whose nets only the
                        │           costs were kept: 0 where a net was dropped or merged
                   finer levels     packed: every number in the fewest bytes that hold it
                        │               pins      of up to 65,536 vertices: 2 bytes, not 4
                        │               pointer   only the sizes of the nets: mostly 1 byte, not 4
                   coarsest level       costs, weights: mostly 1 or 2 bytes, not 4 or 8

Coarsening makes levels one after another, and the search needs them in the opposite order: of all
but the one at work these are kept, and of the coarsest one, too, while its pieces are cut. To pack
and unpack is a copy; to make the finest level again takes less than the half of what it took at
first, since no identical nets are looked for. Where a level has nearly all pins of the finer one,
only one of the two is kept, and merged once more.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from daskpart.errors import InputError
from daskpart.partitioners.balance import columns

from .level import Level, by_size, lay_out, level_without_transpose, squeeze

if TYPE_CHECKING:
    from collections.abc import Callable

    from daskpart.hypergraph import Hypergraph


MOST_PINS = 2**30 - 1  # twice as many are edge ends of the star expansion: int32
MOST_SMALL = 2**31 - 1  # sums of weights and of costs up to which each takes 4 bytes


class _Packed(NamedTuple):
    """A level without transpose, each array in the narrowest unsigned type that holds it."""

    weights: np.ndarray  # [n_vertices, n_weights]
    sizes: np.ndarray  # [n_nets]
    pins: np.ndarray  # [n_pins]
    net_costs: np.ndarray  # [n_nets]
    amounts: np.dtype  # of weights and costs, unpacked


def narrow(numbers: np.ndarray) -> np.ndarray:
    """The numbers, none of them negative, in the narrowest unsigned type that holds them all."""
    return numbers.astype(np.min_scalar_type(numbers.max(initial=0)))


def packed(level: Level) -> Callable[[], Level]:
    """Keep a level in little memory; what is returned makes it again."""
    sizes = narrow(np.diff(level.net_pointer))
    amounts = level.weights.dtype
    kept = narrow(level.weights), sizes, narrow(level.pins), narrow(level.net_costs)
    return partial(_unpacked, _Packed(*kept, amounts))


def _unpacked(kept: _Packed) -> Level:
    pointer = np.zeros(kept.sizes.size + 1, np.int32)
    np.cumsum(kept.sizes, dtype=np.int32, out=pointer[1:])
    weights, net_costs = kept.weights.astype(kept.amounts), kept.net_costs.astype(kept.amounts)
    return level_without_transpose(weights, pointer, kept.pins.astype(np.int32), net_costs)


def _plain(array: np.ndarray, dtype: type) -> np.ndarray:
    """The array itself where kernels take it as it is, else a copy.

    A read-only array is another type to numba, and would compile everything twice.
    """
    return np.require(array, dtype, ("C", "W", "A"))


class Finest:
    """The cleaned level of a hypergraph, whose own arrays are left as they are.

    Vertices keep their numbers; nets do not (merged, dropped, sorted by size).

    Parameters
    ----------
    hypergraph : Hypergraph

    Raises
    ------
    InputError
        2^30 pins or more.
    """

    def __init__(self, hypergraph: Hypergraph) -> None:
        if hypergraph.n_pins > MOST_PINS:
            raise InputError(f"{hypergraph.n_pins} pins: the engine takes {MOST_PINS} at most")
        weights, costs = columns(hypergraph), hypergraph.net_costs
        most = max(*weights.sum(axis=0, dtype=np.float64), costs.sum(dtype=np.float64))
        self._amounts = np.int32 if most <= MOST_SMALL else np.int64  # one for both: see `Level`
        self._hypergraph = hypergraph
        self._costs: np.ndarray | None = None  # of the nets of the hypergraph, once cleaned
        self._level: Level | None = None

    def taken(self) -> Level:
        """The level, which from now on only the caller holds."""
        level = self.level()
        self._level = None
        return level

    def level(self) -> Level:
        """The level, made again where it was taken."""
        if self._level is None:
            self._level = self._made()
        return self._level

    def _made(self) -> Level:
        hypergraph, n = self._hypergraph, self._hypergraph.n_vertices
        pointer = hypergraph.net_pointer.astype(np.int32)
        pins, itself = _plain(hypergraph.pins, np.int32), np.arange(n, dtype=np.int32)
        if self._costs is None:
            costs = _plain(hypergraph.net_costs, self._amounts)
            costs, sizes = squeeze(pointer, pins, costs, itself, n)
            self._costs = narrow(costs)
        else:
            costs, sizes = self._costs.astype(self._amounts), np.diff(pointer)
        order, clean_pointer, costs = by_size(costs, sizes)
        del sizes
        clean_pins = lay_out(pointer, pins, itself, n, order, clean_pointer[-1])
        weights = columns(hypergraph).astype(self._amounts)
        return level_without_transpose(weights, clean_pointer, clean_pins, costs)


def level_of(hypergraph: Hypergraph) -> Level:
    """Return the cleaned level of a hypergraph, see `Finest`."""
    return Finest(hypergraph).taken()
