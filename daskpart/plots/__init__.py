"""Pictures of a partition, of what it makes the ranks say to one another, and of runs.

    spy                      convergence                traffic (rank x rank)
    ┌──┬──┬──┬──────┐        RMSE │╲                    from ┌─┬─┬─┬─┐
    │██│  │  │▒ ▒▒▒ │             │ ╲__  validation      0   │ │▒│█│▒│
    ├──┼──┼──┼──────┤             │  ╲____               1   │▒│ │▒│█│
    │  │██│  │▒▒  ▒ │             │   ‾‾‾‾  train        2   │█│▒│ │▒│
    ├──┼──┼──┼──────┤             └────────── epoch      3   │▒│█│▒│ │
    │  │  │██│ ▒▒▒▒ │                                        └─┴─┴─┴─┘
    └──┴──┴──┴──────┘
    local    linking columns
    columns  (the border)

The first is Fig. 1 of the η-PASGD paper: rows grouped by part, the local columns of each part on
the block diagonal, the linking columns as a border on the right. Every function takes ``ax=None``,
draws on it (or on a figure of its own) and returns the axes; none shows a window or changes
matplotlib's settings. Colours are those of Okabe and Ito, which colour-blind readers tell apart.
"""

from __future__ import annotations

from .bordered_form import BorderedForm, bordered_form
from .charts import connectivity_histogram, part_weights, traffic
from .comparison import partition_comparison
from .decomposition import component_diagnostics, loadings
from .networks import confusion, embedding, halo
from .reordered import spy, spy_form
from .runs import predicted_against_measured, simulated, timeline
from .training import convergence, fit_history, learning_curve, loss_history

__all__ = [
    "BorderedForm",
    "bordered_form",
    "component_diagnostics",
    "confusion",
    "connectivity_histogram",
    "convergence",
    "embedding",
    "fit_history",
    "halo",
    "learning_curve",
    "loadings",
    "loss_history",
    "part_weights",
    "partition_comparison",
    "predicted_against_measured",
    "simulated",
    "spy",
    "spy_form",
    "timeline",
    "traffic",
]
