"""The sizes of a graph and its node inputs as a fit of the path encoder has them, without computing the inputs.

The model search and the dry run of a fit read them from here; `EncoderData` makes inputs of these sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.graph import Graph
from cge.models.propagation import count_transitions

WALK_DIM = 128  # of walk vectors
_WIDE, _FEW_NODES = 8192, 1000  # dense features, of a few nodes, that are replaced by their principal components


@dataclass(frozen=True)
class DataSize:
    """What the model search depends on besides settings and labels."""

    transitions: int  # edges in both directions, and self-loops
    inputs: str  # "features", "learned" or "walks"
    entries: int  # nonzero inputs, or all numbers of dense ones
    columns: int  # of the inputs
    dense: bool
    features: bool  # whether the graph has features, whatever the inputs are
    relations: bool = False  # whether the graph has several relations


def data_size(graph: Graph, inputs: str, n_learned: int) -> DataSize:
    """Return the sizes of a graph with node inputs "features", "learned" or "walks".

    `n_learned` nodes have a learned input instead of features (`nodes_without_features`).
    """
    features: Any = graph.features
    if inputs == "learned":
        entries, columns, dense = len(graph), len(graph), False
    elif inputs == "walks":
        entries, columns, dense = len(graph) * WALK_DIM, WALK_DIM, True
    elif sp.issparse(features):
        entries, columns, dense = int(features.nnz) + n_learned, int(features.shape[1]) + n_learned, False
    else:
        columns, dense = max_components(graph) if uses_components(graph) else int(features.shape[1]), True
        entries = len(graph) * columns
    more = features is not None, graph.num_relations > 1
    return DataSize(count_transitions(graph), inputs, entries, columns, dense, *more)


def labeled_size(n_labeled: int, columns: int) -> DataSize:
    """Return the sizes of a fit on rows of labeled nodes with dense features: a graph with self-loops only."""
    return DataSize(n_labeled, "features", n_labeled * columns, columns, dense=True, features=True)


def nodes_without_features(graph: Graph, inputs: str) -> Array:
    """Return the nodes with a learned input, `(k,)`, where `inputs` is "auto".

    They are the nodes of the types of which no node has a feature, where other types have sparse features.
    """
    features: Any = graph.features
    if inputs != "auto" or graph.node_types is None or not sp.issparse(features):
        return np.empty(0, np.int64)
    featured = np.diff(features.indptr) > 0
    has_features = np.bincount(graph.node_types, featured, minlength=len(graph.node_type_names)) > 0
    return np.flatnonzero(~has_features[graph.node_types])


def feature_entries(graph: Graph) -> int:
    """Return the number of features that are stored: nonzero ones if they are sparse; 0 without features."""
    features: Any = graph.features
    return 0 if features is None else int(features.nnz if sp.issparse(features) else features.size)


def uses_components(graph: Graph) -> bool:
    """Return whether dense features are replaced by their principal components: many features of few nodes."""
    features: Any = graph.features
    return not sp.issparse(features) and features.shape[1] >= _WIDE and len(graph) <= _FEW_NODES


def max_components(graph: Graph) -> int:
    """Return the largest possible number of principal components: centered rows of n nodes have at most rank n − 1.

    They have fewer where features are linearly dependent. The model search counts work with this number, which is known
    without computing them.
    """
    return max(len(graph) - 1, 1)
