"""Graph convolution: exact full-batch training over parts."""
