"""`CGE` with the path encoder, as users meet it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from cge.training.classifier_recipes import CLASSIFIERS, ProblemSize

import cge
from cge.estimators.encoder_model import encoder_settings
from cge.estimators.fit_plan import plan_fit
from cge.graph import Graph
from cge.models.edge_weighting import EdgeWeighting
from cge.models.path_networks import make_network
from cge.training import classifier_recipes
from cge.training.encoder_data import EncoderData
from cge.training.model_comparison import CandidateScore, closed_form_weightings
from cge.training.model_search import ModelSearch
from cge.training.named_weighting import NamedWeighting
from cge.training.task import Task
from tests.fixtures import (
    GROUP_SIZE,
    TRUE_LABELS,
    partial_labels,
    quick_cge,
    two_groups,
    with_sparse_features,
)

MOST = np.where(np.arange(2 * GROUP_SIZE) % 4 > 0, TRUE_LABELS, -1)  # enough to hold some out


@pytest.mark.parametrize("several", [False, True])
def test_labels_alone_in_their_class_are_trained_without_votes(several: bool) -> None:
    graph = with_sparse_features(two_groups())
    codes = torch.from_numpy(TRUE_LABELS + 0)
    codes[7] = 2  # the only one
    labels = torch.eye(3, dtype=torch.int64)[codes] if several else codes
    nodes, none = torch.arange(10), torch.empty(0, dtype=torch.int64)
    data, settings = EncoderData(graph, n_jobs=1), encoder_settings(quick_cge("degree"), 2)
    maker = ModelSearch(Task(graph, None, labels, 3, nodes, none, []), data, settings)
    weights = maker._first_weights()
    members = np.eye(3)[codes[nodes]]
    pure, found = weights.propagate_labels(data, nodes.numpy(), members, several), maker.votes(weights).numpy()
    changed = np.argwhere(pure != found).tolist()
    assert changed == ([[7, 2]] if several else [[7, 0], [7, 1], [7, 2]])
    assert not found[7, 2]


# ---------------------------------------------------------------------- networks and their prior


@pytest.mark.parametrize("prior", ["none", "degree", "cosine"])
def test_a_network_starts_where_its_prior_ends(prior: str) -> None:
    graph = with_sparse_features(two_groups())
    data = EncoderData(graph, n_jobs=1)
    weighting = closed_form_weightings(data.edge_scale.names, 2)[prior]
    network = make_network("lstm", int(data.token_vectors(0).shape[1]))
    assert network is not None
    network.init_uniform()
    weights = NamedWeighting("lstm", network, (4000, 0), NamedWeighting(prior, weighting))
    inputs = torch.randn(2 * GROUP_SIZE, 3, generator=torch.Generator().manual_seed(0))
    steps = data.transitions.matrix(weighting.raw_weights(data.edge_inputs).detach().double().numpy()).toarray()
    total = steps.sum(1)
    walk = steps / total[:, None]
    sums = np.eye(2 * GROUP_SIZE) + walk + walk @ walk  # all hops alike
    shares = sums * total ** -weighting.normalization.item()
    expected = shares / shares.sum(1, keepdims=True) @ inputs.double().numpy()
    np.testing.assert_allclose(weights.propagation(data)(inputs).numpy(), expected, atol=0.06)
    route = [np.array([0, int(graph.indices[graph.indptr[0]])]), np.array([3]), np.array([0, 2 * GROUP_SIZE - 1, 0])]
    alone = NamedWeighting(prior, weighting).of(data, route)
    np.testing.assert_allclose(weights.of(data, route), 0.5 * alone, rtol=1e-6)
    assert alone[1] == pytest.approx(1.0)


def test_large_graphs_get_fewer_epochs() -> None:
    settings = encoder_settings(quick_cge("degree", max_epochs=None, patience=None), 2)
    usual, large = settings.recipe("sparse", 0, 1000), settings.recipe("sparse", 0, int(1.25e9))  # times two passes
    assert usual == CLASSIFIERS["sparse"]
    assert (large.settings.max_epochs, large.evaluate_after) == (200, 66)
    assert (large.settings.warmup_epochs, large.settings.rampup_epochs, large.settings.patience) == (16, 33, 33)
    assert settings.recipe("sparse", 0, 10**15).settings.max_epochs == 50
    assert settings.recipe("mlp", 0, 10**15).evaluate_after == 16
    few = encoder_settings(quick_cge("degree", max_epochs=1), 2).recipe("mlp", 0, 0)
    assert (few.settings.max_epochs, few.evaluate_after) == (1, 1)  # nothing untrained is judged
    told = encoder_settings(quick_cge("degree", max_epochs=300, patience=None), 2).recipe("sparse", 0, 10**15)
    assert (told.settings.max_epochs, told.settings.warmup_epochs, told.settings.patience) == (300, 25, 100)


@pytest.mark.parametrize(("sparse-light", "kept"), [(0.8, "sparse-light"), (0.6, "sparse")])
def test_a_gentle_reader_takes_the_place_of_a_sparse_one_only_where_it_is_better(
    gentle: float, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = {"mlp": 0.5, "consistency": 0.4, "sparse": 0.6, "sparse-light": gentle}
    graph = with_sparse_features(two_groups())
    nodes = torch.arange(20)
    task = Task(graph, None, torch.from_numpy(TRUE_LABELS + 0), 2, nodes, nodes + 20, [])
    maker = ModelSearch(task, EncoderData(graph, n_jobs=1), encoder_settings(quick_cge("degree"), 2))

    def judged(_: Any, classifier: str, votes: Any = None) -> CandidateScore:
        hits = (np.arange(100) < 100 * right[classifier]).astype(float)
        return CandidateScore(right[classifier], hits, np.zeros(100))

    monkeypatch.setattr(maker, "judge", judged)
    assert maker.classifiers(maker._first_weights()) == (kept,)
    right["sparse"] = 0.45
    assert maker.classifiers(maker._first_weights()) == ("mlp",)  # gentle is not asked


@pytest.mark.parametrize(
    ("none", "surprise", "kept"), [(0.52, 0.9, "none"), (0.52, 1.1, "degree"), (0.5, 0.9, "degree")]
)
def test_equal_weights_are_the_base_where_hits_and_surprise_agree(
    none: float, log_loss: float, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = two_groups()
    nodes = torch.arange(20)
    task = Task(graph, None, torch.from_numpy(TRUE_LABELS + 0), 2, nodes, nodes + 20, [])
    maker = ModelSearch(task, EncoderData(graph, n_jobs=1), encoder_settings(quick_cge(), 2))

    def judged(weights: NamedWeighting, classifier: str, votes: Any = None) -> CandidateScore:
        share = none if weights.name == "none" else 0.5
        hits = (np.arange(100) < 100 * share).astype(float)
        return CandidateScore(share, hits, np.full(100, log_loss if weights.name == "none" else 1.0))

    monkeypatch.setattr(maker, "judge", judged)
    assert maker._search_weightings(maker._prior("degree"), ("consistency",)).name == kept


@pytest.mark.parametrize(
    ("shares", "kept"),
    [
        ({"own": 0.5, "none": 0.55, "degree": 0.9}, "degree"),
        ({"own": 0.5, "none": 0.9, "degree": 0.55}, "none"),
        ({"own": 0.5, "none": 0.4, "degree": 0.9}, "degree"),
        ({"own": 0.5, "none": 0.51, "degree": 0.51}, "own"),  # one label more is none
    ],
)
def test_vectors_of_walks_are_challenged_by_both_simple_weights(
    shares: dict[str, float], kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, nodes = two_groups(features=False), torch.arange(20)
    task = Task(graph, None, torch.from_numpy(TRUE_LABELS + 0), 2, nodes, nodes + 20, [])
    data = EncoderData(
        graph, "walks", 1, table=np.random.default_rng(0).normal(size=(2 * GROUP_SIZE, 4)).astype(np.float32)
    )
    maker = ModelSearch(task, data, encoder_settings(quick_cge(classifier="consistency", label_propagation="no"), 2))

    def judged(weights: NamedWeighting, classifier: str, votes: Any = None) -> CandidateScore:
        share = shares[weights.name]
        return CandidateScore(share, (np.arange(100) < 100 * share).astype(float), np.zeros(100))

    monkeypatch.setattr(maker, "judge", judged)
    assert maker.make().weighting.name == kept
    assert [one.weights for one in maker.compared] == ["own", "none", "degree"]


@pytest.mark.parametrize(("more", "kept"), [(1, "degree"), (2, "degree"), (3, "cosine")])
def test_a_challenger_wins_by_more_than_an_error_and_one_label(
    more: int, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, nodes = with_sparse_features(two_groups()), torch.arange(20)
    task = Task(graph, None, torch.from_numpy(TRUE_LABELS + 0), 2, nodes, nodes + 20, [])
    maker = ModelSearch(
        task,
        EncoderData(graph, n_jobs=1),
        encoder_settings(quick_cge(classifier="consistency", label_propagation="no"), 2),
    )

    def judged(weights: NamedWeighting, classifier: str, votes: Any = None) -> CandidateScore:
        right = 50 + more * (weights.name == "cosine")
        return CandidateScore(right / 100, (np.arange(100) < right).astype(float), np.zeros(100))

    monkeypatch.setattr(maker, "judge", judged)
    assert maker.make().weighting.name == kept


@pytest.mark.parametrize(
    ("right", "votes", "classifiers"),
    [
        # Votes help by 40 points: nobody else is asked; pupil and plain reader are level and averaged.
        ({"mlp": 0.4, "plain+": 0.8, "taught+": 0.79}, True, ("mlp", "distilled")),
        ({"mlp": 0.4, "plain+": 0.6, "taught+": 0.8, "consistency": 0.5, "sparse": 0.5}, True, ("distilled",)),
        # They help, but agreement helps more.
        ({"mlp": 0.5, "plain+": 0.6, "taught+": 0.65, "consistency": 0.8, "sparse": 0.6}, False, ("consistency",)),
        # They do not help clearly.
        ({"mlp": 0.5, "plain+": 0.51, "consistency": 0.4, "sparse": 0.45}, False, ("mlp",)),
    ],
)
def test_labels_vote_where_that_helps_more_than_agreement(
    right: dict[str, float], votes: bool, classifiers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = with_sparse_features(two_groups())
    nodes = torch.arange(20)
    task = Task(graph, None, torch.from_numpy(TRUE_LABELS + 0), 2, nodes, nodes + 20, [])
    maker = ModelSearch(
        task, EncoderData(graph, n_jobs=1), encoder_settings(quick_cge("degree", label_propagation="auto"), 2)
    )

    def judged(_: Any, classifier: str, votes: bool | None = None) -> CandidateScore:
        share = right[classifier + ("+" if (maker.uses_label_propagation if votes is None else votes) else "")]
        hits = np.random.default_rng(0).permutation(100) < 100 * share
        return CandidateScore(share, hits.astype(float), np.zeros(100))

    monkeypatch.setattr(maker, "judge", judged)
    plan = maker.make()
    assert (plan.label_propagation, plan.classifiers) == (votes, classifiers)


@pytest.mark.parametrize("votes", ["yes", "no"])
def test_hop_profiles_are_asked_where_neighbors_differ_and_no_labels_vote(
    votes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = with_sparse_features(two_groups())
    nodes = torch.arange(20)
    task = Task(graph, None, torch.from_numpy(TRUE_LABELS + 0), 2, nodes, nodes + 20, [])
    maker = ModelSearch(
        task, EncoderData(graph, n_jobs=1), encoder_settings(quick_cge("auto", label_propagation=votes), 2)
    )
    right = {"mlp": 0.7, "distilled": 0.5, "consistency": 0.5, "sparse": 0.5}

    def judged(_: Any, classifier: str, votes: bool | None = None) -> CandidateScore:
        return CandidateScore(
            right[classifier], (np.arange(100) < 100 * right[classifier]).astype(float), np.zeros(100)
        )

    monkeypatch.setattr(maker, "judge", judged)
    assert maker.make().classifiers == ("mlp",)
    hop_profiles = {one.weights for one in maker.compared} - {"degree", "none", "cosine"}
    assert ("own" in hop_profiles) == (votes == "no")
    assert len(hop_profiles) == (0 if votes == "yes" else 10)


def compared_within(search: float, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the weights that are compared where the search may cost so many products."""
    monkeypatch.setattr(classifier_recipes, "SEARCH", search)
    model = quick_cge(label_propagation="no", classifier="mlp", dim=32).fit(
        with_sparse_features(two_groups()), partial_labels(), partial_labels(TRUE_LABELS, 4)
    )
    return list(dict.fromkeys(row["weighting"] for row in model.search_results_))


