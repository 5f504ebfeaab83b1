"""Data to try things on: one set that every machine has, real ratings to fetch, and made-up ones.

load_python_source   the standard library of this Python, as counts, roles, imports, labels
fetch_movielens      MovieLens by name, downloaded once
power_law_ratings    low rank plus noise, with the popularity of real catalogues, of any size
train_test_split_ratings   hold ratings out
"""

from __future__ import annotations

from .movielens import fetch_movielens
from .python_source import load_python_source
from .splitting import train_test_split_ratings
from .synthetic import power_law_ratings

__all__ = [
    "fetch_movielens",
    "load_python_source",
    "power_law_ratings",
    "train_test_split_ratings",
]
