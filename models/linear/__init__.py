"""Linear models by data-parallel SGD with sparse updates, and by L-BFGS over the same sums."""
