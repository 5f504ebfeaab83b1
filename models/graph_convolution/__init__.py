"""Graph convolution over parts: exact full-batch training, and mini-batches."""
