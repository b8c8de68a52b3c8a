"""Tables of the study of weights, from its cells."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cge.evaluation.significance import mean_interval, paired_t_test
from cge.store.atomic import write_text
from studies.cells import Cell, read_cells
from studies.weights import GRAPHS, METHODS

__all__ = ["tables_of", "write_report"]

_BASELINES = ("uniform", "degree", "cosine", "closed forms")
_SELECTING = ("auto", "closed forms")  # methods that select a weighting
_OVERVIEW = ("features only", "uniform", "degree", "cosine", "edges", "edges+hops", "lstm", "auto")
_OVERLAPPING = ("chameleon", "squirrel", "actor")  # graphs whose seeds are splits of the same nodes
_COLUMNS = [
    *("method", "test accuracy", *(f"against {baseline}" for baseline in _BASELINES)),
    *("selected weighting", "classifiers", "prior corrected", "AUC of random edges", "CPU seconds", "version"),
]
_OLDER = "older"  # than the version that is stored with results; such results are without prior correction
_ABOUT = (
    "Test accuracy in percent: mean ± standard deviation over seeds, with the number of seeds in parentheses. Every "
    "method has the defaults of `cge.CGE` except for the settings in its name. *Prior corrected*: in how many runs "
    "class scores were shifted to the class frequencies of the validation labels; they never were in runs of older "
    "versions, which did not store the version. Differences are paired by seed; p-values are those of a two-sided "
    "paired t-test, corrected for overlapping splits on chameleon, squirrel and actor (Nadeau and Bengio 2003), "
    "but not for the number of tests. Validation labels select, test labels are used once. CPU seconds are measured on "
    "one thread. Written by `cge reproduce weights`."
)


def tables_of(results: Mapping[Cell, dict[str, Any]]) -> dict[str, Any]:
    """Return the means of each graph and method, with paired tests against closed-form weightings."""
    graphs: dict[str, Any] = {}
    for graph in GRAPHS:
        rows = {}
        for method in METHODS:
            runs = _runs(results, graph, method)
            if runs:
                rows[method] = _row(graph, runs, results)
        if rows:
            graphs[graph] = rows
    return {"cells": len(results), "graphs": graphs}


def _runs(results: Mapping[Cell, dict[str, Any]], graph: str, method: str) -> dict[int, dict[str, Any]]:
    """Return the results of a method on a graph by seed."""
    return {cell.seed: row for cell, row in results.items() if (cell.graph, cell.method) == (graph, method)}


def _row(graph: str, runs: dict[int, dict[str, Any]], results: Mapping[Cell, dict[str, Any]]) -> dict[str, Any]:
    ordered = [runs[seed] for seed in sorted(runs)]
    row: dict[str, Any] = {
        "test": vars(mean_interval([run["test"] for run in ordered])),
        "validation": mean_interval([run["validation"] for run in ordered]).mean,
        "n_test": ordered[0]["n_test"],
        "labels": ordered[0]["labels"],
        "weighting": dict(Counter(run["weighting"] for run in ordered)),
        "classifiers": dict(Counter(" + ".join(run["classifiers"]) for run in ordered)),
        "label_propagation": sum(run["label_propagation"] for run in ordered),
        "prior_corrected": sum(run.get("prior_correction", False) for run in ordered),
        "versions": sorted({run.get("version", _OLDER) for run in ordered}),
    }
    for name in ("seconds", "noise_auc"):
        values = [run[name] for run in ordered if run.get(name) is not None]
        if values:
            row[name] = mean_interval(values).mean
    learned = [run["weight_parameters"] for run in ordered if run.get("weight_parameters")]
    if learned and set(row["weighting"]) in ({"edges"}, {"edges+hops"}):
        row["weight_parameters"] = _mean_parameters(learned)
    for baseline in _BASELINES:
        baseline_runs = _runs(results, graph, baseline)
        seeds = [seed for seed in sorted(runs) if seed in baseline_runs]
        if seeds:
            ours, theirs = ([side[seed]["test"] for seed in seeds] for side in (runs, baseline_runs))
            overlap = row["n_test"] / row["labels"]["train"] if graph in _OVERLAPPING else 0.0
            row[f"against {baseline}"] = vars(paired_t_test(ours, theirs, overlap))
    return row


def _mean_parameters(learned: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the means over runs of the coefficients, the self-loop, the normalization exponent and the hop weights."""
    coefficients = {
        name: mean_interval([parameters["coefficients"][name] for parameters in learned]).mean
        for name in learned[0]["coefficients"]
    }
    columns = zip(*(run["hop_weights"] for run in learned), strict=True)
    hop_weights = [mean_interval(list(values)).mean for values in columns]
    others = {name: mean_interval([run[name] for run in learned]).mean for name in ("self_loop", "normalization")}
    return {"coefficients": coefficients, "hop_weights": hop_weights} | others


