"""Tests of the models import `dense_cp` from here, and so do worker processes."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
