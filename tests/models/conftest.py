"""Tests of models: `dense_cp` is imported from here, by workers too."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