def write_report(folder: Path) -> dict[str, Any]:
    """Write `weights.md` and `weights.json` to a folder from the cells in its `weights/`; return the tables."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = tables_of(read_cells(folder / "weights"))
    lines = ["# Weightings of paths, by graph", "", _ABOUT, *_overview(tables["graphs"])]
    for graph, rows in tables["graphs"].items():
        first = next(iter(rows.values()))
        counts = [first["n_test"], first["labels"]["train"], first["labels"]["validation"]]
        about = "{:,} test nodes, {:,} training labels, {:,} validation labels.".format(*counts)
        lines += ["", f"## {graph}", "", about, "", *_table(rows)]
        for name in ("edges", "edges+hops"):
            if "weight_parameters" in rows.get(name, {}):
                lines += ["", _parameters(name, rows[name]["weight_parameters"])]
    write_text(folder / "weights.md", "\n".join([*lines, ""]))
    write_text(folder / "weights.json", json.dumps(tables, indent=1) + "\n")
    return tables


def _overview(graphs: dict[str, Any]) -> list[str]:
    """Return a table of all graphs, with the gain of `auto` over the better of the two simplest weightings."""
    columns = ["graph", *_OVERVIEW, "auto over the better of uniform and degree"]
    lines = ["", "## All graphs", "", "| " + " | ".join(columns) + " |", "|---|" + "--:|" * (len(columns) - 1)]
    for graph, rows in graphs.items():
        means = [f"{100 * rows[name]['test']['mean']:.1f}" if name in rows else "" for name in _OVERVIEW]
        tests = [rows.get("auto", {}).get(f"against {baseline}") for baseline in ("uniform", "degree")]
        gains = [round(100 * test["gain"], 1) + 0.0 for test in tests if test]  # no negative zero
        lines.append("| " + " | ".join([graph, *means, f"{min(gains):+.1f}" if gains else ""]) + " |")
    return lines


def _parameters(name: str, means: dict[str, Any]) -> str:
    """Return a sentence about the learned parameters of an edge weighting."""
    largest = sorted(means["coefficients"].items(), key=lambda pair: -abs(pair[1]))[:8]
    values = [*largest, ("self-loop", means["self_loop"])]
    coefficients = ", ".join(f"{label} {value:+.2f}" for label, value in values)
    hops = ", ".join(f"{value:+.2f}" for value in means["hop_weights"])
    return (
        f"Learned parameters of `{name}`, mean over runs: coefficients {coefficients}; normalization exponent "
        f"{means['normalization']:.2f}; hop weights {hops}."
    )


def _table(rows: dict[str, Any]) -> list[str]:
    """Return the lines of a graph's table, without columns that are empty there."""
    lines = [_COLUMNS, *(_entries(name, row) for name, row in rows.items())]
    filled = [column for column in range(len(_COLUMNS)) if any(line[column] for line in lines[1:])]
    lines = [[line[column] for column in filled] for line in lines]
    lines.insert(1, ["---"] * len(filled))
    return ["| " + " | ".join(line) + " |" for line in lines]


def _entries(name: str, row: dict[str, Any]) -> list[str]:
    test = row["test"]
    sd = "" if test["sd"] is None else f" ± {100 * test['sd']:.1f}"
    weightings, classifiers = (
        ", ".join(f"{kind} {count}" for kind, count in row[key].items()) for key in ("weighting", "classifiers")
    )
    classifiers += f"; label propagation {row['label_propagation']}" if row["label_propagation"] else ""
    return [
        name,
        f"{100 * test['mean']:.1f}{sd} ({test['runs']})",
        *("" if baseline == name else _difference(row.get(f"against {baseline}")) for baseline in _BASELINES),
        weightings if name in _SELECTING else "",
        classifiers,
        str(row["prior_corrected"] or ""),
        f"{row['noise_auc']:.2f}" if "noise_auc" in row else "",
        f"{row['seconds']:.0f}" if "seconds" in row else "",
        ", ".join(row["versions"]),
    ]


def _difference(test: dict[str, Any] | None) -> str:
    if test is None or (test["p"] is None and (test["gain"] or test["runs"] < 2)):
        return ""
    if test["p"] is None:
        return "the same"
    p = "< 0.001" if test["p"] < 0.001 else f"= {test['p']:.3f}"
    return f"{100 * test['gain']:+.1f} (p {p})"
