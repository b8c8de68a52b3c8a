"""Algorithm 1: train vectors and head on weighted paths, and the weights on labels that the training did not see.

An epoch is one pass over the collection of walks. In the first `pretrain` epochs only paths train the vectors: labels
train only the heads, and folds of the training labels, each unseen by its head, train the weighting network. Afterwards
same-label pairs (and the supervised loss, if `supervised_strength` is above 0) also train the vectors. From then on the
vectors depend on all training labels, so folds of these can no longer train the network; separate outer labels, which
the inner problem never sees, can.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from cge.arrays import Array
from cge.errors import InputError, Message, Param
from cge.losses import supervised_loss
from cge.metrics import accuracy_or_f1
from cge.sampling import Walker, subpaths
from cge.training.history import History, PaperEpoch
from cge.training.paper_inner import MIN_PATH_NODES, InnerTraining
from cge.training.paper_outer import PathWeightLearner
from cge.training.paper_parameters import ModelShape, Parameters
from cge.training.paper_settings import TrainingSettings
from cge.training.task import Task
from cge.training.torch_state import (
    TrainerState,
    load_module,
    load_optimizer,
    module_arrays,
    one_thread,
    optimizer_arrays,
)

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
    callback: Callable[[PaperEpoch], None] | None = None,
    on_state: Callable[[Callable[[], TrainerState]], None] | None = None,
) -> TrainingResult:
    """Run Algorithm 1; return the parameters of the epoch with the best validation accuracy, else of the last one.

    Parameters
    ----------
    stop_after : int, optional
        Number of epochs, if it is fixed; the learning rate still decays over the maximum.
    saved : TrainerState, optional
        State to continue from.
    callback : callable, optional
        Called after each epoch.
    on_state : callable, optional
        Called after each epoch with a function that returns the state.
    """
    with one_thread():
        trainer = Trainer(task, settings, "train" if stop_after is None else "refit")
        if saved is not None:
            trainer.load(saved)
        last = settings.total_epochs if stop_after is None else stop_after
        while len(trainer.epochs) < last and not trainer.out_of_patience():  # Algorithm 1, line 3
            trainer.run_epoch(len(trainer.epochs))
            if on_state is not None:
                on_state(trainer.state)
            if callback is not None:
                callback(trainer.epochs[-1])
        trainer.parameters.load(trainer.best)
    return TrainingResult(trainer.parameters, History(trainer.epochs), trainer.best_epoch)


class Trainer:
    """The parameters of a training, those of its best epoch so far, and the steps of an epoch."""

    def __init__(self, task: Task, settings: TrainingSettings, stage: str = "train") -> None:
        self.task, self.settings, self.stage = task, settings, stage
        width = 0 if task.features is None else int(task.features.shape[1])
        sizes = (task.graph.num_nodes, width, task.classes, settings.dim, settings.hidden)
        self.parameters = Parameters(ModelShape(settings.setting, settings.weighting, *sizes), settings.seed)  # line 1
        self.inner = InnerTraining(task, settings, self.parameters)
        self.walker = Walker(  # line 2
            task.graph,
            settings.walk_length,
            settings.walks_per_node,
            seed=settings.seed,
            n_jobs=settings.n_jobs,
            shuffle=True,
        )
        self.batch_size = max(_MIN_BATCH, -(-self.walker.num_walks // _BATCHES))
        if not self.inner.uses_kernel:
            pairs_per_walk = max(1, settings.walk_length * (settings.window - 1))
            self.batch_size = max(1, min(self.batch_size, _PAIRS_PER_NODE * task.graph.num_nodes // pairs_per_walk))
        self.weight_learner: PathWeightLearner | None = None
        if self.parameters.network is not None:
            self.weight_learner = PathWeightLearner(self.inner, self.parameters.network, self.walker, self.batch_size)
        self.epochs: list[PaperEpoch] = []
        self.best, self.best_score, self.best_epoch = self.parameters.arrays(), (-np.inf, -np.inf), 0

    def run_epoch(self, number: int) -> None:
        """Run epoch `number` (from 0): line 4 of Algorithm 1 for all walks, then line 5."""
        start = time.perf_counter()
        pretraining = number < self.settings.pretrain  # labels do not train the vectors
        outer_loss = None
        with np.errstate(over="ignore", invalid="ignore"):  # `_check_finite` raises a better message
            self._train_paths(number, pretraining)
            path_loss = self._path_loss()
            # A rate above 1 is the likely cause.
            large = [name for name in ("supervised_strength", "unsup_weight") if getattr(self.settings, name) > 1]
            self._check_finite(path_loss, [*large, "learning_rate"][0], number)
            supervised = self.inner.train_head(self.parameters.head, self.inner.head_optimizer, self.task.train)
            self._check_finite(supervised, "head_lr", number)
            if not pretraining and self.settings.supervised_strength > 0:
                self.inner.train_vectors_on_labels(self.task.train)
            if self.weight_learner is not None:
                if pretraining or self.task.outer_only or self.settings.outer == "paper":
                    outer_loss = self.weight_learner.train(number, pretraining)
                self.weight_learner.update_weights()
        accuracy, loss = self._validate()
        learner = self.weight_learner
        mean, std, effective = (None, None, None) if learner is None else learner.weight_statistics()
        self.epochs.append(
            PaperEpoch(
                number + 1,
                self.settings.total_epochs,
                "pretrain" if pretraining and self.stage == "train" else self.stage,
                path_loss,
                supervised,
                accuracy if len(self.task.validation) else None,
                outer_loss,
                mean,
                std,
                effective,
                time.perf_counter() - start,
            )
        )
        if (accuracy, -loss) > self.best_score or not len(self.task.validation):
            self.best, self.best_score, self.best_epoch = self.parameters.arrays(), (accuracy, -loss), number + 1

    def out_of_patience(self) -> bool:
        """Return whether the last `patience` epochs were not better than the best one."""
        return len(self.epochs) - self.best_epoch >= self.settings.patience

    def _train_paths(self, number: int, pretraining: bool) -> None:
        """Descend the weighted path loss over all walks and, after pretraining, that of same-label pairs."""
        num_walks, epochs = self.walker.num_walks, self.settings.total_epochs
        for batch, walks in enumerate(self.walker.batches(self.batch_size)):
            first = batch * self.batch_size
            progress = (number + first / num_walks) / epochs, (number + (first + len(walks)) / num_walks) / epochs
            learner = self.weight_learner
            weights, base = (None, None) if learner is None else learner.batch_weights(batch, walks)
            self.inner.train_paths(walks, first, progress, number, weights, base, with_label_pairs=not pretraining)

    def _validate(self) -> tuple[float, float]:
        """Return accuracy and loss on the validation labels."""
        nodes = self.task.validation
        if not len(nodes):
            return 0.0, 0.0
        scores = self.parameters.scores(self.task.features, nodes)
        labels = self.task.labels[nodes]
        return accuracy_or_f1(scores.numpy(), labels.numpy()), float(supervised_loss(scores, labels))

    def _path_loss(self) -> float:
        """Return the mean loss of a fixed sample of paths, all with weight 1."""
        walks = self.walker.sample(0, min(self.walker.num_walks, _MONITORED_PATHS))
        paths = subpaths(walks, self.settings.window, shortest=MIN_PATH_NODES)
        every = max(1, len(paths) // _MONITORED_PATHS)
        starts, ends = paths.start[::every], paths.end[::every]
        if not len(starts):
            return 0.0
        objective = self.inner.objective(starts, ends, ["watched"])
        sources = torch.from_numpy(self.parameters.sources)
        return float(
            objective.losses(sources, self.parameters.vectors(self.inner.target_rows.features)).double().mean()
        )

    def _check_finite(self, value: float, cause: str, number: int) -> None:
        """Raise an error if training has overflowed; `cause` is the likely parameter."""
        if not np.isfinite(value):
            now = self.settings.table_rate if cause == "learning_rate" else getattr(self.settings, cause)
            hint = Message("try a tenth of ", Param(cause), f" (now {now:g})")
            raise InputError(f"training overflowed in epoch {number + 1}", parameter=cause, hint=hint)

    # ------------------------------------------------------------------ state

    def state(self) -> TrainerState:
        """Return everything that a later run needs to continue to the same bytes."""
        arrays = {f"now.{name}": array for name, array in self.parameters.arrays().items()}
        arrays |= {f"best.{name}": array for name, array in self.best.items()}
        for name, optimizer in self._optimizers().items():
            arrays |= optimizer_arrays(optimizer, name)
        for fold, head in enumerate(self._fold_heads()):
            arrays |= module_arrays(head, f"fold.{fold}")
        arrays["best_score"] = np.array(self.best_score, np.float64)
        metadata = {
            "epochs": [asdict(epoch) for epoch in self.epochs],
            "best_epoch": self.best_epoch,
        }
        return TrainerState(metadata, arrays)

    def load(self, saved: TrainerState) -> None:
        """Restore what `state` returned."""
        try:
            self._load(saved)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"the saved state does not belong to this training: {error}") from error

    def _load(self, saved: TrainerState) -> None:
        def arrays_below(prefix: str) -> dict[str, Array]:
            arrays = saved.arrays.items()
            return {name.removeprefix(prefix): array for name, array in arrays if name.startswith(prefix)}

        sources = self.parameters.sources
        self.parameters.load(arrays_below("now."))
        sources[:] = self.parameters.sources  # an optimizer may refer to this memory
        self.parameters.sources, self.best = sources, arrays_below("best.")
        for fold, head in enumerate(self._fold_heads()):
            load_module(head, f"fold.{fold}", saved.arrays)
        for name, optimizer in self._optimizers().items():
            load_optimizer(optimizer, name, saved.arrays)
        self.epochs = [PaperEpoch(**row) for row in saved.metadata["epochs"]]
        self.best_score = tuple(saved.arrays["best_score"].tolist())
        self.best_epoch = int(saved.metadata["best_epoch"])
        if self.weight_learner is not None:
            self.weight_learner.update_weights()

    def _fold_heads(self) -> list[Any]:
        return [] if self.weight_learner is None else self.weight_learner.heads

    def _optimizers(self) -> dict[str, torch.optim.Optimizer]:
        optimizers = {"head_optimizer": self.inner.head_optimizer}
        optimizers |= {f"{name}_optimizer": optimizer for name, optimizer in self.inner.optimizers.items()}
        if self.weight_learner is not None:
            optimizers["network_optimizer"] = self.weight_learner.optimizer
            fold_optimizers = enumerate(self.weight_learner.head_optimizers)
            optimizers |= {f"fold_optimizer_{fold}": optimizer for fold, optimizer in fold_optimizers}
        return optimizers
