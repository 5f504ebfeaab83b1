"""Names of classes that saved models hold: the name stays when a module moves.

Classes that save or print themselves enter by their class name as they are defined; those of other
folders are listed, and imported when a saved model names them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from daskpart.errors import InputError, ReadError

_CLASSES: dict[str, Any] = {}
_ELSEWHERE = {
    **dict.fromkeys(
        ("SGD", "Momentum", "AdaGrad", "Adam"), "daskpart.models.optimisation.optimisers"
    ),
    "Connectivity": "daskpart.connectivity",
    "Hypergraph": "daskpart.hypergraph",
    "LayerSampler": "daskpart.data_models.samplers",
    "NeighbourSampler": "daskpart.data_models.samplers",
    "VertexSampler": "daskpart.data_models.samplers",
    "Partition": "daskpart.partitions",
}


def register(kind: type) -> type:
    """Make a class known by its name; a decorator.

    Raises
    ------
    InputError
        For a name of ours: models that were saved with ours would be read as the other.
    """
    known = _CLASSES.get(kind.__name__)
    ours = kind.__name__ in _ELSEWHERE or (known is not None and _is_ours(known))
    if ours and not _is_ours(kind):
        raise InputError(
            f"{kind.__module__}.{kind.__qualname__}: saved models know a class of daskpart by this "
            "name; give it another"
        )
    _CLASSES[kind.__name__] = kind
    return kind


def _is_ours(kind: type) -> bool:
    return kind.__module__.startswith("daskpart.")


def name_of(kind: type) -> str | None:
    """The stable name of a class; None if it has none."""
    if _CLASSES.get(kind.__name__) is kind:
        return kind.__name__
    return kind.__name__ if _ELSEWHERE.get(kind.__name__) == kind.__module__ else None


def class_named(name: str, source: Any) -> Any:
    """The class of a name; a name comes from a file, so nothing else is ever imported.

    Raises
    ------
    ReadError
        For a name that this version does not know.
    """
    if name in _CLASSES:
        return _CLASSES[name]
    if name in _ELSEWHERE:
        return getattr(import_module(_ELSEWHERE[name]), name)
    raise ReadError(
        f"{source} names the class {name!r}, which this version of daskpart does not know. Use the "
        "version that wrote it."
    )
