"""Algorithm 1: what a round does, what labels may touch, and that a training goes on where it was stopped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor, nn

import cge
from cge.losses import supervised_loss
from cge.metrics import accuracy_or_f1
from cge.models import FeatureEncoder, InductiveHead, make_weighting
from cge.models.sparse_products import SparseFeatures
from cge.sampling import subpaths
from cge.training.bilevel import InnerProblem, PathSample, unrolled_hypergradient
from cge.training.pair_objectives import NegativeSampling
from cge.training.paper_inner import ends_of
from cge.training.paper_settings import TrainingSettings
from cge.training.paper_training import Trainer, train
from cge.training.task import Task
from cge.training.torch_state import TrainerState
from cge.training.walk_partitions import make_parts
from tests.fixtures import ConstantWeighting, make_task, two_groups

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


def arrays_of(trained: Any) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in trained.parameters.arrays().items()}


def test_equal_weights_are_the_twin_without_weights() -> None:
    twin = arrays_of(train(make_task(two_groups()), replace(SMALL, weighting="uniform")))
    equal = arrays_of(train(make_task(two_groups()), replace(SMALL, weighting=ConstantWeighting)))
    assert {name: equal[name] for name in twin} == twin
    learned = arrays_of(train(make_task(two_groups()), replace(SMALL, weighting="average", weighting_lr=0.1)))
    assert learned["sources"] != twin["sources"]


def test_labels_do_not_touch_the_vectors_while_pretraining() -> None:
    graph = two_groups()
    wrong = torch.tensor([0, 1] * 20)
    settings = replace(SMALL, weighting="uniform", supervised_strength=1.0)
    states: dict[str, list[TrainerState]] = {"true": [], "wrong": []}
    for name, task in (("true", make_task(graph)), ("wrong", make_task(graph, wrong))):
        train(task, settings, on_state=lambda state, name=name: states[name].append(state()))
    for number, (one, other) in enumerate(zip(states["true"], states["wrong"], strict=True)):
        same = np.array_equal(one.arrays["now.encoder.table"], other.arrays["now.encoder.table"])
        assert same == (number < settings.pretrain)


@pytest.mark.parametrize("outer_only", [False, True])
def test_folds_judge_only_vectors_that_do_not_know_them(outer_only: bool) -> None:
    trained = train(make_task(two_groups(), outer_only=outer_only), replace(SMALL, weighting="average"))
    judged = [one.outer_loss is not None for one in trained.history]
    assert judged == ([True] * 5 if outer_only else [True, True, False, False, False])
    assert trained.history.column("stage") == ["pretrain"] * 2 + ["train"] * 3
    assert [one.epoch for one in trained.history] == [1, 2, 3, 4, 5]


def test_outer_labels_are_unseen_labels() -> None:
    """Labels of a fold reach neither the fold's own head nor, before they judge, anything else of the inner problem."""
    graph = two_groups()
    flipped = torch.tensor([0] * 20 + [1] * 20)
    fold = make_task(graph).folds[0]
    flipped[fold] = 1 - flipped[fold]
    settings = replace(SMALL, weighting="average", pretrain=1, max_epochs=1, outer_steps=1, outer="unrolled")
    heads = []
    for labels in (None, flipped):
        states: list[TrainerState] = []
        train(make_task(graph, labels), settings, on_state=lambda state, states=states: states.append(state()))
        heads.append(states[0].arrays["fold.0.score_e.weight"])  # judged by fold 0 in round 1
    assert np.array_equal(*heads)


def test_validation_labels_choose_and_do_nothing_else() -> None:
    graph = two_groups()
    flipped = torch.tensor([0] * 20 + [1] * 20)
    validation = make_task(graph).validation
    flipped[validation] = 1 - flipped[validation]
    last = []
    for labels in (None, flipped):
        states: list[TrainerState] = []
        settings = replace(SMALL, weighting="average", supervised_strength=0.5)
        train(make_task(graph, labels), settings, on_state=lambda state, states=states: states.append(state()))
        last.append({name: array for name, array in states[-1].arrays.items() if not name.startswith("best.")})
    assert all(np.array_equal(last[0][name], last[1][name]) for name in last[0])


