"""Tables of the paper, run again: which cells there are, how one is run, and what is written about them."""

from __future__ import annotations

import json
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
from cge.evaluation.significance import mcnemar, mean_interval, paired_t_test, stars
from cge.store.atomic import write_files, write_text
from studies.cells import Cell, read_cells
from studies.shared import SharedVectors

__all__ = ["TABLES", "Table", "cells", "current", "read_table", "run", "tables_of", "write_report"]

TABLES = ("table2", "table3")
_STRICT = ", strict"
_ABOUT = (
    "Test accuracy in percent, mean ± standard deviation over seeds (their number in brackets; what draws no random "
    "numbers is run once), and the paper's own figure after the slash. Better than the method it is paired with: "
    "stars by a paired t-test over seeds (\\* p < 0.05, \\*\\* p < 0.01), † by McNemar's test over the nodes of the "
    "first seed (p < 0.05); neither is corrected for the number of pairs. Validation labels choose, test labels score "
    "once. Splits are the published ones, so that seeds tell the chance of training only; on {nodes} test nodes a "
    "share has a standard error of about {error:.1f} points besides. Made by `cge reproduce {name}`."
)
_LEVEL = 2.0  # points: about a standard error of the difference between shares of 500 and of 1,000 nodes
_EACH = (
    f"Intervals are over seeds. A cell is level with the paper's figure within {_LEVEL:g} points, about one standard "
    "error where the paper tests on some 500 nodes and we on 1,000. Gains are over the method's pair, on the seeds "
    "that both have (their number in brackets): p over seeds is of the paired t-test, p over nodes of McNemar's exact "
    "test for the first seed."
)


@dataclass(frozen=True)
class Table:
    """A table of the paper: its data sets, methods in groups, the paper's figures and the settings.

    `sizes` are the vectors' by data set, `settings` others by group and data set: a method and the twin that it is
    compared with always have the same. `note` is what has to be known of the data.
    """

    name: str
    title: str
    datasets: tuple[str, ...]
    groups: Mapping[str, Sequence[str]]
    against: Mapping[str, str]
    paper: Mapping[str, Mapping[str, float]]
    sizes: Mapping[str, int]
    settings: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    note: str = ""

    @property
    def methods(self) -> list[str]:
        """All methods, in the order of the table."""
        return [method for group in self.groups.values() for method in group]

    def settings_of(self, dataset: str, method: str) -> dict[str, Any]:
        """Return the settings of a method on a data set that are not its defaults."""
        told: dict[str, Any] = {}
        if "setting" in find_method(method.removesuffix(_STRICT)).settings and dataset in self.sizes:
            told["dim"] = self.sizes[dataset]
        for group, methods in self.groups.items():
            if method in methods:
                told |= self.settings.get(group, {}).get(dataset, {})
        return told


@cache
def read_table(name: str) -> Table:
    """Return a table as its TOML tells it."""
    if name not in TABLES:
        raise InputError(f"there is no table {name!r}; there are {', '.join(TABLES)}")
    told = tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text("utf-8"))
    return Table(name, datasets=tuple(told.pop("datasets")), **told)


def cells(name: str, only: str | None, seeds: int) -> Iterator[Cell]:
    """Yield the cells of a table, or those of `only`: "cora", "cora/gcn" or "*/gcn"; the first seed of all first.

    A method that draws no random numbers is run once: the splits are given. Those that read others' vectors come last.
    """
    table = read_table(name)
    wanted, _, method = (only or "*").partition("/")
    if wanted != "*" and wanted not in table.datasets:
        raise InputError(f"{name} has no data set {wanted!r}; it has {', '.join(table.datasets)}")
    if method and method not in table.methods:
        raise InputError(f"{name} has no method {method!r}; it has {'; '.join(table.methods)}")
    for seed in range(seeds):
        for dataset in table.datasets if wanted == "*" else (wanted,):
            for one in [method] if method else sorted(table.methods, key=lambda name: name.endswith("+features")):
                if seed == 0 or _random(one):
                    yield Cell(dataset, one, seed)


@cache
def _random(method: str) -> bool:
    """Say whether a method depends on a seed."""
    return "random_state" in find_method(method.removesuffix(_STRICT)).parameters()


@cache
def _dataset(name: str) -> Dataset:
    return load_dataset(name)