def test_the_search_ends_when_its_work_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = encoder_settings(quick_cge(dim=32), 2)
    data = EncoderData(with_sparse_features(two_groups()), n_jobs=1)
    problem_size = ProblemSize(len(data.transitions), data.graph.features.nnz, 0, 30, 2)
    evaluation_cost, learning = settings.evaluation_cost("mlp", problem_size), settings.learning(problem_size, 3)
    width = settings.products("mlp", problem_size)
    assert evaluation_cost == width * settings.recipe("mlp", 0, width).evaluate_after
    assert compared_within(0, monkeypatch) == ["degree", "none"]
    assert compared_within(3 * evaluation_cost, monkeypatch) == ["degree", "none", "cosine"]
    some_profiles = compared_within(6 * evaluation_cost, monkeypatch)
    assert some_profiles[:4] == ["degree", "none", "cosine", "own"]
    assert len(some_profiles) == 6
    # Profiles leave what learning once costs, where that is left at all.
    assert compared_within(7 * evaluation_cost + learning, monkeypatch) == [*some_profiles, "edges"]
    all_profiles = compared_within(3.5 * evaluation_cost + learning, monkeypatch)
    assert "edges" not in all_profiles
    assert all_profiles[:6] == some_profiles != all_profiles
    whole = compared_within(20 * evaluation_cost + 2 * learning, monkeypatch)
    assert whole == [*all_profiles, "edges", "steps"]


