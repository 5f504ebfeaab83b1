"""Read files that are damaged in every way we could think of; run by `test_readers_fuzz`.

    python fuzz_readers.py FOLDER [CASES] [NAME]

Each case ends in a `DaskpartError`, or in what a simple parser of a few lines reads from the same
bytes. The case at hand stands in FOLDER/case and its file beside it, so that whoever started this
process knows which one killed it. A case may take 100 MiB; address space is limited, too, as arrays
that nobody touches take none.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import re
import resource
import sys
import traceback
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import sparse

import daskpart
from daskpart.errors import DaskpartError, DaskpartWarning
from daskpart.partitions import Partition

MEMORY = 100 << 20
NUMBER = re.compile(rb"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf|infinity|nan)", re.IGNORECASE)
UNPACK = {".gz": gzip.decompress, ".xz": lzma.decompress, ".bz2": bz2.decompress}
PACK = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}


def archive(**arrays: Any) -> bytes:
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


def saved(save: Callable, array: Any) -> bytes:
    content = io.BytesIO()
    save(content, array)
    return content.getvalue()


MATRIX = sp.random_array((7, 9), density=0.4, rng=0, format="csr")
CUBE = sparse.random((3, 4, 5), nnz=12, random_state=0)
BANNER = "%%MatrixMarket matrix "
FILES: dict[str, bytes] = {
    name: text.encode() if isinstance(text, str) else text
    for name, text in {
        "real.mtx": BANNER + "coordinate real general\n% a\n3 4 3\n1 1 0.5\n3 4 -2e1\n2 2 7\n",
        "whole.mtx": BANNER + "coordinate integer general\n3 4 3\n1 1 5\n3 4 -2\n2 2 7\n",
        "pattern.mtx": BANNER + "coordinate pattern symmetric\n4 4 3\n1 1\n3 2\n4 1\n",
        "symmetric.mtx": BANNER + "coordinate real symmetric\n4 4 3\n1 1 1\n3 2 2.5\n4 1 3\n",
        "skew.mtx": BANNER + "coordinate real skew-symmetric\n4 4 2\n3 2 2.5\n4 1 3\n",
        "dense.mtx": BANNER + "array real general\n2 2\n1\n2\n3\n4\n",
        "a.libsvm": "+1 1:0.5 3:2 7:1e-3\n-1 2:1\n+1\n-1 1:1 9:4 # c\n",
        "u.data": "196\t242\t3\t881250949\n22\t377\t1\t878887116\n196\t51\t2\t880606923\n",
        "ratings.dat": "196::242::3::881\n22::377::1.5::878\n196::51::2::880\n",
        "ratings.csv": "userId,movieId,rating,timestamp\n196,242,3.0,881\n22,377,1.0,8788\n",
        "quoted.ratings.csv": '"user";"item";"rating"\n"196";"242";"3"\n"22";"377";"1"\n',
        "shop.ratings.csv": "user,item,rating\nann,x1,5\nbob,x9,2\nann,x9,4\n",
        "spaces.ratings.txt": "ann x1 5\nbob x9 2\nann x9 4\n",
        "double.ratings.dat": "ann::x1::5\nbob::x9::2\n",
        "a.tns": "# c\n1 1 1 1 2.5\n2 3 1 4 -1\n2 1 5 2 1e2\n",
        "a.edges": "# c\n30 10\n10 20\n20 31\n",
        "weighted.edges": "30,10,2.5\n10,20,-1\n20,31,4\n",
        "named.edges": "source;target;weight\nann;bob;2.5\nbob;cid;-1\n",
        "a.adjacency": "0 4 8 15\n3\n1 4\n",
        "a.hgr": "% c\n3 4\n1 3\n1 2 4\n2 3\n",
        "weighted.hgr": "3 4 11\n9 1 3\n1 1 2 4\n2 2 3\n1\n2\n3\n4\n",
        "a.u": "1 4 2 5\n1 3\n1 2 4\n",
        "weighted.u": "0 4 2 5 3 1\n9 0 2\n1 0 1 3\n1 2\n3\n4\n",
        "a.graph": "4 3\n2 3\n1\n1 4\n3\n",
        "weighted.graph": "4 2 011\n5 2 1\n1 1 1 3 7\n2 2 7\n1\n",
        "a.parts": "0\n2\n1\n1\n0\n",
        "csr.npz": saved(sp.save_npz, MATRIX),
        "coo.npz": saved(sp.save_npz, MATRIX.tocoo()),
        "csc.npz": saved(sp.save_npz, MATRIX.tocsc()),
        "bsr.npz": saved(sp.save_npz, MATRIX.tobsr((1, 1))),
        "dia.npz": saved(sp.save_npz, MATRIX.todia()),
        "loose.npz": archive(format="csr", data=MATRIX.data, indices=MATRIX.indices,
                             indptr=MATRIX.indptr, shape=MATRIX.shape),
        "tensor.npz": saved(sparse.save_npz, CUBE),
        "gcxs.npz": saved(sparse.save_npz, sparse.GCXS.from_coo(CUBE)),
        "graph.npz": archive(n_nodes=3, adj_indptr=[0, 1, 3, 4], adj_indices=[1, 0, 2, 1],
                             feat_indptr=[0, 1, 1, 2], feat_indices=[4, 0], feat_shape=[3, 5],
                             feat_data=[0.5, 2.0], labels=[1, 0, -1], train_idx=[1]),
    }.items()
}  # fmt: skip
for packed in ("real.mtx.gz", "u.data.xz", "a.libsvm.bz2", "a.hgr.gz", "csr.npz.gz", "a.tns.xz"):
    FILES[packed] = PACK[Path(packed).suffix](FILES[Path(packed).stem])

HUGE = b"9999999999 99999999999999999999 1e400 -1 -0 0 1e1 1.5 1.0xyz nan -inf 2147483648".split()
HUGE += [b"18446744073709551616", b"9007199254740993", b"0x10", b"1_000", b"1" * 400, b"+7", b"7."]
HUGE += [b"1e-400", b"--1", b"\x00", b"\xff\xfe", "\u0663".encode(), b'"', b"#", b"%", b":", b"::"]
OTHER = [
    b"",
    b"\n",
    b"\xef\xbb\xbf",
    b"a\nb\nc\nd\n",
    b"<!DOCTYPE html>\n<html><body>404: not found, 3 4 5</body></html>\n",
    b"\x00" * 64,
    b"%%MatrixMarket matrix coordinate real general\n9999999999 9999999999 9999999999\n1 1 1\n",
    b"%%MatrixMarket matrix coordinate real general\n9999999999 9999999999 1\n1 1 1\n",
    b"%%MatrixMarket matrix coordinate pattern general\n100000000 2 1\n1 1\n",
    b"9999999999 9999999999\n1 2\n",
    b"1 999999999\n1 2\n",
    b"0 999999999 1 2\n0 1\n",
    b"1 9007199254740991:1\n",
    b"2147483646\n",
    b"9007199254740991 9007199254740991 9007199254740991 1\n" * 3,
]


def damaged(content: bytes, rng: random.Random) -> bytes:
    """One to three mutations of a file."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        content = rng.choice(MUTATIONS)(content, rng)
    return content