def trainer_with(**changed: Any) -> Trainer:
    trainer = Trainer(make_task(two_groups()), replace(SMALL, **changed))
    if trainer.parameters.network is not None:
        with torch.no_grad():
            for parameter in trainer.parameters.network.parameters():
                parameter.copy_(8 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
            trainer.parameters.encoder.table.normal_(generator=torch.Generator().manual_seed(1))
    if trainer.outer is not None:
        trainer.outer.weigh()
    return trainer


@pytest.mark.parametrize("remembered", [True, False])
@pytest.mark.parametrize("rule", ["unrolled", "paper"])
def test_every_path_of_a_batch_has_its_own_weight(rule: str, remembered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cge.training.paper_outer._REMEMBERED", 10**9 if remembered else 0)
    trainer = trainer_with(weighting="lstm", outer=rule)
    outer, network = trainer.outer, trainer.parameters.network
    assert outer is not None
    assert network is not None
    vectors = trainer.parameters.vectors(None)

    def weights(walks: Any) -> Any:
        paths = subpaths(walks, 4, shortest=2)
        with torch.no_grad():
            return network(vectors, *(torch.tensor(one.astype(np.int64)) for one in (paths.nodes, paths.length)))

    batches = list(trainer.walker.batches(trainer.batch))
    every = torch.cat([weights(walks) for walks in batches]).double()
    assert every.std() > 0.2
    for place, walks in enumerate(batches):
        expected = weights(walks) if rule == "paper" else (weights(walks) / every.mean()).clamp(0.2, 5)
        found, base = outer.weights_of(place, walks)
        np.testing.assert_allclose(found, expected.numpy(), atol=2e-4)
        assert base.tolist() == [24 * k for k in range(len(walks))]  # 9 + 8 + 7 paths of a walk
    if rule == "unrolled":
        assert outer.relative.min() == pytest.approx(0.2)


def test_lambda_scales_the_path_loss() -> None:
    trainer = trainer_with(weighting="uniform", unsup_weight=0.5, learning_rate=0.04)
    assert trainer.inner.rate(0.25) == pytest.approx(0.5 * 0.04 * 0.75)
    still = trainer_with(weighting="uniform", unsup_weight=0.0, label_pairs=0.0)
    before = still.parameters.arrays()
    still.run_epoch(0)
    assert np.array_equal(before["sources"], still.parameters.sources)
    assert np.array_equal(before["encoder.table"], still.parameters.encoder.table.detach().numpy())


def test_labels_pull_vectors_down_the_supervised_loss() -> None:
    trainer = trainer_with(weighting="uniform", supervised_strength=0.1)
    nodes, features = trainer.task.train, trainer.task.features

    def loss() -> float:
        scores = trainer.parameters.scores(features, nodes)
        return float(supervised_loss(scores, trainer.task.labels[nodes]))

    before, others = loss(), trainer.parameters.encoder.table.detach()[0].clone()
    trainer.inner.pull(nodes)
    assert loss() < before
    assert torch.equal(trainer.parameters.encoder.table.detach()[0], others)  # node 0 has no label


def test_the_outer_problem_goes_downhill() -> None:
    """Whatever virtual step is taken afterwards, unseen labels like it better than before."""
    settings = replace(SMALL, weighting="average", virtual_lr=50.0, weighting_lr=0.05, outer_paths=4096, outer_steps=1)
    trainer = Trainer(make_task(two_groups()), settings)
    trainer.run_epoch(0)
    assert trainer.outer is not None
    losses = [trainer.outer.descend(2 * number, True) for number in range(1, 40)]  # always fold 0
    assert np.mean(losses[-5:]) < np.mean(losses[:5])


def test_nodes_without_features_share_a_row_and_nothing_changes() -> None:
    """Vectors, path loss and hypergradient of shared rows are those of a row for every node."""
    random = np.random.default_rng(0)
    dense = random.random((40, 6)) * (random.random((40, 6)) < 0.3) * (np.arange(40) % 3 > 0)[:, None]
    features = SparseFeatures(sp.csr_array(dense))
    parts = make_parts(np.ones(40), 2, 0)
    ends = ends_of(features, parts)
    assert ends.features is not None
    assert ends.row_of is not None
    empty = (dense == 0).all(1)
    assert ends.features.shape == (np.sum(~empty) + 2, 6)
    assert all(len(set(parts.part[ends.row_of == row])) == 1 for row in set(ends.row_of))
    encoder, sources = FeatureEncoder(6, 4).double(), torch.from_numpy(random.normal(size=(40, 4)))
    with torch.no_grad():
        encoder.bias.copy_(torch.randn(4))
        np.testing.assert_allclose(encoder(ends.features)[ends.row_of], encoder(features))
    nodes, length = random.integers(0, 40, (30, 3)), random.integers(2, 4, 30)
    nodes[length == 2, 2] = -1
    negatives = random.integers(0, 40, (30, 5))
    head, labels = InductiveHead(6, 4, 2).double(), torch.arange(40) % 2
    slopes = []
    for rows, given in ((lambda numbers: numbers, None), (ends.rows, ends.features)):
        network = make_weighting("average", 4)
        assert network is not None
        with torch.no_grad():
            for parameter in network.double().parameters():
                parameter.copy_(torch.linspace(-1, 1, parameter.numel()).reshape(parameter.shape))
        far = rows(nodes[np.arange(30), length - 1])
        sample = PathSample(
            torch.from_numpy(rows(nodes)), torch.from_numpy(length), NegativeSampling(nodes[:, 0], far, rows(negatives))
        )
        problem = InnerProblem(sources, encoder, head, features, labels, torch.arange(10), ends=given)
        unrolled_hypergradient(network, problem, sample, torch.arange(10, 20), 0.5)
        slopes.append(torch.cat([parameter.grad.ravel() for parameter in network.parameters()]))
    assert slopes[0].abs().max() > 1e-6
    np.testing.assert_allclose(slopes[0], slopes[1], rtol=1e-6, atol=1e-12)


def test_a_sample_stands_for_all_paths() -> None:
    trainer = trainer_with(weighting="average", outer_paths=60_000)
    outer = trainer.outer
    assert outer is not None
    sample = outer._sample(0, 1, 0)
    assert sample.share is not None
    assert float(sample.share.sum()) == pytest.approx(1)
    mean_length = float((sample.share * sample.length).sum())
    assert mean_length == pytest.approx(np.average(outer.tree.length, weights=outer._counts), abs=0.01)
    ends = torch.isin(sample.nodes.gather(1, sample.length[:, None] - 1).squeeze(1), trainer.task.folds[0])
    assert float(ends.float().mean()) == pytest.approx(0.5)


class Odd(cge.PathWeighting):
    """Has a buffer that moves as it trains, and drops some of its input."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.layer = nn.Linear(dim, 1)
        self.norm = nn.BatchNorm1d(dim)
        self.drop = nn.Dropout(0.5)

    def score(self, projected: Tensor, length: Tensor) -> Tensor:
        return self.layer(self.drop(self.norm(projected[:, 0]))).squeeze(1)


def test_own_networks_may_have_buffers_and_dropout() -> None:
    task, settings = make_task(two_groups()), replace(SMALL, weighting=Odd, weighting_lr=0.1)
    states: list[TrainerState] = []
    torch.manual_seed(1)
    whole = train(task, settings, on_state=lambda state: states.append(state()))
    torch.manual_seed(2)
    assert arrays_of(train(task, settings)) == arrays_of(whole)
    assert all(arrays_of(train(task, settings, saved=state)) == arrays_of(whole) for state in states)
    assert "network.norm.running_mean" in whole.parameters.arrays()
    assert not whole.parameters.network.training


def test_small_graphs_with_few_labels_do_not_diverge() -> None:
    """Full softmax, four groups of 120, three labels each: same-label pairs are few nodes' and many."""
    random = np.random.default_rng(0)
    group = np.repeat(np.arange(4), 120)
    pairs = np.argwhere(np.triu(random.random((480, 480)) < np.where(group[:, None] == group, 0.06, 0.004), 1))
    labels = torch.from_numpy(group)
    nodes = torch.from_numpy(np.concatenate([np.flatnonzero(group == one)[:3] for one in range(4)]))
    task = Task(cge.Graph.from_edges(pairs, num_nodes=480), None, labels, 4, nodes, torch.empty(0, dtype=torch.int64))
    trained = train(
        task, replace(SMALL, weighting="uniform", loss="auto", dim=32, window=6, walks_per_node=5, max_epochs=4)
    )
    losses = trained.history.column("path_loss")
    assert max(losses) < losses[0] + 0.1
    assert accuracy_or_f1(trained.parameters.scores(None, torch.arange(480)).numpy(), group) > 0.85


@pytest.mark.parametrize("setting", ["transductive", "inductive"])
def test_more_same_label_pairs_pull_more(setting: str) -> None:
    """With more pairs of one label, vectors of one label are more alike."""

    def contrast(share: float) -> float:
        settings = replace(
            SMALL, weighting="uniform", setting=setting, label_pairs=share, max_epochs=6, learning_rate=0.02
        )
        task = make_task(two_groups(), validation=torch.empty(0, dtype=torch.int64))
        e = torch.nn.functional.normalize(train(task, settings).parameters.vectors(task.features)[task.train])
        alike = e @ e.T
        return float(alike[:4, :4].mean() + alike[4:, 4:].mean() - 2 * alike[:4, 4:].mean())

    assert contrast(1.0) > contrast(0.1) > contrast(0.0) - 0.01
    assert contrast(1.0) > contrast(0.0) + 0.01


@pytest.mark.parametrize("setting", ["transductive", "inductive"])
@pytest.mark.parametrize("weighting", ["average", "cnn", "lstm"])
def test_the_same_bytes_on_any_threads(setting: str, weighting: str) -> None:
    settings = replace(SMALL, setting=setting, weighting=weighting)
    found = [arrays_of(train(make_task(two_groups(200)), replace(settings, n_jobs=n_jobs))) for n_jobs in (1, 2, 3)]
    assert found[0] == found[1] == found[2]
    other = arrays_of(train(make_task(two_groups(200)), replace(settings, seed=1)))
    assert other["sources"] != found[0]["sources"]


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
    ],
    ids=str,
)
def test_a_stopped_training_goes_on_to_the_same_bytes(changed: dict[str, Any]) -> None:
    task, settings = make_task(two_groups()), replace(SMALL, **changed)
    states: list[TrainerState] = []
    whole = train(task, settings, on_state=lambda state: states.append(state()))
    for state in states:
        resumed = train(task, settings, saved=state)
        assert arrays_of(resumed) == arrays_of(whole)
        assert resumed.best_epoch == whole.best_epoch
        plain = [replace(one, seconds=0) for one in resumed.history]
        assert plain == [replace(one, seconds=0) for one in whole.history]


