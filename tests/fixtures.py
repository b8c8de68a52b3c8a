"""What unit tests share: small graphs, their labels, tasks, and estimators that train in a fraction of a second."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

import cge
from cge.estimators.classifier_inputs import NEIGHBORHOOD_DIM
from cge.estimators.configs import make_estimator
from cge.models.edge_weighting import EdgePropagation, EdgeScale, EdgeWeighting, make_edge_inputs
from cge.models.propagation import TransitionMatrix
from cge.targets import SingleLabel, Task, class_target
from cge.training.encoder_settings import OuterSettings

GROUP_SIZE = 20
TRUE_LABELS = np.repeat([0, 1], GROUP_SIZE)  # of `two_groups()`
TRAIN_NODES, VALIDATION_NODES = np.arange(0, 40, 4), np.arange(1, 40, 4)

# ---------------------------------------------------------------------- graphs and labels


def two_groups(size: int = GROUP_SIZE, features: bool = True) -> cge.Graph:
    """Two groups of nodes: each a ring with chords, two edges between them; features that weakly indicate the group."""
    ring = [(i, (i + k) % size) for i in range(size) for k in (1, 2, 5)]
    edges = [*ring, *((i + size, j + size) for i, j in ring), (0, size), (3, size + 3)]
    x = np.random.default_rng(0).random((2 * size, 6)) + 0.2 * np.repeat(np.eye(2, 6), size, axis=0)
    return cge.Graph.from_edges(edges, num_nodes=2 * size, features=x if features else None)


def with_sparse_features(graph: cge.Graph, seed: int = 0) -> cge.Graph:
    """Return the graph of two groups with 12 sparse binary features that weakly indicate the group."""
    random = np.random.default_rng(seed)
    probability = np.where(TRUE_LABELS[:, None] == np.arange(12) % 2, 0.5, 0.2)
    return graph.with_features(sp.csr_array((random.random((2 * GROUP_SIZE, 12)) < probability).astype(np.float32)))


def groups_with_sparse_features(seed: int = 0, dense: bool = False) -> cge.Graph:
    """Two groups of nodes with 24 sparse features that indicate the group."""
    random = np.random.default_rng(seed)
    probability = np.where(TRUE_LABELS[:, None] == np.arange(24) % 2, 0.6, 0.15)
    x = (random.random((2 * GROUP_SIZE, 24)) < probability) * random.random((2 * GROUP_SIZE, 24))
    return two_groups().with_features(x if dense else sp.csr_array(x))


def partial_labels(labels: Any = TRUE_LABELS, every: int = 3) -> Any:
    """Return the labels of every third node, −1 for the others."""
    partial = np.full(len(labels), -1)
    partial[::every] = labels[::every]
    return partial


def labels_at(nodes: Any, labels: Any = TRUE_LABELS) -> Any:
    """Return the labels of these nodes, −1 (or no class) for the others."""
    partial = np.full_like(labels, -1 if labels.ndim == 1 else 0)
    partial[nodes] = labels[nodes]
    return partial


def multilabel_targets() -> Any:
    """Classes `(40, 5)`: the two groups, a class of every third node, one of all nodes, one of none."""
    columns = [TRUE_LABELS == 0, TRUE_LABELS == 1, np.arange(40) % 3 == 0, np.ones(40), np.zeros(40)]
    return np.stack(columns, axis=1).astype(int)


# ---------------------------------------------------------------------- estimators

QUICK_TRAINING: dict[str, Any] = {"max_epochs": 25, "patience": 25, "dim": 8}
SMALL_PAPER: dict[str, Any] = {
    "dim": 16,
    "window": 4,
    "walk_length": 10,
    "walks_per_node": 2,
    "hidden": 8,
    "outer_paths": 64,
    "outer_steps": 10,
}


def quick_cge(weighting: Any = "auto", **settings: Any) -> cge.CGE:
    """Return a path encoder that trains for few epochs; settings have flat names."""
    model: cge.CGE = make_estimator(cge.CGE, QUICK_TRAINING | {"weighting": weighting} | settings)
    return model


def paper_cge(setting: str = "transductive", weighting: Any = "lstm", **settings: Any) -> cge.PaperCGE:
    """Return an estimator of the paper's algorithm; settings have flat names."""
    model: cge.PaperCGE = make_estimator(cge.PaperCGE, {"setting": setting, "weighting": weighting} | settings)
    return model


