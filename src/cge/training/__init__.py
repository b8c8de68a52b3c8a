"""How things are learned: skip-gram kernels, and the outer problem that weighs paths."""
