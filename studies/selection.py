"""How to select among the candidates of the model search: every candidate is trained, and rules are compared.

Rules are compared by nested validation, without a test label. Test accuracies are stored in fields of their own.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch

from cge.estimators.cge import CGE
from cge.estimators.classifier import folds_of
from cge.estimators.classifier_inputs import classifier_inputs
from cge.estimators.configs import OuterConfig
from cge.estimators.encoder_fit import encoder_data
from cge.estimators.encoder_options import encoder_settings
from cge.metrics import log_losses
from cge.models.weightings import WEIGHTINGS, closed_form, is_hop_profile
from cge.randomness import generator
from cge.targets import SingleLabel, Task
from cge.training.candidate_evaluation import CandidateEvaluator, CandidateKey, Training
from cge.training.history import Epoch
from cge.training.model_search import ModelSearch
from cge.training.named_weighting import NamedWeighting
from cge.training.parallel_tasks import ParallelTask, run_parallel
from cge.training.path_trainer import PathTrainer, SingleTrainer
from cge.training.selection import Selection, TrainedClassifier
from studies.cells import Cell, grid_cells
from studies.selection_rules import RULES, Halves, Outputs, weights_of
from studies.weights import task_of

__all__ = ["GRAPHS", "METHODS", "cells", "current", "run"]

Array = npt.NDArray[Any]

GRAPHS = (
    *("cora", "citeseer", "chameleon", "squirrel", "cora+200%", "citeseer+100%", "vispub", "actor", "pubmed"),
    *("debian", "nell-0.1"),
)
METHODS = ("candidates", "default")
_CLASSIFIERS = ("mlp", "consistency", "sparse", "logistic", "logistic-unit")
_OF_HOP_PROFILES = ("mlp", "logistic", "logistic-unit")
_WITH_LABELS = ("mlp", "logistic", "distilled")
_FAR = 0.05  # a classifier that is so much less accurate with `degree` is not trained with other weightings
_NEAR = 0.03  # hop profiles are candidates if `mlp` is not less accurate by more
_SPLITS = 10  # random splits of the validation nodes into halves, each used in both directions


def cells(only: str | None, seeds: int) -> Iterator[Cell]:
    """Return the cells of the study, or those of `only`: "cora", "cora/default" or "*/candidates"."""
    return grid_cells(GRAPHS, METHODS, only, seeds)


def current(cell: Cell, row: dict[str, Any]) -> bool:
    """Return whether a result has the present rules."""
    return cell.method == "default" or ("final test" in row and set(row["rules"]) == set(RULES))


def run(cell: Cell, folder: Path) -> dict[str, Any]:
    """Run a cell on one thread; probabilities of candidates are kept in a folder."""
    if cell.method == "default":
        return _run_default(cell)
    file = folder / f"{cell.graph}-{cell.seed}.npz"
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        arrays: Any = _train_candidates(cell)
        np.savez_compressed(file, **arrays)
    with np.load(file) as stored:
        arrays = {name: stored[name] for name in stored.files}
    names = arrays["names"].tolist()
    validation, test = (Outputs(names, arrays[f"{part}_outputs"], arrays[part]) for part in ("validation", "test"))
    test = test.calibrated_by(validation)
    final_validation = Outputs(names, arrays["final_validation_outputs"], arrays["validation"])
    outputs = arrays["half_outputs"], arrays["final_half_outputs"]
    halves = Halves(names, *outputs, arrays["halves"], arrays["validation"])
    chosen, nested, final = (
        weights_of(RULES, validation, final_validation),
        *(halves.nested_accuracy(RULES, end) for end in (False, True)),
    )
    final_test = Outputs(names, arrays["final_test_outputs"], arrays["test"]).calibrated_by(final_validation)
    each = np.eye(len(names))
    return {
        "candidates": names,
        "validation": [round(validation.accuracy(row), 5) for row in each],
        "test": [round(test.accuracy(row), 5) for row in each],
        "final test": [round(final_test.accuracy(row), 5) for row in each],
        "seconds": arrays["seconds"].round(2).tolist(),
        "n_validation": len(validation.labels),
        "rules": {
            rule: {
                "nested": round(nested[rule], 5),
                "nested, final": round(final[rule], 5),
                "test": round(test.accuracy(weights), 5),
                "final test": round(final_test.accuracy(weights), 5),
                "weights": {names[place]: float(weights[place]) for place in np.flatnonzero(weights)},
            }
            for rule, weights in chosen.items()
        },
    }


def _run_default(cell: Cell) -> dict[str, Any]:
    graph, labels, split, _ = task_of(cell)
    start = time.process_time()
    y, validation = (_only(labels, nodes) for nodes in (split.train, split.validation))
    model = CGE(random_state=cell.seed, n_jobs=1, prior_correction=False).fit(graph, y, validation)
    return {
        "test": model.score(graph.node_ids[split.test], labels[split.test]),
        "ensemble": model.ensemble_,
        "label_propagation": model.label_propagation_,
        "seconds": round(time.process_time() - start, 1),
    }


def _only(labels: Array, nodes: Array) -> Array:
    some = np.full_like(labels, -1)
    some[nodes] = labels[nodes]
    return some


@dataclass(frozen=True)
class _Candidate:
    weighting: NamedWeighting
    classifier: str
    label_propagation: bool

    @property
    def key(self) -> tuple[NamedWeighting, str, bool]:
        return self.weighting, self.classifier, self.label_propagation

    @property
    def name(self) -> CandidateKey:
        return CandidateKey(self.weighting.name, self.classifier, self.label_propagation)

    def __str__(self) -> str:
        names = self.weighting.name, self.classifier, *["label propagation"] * self.label_propagation
        return ", ".join(names)


class _HalfTrainer:
    """Trains, and keeps for each half of the validation nodes the scores of the epoch that is best on this half."""

    def __init__(self, task: Task, halves: Array) -> None:
        self.task, self.halves, self.labels = task, halves, task.labels[task.validation].numpy()
        self.outputs: list[Array] = []  # (halves, k, c) of each candidate after the search
        self.final_outputs: list[Array] = []  # and after its training has ended

    def __call__(self, trainings: Sequence[Training], tasks: Sequence[ParallelTask]) -> list[Any]:
        for trainer, _, epochs in trainings:
            self._best = [(-np.inf, -np.inf)] * len(self.halves)
            self._best_outputs = np.zeros((len(self.halves), len(self.labels), self.task.classes), np.float16)
            self._train(trainer, epochs)
            self.outputs.append(self._best_outputs.copy())
        return run_parallel(tasks, 1)

    def finish(self, trainer: PathTrainer) -> None:
        """Train the last candidate until it stops."""
        self._train(trainer, None)
        self.final_outputs.append(self._best_outputs.copy())

    def _train(self, trainer: PathTrainer, epochs: int | None) -> None:
        def track(epoch: Epoch) -> None:
            if epoch.epoch <= min(trainer.first_eligible, trainer.max_epochs - 1):
                return
            probabilities = self.task.target.outputs(trainer.validation_scores).numpy()
            correct, losses = probabilities.argmax(1) == self.labels, log_losses(probabilities, self.labels)
            for place, half in enumerate(self.halves):
                score = float(correct[half].mean()), -float(losses[half].mean())
                if score > self._best[place]:
                    self._best[place], self._best_outputs[place] = score, probabilities

        trainer.run(epochs, track)


def _train_candidates(cell: Cell) -> dict[str, Array]:
    """Train every candidate as the search does; return probabilities of validation and test nodes."""
    graph, labels, split, _ = task_of(cell)
    train, validation = torch.tensor(split.train), torch.tensor(split.validation)
    folds = [torch.from_numpy(fold) for fold in folds_of(labels, split.train, OuterConfig().n_folds, cell.seed)]
    target = SingleLabel(np.arange(labels.max() + 1))
    task = Task(graph, None, torch.from_numpy(labels.astype(np.int64)), target, train, validation, folds)
    model, random = CGE(random_state=cell.seed, n_jobs=1), generator(cell.seed, "halves")
    orders = [random.permutation(len(validation)) for _ in range(_SPLITS)]
    middle = len(validation) // 2
    halves = np.array([part for order in orders for part in (order[:middle], order[len(order) - middle :])])
    half_trainer = _HalfTrainer(task, halves)
    data, settings = encoder_data(model, graph), encoder_settings(model, task.classes)
    evaluator = CandidateEvaluator(task, data, settings, train=half_trainer)
    nodes = {name: np.array(getattr(split, name)) for name in ("validation", "test")}
    arrays: dict[str, list[Any]] = defaultdict(list)
    for candidate in _candidates(ModelSearch(evaluator)):
        start = time.process_time()
        evaluator.evaluate(*candidate.key)
        arrays["names"].append(str(candidate))
        arrays["seconds"].append(time.process_time() - start)
        trainer = evaluator.trainers.pop(candidate.name)
        for name, rows in nodes.items():
            arrays[f"{name}_outputs"].append(_probabilities(evaluator, candidate, trainer, rows))
        half_trainer.finish(trainer)
        for name, rows in nodes.items():
            arrays[f"final_{name}_outputs"].append(_probabilities(evaluator, candidate, trainer, rows))
    stacked = {name: np.array(values) for name, values in arrays.items()}
    more = {"halves": halves, "half_outputs": np.array(half_trainer.outputs)}
    more["final_half_outputs"] = np.array(half_trainer.final_outputs)
    return stacked | more | {name: labels[rows] for name, rows in nodes.items()}


def _probabilities(
    evaluator: CandidateEvaluator, candidate: _Candidate, trainer: PathTrainer, rows: Array
) -> npt.NDArray[np.float16]:
    """Return the probabilities of a candidate's best epoch for some nodes."""
    task, data, propagated = evaluator.task, evaluator.data, candidate.label_propagation
    classifier = cast(SingleTrainer, trainer).best_classifier().fixed()
    trained = TrainedClassifier(candidate.classifier, classifier, candidate.weighting)
    train = task.train.numpy()
    known_labels = (train, task.target.matrix(task.labels.numpy()[train])) if propagated else None
    selection = Selection(trained.weighting, trained.name, propagated)
    known = classifier_inputs(data, selection, [trained], known_labels, task.target, rows)
    return np.asarray(task.target.outputs(known.class_scores([trained])[0]), np.float16)


