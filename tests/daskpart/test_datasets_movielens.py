"""`fetch_movielens` against a server on this machine, with a tiny zip made here."""

from __future__ import annotations

import hashlib
import http.server
import io
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import daskpart
from daskpart.datasets import fetch_movielens
from daskpart.errors import InputError, ReadError

pytest.importorskip("pooch")

CSV = "userId,movieId,rating,timestamp\n1,31,2.5,1260759144\n7,10,4.0,851868750\n"
DAT = "1::1193::5::978300760\n2::661::3::978302109\n"


def zipped(**members: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in members.items():
            archive.writestr(name.replace("__", "/"), text)
    return content.getvalue()


class Server(http.server.ThreadingHTTPServer):
    """Serves `files` by name; counts what it was asked for; may cut answers short."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.cut = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/movielens/"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        name = self.path.removeprefix("/movielens/")
        self.server.asked.append(name)
        content = self.server.files.get(name)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if self.server.cut else content)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.05,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def files_below(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_fetched_once_and_read(server: Server, tmp_path: Path) -> None:
    server.files["ml-latest-small.zip"] = zipped(**{"ml-latest-small/ratings.csv": CSV})
    ratings = fetch_movielens(data_home=tmp_path, base_url=server.url)
    again = fetch_movielens("latest-small", data_home=tmp_path, base_url=server.url)
    assert server.asked == ["ml-latest-small.zip"]
    assert ratings.identical(again)
    assert ratings.identical(daskpart.read(tmp_path / "ml-latest-small" / "ratings.csv"))
    assert ratings["user"].values.tolist() == [1, 7]
    assert files_below(tmp_path) == ["ml-latest-small.zip", "ml-latest-small/ratings.csv"]


def test_a_checksum_is_checked(server: Server, tmp_path: Path) -> None:
    archive = zipped(**{"ml-1m/ratings.dat": DAT})
    server.files["ml-1m.zip"] = archive
    with pytest.raises(ReadError, match=r"could not be fetched: (?s:.*)hash"):
        fetch_movielens("1m", data_home=tmp_path, base_url=server.url)
    assert files_below(tmp_path) == []
    known_hash = "sha256:" + hashlib.sha256(archive).hexdigest()
    ratings = fetch_movielens(
        "ml-1m", data_home=tmp_path, base_url=server.url, known_hash=known_hash
    )
    assert ratings.data.todense().tolist() == [[0, 5], [3, 0]]


def test_a_server_without_the_file(server: Server, tmp_path: Path) -> None:
    with pytest.raises(ReadError, match=r"ml-100k\.zip could not be fetched: 404.*put the file at"):
        fetch_movielens("100k", data_home=tmp_path, base_url=server.url)
    assert files_below(tmp_path) == []


def test_no_server_at_all(server: Server, tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="Try again, give base_url= a mirror"):
        fetch_movielens("100k", data_home=tmp_path, base_url="http://127.0.0.1:1", timeout=5)
    assert files_below(tmp_path) == []


def test_a_connection_cut_leaves_nothing(server: Server, tmp_path: Path) -> None:
    server.files["ml-latest-small.zip"] = zipped(**{"ml-latest-small/ratings.csv": CSV * 1000})
    server.cut = True
    with pytest.raises(ReadError, match=r"could not be fetched|no whole zip"):
        fetch_movielens(data_home=tmp_path, base_url=server.url)
    assert files_below(tmp_path) == []
    server.cut = False
    server.files["ml-latest-small.zip"] = zipped(**{"ml-latest-small/ratings.csv": CSV})
    assert fetch_movielens(data_home=tmp_path, base_url=server.url).data.nnz == 2


def test_what_is_no_zip_is_removed(server: Server, tmp_path: Path) -> None:
    server.files["ml-latest-small.zip"] = b"<html>moved</html>"
    with pytest.raises(ReadError, match=r"no whole zip: .* removed, so that"):
        fetch_movielens(data_home=tmp_path, base_url=server.url)
    server.files["ml-latest-small.zip"] = zipped(**{"other/ratings.csv": CSV})
    with pytest.raises(ReadError, match=r"no ml-latest-small/ratings\.csv in it"):
        fetch_movielens(data_home=tmp_path, base_url=server.url)
    assert files_below(tmp_path) == []


def test_the_default_folder(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DASKPART_CACHE", str(tmp_path))
    server.files["ml-latest.zip"] = zipped(**{"ml-latest/ratings.csv": CSV})
    fetch_movielens("latest", base_url=server.url)
    assert files_below(tmp_path) == ["movielens/ml-latest.zip", "movielens/ml-latest/ratings.csv"]


def test_unknown_names_and_a_missing_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="name is '2m': use one of '100k'"):
        fetch_movielens("2m")
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(InputError, match=r"pip install 'daskpart\[datasets\]'"):
        fetch_movielens("1m", data_home=tmp_path)
