"""Tables of the study of selection, from its cells."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cge.store.atomic import write_text
from studies.cells import Cell, read_cells
from studies.selection import GRAPHS
from studies.selection_rules import RULES

__all__ = ["tables_of", "write_report"]

_ABOUT = (
    "How the model search should select among its candidates, or average them. Candidates are trained as in the "
    "search. *Nested validation*: epoch and candidates are selected on a random half of the validation nodes, and the "
    "accuracy is that on the other half; mean of 20 halves and of the seeds, in percent. No test label is involved. "
    "*Final*: after what was selected has been trained until it stops; columns of graphs are final. Test accuracies "
    "are in a table of their own, with the *regret*: how much less accurate than the candidate with the highest mean "
    "test accuracy on this graph, each trained until it stops. The default is without prior correction, like the "
    "candidates. Written by `cge reproduce selection`."
)


def tables_of(results: Mapping[Cell, dict[str, Any]]) -> dict[str, Any]:
    """Return, for each graph, nested accuracy by rule, and the regret of the default."""
    graphs: dict[str, Any] = {}
    for graph in GRAPHS:
        rows = {cell.seed: row for cell, row in results.items() if (cell.graph, cell.method) == (graph, "candidates")}
        defaults = {cell.seed: row for cell, row in results.items() if (cell.graph, cell.method) == (graph, "default")}
        if not rows:
            continue
        nested, final = (
            {rule: float(np.mean([row["rules"][rule][key] for row in rows.values()])) for rule in RULES}
            for key in ("nested", "nested, final")
        )
        sizes = {"seeds": len(rows), "n_validation": rows[min(rows)]["n_validation"]}
        graphs[graph] = {**sizes, "nested": nested, "final": final}
        seeds = sorted(rows.keys() & defaults.keys())
        if seeds:
            graphs[graph]["test"] = _regret([rows[seed] for seed in seeds], [defaults[seed] for seed in seeds])
    return {"cells": len(results), "graphs": graphs}


def _regret(rows: list[dict[str, Any]], defaults: list[dict[str, Any]]) -> dict[str, Any]:
    """Return test accuracies of the default and of the best candidate that was trained with all seeds."""
    accuracy = [dict(zip(row["candidates"], row["final test"], strict=True)) for row in rows]
    shared = set.intersection(*(set(each) for each in accuracy))
    means = {name: float(np.mean([each[name] for each in accuracy])) for name in sorted(shared)}
    best, default = max(means, key=lambda name: means[name]), float(np.mean([row["test"] for row in defaults]))
    return {
        "seeds": len(rows),
        "default": default,
        "best": best,
        "best_test": means[best],
        "regret": means[best] - default,
    }


def _means(graphs: dict[str, Any], key: str) -> dict[str, float]:
    """Return the mean over graphs of each rule."""
    return {rule: sum(graph[key][rule] for graph in graphs.values()) / max(len(graphs), 1) for rule in RULES}


def write_report(folder: Path) -> dict[str, Any]:
    """Write `selection.md` and `selection.json` to a folder from the cells in its `selection/`; return the tables."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = tables_of(read_cells(folder / "selection"))
    graphs = tables["graphs"]
    lines = ["# Selection of candidates", "", _ABOUT, "", "## Nested validation", ""]
    lines += [f"| rule | mean | final | {' | '.join(graphs)} |", f"|---|--:|--:|{'--:|' * len(graphs)}"]
    means, final_means = (_means(graphs, key) for key in ("nested", "final"))
    for rule in sorted(RULES, key=lambda rule: -final_means[rule]):
        cells = [f"{100 * graph['final'][rule]:.1f}" for graph in graphs.values()]
        lines.append(f"| {rule} | {100 * means[rule]:.2f} | {100 * final_means[rule]:.2f} | {' | '.join(cells)} |")
    lines += [f"| *seeds* | | | {' | '.join(str(graph['seeds']) for graph in graphs.values())} |", ""]
    tested = {name: graph["test"] for name, graph in graphs.items() if "test" in graph}
    lines += ["## Test accuracy", "", "| graph | seeds | default | best candidate | its accuracy | regret |"]
    lines.append("|---|--:|--:|---|--:|--:|")
    for name, row in tested.items():
        values = [f"{100 * row[key]:.1f}" for key in ("default", "best_test", "regret")]
        lines.append(f"| {name} | {row['seeds']} | {values[0]} | {row['best']} | {values[1]} | {values[2]} |")
    write_text(folder / "selection.md", "\n".join([*lines, ""]))
    write_text(folder / "selection.json", json.dumps(tables, indent=1) + "\n")
    return tables
