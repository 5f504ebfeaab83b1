"""daskpart: cut sparse data well, hold it on Dask, move only what parts share, learn from it.

Names are loaded on first use, so `import daskpart` is quick. The fixes that make pydata/sparse
safe on a cluster apply at once, in every process that imports daskpart.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import _sparse_fixes

if TYPE_CHECKING:
    from . import containers, data_models, datasets, metrics, parsa, plots
    from .connectivity import Connectivity
    from .hypergraph import Hypergraph
    from .models.cp.diagnostics import cp_diagnostics
    from .models.cp.estimator import CPDecomposition
    from .models.graph_convolution.estimator import GCNClassifier, GCNRegressor
    from .models.implicit_factorization.estimator import ImplicitFactorization
    from .models.linear.estimator import (
        LinearRegression,
        LinearSVC,
        LogisticRegression,
        PoissonRegressor,
    )
    from .models.matrix_factorization.estimator import MatrixFactorization
    from .models.mlp.estimator import MLPClassifier, MLPRegressor
    from .partitioners import partition, refine
    from .partitioners.comparison import compare_partitions
    from .partitions import Partition
    from .readers import read
    from .shards import shard

__version__ = "0.1.0"

_HOME_OF = {
    "CPDecomposition": ".models.cp.estimator",
    "Connectivity": ".connectivity",
    "GCNClassifier": ".models.graph_convolution.estimator",
    "GCNRegressor": ".models.graph_convolution.estimator",
    "Hypergraph": ".hypergraph",
    "ImplicitFactorization": ".models.implicit_factorization.estimator",
    "LinearRegression": ".models.linear.estimator",
    "LinearSVC": ".models.linear.estimator",
    "LogisticRegression": ".models.linear.estimator",
    "MLPClassifier": ".models.mlp.estimator",
    "MLPRegressor": ".models.mlp.estimator",
    "MatrixFactorization": ".models.matrix_factorization.estimator",
    "Partition": ".partitions",
    "PoissonRegressor": ".models.linear.estimator",
    "compare_partitions": ".partitioners.comparison",
    "cp_diagnostics": ".models.cp.diagnostics",
    "partition": ".partitioners",
    "read": ".readers",
    "refine": ".partitioners",
    "shard": ".shards",
}
_MODULES = (
    "collectives",
    "containers",
    "data_models",
    "datasets",
    "errors",
    "layouts",
    "metrics",
    "models",
    "owners",
    "parsa",
    "partitioners",
    "plots",
    "readers",
    "torch",
    "writers",
)

__all__ = [  # noqa: RUF022 - in the order of the data flow
    "read",
    "datasets",
    "containers",
    "data_models",
    "Hypergraph",
    "partition",
    "refine",
    "compare_partitions",
    "Partition",
    "Connectivity",
    "parsa",
    "shard",
    "MatrixFactorization",
    "ImplicitFactorization",
    "CPDecomposition",
    "metrics",
    "cp_diagnostics",
    "LogisticRegression",
    "LinearSVC",
    "LinearRegression",
    "PoissonRegressor",
    "MLPClassifier",
    "MLPRegressor",
    "GCNClassifier",
    "GCNRegressor",
    "plots",
]

_sparse_fixes.apply()


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        value = getattr(import_module(_HOME_OF[name], __name__), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF, *_MODULES})
