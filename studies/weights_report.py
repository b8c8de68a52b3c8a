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

_PRIORS = ("uniform", "degree", "cosine", "closed forms")
_CHOOSING = ("auto", "auto with shares", "closed forms")  # methods that name no weights
_OVERVIEW = ("features only", "uniform", "degree", "cosine", "edges", "edges+hops", "lstm", "auto", "auto with shares")
_SPLITS = ("chameleon", "squirrel", "actor")  # graphs whose seeds are splits of the same nodes
_SHOWN = {"uniform": "A ≡ 1"}
_AGAINST = [f"against {_SHOWN.get(one, one)}" for one in _PRIORS]
_HEAD = ["method", "test", *_AGAINST, "chosen", "classifiers", "AUC of random edges", "CPU s"]
_ABOUT = (
    "Test accuracy in percent, mean ± standard deviation over seeds (their number in brackets), all with the defaults "
    "of `cge.CGE` but for what the method names. Differences are paired by seed; p from Student's paired t-test, "
    "two-sided, on chameleon, squirrel and actor corrected for splits that overlap (Nadeau and Bengio 2003), and "
    "nowhere for the number of tests. Validation labels choose, test labels only score. Seconds are those of the "
    "processor, on one thread. Made by `cge reproduce weights`."
)


def tables_of(found: Mapping[Cell, dict[str, Any]]) -> dict[str, Any]:
    """Return the means of each graph and method, with paired tests against closed-form weights."""
    graphs: dict[str, Any] = {}
    for graph in GRAPHS:
        rows = {}
        for method in METHODS:
            runs = {cell.seed: row for cell, row in found.items() if (cell.graph, cell.method) == (graph, method)}
            if runs:
                rows[method] = _row(graph, runs, found)
        if rows:
            graphs[graph] = rows
    return {"cells": len(found), "graphs": graphs}


def _row(graph: str, runs: dict[int, dict[str, Any]], found: Mapping[Cell, dict[str, Any]]) -> dict[str, Any]:
    ordered = [runs[seed] for seed in sorted(runs)]
    interval = mean_interval([row["test"] for row in ordered])
    row: dict[str, Any] = {
        "test": vars(interval),
        "validation": mean_interval([one["validation"] for one in ordered]).mean,
        "n_test": ordered[0]["n_test"],
        "labels": ordered[0]["labels"],
        "chosen": dict(Counter(one["weights"] for one in ordered)),
        "classifiers": dict(Counter(" + ".join(one["classifiers"]) for one in ordered)),
        "votes": sum(one["votes"] for one in ordered),
    }
    seconds = [one["cpu_seconds"] for one in ordered if "cpu_seconds" in one]
    if seconds:
        row["cpu_seconds"] = mean_interval(seconds).mean
    aucs = [one["noise_auc"] for one in ordered if one.get("noise_auc") is not None]
    if aucs:
        row["noise_auc"] = mean_interval(aucs).mean
    learned = [one["parameters"] for one in ordered if one.get("parameters")]
    if learned and set(row["chosen"]) in ({"edges"}, {"edges+hops"}):
        row["parameters"] = _mean_parameters(learned)
    for other in _PRIORS:
        both = [seed for seed in sorted(runs) if Cell(graph, other, seed) in found]
        if both:
            mine, theirs = ([source[seed] for seed in both] for source in _tests(graph, runs, other, found))
            overlap = row["n_test"] / row["labels"]["train"] if graph in _SPLITS else 0.0
            row[f"against {other}"] = vars(paired_t_test(mine, theirs, overlap))
    return row


