"""CP decomposition of sparse tensors by alternating least squares."""
