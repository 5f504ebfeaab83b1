"""A bipartite graph on disk, its data spread at random over blocks that are read one at a time.

    examples.libsvm.xz ──chunk by chunk──▶ block_0: u0 u3 …     folder/
                       a random block      block_1: u1 u2 …       blocks.json   sizes, seed
                       for each example    …                      block_00000.npz …

Memory while writing: a chunk of text and, at the end, one block. Memory while reading: one block.
"U is cut at random into b blocks that are processed one after another" (Parsa, section 4.2).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.archive import opened_npz
from daskpart._floor.atomic import replacing
from daskpart._floor.checks import checked_seed, whole_number, whole_numbers
from daskpart._floor.tables import ShownAsTable
from daskpart._incidence import group
from daskpart.errors import InputError, ReadError
from daskpart.readers.ranges import ExamplesFile

from .bipartite import (
    Bipartite,
    Block,
    FileLike,
    block_of,
    feature_chunks,
    numbering,
    random_blocks,
    sorted_within,
    taken_rows,
    totals,
)

_MANIFEST = "blocks.json"
_FORMAT = 1
_COUNTS = ("n_blocks", "n_data", "n_parameters", "n_edges", "random_state")
_ARRAYS = ("data", "pointer", "local", "parameters")
_RAW = {"data": np.int32, "lengths": np.int64, "features": np.int32}


class BlockFolder(ShownAsTable):
    """Blocks of a graph on disk. Open with the folder; `write` makes one.

    Parameters
    ----------
    path : str or path-like
        A folder that `write` made.

    Attributes
    ----------
    n_blocks, n_data, n_parameters, n_edges : int
    random_state : int
        The seed that spread the data.
    starts : int64[n_blocks + 1]
        How many data the blocks before each block have.

    Raises
    ------
    ReadError
        No such folder, no complete set of blocks in it, or one of a later version.
    """

    _title = "Blocks on disk"

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path).expanduser().absolute()  # workers may run elsewhere
        manifest = self.path / _MANIFEST
        try:
            told = json.loads(manifest.read_text(encoding="utf-8"))
            version = told["format"]
            if version == _FORMAT:
                sizes = whole_numbers(told["sizes"], "size")
                self.n_blocks, self.n_data, self.n_parameters, self.n_edges, self.random_state = (
                    whole_number(told[name], name, least=0) for name in _COUNTS
                )
        except FileNotFoundError:
            raise ReadError(
                f"{self.path}: there is no {_MANIFEST} in it, so no complete set of blocks; "
                "write them with BlockFolder.write"
            ) from None
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise ReadError(f"{manifest}: cannot be read ({error!r}). Write them anew") from error
        if version != _FORMAT:
            raise ReadError(
                f"{self.path}: blocks of format {version!r}; this version reads {_FORMAT}. "
                "Write them anew"
            )
        self.starts: NDArray[np.int64] = np.cumsum([0, *sizes])

    @classmethod
    def write(
        cls,
        source: FileLike | Bipartite,
        folder: str | PathLike[str],
        n_blocks: int,
        *,
        random_state: int = 0,
        n_parameters: int | None = None,
    ) -> BlockFolder:
        """Deal data at random over blocks, in bounded memory.

        Parameters
        ----------
        source : str, path-like, ExamplesFile or Bipartite
            A libsvm file, also compressed; a file that was surveyed; or a graph in memory.
        folder : str or path-like
            Made if absent; must not hold blocks yet. What a run that was killed left there is
            removed.
        n_blocks : int
            From 1 to the number of data.
        random_state : int, default=0
        n_parameters : int, optional
            How many features a file shall have, to match other data.

        Raises
        ------
        InputError
            The folder holds blocks already; more blocks than data.
        ReadError
            The file cannot be read. What was written is removed.
        """
        if not isinstance(source, str | PathLike | ExamplesFile | Bipartite):
            raise InputError(
                f"source is of type {type(source).__name__}: give the path of a libsvm file, what "
                "survey found in one, or a Bipartite (Bipartite.from_matrix)"
            )
        place = Path(folder).expanduser()
        n_blocks = whole_number(n_blocks, "n_blocks", least=1)
        random_state = checked_seed(random_state)
        if (place / _MANIFEST).exists():
            raise InputError(f"{place} holds blocks already: give another folder, or remove it")
        place.mkdir(parents=True, exist_ok=True)
        _remove_unfinished(place)  # of a run that was killed: raw files are appended to
        try:
            if isinstance(source, Bipartite):
                sizes = _write_graph(source, place, n_blocks, random_state)
            else:
                sizes = _write_file(source, place, n_blocks, random_state, n_parameters)
            told = {"format": _FORMAT, "n_blocks": n_blocks, "random_state": random_state, **sizes}
            with replacing(place / _MANIFEST) as file:
                file.write(f"{json.dumps(told, indent=1)}\n".encode())
        except BaseException:
            _remove_unfinished(place)
            raise
        return cls(place)

    def read(self, block: int) -> Block:
        """Read one block.

        Raises
        ------
        ReadError
            The block's file is missing or damaged.
        """
        path = _block_file(self.path, block)
        with opened_npz(path) as file:
            return Block(*(file[name] for name in _ARRAYS))

    def to_dict(self) -> dict[str, Any]:
        """Where it is, and the sizes."""
        return {
            "folder": str(self.path),
            "blocks": self.n_blocks,
            "data": self.n_data,
            "parameters": self.n_parameters,
            "edges": self.n_edges,
        }


def _block_file(folder: Path, block: int) -> Path:
    return folder / f"block_{block:05d}.npz"


def _raw_file(folder: Path, block: int, name: str) -> Path:
    return folder / f"raw_{block:05d}_{name}.bin"


def _remove_unfinished(folder: Path) -> None:
    """Blocks without the list that makes them whole, and the raw files they are made of."""
    for left in (*folder.glob("block_*.npz"), *folder.glob("raw_*.bin")):
        left.unlink()


def _check_blocks(n_blocks: int, n_data: int) -> None:
    if n_blocks > n_data:
        raise InputError(f"n_blocks is {n_blocks}, but there are only {n_data} data to spread")


def _save(folder: Path, number: int, block: Block) -> None:
    arrays: dict[str, Any] = {name: getattr(block, name) for name in _ARRAYS}
    np.savez(_block_file(folder, number), **arrays)


def _write_graph(
    graph: Bipartite, folder: Path, n_blocks: int, random_state: int
) -> dict[str, Any]:
    _check_blocks(n_blocks, graph.n_data)
    blocks = graph.blocks(n_blocks, random_state)
    for number in range(n_blocks):
        _save(folder, number, blocks.read(number))
    return {
        "n_data": graph.n_data,
        "n_parameters": graph.n_parameters,
        "n_edges": graph.n_edges,
        "sizes": np.diff(blocks.starts).tolist(),
    }


def _write_file(
    source: FileLike, folder: Path, n_blocks: int, random_state: int, n_parameters: int | None
) -> dict[str, Any]:
    """Deal the chunks of a file over raw files, then make a block of each."""
    chunks = _scattered_chunks(source, folder, n_blocks, random_state)
    n_data, n_edges, least, most = totals(chunks)
    _check_blocks(n_blocks, n_data)
    first, width = numbering(source, least, most, n_parameters)
    sizes = []
    for number in range(n_blocks):
        data, lengths, features = _raw(folder, number)
        sizes.append(len(data))
        pointer = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        parameters = sorted_within(pointer, (features - first).astype(np.int32))
        _save(folder, number, block_of(data, pointer, parameters, width))
        for name in _RAW:
            _raw_file(folder, number, name).unlink(missing_ok=True)
    return {"n_data": n_data, "n_parameters": width, "n_edges": n_edges, "sizes": sizes}


def _scattered_chunks(
    source: FileLike, folder: Path, n_blocks: int, random_state: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
    """Append the examples of each chunk to the raw files of their blocks; yields each chunk."""
    rng, start = np.random.default_rng(random_state), 0
    for lengths, features in feature_chunks(source):
        rows = np.arange(len(lengths), dtype=np.int32)
        block_pointer, rows = group(random_blocks(rng, n_blocks, len(rows)), rows, n_blocks)
        pointer = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        for block in np.flatnonzero(np.diff(block_pointer)).tolist():
            mine = rows[block_pointer[block] : block_pointer[block + 1]]
            taken_pointer, taken = taken_rows(pointer, features, mine)
            _append(folder, block, "data", mine + start)
            _append(folder, block, "lengths", np.diff(taken_pointer))
            _append(folder, block, "features", taken)
        yield lengths, features
        start += len(lengths)


def _append(folder: Path, block: int, name: str, values: NDArray) -> None:
    with open(_raw_file(folder, block, name), "ab") as file:
        file.write(np.ascontiguousarray(values, _RAW[name]).tobytes())


def _raw(folder: Path, block: int) -> list[NDArray]:
    """What was appended for one block; empty arrays where no datum went to it."""
    return [
        np.fromfile(path, kind) if path.exists() else np.empty(0, kind)
        for path, kind in ((_raw_file(folder, block, name), kind) for name, kind in _RAW.items())
    ]
