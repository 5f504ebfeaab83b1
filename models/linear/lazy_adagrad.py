"""AdaGrad with an elastic net, a coordinate at a time: a step touches the entries of its gradient.

    a step of the whole vector                    what is done instead, where g has entries
    r ← √(r² + g²)                                v_j brought up to date, then the same
    w ← w − η g / r
    |w_j| ← max(0, |w_j| − η λ₁ / r_j)            T ← T + η;  v_j is behind by P_j = T − last_j,
    w_j ← w_j / (1 + η λ₂ / r_j)                  and P_j stands for η on the left

so the penalty of all steps in which a coordinate had no gradient is one proximal step, of their
summed rates. Whoever reads a weight brings it up to date for himself and leaves it as it is:
weights change by the sum of all ranks alone, and stay equal on all to the bit. A coordinate that
had no gradient yet (r_j = 0) has no rate either, so no penalty: a weight that it has all the same
is of another fit, which a step without end would undo. Where no sample has the feature that is what
is wanted, and `sgd.begin` does it.

Source: Duchi, Hazan and Singer, "Adaptive subgradient methods for online learning and stochastic
optimization", JMLR 2011, §5.1 (composite mirror descent). Sums of squares begin at zero, so the
first step of a coordinate is η long, whatever the scale of its feature: word counts need none. What
is kept of them is the root r: a weight is read more often than it moves.
"""

from __future__ import annotations

from math import sqrt

from daskpart._floor.kernels import kernel
from daskpart.models.optimisation.optimisers import AdaGrad

_EPSILON = AdaGrad.epsilon


@kernel(internal=True, _nrt=False)
def soft(value: float, threshold: float) -> float:
    """Nearer to 0 by `threshold`, and not beyond."""
    if value > threshold:
        return value - threshold
    if value < -threshold:
        return value + threshold
    return 0.0


@kernel(internal=True, _nrt=False)
def current(value: float, pending: float, root: float, l1: float, l2: float) -> float:
    """A weight brought up to date by the rates that it is behind."""
    if root == 0.0:
        return value
    root += _EPSILON
    if l1 > 0.0:
        value = soft(value, l1 * pending / root)
    return value * (root / (root + l2 * pending))


@kernel(internal=True, _nrt=False)
def adapted(value: float, rate: float, gradient: float, root: float) -> tuple[float, float]:
    """A weight, up to date, after a step of its own, and its root."""
    root = sqrt(root * root + gradient * gradient)
    return value - rate * gradient / (root + _EPSILON), root
