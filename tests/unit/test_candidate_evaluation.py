"""Trainers of candidates: propagated labels and inputs; named weightings and their path weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import cge
from cge.estimators.encoder_options import encoder_settings
from cge.models.edge_weighting import EdgeWeighting
from cge.models.propagation import label_propagation
from cge.models.weightings import closed_form, make_network
from cge.targets import SingleLabel, Task, class_target
from cge.training.candidate_evaluation import CandidateEvaluator, CandidateKey
from cge.training.encoder_data import EncoderData
from cge.training.named_weighting import LABEL_HOP_WEIGHTS, NamedWeighting
from tests.fixtures import GROUP_SIZE, TRUE_LABELS, quick_cge, two_groups, with_sparse_features

SIZE = 2 * GROUP_SIZE


def named(name: str, data: EncoderData, hops: int = 4) -> NamedWeighting:
    return NamedWeighting(name, closed_form(name, data.edge_scale.names, hops))


@pytest.mark.parametrize("multilabel", [False, True])
def test_the_only_label_of_a_class_is_trained_without_propagated_labels(multilabel: bool) -> None:
    graph = with_sparse_features(two_groups())
    codes = torch.from_numpy(TRUE_LABELS + 0)
    codes[7] = 2  # the only one
    labels = torch.eye(3, dtype=torch.int64)[codes] if multilabel else codes
    nodes, data = torch.arange(10), EncoderData(graph, n_jobs=1)
    task = Task(graph, None, labels, class_target(labels, np.arange(3)), nodes, torch.empty(0, dtype=torch.int64))
    evaluator = CandidateEvaluator(task, data, encoder_settings(quick_cge("degree"), 3))
    weighting, classes = named("degree", data), np.eye(3)[codes[nodes]]
    weights = weighting.label_weights(data)[0]
    sums = label_propagation(data.transitions, weights, LABEL_HOP_WEIGHTS, nodes.numpy(), classes)
    complete = task.target.label_scores(*sums)
    used = evaluator.label_scores(weighting).numpy()
    assert np.argwhere(complete != used).tolist() == ([[7, 2]] if multilabel else [[7, 0], [7, 1], [7, 2]])
    assert not used[7, 2]


def test_dense_inputs_are_propagated_once_by_classifiers_that_drop_no_nodes() -> None:
    graph, nodes = with_sparse_features(two_groups()), torch.arange(20)
    task = Task(graph, None, torch.from_numpy(TRUE_LABELS + 0), SingleLabel(np.arange(2)), nodes, nodes + 20, [])
    for dense in (False, True):
        data = EncoderData(graph.with_features(graph.features.toarray()) if dense else graph, n_jobs=1)
        evaluator = CandidateEvaluator(task, data, encoder_settings(quick_cge(), 2))
        degree = named("degree", data)
        propagated = {
            name: evaluator.trainer(degree, name, False, 0, "x").propagated_inputs
            for name in ("mlp", "distilled", "consistency")
        }
        assert propagated["consistency"] is None
        assert (propagated["mlp"] is None) == (not dense)
        assert propagated["distilled"] is propagated["mlp"]
    inputs: Any = data.inputs("l2")
    propagation: Any = degree.propagation(data)
    matrix = propagation.matrix.csr.toarray().astype(np.float64)
    expected = sum(np.linalg.matrix_power(matrix, hop) @ inputs for hop in range(5)) / 5
    np.testing.assert_allclose(propagated["mlp"], expected, atol=1e-6)  # type: ignore[arg-type]


@pytest.mark.parametrize("base", ["uniform", "degree", "cosine"])
def test_an_untrained_network_has_the_weights_of_its_base(base: str) -> None:
    graph = with_sparse_features(two_groups())
    data = EncoderData(graph, n_jobs=1)
    weighting = named(base, data, hops=2)
    network = make_network("lstm", int(data.step_vectors(0).shape[1]))
    assert network is not None
    network.init_uniform()
    learned = NamedWeighting("lstm", network, (4000, 0), weighting)
    inputs = torch.randn(SIZE, 3, generator=torch.Generator().manual_seed(0))
    raw = weighting.edge_weighting.edge_strengths(data.edge_inputs).astype(np.float64)
    matrix = data.transitions.matrix(raw).toarray()
    total = matrix.sum(1)
    walk = matrix / total[:, None]
    shares = (np.eye(SIZE) + walk + walk @ walk) * total ** -weighting.edge_weighting.normalization.item()
    expected = shares / shares.sum(1, keepdims=True) @ inputs.double().numpy()
    np.testing.assert_allclose(learned.propagation(data)(inputs).numpy(), expected, atol=0.06)
    paths = [np.array([0, int(graph.indices[graph.indptr[0]])]), np.array([3]), np.array([0, SIZE - 1, 0])]
    weights = weighting.path_weights(data, paths)
    np.testing.assert_allclose(learned.path_weights(data, paths), 0.5 * weights, rtol=1e-6)
    assert weights[1] == pytest.approx(1.0)
    assert weights[2] == 0  # no path of the graph


def test_edges_of_several_types_between_two_nodes_count_as_one() -> None:
    graph = cge.Graph.from_edges([(0, 1), (0, 1), (0, 2)], edge_types=["a", "b", "a"])
    data = EncoderData(graph, n_jobs=1)
    coefficients = [3.0 if name == "type b" else 0.0 for name in data.edge_scale.names]
    weighting = NamedWeighting("edges", EdgeWeighting(coefficients, 0.0, 0.0, [1.0, 1.0]))
    contributions, uniform = (
        each.propagation(data)(torch.eye(3)) for each in (weighting, named("uniform", data, hops=1))
    )
    weights = weighting.path_weights(data, [np.array([0, 1]), np.array([0, 2]), np.array([1, 0])])
    expected = [float(contributions[u, v] / uniform[u, v]) for u, v in ((0, 1), (0, 2), (1, 0))]
    assert weights == pytest.approx(expected, rel=1e-5)
    assert weights[0] > 1 > weights[1]


def consistent_evaluator() -> tuple[CandidateEvaluator, EncoderData]:
    graph, nodes = with_sparse_features(two_groups()), torch.arange(20)
    task = Task(graph, None, torch.from_numpy(TRUE_LABELS + 0), SingleLabel(np.arange(2)), nodes, nodes + 20, [])
    data = EncoderData(graph, n_jobs=1)
    return CandidateEvaluator(task, data, encoder_settings(quick_cge(max_epochs=100), 2)), data


def test_other_weightings_continue_the_training_with_the_reference() -> None:
    evaluator, data = consistent_evaluator()
    degree, uniform, cosine = (named(name, data) for name in ("degree", "uniform", "cosine"))
    first = evaluator.evaluate(degree, "consistency", False)
    keys = [CandidateKey(name, "consistency", False) for name in ("degree", "uniform", "cosine")]
    epochs, more = len(evaluator.trainers[keys[0]].epochs), evaluator.work.continued_epochs("consistency")
    start = evaluator.trainers[keys[0]].state()
    evaluator.evaluate_all([(uniform, "consistency", False)], "degree")
    assert [len(evaluator.trainers[key].epochs) for key in keys[:2]] == [epochs + more] * 2
    extended = evaluator.scores[keys[0]]
    assert extended is not first
    assert extended.rank >= first.rank  # of the best epoch
    # The same by hand: from the parameters and moments of the reference, with other weights.
    by_hand = evaluator.trainer(uniform, "consistency", False, 0, "compare")
    by_hand.load(start)
    by_hand.best_score = (-np.inf, 0.0)
    by_hand.run(epochs + more)
    for name, array in by_hand.best.items():
        assert array.tobytes() == evaluator.trainers[keys[1]].best[name].tobytes()
    # A later one starts from the same state, not from the longer training.
    evaluator.evaluate_all([(cosine, "consistency", False)], "degree")
    assert [len(evaluator.trainers[key].epochs) for key in keys] == [epochs + more] * 3
    assert evaluator.scores[keys[0]] is extended


def test_continued_candidates_can_be_trained_from_scratch() -> None:
    evaluator, data = consistent_evaluator()
    candidates = [(named(name, data), "consistency", False) for name in ("degree", "uniform")]
    keys = [CandidateKey(weighting.name, *others) for weighting, *others in candidates]
    evaluator.evaluate_all(candidates[:1], "degree")
    evaluator.evaluate_all(candidates[1:], "degree")
    evaluator.forget_continued("uniform")
    assert [key in evaluator.scores for key in keys] == [True, False]
    evaluator.evaluate_all(candidates[1:])
    alone, data = consistent_evaluator()
    alone.evaluate(named("uniform", data), "consistency", False)
    assert evaluator.scores[keys[1]].log_losses.tobytes() == alone.scores[keys[1]].log_losses.tobytes()
    evaluator.forget_continued("uniform")  # now it was trained from scratch
    assert keys[1] in evaluator.scores


def test_what_takes_little_time_is_trained_anew() -> None:
    evaluator, data = consistent_evaluator()
    for name in ("degree", "uniform"):
        evaluator.evaluate_all([(named(name, data), classifier, False) for classifier in ("mlp", "logistic")], "degree")
    key = CandidateKey("uniform", "mlp", False)
    alone, data = consistent_evaluator()
    alone.evaluate(named("uniform", data), "mlp", False)
    assert alone.scores[key].log_losses.tobytes() == evaluator.scores[key].log_losses.tobytes()
    assert not evaluator._starts
    assert evaluator.work.evaluation("mlp", continued=True) == evaluator.work.evaluation("mlp")


def test_a_refined_classifier_continues_the_training_of_the_other() -> None:
    evaluator, data = consistent_evaluator()
    degree = named("degree", data)
    evaluator.evaluate(degree, "sparse", False)
    budget = evaluator.budget
    evaluator.evaluate_all([(degree, "sparse-light", False)], "degree")
    epochs = {
        name: len(evaluator.trainers[CandidateKey("degree", name, False)].epochs) for name in ("sparse", "sparse-light")
    }
    spec = evaluator.work.spec("sparse")
    assert set(epochs.values()) == {spec.evaluate_after + evaluator.work.continued_epochs("sparse")}
    assert budget - evaluator.budget == 2 * evaluator.work.evaluation("sparse", continued=True)
    assert evaluator.work.evaluation("sparse", continued=True) < evaluator.work.evaluation("sparse") / 3
