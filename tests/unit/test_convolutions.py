"""GCN and APPNP: forward and backward against dense forms, which epoch is kept, and the estimators around them."""

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
from cge.models.convolutions import Appnp, Gcn, TwoLayerNetwork
from cge.models.sparse_products import NodeFeatures, SparseFeatures
from cge.models.transitions import TransitionMatrix
from cge.randomness import generator
from cge.training.encoder_data import EncoderData
from cge.training.network_training import NetworkSettings, _thinned, train_network
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

SETTINGS = NetworkSettings(epochs=12, patience=100, drop=0.0, rate=0.05, weight_decay=0.0, seed=0)
EDGES = [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (5, 5)]  # 5 has a loop of its own, 6 has nothing


def odd_graph() -> cge.Graph:
    return cge.Graph.from_edges(EDGES, num_nodes=7, self_loops=True)


def smoothing(graph: cge.Graph) -> Tensor:
    """Return D^-½ (A with a loop at each node) D^-½, dense; no loop counts twice."""
    looped = graph.to_scipy().toarray()
    np.fill_diagonal(looped, 1)
    root = np.diag(looped.sum(axis=1) ** -0.5)
    return torch.from_numpy(root @ looped @ root)


def network(kind: str, graph: cge.Graph, features: int = 5, seed: int = 0, **settings: Any) -> TwoLayerNetwork:
    """Return a network of float64 whose biases are not zero."""
    with seeded(seed, kind):
        steps = TransitionMatrix(graph, 1)
        made: TwoLayerNetwork = (Gcn if kind == "gcn" else Appnp)(steps, features, 4, 3, **settings)
        torch.nn.init.normal_(made.first_bias)
        torch.nn.init.normal_(made.last_bias)
    return made.double()


def numbers(rows: int, columns: int = 5, seed: int = 1) -> Any:
    random = np.random.default_rng(seed)
    return random.normal(size=(rows, columns)) * (random.random((rows, columns)) < 0.7)


def dense_scores(
    made: TwoLayerNetwork, kind: str, smooth: Tensor, x: Tensor, hops: int = 10, back: float = 0.1
) -> Tensor:
    if kind == "gcn":
        hidden = torch.relu(smooth @ x @ made.first + made.first_bias)
        return smooth @ hidden @ made.last + made.last_bias
    alone = torch.relu(x @ made.first + made.first_bias) @ made.last + made.last_bias
    reached = alone
    for _ in range(hops):  # the power iteration of the paper
        reached = (1 - back) * smooth @ reached + back * alone
    return reached


# ---------------------------------------------------------------------- forward and backward


