"""Other ways to learn weights, which the study tries: each does what it says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import cge
from cge.estimators.encoder_model import encoder_settings
from cge.models.classifiers import MLPClassifier
from cge.models.edge_weighting import EdgePropagation
from cge.training.encoder_data import EncoderData
from cge.training.learned_weighting import OuterProblem
from cge.training.model_search import ModelSearch
from cge.training.named_weighting import NamedWeighting
from cge.training.task import Task
from studies import attempts
from studies.attempts import ATTEMPTS, HopPropagation, Situation, attempt
from tests.fixtures import QUICK_OUTER, edge_propagation, planted_task


def with_validation() -> Task:
    return replace(planted_task(typed=False, signal=1.5), validation=torch.arange(60, 70))


def situation(task: Task) -> Situation:
    data = EncoderData(task.graph, n_jobs=1)
    settings = encoder_settings(
        cge.CGE(weighting="steps", label_propagation="no", dim=4, training={"max_epochs": 30}), 2
    )
    maker = ModelSearch(task, data, settings)
    return Situation(task, data, maker, maker.best_closed_form("degree"), QUICK_OUTER)


@pytest.mark.parametrize("name", ATTEMPTS)
def test_every_attempt_ends_with_chances(name: str) -> None:
    task = with_validation()
    settings = encoder_settings(
        cge.CGE(weighting="steps", label_propagation="no", dim=16, training={"max_epochs": 80}), 2
    )
    found, classifiers, kind = attempt(name, task, EncoderData(task.graph, n_jobs=1), settings)
    torch.testing.assert_close(found.sum(1), torch.ones(80))
    assert float((found.argmax(1) == task.labels)[:60].float().mean()) >= 0.7
    assert 1 <= len(classifiers) <= 2
    assert (kind == "steps") == (name != "closed forms")


def test_lent_labels_are_held_out_and_never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class Watched(OuterProblem):
        def run(self, on_step: Any = None) -> Any:
            made.append(self)
            return super().run(on_step)

    monkeypatch.setattr(attempts, "_CONFIDENT", 3)
    monkeypatch.setattr(Situation.learn, "__defaults__", (None, Watched))
    attempts.lent_labels(situation(with_validation()))
    (outer,) = made
    lent = np.setdiff1d(np.concatenate(outer.folds), np.arange(60))
    assert len(lent) == 6
    assert lent.min() >= 70  # neither training nor validation labels
    assert max(part.max() for part in outer.others) < 60
    assert sorted(np.concatenate(outer.folds)) == sorted([*range(60), *lent])


def test_unrolled_scores_know_how_the_last_layer_follows() -> None:
    task = with_validation()
    weighted, _ = edge_propagation(task)
    outer = attempts._UnrolledOuter(task, torch.zeros(80, 6), weighted, QUICK_OUTER)
    classifier = MLPClassifier(6, 4, 2).double()
    propagated = torch.randn(80, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    own, held = np.arange(20, 60), np.arange(20)
    assert torch.autograd.gradcheck(lambda x: outer.held_out_scores(classifier, x, own, held), (propagated,))
    (slope,) = torch.autograd.grad(outer.held_out_scores(classifier, propagated, own, held).square().sum(), propagated)
    assert slope[own].abs().max() > 1e-4  # what readers see matters as well
    plain = OuterProblem(task, torch.zeros(80, 6), weighted, QUICK_OUTER)
    (slope,) = torch.autograd.grad(plain.held_out_scores(classifier, propagated, own, held).square().sum(), propagated)
    assert not slope[own].any()


def test_gates_of_hops_begin_as_shared_ones_and_part() -> None:
    now = situation(with_validation())
    shared = EdgePropagation(now.data.transitions, now.data.edge_inputs, now.start.edge_weighting)
    own = HopPropagation(now.data.transitions, now.data.edge_inputs, now.start.edge_weighting)
    inputs = torch.randn(80, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(own.propagation()(inputs), shared.propagation()(inputs))
    assert len(own.parameters()) == len(own.initial_parameters()) == 1 + 3 * 4
    OuterProblem(now.task, now.data.inputs("l2"), own, QUICK_OUTER).run()
    gates = [part.coefficients.detach() for part in own.parts]
    assert max(float((gates[0] - other).abs().max()) for other in gates[1:]) > 0.01


def test_an_ensemble_has_weights_for_each_fold() -> None:
    now = situation(with_validation())
    found = attempts.fold_ensemble(now)
    assert len(found) == 3
    gates = [one.edge_weighting.coefficients.detach() for one in found]
    assert all(isinstance(one, NamedWeighting) for one in found)
    assert not torch.equal(gates[0], gates[1])


def test_maps_of_hops_part_what_hops_bring() -> None:
    now = situation(with_validation())
    propagated = attempts.hop_maps(now)
    hops, width = 5, attempts._HOP_WIDTH
    assert now.maker.settings.dim == hops * width
    inputs = torch.randn(80, 2 * hops * width, generator=torch.Generator().manual_seed(0))  # two passes
    found = propagated(inputs).view(80, 2, hops, width)
    few = torch.randn(80, 3, generator=torch.Generator().manual_seed(1))
    alone = []
    for place in range(hops):  # a path of so many steps brings nothing to the other places
        told = torch.zeros_like(inputs).view(80, 2, hops, width)
        told[:, :, place] = inputs.view(80, 2, hops, width)[:, :, place]
        brought = propagated(told.flatten(1)).view(80, 2, hops, width)
        torch.testing.assert_close(brought[:, :, place], found[:, :, place])
        assert not brought[:, :, [other for other in range(hops) if other != place]].any()
        wide = torch.zeros(80, 1, hops, width)
        wide[:, 0, place, :3] = few
        alone.append(propagated(wide.flatten(1)).view(80, hops, width)[:, place, :3])
    torch.testing.assert_close(propagated(few), torch.stack(alone).sum(0))  # class scores are summed