def test_dense_features_are_summed_once_by_readers_that_drop_no_nodes() -> None:
    graph, nodes = with_sparse_features(two_groups()), torch.arange(20)
    task = Task(graph, None, torch.from_numpy(TRUE_LABELS + 0), 2, nodes, nodes + 20, [])
    dense = graph.with_features(graph.features.toarray())
    for given in (graph, dense):
        maker = ModelSearch(
            task, EncoderData(given, n_jobs=1), encoder_settings(quick_cge(drop_node=None, n_augmentations=None), 2)
        )
        degree = maker._prior("degree")
        sums = {
            classifier: maker.trainer(degree, classifier, False, 0, "x").summed
            for classifier in ("mlp", "distilled", "consistency")
        }
        assert sums["consistency"] is None
        assert (sums["mlp"] is None) == (given is graph)
        assert sums["distilled"] is sums["mlp"]
    plain = sums["mlp"]
    assert plain is not None
    rows = maker.data.inputs("l2").double().numpy()
    step = maker._pooling(degree).matrix.toarray().astype(np.float64)
    hops = len(maker._priors["degree"].hops)
    expected = sum(np.linalg.matrix_power(step, hop) @ rows for hop in range(hops)) / hops
    np.testing.assert_allclose(plain.numpy(), expected, atol=1e-6)