@pytest.mark.parametrize("kind", ["gcn", "appnp"])
def test_edges_count_by_their_weights(kind: str) -> None:
    weights = np.array([3.0, 0.5, 1.0, 2.0, 0.1, 7.0])
    graph = cge.Graph.from_edges(EDGES, num_nodes=7, self_loops=True, weights=weights)
    given = torch.tensor(graph.weights)
    made = network(kind, graph, weights=given)
    looped = graph.to_scipy().toarray()
    looped[np.diag_indices(7)] += looped.diagonal() == 0  # a node's own loop keeps its weight
    root = np.diag(looped.sum(axis=1) ** -0.5)
    x = torch.from_numpy(numbers(7))
    expected = dense_scores(made, kind, torch.from_numpy(root @ looped @ root), x)
    torch.testing.assert_close(made(x, lambda one: one), expected, atol=1e-5, rtol=1e-5)
    data = EncoderData(cge.Graph.from_edges(EDGES, num_nodes=7, weights=weights, features=np.eye(7), self_loops=True))
    estimator = (GCN if kind == "gcn" else APPNP)()
    of_edges = estimator._network(data, 7, 2)
    propagate = of_edges.smooth if kind == "gcn" else of_edges.spread
    own = made.smooth if kind == "gcn" else made.spread
    ones = torch.eye(7, dtype=torch.float32)
    torch.testing.assert_close(propagate(ones), own(ones.double()).float())


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize(
    ("kind", "settings"), [("gcn", {}), ("appnp", {}), ("appnp", {"hops": 3, "back": 0.5}), ("appnp", {"hops": 1})]
)
def test_scores_and_gradients_are_those_of_the_dense_form(kind: str, settings: dict[str, Any], sparse: bool) -> None:
    graph, x = odd_graph(), numbers(7)
    made = network(kind, graph, **settings)
    given: NodeFeatures = SparseFeatures(sp.csr_array(x), 1) if sparse else torch.from_numpy(x)
    scores = made(given, lambda hidden: hidden)
    expected = dense_scores(made, kind, smoothing(graph), torch.from_numpy(x), **settings)
    assert scores.dtype == torch.float64
    torch.testing.assert_close(scores, expected, rtol=1e-6, atol=1e-6)  # weights of steps are float32
    towards = torch.from_numpy(numbers(7, 3, seed=2))
    found, wanted = (torch.autograd.grad((one * towards).sum(), list(made.parameters())) for one in (scores, expected))
    assert len(found) == 4
    for one, other in zip(found, wanted, strict=True):
        assert other.abs().max() > 1e-3
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_many_hops_are_personalized_pagerank() -> None:
    graph, x = odd_graph(), torch.from_numpy(numbers(7))
    made = network("appnp", graph, hops=200, back=0.2)
    alone = torch.relu(x @ made.first + made.first_bias) @ made.last + made.last_bias
    expected = 0.2 * torch.linalg.solve(torch.eye(7, dtype=torch.float64) - 0.8 * smoothing(graph), alone)
    torch.testing.assert_close(made(x, lambda hidden: hidden), expected, rtol=1e-5, atol=1e-5)


def test_all_that_stays_is_the_node_alone() -> None:
    x = torch.from_numpy(numbers(7))
    made = network("appnp", odd_graph(), hops=4, back=1.0)
    alone = torch.relu(x @ made.first + made.first_bias) @ made.last + made.last_bias
    torch.testing.assert_close(made(x, lambda hidden: hidden), alone)


@pytest.mark.parametrize("kind", ["gcn", "appnp"])
def test_what_is_hidden_is_disturbed_between_the_layers(kind: str) -> None:
    graph, x = odd_graph(), torch.from_numpy(numbers(7))
    made, mask = network(kind, graph), torch.from_numpy(numbers(7, 4, seed=4))
    seen = []

    def drop(hidden: Tensor) -> Tensor:
        seen.append(hidden)
        return hidden * mask

    scores, smooth = made(x, drop), smoothing(graph)
    (hidden,) = seen
    assert hidden.shape == (7, 4)
    assert (hidden >= 0).all()
    before = smooth @ x @ made.first if kind == "gcn" else x @ made.first
    torch.testing.assert_close(hidden, torch.relu(before + made.first_bias), rtol=1e-6, atol=1e-6)
    after = (hidden * mask) @ made.last
    if kind == "gcn":
        torch.testing.assert_close(scores, smooth @ after + made.last_bias, rtol=1e-6, atol=1e-6)
    assert (scores - made(x, lambda one: one)).abs().max() > 0.1


def test_only_the_first_layer_decays() -> None:
    made = network("gcn", odd_graph())
    decaying, others = made.groups(0.3)
    assert (decaying["weight_decay"], others["weight_decay"]) == (0.3, 0.0)
    assert [id(one) for one in decaying["params"]] == [id(made.first)]
    assert {id(one) for one in others["params"]} == {id(made.first_bias), id(made.last), id(made.last_bias)}


def test_the_form_is_up_to_the_subclass() -> None:
    with pytest.raises(NotImplementedError):
        TwoLayerNetwork(2, 2, 2)(torch.zeros(1, 2), lambda hidden: hidden)


# ---------------------------------------------------------------------- training