def run(cell: Cell, name: str, folder: Path | None = None) -> dict[str, Any]:
    """Run a cell of a table on one thread; what its neighbors can use as well is kept in a folder."""
    data, split = split_of(_dataset(cell.graph), cell.seed)
    settings = read_table(name).settings_of(cell.graph, cell.method)
    model = make(cell.method.removesuffix(_STRICT), cell.seed, 1, **settings)
    if folder is not None and isinstance(model, WalkClassifier):
        model = SharedVectors(**model.get_params())
        model.folder = folder
    row = run_once(model, data, split, cell.method.endswith(_STRICT))
    row["seconds"] = round(row["seconds"] + getattr(model, "saved", 0.0), 2)  # as if it had been alone
    return row | {"settings": settings, "test": row["metrics"]["accuracy"], "version": version("cge")}


def current(cell: Cell, row: dict[str, Any], name: str) -> bool:
    """Say whether a cell is one of the table, and was run with the settings that it has there now."""
    table = read_table(name)
    return cell.method in table.methods and bool(row.get("settings") == table.settings_of(cell.graph, cell.method))


def tables_of(table: Table, found: Mapping[Cell, dict[str, Any]]) -> dict[str, Any]:
    """Return means, intervals and paired tests of each data set and method."""
    rows: dict[str, Any] = {}
    for dataset in table.datasets:
        for method in table.methods:
            runs = _runs(found, dataset, method)
            if runs:
                rows.setdefault(dataset, {})[method] = _cell(table, found, dataset, method, runs)
    return {"table": table.name, "cells": len(found), "datasets": rows}


def _runs(found: Mapping[Cell, dict[str, Any]], dataset: str, method: str) -> dict[int, dict[str, Any]]:
    return {cell.seed: row for cell, row in found.items() if (cell.graph, cell.method) == (dataset, method)}


def _cell(
    table: Table,
    found: Mapping[Cell, dict[str, Any]],
    dataset: str,
    method: str,
    runs: dict[int, dict[str, Any]],
) -> dict[str, Any]:
    ordered = [runs[seed] for seed in sorted(runs)]
    told: dict[str, Any] = {
        "accuracy": vars(mean_interval([row["test"] for row in ordered])),
        "per_seed": [row["test"] for row in ordered],
        "paper": table.paper.get(method, {}).get(dataset),
        "n_test": ordered[0]["n_test"],
        "labels": ordered[0]["labels"],
        "seconds": mean_interval([row["seconds"] for row in ordered]).mean,
        "settings": ordered[0]["settings"],
    }
    other = table.against.get(method)
    theirs = _runs(found, dataset, other) if other else {}
    both = sorted(set(runs) & set(theirs))
    if both:
        told["against"] = vars(
            paired_t_test([runs[seed]["test"] for seed in both], [theirs[seed]["test"] for seed in both])
        )
        told["against"]["method"] = other
        first = both[0]  # nodes of several seeds are the same nodes, which would count more than once
        sides = [unpack_flags(side[first]["correct"], side[first]["n_test"]) for side in (runs, theirs)]
        told["mcnemar"] = vars(mcnemar(*sides)) | {"seed": first}
    return told


def write_report(name: str, folder: Path) -> dict[str, Any]:
    """Write `NAME.md`, `NAME.json` and `NAME.svg` to a folder from the cells in its `NAME/`; return the tables."""
    table = read_table(name)
    found = {cell: row for cell, row in read_cells(folder / name).items() if current(cell, row, name)}
    if not found:
        raise InputError(f"{folder / name} holds no cell of {name} with its present settings; run some first")
    tables = tables_of(table, found)
    write_text(folder / f"{name}.json", json.dumps(tables, indent=1) + "\n")
    write_text(folder / f"{name}.md", "\n".join(_markdown(table, tables)) + "\n")
    if tables["datasets"]:
        _draw(table, tables, folder / f"{name}.svg")
    return tables


