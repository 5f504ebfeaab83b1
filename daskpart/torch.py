"""For modules of PyTorch (extra ``torch``): trained over parts of a graph, or sending TopK."""

from __future__ import annotations

from daskpart.models.graph_convolution.torch import HaloExchange, RunOnParts, run_on_parts
from daskpart.models.optimisation.torch_hook import TopKState, topk_hook

__all__ = ["HaloExchange", "RunOnParts", "TopKState", "run_on_parts", "topk_hook"]
