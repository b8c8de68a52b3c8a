"""Tables of the paper: their cells, how a cell is run, and the means and tests over its seeds."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cge.data import load_dataset
from cge.data.dataset import Dataset
from cge.errors import InputError
from cge.estimators.baselines import WalkClassifier
from cge.estimators.methods import find_method, make
from cge.evaluation.protocol import run_once, split_of, unpack_flags
from cge.evaluation.significance import mcnemar, mean_interval, paired_t_test
from studies.cells import Cell
from studies.shared_vectors import SharedVectors

__all__ = ["TABLES", "Table", "cells", "current", "read_table", "run", "tables_of"]

TABLES = ("table2", "table3")
_STRICT = ", strict"  # suffix of methods that do not see test nodes in training


@dataclass(frozen=True)
class Table:
    """A table of the paper, as its TOML file describes it.

    Attributes
    ----------
    name, title : str
    datasets : names, the columns
    groups : group → names of methods, the rows
    against : method → the baseline it is tested against
    paper : method → data set → accuracy in the paper
    settings : group → data set → settings; a method and its baseline have the same
    note : str
        A remark about the data.
    """

    name: str
    title: str
    datasets: tuple[str, ...]
    groups: Mapping[str, Sequence[str]]
    against: Mapping[str, str]
    paper: Mapping[str, Mapping[str, float]]
    settings: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    note: str = ""

    @property
    def methods(self) -> list[str]:
        """All methods, in the order of the table."""
        return [method for group in self.groups.values() for method in group]

    def settings_of(self, dataset: str, method: str) -> dict[str, Any]:
        """Return the settings of a method on a data set that differ from its defaults."""
        group = next(group for group, methods in self.groups.items() if method in methods)
        return dict(self.settings.get(group, {}).get(dataset, {}))


@cache
def read_table(name: str) -> Table:
    """Return a table from its TOML file."""
    if name not in TABLES:
        raise InputError(f"there is no table {name!r}; there are {', '.join(TABLES)}")
    content = tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text("utf-8"))
    return Table(name, datasets=tuple(content.pop("datasets")), **content)


def cells(name: str, only: str | None, seeds: int) -> Iterator[Cell]:
    """Yield the cells of a table, or those of `only`: "cora", "cora/gcn" or "*/gcn"; the first seed of all first.

    A deterministic method is run once, since the splits are given. Methods that reuse vectors of others come last.
    """
    table = read_table(name)
    wanted, _, method = (only or "*").partition("/")
    if wanted != "*" and wanted not in table.datasets:
        raise InputError(f"{name} has no data set {wanted!r}; it has {', '.join(table.datasets)}")
    if method and method not in table.methods:
        raise InputError(f"{name} has no method {method!r}; it has {'; '.join(table.methods)}")
    methods = [method] if method else sorted(table.methods, key=lambda name: name.endswith("+features"))
    for seed in range(seeds):
        for dataset in table.datasets if wanted == "*" else (wanted,):
            yield from (Cell(dataset, method, seed) for method in methods if seed == 0 or _is_random(method))


@cache
def _is_random(method: str) -> bool:
    """Return whether a method depends on a seed."""
    return "random_state" in find_method(method.removesuffix(_STRICT)).parameters()


@cache
def _dataset(name: str) -> Dataset:
    return load_dataset(name)


def run(cell: Cell, name: str, folder: Path | None = None) -> dict[str, Any]:
    """Run a cell of a table on one thread; vectors that other cells can use are stored in `folder`."""
    data, split = split_of(_dataset(cell.graph), cell.seed)
    settings = read_table(name).settings_of(cell.graph, cell.method)
    model = make(cell.method.removesuffix(_STRICT), cell.seed, 1, **settings)
    if folder is not None and isinstance(model, WalkClassifier):
        model = SharedVectors(**model.get_params())
        model.folder = folder
    row = run_once(model, data, split, cell.method.endswith(_STRICT))
    row["seconds"] = round(row["seconds"] + getattr(model, "saved_seconds", 0.0), 2)  # as without stored vectors
    return row | {"settings": settings, "test": row["metrics"]["accuracy"], "version": version("cge")}


def current(cell: Cell, row: dict[str, Any], name: str) -> bool:
    """Return whether a cell belongs to the table and was run with its present settings."""
    table = read_table(name)
    return cell.method in table.methods and bool(row.get("settings") == table.settings_of(cell.graph, cell.method))


def tables_of(table: Table, rows: Mapping[Cell, dict[str, Any]]) -> dict[str, Any]:
    """Return means, intervals and paired tests of each data set and method."""
    datasets: dict[str, Any] = {}
    for dataset in table.datasets:
        for method in table.methods:
            if _runs(rows, dataset, method):
                datasets.setdefault(dataset, {})[method] = _summary(table, rows, dataset, method)
    return {"table": table.name, "cells": len(rows), "datasets": datasets}


def _runs(rows: Mapping[Cell, dict[str, Any]], dataset: str, method: str) -> dict[int, dict[str, Any]]:
    """Return the results of a method on a data set by seed."""
    return {cell.seed: row for cell, row in rows.items() if (cell.graph, cell.method) == (dataset, method)}


def _summary(table: Table, rows: Mapping[Cell, dict[str, Any]], dataset: str, method: str) -> dict[str, Any]:
    runs = _runs(rows, dataset, method)
    ordered = [runs[seed] for seed in sorted(runs)]
    summary: dict[str, Any] = {
        "accuracy": vars(mean_interval([row["test"] for row in ordered])),
        "per_seed": [row["test"] for row in ordered],
        "paper": table.paper.get(method, {}).get(dataset),
        "n_test": ordered[0]["n_test"],
        "labels": ordered[0]["labels"],
        "seconds": mean_interval([row["seconds"] for row in ordered]).mean,
        "settings": ordered[0]["settings"],
    }
    baseline = table.against.get(method)
    baseline_runs = _runs(rows, dataset, baseline) if baseline else {}
    seeds = sorted(set(runs) & set(baseline_runs))
    if seeds:
        ours, theirs = ([side[seed]["test"] for seed in seeds] for side in (runs, baseline_runs))
        summary["against"] = vars(paired_t_test(ours, theirs)) | {"method": baseline}
        first = seeds[0]  # the nodes are the same for every seed and must not be counted more than once
        sides = [unpack_flags(side[first]["correct"], side[first]["n_test"]) for side in (runs, baseline_runs)]
        summary["mcnemar"] = vars(mcnemar(*sides)) | {"seed": first}
    return summary
