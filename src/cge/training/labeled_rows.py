"""Model search on labeled nodes alone: their propagated inputs are rows that were computed before.

A classifier that is trained on labeled nodes, with a closed-form weighting, reads only their rows of Σ_k h_k M_b^k X.
With the rows of M_b^k X for every exponent b and number of hops k, all such candidates are linear combinations. What
needs other nodes is left out: consistency losses, label propagation, and learned or feature-dependent weightings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from cge.arrays import Array
from cge.graph import Graph
from cge.models.edge_weighting import EdgeScale, EdgeWeighting
from cge.models.weightings import WEIGHTINGS, closed_form
from cge.training.candidate_evaluation import CandidateEvaluator
from cge.training.candidates import SELECTED, Candidate
from cge.training.classifier_registry import CLASSIFIERS, ClassifierSpec
from cge.training.cross_fitting import CrossFitEvaluator
from cge.training.data_size import DataSize, labeled_size
from cge.training.encoder_data import EncoderData
from cge.training.encoder_settings import EncoderSettings
from cge.training.model_search import ModelSearch
from cge.training.named_weighting import NamedWeighting
from cge.training.slab_columns import HopRows

NO_EDGE_INPUTS = EdgeScale((), np.empty(0), np.empty(0), np.empty(0))


def reads_labeled_rows(classifier: str) -> bool:
    """Return whether a classifier is trained on labeled nodes alone."""
    settings = CLASSIFIERS[classifier].settings
    return not (settings.drop_node or settings.consistency_weight or settings.distilled)


def is_walk_weighting(name: str) -> bool:
    """Return whether a weighting is a closed form that depends on edges and degrees alone."""
    spec = WEIGHTINGS.get(name)
    return spec is not None and spec.closed_form is not None and not (spec.needs_features or spec.by_relation)


def hop_rows(weighting: str, hops: int) -> HopRows:
    """Return the exponents, and their largest numbers of hops, of a weighting or, with "auto", of all candidates."""
    names = [name for name in WEIGHTINGS if is_walk_weighting(name)] if weighting == "auto" else [weighting]
    last: dict[float, int] = {}
    for name in names:
        if WEIGHTINGS[name].min_hops <= hops:
            module = closed_form(name, (), hops)
            b = module.normalization.item()
            last[b] = max(last.get(b, 0), len(module.used_hop_weights()) - 1)
    return HopRows(tuple(sorted(last.items())))


class LabeledData(EncoderData):
    """Labeled nodes as a graph without edges; `rows_of_hop(b, k)` returns their rows of M_b^k X, `(k, f)`."""

    def __init__(
        self,
        graph: Graph,
        rows_of_hop: Callable[[float, int], Array],
        scale: tuple[Array, Array],
        loop_weight: float,
        n_jobs: int | None,
    ) -> None:
        how: Any = {"edge_scale": NO_EDGE_INPUTS, "dense_scale": scale, "components": None}
        super().__init__(graph, "features", n_jobs, **how)
        self.self_loop_weight = loop_weight
        self._rows_of_hop = rows_of_hop

    @cached_property
    def dense_rows(self) -> Array:
        """The inputs of the labeled nodes, `(k, f)`."""
        return np.array(self.graph.features)

    @cached_property
    def size(self) -> DataSize:
        """The number of labeled nodes and of their features."""
        return labeled_size(len(self.graph), self.input_dim)

    def propagated(self, weighting: NamedWeighting) -> Tensor:
        """Return the propagated inputs of the labeled nodes, `(k, f)`."""
        module: Any = weighting.module
        b, total = module.normalization.item(), np.zeros((len(self.graph), self.input_dim), np.float32)
        for hop, weight in enumerate(EdgeWeighting.used_hop_weights(module)):
            if weight:
                total += np.float32(weight) * self._rows_of_hop(b, hop)
        return torch.from_numpy(total)


class LabeledEvaluator(CandidateEvaluator):
    """Trains candidates on the rows of `LabeledData`."""

    data: LabeledData

    def _propagate_inputs(self, weighting: NamedWeighting, spec: ClassifierSpec) -> Tensor:  # noqa: ARG002 - dense
        if weighting.name not in self._propagated_inputs:
            self._propagated_inputs[weighting.name] = self.data.propagated(weighting)
        return self._propagated_inputs[weighting.name]

    def _rows(self, weighting: NamedWeighting, spec: ClassifierSpec) -> Tensor:
        rows = self._propagate_inputs(weighting, spec)[torch.cat([self.task.train, self.task.validation])]
        return functional.normalize(rows, dim=1) if spec.unit_rows else rows


class LabeledCrossFitEvaluator(CrossFitEvaluator):
    """Trains candidates on the rows of `LabeledData`, on all folds."""

    fold_evaluator = LabeledEvaluator


def labeled_settings(settings: EncoderSettings) -> EncoderSettings:
    """Return the settings of a fit on labeled rows: without label propagation."""
    return replace(settings, label_propagation=False)


def labeled_candidates(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates that read only rows of labeled nodes."""
    return [
        candidate
        for candidate in candidates
        if (candidate.classifier == SELECTED or reads_labeled_rows(candidate.classifier))
        and (candidate.weighting == SELECTED or is_walk_weighting(candidate.weighting))
    ]


class LabeledSearch(ModelSearch):
    """Compares only candidates that read rows of labeled nodes."""

    def __init__(self, evaluator: CandidateEvaluator) -> None:
        super().__init__(evaluator)
        self.candidates = labeled_candidates(self.candidates)
