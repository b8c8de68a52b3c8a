"""How accuracy depends on the number of labels, with and without validation labels: the default and tuned baselines."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from cge.data import load_dataset
from cge.data.dataset import Dataset
from cge.data.splits import Split, stratified
from cge.errors import InputError
from cge.estimators.cge import CGE
from cge.estimators.classifier import task_labels
from cge.evaluation.protocol import draw_split, expand_classes
from cge.metrics import classification_metrics
from studies.cells import Cell
from studies.label_baselines import BASELINES, predict, shared_inputs

__all__ = ["BUDGETS", "GRAPHS", "METHODS", "cells", "parse", "run"]

_SMALL = ("cora", "citeseer", "chameleon", "vispub", "imdb", "yelp", "aifb", "acm", "actor", "squirrel", "blogcatalog")
GRAPHS = {name: name for name in _SMALL} | {"pubmed": "pubmed", "nell": "nell-0.1", "debian": "debian"}
WITHOUT_FEATURES = ("vispub", "aifb", "blogcatalog")
PER_CLASS = ("1", "2", "5", "10", "20", "50")
SHARES = ("10%", "50%")
BUDGETS = (*PER_CLASS, *SHARES)
VALIDATION = 500  # labels, or half of those that do not train
METHODS = ("default", *BASELINES)
_LEFT_OUT = (("aifb", "50"), ("nell", "50"))  # most labels are of classes with fewer than 100


def cells(only: str | None, seeds: int) -> Iterator[Cell]:
    """Yield the cells of the study, or those of `only`, GRAPH[/BUDGET[/METHOD]]: "cora", "cora/20+500", "*/*/gcn".

    The method of a cell is "20+500/gcn" (with validation labels) or "20/gcn" (without).
    """
    parts = (only or "*").split("/")
    patterns = [*parts, *["*"] * (3 - len(parts))]
    _check_patterns(patterns, [*GRAPHS], [budget + more for budget in BUDGETS for more in ("+500", "")], [*METHODS])
    for seed in range(seeds):
        for graph in GRAPHS:
            for budget in SHARES if graph == "blogcatalog" else BUDGETS:
                for labels, method in product((f"{budget}+{VALIDATION}", budget), METHODS):
                    names = (graph, labels, method)
                    if _runs(graph, budget, method) and all(map(fnmatchcase, names, patterns)):
                        yield Cell(graph, f"{labels}/{method}", seed)


def _runs(graph: str, budget: str, method: str) -> bool:
    """Return whether the study has a cell."""
    needs_features = method in BASELINES and BASELINES[method].needs_features
    return (graph, budget) not in _LEFT_OUT and not (needs_features and graph in WITHOUT_FEATURES)


def _check_patterns(patterns: list[str], *legal: list[str]) -> None:
    if len(patterns) > len(legal):
        raise InputError(f"--only takes GRAPH/BUDGET/METHOD here, found {'/'.join(patterns)!r}")
    for kind, pattern, names in zip(("graph", "budget", "method"), patterns, legal, strict=True):
        if not any(fnmatchcase(name, pattern) for name in names):
            raise InputError(f"the study has no {kind} {pattern!r}; it has {', '.join(names)}")


def parse(cell: Cell) -> tuple[str, bool, str]:
    """Return the budget of a cell, whether it has validation labels, and its method.

    >>> parse(Cell("cora", "20+500/gcn", 0))
    ('20', True, 'gcn')
    """
    labels, _, method = cell.method.partition("/")
    budget, _, validation = labels.partition("+")
    return budget, bool(validation), method


@lru_cache(maxsize=1)
def _dataset(graph: str) -> Dataset:
    return load_dataset(GRAPHS[graph])


def split_of(data: Dataset, budget: str, seed: int) -> tuple[Dataset, Split]:
    """Return the data set with the labels that a budget covers, and a random split.

    A budget per class covers classes with at least twice as many labels. The split has validation nodes whether or not
    a cell uses them, so that both have the same training and test nodes.
    """
    if budget in SHARES:
        train = float(budget.rstrip("%")) / 100
        validation = min(VALIDATION / len(data.labeled), (1 - train) / 2)
        return data, stratified(data.labels, train, validation, seed=seed)
    labels, split = draw_split(data.labels, int(budget), seed)
    names = tuple(data.class_names[code] for code in np.unique(data.labels[labels >= 0]))
    return replace(data, labels=labels, class_names=names, split=split, splits=()), split


def run(cell: Cell) -> dict[str, Any]:
    """Run a cell on one thread."""
    with threadpool_limits(1):
        return _run(cell)


def _run(cell: Cell) -> dict[str, Any]:
    budget, with_validation, method = parse(cell)
    original = _dataset(cell.graph)
    data, split = split_of(original, budget, cell.seed)
    y, validation = data.labels_of(split.train), data.labels_of(split.validation) if with_validation else None
    start, row = time.process_time(), _counts(data, split, with_validation)
    if method == "default":
        model = CGE(random_state=cell.seed, n_jobs=1).fit(data.graph, y, validation)
        outputs = expand_classes(model.predict_proba(data.graph.node_ids[split.test]), model.classes_, data.num_classes)
        row |= {name: getattr(model, f"{name}_") for name in ("weighting", "classifiers", "label_propagation")}
        row["prior_correction"] = model.prior_correction_
    else:
        labels = task_labels(data.graph, y, validation)
        corrected, plain, setting = predict(method, shared_inputs(original), labels, cell.seed)
        outputs = expand_classes(corrected[split.test], labels.classes, data.num_classes)
        plain = expand_classes(plain[split.test], labels.classes, data.num_classes)
        row |= {"setting": setting, "test, uncorrected": _metrics(plain, data.labels[split.test])["test"]}
    return row | _metrics(outputs, data.labels[split.test]) | {"seconds": round(time.process_time() - start, 1)}


def _counts(data: Dataset, split: Split, with_validation: bool) -> dict[str, Any]:
    validation = len(split.validation) if with_validation else 0
    labels = {"train": len(split.train), "validation": validation}
    return {"n_test": len(split.test), "n_classes": data.num_classes, "labels": labels}


def _metrics(outputs: Any, labels: Any) -> dict[str, float]:
    """Return accuracy, or micro- and macro-F1 of the k most probable classes of a node with k classes."""
    metrics = classification_metrics(outputs, labels)
    if "accuracy" in metrics:
        return {"test": metrics["accuracy"]}
    return {"test": metrics["micro_f1"], "macro_f1": metrics["macro_f1"]}
