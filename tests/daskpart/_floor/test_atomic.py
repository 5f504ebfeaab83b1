"""`replacing`: the old file stays until the new one is whole."""

from __future__ import annotations

import os

import numpy as np
import pytest

from daskpart import Connectivity, Hypergraph, Partition, parsa
from daskpart._floor.atomic import replacing


def test_a_file_is_made_and_replaced(tmp_path):
    path = tmp_path / "some.bin"
    for content in (b"old and long", b"new"):
        with replacing(path) as file:
            file.write(content)
        assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["some.bin"]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_an_error_leaves_the_old_file_and_nothing_beside_it(tmp_path, error):
    path = tmp_path / "some.bin"
    path.write_bytes(b"old")
    with pytest.raises(error):
        with replacing(path) as file:
            file.write(b"half of the new")
            file.flush()
            assert path.read_bytes() == b"old"
            raise error
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["some.bin"]


def test_links_and_modes_stay(tmp_path):
    target, link = tmp_path / "real.bin", tmp_path / "link.bin"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    with replacing(link) as file:
        file.write(b"new")
    assert link.is_symlink() and target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_new_file_may_be_read_as_any_other(tmp_path):
    with replacing(tmp_path / "new.bin") as file:
        file.write(b"x")
    (tmp_path / "other.bin").write_bytes(b"x")
    modes = {path.stat().st_mode for path in tmp_path.iterdir()}
    assert len(modes) == 1


def results() -> dict[str, object]:
    graph = Hypergraph.from_nets([0, 2, 4], [0, 1, 1, 2], 3)
    cut = Partition(np.array([0, 1, 0]), 2)
    return {
        "hypergraph": graph,
        "partition": cut,
        "connectivity": Connectivity.from_partition(graph, cut),
        "parsa": parsa.partition(graph, 2),
    }


@pytest.mark.parametrize("name", ["hypergraph", "partition", "connectivity", "parsa"])
def test_a_full_disk_leaves_what_was_saved_before(tmp_path, name, monkeypatch):
    result, path = results()[name], tmp_path / "saved.npz"
    result.save(path)
    saved = path.read_bytes()

    def full(file, **arrays):
        file.write(b"PK")
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="no space left"):
        result.save(path)
    assert path.read_bytes() == saved and os.listdir(tmp_path) == ["saved.npz"]
    assert type(result).load(path) == result
