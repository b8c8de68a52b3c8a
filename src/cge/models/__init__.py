"""Models: encoders, path weightings, classifiers. They neither sample nor train."""

from cge.models.paper_encoders import FeatureEncoder, TableEncoder
from cge.models.paper_heads import InductiveHead, TransductiveHead
from cge.models.path_networks import PathWeighting, make_network

__all__ = [
    "FeatureEncoder",
    "InductiveHead",
    "PathWeighting",
    "TableEncoder",
    "TransductiveHead",
    "make_network",
]
