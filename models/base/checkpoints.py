"""Checkpoints of a fit on disk: which are written, which stay, which is the newest whole one.

    after epoch 4, 8, 12 …      run.epoch-000008.npz, run.epoch-000012.npz      (each 4, 2 stay)

What is written is the `State` of a model between two steps.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from daskpart._floor.archive import SUFFIXES, checked_suffix, read_arrays
from daskpart._floor.atomic import check_writable, remove
from daskpart._floor.checks import whole_number
from daskpart.errors import InputError, ReadError, warn

from .state import State


class CheckpointWriter:
    """Write the state each n epochs, keep the last few.

    Parameters
    ----------
    path : path
        ``folder/run.npz`` or ``folder/run.zarr`` gives ``folder/run.epoch-000012.npz``;
        a path without a suffix is a folder, and gives ``folder/epoch-000012.npz``.
    state : type
        Subclass of `State` whose ``load`` reads them.
    every : int, default=1
        Epochs between two checkpoints, counted from epoch 0.
    keep : int, default=2
        How many stay; older ones are removed after a newer one is whole.

    Raises
    ------
    InputError
        For another suffix, or `every` or `keep` below 1.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        state: type[State],
        every: int = 1,
        keep: int = 2,
    ) -> None:
        self.path, self._state = Path(path).expanduser(), state
        self.every = whole_number(every, "checkpoint_every", 1)
        self.keep = whole_number(keep, "keep", 1)
        if self.path.suffix:
            self.folder, stem = self.path.parent, f"{self.path.stem}."
            self._suffix = checked_suffix(self.path)
        else:
            self.folder, stem, self._suffix = self.path, "", SUFFIXES[0]
        self._stem, self._own = stem, set[int]()
        self._pattern = re.compile(rf"{re.escape(stem)}epoch-(\d{{6,}}){re.escape(self._suffix)}")

    def due(self, epoch: int) -> bool:
        """Whether a checkpoint belongs after this many epochs."""
        return epoch % self.every == 0

    def path_of(self, epoch: int) -> Path:
        """Where the checkpoint after `epoch` epochs lies."""
        return self.folder / f"{self._stem}epoch-{epoch:06d}{self._suffix}"

    def epochs(self) -> list[int]:
        """Epochs with a checkpoint on disk, rising."""
        if not self.folder.is_dir():
            return []
        found = (self._pattern.fullmatch(entry.name) for entry in self.folder.iterdir())
        return sorted(int(match[1]) for match in found if match)

    def write(self, state: State) -> Path:
        """Write `state` now, then remove all but the last `keep` checkpoints.

        Raises
        ------
        InputError
            When later epochs lie there, or this one that it did not write: they belong to another
            fit, and are not replaced or removed.
        OSError
            When the disk refuses; earlier checkpoints are kept.
        """
        self.check_free(state.epoch)
        target = self.path_of(state.epoch)
        if target.exists() and state.epoch not in self._own:
            raise InputError(
                f"{target} is of another fit, which seems to run now: give each a checkpoint_path "
                "of its own."
            )
        self._own.add(state.epoch)
        state.save(target)
        for epoch in self.epochs()[: -self.keep]:
            remove(self.path_of(epoch))
        return target

    def check_folder(self) -> None:
        """Check that something can be written to the folder (OSError)."""
        check_writable(self.folder)

    def check_free(self, epoch: int) -> None:
        """Check that a fit that has done `epoch` epochs may write here.

        Raises
        ------
        InputError
            When later epochs lie there: they belong to another fit.
        """
        later = [each for each in self.epochs() if each > epoch]
        if later:
            raise InputError(
                f"{self.path_of(later[-1])} is of a later epoch than {epoch}, so of another fit. "
                "Resume from it (resume=True), remove it, or give another checkpoint_path."
            )

    def latest(self) -> State | None:
        """The newest checkpoint that is whole; None when there is none.

        Damaged ones are passed over with a DaskpartWarning that names them, and renamed, or a fit
        that goes on from an earlier one would find a later epoch in its way.

        Raises
        ------
        ReadError
            When it is whole, but of another model or version of daskpart.
        """
        for epoch in reversed(self.epochs()):
            path = self.path_of(epoch)
            try:
                return self._state.load(path)
            except ReadError as error:
                if not _is_damaged(path):
                    raise ReadError(
                        f"{error} This fit cannot go on from it: remove it, or give another "
                        "checkpoint_path."
                    ) from error
                words = f"checkpoint passed over: {error} It is {_put_aside(path).name} now."
                warn(words)
        return None


def _is_damaged(path: Path) -> bool:
    """Whether it cannot be read at all, other than the whole state of another model."""
    try:
        read_arrays(path)
    except ReadError:
        return True
    return False


def _put_aside(path: Path) -> Path:
    aside = path.with_name(f"{path.name}.damaged")
    if aside.exists():
        remove(aside)
    return path.rename(aside)
