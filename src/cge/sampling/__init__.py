"""Random walks, the paths in them, and the pairs to learn from."""
