"""Algorithm 1: train vectors and head on weighted paths, and the weights on labels that the training did not see.

A round goes once over the collection of walks. In the first `pretrain` rounds labels do not touch the vectors: heads
learn to read the vectors, so that held-out training labels can judge the paths. Afterwards same-label pairs (and, if
asked for, the supervised loss) move the vectors. From then on the vectors know the training labels, so folds of them
can judge no more and the network rests; outer labels that the inner problem never sees go on training it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from cge.errors import InputError, Message, Param
from cge.losses import supervised_loss
from cge.metrics import accuracy_or_f1
from cge.sampling import Walker, subpaths
from cge.training.history import History, PaperEpoch
from cge.training.paper_inner import MIN_PATH_NODES, Inner
from cge.training.paper_outer import Outer
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

__all__ = ["Trainer", "TrainingResult", "train"]

Array = npt.NDArray[Any]

_BATCHES = 32  # batches of walks in a round
_FEWEST_WALKS = 256  # in a batch
_WATCHED = 4096  # paths whose loss the history shows
_PAIRS_PER_NODE = 4  # in a batch where one step is taken for the whole batch


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """What was learned: the parameters of the best round, the history, and the number of that round (from 1)."""

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
    """Run Algorithm 1; return the parameters of the round with the best validation accuracy, else of the last.

    Parameters
    ----------
    stop_after : int, optional
        Rounds to do, where they are known; the learning rate falls as if all rounds were done.
    saved : Saved, optional
        Go on from here.
    on_round : callable, optional
        Called after each round.
    on_state : callable, optional
        Called after each round with a function that returns the state.
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
    """A training: its parameters, what it remembers of the best round, and what happens in a round."""

    def __init__(self, task: Task, settings: TrainingSettings, stage: str = "train") -> None:
        self.task, self.settings, self.stage = task, settings, stage
        width = 0 if task.features is None else int(task.features.shape[1])
        sizes = (task.graph.num_nodes, width, task.classes, settings.dim, settings.hidden)
        self.parameters = Parameters(ModelShape(settings.setting, settings.weighting, *sizes), settings.seed)  # line 1
        self.inner = Inner(task, settings, self.parameters)
        self.walker = Walker(  # line 2
            task.graph,
            settings.walk_length,
            settings.walks_per_node,
            seed=settings.seed,
            n_jobs=settings.n_jobs,
            shuffle=True,
        )
        self.batch = max(_FEWEST_WALKS, -(-self.walker.num_walks // _BATCHES))
        if not self.inner.fused:
            pairs_per_walk = max(1, settings.walk_length * (settings.window - 1))
            self.batch = max(1, min(self.batch, _PAIRS_PER_NODE * task.graph.num_nodes // pairs_per_walk))
        self.outer: Outer | None = None
        if self.parameters.network is not None:
            self.outer = Outer(self.inner, self.parameters.network, self.walker, self.batch)
        self.epochs: list[PaperEpoch] = []
        self.best, self.best_score, self.best_epoch = self.parameters.arrays(), (-1.0, -np.inf), 0

    def run_epoch(self, number: int) -> None:
        """Do round `number` (from 0): line 4 of Algorithm 1 for all walks, then line 5."""
        began = time.perf_counter()
        free = number < self.settings.pretrain  # labels do not touch the vectors
        outer = None
        with np.errstate(over="ignore", invalid="ignore"):  # `_need_finite` says it better
            self._descend_paths(number, free)
            path_loss = self._path_loss()
            # A rate above 1 is the first suspect.
            large = [name for name in ("supervised_strength", "unsup_weight") if getattr(self.settings, name) > 1]
            self._need_finite(path_loss, [*large, "learning_rate"][0], number)
            supervised = self.inner.descend_labels(self.parameters.head, self.inner.head_optimizer, self.task.train)
            self._need_finite(supervised, "head_lr", number)
            if not free and self.settings.supervised_strength > 0:
                self.inner.pull(self.task.train)
            if self.outer is not None:
                if free or self.task.outer_only or self.settings.outer == "paper":
                    outer = self.outer.descend(number, free)
                self.outer.weigh()
        accuracy, loss = self._validate()
        mean, spread, effective = (None, None, None) if self.outer is None else self.outer.facts()
        self.epochs.append(
            PaperEpoch(
                number + 1,
                self.settings.total_epochs,
                "pretrain" if free and self.stage == "train" else self.stage,
                path_loss,
                supervised,
                accuracy if len(self.task.validation) else None,
                outer,
                mean,
                spread,
                effective,
                time.perf_counter() - began,
            )
        )
        if (accuracy, -loss) > self.best_score or not len(self.task.validation):
            self.best, self.best_score, self.best_epoch = self.parameters.arrays(), (accuracy, -loss), number + 1

    def out_of_patience(self) -> bool:
        """Say whether the last rounds brought nothing better."""
        return len(self.epochs) - self.best_epoch >= self.settings.patience

    def _descend_paths(self, number: int, free: bool) -> None:
        """Descend the weighted path loss over all walks, and from some round on that of same-label pairs."""
        walks_in_all, epochs = self.walker.num_walks, self.settings.total_epochs
        for place, walks in enumerate(self.walker.batches(self.batch)):
            first = place * self.batch
            done = (number + first / walks_in_all) / epochs, (number + (first + len(walks)) / walks_in_all) / epochs
            weights, base = (None, None) if self.outer is None else self.outer.weights_of(place, walks)
            self.inner.descend_paths(walks, first, done, number, weights, base, mixed=not free)

    def _validate(self) -> tuple[float, float]:
        """Return accuracy and loss on the validation labels."""
        nodes = self.task.validation
        if not len(nodes):
            return 0.0, 0.0
        scores = self.parameters.scores(self.task.features, nodes)
        labels = self.task.labels[nodes]
        return accuracy_or_f1(scores.numpy(), labels.numpy()), float(supervised_loss(scores, labels))

    def _path_loss(self) -> float:
        """Return the mean loss of a fixed sample of paths, every path alike."""
        walks = self.walker.sample(0, min(self.walker.num_walks, _WATCHED))
        paths = subpaths(walks, self.settings.window, shortest=MIN_PATH_NODES)
        every = max(1, len(paths) // _WATCHED)
        starts, ends = paths.start[::every], paths.end[::every]
        if not len(starts):
            return 0.0
        objective = self.inner.objective(starts, ends, ["watched"])
        sources = torch.from_numpy(self.parameters.sources)
        return float(objective.losses(sources, self.parameters.vectors(self.inner.ends.features)).double().mean())

    def _need_finite(self, value: float, cause: str, number: int) -> None:
        """Stop when numbers have overflowed, and name the setting that is the likely cause."""
        if not np.isfinite(value):
            now = self.settings.table_rate if cause == "learning_rate" else getattr(self.settings, cause)
            hint = Message("try a tenth of ", Param(cause), f" (now {now:g})")
            raise InputError(f"training overflowed in epoch {number + 1}", parameter=cause, hint=hint)

    # ------------------------------------------------------------------ stopping and going on

    def state(self) -> TrainerState:
        """Return everything that a later run needs to go on to the same bytes."""
        arrays = {f"now.{name}": array for name, array in self.parameters.arrays().items()}
        arrays |= {f"best.{name}": array for name, array in self.best.items()}
        for name, optimizer in self._optimizers().items():
            arrays |= optimizer_arrays(optimizer, name)
        for place, head in enumerate([] if self.outer is None else self.outer.heads):
            arrays |= module_arrays(head, f"fold.{place}")
        facts = {
            "epochs": [asdict(one) for one in self.epochs],
            "best_score": [float(part) for part in self.best_score],
            "best_round": self.best_epoch,
        }
        return TrainerState(facts, arrays)

    def load(self, saved: TrainerState) -> None:
        """Take over what `state` returned."""
        try:
            self._load(saved)
        except (KeyError, TypeError, ValueError, RuntimeError) as wrong:
            raise InputError(f"the saved state does not belong to this training: {wrong}") from wrong

    def _load(self, saved: TrainerState) -> None:
        parts: dict[str, dict[str, Array]] = {"now.": {}, "best.": {}}
        for name, array in saved.arrays.items():
            for begin, found in parts.items():
                if name.startswith(begin):
                    found[name.removeprefix(begin)] = array
        sources = self.parameters.sources
        self.parameters.load(parts["now."])
        sources[:] = self.parameters.sources  # an optimizer may hold on to this memory
        self.parameters.sources, self.best = sources, parts["best."]
        for place, head in enumerate([] if self.outer is None else self.outer.heads):
            load_module(head, f"fold.{place}", saved.arrays)
        for name, optimizer in self._optimizers().items():
            load_optimizer(optimizer, name, saved.arrays)
        self.epochs = [PaperEpoch(**one) for one in saved.metadata["epochs"]]
        self.best_score = tuple(saved.metadata["best_score"])
        self.best_epoch = int(saved.metadata["best_round"])
        if self.outer is not None:
            self.outer.weigh()

    def _optimizers(self) -> dict[str, torch.optim.Optimizer]:
        found = {"head_optimizer": self.inner.head_optimizer}
        found |= {f"{name}_optimizer": one for name, one in self.inner.optimizers.items()}
        if self.outer is not None:
            found["network_optimizer"] = self.outer.optimizer
            found |= {f"fold_optimizer_{k}": one for k, one in enumerate(self.outer.head_optimizers)}
        return found
