"""`BlockFolder`: a file dealt over blocks on disk is the graph in memory, in bounded memory."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from daskpart.errors import InputError, ReadError
from daskpart.parsa.bipartite import Bipartite
from daskpart.parsa.block_folder import BlockFolder
from daskpart.readers import libsvm


@pytest.fixture(scope="module")
def matrix() -> scipy.sparse.csr_array:
    """3,000 rows with 0 to 8 of 500 columns."""
    rng = np.random.default_rng(1)
    lengths = rng.integers(0, 9, 3000)
    columns = [np.sort(rng.choice(500, length, replace=False)) for length in lengths]
    pointer = np.concatenate([[0], np.cumsum(lengths)])
    return scipy.sparse.csr_array(
        (np.ones(pointer[-1]), np.concatenate(columns), pointer), shape=(3000, 500)
    )


@pytest.fixture(scope="module")
def path(matrix, tmp_path_factory) -> Path:
    """The matrix as a libsvm file, features from 1."""
    file = tmp_path_factory.mktemp("data") / "some.libsvm"
    rows = (matrix.indices[a:b] for a, b in zip(matrix.indptr, matrix.indptr[1:], strict=False))
    file.write_text("".join("1 " + " ".join(f"{c + 1}:1" for c in row) + "\n" for row in rows))
    return file


def same(one, other) -> bool:
    names = ("data", "pointer", "local", "parameters")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


@pytest.mark.parametrize("n_blocks", [1, 5])
def test_blocks_of_a_file_are_those_of_the_graph(matrix, path, tmp_path, monkeypatch, n_blocks):
    monkeypatch.setattr(libsvm, "_FEATURE_CHUNK", 2000)  # many chunks
    folder = BlockFolder.write(path, tmp_path / "blocks", n_blocks, random_state=7)
    blocks = Bipartite.from_matrix(matrix).blocks(n_blocks, 7)
    again = BlockFolder.write(Bipartite.from_matrix(matrix), tmp_path / "again", n_blocks,
                              random_state=7)  # fmt: skip
    assert (folder.n_data, folder.n_parameters, folder.n_edges) == (3000, 500, matrix.nnz)
    for number in range(n_blocks):
        assert same(folder.read(number), blocks.read(number))
        assert same(again.read(number), blocks.read(number))
    assert folder.starts.tolist() == again.starts.tolist() == blocks.starts.tolist()
    assert {file.name for file in (tmp_path / "blocks").iterdir()} == {
        "blocks.json",
        *(f"block_{number:05d}.npz" for number in range(n_blocks)),
    }


def test_a_folder_can_be_opened_and_shows_itself(path, tmp_path):
    written = BlockFolder.write(path, tmp_path, 3, random_state=2, n_parameters=600)
    opened = BlockFolder(tmp_path)
    assert opened.to_dict() == written.to_dict() and opened.random_state == 2
    assert opened.n_parameters == 600
    assert "Blocks on disk" in repr(opened) and "<table>" in opened._repr_html_()


def test_bad_input_is_refused_and_leaves_nothing(path, tmp_path):
    place = tmp_path / "new"
    for options, words in (
        ({"n_blocks": 0}, "n_blocks is 0"),
        ({"n_blocks": 2, "random_state": -1}, "random_state"),
        ({"n_blocks": 2, "n_parameters": 499}, "needs 500"),
    ):
        with pytest.raises(InputError, match=words):
            BlockFolder.write(path, place, **options)
        assert not place.exists() or not list(place.iterdir())
    few = tmp_path / "few.libsvm"
    few.write_text("1 1:1\n1 2:1\n")
    with pytest.raises(InputError, match="n_blocks is 3, but there are only 2 data"):
        BlockFolder.write(few, place, 3)
    assert not list(place.iterdir())
    with pytest.raises(InputError, match="of type int"):
        BlockFolder.write(3, place, 2)
    with pytest.raises(ReadError, match="no such file"):
        BlockFolder.write(tmp_path / "absent.libsvm", place, 2)
    with pytest.raises(InputError, match="only 2 data"):
        graph = Bipartite.from_matrix(scipy.sparse.eye_array(2))
        BlockFolder.write(graph, place, 3)


def test_where_the_list_of_blocks_cannot_be_written_nothing_stays(path, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    place = tmp_path / "new"
    with monkeypatch.context() as patched:
        patched.setattr("daskpart.parsa.block_folder.replacing", full)
        with pytest.raises(OSError, match="No space"):
            BlockFolder.write(path, place, 2)
    assert not list(place.iterdir())
    assert BlockFolder.write(path, place, 2).n_blocks == 2


def test_folders_that_are_not_whole_are_refused(path, tmp_path):
    with pytest.raises(ReadError, match="no complete set of blocks"):
        BlockFolder(tmp_path)
    BlockFolder.write(path, tmp_path, 2)
    with pytest.raises(InputError, match="holds blocks already"):
        BlockFolder.write(path, tmp_path, 2)
    (tmp_path / "block_00001.npz").write_bytes(b"PK no archive")
    with pytest.raises(ReadError, match=r"block_00001.npz cannot be read"):
        BlockFolder(tmp_path).read(1)
    manifest = tmp_path / "blocks.json"
    told = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**told, "format": 99}))
    with pytest.raises(ReadError, match="format 99"):
        BlockFolder(tmp_path)
    manifest.write_text("{")
    with pytest.raises(ReadError, match="cannot be read"):
        BlockFolder(tmp_path)


def test_a_block_that_was_cut_short_names_its_file(path, tmp_path):
    folder = BlockFolder.write(path, tmp_path, 2)
    block = tmp_path / "block_00001.npz"
    whole = block.read_bytes()
    for n_bytes in (0, 3, len(whole) // 2, len(whole) - 1):
        block.write_bytes(whole[:n_bytes])
        with pytest.raises(ReadError, match=r"block_00001.npz cannot be read"):
            folder.read(1)


@pytest.mark.parametrize(
    "told", [[], 3, {}, {"format": 1}, {"sizes": 3}, {"sizes": None}, {"n_data": "many"}]
)
def test_a_list_of_blocks_that_is_damaged_names_its_file(path, tmp_path, told):
    BlockFolder.write(path, tmp_path, 2)
    manifest = tmp_path / "blocks.json"
    if isinstance(told, dict) and "format" not in told:
        told = {**json.loads(manifest.read_text()), **told} if told else told
    manifest.write_text(json.dumps(told))
    with pytest.raises(ReadError, match=r"blocks.json: cannot be read"):
        BlockFolder(tmp_path)


def test_what_a_killed_run_left_is_not_read(matrix, path, tmp_path, monkeypatch):
    whole = BlockFolder.write(path, tmp_path / "whole", 3, random_state=7)
    BlockFolder.write(path, tmp_path / "again", 5, random_state=1)
    (tmp_path / "again" / "blocks.json").unlink()
    for name in ("data", "lengths", "features"):
        (tmp_path / "again" / f"raw_00001_{name}.bin").write_bytes(bytes(80))
    again = BlockFolder.write(path, tmp_path / "again", 3, random_state=7)
    assert all(same(again.read(number), whole.read(number)) for number in range(3))
    assert len(list(again.path.iterdir())) == 4
