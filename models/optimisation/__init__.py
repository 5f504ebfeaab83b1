"""How parameters move: learning rates, optimisers, and how gradients are added up."""
