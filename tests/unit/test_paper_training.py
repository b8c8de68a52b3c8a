"""Algorithm 1: what an epoch does, what labels may affect, and that a stopped training continues identically."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor, nn

import cge
from cge.losses import multilabel_loss, supervised_loss
from cge.metrics import accuracy_or_f1
from cge.models.paper_networks import FeatureEncoder, InductiveHead
from cge.models.sparse_products import SparseFeatures
from cge.models.weightings import make_network
from cge.sampling import subpaths
from cge.targets import SingleLabel, Task
from cge.training.pair_objectives import NegativeSampling
from cge.training.paper_inner import InnerProblem, WalkBatch, make_target_rows
from cge.training.paper_outer import PathSample, unrolled_hypergradient
from cge.training.paper_parameters import TrainingSettings
from cge.training.paper_training import Trainer, train
from cge.training.stored_state import TrainerState
from cge.training.torch_state import one_thread
from cge.training.walk_partitions import partition_nodes
from tests.fixtures import ConstantWeighting, groups_with_sparse_features, make_task, two_groups

SMALL = TrainingSettings(
    setting="transductive",
    weighting="lstm",
    dim=16,
    window=4,
    walk_length=10,
    walks_per_node=4,
    loss="negative",
    negatives=5,
    pretrain=2,
    max_epochs=3,
    patience=99,
    optimizer="auto",
    learning_rate=None,
    unsup_weight=1.0,
    label_pairs=0.1,
    supervised_strength=0.0,
    hidden=8,
    head_steps=20,
    head_lr=0.01,
    weight_decay=5e-4,
    outer="unrolled",
    virtual_lr=1.0,
    weighting_lr=0.01,
    outer_steps=3,
    outer_paths=64,
    seed=0,
    n_jobs=None,
)


def arrays_of(result: Any) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in result.parameters.arrays().items()}


def test_equal_weights_are_uniform_weights() -> None:
    uniform = arrays_of(train(make_task(two_groups()), replace(SMALL, weighting="uniform")))
    equal = arrays_of(train(make_task(two_groups()), replace(SMALL, weighting=ConstantWeighting)))
    assert {name: equal[name] for name in uniform} == uniform
    learned = arrays_of(train(make_task(two_groups()), replace(SMALL, weighting="average", weighting_lr=0.1)))
    assert learned["sources"] != uniform["sources"]
    other_seed = arrays_of(train(make_task(two_groups()), replace(SMALL, weighting="uniform", seed=1)))
    assert other_seed["sources"] != uniform["sources"]


def test_labels_do_not_train_the_vectors_in_pretraining() -> None:
    graph = two_groups()
    wrong = torch.tensor([0, 1] * 20)
    settings = replace(SMALL, weighting="uniform", supervised_strength=1.0)
    states: dict[str, list[TrainerState]] = {"true": [], "wrong": []}
    for name, task in (("true", make_task(graph)), ("wrong", make_task(graph, wrong))):
        train(task, settings, on_state=lambda state, name=name: states[name].append(state()))
    for number, (state, other) in enumerate(zip(states["true"], states["wrong"], strict=True)):
        same = np.array_equal(state.arrays["now.encoder.table"], other.arrays["now.encoder.table"])
        assert same == (number < settings.pretrain)


@pytest.mark.parametrize("outer_only", [False, True])
@pytest.mark.parametrize("pretrain", [0, 2])
def test_the_weighting_is_trained_in_every_epoch(pretrain: int, outer_only: bool) -> None:
    settings = replace(SMALL, weighting="average", pretrain=pretrain, max_epochs=5 - pretrain)
    trained = train(make_task(two_groups(), outer_only=outer_only), settings)
    assert all(epoch.outer_loss is not None for epoch in trained.history)
    assert trained.history.column("stage") == ["pretrain"] * pretrain + ["train"] * (5 - pretrain)
    assert trained.history.column("epoch") == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("outer_steps", "expected"), [(None, [1] * 7), (7, [1] * 7), (3, [0, 0, 1, 0, 1, 0, 1])])
def test_outer_steps_are_spread_over_the_batches(
    outer_steps: int | None, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One step after each batch of walks unless their number is given; steps have successive numbers."""
    monkeypatch.setattr("cge.training.paper_training._MIN_BATCH", 24)
    monkeypatch.setattr("cge.training.paper_training._BATCHES", 7)
    trainer = Trainer(make_task(two_groups()), replace(SMALL, weighting="average", outer_steps=outer_steps))
    assert trainer.batches == 7
    learner, batches, heads = trainer.weight_learner, [0], []
    assert learner is not None
    steps: list[tuple[int, int]] = []
    monkeypatch.setattr(learner, "step", lambda number, _: steps.append((batches[0], number)) or 0.0)
    monkeypatch.setattr(trainer.inner, "train_head", lambda count: heads.append((batches[0], count)) or 0.0)

    def next_batch(*_: Any, **__: Any) -> int:
        batches[0] += 1
        return 0

    monkeypatch.setattr(trainer.inner, "train_paths", next_batch)
    trainer.run_epoch(0)
    trainer.run_epoch(1)
    assert [sum(batch == number for batch, _ in steps) for number in range(1, 15)] == 2 * expected
    assert [number for _, number in steps] == list(range(2 * sum(expected)))
    assert [count for batch, count in heads if batch <= 7] == [2, 3, 3, 3, 3, 3, 3]


