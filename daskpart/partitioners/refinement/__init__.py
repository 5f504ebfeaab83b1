"""K-way refinement: any partition, one metric, moves of single vertices.

refining ── goals ─┬─ label_propagation, relief   tables of λ; both beside this folder
                   ├─ bits ───┬─ renumber         concurrent volume of a hypercube
                   └─ loads ──┘  routes           rows that ranks send
"""

from __future__ import annotations

from .goals import METRICS
from .refining import refine

__all__ = ["METRICS", "refine"]
