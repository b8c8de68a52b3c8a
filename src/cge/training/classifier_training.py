"""Training of the path encoder: a loss on labels, and predictions that agree however paths are disturbed.

In an epoch the graph is passed R times; each pass drops whole nodes' payloads, single features and hidden numbers. The
loss is that of the labels, plus λ times how far each pass's predictions are from their sharpened mean (temperature T),
on nodes where the mean is confident (Feng et al. 2020, "Graph Random Neural Networks", and 2022, "GRAND+"). λ is zero
in the first epochs and then grows: before the labels are learned, agreeing would only harden chance. The best epoch is
one with full λ.

Dense features of which no whole nodes are dropped can be summed over paths once, Σ A(p) (x W) = (Σ A(p) x) W. Single
ones are then dropped from the sum, and an epoch looks at the nodes it learns from, not at the graph.

Where known labels vote, a reader can be taught by the votes instead: λ times its cross-entropy from what they say of
every node that carries anything. It learns what features say of classes from all nodes, and votes, which do not change,
cannot drift as agreement with oneself can. Votes and reader then speak with equal say.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from cge.errors import InputError, Message
from cge.losses import supervised_loss
from cge.metrics import accuracy_or_f1
from cge.models.classifiers import PathClassifier
from cge.models.propagation import propagate_to
from cge.models.sparse_products import NodeFeatures, SparseFeatures, thinned
from cge.randomness import generator
from cge.training.history import Epoch
from cge.training.task import Task
from cge.training.torch_state import (
    TrainerState,
    load_module,
    load_optimizer,
    module_arrays,
    one_thread,
    optimizer_arrays,
)

__all__ = ["ClassifierSettings", "ClassifierTrainer", "Propagation", "drop_features", "kept", "sharpened"]

Array = npt.NDArray[Any]

_SURE = 0.75  # chance above which a mean counts as confident with two classes; with c of them 2 / c is enough
Propagation = Callable[[Tensor], Tensor]  # what nodes carry (n, d) → what paths bring to each node (n, d)


@dataclass(frozen=True)
class ClassifierSettings:
    """Settings of `ClassifierTrainer`; shares are between 0 and 1.

    `warmup_epochs` use the supervised loss only; λ grows to `consistency_weight` in `rampup_epochs` more. An epoch
    compares at most `max_consistency_nodes` nodes. With `distilled` the targets are the propagated labels.
    """

    n_augmentations: int = 4
    drop_node: float = 0.5
    drop_feature: float = 0.5
    dropout: float = 0.5
    consistency_weight: float = 1.5
    sharpening: float = 0.1
    learning_rate: float = 0.01
    weight_decay: float = 5e-4
    warmup_epochs: int = 50
    rampup_epochs: int = 100
    max_epochs: int = 500
    patience: int = 100
    max_consistency_nodes: int = 5_000
    distilled: bool = False
    seed: int = 0


def sharpened(probabilities: Tensor, sharpening: float, several: bool) -> Tensor:
    """Return chances `(n, c)` moved towards the likeliest class, or with `several` each towards 0 or 1.

    >>> [round(one, 4) for one in sharpened(torch.tensor([[0.75, 0.25]]), 0.5, several=False)[0].tolist()]  # 9 to 1
    [0.9, 0.1]
    """
    if several:
        return torch.sigmoid(torch.logit(probabilities, 1e-7) / sharpening)
    return torch.softmax(torch.log(probabilities.clamp(min=1e-30)) / sharpening, dim=1)


class ClassifierTrainer:
    """Trains a `PathClassifier` on a task through a pooling of given path weights; keeps the best epoch's parameters.

    `label_scores (n, c)` are propagated labels, added to the class scores with a learned weight. `class_weights (c,)`
    weigh the loss of each class. `consistency_nodes` enter the consistency loss; None means all. `propagated_inputs
    (n, f)` are dense inputs that were propagated before; whole nodes cannot be dropped then.
    """

    def __init__(
        self,
        task: Task,
        inputs: NodeFeatures,
        propagation: Propagation,
        classifier: PathClassifier,
        settings: ClassifierSettings,
        *,
        label_scores: Tensor | None = None,
        class_weights: Tensor | None = None,
        consistency_nodes: Tensor | None = None,
        propagated_inputs: Tensor | None = None,
        stage: str = "train",
        n_jobs: int | None = 1,
    ) -> None:
        self.n_jobs, self.propagated_inputs = n_jobs, propagated_inputs
        self.task, self.inputs, self.propagation, self.settings = task, inputs, propagation, settings
        self.classifier, self.label_scores, self.class_weights, self.stage = (
            classifier,
            label_scores,
            class_weights,
            stage,
        )
        self.consistency_nodes = torch.arange(task.graph.num_nodes) if consistency_nodes is None else consistency_nodes
        self.optimizer = torch.optim.Adam(
            classifier.parameter_groups(settings.weight_decay), settings.learning_rate, fused=True
        )
        self.epochs: list[Epoch] = []
        self.best, self.best_epoch = module_arrays(classifier, "classifier"), 0
        self._best_score = (-1.0, 0.0)  # below any accuracy

    def run(
        self,
        stop_after: int | None = None,
        on_epoch: Callable[[Epoch], None] | None = None,
        on_state: Callable[[Callable[[], TrainerState]], None] | None = None,
    ) -> None:
        """Train to the last epoch, to epoch `stop_after`, or until patience ends. A later call goes on."""
        with one_thread():
            last = self.settings.max_epochs if stop_after is None else min(stop_after, self.settings.max_epochs)
            while len(self.epochs) < last and not self.out_of_patience():
                self.run_epoch(len(self.epochs))
                if on_state is not None:
                    on_state(self.state)
                if on_epoch is not None:
                    on_epoch(self.epochs[-1])

    def out_of_patience(self) -> bool:
        """Say whether the last epochs brought nothing better; λ must have had its time first."""
        settings = self.settings
        grown = settings.warmup_epochs + settings.rampup_epochs if settings.consistency_weight > 0 else 0
        return len(self.epochs) - max(self.best_epoch, grown) >= settings.patience

    def run_epoch(self, number: int) -> None:
        """Do epoch `number` (from 0)."""
        began = time.perf_counter()
        random = generator(self.settings.seed, "epoch", number)
        strength, train = self._strength(number), self.task.train
        agreeing = self._among(random) if strength else train[:0]
        scores, labels = self._disturbed(random, torch.cat([train, agreeing])), self.task.labels[train]
        losses = [supervised_loss(one[: len(train)], labels, self.class_weights) for one in scores]
        supervised = torch.stack(losses).mean()
        others = [one[len(train) :] for one in scores]
        if not strength:
            apart = torch.zeros(())
        elif self.settings.distilled:
            apart = self._untaught(others, agreeing)
        else:
            apart = self._disagreement(others)
        self.optimizer.zero_grad()
        (supervised + strength * apart).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        if not np.isfinite(float((supervised + apart).detach())):
            hint = Message(Message.of("try a tenth of {learning_rate}"), f" (now {self.settings.learning_rate:g})")
            raise InputError(f"training overflowed in epoch {number + 1}", parameter="learning_rate", hint=hint)
        accuracy, loss = self._validate()
        selecting = len(self.task.validation) > 0
        self.epochs.append(
            Epoch(
                number + 1,
                self.settings.max_epochs,
                self.stage,
                float(supervised.detach()),
                float(apart.detach()),
                accuracy if selecting else None,
                loss if selecting else None,
                time.perf_counter() - began,
            )
        )
        settings = self.settings
        grown = settings.consistency_weight == 0 or number >= min(
            settings.warmup_epochs + settings.rampup_epochs, settings.max_epochs - 1
        )
        if not selecting or (grown and (accuracy, -loss) > self._best_score):
            self.best, self.best_epoch = module_arrays(self.classifier, "classifier"), number + 1
            self._best_score = (accuracy, -loss)

    def _strength(self, number: int) -> float:
        """Return λ of an epoch."""
        settings = self.settings
        grown = (
            min(1.0, max(0, number - settings.warmup_epochs) / settings.rampup_epochs)
            if settings.rampup_epochs
            else 1.0
        )
        return settings.consistency_weight * grown if number >= settings.warmup_epochs else 0.0

    def _among(self, random: np.random.Generator) -> Tensor:
        """Return the nodes that have to agree in an epoch."""
        if len(self.consistency_nodes) <= self.settings.max_consistency_nodes:
            return self.consistency_nodes
        chosen = random.choice(
            len(self.consistency_nodes), self.settings.max_consistency_nodes, replace=False, shuffle=False
        )
        return self.consistency_nodes[torch.from_numpy(np.sort(chosen))]

    def _disturbed(self, random: np.random.Generator, nodes: Tensor) -> list[Tensor]:
        """Return the class scores of some nodes in each pass; the passes are pooled side by side."""
        settings, count, carried = self.settings, self.task.graph.num_nodes, []
        given = self.inputs if self.propagated_inputs is None else self.propagated_inputs[nodes]
        for _ in range(settings.n_augmentations):
            thin = drop_features(given, settings.drop_feature, random, self.n_jobs)
            whole, mask = self.classifier.project(thin), None
            if settings.drop_node:
                mask = kept((count, 1), settings.drop_node, random)
            carried.append(whole if mask is None else whole * mask)
        parts: Sequence[Tensor] = carried
        if self.propagated_inputs is None:
            propagated = propagate_to(self.propagation, torch.cat(carried, dim=1), nodes)
            parts = torch.split(propagated, carried[0].shape[1], dim=1)
        masks = [kept((len(nodes), one.shape[1]), settings.dropout, random) for one in parts]
        votes = not settings.distilled  # pupils speak for themselves
        return [self._scores(one, nodes, mask, votes) for one, mask in zip(parts, masks, strict=True)]

    def _brought(self, classifier: PathClassifier, nodes: Tensor) -> Tensor:
        """Return what paths bring to some nodes, undisturbed, as a reader projects it."""
        if self.propagated_inputs is None:
            return propagate_to(self.propagation, classifier.project(self.inputs), nodes)
        return classifier.project(self.propagated_inputs[nodes])

    def _scores(self, propagated: Tensor, nodes: Tensor, mask: Tensor | None = None, votes: bool = True) -> Tensor:
        found = self.classifier.scores(propagated + self.classifier.offset(), mask)
        return (
            found
            if self.label_scores is None or not votes
            else found + self.classifier.label_weight * self.label_scores[nodes]
        )

    def _untaught(self, scores: list[Tensor], nodes: Tensor) -> Tensor:
        """Return the mean cross-entropy of each pass's chances from the votes, where there are any."""
        if self.label_scores is None:
            return torch.zeros(())
        votes, several = self.label_scores[nodes], self.task.labels.ndim == 2
        heard = votes.any(dim=1).float()
        if several:
            aim = torch.sigmoid(votes)
            each = [functional.binary_cross_entropy_with_logits(one, aim, reduction="none").sum(1) for one in scores]
        else:
            aim = torch.softmax(votes, dim=1)
            each = [-(aim * torch.log_softmax(one, dim=1)).sum(1) for one in scores]
        return (torch.stack(each).mean(0) * heard).sum() / heard.sum().clamp(min=1)

    def _disagreement(self, scores: list[Tensor]) -> Tensor:
        """Return the mean squared distance of each pass's chances from their sharpened mean, where it is confident."""
        several = self.task.labels.ndim == 2
        probabilities = [torch.sigmoid(one) if several else torch.softmax(one, dim=1) for one in scores]
        mean = torch.stack(probabilities).mean(0).detach()
        aim = sharpened(mean, self.settings.sharpening, several)
        sure = torch.ones(len(mean)) if several else (mean.max(1).values > min(2 / mean.shape[1], _SURE)).float()
        apart = torch.stack([((one - aim) ** 2).sum(1) for one in probabilities]).mean(0)
        return (apart * sure).sum() / sure.sum().clamp(min=1)

    def best_classifier(self) -> PathClassifier:
        """Return a reader with the parameters of the best epoch."""
        found = deepcopy(self.classifier)
        load_module(found, "classifier", self.best)
        return found

    def best_scores(self, nodes: Tensor | None = None) -> Tensor:
        """Return the class scores of some nodes in the best epoch, undisturbed, `(k, c)`; None means all."""
        classifier, asked = self.best_classifier(), torch.arange(self.task.graph.num_nodes) if nodes is None else nodes
        with torch.no_grad():
            scores = classifier.scores(self._brought(classifier, asked) + classifier.offset())
            return scores if self.label_scores is None else scores + classifier.label_weight * self.label_scores[asked]

    def _validate(self) -> tuple[float, float]:
        nodes = self.task.validation
        if not len(nodes):
            return 0.0, 0.0
        with torch.no_grad():
            scores = self._scores(self._brought(self.classifier, nodes), nodes)
        labels = self.task.labels[nodes]
        return accuracy_or_f1(scores.numpy(), labels.numpy()), float(supervised_loss(scores, labels))

    # ------------------------------------------------------------------ stopping and going on

    def state(self) -> TrainerState:
        """Return everything that a later run needs to go on to the same bytes."""
        arrays = module_arrays(self.classifier, "now") | {f"best.{name}": array for name, array in self.best.items()}
        arrays |= optimizer_arrays(self.optimizer, "optimizer")
        facts = {
            "epochs": [asdict(one) for one in self.epochs],
            "best_score": [float(part) for part in self._best_score],
            "best_epoch": self.best_epoch,
        }
        return TrainerState(facts, arrays)

    def load(self, saved: TrainerState) -> None:
        """Take over what `state` returned."""
        try:
            load_module(self.classifier, "now", saved.arrays)
            load_optimizer(self.optimizer, "optimizer", saved.arrays)
            best = {name.removeprefix("best."): one for name, one in saved.arrays.items() if name.startswith("best.")}
            if set(best) != set(self.best):
                raise ValueError("the best epoch is missing")
            self.best, self.best_epoch = best, int(saved.metadata["best_epoch"])
            self.epochs = [Epoch(**one) for one in saved.metadata["epochs"]]
            self._best_score = (float(saved.metadata["best_score"][0]), float(saved.metadata["best_score"][1]))
        except (KeyError, TypeError, ValueError, RuntimeError) as wrong:
            raise InputError(f"the saved state does not belong to this training: {wrong}") from wrong


def kept(shape: tuple[int, int], share: float, random: np.random.Generator) -> Tensor | None:
    """Return factors that drop a share of the numbers and make the others larger; None where nothing is dropped."""
    if not share:
        return None
    return torch.from_numpy((random.random(shape, np.float32) >= share) / np.float32(1 - share))


def drop_features(
    inputs: NodeFeatures, share: float, random: np.random.Generator, n_jobs: int | None = 1
) -> NodeFeatures:
    """Return the payload with a share of its numbers set to zero and the others made larger."""
    if not share:
        return inputs
    if isinstance(inputs, SparseFeatures):
        self_loops = random.random(inputs.rows.nnz, np.float32) >= share
        return inputs.with_values(inputs.rows.data * self_loops / np.float32(1 - share))
    return thinned(inputs, share, random.integers(2**64, dtype=np.uint64), n_jobs)
