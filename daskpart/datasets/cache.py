"""What is costly to make once: arrays in a file of the user's cache folder.

    make --> .name.npz.<random> --rename--> name.npz

The rename is atomic, so writers at the same time overwrite each other whole, and a reader sees a
whole file or none. A file that cannot be read counts as absent.
"""

from __future__ import annotations

import os
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from daskpart._floor.atomic import replacing
from daskpart.errors import warn

_UNREADABLE = (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile, zlib.error)


def cache_folder() -> Path:
    """Where data sets are kept: ``DASKPART_CACHE`` if set, else daskpart in the user's cache."""
    wish = os.environ.get("DASKPART_CACHE")
    if wish:
        return Path(wish).expanduser()
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "daskpart"


def cached_arrays(
    path: Path, key: str, make: Callable[[], dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """The arrays of a cache file; made and kept where it is absent, damaged or of another key.

    Parameters
    ----------
    path : Path
        An .npz file.
    key : str
        What the arrays were made from; stored beside them.
    make : callable
        Makes the arrays.

    Warns
    -----
    DaskpartWarning
        The file cannot be written; the arrays are made anew next time.
    """
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            if str(archive["key"]) == key:
                return {name: archive[name] for name in archive.files if name != "key"}
    except _UNREADABLE:
        pass  # absent or damaged: made anew below
    arrays = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            content: dict[str, Any] = {"key": np.array(key), **arrays}
            np.savez_compressed(file, **content)
    except OSError as error:
        warn(
            f"the cache file {path} cannot be written ({error}); the data is made anew next time. "
            "DASKPART_CACHE names another folder"
        )
    return arrays


def pack_text(words: list[str]) -> np.ndarray:
    """Words without line ends as uint8, so that no pickle is needed and long words cost little."""
    return np.frombuffer("\n".join(words).encode("utf-8", "surrogatepass"), np.uint8)


def unpack_text(packed: np.ndarray) -> list[str]:
    """The words of `pack_text`."""
    text = packed.tobytes().decode("utf-8", "surrogatepass")
    return text.split("\n") if text else []