def trained(
    graph: cge.Graph,
    settings: NetworkSettings,
    selection: Any = (),
    true: Any = TRUE_LABELS,
    kind: str = "gcn",
    seed: int = 0,
) -> tuple[Tensor, TwoLayerNetwork]:
    """Train a small network of float32 and return scores and network."""
    x = torch.from_numpy(numbers(40, 5)).float()
    made = network(kind, graph, seed=seed).float()
    nodes = torch.tensor(selection, dtype=torch.int64)
    return train_network(made, x, torch.tensor(true), torch.tensor(TRAIN_NODES), nodes, settings)[0], made


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("kind", ["gcn", "appnp"])
def test_an_epoch_is_a_step_of_adam(kind: str, several: bool) -> None:
    graph, x = two_groups(), torch.from_numpy(numbers(40, 5))
    true = multilabel_targets()[:, :3] if several else TRUE_LABELS
    before = network(kind, graph)
    scores = dense_scores(before, kind, torch.from_numpy(normalized_adjacency(graph)), x)[TRAIN_NODES]
    if several:
        chance = torch.sigmoid(scores)
        wanted = torch.from_numpy(true[TRAIN_NODES]).double()
        loss = -(wanted * chance.log() + (1 - wanted) * (1 - chance).log()).sum(1).mean()
    else:
        loss = -torch.log_softmax(scores, dim=1)[torch.arange(len(TRAIN_NODES)), TRUE_LABELS[TRAIN_NODES]].mean()
    _, after = trained(graph, replace(SETTINGS, epochs=1, weight_decay=0.1), true=true, kind=kind)
    for name, slope in zip(
        ("first", "first_bias", "last", "last_bias"),
        torch.autograd.grad(loss, [before.first, before.first_bias, before.last, before.last_bias]),
        strict=True,
    ):
        start = getattr(before, name).detach()
        slope = slope + 0.1 * start if name == "first" else slope
        expected = start - 0.05 * slope / (slope.abs() + 1e-8)  # the first step of Adam
        steep = slope.abs() > 1e-4  # elsewhere float32 may not know the sign
        assert steep.double().mean() > 0.5
        torch.testing.assert_close(getattr(after, name).detach().double()[steep], expected[steep], rtol=0, atol=1e-4)


def judged(scores: Tensor, nodes: Any, true: Any) -> tuple[float, float]:
    told = scores[torch.tensor(nodes)].double()
    labels = torch.tensor(true)[torch.tensor(nodes)]
    return float((told.argmax(1) == labels).double().mean()), -float(functional.cross_entropy(told, labels))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_best_epoch_is_kept(seed: int) -> None:
    graph = two_groups()
    true = np.where(
        np.random.default_rng(seed).random(40) < 0.3, 1 - TRUE_LABELS, TRUE_LABELS
    )  # the best is not simply the last
    settings = replace(SETTINGS, epochs=12, drop=0.3, rate=0.3, seed=seed)
    each = [trained(graph, replace(settings, epochs=epochs), seed=seed)[0] for epochs in range(1, 13)]
    scores = [judged(one, VALIDATION_NODES, true) for one in each]
    found, made = trained(
        graph, settings, VALIDATION_NODES, np.where(np.isin(np.arange(40), TRAIN_NODES), TRUE_LABELS, true), seed=seed
    )
    best = max(range(12), key=lambda epoch: scores[epoch])
    assert found.numpy().tobytes() == each[best].numpy().tobytes()
    assert best < 11 or seed
    x = torch.from_numpy(numbers(40, 5)).float()
    assert torch.equal(made(x, lambda hidden: hidden), found)  # the network itself is the one of that epoch


