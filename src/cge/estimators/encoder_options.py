"""What a fit of the path encoder follows from: settings that depend on graph and classes, and folds of labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from cge.arrays import Array
from cge.errors import InputError, Message
from cge.estimators.classifier import LabelSplit, TaskLabels, folds_of
from cge.estimators.configs import OuterConfig, TrainingConfig, as_config
from cge.graph import Graph
from cge.models.weightings import is_learned
from cge.training.encoder_settings import EncoderSettings, OuterSettings

_DIM, _DIM_MANY_CLASSES = 32, 64  # default size of vectors, with up to 32 classes and with more


def resolve_inputs(inputs: str, graph: Graph) -> str:
    """Return the node inputs to use: "features", "learned" (an embedding of each node) or "walks"."""
    automatic = "walks" if graph.features is None else "features"
    return automatic if inputs == "auto" else inputs


def encoder_settings(model: Any, classes: int) -> EncoderSettings:
    """Return the settings of the path encoder of a `CGE`, with those that depend on the number of classes."""
    training, outer = as_config(TrainingConfig, model.training), as_config(OuterConfig, model.outer_problem)
    dim = (_DIM_MANY_CLASSES if classes > _DIM else _DIM) if model.dim is None else model.dim
    names = ("weighting", "classifier", "label_propagation", "hops", "walks_per_node")
    options: dict[str, Any] = {name: getattr(model, name) for name in names} | asdict(training)
    steps: Any = {"steps": outer.outer_steps, "warmup_steps": outer.warmup_steps}
    outer_settings = OuterSettings(**steps, weighting_lr=outer.weighting_lr, penalty=outer.init_penalty)
    return EncoderSettings(dim=dim, seed=model.random_state, outer_settings=outer_settings, **options)


def outer_folds(model: Any, labels: TaskLabels, split: LabelSplit) -> Sequence[Array]:
    """Return folds of the training labels, on which weightings are learned (the outer problem).

    There are none with fewer than four training labels, and none under cross-validation unless the settings name a
    learned weighting: otherwise labels that are validated learn nothing.
    """
    learned = is_learned(model.weighting)
    if len(split.train) > 3 and (learned or not split.folds):
        n_folds = as_config(OuterConfig, model.outer_problem).n_folds
        return folds_of(labels.strata, split.train, n_folds, model.random_state)
    if learned:
        problem = f"learned weightings need at least four training labels, found {len(split.train)}"
        raise InputError(problem, parameter="weighting", hint=Message.of("use {weighting}", weighting="auto"))
    return []
