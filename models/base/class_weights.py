"""Weights of classes: a rare class may count as much as a frequent one.

class_weight=   None         every sample counts once
                "balanced"   n / (number of classes · samples of the class)
                {1: 5.0}     as it says; 1 for classes that it does not name
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import InputError


def weights_of_classes(
    class_weight: Any, classes: NDArray[Any], mass: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The weight of each class: "balanced", or as a dict says; `mass` are sums of sample weights.

    A class without any weighs 0 in "balanced", where scikit-learn divides by it.

    Raises
    ------
    InputError
        For a weight of a dict that is below 0, or no finite number; for names that are no classes,
        unless all classes are named, too, as scikit-learn has it.
    """
    if not isinstance(class_weight, str):
        return _as_named(class_weight, classes.tolist())
    found = np.zeros(len(classes))
    np.divide(mass.sum(), len(classes) * mass, out=found, where=mass > 0)
    return found


def _as_named(class_weight: dict[Any, Any], classes: list[Any]) -> NDArray[np.float64]:
    """The weight of each class as a dict says, 1 where it says nothing; InputError as above."""
    for name, weight in class_weight.items():
        if not isinstance(weight, Real) or not 0 <= float(weight) < np.inf:
            raise InputError(
                f"class_weight[{name!r}] is {weight!r}: weights are finite numbers, 0 or more"
            )
    # by name first: scikit-learn looks for 1 alone where a class is "1"
    names = [label if label in class_weight else _as_number(label) for label in classes]
    strange = [name for name in class_weight if name not in names]
    if strange and not all(name in class_weight for name in names):
        raise InputError(
            f"class_weight names {strange[0]!r}, which is none of the {len(classes):,} "
            f"classes, such as {', '.join(map(repr, classes[:3]))}"
        )
    return np.array([class_weight.get(name, 1.0) for name in names], float)


def _as_number(label: Any) -> Any:
    """The whole number that a text is; anything else as it is."""
    try:
        return int(label) if isinstance(label, str) else label
    except ValueError:
        return label


def refuse_balanced(class_weight: Any) -> None:
    """Refuse to count classes in ``partial_fit`` (InputError), which has a part of the samples."""
    if class_weight == "balanced":
        raise InputError(
            "class_weight='balanced' cannot be told from a part of the samples, so not in "
            "partial_fit; give class_weight a dict of what sklearn.utils.class_weight."
            "compute_class_weight('balanced', classes=classes, y=y) finds on all, or many"
        )


def check_total(weight: float, those: str = "samples") -> None:
    """Refuse weights of all samples together by which nothing can be divided (InputError)."""
    if not weight > 0:
        raise InputError(f"the weights of all {those} are 0: there is nothing to learn from")
    if weight == np.inf:
        raise InputError("the sum of the weights is too large for a float: divide them by a number")
