"""Random walks, their sub-paths, same-label pairs and negative samples."""

from cge.sampling.label_pairs import NegativeSampler, label_pairs
from cge.sampling.subpaths import PathBatch, PathTable, count_subpaths, subpaths
from cge.sampling.walks import Walker

__all__ = ["NegativeSampler", "PathBatch", "PathTable", "Walker", "count_subpaths", "label_pairs", "subpaths"]
