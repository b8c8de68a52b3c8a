"""The table of the study of vectors, from its cells."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cge.evaluation.significance import mean_interval
from cge.store.atomic import write_text
from studies.cells import Cell, read_cells
from studies.table_text import percent_of_runs
from studies.vectors import GRAPHS

__all__ = ["tables_of", "write_report"]

_ABOUT = (
    "How accurate vectors are without the model: test accuracy in percent (micro-F1 on BlogCatalog) of a logistic "
    "regression on `embedding_` of a default `cge.CGE` and on DeepWalk vectors (128 dimensions, 10 walks of 80 nodes, "
    "window 10), and how often the nearest labeled node by cosine similarity has the same class (BlogCatalog: a common "
    "one). Rows have unit length, validation labels select C, test labels are used once. Mean ± standard deviation, "
    "with the number of seeds in parentheses. *Prior corrected*, where the model corrects class priors: both "
    "regressions with the correction of the model (class scores shifted by T · log(validation frequency / training "
    "frequency)), and C selected after it, on the same validation labels; compare these with the model there. Without "
    "it, a regression trained on as many labels of each class predicts rare classes too often. NELL's validation "
    "labels are derived from its other splits. imports: the import graph of 23 installed packages, classes are "
    "packages, no features; 20 training labels per class, and 10 % of all labels. Written by `cge reproduce vectors`."
)
_COLUMNS = (
    *("graph", "training labels", "model", "vectors", "DeepWalk vectors"),
    *("vectors, prior corrected", "DeepWalk vectors, prior corrected"),
    *("nearest neighbor", "nearest neighbor, DeepWalk", "dimensions", "label propagation"),
)


def tables_of(results: Mapping[Cell, dict[str, Any]]) -> dict[str, Any]:
    """Return the means of each graph and method."""
    graphs: dict[str, Any] = {}
    for graph in GRAPHS:
        methods: dict[str, Any] = {}
        for method in ("cge", "deepwalk"):
            runs = [row for cell, row in sorted(results.items()) if (cell.graph, cell.method) == (graph, method)]
            if runs:
                methods[method] = _row(runs)
        if methods:
            graphs[graph] = methods
    return {"cells": len(results), "graphs": graphs}


def _row(runs: list[dict[str, Any]]) -> dict[str, Any]:
    names = ("model", "test", "test, prior corrected", "neighbors", "dim", "seconds")
    row: dict[str, Any] = {
        name: vars(mean_interval([run[name] for run in runs])) for name in names if all(name in run for run in runs)
    }
    row |= {"labels": runs[0]["labels"], "n_test": runs[0]["n_test"]}
    flags = ("label_propagation", "prior_correction")
    return row | {name: sum(run[name] for run in runs) for name in flags if name in runs[0]}


def write_report(folder: Path) -> dict[str, Any]:
    """Write `vectors.md` and `vectors.json` to a folder from the cells in its `vectors/`; return the tables."""
    tables = tables_of(read_cells(folder / "vectors"))
    lines = ["# Vectors alone", "", _ABOUT, "", f"| {' | '.join(_COLUMNS)} |", "|---|" + "--:|" * (len(_COLUMNS) - 1)]
    lines += [f"| {' | '.join(_entries(graph, methods))} |" for graph, methods in tables["graphs"].items()]
    write_text(folder / "vectors.md", "\n".join([*lines, ""]))
    write_text(folder / "vectors.json", json.dumps(tables, indent=1) + "\n")
    return tables


def _entries(graph: str, methods: dict[str, Any]) -> list[str]:
    ours, deepwalk = methods.get("cge", {}), methods.get("deepwalk", {})
    labels = (ours or deepwalk)["labels"]["train"]
    corrected = [
        percent_of_runs(each.get("test, prior corrected")) if ours.get("prior_correction") else ""
        for each in (ours, deepwalk)
    ]
    propagated = f"{ours['label_propagation']} of {ours['test']['runs']}" if ours else ""
    return [
        *(graph, f"{labels:,}", percent_of_runs(ours.get("model")), percent_of_runs(ours.get("test"))),
        *(percent_of_runs(deepwalk.get("test")), *corrected),
        *(percent_of_runs(each.get("neighbors")) for each in (ours, deepwalk)),
        *(f"{ours['dim']['mean']:.0f}" if ours else "", propagated),
    ]
