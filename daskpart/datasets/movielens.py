"""MovieLens by name, downloaded from GroupLens once.

    fetch_movielens("1m")  -->  ml-1m.zip  -->  ratings.dat  -->  daskpart.read
                                (kept)          (kept)

The data is for research; GroupLens asks that it be cited and not passed on: F. M. Harper, J. A.
Konstan, "The MovieLens datasets: history and context", ACM TiiS 5(4), 2015.
"""

from __future__ import annotations

import os
import shutil
import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple

import xarray

from daskpart._floor.atomic import replacing
from daskpart._floor.checks import finite_number, one_of, path_text, require_like
from daskpart.errors import InputError, ReadError
from daskpart.readers import read

from .cache import cache_folder

_LONGEST_WAIT = 86_400.0  # seconds; sockets take no number much longer
BASE_URL = "https://files.grouplens.org/datasets/movielens"


class _Release(NamedTuple):
    """The file with the ratings inside the zip, and the checksum that GroupLens publishes."""

    member: str
    known_hash: str | None


# The "latest" sets are replaced in place from time to time, so they have no lasting checksum;
# of 32m no independent record of the checksum was at hand.
_RELEASES = {
    "100k": _Release("ml-100k/u.data", "md5:0e33842e24a9c977be4e0107933c0723"),
    "1m": _Release("ml-1m/ratings.dat", "md5:c4d9eecfca2ab87c1945afe126590906"),
    "10m": _Release("ml-10M100K/ratings.dat", "md5:ce571fd55effeba0271552578f2648bd"),
    "20m": _Release("ml-20m/ratings.csv", "md5:cd245b17a1ae2cc31bb14903e1204af3"),
    "25m": _Release("ml-25m/ratings.csv", "md5:6b51fb2759a8657d3bfcbfc42b592ada"),
    "32m": _Release("ml-32m/ratings.csv", None),
    "latest-small": _Release("ml-latest-small/ratings.csv", None),
    "latest": _Release("ml-latest/ratings.csv", None),
}


def fetch_movielens(
    name: str = "ml-latest-small",
    *,
    data_home: str | os.PathLike[str] | None = None,
    base_url: str = BASE_URL,
    known_hash: str | None = None,
    timeout: float = 30.0,
) -> xarray.DataArray:
    """Fetch a MovieLens data set, once, and read it.

    Parameters
    ----------
    name : str, default="ml-latest-small"
        100k, 1m, 10m, 20m, 25m, 32m, latest-small or latest, with or without "ml-" before it.
    data_home : path-like, optional
        Where files are kept; by default movielens in the cache folder of daskpart.
    base_url : str, default="https://files.grouplens.org/datasets/movielens"
        A mirror that serves the files under their official names.
    known_hash : str, optional
        "md5:..." or "sha256:..." of the zip, in place of the published one. The latest sets
        change under the same name, so they are not checked unless this is given.
    timeout : float, default=30
        Seconds to wait for the server.

    Returns
    -------
    xarray.DataArray
        As `daskpart.read` gives for the file: ``rating``, dims user and item.

    Raises
    ------
    InputError
        An unknown name, or pooch is not installed.
    ReadError
        The download failed or the zip is not what it should be; nothing half-written is left, and
        the message says what to do.
    """
    word = name.lower().removeprefix("ml-") if isinstance(name, str) else name
    plain = one_of(word, "name", sorted(_RELEASES))
    release = _RELEASES[plain]
    timeout = finite_number(timeout, "timeout", above=True, most=_LONGEST_WAIT)
    require_like(base_url, "base_url", ("rstrip",), "an address, as text")
    folder = cache_folder() / "movielens"
    if data_home is not None:
        folder = Path(path_text(data_home, "data_home")).expanduser()
    ratings = folder / release.member
    if not ratings.exists():
        url = f"{base_url.rstrip('/')}/ml-{plain}.zip"
        archive = _download(url, folder, known_hash or release.known_hash, timeout)
        _extract(archive, release.member, ratings)
    return read(ratings, format="ratings")


def _download(url: str, folder: Path, known_hash: str | None, timeout: float) -> Path:
    """The zip on disk; pooch downloads beside it and renames when the checksum is right."""
    try:
        import pooch
    except ImportError:
        raise InputError(
            "fetch_movielens needs pooch; install it with: pip install 'daskpart[datasets]'"
        ) from None
    file = url.rsplit("/", 1)[1]
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel("WARNING")  # its advice on checksums is for us, not for the user
    try:
        return Path(
            pooch.retrieve(
                url,
                known_hash=known_hash,
                fname=file,
                path=folder,
                downloader=pooch.HTTPDownloader(timeout=timeout),
            )
        )
    except (OSError, ValueError) as error:  # requests' errors are OSErrors
        raise ReadError(
            f"{url} could not be fetched: {error}. Try again, give base_url= a mirror, or put the "
            f"file at {folder / file} by hand"
        ) from error
    finally:
        logger.setLevel(level)


def _extract(archive: Path, member: str, target: Path) -> None:
    """Unpack one file of a zip, whole or not at all."""
    try:
        with zipfile.ZipFile(archive) as opened, opened.open(member) as source:
            target.parent.mkdir(parents=True, exist_ok=True)
            with replacing(target) as stream:
                shutil.copyfileobj(source, stream, 1 << 20)
    except (KeyError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        archive.unlink(missing_ok=True)  # else the next call would trip over it again
        problem = f"no {member} in it" if isinstance(error, KeyError) else f"no whole zip: {error}"
        raise ReadError(
            f"{archive}: {problem}; removed, so that the next call fetches it anew. Check base_url"
        ) from error
