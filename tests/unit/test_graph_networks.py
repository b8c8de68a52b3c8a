"""GCN and APPNP: forward and backward against dense forms, early stopping, and the estimators."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional

import cge
from cge.errors import InputError
from cge.estimators import graph_networks as estimators
from cge.estimators.graph_networks import APPNP, GCN
from cge.models.autograd import NodeFeatures
from cge.models.classifiers import Appnp, Gcn, TwoLayerNetwork
from cge.models.propagation import TransitionMatrix
from cge.models.sparse_products import SparseFeatures
from cge.randomness import generator
from cge.targets import SingleLabel, class_target
from cge.training.classifier_training import NetworkSettings, _dropout, train_network
from cge.training.encoder_data import EncoderData
from cge.training.torch_state import seeded
from tests.fixtures import (
    TRAIN_NODES,
    TRUE_LABELS,
    VALIDATION_NODES,
    groups_with_sparse_features,
    labels_at,
    multilabel_targets,
    normalized_adjacency,
    two_groups,
)

SETTINGS = NetworkSettings(epochs=12, patience=100, dropout=0.0, learning_rate=0.05, weight_decay=0.0, seed=0)
EDGES = [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (5, 5)]  # 5 has a self-loop, 6 no edges

CLASSES = np.arange(2)


def small_graph() -> cge.Graph:
    return cge.Graph.from_edges(EDGES, num_nodes=7, self_loops=True)


def dense_propagation(graph: cge.Graph) -> Tensor:
    """Return D^-½ (A with self-loops) D^-½, dense; no self-loop counts twice."""
    looped = graph.to_scipy().toarray()
    np.fill_diagonal(looped, 1)
    root = np.diag(looped.sum(axis=1) ** -0.5)
    return torch.from_numpy(root @ looped @ root)


def make_model(kind: str, graph: cge.Graph, features: int = 5, seed: int = 0, **settings: Any) -> TwoLayerNetwork:
    """Return a network of float64 whose biases are not zero."""
    with seeded(seed, kind):
        transitions = TransitionMatrix(graph, 1)
        model: TwoLayerNetwork = (Gcn if kind == "gcn" else Appnp)(transitions, features, 4, 3, **settings)
        torch.nn.init.normal_(model.first_bias)
        torch.nn.init.normal_(model.last_bias)
    return model.double()


def random_matrix(rows: int, columns: int = 5, seed: int = 1) -> Any:
    random = np.random.default_rng(seed)
    return random.normal(size=(rows, columns)) * (random.random((rows, columns)) < 0.7)


def dense_scores(
    network: TwoLayerNetwork, kind: str, propagation: Tensor, x: Tensor, hops: int = 10, alpha: float = 0.1
) -> Tensor:
    if kind == "gcn":
        hidden = torch.relu(propagation @ x @ network.first + network.first_bias)
        return propagation @ hidden @ network.last + network.last_bias
    own = torch.relu(x @ network.first + network.first_bias) @ network.last + network.last_bias
    scores = own
    for _ in range(hops):  # the power iteration of the paper
        scores = (1 - alpha) * propagation @ scores + alpha * own
    return scores


# ---------------------------------------------------------------------- forward and backward


@pytest.mark.parametrize("kind", ["gcn", "appnp"])
def test_edge_weights_are_used(kind: str) -> None:
    weights = np.array([3.0, 0.5, 1.0, 2.0, 0.1, 7.0])
    graph = cge.Graph.from_edges(EDGES, num_nodes=7, self_loops=True, weights=weights)
    network = make_model(kind, graph, weights=torch.tensor(graph.weights))
    looped = graph.to_scipy().toarray()
    looped[np.diag_indices(7)] += looped.diagonal() == 0  # a self-loop keeps its weight
    root = np.diag(looped.sum(axis=1) ** -0.5)
    x = torch.from_numpy(random_matrix(7))
    expected = dense_scores(network, kind, torch.from_numpy(root @ looped @ root), x)
    torch.testing.assert_close(network(x, lambda hidden: hidden), expected, atol=1e-5, rtol=1e-5)
    data = EncoderData(cge.Graph.from_edges(EDGES, num_nodes=7, weights=weights, features=np.eye(7), self_loops=True))
    estimator = (GCN if kind == "gcn" else APPNP)()
    identity = torch.eye(7, dtype=torch.float32)
    by_estimator = estimator._network(data, 7, 2).propagate(identity)
    torch.testing.assert_close(by_estimator, network.propagate(identity.double()).float())


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize(
    ("kind", "settings"), [("gcn", {}), ("appnp", {}), ("appnp", {"hops": 3, "alpha": 0.5}), ("appnp", {"hops": 1})]
)
def test_scores_and_gradients_are_those_of_the_dense_form(kind: str, settings: dict[str, Any], sparse: bool) -> None:
    graph, x = small_graph(), random_matrix(7)
    network = make_model(kind, graph, **settings)
    features: NodeFeatures = SparseFeatures(sp.csr_array(x), 1) if sparse else torch.from_numpy(x)
    scores = network(features, lambda hidden: hidden)
    expected = dense_scores(network, kind, dense_propagation(graph), torch.from_numpy(x), **settings)
    assert scores.dtype == torch.float64
    torch.testing.assert_close(scores, expected, rtol=1e-6, atol=1e-6)  # edge weights are float32
    upstream = torch.from_numpy(random_matrix(7, 3, seed=2))
    gradients, dense_gradients = (
        torch.autograd.grad((output * upstream).sum(), list(network.parameters())) for output in (scores, expected)
    )
    assert len(gradients) == 4
    for gradient, dense_gradient in zip(gradients, dense_gradients, strict=True):
        assert dense_gradient.abs().max() > 1e-3
        torch.testing.assert_close(gradient, dense_gradient, rtol=1e-5, atol=1e-6)


def test_many_hops_are_personalized_pagerank() -> None:
    graph, x = small_graph(), torch.from_numpy(random_matrix(7))
    network = make_model("appnp", graph, hops=200, alpha=0.2)
    own = torch.relu(x @ network.first + network.first_bias) @ network.last + network.last_bias
    expected = 0.2 * torch.linalg.solve(torch.eye(7, dtype=torch.float64) - 0.8 * dense_propagation(graph), own)
    torch.testing.assert_close(network(x, lambda hidden: hidden), expected, rtol=1e-5, atol=1e-5)


def test_with_alpha_1_nothing_is_propagated() -> None:
    x = torch.from_numpy(random_matrix(7))
    network = make_model("appnp", small_graph(), hops=4, alpha=1.0)
    own = torch.relu(x @ network.first + network.first_bias) @ network.last + network.last_bias
    torch.testing.assert_close(network(x, lambda hidden: hidden), own)


@pytest.mark.parametrize("kind", ["gcn", "appnp"])
def test_dropout_is_applied_to_the_hidden_layer(kind: str) -> None:
    graph, x = small_graph(), torch.from_numpy(random_matrix(7))
    network, mask = make_model(kind, graph), torch.from_numpy(random_matrix(7, 4, seed=4))
    seen = []

    def dropout(hidden: Tensor) -> Tensor:
        seen.append(hidden)
        return hidden * mask

    scores, propagation = network(x, dropout), dense_propagation(graph)
    (hidden,) = seen
    assert hidden.shape == (7, 4)
    assert (hidden >= 0).all()
    before = propagation @ x @ network.first if kind == "gcn" else x @ network.first
    torch.testing.assert_close(hidden, torch.relu(before + network.first_bias), rtol=1e-6, atol=1e-6)
    after = (hidden * mask) @ network.last
    if kind == "gcn":
        torch.testing.assert_close(scores, propagation @ after + network.last_bias, rtol=1e-6, atol=1e-6)
    assert (scores - network(x, lambda hidden: hidden)).abs().max() > 0.1


def test_only_the_first_layer_has_weight_decay() -> None:
    network = make_model("gcn", small_graph())
    (decaying, weight_decay), (others, none) = network.parameter_groups(0.3)
    assert (weight_decay, none) == (0.3, 0.0)
    assert [id(parameter) for parameter in decaying] == [id(network.first)]
    assert {id(parameter) for parameter in others} == {
        id(network.first_bias),
        id(network.last),
        id(network.last_bias),
    }


def test_the_base_class_is_abstract() -> None:
    with pytest.raises(NotImplementedError):
        TwoLayerNetwork(2, 2, 2)(torch.zeros(1, 2), lambda hidden: hidden)


# ---------------------------------------------------------------------- training


def trained(
    graph: cge.Graph,
    settings: NetworkSettings,
    validation: Any = (),
    true: Any = TRUE_LABELS,
    kind: str = "gcn",
    seed: int = 0,
) -> tuple[Tensor, TwoLayerNetwork]:
    """Train a small network of float32 and return scores and network."""
    x = torch.from_numpy(random_matrix(40, 5)).float()
    network = make_model(kind, graph, seed=seed).float()
    nodes = torch.tensor(validation, dtype=torch.int64)
    return train_network(
        network,
        x,
        torch.tensor(true),
        class_target(np.asarray(true), CLASSES),
        torch.tensor(TRAIN_NODES),
        nodes,
        settings,
    )[0], network


@pytest.mark.parametrize("multilabel", [False, True])
@pytest.mark.parametrize("kind", ["gcn", "appnp"])
def test_an_epoch_is_a_step_of_adam(kind: str, multilabel: bool) -> None:
    graph, x = two_groups(), torch.from_numpy(random_matrix(40, 5))
    true = multilabel_targets()[:, :3] if multilabel else TRUE_LABELS
    before = make_model(kind, graph)
    scores = dense_scores(before, kind, torch.from_numpy(normalized_adjacency(graph)), x)[TRAIN_NODES]
    if multilabel:
        probabilities = torch.sigmoid(scores)
        targets = torch.from_numpy(true[TRAIN_NODES]).double()
        loss = -(targets * probabilities.log() + (1 - targets) * (1 - probabilities).log()).sum(1).mean()
    else:
        loss = -torch.log_softmax(scores, dim=1)[torch.arange(len(TRAIN_NODES)), TRUE_LABELS[TRAIN_NODES]].mean()
    _, after = trained(graph, replace(SETTINGS, epochs=1, weight_decay=0.1), true=true, kind=kind)
    for name, gradient in zip(
        ("first", "first_bias", "last", "last_bias"),
        torch.autograd.grad(loss, [before.first, before.first_bias, before.last, before.last_bias]),
        strict=True,
    ):
        start = getattr(before, name).detach()
        gradient = gradient + 0.1 * start if name == "first" else gradient
        expected = start - 0.05 * gradient / (gradient.abs() + 1e-8)  # the first step of Adam
        steep = gradient.abs() > 1e-4  # elsewhere the sign in float32 may differ
        assert steep.double().mean() > 0.5
        torch.testing.assert_close(getattr(after, name).detach().double()[steep], expected[steep], rtol=0, atol=1e-4)


def accuracy_and_loss(scores: Tensor, nodes: Any, true: Any) -> tuple[float, float]:
    scores, labels = scores[torch.tensor(nodes)].double(), torch.tensor(true)[torch.tensor(nodes)]
    return float((scores.argmax(1) == labels).double().mean()), -float(functional.cross_entropy(scores, labels))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_best_epoch_is_kept(seed: int) -> None:
    graph = two_groups()
    flipped = np.random.default_rng(seed).random(40) < 0.3  # so that the best epoch is not simply the last
    true = np.where(flipped, 1 - TRUE_LABELS, TRUE_LABELS)
    settings = replace(SETTINGS, epochs=12, dropout=0.3, learning_rate=0.3, seed=seed)
    each = [trained(graph, replace(settings, epochs=epochs), seed=seed)[0] for epochs in range(1, 13)]
    scores = [accuracy_and_loss(epoch, VALIDATION_NODES, true) for epoch in each]
    best_scores, network = trained(
        graph, settings, VALIDATION_NODES, np.where(np.isin(np.arange(40), TRAIN_NODES), TRUE_LABELS, true), seed=seed
    )
    best = max(range(12), key=lambda epoch: scores[epoch])
    assert best_scores.numpy().tobytes() == each[best].numpy().tobytes()
    assert best < 11 or seed
    x = torch.from_numpy(random_matrix(40, 5)).float()
    assert torch.equal(network(x, lambda hidden: hidden), best_scores)  # the network has the parameters of that epoch


def test_among_equal_accuracies_the_lowest_loss_is_best() -> None:
    graph, slow = two_groups(), replace(SETTINGS, learning_rate=0.005)
    true = trained(graph, replace(slow, epochs=1))[0].argmax(dim=1).numpy()  # its own predictions
    each = [trained(graph, replace(slow, epochs=epochs), true=true)[0] for epochs in range(1, 13)]
    scores = [accuracy_and_loss(epoch, VALIDATION_NODES, true) for epoch in each]
    assert {accuracy for accuracy, _ in scores} == {1.0}
    best = max(range(12), key=lambda epoch: scores[epoch])
    assert best > 0
    assert trained(graph, slow, VALIDATION_NODES, true)[0].numpy().tobytes() == each[best].numpy().tobytes()


@pytest.mark.parametrize("patience", [1, 3, 50])
def test_patience_ends_the_training(patience: int) -> None:
    class CountingGcn(Gcn):
        epochs = 0

        def forward(self, features: NodeFeatures, dropout: Any) -> Tensor:
            scores = super().forward(features, dropout)
            self.epochs += scores.requires_grad  # validation scores are computed without gradients
            return scores

    graph = two_groups()
    x = torch.from_numpy(random_matrix(40, 5)).float()
    train, validation = torch.tensor(TRAIN_NODES), torch.tensor(VALIDATION_NODES)
    is_validation = np.isin(np.arange(40), VALIDATION_NODES)
    wrong = torch.tensor(np.where(is_validation, 1 - TRUE_LABELS, TRUE_LABELS))  # validation accuracy decreases
    settings = replace(SETTINGS, epochs=12, patience=patience, learning_rate=0.1)
    with seeded(0, "watched"):
        network = CountingGcn(TransitionMatrix(graph, 1), 5, 4, 3)
    initial = {name: value.clone() for name, value in network.state_dict().items()}
    train_network(network, x, wrong, SingleLabel(CLASSES), train, validation, settings)
    whole = []
    for epochs in range(1, 13):
        with seeded(0, "watched"):
            again = Gcn(TransitionMatrix(graph, 1), 5, 4, 3)
        assert all(torch.equal(value, initial[name]) for name, value in again.state_dict().items())
        none = torch.empty(0, dtype=torch.int64)
        whole.append(
            train_network(again, x, wrong, SingleLabel(CLASSES), train, none, replace(settings, epochs=epochs))[0]
        )
    best, ended = 0, 12
    scores = [accuracy_and_loss(epoch, VALIDATION_NODES, wrong.numpy()) for epoch in whole]
    for epoch, score in enumerate(scores):
        best = epoch if score > scores[best] else best
        if epoch - best >= patience:
            ended = epoch + 1
            break
    assert network.epochs == ended
    assert ended < 12 or patience == 50


@pytest.mark.usefixtures("two_torch_threads")
def test_an_overflow_raises_and_restores_the_number_of_threads() -> None:
    with pytest.raises(InputError) as caught:
        trained(two_groups(), replace(SETTINGS, learning_rate=1e30))
    assert str(caught.value) == "training overflowed; try a tenth of learning_rate (now 1e+30)"
    assert torch.get_num_threads() == 2


def test_dropout_depends_on_seed_and_epoch() -> None:
    graph, settings = two_groups(), replace(SETTINGS, dropout=0.5, epochs=3)
    cases = (settings, settings, replace(settings, seed=1), replace(settings, dropout=0.0))
    results = [trained(graph, case)[0].numpy().tobytes() for case in cases]
    assert results[0] == results[1] != results[2]
    assert results[3] != results[0]
    ones = torch.ones(200, 50)
    dropped = _dropout(ones, 0.25, generator(0, "x"))
    assert dropped.unique().tolist() == pytest.approx([0, 4 / 3])
    assert float((dropped == 0).double().mean()) == pytest.approx(0.25, abs=0.02)
    assert _dropout(ones, 0.0, generator(0, "x")) is ones


# ---------------------------------------------------------------------- the estimators


@pytest.mark.parametrize("features", ["sparse", "dense", "none"])
@pytest.mark.parametrize("kind", [GCN, APPNP])
def test_the_same_bytes_for_any_number_of_threads(kind: Any, features: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cge.models.sparse_products._WORK", 50)  # so that two threads are used for a small graph
    graph = two_groups(features=False) if features == "none" else groups_with_sparse_features(dense=features == "dense")
    results = []
    for settings in ({"n_jobs": 1}, {"n_jobs": 2}, {"n_jobs": 1}, {"random_state": 1}):
        model = kind(epochs=5, hidden=8, **settings).fit(graph, labels_at(TRAIN_NODES), labels_at(VALIDATION_NODES))
        results.append(model.predict_proba().tobytes())
    assert results[0] == results[1] == results[2] != results[3]


@pytest.mark.parametrize("multilabel", [False, True])
@pytest.mark.parametrize("kind", [GCN, APPNP])
def test_probabilities_are_those_of_the_scores_of_the_network(
    kind: Any, multilabel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments: list[Any] = []

    def fake(
        network: TwoLayerNetwork,
        features: Any,
        labels: Tensor,
        _: Any,
        train: Tensor,
        validation: Tensor,
        settings: Any,
    ) -> Any:
        arguments.extend([network, features, labels, train, validation, settings])
        return torch.from_numpy(random_matrix(40, labels.shape[1] if labels.ndim == 2 else 2)).float(), 1

    monkeypatch.setattr(estimators, "train_network", fake)
    true = multilabel_targets() if multilabel else TRUE_LABELS
    graph = groups_with_sparse_features()
    model = kind(
        hidden=7, dropout=0.2, learning_rate=0.3, weight_decay=0.4, epochs=5, patience=6, random_state=8, n_jobs=1
    ).fit(graph, labels_at(TRAIN_NODES, true), labels_at(VALIDATION_NODES, true))
    network, features, labels, train, validation, settings = arguments
    assert settings == NetworkSettings(epochs=5, patience=6, dropout=0.2, learning_rate=0.3, weight_decay=0.4, seed=8)
    assert (network.first.shape, network.last.shape) == ((24, 7), (7, 5 if multilabel else 2))
    assert (train.tolist(), validation.tolist()) == (TRAIN_NODES.tolist(), VALIDATION_NODES.tolist())
    assert np.array_equal(labels.numpy(), labels_at(np.r_[TRAIN_NODES, VALIDATION_NODES], true))  # no others
    sums = np.asarray(abs(features.csr).sum(axis=1)).ravel()
    np.testing.assert_allclose(sums, 1, rtol=1e-5)
    scores = random_matrix(40, 5 if multilabel else 2)
    expected = 1 / (1 + np.exp(-scores)) if multilabel else np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(), expected, rtol=1e-5)


def test_settings_of_appnp_are_those_of_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    networks: list[Any] = []
    zeros = torch.zeros(40, 2), 1
    monkeypatch.setattr(estimators, "train_network", lambda network, *_: networks.append(network) or zeros)
    APPNP(hops=2, alpha=0.25).fit(groups_with_sparse_features(), labels_at(TRAIN_NODES))
    assert networks[0].propagate.hop_weights == pytest.approx([0.25, 0.25 * 0.75, 0.75**2])


@pytest.mark.parametrize("kind", [GCN, APPNP])
def test_both_learn(kind: Any) -> None:
    for graph in (groups_with_sparse_features(), groups_with_sparse_features(dense=True), two_groups(features=False)):
        model = kind(epochs=60, learning_rate=0.05).fit(graph, labels_at(TRAIN_NODES), labels_at(VALIDATION_NODES))
        assert model.score(range(40), TRUE_LABELS) > 0.9
    true = multilabel_targets()[:, [0, 1, 3]]
    multilabel = kind(epochs=60, learning_rate=0.05).fit(
        groups_with_sparse_features(), labels_at(TRAIN_NODES, true), labels_at(VALIDATION_NODES, true)
    )
    assert multilabel.score(range(40), true) > 0.9


def test_rows_of_sparse_features_are_normalized() -> None:
    graph = groups_with_sparse_features()
    scaled = graph.with_features(sp.csr_array(sp.diags_array(2.0 ** (np.arange(40) % 5)) @ graph.features))
    results = [GCN(epochs=5).fit(each, labels_at(TRAIN_NODES)).predict_proba().tobytes() for each in (graph, scaled)]
    assert results[0] == results[1]


def test_a_graph_without_edges_is_classified_by_features() -> None:
    graph = cge.Graph.from_edges([], features=groups_with_sparse_features().features)
    model = GCN(epochs=40, learning_rate=0.05).fit(graph, labels_at(TRAIN_NODES), labels_at(VALIDATION_NODES))
    assert model.score(range(40), TRUE_LABELS) > 0.7


def test_the_state_of_the_global_generator_is_restored() -> None:
    before = torch.random.get_rng_state()
    GCN(epochs=2).fit(groups_with_sparse_features(), labels_at(TRAIN_NODES))
    assert torch.equal(torch.random.get_rng_state(), before)


# ---------------------------------------------------------------------- probabilities of CGE among the features


class FakeCGE:
    """Replaces CGE: stores its arguments, and returns fixed probabilities."""

    instances: list[FakeCGE] = []  # noqa: RUF012 - cleared by each test

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        FakeCGE.instances.append(self)

    def fit(self, graph: cge.Graph, y: Any, validation: Any = None) -> FakeCGE:
        self.graph, self.y, self.validation = graph, y, validation
        self.classes_ = np.arange(y.shape[1]) if y.ndim == 2 else np.unique(y[y >= 0])
        self.labels_seen_ = {"train": 3, "outer": 2, "validation": 0}
        return self

    def predict_proba(self, nodes: Any) -> Any:
        return np.abs(random_matrix(40, len(self.classes_))).astype(np.float32)


@pytest.mark.parametrize("multilabel", [False, True])
@pytest.mark.parametrize("dense", [False, True])
def test_probabilities_are_additional_features(dense: bool, multilabel: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(estimators, "CGE", FakeCGE)
    monkeypatch.setattr(estimators, "train_network", lambda _, x, *__: seen.append(x) or (torch.zeros(40, width), 1))
    FakeCGE.instances.clear()
    graph, true = groups_with_sparse_features(dense=dense), multilabel_targets() if multilabel else TRUE_LABELS
    width = 5 if multilabel else 2
    GCN("cge", random_state=4, n_jobs=1).fit(graph, labels_at(TRAIN_NODES, true), labels_at(VALIDATION_NODES, true))
    (model,) = FakeCGE.instances
    assert model.settings == {"prior_correction": False, "random_state": 4, "n_jobs": 1}
    assert model.graph is graph
    assert np.array_equal(model.y, labels_at(TRAIN_NODES, true))
    assert np.array_equal(model.validation, labels_at(VALIDATION_NODES, true))
    own: Any = EncoderData(graph, n_jobs=1).inputs("l1")
    (features,) = seen
    rows, before = map(np.asarray, (features, own) if dense else (features.csr.toarray(), own.csr.toarray()))
    assert rows.shape == (40, 24 + width)
    assert rows.dtype == np.float32
    assert np.array_equal(rows[:, :24], before)
    assert np.array_equal(rows[:, 24:], np.abs(random_matrix(40, width)).astype(np.float32))


def test_without_validation_labels_cge_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimators, "CGE", FakeCGE)
    FakeCGE.instances.clear()
    model = GCN("cge", epochs=2).fit(groups_with_sparse_features(), {0: "a", 5: "a", 25: "b"})
    assert model.labels_seen_ == {"train": 3, "outer": 2, "validation": 0}  # the outer labels of CGE
    assert FakeCGE.instances[0].validation is None
    assert GCN(epochs=2).fit(groups_with_sparse_features(), {0: "a", 5: "a", 25: "b"}).labels_seen_["outer"] == 0
    assert np.flatnonzero(FakeCGE.instances[0].y >= 0).tolist() == [0, 5, 25]


def test_gcn_with_cge(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = partial(
        cge.CGE, weighting="degree", classifier="mlp", label_propagation=False, training={"max_epochs": 30}, dim=8
    )
    monkeypatch.setattr(estimators, "CGE", quick)
    graph, y, validation = groups_with_sparse_features(), labels_at(TRAIN_NODES), labels_at(VALIDATION_NODES)
    model = GCN("cge", epochs=60).fit(graph, y, validation)
    assert model.labels_seen_ == {"train": 10, "outer": 0, "validation": 10}
    assert model.score(range(40), TRUE_LABELS) > 0.9
    assert model.predict_proba().tobytes() != GCN(epochs=60).fit(graph, y, validation).predict_proba().tobytes()
