"""Algorithm 1: train vectors and head on weighted paths, and the weights on labels that the training did not see.

An epoch is one pass over the collection of walks. An iteration of the algorithm is a batch of them: the vectors take
the path steps of the batch and a supervised step, the head and the weighting network take theirs. In the first
`pretrain` epochs labels do not move the vectors: they train the heads, and folds of them, each unseen by its head,
train the weighting network. Afterwards the vectors depend on all training labels, so these can no longer show whether
a path helps to predict unseen nodes. Therefore each fold then has its own copy of the vectors, trained in the same way
on the labels of the other folds, and the network continues to learn from labels that its inner problem has never seen.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from cge.arrays import Array
from cge.sampling import Walker, subpaths
from cge.targets import Task
from cge.training.history import History, PaperEpoch
from cge.training.paper_inner import MIN_PATH_NODES, InnerTraining, WalkBatch
from cge.training.paper_outer import PathWeightLearner
from cge.training.paper_parameters import ModelShape, Parameters, TrainingSettings
from cge.training.stored_state import TrainerState
from cge.training.torch_state import Callback, EpochTrainer, StateCallback, check_finite, one_thread

_BATCHES = 32  # batches of walks in an epoch
_MIN_BATCH = 256  # walks
_MONITORED_PATHS = 4096  # paths of which the history has the loss
_PAIRS_PER_NODE = 4  # in a batch, if an optimizer takes one step per batch


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """The parameters of the best epoch, the history, and the number of the best epoch (from 1)."""

    parameters: Parameters
    history: History
    best_epoch: int


def train(
    task: Task,
    settings: TrainingSettings,
    *,
    stop_after: int | None = None,
    saved: TrainerState | None = None,
    callback: Callback = None,
    on_state: StateCallback = None,
) -> TrainingResult:
    """Run Algorithm 1; return the parameters of the epoch with the best validation accuracy, else of the last one.

    `stop_after` fixes the number of epochs; the learning rate still decays over the maximum. `saved` is a state to
    continue from. After each epoch `callback` is called with it and `on_state` with a function that returns the state.
    """
    with one_thread():
        trainer = Trainer(task, settings, "train" if stop_after is None else "refit")
        if saved is not None:
            trainer.load(saved)
        trainer.run(stop_after, callback, on_state)  # Algorithm 1, line 3
        trainer.parameters.load(trainer.best)
    return TrainingResult(trainer.parameters, History(trainer.epochs), trainer.best_epoch)


class Trainer(EpochTrainer):
    """The parameters of a training, those of its best epoch so far, and the steps of an epoch."""

    def __init__(self, task: Task, settings: TrainingSettings, stage: str = "train") -> None:
        self.task, self.settings, self.stage = task, settings, stage
        width = 0 if task.features is None else int(task.features.shape[1])
        sizes = (task.graph.num_nodes, width, task.classes, settings.dim, settings.hidden)
        self.parameters = Parameters(ModelShape(settings.setting, settings.weighting, *sizes), settings.seed)  # line 1
        self.inner = InnerTraining(task, settings, self.parameters)
        walks, seed, n_jobs = (settings.walk_length, settings.walks_per_node), settings.seed, settings.n_jobs
        self.walker = Walker(task.graph, *walks, seed=seed, n_jobs=n_jobs, shuffle=True)  # line 2
        self.batch_size = max(_MIN_BATCH, -(-self.walker.num_walks // _BATCHES))
        if not self.inner.uses_kernel:
            pairs_per_walk = max(1, settings.walk_length * (settings.window - 1))
            self.batch_size = max(1, min(self.batch_size, _PAIRS_PER_NODE * task.graph.num_nodes // pairs_per_walk))
        self.batches = -(-self.walker.num_walks // self.batch_size)
        self.weight_learner: PathWeightLearner | None = None
        if self.parameters.network is not None:
            self.weight_learner = PathWeightLearner(self.inner, self.parameters.network, self.walker, self.batch_size)
        super().__init__(PaperEpoch, self.parameters.arrays(), settings.total_epochs)

    def run_epoch(self, number: int) -> None:
        """Run epoch `number` (from 0): lines 4 and 5 of Algorithm 1 for each batch of walks."""
        start = time.perf_counter()
        pretraining = number < self.settings.pretrain  # labels do not train the vectors
        if not pretraining and self.weight_learner is not None:
            self.weight_learner.separate()
        with np.errstate(over="ignore", invalid="ignore"):  # `_check_finite` raises a better message
            supervised, outer_loss = self._run_batches(number, pretraining)
            path_loss = self._path_loss()
            # A rate above 1 is the likely cause.
            large = [name for name in ("supervised_strength", "unsup_weight") if getattr(self.settings, name) > 1]
            self._check_finite(path_loss, [*large, "learning_rate"][0], number)
            self._check_finite(supervised, "head_lr", number)
            if self.weight_learner is not None:
                self.weight_learner.update_weights()
        accuracy, loss = self._validate()
        validated, learner = len(self.task.validation) > 0, self.weight_learner
        stage = "pretrain" if pretraining and self.stage == "train" else self.stage
        values: list[Any] = [number + 1, self.max_epochs, stage, path_loss, supervised]
        values += [accuracy if validated else None, outer_loss]
        values += [None, None, None] if learner is None else learner.weight_statistics()
        values.append(time.perf_counter() - start)
        self.epochs.append(PaperEpoch(*values))
        if (accuracy, -loss) > self.best_score or not validated:
            self.best, self.best_score, self.best_epoch = self.parameters.arrays(), (accuracy, -loss), number + 1

    def out_of_patience(self) -> bool:
        """Return whether the last `patience` epochs were not better than the best one."""
        return len(self.epochs) - self.best_epoch >= self.settings.patience

    def _run_batches(self, number: int, pretraining: bool) -> tuple[float, float | None]:
        """Run an iteration of Algorithm 1 for each batch of walks; return the supervised loss and the outer loss."""
        learner, settings = self.weight_learner, self.settings
        supervised, outer_losses = 0.0, []
        models = [self.inner] if learner is None else [self.inner, *learner.fold_models]
        for batch, walks in enumerate(self.walker.batches(self.batch_size)):
            steps = self._share(settings.head_steps, batch)
            for model in models:  # line 4
                if model is self.inner or (learner is not None and learner.separated):
                    self._train_paths(model, number, batch, walks, not pretraining)
                loss = model.train_head(steps) if steps else 0.0
                supervised = loss if steps and model is self.inner else supervised
            if learner is not None:  # line 5
                outer_steps = self.batches if settings.outer_steps is None else settings.outer_steps
                first = number * outer_steps + outer_steps * batch // self.batches
                last = first + self._share(outer_steps, batch)
                outer_losses += [learner.step(step, pretraining) for step in range(first, last)]
        return supervised, float(np.mean(outer_losses)) if outer_losses else None

    def _share(self, steps: int, batch: int) -> int:
        """Return how many of the steps of an epoch follow this batch, so that they are spread evenly."""
        return steps * (batch + 1) // self.batches - steps * batch // self.batches

    def _train_paths(self, model: InnerTraining, number: int, batch: int, walks: Array, with_labels: bool) -> None:
        """Descend the weighted path loss of a batch and, after pretraining, that of labels."""
        num_walks, epochs, first = self.walker.num_walks, self.settings.total_epochs, batch * self.batch_size
        progress = (number + first / num_walks) / epochs, (number + (first + len(walks)) / num_walks) / epochs
        learner = self.weight_learner
        weights, base = (None, None) if learner is None else learner.batch_weights(model, batch, walks)
        model.train_paths(WalkBatch(walks, first, progress, number, weights, base, with_labels))

    def _validate(self) -> tuple[float, float]:
        """Return accuracy and loss on the validation labels."""
        nodes = self.task.validation
        if not len(nodes):
            return 0.0, 0.0
        scores = self.parameters.scores(self.task.features, nodes)
        labels, target = self.task.labels[nodes], self.task.target
        return target.score(scores.numpy(), labels.numpy()), float(target.loss(scores, labels))

    def _path_loss(self) -> float:
        """Return the mean loss of a fixed sample of paths, all with weight 1."""
        walks = self.walker.sample(0, min(self.walker.num_walks, _MONITORED_PATHS))
        paths = subpaths(walks, self.settings.window, shortest=MIN_PATH_NODES)
        every = max(1, len(paths) // _MONITORED_PATHS)
        starts, endpoints = paths.start[::every], paths.endpoint[::every]
        if not len(starts):
            return 0.0
        objective = self.inner.objective(starts, endpoints, ["watched"])
        sources = torch.from_numpy(self.parameters.sources)
        targets = self.parameters.vectors(self.inner.target_rows.features)
        return float(objective.losses(sources, targets).double().mean())

    def _check_finite(self, value: float, cause: str, number: int) -> None:
        """Raise an error if training has overflowed; `cause` is the likely parameter."""
        rates = {"learning_rate": self.settings.table_rate, "head_lr": self.settings.head_rate}
        now = rates[cause] if cause in rates else getattr(self.settings, cause)
        check_finite(value, f"training overflowed in epoch {number + 1}", cause, now)

    def load(self, saved: TrainerState) -> None:
        """Restore what `state` returned."""
        if self.weight_learner is not None and len(saved.metadata.get("epochs", [])) > self.settings.pretrain:
            self.weight_learner.separate()
        super().load(saved)
        if self.weight_learner is not None:
            self.weight_learner.update_weights()

    def _parts(self) -> dict[str, Any]:
        parts: dict[str, Any] = {"now": self.parameters}
        parts |= {f"{name}_optimizer": optimizer for name, optimizer in self.inner.optimizers.items()}
        learner = self.weight_learner
        if learner is not None:
            parts["network_optimizer"] = learner.optimizer
            for number, fold in enumerate(learner.fold_models):
                own = {"": fold.parameters} if learner.separated else {".head": fold.parameters.head}
                parts |= {f"fold.{number}{name}": part for name, part in own.items()}
                parts |= {f"fold_{number}_{name}": optimizer for name, optimizer in fold.optimizers.items()}
        return parts
