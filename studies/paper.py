"""The paper's algorithm: how its accuracy depends on the outer steps, on the supervised gradient, and on an oracle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from cge.data import load_dataset
from cge.data.dataset import Dataset
from cge.errors import InputError
from cge.estimators.configs import make_estimator
from cge.estimators.methods import find_method
from cge.estimators.paper_cge import PaperCGE
from cge.evaluation.protocol import run_once, split_of
from studies.cells import Cell
from studies.tables import read_table

__all__ = ["GRAPHS", "METHODS", "REVISION", "OraclePaperCGE", "cells", "current", "run"]

GRAPHS = ("cora", "citeseer")
REVISION = 1  # raised when code changes the results: the cells are run again
OUTER_STEPS = (2, 8, 128)  # updates of the weighting per epoch; table 2 has 32, one for each batch of walks
STRENGTHS = (0.0, 10.0)  # of the supervised gradient of the vectors; table 2 has 1, the paper's


TABLE_2 = {  # rows of table 2 that belong to this study, and what they are here
    "planetoid-t": "strength 1",
    "cge-t-lstm": "strength 1, 32 outer steps",
    "planetoid-i": "strength 1",
    "cge-i-lstm": "strength 1, 32 outer steps",
}


def _methods(letter: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the variants of CGE-T or CGE-I: name → method of table 2 and changed settings."""
    learned, uniform = f"cge-{letter}-lstm", f"planetoid-{letter}"
    methods: dict[str, tuple[str, dict[str, Any]]] = {}
    for strength in STRENGTHS:
        for method in (uniform, learned):
            methods[f"{method}, strength {strength:g}"] = (method, {"supervised_strength": strength})
    for steps in OUTER_STEPS:
        methods[f"{learned}, {steps} outer steps"] = (learned, {"outer_steps": steps})
    methods[f"{learned}, oracle"] = (learned, {})
    methods[f"{uniform}, sgd"] = (uniform, {"optimizer": "sgd"})
    return methods


METHODS = {name: variant for letter in ("t", "i") for name, variant in _methods(letter).items()}


class OraclePaperCGE(PaperCGE):
    """`PaperCGE` whose weighting network learns from all labels of a graph except those that train the vectors.

    The bound of what a weighting could gain with this network and rule: it sees validation and test labels.
    """

    outer_codes: ClassVar[Any] = None  # of all labels, −1 for unknown

    def _outer_labels(
        self, codes: npt.NDArray[Any], train_idx: npt.NDArray[Any], validation_idx: npt.NDArray[Any]
    ) -> tuple[npt.NDArray[Any], bool, tuple[Sequence[npt.NDArray[Any]], npt.NDArray[Any]]]:
        outer = np.setdiff1d(np.flatnonzero(self.outer_codes >= 0), train_idx)
        known = codes.copy()
        known[outer] = self.outer_codes[outer]
        return known, True, ([outer], validation_idx)


def cells(only: str | None, seeds: int) -> Iterator[Cell]:
    """Yield the cells of the study, or those of `only`: "cora", "cora/cge-t-lstm, oracle" or "*/planetoid-t, sgd"."""
    wanted, _, method = (only or "*").partition("/")
    if wanted != "*" and wanted not in GRAPHS:
        raise InputError(f"the study has no graph {wanted!r}; it has {', '.join(GRAPHS)}")
    if method and method not in METHODS:
        raise InputError(f"the study has no method {method!r}; it has {'; '.join(METHODS)}")
    for seed in range(seeds):
        for graph in GRAPHS if wanted == "*" else (wanted,):
            yield from (Cell(graph, name, seed) for name in ([method] if method else METHODS))


@cache
def _dataset(name: str) -> Dataset:
    return load_dataset(name)


def settings_of(cell: Cell) -> dict[str, Any]:
    """Return the settings of a cell that differ from the defaults: those of table 2, and those of the variant."""
    method, changed = METHODS[cell.method]
    settings = read_table("table2").settings_of(cell.graph, method) | changed
    if "optimizer" in changed:
        settings.pop("head_lr", None)  # which table 2 selects for Adam
    return settings


def run(cell: Cell) -> dict[str, Any]:
    """Run a cell on one thread."""
    data, split = split_of(_dataset(cell.graph), cell.seed)
    settings, method = settings_of(cell), find_method(METHODS[cell.method][0])
    oracle = cell.method.endswith(", oracle")
    fixed = {"random_state": cell.seed, "n_jobs": 1}
    model = make_estimator(OraclePaperCGE if oracle else PaperCGE, settings | dict(method.settings) | fixed)
    if oracle:
        model.outer_codes = data.labels
    row = run_once(model, data, split)
    last = model.history_[-1]
    result = {
        "settings": settings,
        "revision": REVISION,
        "test": row["metrics"]["accuracy"],
        "validation": max(epoch.validation_accuracy for epoch in model.history_),
        "weight_mean": last.weight_mean,
        "weight_std": last.weight_std,
    }
    return row | result


def current(cell: Cell, row: dict[str, Any]) -> bool:
    """Return whether a stored cell has the present settings and revision."""
    known = cell.graph in GRAPHS and cell.method in METHODS
    return known and row.get("revision", 0) >= REVISION and bool(row.get("settings") == settings_of(cell))