def test_where_accuracies_are_level_the_loss_decides() -> None:
    graph, slow = two_groups(), replace(SETTINGS, rate=0.005)
    true = trained(graph, replace(slow, epochs=1))[0].argmax(dim=1).numpy()  # what it says anyway
    each = [trained(graph, replace(slow, epochs=epochs), true=true)[0] for epochs in range(1, 13)]
    scores = [judged(one, VALIDATION_NODES, true) for one in each]
    assert {accuracy for accuracy, _ in scores} == {1.0}
    best = max(range(12), key=lambda epoch: scores[epoch])
    assert best > 0
    assert trained(graph, slow, VALIDATION_NODES, true)[0].numpy().tobytes() == each[best].numpy().tobytes()


@pytest.mark.parametrize("patience", [1, 3, 50])
def test_patience_ends_the_training(patience: int) -> None:
    class Watched(Gcn):
        epochs = 0

        def forward(self, features: NodeFeatures, drop: Any) -> Tensor:
            found = super().forward(features, drop)
            self.epochs += found.requires_grad  # scores alone are computed without gradients
            return found

    graph = two_groups()
    x, train, choose = (
        torch.from_numpy(numbers(40, 5)).float(),
        torch.tensor(TRAIN_NODES),
        torch.tensor(VALIDATION_NODES),
    )
    wrong = torch.tensor(
        np.where(np.isin(np.arange(40), VALIDATION_NODES), 1 - TRUE_LABELS, TRUE_LABELS)
    )  # it gets worse and worse
    settings = replace(SETTINGS, epochs=12, patience=patience, rate=0.1)
    with seeded(0, "watched"):
        made = Watched(TransitionMatrix(graph, 1), 5, 4, 3)
    kept = {name: value.clone() for name, value in made.state_dict().items()}
    train_network(made, x, wrong, train, choose, settings)
    whole = []
    for epochs in range(1, 13):
        with seeded(0, "watched"):
            again = Gcn(TransitionMatrix(graph, 1), 5, 4, 3)
        assert all(torch.equal(value, kept[name]) for name, value in again.state_dict().items())
        none = torch.empty(0, dtype=torch.int64)
        whole.append(train_network(again, x, wrong, train, none, replace(settings, epochs=epochs))[0])
    best, ended = 0, 12
    scores = [judged(one, VALIDATION_NODES, wrong.numpy()) for one in whole]
    for epoch, score in enumerate(scores):
        best = epoch if score > scores[best] else best
        if epoch - best >= patience:
            ended = epoch + 1
            break
    assert made.epochs == ended
    assert ended < 12 or patience == 50


def test_an_overflow_is_told_and_threads_are_given_back() -> None:
    before = torch.get_num_threads()
    with pytest.raises(InputError) as caught:
        trained(two_groups(), replace(SETTINGS, rate=1e30))
    assert str(caught.value) == "training overflowed; try a tenth of learning_rate (now 1e+30)"
    assert torch.get_num_threads() == before


def test_what_is_dropped_follows_from_seed_and_epoch() -> None:
    graph, settings = two_groups(), replace(SETTINGS, drop=0.5, epochs=3)
    found = [trained(graph, one)[0].numpy().tobytes() for one in (settings, settings, replace(settings, seed=1))]
    assert found[0] == found[1] != found[2]
    assert trained(graph, replace(settings, drop=0.0))[0].numpy().tobytes() != found[0]
    ones = torch.ones(200, 50)
    thin = _thinned(ones, 0.25, generator(0, "x"))
    assert thin.unique().tolist() == pytest.approx([0, 4 / 3])
    assert float((thin == 0).double().mean()) == pytest.approx(0.25, abs=0.02)
    assert _thinned(ones, 0.0, generator(0, "x")) is ones


# ---------------------------------------------------------------------- the estimators


