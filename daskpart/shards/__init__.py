"""A sparse matrix held by parts: one shard a rank, rows permuted by a partition.

    rows of the matrix            by part           and bordered (η-PASGD, Fig. 1)
      0 ■ ■ . . .   part 1        part 0   1 . . ■ ■ .          ■ . . │ ■
      1 . . ■ ■ .   part 0   ─▶            3 . . ■ . ■    ─▶    ■ . . │ . ■
      2 ■ . . . ■   part 1        part 1   0 ■ ■ . . .          . ■ ■ │
      3 . . ■ . ■   part 0                 2 ■ . . . ■          . ■ . │   ■
                                                               local    linking

`Shards` is a Dask collection with one `Shard` a key ``(name, rank)``, so a shard can be pinned to a
worker and stays there (annotations of dask.array layers are lost, dask#7036). `Shards.array` is the
same data as a Dask array, for everything that dask.array can do.

rank_shard   one part, in local numbers
collection   all parts: a Dask collection
sharding     from a matrix, or from chunks, to shards
"""

from __future__ import annotations

from .collection import Shards
from .rank_shard import Shard
from .sharding import shard

__all__ = ["Shard", "Shards", "shard"]
