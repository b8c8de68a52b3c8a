"""Customized graph embedding: learn which paths of a graph matter for your task."""

from cge.data import Dataset, Split, load_dataset, read_features, read_graph, read_labels
from cge.errors import CgeError
from cge.graph import Graph

__version__ = "0.1.0"

__all__ = [
    "CgeError",
    "Dataset",
    "Graph",
    "Split",
    "__version__",
    "load_dataset",
    "read_features",
    "read_graph",
    "read_labels",
]
