"""Propagation along weighted paths, path weightings, classifiers and networks. Models never sample or train."""

from cge.models.edge_weighting import EdgeWeighting
from cge.models.paper_networks import FeatureEncoder, InductiveHead, TableEncoder, TransductiveHead
from cge.models.path_networks import PathWeighting
from cge.models.weightings import SearchRole, WeightingSpec, make_network, register_weighting

__all__ = [
    "EdgeWeighting",
    "FeatureEncoder",
    "InductiveHead",
    "PathWeighting",
    "SearchRole",
    "TableEncoder",
    "TransductiveHead",
    "WeightingSpec",
    "make_network",
    "register_weighting",
]