class ConstantWeighting(cge.PathWeighting):
    """Gives every path the weight one half, whatever is learned."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(dim))

    def score(self, projected: Tensor, length: Tensor) -> Tensor:
        return 0 * projected.sum((1, 2)) * self.unused.sum()


# ---------------------------------------------------------------------- training tasks


def make_task(graph: cge.Graph, labels: Any = None, outer_only: bool = False, classes: int = 2, **changed: Any) -> Task:
    """Return the task of telling two groups apart: 8 training nodes in two folds, and validation nodes."""
    size = graph.num_nodes // 2
    true = torch.tensor([0] * size + [1] * size) if labels is None else labels
    train_nodes = torch.tensor([1, 4, 7, 10, size + 1, size + 4, size + 7, size + 10])
    validation = torch.arange(12, size).repeat(2) + torch.tensor([0, size]).repeat_interleave(size - 12)
    folds = [train_nodes[::2], train_nodes[1::2]] if not outer_only else [torch.tensor([5, size + 5])]
    x = torch.from_numpy(np.array(graph.features)) if graph.features is not None else None
    target = class_target(true, np.arange(classes))
    task = Task(graph, x, true, target, train_nodes, validation, folds, outer_only)
    return replace(task, **changed)


PLANTED_NODES = 80
QUICK_OUTER = OuterSettings(dim=4, steps=45, warmup_steps=15, weighting_lr=0.1, penalty=0.1)


def planted_task(typed: bool, signal: float, labels: Any = None) -> Task:
    """Two classes with more edges between than within them; features indicate the class with strength `signal`."""
    random = np.random.default_rng(0)
    classes = np.arange(PLANTED_NODES) % 2
    pairs = random.integers(0, PLANTED_NODES, (2000, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = classes[pairs[:, 0]] == classes[pairs[:, 1]]
    edges = np.concatenate([pairs[same][:120], pairs[~same][:160]])
    edge_types = ["within"] * 120 + ["across"] * 160 if typed else None
    features = np.concatenate([signal * np.eye(2)[classes], random.normal(size=(PLANTED_NODES, 4))], axis=1)
    features -= features.mean(0)
    graph = cge.Graph.from_edges(edges, num_nodes=PLANTED_NODES, features=features, edge_types=edge_types)
    train = torch.arange(60)
    folds = [train[train // 2 % 3 == k] for k in range(3)]
    true = torch.from_numpy(classes) if labels is None else labels
    return Task(graph, None, true, SingleLabel(np.arange(2)), train, torch.empty(0, dtype=torch.int64), folds)


def edge_propagation(task: Task, n_jobs: int = 1, **changed: Any) -> tuple[EdgePropagation, EdgeScale]:
    """Return untrained edge weights of a task's graph, three hops, and the scale of their inputs."""
    transitions = TransitionMatrix(task.graph, n_jobs)
    edge_inputs, scale = make_edge_inputs(task.graph, transitions)
    settings = {
        "coefficients": [0.0] * len(scale.names),
        "self_loop": 0.0,
        "normalization": 0.5,
        "hop_weights": [1.0] * 3,
    } | changed
    return EdgePropagation(transitions, edge_inputs, EdgeWeighting(**settings)), scale


# ---------------------------------------------------------------------- reference formulas


def normalized_adjacency(graph: cge.Graph) -> Any:
    """Return (D+1)^-½ (A+1) (D+1)^-½, dense."""
    looped = graph.to_scipy().toarray() + np.eye(len(graph))
    root = np.diag(looped.sum(axis=1) ** -0.5)
    return root @ looped @ root


def neighborhood_cosines(graph: cge.Graph, features: np.ndarray) -> np.ndarray:
    """Return the cosine similarity of all pairs of nodes with their neighbors, each without the other, `(n, n)`."""
    adjacency = np.zeros((len(graph), len(graph)))
    weights = np.ones(len(graph.indices)) if graph.weights is None else graph.weights
    np.add.at(adjacency, (np.repeat(np.arange(len(graph)), np.diff(graph.indptr)), graph.indices), weights)
    near = adjacency / np.maximum(np.linalg.norm(adjacency, axis=1, keepdims=True), 1e-300)
    x = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-300)
    cosines = np.zeros_like(adjacency)
    for u, v in np.ndindex(*cosines.shape):
        of_u = 2 * x[u] + sum(near[u, w] * x[w] for w in range(len(x)) if w != v)
        of_v = 2 * x[v] + sum(near[v, w] * x[w] for w in range(len(x)) if w != u)
        norms = np.linalg.norm(of_u) * np.linalg.norm(of_v)
        cosines[u, v] = of_u @ of_v / norms if norms > 1e-9 else 0.0
    return cosines


def directional_derivative(values: Tensor, inputs: list[Tensor], direction: list[Tensor]) -> Tensor:
    """Return the derivative of `values` along a direction of the inputs: twice backward, exact with autograd."""
    upstream = torch.ones_like(values, requires_grad=True)
    gradients = torch.autograd.grad(values, inputs, upstream, create_graph=True)
    total = sum((g * v).sum() for g, v in zip(gradients, direction, strict=True))
    return torch.autograd.grad(total, upstream)[0]


def used_vectors(model: Any) -> Any:
    """Return the part of the vectors of `CGE` that predictions depend on: without the random projection."""
    return model.embedding_[:, : -min(NEIGHBORHOOD_DIM, model.fitted_.data.input_dim)]