def test_a_state_of_another_training_is_refused() -> None:
    states: list[TrainerState] = []
    train(make_task(two_groups()), replace(SMALL, max_epochs=1), on_state=lambda state: states.append(state()))
    with pytest.raises(cge.CgeError, match=r"the parameters sources must have shape \(40, 8\), found \(40, 16\)"):
        train(make_task(two_groups()), replace(SMALL, dim=8), saved=states[0])
    with pytest.raises(cge.CgeError, match="does not belong to this training: 'epochs'"):
        train(make_task(two_groups()), SMALL, saved=TrainerState({}, states[0].arrays))


@pytest.mark.parametrize("setting", ["transductive", "inductive"])
@pytest.mark.parametrize("loss", ["softmax", "negative"])
@pytest.mark.parametrize("optimizer", ["auto", "sgd", "adam", "adagrad"])
def test_every_optimizer_descends_both_losses(setting: str, loss: str, optimizer: str) -> None:
    settings = replace(SMALL, weighting="uniform", setting=setting, loss=loss, optimizer=optimizer, head_lr=0.05)
    history = train(make_task(two_groups()), replace(settings, walks_per_node=10, patience=99)).history
    assert history[-1].path_loss < history[0].path_loss
    assert history[-1].supervised_loss < history[0].supervised_loss


