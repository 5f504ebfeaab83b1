"""How parameters move: learning rates over epochs."""
