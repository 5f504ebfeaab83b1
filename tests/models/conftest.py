"""Tests of models import what stands here, by workers too; its assertions tell their values."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("contract_models", "dense_cp", "fit_tools")
