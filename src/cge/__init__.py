"""Customized graph embedding: learn which paths of a graph matter for your task."""

from cge.errors import CgeError
from cge.graph import Graph

__version__ = "0.1.0"

__all__ = ["CgeError", "Graph", "__version__"]
