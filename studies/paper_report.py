"""Markdown and JSON of the study of the paper's algorithm, from its cells."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cge.errors import InputError
from cge.evaluation.significance import holm, mean_interval, paired_t_test
from cge.store.atomic import write_text
from studies import tables
from studies.cells import Cell, read_cells
from studies.paper import BOUNDS, GRAPHS, METHODS, STRENGTHS, TABLE_2, current
from studies.table_text import p_text, percent_of_runs

__all__ = ["baseline_of", "tables_of", "write_report"]


_WEIGHTS = ("weight_mean", "weight_std", "auc")  # statistics of the path weights

_ABOUT = (
    "Accuracy in percent, mean ± standard deviation over seeds (their number in parentheses), with the settings of "
    "table 2. *Strength* is `supervised_strength`, the weight of the supervised gradient of the vectors in every step "
    "(Algorithm 1, line 4; 1 is the paper's, 0 is without). *Outer steps* are updates of the weighting per epoch "
    "(line 5; 32 are one for each batch of walks). The *oracle* learns its weights from all labels that do not train "
    "the vectors, test labels included: the bound of what this network could gain with this rule. *Same-class paths* "
    "learns nothing: all labels are known, and paths between two nodes of the same class have ten times the weight of "
    'others, which shows what path weights could gain at all. *sgd* is `optimizer="sgd"`. Graphs with +100% have as '
    "many random edges as edges, drawn by the seed. Rows of strength 1 and 32 outer steps on the other graphs are "
    "those of table 2, which does not store the columns that are empty. *Gain* is the difference of test accuracy to "
    "uniform weights with the same strength and optimizer, paired by seed; p is from a two-sided paired t-test, "
    "corrected by Holm's method over this page (without the two bounds, which see test labels) in the last column but "
    "one. A is the weight of a path in the last epoch, its *AUC* the probability that a path between two nodes of the "
    "same class has a larger weight than another path (0.5 for weights that do not depend on the classes; cells "
    "without it are older). Written by `cge reproduce paper`."
)


def write_report(folder: Path) -> dict[str, Any]:
    """Write `paper.md` and `paper.json` to a folder from the cells in its `paper/`; return the tables."""
    rows = {cell: row for cell, row in read_cells(folder / "paper").items() if current(cell, row)}
    if rows:
        rows |= _rows_of_table_2(folder)
    else:
        raise InputError(f"{folder / 'paper'} has no cell of the study with its present settings; run some first")
    results = tables_of(rows)
    write_text(folder / "paper.json", json.dumps(results, indent=1) + "\n")
    write_text(folder / "paper.md", "\n".join(_markdown(results)) + "\n")
    return results


def _rows_of_table_2(folder: Path) -> dict[Cell, dict[str, Any]]:
    """Return the results of table 2 that have the default strength and number of outer steps."""
    stored = read_cells(folder / "table2")
    names = {name: f"{name}, {variant}" for name, variant in TABLE_2.items()}
    return {
        Cell(cell.graph, names[cell.method], cell.seed): row
        for cell, row in stored.items()
        if cell.graph in GRAPHS and cell.method in names and tables.current(cell, row, "table2")
    }


def baseline_of(method: str) -> str | None:
    """Return uniform weights with the same strength of the supervised gradient or optimizer; None for these."""
    name, _, variant = method.partition(", ")
    if name.startswith("planetoid"):
        return None
    same = variant in ("sgd", *(f"strength {value:g}" for value in STRENGTHS))
    return f"planetoid-{name.split('-')[1]}, {variant if same else 'strength 1'}"


def tables_of(rows: Mapping[Cell, dict[str, Any]]) -> dict[str, Any]:
    """Return means of each graph and method, and tests against uniform weights."""
    graphs: dict[str, Any] = {}
    for graph in GRAPHS:
        for method in METHODS:
            runs = {cell.seed: row for cell, row in rows.items() if (cell.graph, cell.method) == (graph, method)}
            if not runs:
                continue
            baseline = baseline_of(method)
            others = {cell.seed: row for cell, row in rows.items() if (cell.graph, cell.method) == (graph, baseline)}
            seeds = sorted(set(runs) & set(others))
            summary: dict[str, Any] = {
                name: vars(mean_interval([row[name] for row in runs.values()]))
                for name in ("test", "validation")
                if all(name in row for row in runs.values())
            }
            for name in _WEIGHTS:
                values = [row[name] for row in runs.values() if row.get(name) is not None]
                summary[name] = [min(values), max(values)] if values else None
            if seeds:
                test = paired_t_test([runs[seed]["test"] for seed in seeds], [others[seed]["test"] for seed in seeds])
                summary["against"] = vars(test) | {"method": baseline}
            summary["versions"] = sorted({row.get("version", "not recorded") for row in runs.values()})
            graphs.setdefault(graph, {})[method] = summary
    rows_by_method = [item for methods in graphs.values() for item in methods.items()]
    tests = [row["against"] for method, row in rows_by_method if "against" in row and method not in BOUNDS]
    for test, corrected in zip(tests, holm([test["p"] for test in tests]), strict=True):
        test["p_holm"] = corrected
    return {"study": "paper", "cells": len(rows), "graphs": graphs}


def _markdown(results: dict[str, Any]) -> list[str]:
    columns = ["method", "validation", "test", "mean of A", "std of A", "AUC of A", "gain", "p", "p (Holm)", "version"]
    lines = ["# The paper's algorithm: outer steps, supervised gradient, oracle", "", _ABOUT]
    for graph, methods in results["graphs"].items():
        lines += ["", f"## {graph}", "", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
        for method, row in methods.items():
            gain = row.get("against")
            cells = [method, *(percent_of_runs(row.get(name)) for name in ("validation", "test"))]
            cells += [_bounds(row[name]) for name in _WEIGHTS]
            cells += (
                [f"{100 * gain['gain']:+.1f}", p_text(gain["p"]), p_text(gain.get("p_holm"))] if gain else ["", "", ""]
            )
            lines.append(f"| {' | '.join([*cells, ', '.join(row['versions'])])} |")
    return lines


def _bounds(values: list[float] | None) -> str:
    return "" if values is None else f"{values[0]:.2f} to {values[1]:.2f}"
