"""A file takes the place of another only when it is whole.

replacing("cut.npz")    .cut.npz.3f2a  ── written, closed ──▶  cut.npz      (os.replace)
                        └── a full disk, Ctrl-C: removed, and the old cut.npz still there
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import IO


@contextmanager
def replacing(path: str | PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file that becomes `path` when the context is left without an error.

    Parameters
    ----------
    path : str or path-like
        What is there stays as it was until then, and after an error. A link is followed.

    Notes
    -----
    The file is made in the folder of `path`, as only there it can take its place in one step.
    """
    place = Path(path).expanduser().resolve()
    handle, name = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, _mode_of(place))  # mkstemp's own is for the owner alone
        os.replace(name, place)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _mode_of(place: Path) -> int:
    """The mode of the file that is replaced, or that of a new file."""
    if place.exists():
        return place.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
