"""Files that are packed as the ends of their names say."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path

OPENERS = {"": open, ".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}


def write(path: Path, content: str | bytes) -> Path:
    with OPENERS.get(path.suffix, open)(path, "wb") as stream:
        stream.write(content.encode() if isinstance(content, str) else content)
    return path
