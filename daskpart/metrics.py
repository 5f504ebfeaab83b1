"""How good a model's lists are: the face of `daskpart.models.metrics`."""

from __future__ import annotations

from daskpart.models.metrics import evaluate_ranking, most_popular

__all__ = ["evaluate_ranking", "most_popular"]
