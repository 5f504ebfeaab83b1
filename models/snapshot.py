"""The whole state of a fit between two epochs, and how it is kept on disk.

    Factors ──save──► run.npz | run.zarr ──load──► the same bits ──► resume as if never stopped
       ▲ one an epoch; `checkpoints` says which of them stay on disk

Training that resumes from a `Factors` gives the same bits as training that was never interrupted,
so everything that a later epoch reads is here: both factors W (M×F) and H (N×F), the biases, the
sums of squared gradients of AdaGrad, and the state of the learning rate.
"""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from daskpart.errors import InputError, ReadError

from .labels import LabelIndex, pack_labels, unpack_labels
from .same_fit import require_same_fit
from .storage import read_arrays, write_arrays

_ARRAYS = (
    "user_factors",
    "item_factors",
    "user_bias",
    "item_bias",
    "user_gradient",
    "item_gradient",
)
_SCALARS = (
    "global_mean",
    "epoch",
    "learning_rate_state",
    "history",
    "user_name",
    "item_name",
    "settings",
)


@dataclass(eq=False)
class Factors:
    """Both factors, and all else that training and prediction need.

    Attributes
    ----------
    user_factors, item_factors : float32 ndarray of shape (M, F) and (N, F)
    user_bias, item_bias : float32 ndarray of shape (M,) and (N,)
        Zeros when the model has no biases.
    global_mean : float
        Added to every prediction.
    user_gradient, item_gradient : float32 ndarray of shape (M,) and (N,)
        Sums of squared gradients (AdaGrad).
    epoch : int
        Number of whole epochs done.
    learning_rate_state : dict of str to float
    history : list of dict
        One row an epoch.
    user_labels, item_labels : ndarray or None
        None: positions are the labels.
    user_name, item_name : str
        Names of the two axes.
    settings : dict
        Of the fit, JSON: what must be equal for a resume to be the same fit.
    """

    user_factors: np.ndarray
    item_factors: np.ndarray
    user_bias: np.ndarray
    item_bias: np.ndarray
    global_mean: float = 0.0
    user_gradient: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    item_gradient: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    epoch: int = 0
    learning_rate_state: dict[str, float] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    user_labels: np.ndarray | None = None
    item_labels: np.ndarray | None = None
    user_name: str = "user"
    item_name: str = "item"
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.user_gradient.size:
            self.user_gradient = np.zeros(self.n_users, np.float32)
        if not self.item_gradient.size:
            self.item_gradient = np.zeros(self.n_items, np.float32)
        self._check_lengths()

    def _check_lengths(self) -> None:
        n_components = self.n_components
        wanted = {
            "item_factors": (self.n_items, n_components),
            "user_bias": (self.n_users,),
            "item_bias": (self.n_items,),
            "user_gradient": (self.n_users,),
            "item_gradient": (self.n_items,),
            "user_labels": (self.n_users,),
            "item_labels": (self.n_items,),
        }
        for name, shape in wanted.items():
            value = getattr(self, name)
            if value is not None and value.shape != shape:
                raise InputError(f"{name} has shape {value.shape}, the factors need {shape}.")

    @property
    def n_users(self) -> int:
        """M, rows of the ratings."""
        return int(self.user_factors.shape[0])

    @property
    def n_items(self) -> int:
        """N, columns of the ratings."""
        return int(self.item_factors.shape[0])

    @property
    def n_components(self) -> int:
        """F, length of one factor row."""
        return int(self.user_factors.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """(M, N), the shape of the ratings."""
        return self.n_users, self.n_items

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays but the labels."""
        return sum(getattr(self, name).nbytes for name in _ARRAYS)

    def users(self) -> LabelIndex:
        """Look-up from user labels to rows of `user_factors`."""
        return self._index("users", self.user_labels, self.n_users, self.user_name)

    def items(self) -> LabelIndex:
        """Look-up from item labels to rows of `item_factors`."""
        return self._index("items", self.item_labels, self.n_items, self.item_name)

    def _index(self, axis: str, labels: np.ndarray | None, n: int, name: str) -> LabelIndex:
        """Build a look-up once: hashing 100 000 labels takes longer than most answers."""
        kept: dict[str, LabelIndex] = self.__dict__.setdefault("_indexes", {})
        if axis not in kept or kept[axis].labels is not labels:
            kept[axis] = LabelIndex(labels, n, name)
        return kept[axis]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_indexes"}

    def is_finite(self) -> bool:
        """Whether factors and biases hold neither NaN nor infinity."""
        return all(bool(np.isfinite(getattr(self, name)).all()) for name in _ARRAYS[:4])

    def copy(self) -> Factors:
        """A copy that shares no array that training changes (labels are shared)."""
        return replace(
            self,
            **{name: getattr(self, name).copy() for name in _ARRAYS},
            learning_rate_state=dict(self.learning_rate_state),
            history=copy.deepcopy(self.history),
            settings=copy.deepcopy(self.settings),
        )

    def __repr__(self) -> str:
        users, items = self.shape
        labelled = "labelled" if self.item_labels is not None else "unlabelled"
        return (
            f"Factors({users:,} {self.user_name}s × {items:,} {self.item_name}s, "
            f"{self.n_components} components, after epoch {self.epoch}, {labelled}, "
            f"{self.nbytes / 1e6:,.1f} MB)"
        )

    def save(self, path: str | os.PathLike) -> None:
        """Write to `path`, whole or not at all: a checkpoint that was there is kept on failure.

        Parameters
        ----------
        path : path
            ``*.npz`` (one file) or ``*.zarr`` (a folder; needs zarr).

        Raises
        ------
        InputError
            For another suffix, or labels that are neither text, numbers nor dates.
        OSError
            When the disk refuses; names the path and the space needed.
        """
        user_labels, user_description = pack_labels(self.user_labels, "user_labels")
        item_labels, item_description = pack_labels(self.item_labels, "item_labels")
        header = {name: getattr(self, name) for name in _SCALARS}
        header["labels"] = [user_description, item_description]
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        write_arrays(path, {**arrays, **user_labels, **item_labels}, header)

    @classmethod
    def load(cls, path: str | os.PathLike) -> Factors:
        """Read what `save` wrote, bit for bit.

        Raises
        ------
        ReadError
            When `path` is absent, damaged, or holds something else.
        """
        arrays, header = read_arrays(path)
        missing = [name for name in _ARRAYS if name not in arrays]
        missing += [name for name in (*_SCALARS, "labels") if name not in header]
        if missing:
            raise ReadError(f"{path} holds no factors: it lacks {', '.join(missing)}.")
        users, items = header["labels"]
        state: dict[str, Any] = {name: arrays[name] for name in _ARRAYS}
        state |= {name: header[name] for name in _SCALARS}
        state["user_labels"] = unpack_labels(arrays, "user_labels", users)
        state["item_labels"] = unpack_labels(arrays, "item_labels", items)
        return cls(**state)

    def check_resumes(
        self,
        settings: dict[str, Any],
        shape: tuple[int, int],
        n_components: int,
        source: str | os.PathLike = "the checkpoint",
    ) -> None:
        """Check that a fit with these settings may go on from here.

        Raises
        ------
        InputError
            When anything differs; names both values of each difference.
        """
        ours = {**self.settings, "shape": [*self.shape], "n_components": self.n_components}
        theirs = {**settings, "shape": [*map(int, shape)], "n_components": int(n_components)}
        require_same_fit(ours, theirs, source)


def same_bits(one: Factors, other: Factors) -> bool:
    """Whether two states are equal in every bit (NaN equals NaN), dtypes included."""
    for each in fields(Factors):
        a, b = getattr(one, each.name), getattr(other, each.name)
        if isinstance(a, np.ndarray) != isinstance(b, np.ndarray):
            return False
        if isinstance(a, np.ndarray):
            if a.dtype != b.dtype or a.shape != b.shape:
                return False
            if a.tolist() != b.tolist() if a.dtype.kind == "O" else a.tobytes() != b.tobytes():
                return False
        elif repr(a) != repr(b):
            return False
    return True
