"""Validation labels select epochs and candidates; no parameter of the path encoder is trained on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from cge.estimators.stored_selection import selection_arrays
from cge.training.classifier_training import ClassifierTrainer
from cge.training.learned_weighting import OuterProblem
from cge.training.torch_state import module_arrays
from tests.fixtures import (
    QUICK_OUTER,
    TRAIN_NODES,
    TRUE_LABELS,
    VALIDATION_NODES,
    ConstantWeighting,
    edge_propagation,
    groups_with_sparse_features,
    labels_at,
    planted_task,
    quick_cge,
)

PERMUTED = TRUE_LABELS.copy()
PERMUTED[VALIDATION_NODES] = np.random.default_rng(0).permutation(TRUE_LABELS[VALIDATION_NODES])


def trained_parameters(
    monkeypatch: pytest.MonkeyPatch, validation: Any, weighting: Any, changed: int | None = None, **settings: Any
) -> list[dict[str, np.ndarray]]:
    """Return the parameters after every epoch of a fit, and those of its weighting; one training label may change."""
    parameters: list[dict[str, np.ndarray]] = []
    run_epoch = ClassifierTrainer.run_epoch

    def recorded(self: ClassifierTrainer, number: int) -> None:
        run_epoch(self, number)
        parameters.append(module_arrays(self.classifier, "classifier"))

    y = labels_at(TRAIN_NODES)
    if changed is not None:
        y[changed] = 1 - y[changed]
    with monkeypatch.context() as patch:
        patch.setattr(ClassifierTrainer, "run_epoch", recorded)
        model = quick_cge(weighting, max_epochs=12, patience=100, **settings)
        model.fit(groups_with_sparse_features(), y, labels_at(VALIDATION_NODES, validation))
    return [*parameters, selection_arrays(model.fitted_.selection)]


def same(first: list[dict[str, np.ndarray]], second: list[dict[str, np.ndarray]]) -> bool:
    assert len(first) == len(second) > 12
    return all(a[name].tobytes() == b[name].tobytes() for a, b in zip(first, second, strict=True) for name in a)


@pytest.mark.parametrize(
    ("weighting", "settings"),
    [
        ("degree", {"classifier": "mlp", "label_propagation": False}),
        ("degree", {"classifier": "mlp", "label_propagation": True, "class_weight": "balanced"}),
        ("cosine", {"classifier": "consistency", "label_propagation": False}),
        ("uniform", {"classifier": "sparse", "label_propagation": False}),
        ("uniform", {"classifier": "distilled"}),
        (ConstantWeighting, {"classifier": "mlp", "label_propagation": False}),
    ],
)
def test_permuted_validation_labels_change_no_trained_parameter(
    monkeypatch: pytest.MonkeyPatch, weighting: Any, settings: dict[str, Any]
) -> None:
    assert not np.array_equal(PERMUTED, TRUE_LABELS)
    true = trained_parameters(monkeypatch, TRUE_LABELS, weighting, **settings)
    assert same(true, trained_parameters(monkeypatch, PERMUTED, weighting, **settings))
    assert not same(true, trained_parameters(monkeypatch, TRUE_LABELS, weighting, int(TRAIN_NODES[0]), **settings))


@pytest.mark.parametrize("train_hops", [False, True])
def test_learned_weightings_do_not_depend_on_labels_outside_the_training_folds(train_hops: bool) -> None:
    task = planted_task(typed=True, signal=0.5)
    others = np.setdiff1d(np.arange(len(task.labels)), task.train.numpy())
    permuted, changed = task.labels.clone(), task.labels.clone()
    permuted[others] = 1 - permuted[others]
    changed[0] = 1 - changed[0]
    learned = []
    for labels in (task.labels, permuted, changed):
        weighted = replace_hops(edge_propagation(task)[0], train_hops)
        features = torch.tensor(np.array(task.graph.features))
        with_labels = replace(task, labels=labels, validation=torch.from_numpy(others))
        assert OuterProblem(with_labels, features, weighted, QUICK_OUTER).run().better_than_prior
        learned.append(b"".join(parameter.detach().numpy().tobytes() for parameter in weighted.parameters()))
    assert learned[0] == learned[1] != learned[2]


def replace_hops(weighted: Any, train_hops: bool) -> Any:
    """Return a propagation of the same weighting whose hop weights are trained or constant."""
    return type(weighted)(weighted.transitions, weighted.edge_inputs, weighted.weighting, train_hops=train_hops)


@pytest.mark.parametrize("weighting", ["edges", "edges+hops", "lstm"])
def test_permuted_validation_labels_change_no_learned_weighting(
    monkeypatch: pytest.MonkeyPatch, weighting: str
) -> None:
    """The start is fixed: which closed form learning starts from is selected on validation labels."""
    monkeypatch.setattr("cge.training.model_search.ModelSearch.initial_weighting", degree_start)
    settings = {"classifier": "mlp", "label_propagation": False, "outer_steps": 6, "warmup_steps": 2}
    true, permuted = (
        trained_parameters(monkeypatch, labels, weighting, **settings) for labels in (TRUE_LABELS, PERMUTED)
    )
    assert same(true, permuted)


def degree_start(search: Any) -> Any:
    return search._closed_form("degree")
