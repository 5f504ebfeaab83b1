"""Factors of implicit feedback: see `estimator`."""
