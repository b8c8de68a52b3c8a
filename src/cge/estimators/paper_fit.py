"""A whole fit of the paper's algorithm: training, calibration, and a second training on all labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from cge.arrays import Array
from cge.errors import InputError, Message
from cge.estimators.checkpoints import Checkpoints
from cge.estimators.classifier import TaskLabels, folds_of, hold_out
from cge.estimators.configs import flat_params
from cge.estimators.fitted_model import FitLog, LabeledNodes, ValidationNodes
from cge.estimators.paper_model import PaperModel, normalized_features
from cge.graph import Graph
from cge.training.candidates import MIN_VALIDATION
from cge.training.paper_settings import TrainingSettings
from cge.training.paper_training import train
from cge.training.task import Task

if TYPE_CHECKING:
    from cge.estimators.paper_cge import PaperCGE

_COLLAPSED, _CONSTANT = 0.02, 0.02  # mean of A below the one, relative standard deviation of A below the other


def fit_paper(
    estimator: PaperCGE,
    graph: Graph,
    labels: TaskLabels,
    checkpoints: Checkpoints,
    callback: Callable[[Any], None] | None,
) -> PaperModel:
    """Train, with labels held out for validation and a second training where no validation labels are given."""
    all_train, validation_idx, train_idx = labels.train, labels.validation, labels.train
    validation_given = len(validation_idx) > 0
    if not validation_given:
        fraction, seed = estimator.validation_fraction, estimator.random_state
        train_idx, validation_idx = hold_out(labels.codes, all_train, fraction, seed)
    refit = estimator.refit and not validation_given and len(validation_idx) > 0
    settings, features = _settings(estimator), normalized_features(graph.features, estimator.n_jobs)

    def make_task(nodes: Array, validation: Array) -> tuple[Task, dict[str, int]]:
        folds, remaining = _outer_folds(estimator, labels.codes, nodes, validation)
        parts = [torch.from_numpy(np.ascontiguousarray(part)) for part in (nodes, remaining, *folds)]
        codes, outer_only = torch.from_numpy(labels.codes), estimator.outer_labels == "validation"
        seen = {"train": len(nodes), "outer": sum(map(len, folds)), "validation": len(remaining)}
        roles = parts[0], parts[1], parts[2:]
        task = Task(graph, features, codes, len(labels.classes), *roles, outer_only, labels.target)
        return task, seen

    def run(task: Task, stage: str, stop_after: int | None = None) -> Any:
        saved, writer = checkpoints.read(stage), checkpoints.writer(stage)
        return train(task, settings, stop_after=stop_after, saved=saved, callback=callback, on_state=writer)

    task, seen = make_task(train_idx, validation_idx)
    trained = run(task, "select" if refit else "train")
    validation_idx = task.validation.numpy()
    empty = ValidationNodes(
        np.empty(0, np.int64), labels.matrix(validation_idx[:0]), np.empty((0, len(labels.classes)))
    )
    log = FitLog(trained.history, trained.best_epoch, None, seen)
    model = PaperModel(
        graph=graph,
        features=features,
        parameters=trained.parameters,
        train=LabeledNodes(train_idx, labels.matrix(train_idx)),
        validation=empty,
        target=labels.target,
        log=log,
        window=estimator.window,
        n_jobs=estimator.n_jobs,
    )
    if len(validation_idx) >= MIN_VALIDATION:
        model.temperature = labels.target.fit_temperature(
            model.probabilities(None, validation_idx), labels.codes[validation_idx]
        )
    matrix = labels.matrix(validation_idx)
    model.validation = ValidationNodes(validation_idx, matrix, model.probabilities(None, validation_idx))
    if refit:
        task, seen = make_task(all_train, np.empty(0, np.int64))
        again = run(task, "refit", trained.best_epoch)
        seen = seen | {"validation": len(validation_idx)}
        model = replace(
            model,
            parameters=again.parameters,
            train=LabeledNodes(all_train, labels.matrix(all_train)),
            log=FitLog(again.history, again.best_epoch, trained.history, seen),
        )
    model.log = replace(model.log, notices=_notices(model.log, estimator.outer))
    return model


def _settings(estimator: PaperCGE) -> TrainingSettings:
    params = flat_params(estimator)
    names = [field.name for field in fields(TrainingSettings) if field.name != "seed"]
    return TrainingSettings(**{name: params[name] for name in names}, seed=estimator.random_state)


def _outer_folds(
    estimator: PaperCGE, codes: Array, train_idx: Array, validation_idx: Array
) -> tuple[Sequence[Array], Array]:
    """Return the labels of the outer problem in folds, and the validation labels that remain."""
    if estimator.weighting == "uniform" or estimator.outer == "paper":  # Eq. 15 as printed uses no labels
        return [], validation_idx
    if estimator.outer_labels == "folds":
        if len(train_idx) < 2:
            hint = Message.of("label more, or use {weighting}", weighting="uniform")
            raise InputError("weights are learned from at least two labeled nodes", parameter="weighting", hint=hint)
        return folds_of(codes, train_idx, estimator.n_folds, estimator.random_state), validation_idx
    if len(validation_idx) < 2:
        problem = Message.of("{outer_labels} needs at least two validation labels", outer_labels="validation")
        raise InputError(problem, parameter="outer_labels", hint="pass more of them")
    outer, remaining = folds_of(codes, validation_idx, 2, estimator.random_state)
    return [outer], remaining


def _notices(log: FitLog, outer: str) -> tuple[Message, ...]:
    """Return what to warn of: learned weights that collapsed, or are nearly constant."""
    # A second training may end before the weights collapse as they did in the first.
    best, last = log.history[log.best_epoch - 1], (log.selection_history or log.history)[-1]
    if last.weight_mean is None:
        return ()
    if last.weight_mean < _COLLAPSED:
        used = f" (epoch {best.epoch}, which is used, has {best.weight_mean:.2g})"
        used = "" if best.weight_mean < _COLLAPSED else used
        problem = f"path weights collapsed to a mean of {last.weight_mean:.2g}{used}, so paths hardly train the vectors"
        use = Message.of("use {outer}", outer="unrolled")
        hint = use if outer == "paper" else Message.of("try a lower {weighting_lr}")
        return (Message(problem, "; ", hint),)
    if best.weight_std < _CONSTANT * best.weight_mean:
        problem = f"path weights are nearly constant ({best.weight_mean:.2g} ± {best.weight_std:.2g})"
        uniform = Message.of("{weighting} gives about the same vectors", weighting="uniform")
        return (Message(problem, "; ", uniform),)
    return ()
