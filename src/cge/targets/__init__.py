"""Kinds of targets: one class per node, several, or a number (`TARGETS`), and the task of predicting one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cge.arrays import Array
from cge.errors import InputError
from cge.graph import Graph
from cge.targets.classification import MultiLabel, SingleLabel
from cge.targets.label_encoding import encode_labels
from cge.targets.regression import Regression
from cge.targets.target import Target
from cge.targets.texts import TargetTexts

if TYPE_CHECKING:
    from torch import Tensor

    from cge.models.autograd import NodeFeatures

__all__ = [
    "MultiLabel",
    "Regression",
    "SingleLabel",
    "Target",
    "TargetTexts",
    "Task",
    "class_target",
    "encode_target",
    "register_target",
    "restore_target",
]

TARGETS: dict[str, type[Target]] = {target.kind: target for target in (SingleLabel, MultiLabel, Regression)}
# What `CGE(task=...)` accepts: the kind of a target, or "classification", where the form of the labels says which.
TASKS = {"classification": "of nodes, single-label or multilabel", Regression.kind: "a number for each node"}


def register_target(target: type[Target], description: str) -> None:
    """Add a kind of target to the tables, so that `CGE(task=kind)` accepts it and `cge.load` restores it."""
    if target.kind in TASKS or target.kind in TARGETS:
        raise InputError(f"there is already a kind of target {target.kind!r}; choose another name")
    TARGETS[target.kind], TASKS[target.kind] = target, description


def encode_target(graph: Graph, y: Any, name: str, task: str = "classification") -> tuple[Array, Target]:
    """Return labels as users write them as an array for all nodes, and the target they are of."""
    if task != "classification":
        return TARGETS[task].from_labels(graph, y, name)
    codes, classes = encode_labels(graph, y, name)
    return codes, class_target(codes, classes)


def class_target(codes: Array, classes: Array) -> Target:
    """Return the target of class numbers `(n,)`, or of zeros and ones `(n, c)`."""
    return MultiLabel(classes) if codes.ndim == 2 else SingleLabel(classes)


def restore_target(metadata: dict[str, Any], classes: Array) -> Target:
    """Return the target that a model folder stores."""
    return TARGETS[str(metadata["kind"])].restored(metadata, classes)


@dataclass(frozen=True, eq=False)
class Task:
    """A graph with the labels of all nodes, and the numbers of training, validation and outer nodes.

    With `outer_only` the `folds` are used in the outer problem only, otherwise they are folds of the training nodes.
    """

    graph: Graph
    features: NodeFeatures | None
    labels: Tensor
    target: Target
    train: Tensor
    validation: Tensor
    folds: Sequence[Tensor] = ()
    outer_only: bool = False

    @property
    def classes(self) -> int:
        """The number of outputs."""
        return len(self.target.classes)