def _mean_parameters(learned: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the means of gates, stay, discount and hops over runs."""
    means = {
        name: mean_interval([one["coefficients"][name] for one in learned]).mean for name in learned[0]["coefficients"]
    }
    hops = [mean_interval(list(values)).mean for values in zip(*(one["hops"] for one in learned), strict=True)]
    others = {name: mean_interval([one[name] for one in learned]).mean for name in ("self_loop", "normalization")}
    return {"coefficients": means, "hops": hops} | others


def _tests(
    graph: str, runs: dict[int, dict[str, Any]], other: str, found: Mapping[Cell, dict[str, Any]]
) -> tuple[dict[int, float], dict[int, float]]:
    theirs = {cell.seed: row["test"] for cell, row in found.items() if (cell.graph, cell.method) == (graph, other)}
    return {seed: row["test"] for seed, row in runs.items()}, theirs


def write_report(folder: Path) -> dict[str, Any]:
    """Write `weights.md` and `weights.json` to a folder from the cells in its `weights/`; return the tables."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = tables_of(read_cells(folder / "weights"))
    lines = ["# Weights of paths: where they pay", "", _ABOUT, *_overview(tables["graphs"])]
    for graph, rows in tables["graphs"].items():
        first = next(iter(rows.values()))
        labels = first["labels"]
        lines += [
            "",
            f"## {graph}",
            "",
            f"{first['n_test']:,} test nodes; {labels['train']:,} labels train, {labels['selection']:,} choose.",
            "",
            *_table(rows),
        ]
        for name in ("edges", "edges+hops"):
            if "parameters" in rows.get(name, {}):
                lines += ["", _learned(name, rows[name]["parameters"])]
    write_text(folder / "weights.md", "\n".join([*lines, ""]))
    write_text(folder / "weights.json", json.dumps(tables, indent=1) + "\n")
    return tables


def _overview(graphs: dict[str, Any]) -> list[str]:
    """Return a table of all graphs, and whether `auto` loses to the better of the two simplest weights."""
    head = ["graph", *(_SHOWN.get(name, name) for name in _OVERVIEW), "auto over the better of A ≡ 1 and degree"]
    lines = ["", "## All graphs", "", "| " + " | ".join(head) + " |", "|---|" + "--:|" * (len(head) - 1)]
    for graph, rows in graphs.items():
        means = [f"{100 * rows[name]['test']['mean']:.1f}" if name in rows else "" for name in _OVERVIEW]
        told = [rows.get("auto", {}).get(f"against {other}") for other in ("uniform", "degree")]
        gains = [round(100 * one["gain"], 1) + 0.0 for one in told if one]  # no negative zero
        lines.append("| " + " | ".join([graph, *means, f"{min(gains):+.1f}" if gains else ""]) + " |")
    return lines


def _learned(name: str, means: dict[str, Any]) -> str:
    """Say what weights of steps came to."""
    gates = sorted(means["coefficients"].items(), key=lambda pair: -abs(pair[1]))
    told = ", ".join(f"{name} {value:+.2f}" for name, value in [*gates[:8], ("staying", means["self_loop"])])
    hops = ", ".join(f"{value:+.2f}" for value in means["hops"])
    return f"What `{name}` learned, mean over runs: θ of {told}; b {means['normalization']:.2f}; h {hops}."


def _table(rows: dict[str, Any]) -> list[str]:
    """Return the lines of a graph's table; columns that have nothing to say there are left out."""
    lines = [_HEAD, *(_entries(name, row) for name, row in rows.items())]
    told = [place for place in range(len(_HEAD)) if any(line[place] for line in lines[1:])]
    lines = [[line[place] for place in told] for line in lines]
    lines.insert(1, ["---"] * len(told))
    return ["| " + " | ".join(line) + " |" for line in lines]


def _entries(name: str, row: dict[str, Any]) -> list[str]:
    test = row["test"]
    sd = "" if test["sd"] is None else f" ± {100 * test['sd']:.1f}"
    chosen, classifiers = (
        ", ".join(f"{what} {count}" for what, count in row[one].items()) for one in ("chosen", "classifiers")
    )
    classifiers += f"; labels vote {row['votes']}" if row["votes"] else ""
    auc = f"{row['noise_auc']:.2f}" if "noise_auc" in row else ""
    return [
        f"{_SHOWN[name]} ({name})" if name in _SHOWN else name,
        f"{100 * test['mean']:.1f}{sd} ({test['runs']})",
        *("" if other == name else _against(row.get(f"against {other}")) for other in _PRIORS),
        chosen if name in _CHOOSING else "",
        classifiers,
        auc,
        f"{row['cpu_seconds']:.0f}" if "cpu_seconds" in row else "",
    ]


def _against(found: dict[str, Any] | None) -> str:
    if found is None or (found["p"] is None and (found["gain"] or found["runs"] < 2)):
        return ""
    if found["p"] is None:
        return "the same"
    p = "< 0.001" if found["p"] < 0.001 else f"= {found['p']:.3f}"
    return f"{100 * found['gain']:+.1f} (p {p})"
