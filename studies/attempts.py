"""Variants of learned edge weightings that were tried and are not part of the package.

Each variant learns edge and hop weights in another way; classifiers are trained on the result and selected on the
validation labels as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from cge.data.splits import folds as stratified_folds
from cge.losses import supervised_loss
from cge.models.autograd import Propagation, sparse_matmul
from cge.models.classifiers import MLPClassifier
from cge.models.edge_weighting import EdgeInputs, EdgePropagation, EdgeWeighting
from cge.models.propagation import TransitionMatrix
from cge.targets import Task
from cge.training.candidate_evaluation import CandidateEvaluator, CandidateKey, score_candidate, ties_with_best
from cge.training.encoder_data import EncoderData
from cge.training.encoder_settings import EncoderSettings, OuterSettings
from cge.training.learned_weighting import OuterProblem
from cge.training.model_search import ModelSearch
from cge.training.named_weighting import NamedWeighting

__all__ = ["ATTEMPTS", "attempt"]

Array = npt.NDArray[Any]

_PSEUDO_LABELS = 20  # nodes of each class that get a pseudo-label
_UNROLLED_STEPS = 3  # gradient steps of the last layer that are differentiated
_UNROLLED_RATE = 1.0  # learning rate of these steps
_HOP_DIM = 16  # hidden units of each hop that has its own matrix


@dataclass(frozen=True, eq=False)
class Setup:
    """What a variant starts from; `initial_weighting` is the closed-form weighting with the better MLP classifier."""

    task: Task
    data: EncoderData
    search: ModelSearch
    initial_weighting: NamedWeighting
    settings: OuterSettings

    def learn(
        self, task: Task | None = None, problem: type[OuterProblem] = OuterProblem, **changed: Any
    ) -> NamedWeighting:
        """Return a weighting learned from `initial_weighting`; fold classifiers see only `self.task.train`."""
        weighting = NamedWeighting("edges+hops", deepcopy(self.initial_weighting.module))
        propagation = EdgePropagation(self.data.transitions, self.data.edge_inputs, weighting.edge_weighting)
        outer = problem(
            task or self.task, self.data.tensor_inputs("l2"), propagation, replace(self.settings, **changed)
        )
        outer.others = [np.intersect1d(nodes, self.task.train.numpy()) for nodes in outer.others]
        outer.run()
        return weighting


def more_folds(setup: Setup) -> Sequence[NamedWeighting]:
    """Use ten folds: fold classifiers see nine tenths of the labels, closer to the final one, which sees all."""
    labels, train = setup.task.labels.numpy(), setup.task.train.numpy()
    folds = stratified_folds(train, labels, min(10, len(train)), setup.settings.seed)
    return [setup.learn(replace(setup.task, folds=[torch.from_numpy(fold) for fold in folds]))]


def pseudo_labels(setup: Setup) -> Sequence[NamedWeighting]:
    """Add the most confident predictions of a first classifier, twenty of each class, to the outer labels."""
    evaluator = setup.search.evaluator
    evaluator.evaluate(setup.initial_weighting, "mlp", False)
    scores = evaluator.trainers[CandidateKey(setup.initial_weighting.name, "mlp", False)].best_scores()
    confidence, predicted = torch.softmax(scores, dim=1).max(1)
    unlabeled = np.setdiff1d(np.arange(len(predicted)), torch.cat([setup.task.train, setup.task.validation]).numpy())
    chosen = []
    for label in range(setup.task.classes):
        nodes = unlabeled[predicted.numpy()[unlabeled] == label]
        chosen.append(nodes[np.argsort(-confidence.numpy()[nodes], kind="stable")[:_PSEUDO_LABELS]])
    labels, nodes = setup.task.labels.clone(), np.concatenate(chosen)
    labels[nodes] = predicted[nodes]
    folds = [
        torch.from_numpy(np.concatenate([fold.numpy(), nodes[number :: len(setup.task.folds)]]))
        for number, fold in enumerate(setup.task.folds)
    ]
    train = torch.cat([setup.task.train, torch.from_numpy(nodes)])
    return [setup.learn(replace(setup.task, labels=labels, folds=folds, train=train))]


def unrolled(setup: Setup) -> Sequence[NamedWeighting]:
    """Differentiate through three gradient steps of the classifier's last layer."""
    return [setup.learn(problem=_UnrolledOuter)]


