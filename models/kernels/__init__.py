"""Inner loops, compiled by numba: they take raw arrays, and know nothing of ranks or labels."""