def _candidates(search: ModelSearch) -> Iterator[_Candidate]:
    """Yield candidates, the simple ones first; those of weightings are trained when they are asked for."""
    evaluator, data = search.evaluator, search.data

    def closed(name: str) -> NamedWeighting:
        return NamedWeighting(name, closed_form(name, data.edge_scale.names, evaluator.settings.hops))

    degree, features = closed("degree"), data.graph.features is not None
    usable = [name for name in _CLASSIFIERS if evaluator.work.affordable(name)]
    for name in usable:
        yield _Candidate(degree, name, False)
    for name in ("mlp", "logistic"):
        yield _Candidate(degree, name, True)
    accuracy = {name: evaluator.scores[CandidateKey("degree", name, False)].accuracy for name in usable}
    best = max(accuracy.values())
    near = [name for name in usable if accuracy[name] >= best - _FAR]
    weightings = [closed(name) for name in ("uniform", "cosine") if WEIGHTINGS[name].applies(4, features)]
    for weighting in weightings:
        for name in near:
            yield _Candidate(weighting, name, False)
    if evaluator.scores[CandidateKey("degree", "mlp", True)].accuracy >= best - _NEAR:
        yield _Candidate(degree, "distilled", True)
        for weighting in weightings:
            for name in _WITH_LABELS:
                yield _Candidate(weighting, name, True)
    by_hops = accuracy["mlp"] >= best - _NEAR
    for spec in WEIGHTINGS.values():
        if by_hops and is_hop_profile(spec.name) and spec.applies(evaluator.settings.hops, features):
            for name in _OF_HOP_PROFILES:
                if name in near:
                    yield _Candidate(closed(spec.name), name, False)
    forms = {key[0]: score.accuracy for key, score in evaluator.scores.items() if key[1:] == ("mlp", False)}
    start = closed(max(forms, key=lambda name: forms[name]))
    for learned in ("edges", "edges+hops") if by_hops else ("edges",):
        weighting = search.learn(learned, start)
        for name in near:
            yield _Candidate(weighting, name, False)
