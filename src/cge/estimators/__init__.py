"""The public classes: each is a scikit-learn estimator."""

from cge.estimators.embeddings import DeepWalk, Node2Vec

__all__ = ["DeepWalk", "Node2Vec"]
