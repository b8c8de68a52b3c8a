"""What is learned: encoders of nodes, networks that weigh paths, heads that predict. Models never sample or train."""

from cge.models.paper_encoders import FeatureEncoder, TableEncoder
from cge.models.paper_heads import InductiveHead, TransductiveHead
from cge.models.path_networks import PathWeighting
from cge.models.weightings import make_network

__all__ = [
    "FeatureEncoder",
    "InductiveHead",
    "PathWeighting",
    "TableEncoder",
    "TransductiveHead",
    "make_network",
]
