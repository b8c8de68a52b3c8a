"""Runs of a method on a data set, one for each seed: tasks that an engine runs anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cge.data.dataset import Dataset
from cge.data.link_split import hold_out_links
from cge.estimators.methods import make
from cge.evaluation.protocol import run_links, run_once, split_of


@dataclass(frozen=True, eq=False)
class EvaluationRun:
    """Train a method on the split of a seed and score it, with the data set that the task carries.

    `kind` is "nodes" or "links"; of links, only classifiers get labels.
    """

    data: Dataset
    method: str
    kind: str = "nodes"
    settings: Mapping[str, Any] = field(default_factory=dict)
    per_class: int = 20
    train_share: float | None = None
    strict: bool = False
    n_jobs: int | None = None

    def estimator(self, seed: int) -> Any:
        """Return the estimator of a seed."""
        return make(self.method, seed, self.n_jobs, self.kind, **self.settings)

    def __call__(self, seed: int) -> dict[str, Any]:
        """Return metrics, label counts, time and memory."""
        estimator, links = self.estimator(seed), self.kind == "links"
        if not links:
            return run_once(estimator, *split_of(self.data, seed, self.per_class, self.train_share), self.strict)
        link_split = hold_out_links(self.data.graph, seed=seed)
        if not hasattr(estimator, "predict_proba"):
            return run_links(estimator, link_split)
        covered, split = split_of(self.data, seed, self.per_class, self.train_share)
        validation = covered.labels_of(split.validation) if len(split.validation) else None
        return run_links(estimator, link_split, (covered.labels_of(split.train), validation))
