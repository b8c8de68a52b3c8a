"""The settings of the path encoder: those of a `CGE`, with what depends on the graph and the number of classes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from cge.estimators.configs import OuterConfig, TrainingConfig, as_config
from cge.graph import Graph
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