def _markdown(table: Table, tables: dict[str, Any]) -> list[str]:
    rows = tables["datasets"]
    present = [dataset for dataset in table.datasets if dataset in rows]
    sizes = [next(iter(rows[dataset].values()))["n_test"] for dataset in present]
    about = _ABOUT.format(
        name=table.name,
        nodes=" to ".join(dict.fromkeys(f"{one:,}" for one in (min(sizes, default=0), max(sizes, default=0)))),
        error=100 * (0.16 / max(min(sizes, default=1), 1)) ** 0.5,
    )
    lines = [f"# {table.title}", "", f"{about} {table.note}".rstrip(), ""]
    lines += ["| method | " + " | ".join(present) + " |", "|---|" + "---|" * len(present)]
    seen = [next(iter(rows[dataset].values())) for dataset in present]
    lines += ["| *labels train + choose* | " + " | ".join(_labels(one) for one in seen) + " |"] if seen else []
    for group, methods in table.groups.items():
        told = [one for one in methods if any(one in rows[dataset] for dataset in present)]
        if told:
            lines.append(f"| *{group}* |" + " |" * len(present))
        lines += [
            f"| {one} | " + " | ".join(_text(rows[dataset].get(one)) for dataset in present) + " |" for one in told
        ]
    return lines + (_each(table, rows) if present else [])


def _each(table: Table, rows: dict[str, Any]) -> list[str]:
    """Return every cell with its interval, and how it stands to the paper's figure and to its pair."""
    lines = ["", "## Cell by cell", "", _EACH, ""]
    names = ["data set", "method", "labels", "test nodes", "mean, 95 % interval", "paper", "against it"]
    names += ["pair", "gain", "p, seeds", "p, nodes"]
    lines += [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for dataset, found in rows.items():
        for method in (one for one in table.methods if one in found):
            cell = found[method]
            told, paper, gain = cell["accuracy"], cell["paper"], cell.get("against")
            interval = "" if told["low"] is None else f" [{100 * told['low']:.1f}, {100 * told['high']:.1f}]"
            line = [dataset, method, _labels(cell), f"{cell['n_test']:,}", f"{100 * told['mean']:.1f}{interval}"]
            line += ["", ""] if paper is None else [f"{100 * paper:.1f}", _verdict(told["mean"] - paper)]
            line += [""] * 4 if gain is None else [gain["method"], f"{100 * gain['gain']:+.1f} ({gain['runs']})"]
            line += [] if gain is None else [_chance(gain["p"]), _chance(cell["mcnemar"]["p"])]
            lines.append(f"| {' | '.join(line)} |")
    return lines


def _labels(cell: dict[str, Any]) -> str:
    outer = cell["labels"]["outer"]
    weigh = f" ({outer:,} weigh paths)" if outer else ""
    return f"{cell['labels']['train']:,}{weigh} + {cell['labels']['selection']:,}"


def _verdict(difference: float) -> str:
    points = round(100 * difference, 1)
    word = "level" if abs(points) <= _LEVEL else "above" if points > 0 else "below"
    return f"{word} ({points:+.1f})"


def _chance(p: float | None) -> str:
    return "" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def _text(cell: dict[str, Any] | None) -> str:
    if cell is None:
        return ""
    told = cell["accuracy"]
    spread = "" if told["sd"] is None else f" ± {100 * told['sd']:.1f}"
    gain = cell.get("against", {})
    mark = ""
    if gain.get("gain", 0) > 0:
        mark = stars(gain["p"]).replace("*", "\\*") + "†" * (cell["mcnemar"]["p"] < 0.05)
    paper = "" if cell["paper"] is None else f" / {100 * cell['paper']:.1f}"
    return f"{100 * told['mean']:.1f}{mark}{spread} ({told['runs']}){paper}"


def _draw(table: Table, tables: dict[str, Any], file: Path) -> None:
    """Draw our accuracies against the paper's."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": table.name, "svg.fonttype": "none"}):
        figure = Figure(figsize=(6, 6), layout="constrained")
        axes = figure.add_subplot()
        low = 1.0
        for dataset, rows in tables["datasets"].items():
            known = {method: row for method, row in rows.items() if row["paper"] is not None}
            paper = [row["paper"] for row in known.values()]
            ours = [row["accuracy"]["mean"] for row in known.values()]
            axes.scatter(paper, ours, label=dataset, s=24)
            low = min([low, *paper, *ours])
        axes.plot([low - 0.02, 0.9], [low - 0.02, 0.9], color="0.6", linewidth=1)
        axes.set_xlabel("the paper's accuracy")
        axes.set_ylabel("ours, mean over seeds")
        axes.set_title(table.title)
        axes.legend(frameon=False)
        write_files({file: lambda stream: figure.savefig(stream, format="svg", metadata={"Date": None})})
