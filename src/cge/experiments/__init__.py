"""Studies that can be repeated: each is a list of cells (graph, method, seed), and every cell a line in a file."""
