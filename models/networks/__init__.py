"""What all networks of layers share: activations, losses, widths."""
