"""R-GCN, SeHGNN and metapath2vec: forward passes against dense forms, and the estimators on graphs with types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import cge
from cge.errors import InputError
from cge.estimators.typed_baselines import RGCN, Metapath2Vec, SeHGNN, _both_directions, _edge_inputs
from cge.models.metapath_weighting import list_metapaths
from cge.models.sparse_products import SparseFeatures
from cge.models.typed_networks import MetapathNetwork, Rgcn, metapath_features
from cge.training.encoder_data import EncoderData
from tests.unit.test_relation_weights import random_graph

QUICK: dict[str, Any] = {"epochs": 30, "n_jobs": 1}


def relation_means(graph: cge.Graph) -> list[np.ndarray]:
    """Return for each relation the matrix of the shares of its edges at each node, dense."""
    rows = np.repeat(np.arange(len(graph)), graph.degrees)
    weights = np.ones(len(rows)) if graph.weights is None else graph.weights
    means = []
    for code in range(len(graph.relations.names)):
        matrix, used = np.zeros((len(graph), len(graph))), graph.relations.codes == code
        np.add.at(matrix, (rows[used], graph.indices[used]), weights[used])
        means.append(matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1e-12))
    return means


def test_rgcn_is_a_sum_over_relations_of_products_with_shared_bases() -> None:
    graph, random = random_graph(), np.random.default_rng(0)
    data = EncoderData(graph, "learned", 1)
    inputs, relations = _edge_inputs(data)
    network = Rgcn(data.transitions, relations, inputs.weights, (4, 3, 2), 2)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter)
    x = random.normal(size=(len(graph), 4)).astype(np.float32)
    parts = {name: value.detach().double().numpy() for name, value in network.named_parameters()}
    hidden, means = x.astype(np.float64), relation_means(graph)
    for layer, (name, width) in enumerate((("first", 3), ("last", 2))):
        *bases, own = np.split(parts[name], 3, axis=1)
        total = hidden @ own + parts[f"{name}_bias"]
        for mean, coefficients in zip(means, parts["coefficients"][layer], strict=True):
            total += mean @ hidden @ sum(a * basis for a, basis in zip(coefficients, bases, strict=True))
        assert total.shape[1] == width
        hidden = np.maximum(total, 0) if layer == 0 else total
    scores = network(torch.from_numpy(x), lambda values: values).detach().numpy()
    np.testing.assert_allclose(scores, hidden, rtol=1e-4, atol=1e-5)


def test_features_of_metapaths_are_means_of_means_of_unit_length() -> None:
    graph, random = random_graph(), np.random.default_rng(1)
    data = EncoderData(graph, "learned", 1)
    inputs, _ = _edge_inputs(data)
    x = random.random((len(graph), 3), np.float32)
    nodes = graph.nodes_of_type("paper")
    x[nodes, 1] = 0  # zero in the blocks of metapaths that lead to papers
    features, widths = metapath_features(inputs, x, nodes, nodes[:2], 2)
    metapaths = list_metapaths(inputs, nodes[:2], 2)
    assert len(widths) == len(metapaths) > 3
    assert len(set(widths)) > 1
    place = {name: code for code, name in enumerate(inputs.relations.names)}  # type: ignore[union-attr]
    dense, means = features.csr.toarray(), relation_means(graph)
    assert dense.shape == (len(widths) * len(nodes), sum(widths))
    ends = np.cumsum(widths).tolist()
    for number, metapath in enumerate(metapaths):
        expected = x.astype(np.float64)
        for name in reversed(metapath):
            expected = means[place[name]] @ expected
        expected = expected[nodes] / np.maximum(np.linalg.norm(expected[nodes], axis=1, keepdims=True), 1e-12)
        rows, columns = (
            dense[number * len(nodes) : (number + 1) * len(nodes)],
            slice(ends[number] - widths[number], ends[number]),
        )
        np.testing.assert_allclose(rows[:, columns], expected[:, expected.any(axis=0)], atol=1e-6)
        assert np.count_nonzero(np.delete(rows, columns, axis=1)) == 0


def test_the_network_over_metapaths_attends_between_them() -> None:
    random = np.random.default_rng(2)
    network = MetapathNetwork([3, 3], 4, 3)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter)
    channels = random.normal(size=(2, 5, 3)).astype(np.float32)
    blocks = np.zeros((10, 6), np.float32)
    blocks[:5, :3], blocks[5:, 3:] = channels
    scores = network(SparseFeatures(sp.csr_array(blocks), 1), lambda values: values).detach().numpy()
    part = {name: value.detach().double().numpy() for name, value in network.named_parameters()}
    for node in range(5):
        h = np.stack([channels[m, node] @ part["first"][3 * m : 3 * m + 3] for m in range(2)]) + part["first_bias"]
        logits = (h @ part["query"]) @ (h @ part["key"]).T / 2
        attention = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        h = h + part["attention_weight"] * attention @ h @ part["value"]
        expected = np.maximum(h, 0).ravel() @ part["last"] + part["last_bias"]
        np.testing.assert_allclose(scores[node], expected, rtol=1e-4, atol=1e-4)


def typed_classes() -> tuple[cge.Graph, dict[str, str]]:
    """Return papers of two classes: those of a class share venues, authors write papers of both."""
    random, edges = np.random.default_rng(3), []
    for number in range(40):
        edges.append((f"p{number}", f"v{number % 2 + 2 * int(random.integers(2))}", "in"))
        edges += [(f"p{number}", f"a{int(random.integers(15))}", "by") for _ in range(2)]
    names = {name: {"p": "paper", "v": "venue", "a": "author"}[name[0]] for edge in edges for name in edge[:2]}
    pairs, kinds = [edge[:2] for edge in edges], [edge[2] for edge in edges]
    graph = cge.Graph.from_edges(pairs, edge_types=kinds, node_types=names)
    return graph, {f"p{number}": "even" if number % 2 == 0 else "odd" for number in range(40)}


@pytest.mark.parametrize(
    "model", [RGCN(**QUICK), SeHGNN(**QUICK), Metapath2Vec(dim=8, walk_length=20, walks_per_node=5, window=3, n_jobs=1)]
)
def test_estimators_find_the_relation_that_matters(model: Any, tmp_path: Path) -> None:
    graph, labels = typed_classes()
    known = {name: labels[name] for name in list(labels)[:16]}
    validation = {name: labels[name] for name in list(labels)[16:24]}
    model.fit(graph, known, validation)
    others = list(labels)[24:]
    assert model.score(others, [labels[name] for name in others]) > 0.9
    if isinstance(model, Metapath2Vec):
        assert model.metapath_ == ("paper", "venue", "paper")
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(cge.load(tmp_path / "model").predict_proba(), model.predict_proba())


def test_directed_edges_have_reverse_relations() -> None:
    graph = cge.Graph.from_edges([(0, 1), (2, 1)], edge_types=["cites", "cites"], directed=True)
    both = _both_directions(graph)
    assert both.edge_type_names == ("cites", "rev_cites")
    assert _both_directions(both) is both


def test_an_unknown_type_is_named() -> None:
    graph, labels = typed_classes()
    with pytest.raises(InputError, match=r"metapath has the node type 'editor'.*author"):
        Metapath2Vec(("paper", "editor", "paper"), n_jobs=1).fit(graph, labels)
