"""Weightings by name: fixed ones, and those that are learned on held-out folds of the training labels."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

from cge.models.edge_weighting import EdgePropagation
from cge.models.metapath_weighting import MetapathWeighting, list_metapaths
from cge.models.path_networks import PathWeighting
from cge.models.weightings import WEIGHTINGS, closed_form, make_network
from cge.training.candidate_evaluation import CandidateEvaluator
from cge.training.learned_weighting import OuterProblem, OuterResult
from cge.training.metapath_learning import learn_metapath_weights
from cge.training.named_weighting import NamedWeighting
from cge.training.torch_state import seeded

_NETWORK_NODES = 200  # labeled nodes whose paths a network weights per outer step


def fixed_weighting(evaluator: CandidateEvaluator, name: str) -> NamedWeighting:
    """Return a weighting in which nothing is learned."""
    equal, hops, data = WEIGHTINGS[name].equal_metapaths, evaluator.settings.hops, evaluator.data
    if equal is None:
        return NamedWeighting(name, closed_form(name, data.edge_scale.names, hops))
    edges, b = equal
    metapaths = list_metapaths(data.edge_inputs, evaluator.task.train.numpy(), hops if edges is None else edges)
    module = MetapathWeighting(metapaths, [1 / len(metapaths)] * len(metapaths), b)
    edge_weighting = fixed_weighting(evaluator, "degree" if b else "uniform")
    return NamedWeighting(name, module, initial_weighting=edge_weighting)


def learn_weighting(
    evaluator: CandidateEvaluator,
    weighting: str | Callable[[int], PathWeighting],
    initial_weighting: NamedWeighting,
    name: str,
) -> tuple[NamedWeighting, OuterResult]:
    """Return edge weights, weights of metapaths or a path network, and how the outer problem ended.

    A network samples paths by the `initial_weighting`. `name` is that of a weighting passed as a callable.
    """
    spec = WEIGHTINGS.get(weighting) if isinstance(weighting, str) else None
    if spec is not None and spec.metapaths:
        return _learn_metapaths(evaluator, spec.name, initial_weighting)
    data, task, seed = evaluator.data, evaluator.task, evaluator.settings.seed
    settings = replace(evaluator.work.outer_settings(len(task.folds)), n_jobs=data.n_jobs)
    if spec is not None and spec.network is None:
        learned = NamedWeighting(spec.name, deepcopy(initial_weighting.module))
        learned.edge_weighting.by_relation = spec.by_relation
        edges = (data.transitions, data.edge_inputs, learned.edge_weighting)
        propagation: Any = EdgePropagation(*edges, train_hops=spec.train_hops)
    else:
        with seeded(seed, "network"):
            network: Any = make_network(weighting, int(data.step_vectors(seed).shape[1]))
        network.init_uniform()
        sampled = (evaluator.settings.walks_per_node, seed)
        learned = NamedWeighting(name if spec is None else spec.name, network, sampled, initial_weighting)
        propagation = learned.trainable(data, task.train.numpy())
        settings = replace(settings, nodes=_NETWORK_NODES)
    inputs = data.tensor_inputs("l2")
    outcome = OuterProblem(task, inputs, propagation, settings, evaluator.class_weights).run()
    if isinstance(learned.module, PathWeighting):
        learned.module.eval()
    return learned, outcome


def _learn_metapaths(
    evaluator: CandidateEvaluator, name: str, initial_weighting: NamedWeighting
) -> tuple[NamedWeighting, OuterResult]:
    """Learn weights of metapaths, from those of `initial_weighting`, which are equal."""
    data, module = evaluator.data, deepcopy(initial_weighting.module)
    arguments: Any = (data.edge_inputs, data.inputs("l2"), module, evaluator.settings.seed, evaluator.class_weights)
    outcome = learn_metapath_weights(evaluator.task, *arguments)
    return replace(initial_weighting, name=name, module=module), outcome