class _UnrolledOuter(OuterProblem):
    """Scores the outer labels with the last layer after some more gradient steps."""

    def held_out_scores(
        self, classifier: MLPClassifier, propagated: Tensor, train_nodes: Array, held_out_nodes: Array
    ) -> Tensor:
        """Return scores of held-out nodes, differentiable through the gradient steps on `train_nodes`."""
        hidden, labels = torch.relu(propagated[train_nodes] + classifier.bias), self.task.labels[train_nodes]
        weight: Tensor = classifier.score.weight
        bias: Tensor = classifier.score.bias
        for _ in range(_UNROLLED_STEPS):
            loss = supervised_loss(functional.linear(hidden, weight, bias), labels, self.class_weights)
            gradients = torch.autograd.grad(loss, [weight, bias], create_graph=True)
            weight, bias = weight - _UNROLLED_RATE * gradients[0], bias - _UNROLLED_RATE * gradients[1]
        return functional.linear(torch.relu(propagated[held_out_nodes] + classifier.bias), weight, bias)


def fold_ensemble(setup: Setup) -> Sequence[NamedWeighting]:
    """Learn a weighting for each fold alone, and average their predictions."""
    return [setup.learn(replace(setup.task, folds=[fold])) for fold in setup.task.folds]


def no_penalty(setup: Setup) -> Sequence[NamedWeighting]:
    """Drop the penalty on the distance from the closed form, and take four times as many steps."""
    return [setup.learn(penalty=0.0, steps=4 * setup.settings.steps)]


class HopPropagation:
    """Propagation with separate parameters for every hop: own coefficients, self-loops and normalization."""

    def __init__(
        self, transitions: TransitionMatrix, edge_inputs: EdgeInputs, initial_weighting: EdgeWeighting
    ) -> None:
        self.transitions, self.edge_inputs = transitions, edge_inputs.tensors()
        hops = len(initial_weighting.hop_weights) - 1
        self.weightings = [deepcopy(initial_weighting).trainable() for _ in range(hops)]
        self._initial = [parameter.detach().clone() for parameter in self.parameters()]

    def parameters(self) -> list[nn.Parameter]:
        """Return the parameters of every hop; the hop weights are those of the first."""
        own = [(weighting.coefficients, weighting.self_loop, weighting.normalization) for weighting in self.weightings]
        return [self.weightings[0].hop_weights, *(parameter for group in own for parameter in group)]

    def initial_parameters(self) -> list[Tensor]:
        """Return the parameters before training."""
        return self._initial

    def propagation(self, nodes: Array | None = None) -> Propagation:  # noqa: ARG002 - all nodes at once
        """Return the function X → Σ_k h_k M_1 … M_k X."""
        matrices = [weighting.normalized_weights(self.transitions, self.edge_inputs) for weighting in self.weightings]
        hops = self.weightings[0].normalized_hop_weights()

        def propagated(inputs: Tensor) -> Tensor:
            total: Tensor = hops[-1] * inputs
            for hop in range(len(matrices) - 1, -1, -1):
                total = hops[hop] * inputs + sparse_matmul(self.transitions, matrices[hop], total)
            return total

        return propagated


def coefficients_per_hop(setup: Setup) -> Propagation:
    """Learn separate coefficients for every hop."""
    propagation = HopPropagation(setup.data.transitions, setup.data.edge_inputs, setup.initial_weighting.edge_weighting)
    OuterProblem(setup.task, setup.data.tensor_inputs("l2"), propagation, setup.settings).run()
    for parameter in propagation.parameters():
        parameter.requires_grad_(False)
    return propagation.propagation()


