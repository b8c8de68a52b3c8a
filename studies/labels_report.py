"""The tables and curves of the label-budget study, from its cells."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from cge.evaluation.significance import mean_interval
from cge.store.atomic import write_files, write_text
from studies.cells import Cell, read_cells
from studies.labels import BUDGETS, GRAPHS, METHODS, VALIDATION, parse
from studies.table_text import percent_text

__all__ = ["tables_of", "write_report"]

_ABOUT = (
    "Test accuracy in percent (micro-F1 on BlogCatalog) by the number of training labels of each class, or their share "
    f"of all labels, with {VALIDATION} validation labels (or half of the labels that do not train, if these are fewer) "
    "and without: mean ± standard deviation over seeds, whose number is in the second column. Splits are random; both "
    "kinds of cells have the same training and test nodes, and a budget per class leaves out classes with fewer than "
    "twice as many labels. `default` is `cge.CGE()`. Baselines: logistic regression on features (C = 0.1 … 1,000), "
    "label propagation (five α, with and without class mass normalization), logistic regression on DeepWalk vectors "
    "(C), SGC (1, 2, 4 hops, C), GCN (16 or 64 hidden units, weight decay 0.0005 or 0.005), APPNP (α = 0.1 or 0.2, "
    "the same weight decays). Validation labels select their settings, epochs and prior correction, as they do for the "
    "default; without them, three-fold cross-validation on the training labels selects, and a second training uses all "
    "labels. Test labels score once. **Bold**: the default is first, or within one standard error of the first. The "
    "standard error is that of the paired differences between seeds; with fewer than three seeds, that of the accuracy "
    "of the first on the test nodes. Written by `cge reproduce labels`."
)
_MIN_SEEDS = 3  # for a standard error of the differences between seeds
_COLORS = ("#b3202a", "0.55", "#8c6d1f", "#6a4c93", "#2b6ca3", "#2e7d32", "#c2571a")
_COLUMNS = 4  # panels in a row


def tables_of(results: Mapping[Cell, dict[str, Any]]) -> dict[str, Any]:
    """Return the means of each graph, kind of validation, budget and method, and the share of cells of the default."""
    runs: dict[tuple[str, bool, str], dict[str, dict[int, Any]]] = {}
    for cell, row in sorted(results.items()):
        budget, validation, method = parse(cell)
        runs.setdefault((cell.graph, validation, budget), {}).setdefault(method, {})[cell.seed] = row
    rows = []
    for (graph, validation, budget), methods in sorted(runs.items(), key=lambda item: _order(*item[0])):
        present = {name: methods[name] for name in METHODS if name in methods}
        means = {name: vars(mean_interval(_tests(seeds))) for name, seeds in present.items()}
        example = next(iter(next(iter(present.values())).values()))
        row = {"graph": graph, "validation": validation, "budget": budget, "methods": means}
        row |= {name: example[name] for name in ("labels", "n_test", "n_classes")}
        rows.append(row | (_verdict(present) or {}))
    summary = {
        name: _summary([row for row in rows if "first" in row and row["validation"] in kinds])
        for name, kinds in (("with", (True,)), ("without", (False,)), ("all", (True, False)))
    }
    return {"cells": len(results), "summary": summary, "rows": rows}


def _order(graph: str, validation: bool, budget: str) -> tuple[int, bool, int]:
    return list(GRAPHS).index(graph), not validation, BUDGETS.index(budget)


def _tests(seeds: Mapping[int, Any]) -> list[float]:
    return [row["test"] for row in seeds.values()]


def _verdict(methods: Mapping[str, Mapping[int, Any]]) -> dict[str, Any] | None:
    """Return the first method on the seeds that all have, its lead over the default and whether that is within one SE.

    None unless the default and all but the inapplicable baselines have run.
    """
    seeds = sorted(set.intersection(*(set(rows) for rows in methods.values())))
    if "default" not in methods or len(methods) < 2 or not seeds:
        return None
    tests = {name: np.array([rows[seed]["test"] for seed in seeds]) for name, rows in methods.items()}
    first = max(tests, key=lambda name: (tests[name].mean(), name == "default"))
    lead = tests[first] - tests["default"]
    if len(seeds) >= _MIN_SEEDS:
        error = float(lead.std(ddof=1)) / len(seeds) ** 0.5
    else:
        mean = float(tests[first].mean())
        error = (mean * (1 - mean) / methods[first][seeds[0]]["n_test"]) ** 0.5
    best_baseline = max((name for name in tests if name != "default"), key=lambda name: tests[name].mean())
    gain = float((tests["default"] - tests[best_baseline]).mean())
    near = first == "default" or float(lead.mean()) <= error
    return {"first": first, "gain": gain, "best_baseline": best_baseline, "error": error, "near": near}


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how many cells there are, and in how many the default is first, or near the first."""
    counts = {"cells": len(rows), "first": sum(row["first"] == "default" for row in rows)}
    near, points = sum(row["near"] for row in rows), sum(row["gain"] >= -0.005 for row in rows)
    mean_gain = float(np.mean([row["gain"] for row in rows])) if rows else None
    return counts | {"first or within one standard error": near, "within 0.5 points": points, "mean gain": mean_gain}


