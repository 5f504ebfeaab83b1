"""Multi-layer perceptrons by data-parallel SGD, with TopK by layer."""