@pytest.mark.parametrize("setting", ["transductive", "inductive"])
def test_outer_labels_are_unseen_by_the_inner_problem(setting: str) -> None:
    """With frozen weights, labels of a fold affect nothing of the fold's own training: vectors, head, optimizers.

    They do affect the vectors of the model itself, by same-label pairs and by the supervised loss.
    """
    graph = two_groups()
    flipped = torch.tensor([0] * 20 + [1] * 20)
    fold = make_task(graph).folds[0]
    flipped[fold] = 1 - flipped[fold]
    settings = replace(SMALL, setting=setting, weighting=ConstantWeighting, pretrain=1, supervised_strength=1.0)
    last: list[TrainerState] = []
    for labels in (None, flipped):
        states: list[TrainerState] = []
        train(make_task(graph, labels), settings, on_state=lambda state, states=states: states.append(state()))
        last.append(states[-1])
    own = [name for name in last[0].arrays if name.startswith(("fold.0.", "fold_0_"))]
    encoder = "encoder.table" if setting == "transductive" else "encoder.weight"
    assert {"fold.0.sources", f"fold.0.{encoder}", "fold.0.head.from_e.weight"} <= set(own)
    assert all(np.array_equal(last[0].arrays[name], last[1].arrays[name]) for name in own)
    for name in (f"now.{encoder}", f"fold.1.{encoder}"):
        assert not np.array_equal(last[0].arrays[name], last[1].arrays[name])


@pytest.mark.parametrize("setting", ["transductive", "inductive"])
def test_a_fold_is_a_training_without_its_labels(setting: str) -> None:
    """The vectors of a fold are, byte for byte, those of a model whose training labels are the other folds'."""
    settings = replace(SMALL, setting=setting, weighting=ConstantWeighting, label_pairs=0.2, supervised_strength=0.0)
    task, states = make_task(two_groups()), []
    train(task, settings, on_state=lambda state: states.append(state()))
    alone: list[TrainerState] = []
    other = replace(task, train=task.folds[1], folds=[])
    train(other, replace(settings, weighting="uniform"), on_state=lambda state: alone.append(state()))
    encoder = "encoder.table" if setting == "transductive" else "encoder.weight"
    for name in ("sources", encoder):
        assert np.array_equal(states[-1].arrays[f"fold.0.{name}"], alone[-1].arrays[f"now.{name}"])


def test_validation_labels_only_select_the_epoch() -> None:
    graph = two_groups()
    flipped = torch.tensor([0] * 20 + [1] * 20)
    validation = make_task(graph).validation
    flipped[validation] = 1 - flipped[validation]
    last = []
    for labels in (None, flipped):
        states: list[TrainerState] = []
        settings = replace(SMALL, weighting="average", supervised_strength=0.5)
        train(make_task(graph, labels), settings, on_state=lambda state, states=states: states.append(state()))
        last.append({name: array for name, array in states[-1].arrays.items() if not name.startswith("best")})
    assert all(np.array_equal(last[0][name], last[1][name]) for name in last[0])


