"""How weights move along their gradient: SGD, momentum, AdaGrad, Adam.

    gradients ─┐
    slots ─────┼─► update ─► weights and slots, changed in place
    rate ──────┘

What an optimiser remembers of each weight (its *slots*: a velocity, sums of squares) is a dict of
arrays, so that it is replicated in a `State` as it is and comes back with the same bits. An
optimiser is a frozen description: it may be a static argument of a text, and the same numbers on
every rank give the same weights there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checks import finite_number, several
from daskpart._floor.kernels import kernel
from daskpart.errors import InputError

Weights = Sequence[NDArray[Any]]
Slots = dict[str, NDArray[Any]]  # "slot.place" → as the weight at this place


def are_bounded(weights: Weights) -> bool:
    """Whether the sum of squares of each weight is finite in its own dtype.

    Of weights that are larger, or NaN, a network has no finite outputs.
    """
    return all(bool(np.isfinite(np.vdot(weight, weight))) for weight in weights)


@dataclass(frozen=True)
class Optimizer(ABC):
    """The base of the optimisers: estimators take one as ``optimizer=``.

    Parameters
    ----------
    weight_decay : float or sequence of float
        Times the weight is added to its gradient (L2); several are one for each weight.

    Raises
    ------
    InputError
        For a decay that is no finite number of at least 0.
    """

    slots: ClassVar[tuple[str, ...]] = ()
    weight_decay: float | tuple[float, ...] = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        decay: Any = self.weight_decay
        if isinstance(decay, Real):
            self._keep(weight_decay=finite_number(decay, "weight_decay"))
            return
        numbers = several(decay, "weight_decay", "a number, or one for each weight")
        checked = tuple(finite_number(each, "a number of weight_decay") for each in numbers)
        self._keep(weight_decay=checked)

    def _keep(self, **checked: Any) -> None:
        """Numbers as Python has them: a saved model has no others, and must go on as this one."""
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def n_temporaries(self) -> int:
        """Arrays as large as a weight that a step makes and drops, at most."""
        return 2

    def first_slots(self, weights: Weights) -> Slots:
        """What is remembered before the first step: zeros.

        Raises
        ------
        InputError
            For decays of more weights, or of fewer.
        """
        if isinstance(self.weight_decay, tuple) and len(self.weight_decay) != len(weights):
            raise InputError(
                f"weight_decay has {len(self.weight_decay)} numbers: give one, or one for each of "
                f"the {len(weights)} weights"
            )
        return {
            f"{slot}.{place}": np.zeros_like(weight)
            for slot in self.slots
            for place, weight in enumerate(weights)
        }

    def update(
        self, weights: Weights, gradients: Weights, slots: Slots, *, rate: float, number: int
    ) -> None:
        """Change weights and slots in place.

        Parameters
        ----------
        weights, gradients : sequences of arrays of equal shapes
            Gradients are left as they are.
        slots : dict of arrays
            As `first_slots` gives them.
        rate : float
        number : int
            Of the step, from 1.
        """
        for place, (weight, gradient) in enumerate(zip(weights, gradients, strict=True)):
            own = [slots[f"{slot}.{place}"] for slot in self.slots]
            self._move(weight, gradient, own, self._decay_of(place), rate, number)

    def to_dict(self) -> dict[str, Any]:
        """Its numbers by their names; a saved model holds them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """What `to_dict` gave."""
        return cls(**values)

    def _decay_of(self, place: int) -> float:
        decay = self.weight_decay
        return decay[place] if isinstance(decay, tuple) else decay

    @abstractmethod
    def _move(
        self,
        weight: NDArray[Any],
        gradient: NDArray[Any],
        slots: list[NDArray[Any]],
        decay: float,
        rate: float,
        number: int,
    ) -> None:
        """Change one weight and its slots in place."""


def _below_one(value: Any, name: str) -> float:
    number = finite_number(value, name, most=1)
    if number == 1:
        raise InputError(f"{name} is 1: give a number below 1")
    return number


def _with_decay(gradient: Any, weight: Any, decay: float) -> Any:
    return gradient + weight.dtype.type(decay) * weight if decay else gradient


@dataclass(frozen=True)
class SGD(Optimizer):
    """w ← w − rate · g."""

    def _move(
        self, weight: Any, gradient: Any, slots: Any, decay: float, rate: float, number: int
    ) -> None:
        weight -= weight.dtype.type(rate) * _with_decay(gradient, weight, decay)


@dataclass(frozen=True)
class Momentum(Optimizer):
    """v ← momentum · v + g;  w ← w − rate · v, with `nesterov` − rate · (g + momentum · v).

    Parameters
    ----------
    momentum : float
        In [0, 1).
    nesterov : bool
    """

    slots: ClassVar[tuple[str, ...]] = ("velocity",)
    momentum: float = 0.9
    nesterov: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.nesterov, bool | np.bool_):
            raise InputError(f"nesterov is {self.nesterov!r}: give True or False")
        momentum = _below_one(self.momentum, "momentum")
        self._keep(momentum=momentum, nesterov=bool(self.nesterov))

    @property
    def n_temporaries(self) -> int:
        """Two more for the direction of `nesterov`."""
        return 4 if self.nesterov else 2

    def _move(
        self, weight: Any, gradient: Any, slots: Any, decay: float, rate: float, number: int
    ) -> None:
        (velocity,) = slots
        gradient = _with_decay(gradient, weight, decay)
        velocity *= velocity.dtype.type(self.momentum)
        velocity += gradient
        direction = velocity
        if self.nesterov:
            direction = gradient + velocity.dtype.type(self.momentum) * velocity
        weight -= weight.dtype.type(rate) * direction


