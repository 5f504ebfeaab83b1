"""What all networks of layers share: activations and losses."""