def test_the_best_round_is_restored_and_patience_ends() -> None:
    task = make_task(two_groups())
    trained = train(task, replace(SMALL, weighting="uniform", max_epochs=8, patience=3))
    accuracies = trained.history.column("validation_accuracy")
    assert len(accuracies) <= trained.best_epoch + 3
    assert accuracies[trained.best_epoch - 1] == max(accuracies)
    scores = trained.parameters.scores(task.features, task.validation)
    assert accuracy_or_f1(scores.numpy(), task.labels[task.validation].numpy()) == max(accuracies)


def test_without_validation_the_last_round_counts() -> None:
    task = make_task(two_groups(), validation=torch.empty(0, dtype=torch.int64))
    trained = train(task, replace(SMALL, weighting="uniform", patience=1))
    assert trained.best_epoch == 5
    assert trained.history.column("validation_accuracy") == [None] * 5
    short = train(task, replace(SMALL, weighting="uniform"), stop_after=3)
    assert short.best_epoch == 3
    assert short.history.column("stage") == ["refit"] * 3
    assert short.history[-1].path_loss == trained.history[2].path_loss


def test_nodes_that_no_path_reaches_have_no_vector() -> None:
    graph = cge.Graph.from_edges([(0, 1), (1, 2), (2, 0), (3, 1)], num_nodes=5, directed=True)
    labels = torch.tensor([0, 1, 0, 1, 0])
    task = Task(graph, None, labels, 2, torch.tensor([0, 1]), torch.tensor([2]))
    table = train(task, replace(SMALL, weighting="uniform", label_pairs=0.0)).parameters.encoder.table.detach().numpy()
    assert (table[[3, 4]] == 0).all()
    assert (table[:3] != 0).all()


