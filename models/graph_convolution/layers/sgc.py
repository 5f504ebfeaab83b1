"""Simple graph convolution: Z = Â^hops H W + b (Wu et al., ICML 2019); at its best with hidden=().

With the product kept, an epoch of one such layer sends no row at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from daskpart._floor.checks import whole_number

from .base import Layer


@dataclass(frozen=True)
class SGC(Layer):
    """As the base has it, with two hops where nothing else is said."""

    options: ClassVar[tuple[str, ...]] = ("hops",)
    hops: int = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "hops", whole_number(self.hops, "hops", 1))
