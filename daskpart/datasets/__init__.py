"""Data to try things on: one set that every machine has, real ratings to fetch, and made-up ones.

load_python_source   the standard library of this Python, as counts, roles, imports, labels
fetch_movielens      MovieLens by name, downloaded once
power_law_ratings    low rank plus noise, with the popularity of real catalogues, of any size
train_test_split_ratings   hold ratings out; leave_last_out, split_by_time: by their time;
                           user_folds: whole users, for cross-validation
"""

from __future__ import annotations

from .movielens import fetch_movielens
from .python_source import load_python_source
from .splitting import leave_last_out, split_by_time, train_test_split_ratings, user_folds
from .synthetic import power_law_ratings

__all__ = [
    "fetch_movielens",
    "leave_last_out",
    "load_python_source",
    "power_law_ratings",
    "split_by_time",
    "train_test_split_ratings",
    "user_folds",
]