def test_an_overflow_names_the_round_and_the_cure() -> None:
    settings = replace(SMALL, weighting="uniform", learning_rate=1e30)
    with pytest.raises(cge.CgeError, match=r"overflowed in round 1; try a tenth of learning_rate \(now 1e\+30\)"):
        train(make_task(two_groups()), settings)
    settings = replace(SMALL, weighting="uniform", unsup_weight=1e30)
    with pytest.raises(cge.CgeError, match=r"overflowed in round 1; try a tenth of unsup_weight \(now 1e\+30\)"):
        train(make_task(two_groups()), settings)
    settings = replace(SMALL, weighting="uniform", supervised_strength=3e38, pretrain=0)
    with pytest.raises(cge.CgeError, match=r"overflowed in round 2; try a tenth of supervised_strength \(now 3e\+38\)"):
        train(make_task(two_groups()), settings)
    settings = replace(SMALL, weighting="uniform", head_lr=1e30)
    with pytest.raises(cge.CgeError, match=r"overflowed in round 1; try a tenth of head_lr \(now 1e\+30\)"):
        train(make_task(two_groups()), settings)


def test_pytorch_keeps_its_threads_and_random_numbers() -> None:
    torch.manual_seed(7)
    expected, n_jobs = torch.rand(3), torch.get_num_threads()
    torch.manual_seed(7)
    train(make_task(two_groups()), SMALL)
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == n_jobs


def test_history_is_a_table() -> None:
    history = train(make_task(two_groups()), replace(SMALL, weighting="average")).history
    assert len(str(history).splitlines()) == 6
    assert history.rows()[0]["epoch"] == 1
    assert len(history[1:]) == 4
    spread = history.column("weight_std")
    assert spread[-1] > spread[0] >= 0
    assert all(0 < share <= 1 + 1e-9 for share in history.column("effective_paths"))
