"""Samples over ranks: rows of X with a target each, from memory, Dask collections or files."""
