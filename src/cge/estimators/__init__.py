"""The public classes: each is a scikit-learn estimator."""

from cge.estimators.cge import CGE
from cge.estimators.embeddings import DeepWalk, Node2Vec
from cge.estimators.loading import load

__all__ = ["CGE", "DeepWalk", "Node2Vec", "load"]