def write_report(folder: Path) -> dict[str, Any]:
    """Write `labels.md`, `labels.json` and `labels.svg` to a folder from the cells in its `labels/`; return tables."""
    tables = tables_of(read_cells(folder / "labels"))
    write_text(folder / "labels.json", json.dumps(tables, indent=1) + "\n")
    write_text(folder / "labels.md", "\n".join(_markdown(tables)) + "\n")
    _draw(tables["rows"], folder / "labels.svg")
    return tables


def _markdown(tables: dict[str, Any]) -> list[str]:
    lines = ["# Accuracy by the number of labels", "", _ABOUT, "", "![curves](labels.svg)", ""]
    lines += ["| cells | number | default first | first or within one standard error | at most 0.5 points below |"]
    lines[-1] += " mean gain over the best baseline |"
    lines.append("|---|" + "--:|" * 5)
    titles = {"with": f"{VALIDATION} validation labels", "without": "no validation labels", "all": "all"}
    for name, title in titles.items():
        lines.append(f"| {title} | {' | '.join(_summary_texts(tables['summary'][name]))} |")
    for graph, validation in product(GRAPHS, (True, False)):
        rows = [row for row in tables["rows"] if (row["graph"], row["validation"]) == (graph, validation)]
        if not rows:
            continue
        names = [name for name in METHODS if any(name in row["methods"] for row in rows)]
        count = rows[0]["labels"]["validation"]
        labels = f"{count:,} validation labels" if validation else "no validation labels"
        lines += ["", f"## {graph}, {labels}", "", f"| training labels | seeds | {' | '.join(names)} | gain |"]
        lines.append("|---|" + "--:|" * (len(names) + 2))
        lines += [f"| {' | '.join(_entries(row, names))} |" for row in rows]
    return lines


def _summary_texts(summary: dict[str, Any]) -> list[str]:
    count = summary["cells"]
    shares = [summary[name] for name in ("first", "first or within one standard error", "within 0.5 points")]
    texts = [f"{share} ({100 * share / count:.0f} %)" if count else "" for share in shares]
    gain = "" if summary["mean gain"] is None else f"{100 * summary['mean gain']:+.1f}"
    return [str(count), *texts, gain]


def _entries(row: dict[str, Any], names: list[str]) -> list[str]:
    per_class = "" if row["budget"].endswith("%") else " per class"
    budget = f"{row['budget'].replace('%', ' %')}{per_class} ({row['labels']['train']:,})"
    runs = max(interval["runs"] for interval in row["methods"].values())
    marks = ["**" if name == "default" and row.get("near", False) else "" for name in names]
    texts = [percent_text(row["methods"].get(name), mark) for name, mark in zip(names, marks, strict=True)]
    gain = f"{100 * row['gain']:+.1f} ({row['best_baseline']})" if "gain" in row else ""
    return [budget, str(runs), *texts, gain]


def _draw(rows: list[dict[str, Any]], file: Path) -> None:
    """Draw a panel for each graph and kind of validation: accuracy by training labels, a curve for each method."""
    from matplotlib import rc_context, rcdefaults, rcParams
    from matplotlib.figure import Figure

    panels = [key for key in product(GRAPHS, (True, False)) if any(_panel(row) == key for row in rows)]
    height = max(1, -(-len(panels) // _COLUMNS))
    with rc_context():
        rcdefaults()  # ignore settings of the user
        rcParams.update({"svg.hashsalt": "labels", "svg.fonttype": "none", "font.size": 8, "axes.titlesize": 8})
        rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False})
        figure = Figure(figsize=(2.8 * _COLUMNS, 2.3 * height), layout="constrained")
        grid = figure.subplots(height, _COLUMNS, squeeze=False).ravel()
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        for axes, key in zip(grid, panels, strict=False):
            _draw_panel(axes, [row for row in rows if _panel(row) == key], key)
        handles = {name: line for axes in grid for line, name in zip(*axes.get_legend_handles_labels(), strict=True)}
        if handles:
            figure.legend(list(handles.values()), list(handles), loc="outside upper center", ncols=len(METHODS))
        write_files(
            {file: lambda stream: figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})}
        )


def _panel(row: dict[str, Any]) -> tuple[str, bool]:
    return row["graph"], row["validation"]


def _draw_panel(axes: Any, rows: list[dict[str, Any]], key: tuple[str, bool]) -> None:
    graph, validation = key
    for name, color in zip(METHODS, _COLORS, strict=True):
        present = [(row["labels"]["train"], row["methods"][name]) for row in rows if name in row["methods"]]
        if present:
            counts, means = [count for count, _ in present], [100 * interval["mean"] for _, interval in present]
            width = 1.8 if name == "default" else 0.9
            axes.plot(counts, means, color=color, label=name, marker="o", markersize=2.5, linewidth=width)
    axes.set_xscale("log")
    axes.set_title(f"{graph}, {'' if validation else 'no '}validation labels", loc="left")
    axes.set_xlabel("training labels")