def flip(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.randint(1, 4) if content else 0):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randint(0, len(content))]


def insert(content: bytes, rng: random.Random) -> bytes:
    at = rng.randint(0, len(content))
    some = [b"\x00", b"\xef\xbb\xbf", b"\xff", b"\r", b"\n", b"\n\n", b" ", b",", b"\t", *HUGE]
    return content[:at] + rng.choice(some) + content[at:]


def renumber(content: bytes, rng: random.Random) -> bytes:
    words = re.split(rb"([ \t\n,;:]+)", content)
    words[2 * rng.randrange((len(words) + 1) // 2)] = rng.choice(HUGE)
    return b"".join(words)


def reline(content: bytes, rng: random.Random) -> bytes:
    lines = content.split(b"\n")
    at = rng.randrange(len(lines))
    return b"\n".join(lines[:at] + rng.choice([[], [lines[at]] * 3]) + lines[at + 1 :])


def bits(content: bytes, rng: random.Random) -> bytes:
    """A word of a binary file as another number."""
    at = 8 * rng.randint(0, len(content) // 8)
    word = rng.choice([-1, 0, 1, 2**31, 2**40, 2**63 - 1]).to_bytes(8, "little", signed=True)
    return content[:at] + word + content[at + 8 :]


MUTATIONS = [
    flip, cut, insert, renumber, renumber, renumber, reline, bits,
    lambda content, rng: content.replace(b"\n", b"\r\n"),
    lambda content, rng: b"\xef\xbb\xbf" + content,
    lambda content, rng: content.rstrip(b"\n"),
]  # fmt: skip


def resealed(content: bytes, rng: random.Random) -> bytes:
    """An archive with other bytes in its arrays and headers, its check sums put right."""
    import zipfile

    source, target = zipfile.ZipFile(io.BytesIO(content)), io.BytesIO()
    names = source.namelist()
    chosen = rng.choice(names)
    with zipfile.ZipFile(target, "w", rng.choice([0, 8])) as copy:
        for name in names:
            inside = source.read(name)
            if name == chosen:
                inside = rng.choice([flip, cut, bits, bits, renumber])(inside, rng)
            copy.writestr(name, inside)
    return target.getvalue()


def rows_of(
    content: bytes, separators: bytes = b"", n_numbers: int | None = None
) -> list[list[bytes]]:
    """The words of each line, remarks left out, every word (or the first of each) a number."""
    content = content.removeprefix(b"\xef\xbb\xbf")
    table = bytes.maketrans(separators, b" " * len(separators))
    lines = [re.sub(rb"[#%].*", b"", line) for line in content.split(b"\n")]
    rows = [line.translate(table).split() for line in lines]
    for word in [word for row in rows for word in row[:n_numbers]]:
        if not NUMBER.fullmatch(word):
            raise ValueError(word)
    return rows


def whole(word: bytes) -> int:
    value = float(word)
    if value != int(value) or not 0 <= value < 2**53:
        raise ValueError(word)
    return int(value)


def an_id(word: bytes) -> int:
    """Digits alone may say more than float64 holds."""
    return int(word) if word.isdigit() and int(word) < 2**63 else whole(word)


def parse_mtx(content: bytes) -> Any:
    words = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")[0].lower().split()
    (n_rows, n_columns, n_entries), *entries = filter(None, rows_of(content))
    cells: dict = {}
    for row, column, *value in entries:
        i, j, v = int(row) - 1, int(column) - 1, float(value[0]) if value else 1.0
        assert 0 <= i < int(n_rows) and 0 <= j < int(n_columns)
        cells[i, j] = cells.get((i, j), 0) + v
        if words[4] != b"general" and i != j:
            cells[j, i] = cells.get((j, i), 0) + (-v if words[4] == b"skew-symmetric" else v)
    assert len(entries) == int(n_entries)
    return (int(n_rows), int(n_columns)), cells


def parse_libsvm(content: bytes) -> Any:
    rows, first = [], 1
    for line in rows_of(content, b":"):
        if line:
            pairs = {whole(line[i]): float(line[i + 1]) for i in range(1, len(line), 2)}
            rows.append((float(line[0]), pairs))
            first = min([first, *pairs])
    return [(label, {i - first: v for i, v in pairs.items()}) for label, pairs in rows]


def parse_ratings(content: bytes) -> Any:
    separators = b'",;:' if b"::" in content.split(b"\n")[0] else b'",;'
    return {
        (an_id(row[0]), an_id(row[1])): np.float32(row[2]) if len(row) > 2 else 1
        for row in rows_of(content, separators, 3)
        if row
    }


def parse_tns(content: bytes) -> Any:
    rows = [row for row in rows_of(content, b",") if row]
    indices = [[whole(word) for word in row[:-1]] for row in rows]
    first = [min(1, *mode) for mode in zip(*indices, strict=True)]
    cells: dict = {}
    for index, row in zip(indices, rows, strict=True):
        cell = tuple(i - f for i, f in zip(index, first, strict=True))
        cells[cell] = cells.get(cell, 0) + float(row[-1])
    return cells


def parse_edges(content: bytes) -> Any:
    cells: dict = {}
    for row in filter(None, rows_of(content, b'",;')):
        edge = an_id(row[0]), an_id(row[1])
        cells[edge] = cells.get(edge, 0) + (float(np.float32(row[2])) if len(row) > 2 else 1)
    return {edge: np.float32(weight) for edge, weight in cells.items()}


def parse_adjacency(content: bytes) -> Any:
    rows = [row for row in rows_of(content, b",;") if row]
    return {(whole(row[0]), whole(item)): 1 for row in rows for item in row[1:]}


def parse_nets(content: bytes) -> Any:
    """How many vertices, nets and pins (at most) an .hgr file has."""
    (n_nets, n_vertices, *_), *_ = filter(None, rows_of(content))
    return int(n_nets), int(n_vertices)


def cells_of(found: Any) -> Any:
    """What a reader gave, in the form of the parsers above."""
    if isinstance(found, daskpart.readers.Examples):
        data = found.data
        starts = list(zip(data.indptr[:-1], data.indptr[1:], strict=True))
        return [
            (label, dict(zip(data.indices[a:b].tolist(), data.data[a:b].tolist(), strict=True)))
            for label, (a, b) in zip(found.target.tolist(), starts, strict=True)
        ]
    if sp.issparse(found):
        matrix = found.tocoo()
        keys = zip(matrix.row.tolist(), matrix.col.tolist(), strict=True)
        return found.shape, dict(zip(keys, matrix.data.tolist(), strict=True))
    if isinstance(found, sparse.COO):
        return dict(zip(map(tuple, found.coords.T.tolist()), found.data.tolist(), strict=True))
    if hasattr(found, "dims"):
        labels = [found[dim].values for dim in found.dims]
        names = [label[i].tolist() for label, i in zip(labels, found.data.coords, strict=True)]
        return dict(zip(zip(*names, strict=True), found.data.data.tolist(), strict=True))
    return found.n_nets, found.n_vertices


ORACLES = {".mtx": parse_mtx, ".libsvm": parse_libsvm, ".data": parse_ratings, ".tns": parse_tns,
           ".edges": parse_edges, ".adjacency": parse_adjacency, ".hgr": parse_nets}  # fmt: skip


def holds_text(found: Any) -> bool:
    """Ratings whose first ids became names by a mutation."""
    return hasattr(found, "dims") and any(found[dim].dtype.kind not in "iu" for dim in found.dims)


def check_finite(found: Any) -> None:
    """Values are finite, and positions lie inside the shape: compiled code may follow them."""
    if isinstance(found, daskpart.readers.Examples):
        assert np.isfinite(found.target).all()
        found = found.data
    if hasattr(found, "data_vars"):
        for name in found.data_vars:
            if isinstance(found[name].data, sparse.COO):
                check_finite(found[name].data)
        return
    found = found.data if hasattr(found, "dims") else found
    if sp.issparse(found):
        found.check_format(full_check=True)
        found = sparse.COO(np.stack(found.tocoo().coords), found.data, shape=found.shape)
    if isinstance(found, sparse.COO):
        assert np.isfinite(found.data).all() and found.coords.shape[0] == len(found.shape)
        extents = np.array(found.shape)[:, None]
        assert ((found.coords >= 0) & (found.coords < extents)).all()
    else:
        assert (found.pins >= 0).all() and (found.pins < found.n_vertices).all()
        assert found.net_pointer[-1] == len(found.pins) and (np.diff(found.net_pointer) >= 0).all()


def run(path: Path, content: bytes) -> str:
    """Read one file; "refused", or "read" where the result is right."""
    try:
        if path.suffix == ".parts":
            partition = Partition.from_file(path)
            words = [word for row in rows_of(content) for word in row]
            assert partition.assignment.tolist() == [int(word) for word in words]
            assert partition.n_parts == max(map(int, words)) + 1
            return "read"
        found = daskpart.read(path)
    except DaskpartError as error:
        assert str(path) in str(error), f"the error does not name the file: {error}"
        return "refused"
    check_finite(found)
    if path.suffix in UNPACK:
        content, path = UNPACK[path.suffix](content), path.with_suffix("")
    if path.suffix in ORACLES and not holds_text(found):
        examples = isinstance(found, daskpart.readers.Examples)  # also where the name says little
        parse = ORACLES[".libsvm" if examples else path.suffix]
        expected, given = parse(content), cells_of(found)
        assert given == expected, f"read {given}, a simple parser {expected}"
    return "read"


def cases(name: str, n_cases: int) -> list[bytes]:
    """The file itself, files that are something else, and files damaged at random."""
    content, rng = FILES[name], random.Random(zlib.crc32(name.encode()))
    found = [content, *OTHER]
    while len(found) < n_cases:
        if name.endswith(".npz") and rng.random() < 0.7:
            found.append(resealed(content, rng))
        elif Path(name).suffix in UNPACK and rng.random() < 0.6:
            inside = damaged(UNPACK[Path(name).suffix](content), rng)
            found.append(PACK[Path(name).suffix](inside))
        else:
            found.append(damaged(content, rng))
    return found


def resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def limit_address_space() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 4 * MEMORY, resource.RLIM_INFINITY))


def main(folder: Path, n_cases: int, only: str = "") -> int:
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", DaskpartWarning)
    warnings.simplefilter("ignore", ResourceWarning)
    names = [name for name in FILES if only in name]
    for name in names:  # imports and kernels are no part of a case
        (folder / name).write_bytes(FILES[name])
        assert run(folder / name, FILES[name]) == ("refused" if name == "dense.mtx" else "read")
    limit_address_space()
    failures = 0
    for name in names:
        ends = {"read": 0, "refused": 0}
        for number, content in enumerate(cases(name, n_cases)):
            (folder / "case").write_text(f"{name} {number}")
            (folder / name).write_bytes(content)
            before = resident()
            try:
                ends[run(folder / name, content)] += 1
                grown = resident() - before
                assert grown <= MEMORY, f"took {grown >> 20} MiB"
            except BaseException:
                failures += 1
                print(f"{name} case {number}: {content[:300]!r}\n{traceback.format_exc(limit=-3)}")
        print(name, ends, flush=True)
    return min(failures, 100)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]))
