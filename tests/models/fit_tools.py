"""What tests do amid a fit, where they let its ranks run, and how they compare two fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from daskpart.collectives import Communicator
from daskpart.collectives.transports.threads import ThreadsCommunicator
from daskpart.models.base.callbacks import EpochCallback


class At(EpochCallback):
    """Does something at the end of a step."""

    def __init__(self, number: int, deed: Callable[[], Any]) -> None:
        self.number, self.deed = number, deed

    def epoch_done(self, row: dict[str, Any], snapshot: Callable[[], Any]) -> bool:
        if row["epoch"] == self.number:
            self.deed()
        return False


def interrupt() -> None:
    raise KeyboardInterrupt


class Connected:
    """A connection to ranks that are made by `make`: no cluster, and no better place."""

    def __init__(self, make: Callable[[], Communicator]) -> None:
        self.make = make

    def open(self, after_loss: bool) -> Communicator:
        return self.make()

    def can_improve(self) -> bool:
        return False


def on_threads(model: Any) -> Any:
    """`model`; every rank of its fits runs the text on a thread of its own, as on workers."""
    model._connection = lambda plan, client: Connected(lambda: ThreadsCommunicator(plan.n_ranks))
    return model


def assert_same(one: Any, other: Any) -> None:
    """Equal in every array of the state, and in the measures of the history."""
    assert_same_states(one, other)
    kept = [name for name in one.history_ if not name.startswith("seconds")]
    pd.testing.assert_frame_equal(one.history_[kept], other.history_[kept], check_exact=True)


def assert_same_states(one: Any, other: Any) -> None:
    for how in ("rows", "replicated"):
        for name in type(one.state_).declared(how):
            mine, theirs = getattr(one.state_, name), getattr(other.state_, name)
            if isinstance(mine, dict):
                assert mine.keys() == theirs.keys()
                mine, theirs = [*mine.values()], [theirs[key] for key in mine]
            pairs = zip(mine, theirs, strict=True) if isinstance(mine, list) else [(mine, theirs)]
            for a, b in pairs:
                np.testing.assert_array_equal(a, b, err_msg=name)
