"""Tables of the paper: their cells, how a cell is run, and the means and tests over its seeds."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from cge.data import load_dataset
from cge.data.dataset import Dataset
from cge.errors import InputError
from cge.estimators.baselines import WalkClassifier
from cge.estimators.methods import find_method, make
from cge.evaluation.protocol import run_once, split_of, unpack_flags
from cge.evaluation.significance import holm, mcnemar, mean_interval, paired_t_test
from studies.cells import Cell
from studies.shared_vectors import SharedVectors

__all__ = ["TABLES", "Table", "belongs", "cells", "current", "plain_name", "read_table", "run", "tables_of"]

TABLES = ("table2", "table3")
_STRICT = ", strict"  # suffix of methods that do not see test nodes in training
_PRINTED = ", printed"  # suffix of methods that follow the paper where the other rows depart from it


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
    append : method → data set → settings of the model whose predictions a GCN has as features
    revision : group → number that is raised when code changes the results of its methods: their cells are run again
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
    append: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    revision: Mapping[str, int] = field(default_factory=dict)
    note: str = ""

    @property
    def methods(self) -> list[str]:
        """All methods, in the order of the table."""
        return [method for group in self.groups.values() for method in group]

    def settings_of(self, dataset: str, method: str) -> dict[str, Any]:
        """Return the settings of a method on a data set that differ from its defaults."""
        return dict(self.settings.get(self._group_of(method), {}).get(dataset, {}))

    def revision_of(self, method: str) -> int:
        """Return the revision of a method's results."""
        return self.revision.get(self._group_of(method), 0)

    def _group_of(self, method: str) -> str:
        return next(group for group, methods in self.groups.items() if method in methods)


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
    return "random_state" in find_method(plain_name(method)).parameters()


def plain_name(method: str) -> str:
    """Return the name of the method that a row of a table runs."""
    return method.removesuffix(_STRICT).removesuffix(_PRINTED)


@cache
def _dataset(name: str) -> Dataset:
    return load_dataset(name)


def run(cell: Cell, name: str, folder: Path | None = None) -> dict[str, Any]:
    """Run a cell of a table on one thread; vectors that other cells can use are stored in `folder`."""
    data, split = split_of(_dataset(cell.graph), cell.seed)
    table = read_table(name)
    settings = table.settings_of(cell.graph, cell.method)
    model = make(plain_name(cell.method), cell.seed, 1, **settings)
    if cell.method in table.append:
        model.append_settings = dict(table.append[cell.method][cell.graph])
    if folder is not None and isinstance(model, WalkClassifier):
        model = SharedVectors(**model.get_params())
        model.folder = folder
    row = run_once(model, data, split, cell.method.endswith(_STRICT))
    row["seconds"] = round(row["seconds"] + getattr(model, "saved_seconds", 0.0), 2)  # as without stored vectors
    stated = {"settings": _all_settings(table, cell), "revision": table.revision_of(cell.method)}
    return row | stated | {"test": row["metrics"]["accuracy"]}


def _all_settings(table: Table, cell: Cell) -> dict[str, Any]:
    """Return the settings of a cell, with those of the model whose predictions it appends."""
    append = table.append.get(cell.method, {}).get(cell.graph)
    return table.settings_of(cell.graph, cell.method) | ({} if append is None else {"append_settings": dict(append)})


def belongs(cell: Cell, row: dict[str, Any], name: str) -> bool:
    """Return whether a cell belongs to the table and was run with its present settings, perhaps by older code."""
    table = read_table(name)
    return cell.method in table.methods and bool(row.get("settings") == _all_settings(table, cell))


def current(cell: Cell, row: dict[str, Any], name: str) -> bool:
    """Return whether a cell need not be run again: it `belongs`, and has the revision of the table."""
    return belongs(cell, row, name) and row.get("revision", 0) >= read_table(name).revision_of(cell.method)


def tables_of(table: Table, rows: Mapping[Cell, dict[str, Any]]) -> dict[str, Any]:
    """Return means, intervals and paired tests of each data set and method."""
    datasets: dict[str, Any] = {}
    for dataset in table.datasets:
        for method in table.methods:
            if _runs(rows, dataset, method):
                datasets.setdefault(dataset, {})[method] = _summary(table, rows, dataset, method)
    tests = [row["against"] for methods in datasets.values() for row in methods.values() if "against" in row]
    for test, corrected in zip(tests, holm([test["p"] for test in tests]), strict=True):
        test["p_holm"] = corrected
    return {"table": table.name, "cells": len(rows), "datasets": datasets}


def _runs(rows: Mapping[Cell, dict[str, Any]], dataset: str, method: str) -> dict[int, dict[str, Any]]:
    """Return the results of a method on a data set by seed: only those of its latest revision, which are comparable."""
    runs = {cell.seed: row for cell, row in rows.items() if (cell.graph, cell.method) == (dataset, method)}
    latest = max((row.get("revision", 0) for row in runs.values()), default=0)
    return {seed: row for seed, row in runs.items() if row.get("revision", 0) == latest}


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
        "versions": sorted({row.get("version", "not recorded") for row in ordered}),
        "outdated": ordered[0].get("revision", 0) < table.revision_of(method),
    }
    baseline = table.against.get(method)
    baseline_runs = _runs(rows, dataset, baseline) if baseline else {}
    seeds = sorted(set(runs) & set(baseline_runs))
    # Runs of older code are not compared with those of newer code.
    if seeds and len({row.get("revision", 0) for row in (runs[seeds[0]], baseline_runs[seeds[0]])}) == 1:
        ours, theirs = ([side[seed]["test"] for seed in seeds] for side in (runs, baseline_runs))
        summary["against"] = vars(paired_t_test(ours, theirs)) | {"method": baseline}
        first = seeds[0]  # the nodes are the same for every seed and must not be counted more than once
        sides = [unpack_flags(side[first]["correct"], side[first]["n_test"]) for side in (runs, baseline_runs)]
        summary["mcnemar"] = vars(mcnemar(*sides)) | {"seed": first}
    return summary