def trainer_with(**changed: Any) -> Trainer:
    trainer = Trainer(make_task(two_groups()), replace(SMALL, **changed))
    if trainer.parameters.network is not None:
        with torch.no_grad():
            for parameter in trainer.parameters.network.parameters():
                parameter.copy_(8 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
            trainer.parameters.encoder.table.normal_(generator=torch.Generator().manual_seed(1))
    if trainer.weight_learner is not None:
        trainer.weight_learner.update_weights()
    return trainer


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("rule", ["unrolled", "paper"])
def test_every_path_of_a_batch_has_its_own_weight(rule: str, cached: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cge.training.paper_outer._MAX_CACHED", 10**9 if cached else 0)
    monkeypatch.setattr("cge.training.paper_training._MIN_BATCH", 50)
    trainer = trainer_with(weighting="lstm", outer=rule)
    learner, network = trainer.weight_learner, trainer.parameters.network
    assert learner is not None
    assert network is not None
    vectors = trainer.parameters.vectors(None)

    def weights(walks: Any) -> Any:
        paths = subpaths(walks, 4, shortest=2)
        with torch.no_grad():
            return network(vectors, *(torch.tensor(array.astype(np.int64)) for array in (paths.nodes, paths.length)))

    batches = list(trainer.walker.batches(trainer.batch_size))
    assert torch.cat([weights(walks) for walks in batches]).std() > 0.2
    for batch, walks in enumerate(batches):
        mean = weights(walks).double().mean()
        expected = weights(walks) if rule == "paper" else (weights(walks) / mean).clamp(0.2, 5)
        batch_weights, base = learner.batch_weights(trainer.inner, batch, walks)
        np.testing.assert_allclose(batch_weights, expected.numpy(), atol=2e-4)
        assert base.tolist() == [24 * k for k in range(len(walks))]  # 9 + 8 + 7 paths of a walk
    if rule == "unrolled":
        assert learner.loss_weights.min() == pytest.approx(0.2)


def test_lambda_scales_the_path_loss() -> None:
    trainer = trainer_with(weighting="uniform", unsup_weight=0.5, learning_rate=0.04)
    assert trainer.inner._learning_rate(0.25) == pytest.approx(0.04 * 0.75)
    half = trainer_with(weighting="uniform", unsup_weight=1.0, learning_rate=0.02)
    for other in (trainer, half):
        other.run_epoch(0)
    assert np.array_equal(trainer.parameters.sources, half.parameters.sources)  # λ · rate
    fixed = trainer_with(weighting="uniform", unsup_weight=0.0, label_pairs=0.0)
    before = fixed.parameters.arrays()
    fixed.run_epoch(0)
    assert np.array_equal(before["sources"], fixed.parameters.sources)
    assert np.array_equal(before["encoder.table"], fixed.parameters.encoder.table.detach().numpy())


@pytest.mark.parametrize("setting", ["transductive", "inductive"])
@pytest.mark.parametrize("multilabel", [False, True])
def test_the_supervised_gradient_of_the_vectors(setting: str, multilabel: bool) -> None:
    """Algorithm 1, line 4: `label_gradient` is ∇_e L_s by central differences, in float64."""
    graph, labels = two_groups(), torch.tensor([0] * 20 + [1] * 20)
    task = make_task(graph, torch.nn.functional.one_hot(labels) if multilabel else labels)
    settings = replace(SMALL, weighting="uniform", setting=setting, supervised_strength=0.7)
    inner = Trainer(task, settings).inner
    inner.parameters.head.double()
    inner.task = replace(task, features=task.features.double())
    start = torch.randn(len(task.train), 16, generator=torch.Generator().manual_seed(0)).double()
    inner.parameters.vectors = lambda features, nodes: start.clone()
    gradient = inner.label_gradient()

    of_row = multilabel_loss if multilabel else supervised_loss

    def loss(vectors: Tensor) -> Tensor:
        with torch.no_grad():
            scores = inner.parameters.head(inner.task.features[task.train], vectors)
            terms = [of_row(scores[k : k + 1], task.labels[task.train[k : k + 1]]) for k in range(len(scores))]
            return 0.7 * (torch.stack(terms).sum() if setting == "transductive" else torch.stack(terms).mean())

    for seed in range(3):
        direction = torch.randn(start.shape, generator=torch.Generator().manual_seed(seed + 1)).double()
        difference = (loss(start + 1e-6 * direction) - loss(start - 1e-6 * direction)) / 2e-6
        assert difference.abs() > 1e-4
        torch.testing.assert_close((gradient * direction).sum(), difference, rtol=1e-6, atol=1e-9)


def test_the_supervised_gradient_acts_in_every_step() -> None:
    """With λ = 0 only the supervised loss moves the table, by rate · gradient after each batch; the rate decays."""
    settings = replace(SMALL, weighting="uniform", unsup_weight=0.0, supervised_strength=2.0, pretrain=0, max_epochs=2)
    trainer = Trainer(make_task(two_groups()), settings)
    inner, table = trainer.inner, trainer.parameters.encoder.table
    before, gradient = table.detach().clone(), inner.label_gradient()
    walks = next(iter(trainer.walker.batches(trainer.batch_size)))
    for progress in (0.0, 0.5):
        start = table.detach().clone()
        gradient = inner.label_gradient()
        inner.train_paths(WalkBatch(walks, 0, (progress, progress), 0, with_labels=True))
        moved = table.detach() - start
        torch.testing.assert_close(moved[trainer.task.train], -0.025 * (1 - progress) * gradient)
    inner.train_paths(WalkBatch(walks, 0, (0.0, 0.0), 0))
    others = ~torch.isin(torch.arange(40), trainer.task.train)
    assert torch.equal(table.detach()[others], before[others])  # nodes without a label
    assert moved.abs().max() > 1e-4


@pytest.mark.parametrize(
    ("setting", "loss", "optimizer"),
    [  # each pair of two settings occurs
        ("transductive", "softmax", "auto"),
        ("transductive", "negative", "adam"),
        ("inductive", "softmax", "adam"),
        ("inductive", "negative", "auto"),
    ],
)
def test_strength_changes_the_vectors_after_pretraining(setting: str, loss: str, optimizer: str) -> None:
    """The training loss of the head falls with the strength, for every way to train the vectors."""
    settings = replace(SMALL, weighting="uniform", setting=setting, loss=loss, optimizer=optimizer, label_pairs=0.0)
    task = make_task(two_groups(), validation=torch.empty(0, dtype=torch.int64))
    losses = [
        train(task, replace(settings, supervised_strength=k)).history[-1].supervised_loss for k in (0.0, 1.0, 10.0)
    ]
    assert losses[0] > losses[1] > losses[2]


def test_labeled_nodes_that_no_path_reaches_stay_zero() -> None:
    graph = cge.Graph.from_edges([(0, 1), (1, 2), (2, 0), (3, 1)], num_nodes=4, directed=True)
    task = Task(
        graph, None, torch.tensor([0, 1, 0, 1]), SingleLabel(np.arange(2)), torch.tensor([0, 1, 3]), torch.tensor([2])
    )
    settings = replace(SMALL, weighting="uniform", label_pairs=0.0, supervised_strength=1.0)
    table = train(task, settings).parameters.encoder.table.detach().numpy()
    assert (table[3] == 0).all()
    assert np.isfinite(table).all()


def test_the_outer_loss_decreases(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a fixed sample of paths and a fixed head, training the weighting descends the loss after the virtual step."""
    settings = replace(SMALL, weighting="average", virtual_lr=5.0, weighting_lr=0.1, outer_paths=512, outer_steps=1)
    monkeypatch.setattr("cge.training.paper_outer._SCALE_FORCE", 0.0)
    with one_thread():
        trainer = Trainer(make_task(two_groups()), settings)
        trainer.run_epoch(0)
        trainer.run_epoch(1)
        learner = trainer.weight_learner
        assert learner is not None
        sample = learner._sample_paths(0, 0)
        monkeypatch.setattr(learner, "_sample_paths", lambda *_: sample)
        losses = [learner.step(2 * step, True) for step in range(30)]  # always fold 0
    assert (np.diff(losses[5:]) < 0).all()  # after steps against the momentum of the other fold
    assert losses[-1] < losses[0] - 0.001


@pytest.mark.parametrize(
    ("setting", "weighting", "seed"),
    [("transductive", "average", 0), ("inductive", "cnn", 0), ("transductive", "lstm", 1)],
)
def test_the_scale_of_the_weights_survives_500_outer_steps(setting: str, weighting: str, seed: int) -> None:
    settings = replace(SMALL, setting=setting, weighting=weighting, pretrain=1, max_epochs=4, outer_steps=100)
    history = train(make_task(two_groups()), replace(settings, seed=seed, weighting_lr=0.03)).history
    assert all(0.1 < mean < 0.9 for mean in history.column("weight_mean"))
    assert history[-1].weight_std > 0.02  # it is the scale that is held, not the weights


def test_nodes_without_features_share_a_row_and_nothing_changes() -> None:
    """Vectors, path loss and hypergradient of shared rows are those of a row for every node."""
    random = np.random.default_rng(0)
    dense = random.random((40, 6)) * (random.random((40, 6)) < 0.3) * (np.arange(40) % 3 > 0)[:, None]
    features = SparseFeatures(sp.csr_array(dense))
    parts = partition_nodes(np.ones(40), 2, 0)
    shared = make_target_rows(features, parts)
    assert shared.features is not None
    assert shared.row_of is not None
    empty = (dense == 0).all(1)
    assert shared.features.shape == (np.sum(~empty) + 2, 6)
    assert all(len(set(parts.part_of[shared.row_of == row])) == 1 for row in set(shared.row_of))
    encoder, sources = FeatureEncoder(6, 4).double(), torch.from_numpy(random.normal(size=(40, 4)))
    with torch.no_grad():
        encoder.bias.copy_(torch.randn(4))
        np.testing.assert_allclose(encoder(shared.features)[shared.row_of], encoder(features))
    nodes, length = random.integers(0, 40, (30, 3)), random.integers(2, 4, 30)
    nodes[length == 2, 2] = -1
    negatives = random.integers(0, 40, (30, 5))
    head, labels = InductiveHead(6, 4, 2).double(), torch.arange(40) % 2
    target = SingleLabel(np.arange(2))
    gradients = []
    for rows, row_features in ((lambda nodes: nodes, features), (shared.rows, shared.features)):
        network = make_network("average", 4)
        assert network is not None
        with torch.no_grad():
            for parameter in network.double().parameters():
                parameter.copy_(torch.linspace(-1, 1, parameter.numel()).reshape(parameter.shape))
        endpoints = rows(nodes[np.arange(30), length - 1])
        sample = PathSample(
            torch.from_numpy(rows(nodes)),
            torch.from_numpy(length),
            NegativeSampling(nodes[:, 0], endpoints, rows(negatives)),
            torch.full((30,), 1 / 30, dtype=torch.float64),
        )
        problem = InnerProblem(sources, encoder, head, features, row_features, labels, target, torch.arange(10))
        unrolled_hypergradient(network, problem, sample, torch.arange(10, 20), 0.5)
        gradients.append(torch.cat([parameter.grad.ravel() for parameter in network.parameters()]))
    assert gradients[0].abs().max() > 1e-6
    np.testing.assert_allclose(*gradients, rtol=1e-6, atol=1e-12)


def test_a_sample_represents_all_paths() -> None:
    trainer = trainer_with(weighting="average", outer_paths=60_000)
    learner = trainer.weight_learner
    assert learner is not None
    sample = learner._sample_paths(0, 0)
    assert float(sample.fraction.sum()) == pytest.approx(1)
    mean_length = float((sample.fraction * sample.length).sum())
    assert mean_length == pytest.approx(np.average(learner.tree.length, weights=learner._counts), abs=0.01)
    ends_in_fold = torch.isin(sample.nodes.gather(1, sample.length[:, None] - 1).squeeze(1), trainer.task.folds[0])
    assert float(ends_in_fold.float().mean()) == pytest.approx(0.5)


class NormalizedWeighting(cge.PathWeighting):
    """A network with batch normalization, which has buffers, and dropout."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.layer = nn.Linear(dim, 1)
        self.norm = nn.BatchNorm1d(dim)
        self.drop = nn.Dropout(0.5)

    def score(self, projected: Tensor, length: Tensor) -> Tensor:
        return self.layer(self.drop(self.norm(projected[:, 0]))).squeeze(1)


def test_custom_networks_may_have_buffers_and_dropout() -> None:
    task, settings = make_task(two_groups()), replace(SMALL, weighting=NormalizedWeighting, weighting_lr=0.1)
    states: list[TrainerState] = []
    torch.manual_seed(1)
    whole = train(task, settings, on_state=lambda state: states.append(state()))
    torch.manual_seed(2)
    assert arrays_of(train(task, settings)) == arrays_of(whole)
    assert all(arrays_of(train(task, settings, saved=state)) == arrays_of(whole) for state in states)
    assert "network.norm.running_mean" in whole.parameters.arrays()
    assert not whole.parameters.network.training


def test_small_graphs_with_few_labels_do_not_diverge() -> None:
    """Full softmax, four groups of 120, three labels each: few nodes have many same-label pairs."""
    random = np.random.default_rng(0)
    group = np.repeat(np.arange(4), 120)
    pairs = np.argwhere(np.triu(random.random((480, 480)) < np.where(group[:, None] == group, 0.06, 0.004), 1))
    labels = torch.from_numpy(group)
    nodes = torch.from_numpy(np.concatenate([np.flatnonzero(group == k)[:3] for k in range(4)]))
    task = Task(
        cge.Graph.from_edges(pairs, num_nodes=480),
        None,
        labels,
        SingleLabel(np.arange(4)),
        nodes,
        torch.empty(0, dtype=torch.int64),
    )
    trained = train(
        task, replace(SMALL, weighting="uniform", loss="auto", dim=32, window=6, walks_per_node=5, max_epochs=4)
    )
    losses = trained.history.column("path_loss")
    assert max(losses) < losses[0] + 0.1
    assert accuracy_or_f1(trained.parameters.scores(None, torch.arange(480)).numpy(), group) > 0.85


@pytest.mark.parametrize("setting", ["transductive", "inductive"])
def test_same_label_pairs_make_vectors_of_a_class_similar(setting: str) -> None:
    """The more same-label pairs, the more similar are vectors of a class."""

    def contrast(label_pairs: float) -> float:
        settings = replace(
            SMALL, weighting="uniform", setting=setting, label_pairs=label_pairs, max_epochs=6, learning_rate=0.02
        )
        task = make_task(two_groups(), validation=torch.empty(0, dtype=torch.int64))
        e = torch.nn.functional.normalize(train(task, settings).parameters.vectors(task.features)[task.train])
        cosines = e @ e.T
        return float(cosines[:4, :4].mean() + cosines[4:, 4:].mean() - 2 * cosines[:4, 4:].mean())

    assert contrast(1.0) > contrast(0.1) > contrast(0.0) - 0.01
    assert contrast(1.0) > contrast(0.0) + 0.01


@pytest.mark.parametrize(
    ("setting", "weighting"), [("transductive", "average"), ("inductive", "cnn"), ("transductive", "lstm")]
)
def test_the_same_bytes_for_any_number_of_threads(setting: str, weighting: str) -> None:
    settings = replace(SMALL, setting=setting, weighting=weighting)
    results = [arrays_of(train(make_task(two_groups(200)), replace(settings, n_jobs=n_jobs))) for n_jobs in (1, 3)]
    assert results[0] == results[1]


@pytest.mark.parametrize(
    "changed",
    [
        {"weighting": "uniform"},
        {"weighting": "lstm"},
        {"weighting": "cnn", "setting": "inductive"},
        {"weighting": "average", "optimizer": "adam"},
        {"weighting": "average", "optimizer": "adagrad", "setting": "inductive"},
        {"weighting": "average", "optimizer": "sgd", "loss": "softmax"},
        {"weighting": "average", "outer": "paper"},
        {"weighting": "average", "supervised_strength": 1.0, "pretrain": 0},
        {"weighting": "average", "supervised_strength": 1.0, "setting": "inductive", "pretrain": 1},
    ],
    ids=str,
)
def test_a_stopped_training_continues_to_the_same_bytes(changed: dict[str, Any]) -> None:
    task, settings = make_task(two_groups()), replace(SMALL, **changed)
    states: list[TrainerState] = []
    whole = train(task, settings, on_state=lambda state: states.append(state()))
    for state in states[::2]:  # after the first epoch of pretraining, of training, and the last one
        resumed = train(task, settings, saved=state)
        assert arrays_of(resumed) == arrays_of(whole)
        assert resumed.best_epoch == whole.best_epoch
        histories = [[replace(epoch, seconds=0) for epoch in result.history] for result in (resumed, whole)]
        assert histories[0] == histories[1]


def test_a_state_of_another_training_is_refused() -> None:
    states: list[TrainerState] = []
    train(make_task(two_groups()), replace(SMALL, max_epochs=1), on_state=lambda state: states.append(state()))
    with pytest.raises(cge.CgeError, match=r"the parameters sources must have shape \(40, 8\), found \(40, 16\)"):
        train(make_task(two_groups()), replace(SMALL, dim=8), saved=states[0])
    with pytest.raises(cge.CgeError, match="does not belong to this training: 'epochs'"):
        train(make_task(two_groups()), SMALL, saved=TrainerState({}, states[0].arrays))


@pytest.mark.parametrize(("setting", "loss"), [("transductive", "softmax"), ("inductive", "negative")])
@pytest.mark.parametrize("optimizer", ["auto", "sgd", "adam", "adagrad"])
def test_every_optimizer_descends_both_losses(setting: str, loss: str, optimizer: str) -> None:
    settings = replace(SMALL, weighting="uniform", setting=setting, loss=loss, optimizer=optimizer, head_lr=None)
    history = train(make_task(two_groups()), replace(settings, walks_per_node=10, patience=99)).history
    assert history[-1].path_loss < history[0].path_loss
    assert history[-1].supervised_loss < history[0].supervised_loss


@pytest.mark.parametrize("setting", ["transductive", "inductive"])
def test_sgd_learns_with_its_default_rates(setting: str) -> None:
    """The head under plain SGD ends near that under Adam; with the rate of Adam it stays at the start."""
    task = make_task(two_groups(), validation=torch.empty(0, dtype=torch.int64))
    settings = replace(SMALL, weighting="uniform", setting=setting, head_lr=None, walks_per_node=10)

    def accuracy(**changed: Any) -> float:
        parameters = train(task, replace(settings, **changed)).parameters
        return accuracy_or_f1(parameters.scores(task.features, torch.arange(40)).numpy(), task.labels.numpy())

    assert accuracy(optimizer="sgd") >= accuracy(optimizer="auto") - 0.05
    losses = [train(task, replace(settings, optimizer="sgd", head_lr=rate)).history[-1] for rate in (None, 0.01)]
    assert losses[0].supervised_loss < losses[1].supervised_loss - 0.1


@pytest.mark.parametrize("sparse", [False, True])
def test_a_step_of_sgd_does_not_depend_on_the_units_of_features(sparse: bool) -> None:
    """A plain step on features of mean square 1: with x S and S⁻¹ W for x and W, the vectors are the same."""
    x = groups_with_sparse_features(dense=True).features
    units = np.logspace(-1, 1, x.shape[1])
    settings = replace(SMALL, setting="inductive", weighting="uniform", optimizer="sgd", head_lr=None)
    vectors = []
    for scale in (np.ones(x.shape[1]), units, 1 / np.sqrt((x**2).mean(0))):
        scaled = (x * scale).astype(np.float32)
        features = SparseFeatures(sp.csr_array(scaled)) if sparse else torch.from_numpy(scaled)
        trainer = Trainer(make_task(two_groups(), features=features), settings)
        encoder = trainer.parameters.encoder
        encoder.weight.data /= torch.from_numpy(scale[:, None]).float()
        start = trainer.parameters.vectors(features)
        walks = next(iter(trainer.walker.batches(trainer.batch_size)))
        if len(vectors) == 2:  # mean squares are 1: the step is that of the optimizer alone
            trainer.inner._feature_scale = None
        trainer.inner.train_paths(WalkBatch(walks, 0, (0.0, 0.0), 0))
        vectors.append(trainer.parameters.vectors(features))
        assert (vectors[-1] - start).abs().max() > 1e-3
    torch.testing.assert_close(vectors[1], vectors[0], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(vectors[2], vectors[0], rtol=1e-4, atol=1e-6)


def test_the_best_epoch_is_restored_and_patience_ends_training() -> None:
    task = make_task(two_groups())
    trained = train(task, replace(SMALL, weighting="uniform", max_epochs=8, patience=3))
    accuracies = trained.history.column("validation_accuracy")
    assert len(accuracies) <= trained.best_epoch + 3
    assert accuracies[trained.best_epoch - 1] == max(accuracies)
    scores = trained.parameters.scores(task.features, task.validation)
    assert accuracy_or_f1(scores.numpy(), task.labels[task.validation].numpy()) == max(accuracies)


def test_without_validation_labels_the_last_epoch_is_kept() -> None:
    task = make_task(two_groups(), validation=torch.empty(0, dtype=torch.int64))
    trained = train(task, replace(SMALL, weighting="uniform", patience=1))
    assert trained.best_epoch == 5
    assert trained.history.column("validation_accuracy") == [None] * 5
    short = train(task, replace(SMALL, weighting="uniform"), stop_after=3)
    assert short.best_epoch == 3
    assert short.history.column("stage") == ["refit"] * 3
    assert short.history[-1].path_loss == trained.history[2].path_loss


def test_nodes_that_no_path_reaches_have_zero_vectors() -> None:
    graph = cge.Graph.from_edges([(0, 1), (1, 2), (2, 0), (3, 1)], num_nodes=5, directed=True)
    labels = torch.tensor([0, 1, 0, 1, 0])
    task = Task(graph, None, labels, SingleLabel(np.arange(2)), torch.tensor([0, 1]), torch.tensor([2]))
    table = train(task, replace(SMALL, weighting="uniform", label_pairs=0.0)).parameters.encoder.table.detach().numpy()
    assert (table[[3, 4]] == 0).all()
    assert (table[:3] != 0).all()


def test_an_overflow_names_the_epoch_and_the_parameter() -> None:
    settings = replace(SMALL, weighting="uniform", learning_rate=1e30)
    with pytest.raises(cge.CgeError, match=r"overflowed in epoch 1; try a tenth of learning_rate \(now 1e\+30\)"):
        train(make_task(two_groups()), settings)
    settings = replace(SMALL, weighting="uniform", unsup_weight=1e30)
    with pytest.raises(cge.CgeError, match=r"overflowed in epoch 1; try a tenth of unsup_weight \(now 1e\+30\)"):
        train(make_task(two_groups()), settings)
    settings = replace(SMALL, weighting="uniform", supervised_strength=3e38, pretrain=0)
    with pytest.raises(cge.CgeError, match=r"overflowed in epoch 1; try a tenth of supervised_strength \(now 3e\+38\)"):
        train(make_task(two_groups()), settings)
    settings = replace(SMALL, weighting="uniform", head_lr=1e30)
    with pytest.raises(cge.CgeError, match=r"overflowed in epoch 1; try a tenth of head_lr \(now 1e\+30\)"):
        train(make_task(two_groups()), settings)


@pytest.mark.usefixtures("two_torch_threads")
def test_pytorch_keeps_its_threads_and_random_numbers() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    train(make_task(two_groups()), SMALL)
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == 2


def test_history_is_a_table() -> None:
    history = train(make_task(two_groups()), replace(SMALL, weighting="average")).history
    assert len(str(history).splitlines()) == 6
    assert history.rows()[0]["epoch"] == 1
    assert len(history[1:]) == 4
    stds = history.column("weight_std")
    assert stds[-1] > stds[0] >= 0
    assert all(0 < fraction <= 1 + 1e-9 for fraction in history.column("effective_fraction"))
