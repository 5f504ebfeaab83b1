"""`replacing`: the old file stays until the new one is whole."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from daskpart import Connectivity, Hypergraph, Partition, parsa
from daskpart._floor import atomic
from daskpart._floor.archive import replace_folder
from daskpart._floor.atomic import replacing


def test_a_file_is_made_and_replaced(tmp_path, monkeypatch):
    path, flushed = tmp_path / "some.bin", []
    monkeypatch.setattr(os, "fsync", lambda number: flushed.append(os.fstat(number).st_size))
    for content in (b"old and long", b"new"):
        with replacing(path) as file:
            file.write(content)
        assert path.read_bytes() == content and flushed.pop() == len(content)
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


UNFINISHED = """
import sys, time
from pathlib import Path
from daskpart._floor.archive import replace_folder
from daskpart._floor.atomic import replacing

place = Path(sys.argv[1])

def fill(folder):
    (folder / "half").write_text("half")
    print("begun", flush=True)
    time.sleep(600)

with replacing(place / "a.bin"), replacing(place / "a[1].npz") as file:
    file.write(b"half")
    replace_folder(place / "a.zarr", fill, 0)
"""


def write_all(place):
    """Whole versions of what the text above begins."""
    for name in ("a.bin", "a[1].npz"):
        with replacing(place / name) as file:
            file.write(b"whole")
    replace_folder(place / "a.zarr", lambda folder: (folder / "x").write_text("whole"), 0)


def unfinished(place):
    return [name for name in os.listdir(place) if name.endswith(".partial")]


@pytest.mark.skipif(not atomic._processes(), reason="which processes end is not known here")
def test_what_a_killed_write_left_behind_goes_with_the_next(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", UNFINISHED, str(tmp_path)], stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"begun\n"
        begun = unfinished(tmp_path)
        assert len(begun) == 3
        write_all(tmp_path)
        assert sorted(unfinished(tmp_path)) == sorted(begun)  # it may still end
        other.kill()
    write_all(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["a.bin", "a.zarr", "a[1].npz"]


def test_what_is_written_elsewhere_stays(tmp_path, monkeypatch):
    """A process of another machine may have any number, also one that nobody has here."""
    monkeypatch.setattr(os, "getpid", lambda: 999_999_999)
    monkeypatch.setattr(atomic, "_processes", lambda: "0123456789ab")
    names = ("a.bin", "a[1].npz", "a.zarr")
    others = [atomic.partial_of(tmp_path / name) for name in names]
    for path in others:
        path.write_text("half")
    monkeypatch.undo()
    write_all(tmp_path)
    assert sorted(unfinished(tmp_path)) == sorted(path.name for path in others)


@pytest.mark.skipif(not atomic._processes(), reason="which processes end is not known here")
@pytest.mark.parametrize("error", [PermissionError, ProcessLookupError])
def test_what_another_user_writes_stays(tmp_path, monkeypatch, error):
    def kill(*_):
        raise error

    other = atomic.partial_of(tmp_path / "a.bin")
    other.write_text("half")
    monkeypatch.setattr(os, "kill", kill)
    atomic.remove_left_behind(tmp_path / "a.bin")
    assert other.exists() == (error is PermissionError)