def matrix_per_hop(setup: Setup) -> Propagation:
    """Give each hop a matrix W_k of its own: the contributions of hops are concatenated instead of summed.

    Classifiers that propagate class scores keep the sum, since their columns are classes.
    """
    weighting, transitions = setup.learn().edge_weighting, setup.data.transitions
    hops, dim = torch.from_numpy(weighting.normalized_hop_weights()), _HOP_DIM
    matrix = EdgePropagation(transitions, setup.data.edge_inputs, weighting).normalized_weights()
    evaluator = setup.search.evaluator
    evaluator.work = replace(evaluator.work, settings=replace(evaluator.settings, dim=len(hops) * dim))

    def propagated(inputs: Tensor) -> Tensor:
        separate = not inputs.shape[1] % (len(hops) * dim)  # augmentations are concatenated, too
        parts = inputs.view(len(inputs), -1, len(hops), dim) if separate else inputs[:, None, None, :]
        contributions = []
        for hop, hop_weight in enumerate(hops):
            part = parts[:, :, hop if separate else 0].flatten(1)
            for _ in range(hop):
                part = sparse_matmul(transitions, matrix, part)
            contributions.append(hop_weight * part)
        if not separate:
            return torch.stack(contributions).sum(0)
        return torch.stack([part.view(len(inputs), -1, dim) for part in contributions], dim=2).flatten(1)

    return propagated


def closed_forms(setup: Setup) -> Sequence[NamedWeighting]:
    """Learn nothing: select among uniform, degree, cosine and hop profiles. Learned weights have to be better."""
    settings = replace(setup.search.evaluator.settings, weighting="auto")
    evaluator = CandidateEvaluator(replace(setup.task, folds=[]), setup.data, settings)
    return [ModelSearch(evaluator).run().weighting]


ATTEMPTS: dict[str, Callable[[Setup], Any]] = {
    "closed forms": closed_forms,
    "edges+hops, 10 folds": more_folds,
    "edges+hops, pseudo-labels": pseudo_labels,
    "edges+hops, unrolled": unrolled,
    "edges+hops, fold ensemble": fold_ensemble,
    "edges+hops, no penalty": no_penalty,
    "edges+hops, coefficients per hop": coefficients_per_hop,
    "edges+hops, matrix per hop": matrix_per_hop,
}


def attempt(name: str, task: Task, data: EncoderData, settings: EncoderSettings) -> tuple[Tensor, list[str], str]:
    """Return a variant's probabilities `(n, c)` of all nodes, its classifiers and the name of its weighting."""
    evaluator = CandidateEvaluator(task, data, settings)
    size = replace(evaluator.work.size, columns=0)  # some propagations mix columns: keep W after them
    evaluator.work = replace(evaluator.work, size=size)
    search = ModelSearch(evaluator)
    # Logistic regression has scores of labeled nodes only.
    search.candidates = [each for each in search.candidates if not each.classifier.startswith("logistic")]
    initial_weighting = search.initial_weighting()
    setup = Setup(task, data, search, initial_weighting, OuterSettings(seed=settings.seed))
    result = ATTEMPTS[name](setup)
    probabilities: list[Tensor] = []
    used, kind = list[str](), ""
    for number, learned in enumerate(result if isinstance(result, list) else [result]):
        weighting = (
            learned
            if isinstance(learned, NamedWeighting)
            else _Fixed("edges+hops", initial_weighting.module, fixed=learned)
        )
        kind, weighting = weighting.name, replace(weighting, name=f"{name} {number}")
        trainers = {
            classifier: evaluator.trainers[CandidateKey(weighting.name, classifier, False)]
            for classifier in search.select_classifiers("classifier", weighting)
        }
        for trainer in trainers.values():
            trainer.run()
        used = ties_with_best({classifier: score_candidate(trainer) for classifier, trainer in trainers.items()})
        probabilities += [torch.softmax(trainers[classifier].best_scores(), dim=1) for classifier in used]
    return torch.stack(probabilities).mean(0), used, kind


@dataclass(frozen=True, eq=False)
class _Fixed(NamedWeighting):
    """A weighting whose propagation is given."""

    fixed: Propagation | None = None

    def training_propagation(self, data: EncoderData) -> Propagation:
        """Return it."""
        return super().training_propagation(data) if self.fixed is None else self.fixed
