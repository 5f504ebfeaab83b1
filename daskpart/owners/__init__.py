"""Who owns each shared row, and what its travels cost inside a hypercube.

packing   owners drawn at random, or packed: of several modes at once, or for an embedding
routes    where a row goes inside a hypercube allreduce: bit arithmetic alone
volume    rows that each rank sends and receives in each round of an embedding
"""

from __future__ import annotations

from .packing import embedded_packed_owners, packed_owners, random_owners
from .volume import HypercubeVolume, hypercube_volume

__all__ = [
    "HypercubeVolume",
    "embedded_packed_owners",
    "hypercube_volume",
    "packed_owners",
    "random_owners",
]
