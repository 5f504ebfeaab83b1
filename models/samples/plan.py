"""The plan of a model of samples: which rank has which."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from daskpart.models.base.plan import FitPlan
from daskpart.models.base.reports import PlanReport


@dataclass(eq=False, repr=False, kw_only=True)
class SamplesPlanReport(PlanReport):
    """Also how many features each rank touches, where rows were placed by them.

    Attributes
    ----------
    touched : list of int, or None
    on_disk : str
        When ranks keep their samples on disk, in words; "" for never.
    """

    touched: list[int] | None = None
    on_disk: str = ""

    def rows(self) -> dict[str, str]:
        """Name → value in plain words, in the order shown."""
        words = super().rows()
        if self.on_disk:
            words["samples on disk"] = self.on_disk
        if self.touched is None:
            return words
        mean, most = np.mean(self.touched), max(self.touched)
        return {"features a rank": f"{mean:,.0f} on average, {most:,} at most", **words}


@dataclass(frozen=True, eq=False, kw_only=True)
class SamplesPlan(FitPlan):
    """Who has which samples, in which order.

    Attributes
    ----------
    members : list of int64 ndarray
        The samples of each rank, in the order in which it holds them.
    weight_bytes : int
        That each rank holds besides its samples.
    row_bytes : int64 ndarray of shape (n_ranks,)
        Of its samples; zeros where that is not known beforehand.
    passing_bytes : int64 ndarray of shape (n_ranks,), or None
        That come and go beside those.
    touched : int64 ndarray of shape (n_ranks,), or None
        Distinct features of each rank's rows, where rows were placed by them.
    shards : int32 ndarray of shape (n_features + 1,), or None
        Of ``solver="server"``: the shard of each feature; the intercept's is the last. None: by a
        hash.
    on_disk : str
        When ranks keep their samples on disk, in words; "" for never.
    """

    members: list[NDArray[np.int64]] = field(repr=False)
    weight_bytes: int = 0
    row_bytes: NDArray[np.int64] = field(repr=False)
    passing_bytes: NDArray[np.int64] | None = field(default=None, repr=False)
    touched: NDArray[np.int64] | None = field(default=None, repr=False)
    shards: NDArray[np.int32] | None = field(default=None, repr=False)
    on_disk: str = ""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Samples of each rank."""
        return tuple(map(len, self.members))

    @property
    def cut(self) -> None:
        """Nothing is kept: samples are placed again, the same by the same seed."""

    def memory(self) -> dict[str, NDArray[np.int64]]:
        """Bytes that each rank will hold."""
        weights = np.full(self.n_ranks, self.weight_bytes, np.int64)
        held = {"samples": self.row_bytes, "weights": weights}
        if self.passing_bytes is not None:
            held["gradients, or the state on its way"] = self.passing_bytes
        return held

    def report(self) -> SamplesPlanReport:
        """What is known of a step before it."""
        return self._report(
            SamplesPlanReport,
            touched=None if self.touched is None else self.touched.tolist(),
            on_disk=self.on_disk,
        )