@pytest.mark.parametrize("features", ["sparse", "dense", "none"])
@pytest.mark.parametrize("kind", [GCN, APPNP])
def test_the_same_bytes_on_any_threads(kind: Any, features: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cge.models.sparse_products._WORK", 50)  # so that even a small graph is worth two threads
    graph = two_groups(features=False) if features == "none" else groups_with_sparse_features(dense=features == "dense")
    found = []
    for settings in ({"n_jobs": 1}, {"n_jobs": 2}, {"n_jobs": 1}, {"random_state": 1}):
        model = kind(epochs=5, hidden=8, **settings).fit(graph, labels_at(TRAIN_NODES), labels_at(VALIDATION_NODES))
        found.append(model.predict_proba().tobytes())
    assert found[0] == found[1] == found[2] != found[3]


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("kind", [GCN, APPNP])
def test_chances_are_made_of_the_scores_of_the_network(
    kind: Any, several: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []

    def fake(
        made: TwoLayerNetwork, features: Any, labels: Tensor, train: Tensor, selection: Tensor, settings: Any
    ) -> Any:
        told.extend([made, features, labels, train, selection, settings])
        return torch.from_numpy(numbers(40, labels.shape[1] if labels.ndim == 2 else 2)).float(), 1

    monkeypatch.setattr(estimators, "train_network", fake)
    true = multilabel_targets() if several else TRUE_LABELS
    graph = groups_with_sparse_features()
    model = kind(
        hidden=7, drop=0.2, learning_rate=0.3, weight_decay=0.4, epochs=5, patience=6, random_state=8, n_jobs=1
    ).fit(graph, labels_at(TRAIN_NODES, true), labels_at(VALIDATION_NODES, true))
    made, features, labels, train, selection, settings = told
    assert settings == NetworkSettings(epochs=5, patience=6, drop=0.2, rate=0.3, weight_decay=0.4, seed=8)
    assert (made.first.shape, made.last.shape) == ((24, 7), (7, 5 if several else 2))
    assert (train.tolist(), selection.tolist()) == (TRAIN_NODES.tolist(), VALIDATION_NODES.tolist())
    assert np.array_equal(
        labels.numpy(), labels_at(np.r_[TRAIN_NODES, VALIDATION_NODES], true)
    )  # those of others are not given
    sums = np.asarray(abs(features.rows).sum(axis=1)).ravel()
    np.testing.assert_allclose(sums, 1, rtol=1e-5)
    scores = numbers(40, 5 if several else 2)
    expected = 1 / (1 + np.exp(-scores)) if several else np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(), expected, rtol=1e-5)


def test_settings_of_appnp_reach_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(estimators, "train_network", lambda one, *_: made.append(one) or (torch.zeros(40, 2), 1))
    APPNP(hops=2, back=0.25).fit(groups_with_sparse_features(), labels_at(TRAIN_NODES))
    assert made[0].spread.hops == pytest.approx([0.25, 0.25 * 0.75, 0.75**2])


@pytest.mark.parametrize("kind", [GCN, APPNP])
def test_both_learn(kind: Any) -> None:
    for graph in (groups_with_sparse_features(), groups_with_sparse_features(dense=True), two_groups(features=False)):
        model = kind(epochs=60, learning_rate=0.05).fit(graph, labels_at(TRAIN_NODES), labels_at(VALIDATION_NODES))
        assert model.score(range(40), TRUE_LABELS) > 0.9
    true = multilabel_targets()[:, [0, 1, 3]]
    several = kind(epochs=60, learning_rate=0.05).fit(
        groups_with_sparse_features(), labels_at(TRAIN_NODES, true), labels_at(VALIDATION_NODES, true)
    )
    assert several.score(range(40), true) > 0.9


def test_long_and_short_rows_of_sparse_features_count_alike() -> None:
    graph = groups_with_sparse_features()
    longer = graph.with_features(sp.csr_array(sp.diags_array(2.0 ** (np.arange(40) % 5)) @ graph.features))
    found = [GCN(epochs=5).fit(one, labels_at(TRAIN_NODES)).predict_proba().tobytes() for one in (graph, longer)]
    assert found[0] == found[1]


def test_a_graph_without_edges_is_read_by_features() -> None:
    graph = cge.Graph.from_edges([], features=groups_with_sparse_features().features)
    model = GCN(epochs=40, learning_rate=0.05).fit(graph, labels_at(TRAIN_NODES), labels_at(VALIDATION_NODES))
    assert model.score(range(40), TRUE_LABELS) > 0.7


def test_random_numbers_of_others_go_on_as_before() -> None:
    before = torch.random.get_rng_state()
    GCN(epochs=2).fit(groups_with_sparse_features(), labels_at(TRAIN_NODES))
    assert torch.equal(torch.random.get_rng_state(), before)


# ---------------------------------------------------------------------- chances of CGE among the features


class Told:
    """Stands for CGE: keeps what it is given, and tells chances of its own."""

    made: list[Told] = []  # noqa: RUF012 - cleared by each test

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        Told.made.append(self)

    def fit(self, graph: cge.Graph, y: Any, validation: Any = None) -> Told:
        self.graph, self.y, self.validation = graph, y, validation
        self.classes_ = np.arange(y.shape[1]) if y.ndim == 2 else np.unique(y[y >= 0])
        self.labels_seen_ = {"train": 3, "outer": 2, "selection": 0}
        return self

    def predict_proba(self) -> Any:
        return np.abs(numbers(40, len(self.classes_))).astype(np.float32)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("dense", [False, True])
def test_chances_are_further_features(dense: bool, several: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(estimators, "CGE", Told)
    monkeypatch.setattr(estimators, "train_network", lambda _, x, *__: seen.append(x) or (torch.zeros(40, width), 1))
    Told.made.clear()
    graph, true = groups_with_sparse_features(dense=dense), multilabel_targets() if several else TRUE_LABELS
    width = 5 if several else 2
    GCN("cge", random_state=4, n_jobs=1).fit(graph, labels_at(TRAIN_NODES, true), labels_at(VALIDATION_NODES, true))
    (told,) = Told.made
    assert told.settings == {"prior_correction": "no", "random_state": 4, "n_jobs": 1}
    assert told.graph is graph
    assert np.array_equal(told.y, labels_at(TRAIN_NODES, true))
    assert np.array_equal(told.validation, labels_at(VALIDATION_NODES, true))
    own: Any = EncoderData(graph, n_jobs=1).inputs("l1")
    (given,) = seen
    rows, before = (given, own) if dense else (given.rows.toarray(), own.rows.toarray())
    rows, before = np.asarray(rows), np.asarray(before)
    assert rows.shape == (40, 24 + width)
    assert rows.dtype == np.float32
    assert np.array_equal(rows[:, :24], before)
    assert np.array_equal(rows[:, 24:], np.abs(numbers(40, width)).astype(np.float32))


def test_without_selection_labels_cge_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimators, "CGE", Told)
    Told.made.clear()
    model = GCN("cge", epochs=2).fit(groups_with_sparse_features(), {0: "a", 5: "a", 25: "b"})
    assert model.labels_seen_ == {"train": 3, "outer": 2, "selection": 0}  # those that weigh paths in CGE
    assert Told.made[0].validation is None
    assert GCN(epochs=2).fit(groups_with_sparse_features(), {0: "a", 5: "a", 25: "b"}).labels_seen_["outer"] == 0
    assert np.flatnonzero(Told.made[0].y >= 0).tolist() == [0, 5, 25]


def test_gcn_with_the_real_thing(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = partial(cge.CGE, weighting="degree", classifier="mlp", label_propagation="no", max_epochs=30, dim=8)
    monkeypatch.setattr(estimators, "CGE", quick)
    graph, y, more = groups_with_sparse_features(), labels_at(TRAIN_NODES), labels_at(VALIDATION_NODES)
    model = GCN("cge", epochs=60).fit(graph, y, more)
    assert model.labels_seen_ == {"train": 10, "outer": 0, "selection": 10}
    assert model.score(range(40), TRUE_LABELS) > 0.9
    assert model.predict_proba().tobytes() != GCN(epochs=60).fit(graph, y, more).predict_proba().tobytes()
