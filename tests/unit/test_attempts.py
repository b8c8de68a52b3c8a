"""Variants of learned edge weightings that the study tries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import cge
from cge.estimators.encoder_options import encoder_settings
from cge.models.classifiers import MLPClassifier
from cge.models.edge_weighting import EdgePropagation
from cge.models.weightings import closed_form
from cge.targets import Task
from cge.training.candidate_evaluation import CandidateEvaluator
from cge.training.encoder_data import EncoderData
from cge.training.encoder_settings import EncoderSettings
from cge.training.learned_weighting import OuterProblem
from cge.training.model_search import ModelSearch
from cge.training.named_weighting import NamedWeighting
from studies import attempts
from studies.attempts import ATTEMPTS, HopPropagation, Setup, attempt
from tests.fixtures import QUICK_OUTER, edge_propagation, planted_task


def with_validation() -> Task:
    return replace(planted_task(typed=False, signal=1.5), validation=torch.arange(60, 70))


def make_settings(dim: int, max_epochs: int) -> EncoderSettings:
    estimator = cge.CGE("edges+hops", dim, label_propagation=False, training={"max_epochs": max_epochs})
    return encoder_settings(estimator, 2)


def make_setup(task: Task) -> Setup:
    data = EncoderData(task.graph, n_jobs=1)
    search = ModelSearch(CandidateEvaluator(task, data, make_settings(4, 30)))
    initial_weighting = NamedWeighting("degree", closed_form("degree", data.edge_scale.names, 4))
    return Setup(task, data, search, initial_weighting, QUICK_OUTER)


@pytest.mark.parametrize("name", ATTEMPTS)
def test_every_variant_predicts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "OuterSettings", lambda seed: replace(QUICK_OUTER, seed=seed))
    task = with_validation()
    data = EncoderData(task.graph, n_jobs=1)
    probabilities, classifiers, weighting = attempt(name, task, data, make_settings(16, 80))
    torch.testing.assert_close(probabilities.sum(1), torch.ones(80))
    assert float((probabilities.argmax(1) == task.labels)[:60].float().mean()) >= 0.7
    assert 1 <= len(classifiers) <= 2
    assert (weighting == "edges+hops") == (name != "closed forms")


def test_pseudo_labels_are_outer_labels_only(monkeypatch: pytest.MonkeyPatch) -> None:
    problems: list[Any] = []

    class Watched(OuterProblem):
        def run(self, on_step: Any = None) -> Any:
            problems.append(self)
            return super().run(on_step)

    monkeypatch.setattr(attempts, "_PSEUDO_LABELS", 3)
    monkeypatch.setattr(Setup.learn, "__defaults__", (None, Watched))
    attempts.pseudo_labels(make_setup(with_validation()))
    (outer,) = problems
    added = np.setdiff1d(np.concatenate(outer.folds), np.arange(60))
    assert len(added) == 6
    assert added.min() >= 70  # neither training nor validation labels
    assert max(part.max() for part in outer.others) < 60
    assert sorted(np.concatenate(outer.folds)) == sorted([*range(60), *added])


def test_unrolled_scores_depend_on_the_training_nodes() -> None:
    task = with_validation()
    weighted, _ = edge_propagation(task)
    outer = attempts._UnrolledOuter(task, torch.zeros(80, 6), weighted, QUICK_OUTER)
    classifier = MLPClassifier(6, 4, 2).double()
    propagated = torch.randn(10, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    own, held = np.arange(4, 10), np.arange(4)
    assert torch.autograd.gradcheck(lambda x: outer.held_out_scores(classifier, x, own, held), (propagated,))
    scores = outer.held_out_scores(classifier, propagated, own, held)
    (gradient,) = torch.autograd.grad(scores.square().sum(), propagated)
    assert gradient[own].abs().max() > 1e-4  # through the gradient steps
    scores = OuterProblem(task, torch.zeros(80, 6), weighted, QUICK_OUTER).held_out_scores(
        classifier, propagated, own, held
    )
    (gradient,) = torch.autograd.grad(scores.square().sum(), propagated)
    assert not gradient[own].any()


def test_coefficients_per_hop_start_equal_and_diverge() -> None:
    setup = make_setup(with_validation())
    shared = EdgePropagation(setup.data.transitions, setup.data.edge_inputs, setup.initial_weighting.edge_weighting)
    own = HopPropagation(setup.data.transitions, setup.data.edge_inputs, setup.initial_weighting.edge_weighting)
    inputs = torch.randn(80, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(own.propagation()(inputs), shared.propagation()(inputs))
    assert len(own.parameters()) == len(own.initial_parameters()) == 1 + 3 * 4
    OuterProblem(setup.task, setup.data.tensor_inputs("l2"), own, QUICK_OUTER).run()
    coefficients = [weighting.coefficients.detach() for weighting in own.weightings]
    assert max(float((coefficients[0] - other).abs().max()) for other in coefficients[1:]) > 0.01


def test_an_ensemble_has_a_weighting_for_each_fold() -> None:
    setup = make_setup(with_validation())
    weightings = attempts.fold_ensemble(setup)
    assert len(weightings) == 3
    coefficients = [torch.from_numpy(weighting.edge_weighting.coefficients) for weighting in weightings]
    assert all(isinstance(weighting, NamedWeighting) for weighting in weightings)
    assert not torch.equal(coefficients[0], coefficients[1])


def test_a_matrix_per_hop_separates_the_contributions_of_hops() -> None:
    setup = make_setup(with_validation())
    propagated = attempts.matrix_per_hop(setup)
    hops, dim = 5, attempts._HOP_DIM
    assert setup.search.evaluator.settings.dim == hops * dim
    inputs = torch.randn(80, 2 * hops * dim, generator=torch.Generator().manual_seed(0))  # two augmentations
    result = propagated(inputs).view(80, 2, hops, dim)
    few = torch.randn(80, 3, generator=torch.Generator().manual_seed(1))
    alone = []
    for hop in range(hops):  # a hop contributes to its own columns only
        single = torch.zeros_like(inputs).view(80, 2, hops, dim)
        single[:, :, hop] = inputs.view(80, 2, hops, dim)[:, :, hop]
        contribution = propagated(single.flatten(1)).view(80, 2, hops, dim)
        torch.testing.assert_close(contribution[:, :, hop], result[:, :, hop])
        assert not contribution[:, :, [other for other in range(hops) if other != hop]].any()
        wide = torch.zeros(80, 1, hops, dim)
        wide[:, 0, hop, :3] = few
        alone.append(propagated(wide.flatten(1)).view(80, hops, dim)[:, hop, :3])
    torch.testing.assert_close(propagated(few), torch.stack(alone).sum(0))  # class scores are summed
