"""What the cells of the paper's analyses come to: means and intervals over seeds, and paired tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.evaluation.significance import mean_interval, paired_t_test
from studies.cells import Cell
from studies.figures import ANALYSES, OUTER

__all__ = ["PAPER_R", "tables_of"]

Array = npt.NDArray[Any]
Row = dict[str, Any]
Rows = Sequence[Row]

PAPER_R = {  # of its two figures
    "length": {"citeseer": -0.82, "cora": -0.97, "pubmed": -0.62},
    "diversity": {"citeseer": 0.98, "cora": 0.92, "pubmed": 0.84},
}
_RS = ("r", "r_paths", "r_within")


def tables_of(found: Mapping[Cell, Row]) -> Row:
    """Return each analysis, by data set and outer rule: means and intervals over seeds, and paired tests."""
    tables: Row = {}
    for name, (graphs, _) in ANALYSES.items():
        for graph, outer in product(graphs, OUTER):
            mine = (graph, f"{name}, {outer}")
            runs = {cell.seed: row for cell, row in found.items() if (cell.graph, cell.method) == mine}
            if runs:
                rows = [runs[seed] for seed in sorted(runs)]
                told = _common(rows) | {"seeds": sorted(runs), "paper": PAPER_R.get(name, {}).get(graph)}
                tables.setdefault(name, {}).setdefault(graph, {})[outer] = told | _SUMMARIES[name](rows)
    return {"cells": len(found), "analyses": tables}


def _common(rows: Rows) -> Row:
    """Return what is told of every analysis."""
    return {
        "weight": _interval([float(np.mean(row["found"]["mean"])) for row in rows]),
        "test": _interval([row["test"] for row in rows]),
        "collapsed": sum(any("collapsed" in text for text in row["said"]) for row in rows),
        "flat": sum(any("flat" in text for text in row["said"]) for row in rows),
        "seconds": float(np.mean([row["seconds"] for row in rows])),
        "max_epochs": [row["best_round"] for row in rows],
        **{name: rows[0][name] for name in ("labels", "n_test", "sampled", "window")},
    }


def _interval(values: Sequence[float | None], within: float = np.inf) -> Row | None:
    """Return mean and interval over seeds, without those that have no value; bounds stay `within` the possible."""
    known = [one for one in values if one is not None]
    if not known:
        return None
    told = dict(vars(mean_interval(known)))
    return told | {name: told[name] and float(np.clip(told[name], -within, within)) for name in ("low", "high")}


def _tested(values: Sequence[float | None], before: Sequence[float | None], within: float = np.inf) -> Row | None:
    """Return mean and interval of what is 0 by chance, p of that, and a paired test against before training."""
    told = _interval(values, within)
    if told is None:
        return None
    known = [one for one in values if one is not None]
    both = [(one, other) for one, other in zip(values, before, strict=True) if one is not None and other is not None]
    told |= {
        "p": paired_t_test(known, [0.0] * len(known)).p,
        "per_seed": list(values),
        "before": _interval(before, within),
    }
    return told | {"against_before": vars(paired_t_test([one for one, _ in both], [other for _, other in both]))}


def _distributions(rows: Rows) -> Row:
    def told(when: str) -> Row:
        runs = [row[when] for row in rows]
        single = {name: _interval([run[name] for run in runs]) for name in ("mean", "sd", "effective")}
        quantiles = {share: _interval([run["quantiles"][share] for run in runs]) for share in runs[0]["quantiles"]}
        return single | {"quantiles": quantiles, "shares": np.mean([run["shares"] for run in runs], axis=0).tolist()}

    return told("found") | {"before": told("before")}


def _relevances(rows: Rows) -> Row:
    def apart(when: str, one: str, other: str) -> list[float | None]:
        """Return by how much one group weighs more than another, as a share of the mean weight."""
        runs = [row[when] for row in rows]
        missing = [run[one] is None or run[other] is None for run in runs]
        return [
            None if gone else (run[one] - run[other]) / run["mean"] for run, gone in zip(runs, missing, strict=True)
        ]

    def groups(relative: bool) -> Row:
        runs = [row["found"] for row in rows]
        scale = [run["mean"] if relative else 1.0 for run in runs]
        return {
            name: _interval([run[name] and run[name] / by for run, by in zip(runs, scale, strict=True)])
            for name in runs[0]["paths"]
        }

    pairs = {"gain": ("with_label", "without_label"), "control": ("seen", "masked")}
    tests = {name: _tested(apart("found", *pair), apart("before", *pair)) for name, pair in pairs.items()}
    return tests | {"groups": groups(False), "relative": groups(True), "paths": rows[0]["found"]["paths"]}


def _heat_maps(rows: Rows) -> Row:
    def relative(when: str) -> Array:
        """Return mean weights over that of all paths, `(runs, target, venue)`."""
        matrices: Array = np.array([row[when]["matrix"] for row in rows], float)
        matrices /= np.array([row[when]["mean"] for row in rows], float)[:, :, None]
        return matrices

    def own(matrices: Array) -> list[float | None]:
        """Return by how much paths that contain the target itself weigh more than those that contain another venue."""
        same = np.eye(matrices.shape[1], dtype=bool)
        gains = np.nanmean(matrices[:, same], axis=1) - np.nanmean(matrices[:, ~same], axis=1)
        return [float(one) for one in gains]

    now, before = relative("found"), relative("before")
    strongest = np.nanargmax(now, axis=2) == np.arange(now.shape[1])
    return {
        "venues": rows[0]["venues"],
        "sizes": rows[0]["sizes"],
        "relative": [
            [_interval([None if np.isnan(one) else float(one) for one in now[:, j, i]]) for i in range(now.shape[2])]
            for j in range(now.shape[1])
        ],
        "own": _tested(own(now), own(before)),
        "own_strongest": _interval([float(one) for one in strongest.mean(axis=1)]),
    }


def _trends(rows: Rows) -> Row:
    return {name: _trend(rows, name) for name in ("length", "diversity")}


def _trend(rows: Rows, name: str) -> Row:
    single = f"{name} with single nodes"

    def each(when: str, part: str, what: str) -> list[Any]:
        return [row[when][part][what] for row in rows]

    def curve(when: str) -> Row:
        """Return the mean weight over that of all paths, at each value, with intervals."""
        points: dict[int, list[float]] = {}
        for row in rows:
            part = row[when][single]
            for value, mean in zip(part["values"], part["means"], strict=True):
                points.setdefault(value, []).append(mean / row[when]["mean"])
        return {str(value): _interval(points[value]) for value in sorted(points)}

    found = {what: _tested(each("found", name, what), each("before", name, what), 1) for what in _RS}
    found["r_single"] = _tested(each("found", single, "r"), each("before", single, "r"), 1)
    return found | {"curve": curve("found"), "before": curve("before")}


_SUMMARIES: dict[str, Callable[[Rows], Row]] = {
    "distribution": _distributions,
    "relevance": _relevances,
    "classes": _heat_maps,
    "length": _trends,
    "diversity": _trends,
}
