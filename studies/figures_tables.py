"""Means and intervals over seeds of the paper's analyses, and paired tests against the untrained network."""

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

PAPER_R = {  # correlations in the paper's two figures
    "length": {"citeseer": -0.82, "cora": -0.97, "pubmed": -0.62},
    "diversity": {"citeseer": 0.98, "cora": 0.92, "pubmed": 0.84},
}
_CORRELATIONS = ("r", "r_paths", "r_within")


def tables_of(results: Mapping[Cell, Row]) -> Row:
    """Return each analysis, by data set and outer rule: means and intervals over seeds, and paired tests."""
    tables: Row = {}
    for name, (graphs, _) in ANALYSES.items():
        for graph, outer in product(graphs, OUTER):
            key = (graph, f"{name}, {outer}")
            runs = {cell.seed: row for cell, row in results.items() if (cell.graph, cell.method) == key}
            if runs:
                rows = [runs[seed] for seed in sorted(runs)]
                common = _common(rows) | {"seeds": sorted(runs), "paper": PAPER_R.get(name, {}).get(graph)}
                tables.setdefault(name, {}).setdefault(graph, {})[outer] = common | _SUMMARIES[name](rows)
    return {"cells": len(results), "analyses": tables}


def _common(rows: Rows) -> Row:
    """Return what is the same in every analysis."""
    return {
        "weight": _interval([float(np.mean(row["trained"]["mean"])) for row in rows]),
        "test": _interval([row["test"] for row in rows]),
        "collapsed": sum(row["collapsed"] for row in rows),
        "constant": sum(row["constant"] for row in rows),
        "seconds": float(np.mean([row["seconds"] for row in rows])),
        "best_epochs": [row["best_epoch"] for row in rows],
        **{name: rows[0][name] for name in ("labels", "n_test", "sampled", "window")},
    }


def _interval(values: Sequence[float | None], bound: float = np.inf) -> Row | None:
    """Return mean and interval over the seeds that have a value, clipped to ±`bound`."""
    present = [value for value in values if value is not None]
    if not present:
        return None
    interval = dict(vars(mean_interval(present)))
    return interval | {end: interval[end] and float(np.clip(interval[end], -bound, bound)) for end in ("low", "high")}


def _tested(trained: Sequence[float | None], untrained: Sequence[float | None], bound: float = np.inf) -> Row | None:
    """Return mean and interval, p of the mean being 0, and a paired test against the untrained network."""
    interval = _interval(trained, bound)
    if interval is None:
        return None
    present = [value for value in trained if value is not None]
    pairs = [
        (after, before)
        for after, before in zip(trained, untrained, strict=True)
        if after is not None and before is not None
    ]
    interval |= {"p": paired_t_test(present, [0.0] * len(present)).p, "per_seed": list(trained)}
    change = paired_t_test([after for after, _ in pairs], [before for _, before in pairs])
    return interval | {"untrained": _interval(untrained, bound), "change": vars(change)}


def _distributions(rows: Rows) -> Row:
    def summary(key: str) -> Row:
        runs = [row[key] for row in rows]
        single = {name: _interval([run[name] for run in runs]) for name in ("mean", "sd", "effective")}
        quantiles = {share: _interval([run["quantiles"][share] for run in runs]) for share in runs[0]["quantiles"]}
        return single | {"quantiles": quantiles, "shares": np.mean([run["shares"] for run in runs], axis=0).tolist()}

    return summary("trained") | {"untrained": summary("untrained")}


def _relevances(rows: Rows) -> Row:
    def differences(key: str, first: str, second: str) -> list[float | None]:
        """Return by how much the weights of the first group are larger, relative to the mean weight."""
        runs = [row[key] for row in rows]
        return [
            None if run[first] is None or run[second] is None else (run[first] - run[second]) / run["mean"]
            for run in runs
        ]

    def groups(relative: bool) -> Row:
        runs = [row["trained"] for row in rows]
        scales = [run["mean"] if relative else 1.0 for run in runs]
        return {
            name: _interval([run[name] and run[name] / scale for run, scale in zip(runs, scales, strict=True)])
            for name in runs[0]["paths"]
        }

    pairs = {"gain": ("with_label", "without_label"), "control": ("seen", "masked")}
    tests = {
        name: _tested(differences("trained", *pair), differences("untrained", *pair)) for name, pair in pairs.items()
    }
    return tests | {"groups": groups(False), "relative": groups(True), "paths": rows[0]["trained"]["paths"]}


def _class_matrices(rows: Rows) -> Row:
    def relative(key: str) -> Array:
        """Return mean weights relative to that of all paths, `(runs, target, venue)`."""
        matrices: Array = np.array([row[key]["matrix"] for row in rows], float)
        matrices /= np.array([row[key]["mean"] for row in rows], float)[:, :, None]
        return matrices

    def own(matrices: Array) -> list[float | None]:
        """Return by how much paths through the target venue have larger weights than paths through another venue."""
        same = np.eye(matrices.shape[1], dtype=bool)
        gains = np.nanmean(matrices[:, same], axis=1) - np.nanmean(matrices[:, ~same], axis=1)
        return [float(gain) for gain in gains]

    trained, untrained = relative("trained"), relative("untrained")
    strongest = np.nanargmax(trained, axis=2) == np.arange(trained.shape[1])
    return {
        "venues": rows[0]["venues"],
        "sizes": rows[0]["sizes"],
        "relative": [
            [
                _interval([None if np.isnan(value) else float(value) for value in trained[:, target, venue]])
                for venue in range(trained.shape[2])
            ]
            for target in range(trained.shape[1])
        ],
        "own": _tested(own(trained), own(untrained)),
        "own_strongest": _interval([float(share) for share in strongest.mean(axis=1)]),
    }


def _trends(rows: Rows) -> Row:
    return {name: _trend(rows, name) for name in ("length", "diversity")}


def _trend(rows: Rows, name: str) -> Row:
    single = f"{name} with single nodes"

    def each(key: str, part: str, value: str) -> list[Any]:
        return [row[key][part][value] for row in rows]

    def curve(key: str) -> Row:
        """Return the mean weight relative to that of all paths, at each value, with intervals."""
        points: dict[int, list[float]] = {}
        for row in rows:
            part = row[key][single]
            for value, mean in zip(part["values"], part["means"], strict=True):
                points.setdefault(value, []).append(mean / row[key]["mean"])
        return {str(value): _interval(points[value]) for value in sorted(points)}

    tests = {key: _tested(each("trained", name, key), each("untrained", name, key), 1) for key in _CORRELATIONS}
    tests["r_single"] = _tested(each("trained", single, "r"), each("untrained", single, "r"), 1)
    return tests | {"curve": curve("trained"), "untrained": curve("untrained")}


_SUMMARIES: dict[str, Callable[[Rows], Row]] = {
    "distribution": _distributions,
    "relevance": _relevances,
    "classes": _class_matrices,
    "length": _trends,
    "diversity": _trends,
}
