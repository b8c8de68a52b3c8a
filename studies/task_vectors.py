"""Two tasks on one graph: whether the vectors of each task serve it better than those of the other task."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.data import load_dataset
from cge.data.dataset import Dataset
from cge.data.sets.catalog import dataset_info
from cge.data.sets.fetch import fetch_files
from cge.errors import InputError
from cge.estimators.cge import CGE
from cge.estimators.multi_task import multi_task
from cge.evaluation.protocol import draw_split
from cge.evaluation.significance import mean_interval, paired_t_test
from cge.report.charts import project
from cge.store.atomic import write_files, write_text
from studies.cells import Cell, read_cells
from studies.table_text import percent_of_runs

__all__ = ["TASKS", "cells", "run", "write_report"]

Array = npt.NDArray[Any]

TASKS = ("venue", "decade")
_PER_CLASS = 20  # training labels of each class
_ABOUT = (
    "Papers of IEEE VIS and their citations (no features), two tasks: the venue and the decade of a paper. A default "
    "`cge.CGE` is trained for each task on 20 labels per class, with 500 validation labels. Test accuracy in percent "
    "of a logistic regression on the vectors alone, trained on the labels of the task in the column; mean ± standard "
    "deviation over seeds (splits). Written by `cge reproduce tasks`."
)


def cells(only: str | None, seeds: int) -> Iterator[Cell]:
    """Yield the cells of the study; `only` may be "vispub"."""
    if only not in (None, "*", "vispub"):
        raise InputError(f"the study has only the graph vispub, found {only!r}")
    yield from (Cell("vispub", "cge", seed) for seed in range(seeds))


@cache
def _tasks() -> tuple[Dataset, dict[str, Array]]:
    """Return the graph, and of each task the class of every node."""
    data, info = load_dataset("vispub"), dataset_info("vispub")
    with (fetch_files(info.name, info.files) / info.files[0].path).open(encoding="utf-8", newline="") as lines:
        years = np.array([int(row["year"]) for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)])
    return data, {"venue": data.labels, "decade": (years - 1990) // 10}


def _fit(seed: int) -> tuple[Any, dict[str, dict[int, int]]]:
    """Return the models of both tasks, and the test labels of each."""
    data, tasks = _tasks()
    parts: dict[str, list[dict[int, int]]] = {}
    for name, all_labels in tasks.items():
        labels, split = draw_split(all_labels, _PER_CLASS, seed)
        nodes = (split.train, split.validation, split.test)
        ids = data.graph.node_ids
        parts[name] = [dict(zip(ids[part].tolist(), labels[part].tolist(), strict=True)) for part in nodes]
    train, validation, test = ({name: part[place] for name, part in parts.items()} for place in range(3))
    return multi_task(data.graph, train, validation, estimator=CGE(random_state=seed, n_jobs=1)), test


def run(cell: Cell) -> dict[str, Any]:
    """Run a cell on one thread."""
    start = time.process_time()
    models, test = _fit(cell.seed)
    scores = models.score_vectors(test)
    row: dict[str, Any] = {
        "scores": scores,
        "test": float(np.mean([scores[name][name] for name in TASKS])),
        "weighting": " and ".join(model.weighting_ for model in models.models.values()),
        "labels": {name: model.labels_seen_ for name, model in models.models.items()},
        "n_test": {name: len(labels) for name, labels in test.items()},
        "seconds": round(time.process_time() - start, 1),
    }
    if cell.seed == 0:  # the maps of the report
        data, tasks = _tasks()
        vectors = {name: model.embedding_ for name, model in models.models.items()}
        row["maps"] = {name: project(each, "pca", 0).round(3).tolist() for name, each in vectors.items()}
        row["classes"] = {"venue": list(data.class_names), "decade": ["1990s", "2000s", "2010s"]}
        row["class_of_node"] = {name: labels.tolist() for name, labels in tasks.items()}
    return row


def write_report(folder: Path) -> dict[str, Any]:
    """Write `tasks.md`, `tasks.json` and a figure with the maps of both tasks; return the tables."""
    results = read_cells(folder / "tasks")
    runs = [row["scores"] for _, row in sorted(results.items())]
    means = {
        source: {name: vars(mean_interval([scores[source][name] for scores in runs])) for name in TASKS}
        for source in (TASKS if runs else ())
    }
    lines = ["# Vectors of two tasks on one graph", "", _ABOUT, ""]
    lines += ["| vectors of the task | venue | decade |", "|---|--:|--:|"]
    lines += [
        f"| {source} | {' | '.join(percent_of_runs(row[name]) for name in TASKS)} |" for source, row in means.items()
    ]
    gains = {}
    for name, other in (TASKS, TASKS[::-1]) if runs else ():
        own, others = ([scores[source][name] for scores in runs] for source in (name, other))
        gains[name] = vars(paired_t_test(own, others))
        p = "" if gains[name]["p"] is None else f" (paired t-test, p = {gains[name]['p']:.2g})"
        lines += ["", f"Own vectors on {name}: {100 * gains[name]['gain']:+.1f} percentage points{p}."]
    first = next((row for row in results.values() if "maps" in row), None)
    if first is not None:
        lines += ["", "![Maps of the vectors of both tasks](tasks.svg)"]
        _draw_maps(first, folder / "tasks.svg")
    write_text(folder / "tasks.md", "\n".join([*lines, ""]))
    tables = {"cells": len(results), "scores": means, "gains": gains}
    write_text(folder / "tasks.json", json.dumps(tables, indent=1) + "\n")
    return tables


def _draw_maps(row: dict[str, Any], file: Path) -> None:
    """Draw the vectors of both tasks in two dimensions, colored by the labels of each task."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": "tasks", "svg.fonttype": "none"}):
        figure = Figure(figsize=(9, 8), layout="constrained")
        for axes_row, (source, places) in zip(figure.subplots(2, 2), row["maps"].items(), strict=True):
            positions = np.array(places)[::3]  # every third node is shown
            for axes, (name, codes) in zip(axes_row, row["class_of_node"].items(), strict=True):
                for code, label in enumerate(row["classes"][name]):
                    axes.plot(*positions[np.array(codes)[::3] == code].T, ".", markersize=2, label=label)
                axes.set(title=f"vectors for {source}, colored by {name}", xticks=[], yticks=[])
                axes.legend(fontsize=7, markerscale=3)
        write_files({file: lambda stream: figure.savefig(stream, format="svg", metadata={"Date": None})})