@dataclass(frozen=True)
class AdaGrad(Optimizer):
    """q ← q + g²;  w ← w − rate · g / (√q + ε) (Duchi, Hazan and Singer 2011).

    Parameters
    ----------
    epsilon : float
    """

    slots: ClassVar[tuple[str, ...]] = ("squares",)
    epsilon: float = 1e-10

    def __post_init__(self) -> None:
        super().__post_init__()
        self._keep(epsilon=finite_number(self.epsilon, "epsilon"))

    @property
    def n_temporaries(self) -> int:
        """Of g², √q and the step."""
        return 3

    def _move(
        self, weight: Any, gradient: Any, slots: Any, decay: float, rate: float, number: int
    ) -> None:
        (squares,) = slots
        gradient = _with_decay(gradient, weight, decay)
        squares += gradient * gradient
        divisor = np.sqrt(squares)
        divisor += weight.dtype.type(self.epsilon)
        weight -= weight.dtype.type(rate) * (gradient / divisor)


@dataclass(frozen=True)
class Adam(Optimizer):
    """Means of g and g², corrected for their start at zero (Kingma and Ba 2015, Alg. 1).

    Parameters
    ----------
    beta1, beta2 : float
        In [0, 1).
    epsilon : float
    """

    slots: ClassVar[tuple[str, ...]] = ("mean", "squares")
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        super().__post_init__()
        beta1, beta2 = _below_one(self.beta1, "beta1"), _below_one(self.beta2, "beta2")
        self._keep(beta1=beta1, beta2=beta2, epsilon=finite_number(self.epsilon, "epsilon"))

    @property
    def n_temporaries(self) -> int:
        """None: one pass in place."""
        return 0

    def _move(
        self, weight: Any, gradient: Any, slots: Any, decay: float, rate: float, number: int
    ) -> None:
        numbers = (
            self.beta1, 1 - self.beta1, self.beta2, 1 - self.beta2,
            1 / np.sqrt(1 - self.beta2**number), self.epsilon, rate / (1 - self.beta1**number),
            decay,
        )  # fmt: skip
        held = (weight, *slots)
        flat = [np.ascontiguousarray(each).reshape(-1) for each in (*held, gradient)]
        adam_step(*flat, *map(weight.dtype.type, numbers))
        for array, changed in zip(held, flat, strict=False):
            if not array.flags.c_contiguous:  # the change is in a copy
                array[...] = changed.reshape(array.shape)


@kernel
def adam_step(
    weight: Any, mean: Any, squares: Any, gradient: Any,
    beta1: float, rest1: float, beta2: float, rest2: float,
    correction: float, epsilon: float, rate: float, decay: float,
) -> None:  # fmt: skip
    """A step of Adam in one pass over all that it reads: NumPy takes a dozen."""
    for i in range(len(weight)):
        slope = gradient[i]
        if decay:
            slope += decay * weight[i]
        mean[i] = beta1 * mean[i] + rest1 * slope
        squares[i] = beta2 * squares[i] + rest2 * (slope * slope)
        weight[i] -= rate * (mean[i] / (np.sqrt(squares[i]) * correction + epsilon))


OPTIMIZERS: Mapping[str, type[Optimizer]] = {
    "sgd": SGD,
    "momentum": Momentum,
    "adagrad": AdaGrad,
    "adam": Adam,
}


def with_decay(optimizer: str | Optimizer, decay: float | tuple[float, ...]) -> Optimizer:
    """The optimiser of a name, or a given one, with the weight decay of a model if that has one."""
    if not isinstance(optimizer, Optimizer):
        return OPTIMIZERS[optimizer](weight_decay=decay)
    return replace(optimizer, weight_decay=decay) if np.any(decay) else optimizer


def require_one_decay(optimizer: Any, decay: Any, name: str) -> None:
    """Refuse a given optimiser with a weight decay beside that of the model, a parameter `name`."""
    if isinstance(optimizer, Optimizer) and np.any(optimizer.weight_decay) and np.any(decay):
        raise InputError(
            f"{name} is {decay!r} and the weight_decay of the optimizer "
            f"{optimizer.weight_decay!r}: give the model {name}=0, or the optimizer none"
        )


BEGAN = "began"  # of the slots of a fit: the steps that others had done before these began


def slots_from(steps: int) -> Slots:
    """Slots of a fit that takes another optimiser after so many steps: zeros, made as it begins.

    Rates go on by the steps of the fit. Adam corrects for its start at zero by its own.
    """
    return {BEGAN: np.array(steps)} if steps else {}