def test_epochs_of_summed_paths_cost_what_they_look_at() -> None:
    settings = encoder_settings(cge.CGE(), 2)
    large = ProblemSize(steps=20_000_000, entries=16_000_000, columns=100, labeled=10_000, classes=2)
    assert settings.rows("mlp", large) == 10_000
    assert settings.rows("distilled", large) == 15_000
    assert settings.rows("consistency", large) == settings.rows("mlp", replace(large, columns=0)) == 0
    width = settings.products("mlp", large)
    assert settings.recipe("mlp", 0, width).settings.max_epochs == 300
    assert settings.evaluation_cost("mlp", large) == 4 * 20_000_000 * 100 + 100 * width
    in_every_epoch = settings.products("mlp", replace(large, columns=0))
    assert in_every_epoch == 3 * 32 * (4 * 20_000_000 + 16_000_000)
    assert settings.recipe("mlp", 0, in_every_epoch).settings.max_epochs < 300


def test_the_search_costs_no_more_than_three_trainings() -> None:
    settings, small = encoder_settings(cge.CGE(training={"max_epochs": 3}), 2), ProblemSize(1000, 500, 0, 50, 2)
    deep = 4 * 500 * 3 * 32 * (4 * 1000 + 500)  # passes, epochs, forth, back and for W, numbers
    assert settings.search(small) == 3 * deep
    assert settings.search(replace(small, steps=10**7)) == classifier_recipes.SEARCH_BUDGET
    for classes, steps in ((5, 10**8), (40, 2 * 10**7)):  # plain and taught are left, and cost next to nothing
        dense = ProblemSize(steps, 10**6, 100, 1000, classes)
        assert settings.search(dense) == classifier_recipes.SEARCH_BUDGET > 10 * settings.evaluation_cost("mlp", dense)


def test_large_graphs_teach_weights_in_fewer_steps() -> None:
    settings = encoder_settings(cge.CGE(), 2)
    found = [settings.outer(ProblemSize(steps, 0, 0, 100, 2), 3) for steps in (10**5, 2 * 10**6, 10**8)]
    assert [(one.warmup_steps, one.steps) for one in found] == [(30, 150), (12, 60), (10, 50)]
    problem_size = ProblemSize(10**8, 0, 0, 100, 2)
    assert settings.learning(problem_size, 3) == 9 * 60 * 3 * 16 * 4 * 10**8


