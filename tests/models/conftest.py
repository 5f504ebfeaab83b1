"""Tests of models import what stands here, by workers too; its assertions tell their values."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import sparse

from daskpart.datasets import power_law_ratings

sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("contract_models", "dense_cp", "fit_tools")


@pytest.fixture(scope="session")
def ratings() -> Any:
    """1,500 ratings of 80 users and 50 items, with labels; nobody changes them."""
    return power_law_ratings(80, 50, 1500, random_state=0)


@pytest.fixture(scope="session")
def tensor() -> sparse.COO:
    return sparse.random((30, 20, 10), nnz=500, random_state=0)
