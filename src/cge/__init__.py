"""Customized graph embedding: learn which paths of a graph matter for your task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cge.lazy import lazy_names

if TYPE_CHECKING:
    from cge.data import Dataset, Split, load_dataset, read_features, read_graph, read_labels, register_format
    from cge.data.graph_update import GraphUpdate
    from cge.errors import CgeError, CgeWarning
    from cge.estimators.cge import CGE
    from cge.estimators.configs import OuterConfig, PaperOuterConfig, PaperTrainingConfig, TrainingConfig
    from cge.estimators.embeddings import DeepWalk, Node2Vec
    from cge.estimators.link_predictor import LinkPredictor
    from cge.estimators.methods import Method, register_method
    from cge.estimators.multi_task import MultiTask, multi_task
    from cge.estimators.node_classifier import NodeClassifier
    from cge.estimators.paper_cge import PaperCGE
    from cge.estimators.persistence import load
    from cge.estimators.predictions import edge_vectors, subgraph_vectors
    from cge.graph import Graph
    from cge.models.edge_weighting import EdgeWeighting
    from cge.models.path_networks import PathWeighting
    from cge.models.weightings import SearchRole, WeightingSpec, register_weighting
    from cge.training.classifier_registry import ClassifierSpec, register_classifier

__version__ = "0.1.0"

__all__ = [
    "CGE",
    "CgeError",
    "CgeWarning",
    "ClassifierSpec",
    "Dataset",
    "DeepWalk",
    "EdgeWeighting",
    "Graph",
    "GraphUpdate",
    "LinkPredictor",
    "Method",
    "MultiTask",
    "Node2Vec",
    "NodeClassifier",
    "OuterConfig",
    "PaperCGE",
    "PaperOuterConfig",
    "PaperTrainingConfig",
    "PathWeighting",
    "SearchRole",
    "Split",
    "TrainingConfig",
    "WeightingSpec",
    "__version__",
    "edge_vectors",
    "load",
    "load_dataset",
    "multi_task",
    "read_features",
    "read_graph",
    "read_labels",
    "register_classifier",
    "register_format",
    "register_method",
    "register_weighting",
    "subgraph_vectors",
]

# Names are imported when they are first used: `cge --help` need not wait for compilers and linear algebra.
_MODULES = {
    "cge.data": "Dataset Split load_dataset read_features read_graph read_labels register_format",
    "cge.data.graph_update": "GraphUpdate",
    "cge.errors": "CgeError CgeWarning",
    "cge.estimators.cge": "CGE",
    "cge.estimators.configs": "OuterConfig PaperOuterConfig PaperTrainingConfig TrainingConfig",
    "cge.estimators.embeddings": "DeepWalk Node2Vec",
    "cge.estimators.link_predictor": "LinkPredictor",
    "cge.estimators.methods": "Method register_method",
    "cge.estimators.multi_task": "MultiTask multi_task",
    "cge.estimators.node_classifier": "NodeClassifier",
    "cge.estimators.paper_cge": "PaperCGE",
    "cge.estimators.persistence": "load",
    "cge.estimators.predictions": "edge_vectors subgraph_vectors",
    "cge.graph": "Graph",
    "cge.models.edge_weighting": "EdgeWeighting",
    "cge.models.path_networks": "PathWeighting",
    "cge.models.weightings": "SearchRole WeightingSpec register_weighting",
    "cge.training.classifier_registry": "ClassifierSpec register_classifier",
}
__getattr__ = lazy_names(__name__, _MODULES)


def __dir__() -> list[str]:
    return __all__
