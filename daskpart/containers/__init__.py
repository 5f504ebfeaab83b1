"""Any container of sparse data as sorted coordinates: matrices of ratings, tensors of counts.

coordinates   what both share: checks, one stable counting sort, one value a cell
column_names  which columns of a table are users, items, ratings
matrix        `as_matrix`: what is not stored is unknown, a stored zero is known
tensor        `as_tensor`: what is not stored is 0
dask_blocks   what the chunks of a Dask array share, and their nonzeros by part, where they are
numbering     the order in which a rank keeps what it touches: local, owned, nonlocal
"""

from __future__ import annotations

from daskpart._floor.kernels import keep_all

from .matrix import LabelledMatrix, as_matrix
from .tensor import LabelledTensor, as_tensor, from_coordinates

keep_all("sparse")  # it compiles for seconds in every process what slices an array

__all__ = ["LabelledMatrix", "LabelledTensor", "as_matrix", "as_tensor", "from_coordinates"]
