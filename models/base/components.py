"""What models of components share once they are fitted, whatever their factors are of."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin

from .estimator import DistributedEstimator

COMPONENT = "component"  # the axis of the components in what is labelled


class ComponentModel(TransformerMixin, DistributedEstimator):
    """A model whose `transform` gives a column a component; its state has `n_components`."""

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Name the columns of `transform`: component0, component1 and so on."""
        names = [f"{COMPONENT}{place}" for place in range(self._fitted().n_components)]
        return np.array(names, dtype=object)
