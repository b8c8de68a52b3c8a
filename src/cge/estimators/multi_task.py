"""Several tasks on one graph: a model for each, and how well the vectors of each serve every task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.errors import InputError, format_list
from cge.estimators.baselines import classify_vectors
from cge.estimators.cge import CGE
from cge.estimators.classifier import TaskLabels, as_graph
from cge.estimators.path_estimator import checked_labels
from cge.graph import Graph


@dataclass(frozen=True, eq=False)
class MultiTask:
    """Models of several tasks on one graph, by the name of the task, and the labels they were trained on."""

    models: dict[str, CGE]
    labels: dict[str, TaskLabels]

    def score_vectors(self, test: Mapping[str, Any]) -> dict[str, dict[str, float]]:
        """Return the test score of each task, by the task whose vectors are used, then by the task that is predicted.

        A linear model of the vectors alone, such as logistic regression, is trained on the training labels of the
        predicted task; its validation labels select the regularization. Scores are those of the estimator's `scoring`:
        by default accuracy, micro-F1 in a multilabel task, R² in regression.

        Parameters
        ----------
        test : mapping
            For some of the tasks, labels of nodes that were not trained on, in any form that `CGE.fit` takes.
        """
        _check_tasks(test, self.models, "test")
        scores: dict[str, dict[str, float]] = {}
        for source, model in self.models.items():
            scores[source] = {}
            for name, test_labels in test.items():
                labels = self.labels[name]
                true = labels.target.encode(model.graph_, test_labels, "test")
                nodes = np.setdiff1d(np.flatnonzero(labels.target.labeled(true)), [*labels.train, *labels.validation])
                if not len(nodes):
                    raise InputError(f"all test labels of the task {name!r} were used for training or validation")
                outputs: Array = classify_vectors(model.embedding_, labels)[0][nodes]
                scores[source][name] = labels.target.score(labels.target.as_scores(outputs), true[nodes])
        return scores


def multi_task(
    graph: Graph, tasks: Mapping[str, Any], validation: Mapping[str, Any] | None = None, *, estimator: CGE | None = None
) -> MultiTask:
    """Train a `CGE` for each of several tasks on one graph.

    Parameters
    ----------
    tasks : mapping
        The training labels of each task, by its name, in any form that `CGE.fit` takes.
    validation : mapping, optional
        The validation labels of some of the tasks.
    estimator : CGE, optional
        Its settings are used for every task; by default `CGE()`.

    Examples
    --------
    >>> graph = Graph.from_edges([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3)])
    >>> tasks = multi_task(graph, {"side": {0: "left", 5: "right"}, "role": {0: "end", 1: "end", 2: "hub", 3: "hub"}})
    >>> tasks.models["side"].predict([1, 4]).tolist()
    ['left', 'right']
    """
    from sklearn.base import clone

    if not tasks:
        raise InputError("there must be at least one task", parameter="tasks")
    graph, validation = as_graph(graph), validation or {}
    _check_tasks(validation, tasks, "validation")
    models, labels = {}, {}
    for name, y in tasks.items():
        model: CGE = CGE() if estimator is None else clone(estimator)
        labels[name] = checked_labels(model, graph, y, validation.get(name))
        models[name] = model.fit(graph, labels[name])
    return MultiTask(models, labels)


def _check_tasks(labels: Mapping[str, Any], tasks: Mapping[str, Any], parameter: str) -> None:
    unknown = [name for name in labels if name not in tasks]
    if unknown:
        names = format_list(sorted(tasks))
        raise InputError(f"there is no task {unknown[0]!r}; the tasks are {names}", parameter=parameter)
