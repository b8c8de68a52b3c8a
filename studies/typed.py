"""Graphs with types: learned weights of relations against closed forms, and networks that do not know types."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import f1_score

from cge.data import load_dataset
from cge.data.dataset import Dataset
from cge.data.splits import Split
from cge.estimators.methods import make
from cge.evaluation.protocol import draw_split, expand_classes
from cge.evaluation.significance import mean_interval, paired_t_test
from cge.store.atomic import write_text
from studies.cells import Cell, grid_cells, read_cells
from studies.table_text import percent_of_runs

__all__ = ["GRAPHS", "METHODS", "cells", "run", "tables_of", "write_report"]

GRAPHS = {"acm-20": ("acm", 0), "acm-40": ("acm", 1), "acm-60": ("acm", 2), "imdb": ("imdb", 0), "yelp": ("yelp", 0)}
GRAPHS |= {"aifb": ("aifb", 0), "debian": ("debian", 0)}
_CLOSED_FORMS = ("uniform", "degree", "relation-uniform", "relation-degree")
_LEARNED = ("edges", "relations", "metapaths")
_UNTYPED = ("untyped", "gcn", "sgc")  # methods that get the graph without its types
_NETWORKS = ("gcn", "sgc", "rgcn", "sehgnn", "metapath2vec")
METHODS = ("default", "untyped", *_CLOSED_FORMS, *_LEARNED, *_NETWORKS)
_PER_CLASS = 20  # training labels of each class of Debian, which has no published split
_ACCURACY = ("aifb", "debian")  # graphs whose published figures are accuracies
_ABOUT = (
    "Graphs with node and edge types and their published splits: test macro-F1 in percent (accuracy on AIFB and "
    "Debian), mean ± standard deviation, with the number of seeds in parentheses. `default` is `cge.CGE()`, whose "
    "model search knows all weightings; `untyped` is the same on the graph without its types; the other rows of `cge` "
    "fix the weighting and search the rest. GCN and SGC do not use types; R-GCN, SeHGNN and metapath2vec do. "
    "Validation labels select, test labels score once. Written by `cge reproduce typed`."
)


def cells(only: str | None, seeds: int) -> Iterator[Cell]:
    """Yield the cells of the study, or those of `only`: "imdb", "imdb/edges" or "*/edges"."""
    return (cell for cell in grid_cells(GRAPHS, METHODS, only, seeds) if _runs(cell.graph, cell.method))


def _runs(graph: str, method: str) -> bool:
    """Return whether the study has a cell: AIFB has no features, and Debian is for comparing with and without types."""
    return (graph, method) != ("aifb", "sgc") and (graph != "debian" or method in ("default", "untyped"))


@cache
def _data(name: str, types: bool) -> Dataset:
    return load_dataset(name, edge_types=types)


def run(cell: Cell) -> dict[str, Any]:
    """Run a cell on one thread."""
    name, place = GRAPHS[cell.graph]
    network = cell.method in _NETWORKS
    data = _data(name, cell.method not in _UNTYPED)
    if data.splits:
        split = data.splits[place]
    else:
        codes, split = draw_split(data.labels, _PER_CLASS, cell.seed)
        data = replace(data, labels=codes)
    start = time.process_time()
    settings: dict[str, Any] = {"weighting": cell.method} if cell.method in (*_CLOSED_FORMS, *_LEARNED) else {}
    model = make(cell.method if network else "cge", cell.seed, 1, **settings)
    model.fit(data.graph, data.labels_of(split.train), _validation(data, split))
    probabilities = model.predict_proba(data.graph.node_ids[split.test])
    predicted = expand_classes(probabilities, model.classes_, data.num_classes).argmax(1)
    labels = data.labels[split.test]
    scores = {
        "accuracy": float((predicted == labels).mean()),
        "macro_f1": float(f1_score(labels, predicted, average="macro")),
    }
    row: dict[str, Any] = scores | {
        "test": scores[_metric(cell.graph)],
        "n_test": len(labels),
        "labels": model.labels_seen_,
        "seconds": round(time.process_time() - start, 1),
    }
    if not network:
        row |= {"weighting": model.weighting_, "classifiers": model.classifiers_}
        row |= {"label_propagation": model.label_propagation_, "search_results": model.search_results_}
        listed = (cell.method, cell.seed) == ("default", 0)
        row["metapaths"] = [each.to_dict() for each in model.metapaths(5)] if listed else []
    return row


def _validation(data: Dataset, split: Split) -> Any:
    return data.labels_of(split.validation) if len(split.validation) else None


def tables_of(results: Mapping[Cell, dict[str, Any]]) -> dict[str, Any]:
    """Return the means of each graph and method, and paired comparisons with the best closed form."""
    graphs: dict[str, Any] = {}
    for graph in GRAPHS:
        runs = {
            method: {cell.seed: row for cell, row in results.items() if (cell.graph, cell.method) == (graph, method)}
            for method in METHODS
        }
        methods = {
            method: {name: vars(mean_interval([row[name] for row in rows.values()])) for name in _METRICS}
            for method, rows in runs.items()
            if rows
        }
        if methods:
            graphs[graph] = {"methods": methods} | _comparisons(graph, runs, methods)
    return {"cells": len(results), "graphs": graphs}


_METRICS = ("macro_f1", "accuracy", "seconds")


def _metric(graph: str) -> str:
    return "accuracy" if graph in _ACCURACY else "macro_f1"


def _comparisons(graph: str, runs: dict[str, dict[int, Any]], methods: dict[str, Any]) -> dict[str, Any]:
    """Return gains over the closed form with the highest mean, on the seeds that both have."""
    metric = _metric(graph)
    forms = [method for method in _CLOSED_FORMS if method in methods]
    if not forms:
        return {}
    best = max(forms, key=lambda method: methods[method][metric]["mean"])
    gains = {}
    for method in ("default", *_LEARNED):
        seeds = sorted(runs[method].keys() & runs[best].keys())
        if seeds:
            own, closed = ([runs[each][seed][metric] for seed in seeds] for each in (method, best))
            gains[method] = vars(paired_t_test(own, closed))
    return {"best_closed_form": best, "gains": gains}


def write_report(folder: Path) -> dict[str, Any]:
    """Write `typed.md` and `typed.json` to a folder from the cells in its `typed/`; return the tables."""
    results = read_cells(folder / "typed")
    tables = tables_of(results)
    present = list(tables["graphs"])
    lines = [
        "# Graphs with types",
        "",
        _ABOUT,
        "",
        f"| method | {' | '.join(present)} |",
        "|---|" + "--:|" * len(present),
    ]
    for method in METHODS:
        entries = [
            percent_of_runs(tables["graphs"][graph]["methods"].get(method, {}).get(_metric(graph))) for graph in present
        ]
        if any(entries):
            lines.append(f"| {method} | {' | '.join(entries)} |")
    for graph in present:
        best, gains = tables["graphs"][graph].get("best_closed_form"), tables["graphs"][graph].get("gains", {})
        texts = [f"{method} {_gain(gain)}" for method, gain in gains.items()]
        if texts:
            lines += ["", f"{graph}, gain over `{best}` in percentage points: {'; '.join(texts)}."]
    lines += _metapath_lines(results)
    write_text(folder / "typed.md", "\n".join([*lines, ""]))
    write_text(folder / "typed.json", json.dumps(tables, indent=1) + "\n")
    return tables


def _metapath_lines(results: Mapping[Cell, dict[str, Any]]) -> list[str]:
    """Return a table of the metapaths of the default model with seed 0."""
    defaults = [(cell.graph, row) for cell, row in sorted(results.items()) if cell.method == "default"]
    rows = {graph: row["metapaths"] for graph, row in defaults if row["metapaths"]}  # of seed 0
    if not rows:
        return []
    lines = ["", "Metapaths with the largest contributions in the default model with seed 0, as shares of all:", ""]
    lines += ["| graph | metapath | weight | uniform weight | contribution |", "|---|---|--:|--:|--:|"]
    for graph, metapaths in rows.items():
        for each in metapaths:
            shares = (f"{100 * each[name]:.0f} %" for name in ("weight", "uniform_weight", "contribution"))
            lines.append(f"| {graph} | {each['metapath']} | {' | '.join(shares)} |")
    return lines


def _gain(gain: dict[str, Any]) -> str:
    p = "" if gain["p"] is None or np.isnan(gain["p"]) else f" (paired t-test, p = {gain['p']:.2g})"
    return f"{100 * gain['gain']:+.1f}{p}"