@pytest.mark.parametrize(("winner", "started"), [("two steps, b = 1", {"edges", "steps"}), ("own", {"steps"})])
def test_learning_starts_from_a_hop_profile_that_won(
    winner: str, started: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, nodes = with_sparse_features(two_groups()), torch.arange(20)
    task = Task(graph, None, torch.from_numpy(TRUE_LABELS + 0), 2, nodes, nodes + 20, [nodes[:10], nodes[10:]])
    maker = ModelSearch(
        task, EncoderData(graph, n_jobs=1), encoder_settings(quick_cge("auto", label_propagation="no"), 2)
    )
    starts = {}

    def judged(weights: Any, classifier: str, votes: bool | None = None) -> CandidateScore:
        right = 0.9 if weights.name == winner else 0.7 if classifier == "mlp" else 0.5
        return CandidateScore(right, (np.arange(100) < 100 * right).astype(float), np.zeros(100))

    def learned(kind: str, start: Any) -> Any:
        starts[kind] = start.name
        return replace(start, name=kind)

    monkeypatch.setattr(maker, "judge", judged)
    monkeypatch.setattr(maker, "learned", learned)
    assert maker.make().weighting.name == winner
    assert starts == dict.fromkeys(started, winner)


@pytest.mark.parametrize("best", ["none", "degree", "cosine"])
def test_weights_asked_for_by_name_start_from_the_best_prior(best: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, nodes = with_sparse_features(two_groups()), torch.arange(20)
    task = Task(graph, None, torch.from_numpy(TRUE_LABELS + 0), 2, nodes, nodes + 20, [nodes[:10], nodes[10:]])
    maker = ModelSearch(task, EncoderData(graph, n_jobs=1), encoder_settings(quick_cge("steps"), 2))

    def judged(weights: Any, classifier: str, votes: bool | None = None) -> CandidateScore:
        right = 0.9 if weights.name == best else 0.7
        return CandidateScore(right, (np.arange(100) < 100 * right).astype(float), np.zeros(100))

    monkeypatch.setattr(maker, "judge", judged)
    monkeypatch.setattr(maker, "learned", lambda _, start: start)
    assert maker._first_weights().name == best


def test_readers_that_cost_too_much_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = encoder_settings(cge.CGE(), 2)
    assert settings.affordable("consistency", 10**9)
    assert not settings.affordable("consistency", 10**10)  # 50 epochs of four passes
    assert settings.affordable("mlp", 10**10)
    monkeypatch.setattr(classifier_recipes, "_WORK", 1.0)
    model = cge.CGE(weighting="degree", label_propagation="no").fit(
        with_sparse_features(two_groups()), partial_labels(), partial_labels(TRUE_LABELS, 4)
    )
    assert {row["classifier"] for row in model.search_results_} == {"mlp"}
    plan = plan_fit(
        cge.CGE(label_propagation="no"),
        with_sparse_features(two_groups()),
        partial_labels(),
        partial_labels(TRUE_LABELS, 4),
    )
    assert plan.classifiers == ("mlp",)


def test_wide_features_count_as_work() -> None:
    graph = two_groups()
    nodes = torch.arange(20)
    task = Task(graph, None, torch.from_numpy(TRUE_LABELS + 0), 2, nodes, nodes + 20, [])
    epochs = []
    for width in (10, 4_000_000):
        told = sp.csr_array((np.ones(40, np.float32), (np.arange(40), np.arange(40) % width)), shape=(40, width))
        maker = ModelSearch(
            task, EncoderData(graph.with_features(told), n_jobs=1), encoder_settings(quick_cge(max_epochs=None), 2)
        )
        maker.problem_size = replace(
            maker.problem_size, entries=40 * width
        )  # as many numbers as a table of that width would have
        epochs.append(maker._recipe("mlp", 0).settings.max_epochs)
    assert epochs == [300, int(5e11 / (3 * 8 * 40 * 4_000_000))]  # products forth, back and for W, of 8 numbers


def test_edges_of_several_types_between_two_nodes_are_one_step() -> None:
    edges, kinds = [(0, 1), (0, 1), (0, 2)], ["a", "b", "a"]
    graph = Graph.from_edges(edges, edge_types=kinds)
    data = EncoderData(graph, n_jobs=1)
    names = data.edge_scale.names
    module = EdgeWeighting([3.0 if name == "type b" else 0.0 for name in names], 0.0, 0.0, [1.0, 1.0])
    weights = NamedWeighting("steps", module)
    propagated = weights.propagation(data)(torch.eye(3))  # what each node gets of each other, in one step or none
    plain = NamedWeighting("none", closed_form_weightings(names, 1)["none"]).propagation(data)(torch.eye(3))
    found = weights.of(data, [np.array([0, 1]), np.array([0, 2]), np.array([1, 0])])
    expected = [float(propagated[u, v] / plain[u, v]) for u, v in ((0, 1), (0, 2), (1, 0))]
    assert found == pytest.approx(expected, rel=1e-5)
    assert found[0] > 1 > found[1]
