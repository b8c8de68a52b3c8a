"""The paper's five analyses of path weights, run again: the cells, what they come to, what is written and drawn.

A cell is an analysis with an outer rule ("length, unrolled"), a data set and a seed. It trains CGE-LSTM and looks at
the paths of the first walk from each node, which training has weighed as well. Each is also weighed by the network as
it was before training, at the same vectors: what is there already is not learned.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from cge.data import load_dataset, mask_labels, read_aminer
from cge.data.dataset import Dataset
from cge.data.sets.fetch import data_dir
from cge.data.splits import Split
from cge.errors import CgeWarning, InputError, MissingDataError
from cge.estimators.cge import CGE
from cge.evaluation.protocol import drawn
from cge.evaluation.significance import mean_interval, paired
from cge.experiments.cells import Cell, read_cells, replaced
from cge.experiments.tables import read_table
from cge.explain.analyses import against_diversity, against_length, class_relevance, distribution, path_relevance
from cge.graph import Graph
from cge.models.tree import PathTree
from cge.models.weighting import LstmWeighting, PathWeighting
from cge.sampling import PathTable, Walker
from cge.store.whole import write_whole

__all__ = ["ANALYSES", "OUTER", "cells", "run", "tables_of", "write_report"]

Array = npt.NDArray[Any]
Row = dict[str, Any]
Rows = Sequence[Row]

OUTER = ("unrolled", "paper")
_PAPERS = ("citeseer", "cora", "pubmed")
_VENUES = ("vispub", "debian", "aminer")
# The data sets of each analysis, and its window: the paper's is 3, and 10 where length is looked at.
ANALYSES: dict[str, tuple[tuple[str, ...], int]] = {
    "distribution": (("citeseer",), 3),
    "relevance": (_PAPERS, 3),
    "classes": (_VENUES, 3),
    "length": (_PAPERS, 10),
    "diversity": (_PAPERS, 3),
}
_PAPER_R = {  # of its two figures
    "length": {"citeseer": -0.82, "cora": -0.97, "pubmed": -0.62},
    "diversity": {"citeseer": 0.98, "cora": 0.92, "pubmed": 0.84},
}
_SETTINGS: dict[str, Any] = {"encoder": "table", "walk_length": 10, "threads": 1}
_BINS = 1000
_MASKED = 0.5  # of the training labels
_PER_CLASS = 20  # training labels of each venue
_SECTIONS = 6  # of Debian: as many classes as the paper has venues
# The paper's venues, in the spellings that files have.
_AMINER = {
    "Communications of ACM": ("communications of the acm", "communications of acm", "commun. acm"),
    "Computer": ("computer", "ieee computer"),
    "IEEE Transactions on Computer": ("ieee transactions on computers", "ieee trans. computers"),
    "Discrete Mathematics": ("discrete mathematics", "discrete math."),
    "Theoretical Computer Science": ("theoretical computer science", "theor. comput. sci."),
    "Computational and Applied Mathematics": (
        "computational and applied mathematics",
        "journal of computational and applied mathematics",
        "j. comput. appl. math.",
    ),
}


# ---------------------------------------------------------------------- which cells there are


def cells(only: str | None, seeds: int) -> Iterator[Cell]:
    """Yield all cells, or those of `only`: "length", "length/cora" or "*/cora"; the first seed of all first.

    "aminer" is among them where its file is.
    """
    wanted, _, graph = (only or "*").partition("/")
    if wanted != "*" and wanted not in ANALYSES:
        raise InputError(f"there is no analysis {wanted!r}; there are {', '.join(ANALYSES)}")
    names = tuple(ANALYSES) if wanted == "*" else (wanted,)
    known = list(dict.fromkeys(one for name in names for one in ANALYSES[name][0]))
    if graph and graph not in known:
        raise InputError(f"{wanted} has no data set {graph!r}; it has {', '.join(known)}")
    if graph == "aminer":
        _aminer_file()  # says how to get it
    for seed in range(seeds):
        for name in names:
            for one in ANALYSES[name][0]:
                if one == graph or (not graph and (one != "aminer" or _aminer_files())):
                    yield from (Cell(one, f"{name}, {outer}", seed) for outer in OUTER)


def _aminer_files() -> list[Path]:
    folder = data_dir()
    return [] if folder is None else sorted((folder / "aminer").glob("*.txt*"))


def _aminer_file() -> Path:
    files = _aminer_files()
    if not files:
        raise MissingDataError(
            "AMiner's citation text is not on this machine; put it as aminer/citation.txt (or .txt.gz) into the folder "
            "named by CGE_DATA_DIR"
        )
    return files[0]


@cache
def _dataset(name: str) -> Dataset:
    """Return a data set; of those with venues, the papers or packages of these venues that have a neighbor there."""
    if name not in _VENUES:
        return load_dataset(name)
    if name == "aminer":
        return among(*_paper_venues(read_aminer(_aminer_file())), _AMINER)
    data = load_dataset(name, edge_types=False) if name == "debian" else load_dataset(name)
    largest = np.argsort(-np.bincount(data.labels[data.labels >= 0]), kind="stable")[:_SECTIONS]
    place = np.full(data.num_classes + 1, -1)
    place[largest] = np.arange(len(largest))
    return among(data, place[data.labels], [data.class_names[one] for one in largest])


def _paper_venues(data: Dataset) -> tuple[Dataset, Array]:
    """Return the data set with the paper's venue of each node, −1 for others."""
    place = {one: number for number, spelled in enumerate(_AMINER.values()) for one in spelled}
    codes = np.array([place.get(" ".join(one.casefold().split()), -1) for one in data.class_names] + [-1])
    return data, codes[data.labels]


def among(data: Dataset, labels: Array, names: Any) -> Dataset:
    """Return the part of a data set that has labels (n,) other than −1, without nodes that have no neighbor there."""
    kept = np.flatnonzero(labels >= 0)
    part = data.graph.subgraph(kept)
    joined = np.flatnonzero(part.degrees)
    return Dataset(data.name, part.subgraph(joined), labels[kept][joined], tuple(names))


# ---------------------------------------------------------------------- running one


class Kept:
    """Makes the paper's LSTM, and keeps it beside a copy of how it was before training."""

    now: PathWeighting
    before: PathWeighting

    def __call__(self, dim: int) -> PathWeighting:
        """Return a new network."""
        self.now = LstmWeighting(dim)
        self.before = deepcopy(self.now)
        return self.now


class Sampled:
    """The distinct paths, up to a number of nodes, in the first walk from each node."""

    def __init__(self, graph: Graph, window: int, seed: int) -> None:
        table = PathTable(window)
        table.add(Walker(graph, _SETTINGS["walk_length"], 1, seed=seed, threads=1).sample(0, graph.num_nodes))
        self.nodes, self.length, self.counts = table.paths.nodes, table.paths.length, table.counts
        self.tree = PathTree.grow(self.nodes, self.length, table.parents)
        self.several = self.length > 1  # training weighs no path of one node

    def weights(self, network: PathWeighting, vectors: Array) -> Array:
        """Return A of each."""
        return network.weigh(torch.from_numpy(vectors), self.tree, threads=1)


def run(cell: Cell) -> Row:
    """Run a cell on one thread."""
    name, _, outer = cell.method.partition(", ")
    data, began = _dataset(cell.graph), time.perf_counter()
    settings = _SETTINGS | {"outer": outer, "window": ANALYSES[name][1], "random_state": cell.seed}
    if cell.graph in read_table("table2").sizes:
        settings["dim"] = read_table("table2").sizes[cell.graph]
    paths = Sampled(data.graph, settings["window"], cell.seed)
    row = _by_class(data, paths, settings) if name == "classes" else _by_path(name, data, paths, settings)
    told = {"sampled": int(paths.counts[paths.several].sum()), "window": settings["window"]}
    return row | told | {"seconds": round(time.perf_counter() - began, 1)}


def _fitted(graph: Graph, labels: Array, split: Split, train: Array, settings: Row) -> tuple[Kept, Array, Row]:
    """Train on the labels of `train`; return the networks, the vectors, and what there is to say."""
    kept, y, validation = Kept(), np.full((2, len(labels)), -1), split.validation
    y[0, train], y[1, validation] = labels[train], labels[validation]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", CgeWarning)  # a network that comes to nothing is a result
        model = CGE(weighting=kept, **settings).fit(graph, y[0], y[1])
    row = {
        "test": model.score(graph.node_ids[split.test], labels[split.test]),
        "n_test": len(split.test),
        "labels": model.labels_seen_,
        "best_round": model.best_round_,
        "weight_means": [round(one, 6) for one in model.history_.column("weight_mean")],
        "said": [str(one.message) for one in said],
    }
    return kept, model.embedding_, row


def _by_path(name: str, data: Dataset, paths: Sampled, settings: Row) -> Row:
    """Run an analysis whose labels are those of the data set."""
    split, seed = data.splits[0], settings["random_state"]
    train = split.train
    if name == "relevance":
        train = np.flatnonzero(mask_labels(data.labels_of(split.train), _MASKED, seed) >= 0)
    kept, vectors, row = _fitted(data.graph, data.labels, split, train, settings)
    several, every = paths.several, np.ones(len(paths.length), bool)

    def looked(network: PathWeighting) -> Row:
        weights = paths.weights(network, vectors)
        some = (paths.nodes[several], weights[several])
        found: Row = {"mean": float(np.average(some[1], weights=paths.counts[several]))}
        if name == "distribution":
            facts = asdict(distribution(some[1], paths.counts[several], _BINS))
            del facts["edges"]
            return facts | {"quantiles": {str(share): one for share, one in facts["quantiles"].items()}}
        if name == "relevance":
            masked = np.setdiff1d(split.train, train)
            return found | asdict(path_relevance(*some, train, masked, paths.counts[several]))
        for label, part in (("", several), (" with single nodes", every)):
            length, counts = paths.length[part], paths.counts[part]
            found[f"length{label}"] = asdict(against_length(length, weights[part], counts))
            found[f"diversity{label}"] = asdict(against_diversity(paths.nodes[part], length, weights[part], counts))
        return found

    return row | {"found": _plain(looked(kept.now)), "before": _plain(looked(kept.before))}


def _by_class(data: Dataset, paths: Sampled, settings: Row) -> Row:
    """Train a binary task for each venue, on the same nodes, and weigh the paths that contain each."""
    sizes, several = np.bincount(data.labels), paths.several
    labels, split = drawn(data.labels, max(1, min(_PER_CLASS, int(sizes.min()) // 2)), settings["random_state"])
    rows: list[Row] = []
    found: Row = {when: {"mean": [], "matrix": []} for when in ("found", "before")}
    for target in range(data.num_classes):
        binary = (labels == target).astype(np.int64)
        kept, vectors, row = _fitted(data.graph, binary, split, split.train, settings)
        rows.append(row)
        for when, network in (("found", kept.now), ("before", kept.before)):
            weights, counts = paths.weights(network, vectors)[several], paths.counts[several]
            means = class_relevance(paths.nodes[several], weights, data.labels, data.num_classes, counts).means
            found[when]["matrix"].append(means)
            found[when]["mean"].append(np.average(weights, weights=counts))
    told = {
        "test": float(np.mean([row["test"] for row in rows])),
        "said": [text for row in rows for text in row["said"]],
        "weight_means": [row["weight_means"] for row in rows],
        "best_round": [row["best_round"] for row in rows],
        "venues": list(data.class_names),
        "sizes": sizes,
    }
    plain: Row = _plain(told | found)
    return rows[0] | plain


def _plain(value: Any) -> Any:
    """Return what JSON can hold, numbers in seven digits; what is no number is None."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.7g}") if np.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value


# ---------------------------------------------------------------------- what the cells come to


def tables_of(found: Mapping[Cell, Row]) -> Row:
    """Return each analysis, by data set and outer rule: means and intervals over seeds, and paired tests."""
    tables: Row = {}
    for name, (graphs, _) in ANALYSES.items():
        for graph, outer in product(graphs, OUTER):
            mine = (graph, f"{name}, {outer}")
            runs = {cell.seed: row for cell, row in found.items() if (cell.graph, cell.method) == mine}
            if runs:
                rows = [runs[seed] for seed in sorted(runs)]
                told = _common(rows) | {"seeds": sorted(runs), "paper": _PAPER_R.get(name, {}).get(graph)}
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
        **{name: rows[0][name] for name in ("labels", "n_test", "sampled", "window")},
    }


def _interval(values: Sequence[float | None]) -> Row | None:
    """Return mean and interval over seeds, leaving out those that have no value."""
    known = [one for one in values if one is not None]
    return dict(vars(mean_interval(known))) if known else None


def _tested(values: Sequence[float | None], before: Sequence[float | None], within: float = np.inf) -> Row | None:
    """Return mean and interval of something that is 0 by chance, p of that, and a paired test against before training.

    Bounds of the interval are kept `within` what is possible.
    """
    told = _interval(values)
    if told is None:
        return None
    known = [one for one in values if one is not None]
    both = [(one, other) for one, other in zip(values, before, strict=True) if one is not None and other is not None]
    told |= {name: told[name] and float(np.clip(told[name], -within, within)) for name in ("low", "high")}
    told |= {"p": paired(known, [0.0] * len(known)).p, "per_seed": list(values), "before": _interval(before)}
    return told | {"against_before": vars(paired([one for one, _ in both], [other for _, other in both]))}


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


_RS = ("r", "r_paths", "r_within")
_SUMMARIES: dict[str, Callable[[Rows], Row]] = {
    "distribution": _distributions,
    "relevance": _relevances,
    "classes": _heat_maps,
    "length": _trends,
    "diversity": _trends,
}


# ---------------------------------------------------------------------- what is written

_ABOUT = (
    'CGE-LSTM (`encoder="table"`), trained by both outer rules. Numbers are means over seeds with 95 % intervals '
    "(Student's t) and the number of seeds in brackets; p is from Student's t-test over seeds, paired where two sides "
    "come from one training, two-sided. *Before* is the same network before it was trained, at the same vectors: what "
    "is there already is not learned. Relative weights are A over the mean of A. *Collapsed* counts the seeds in which "
    "the mean of A fell below 0.02, *flat* those in which its spread stayed below 2 % of the mean. Made by `cge "
    "reproduce figures`; [what is measured and why](../docs/analysis.md)."
)
_TITLES = {
    "distribution": "Distribution of weights",
    "relevance": "Path relevance: paths with and without a target label",
    "classes": "Class relevance: paths that contain a venue, when the target is another",
    "length": "Weight against path length",
    "diversity": "Weight against path diversity",
}
_FAILED = "collapsed / flat / seeds"
_MINUS = str.maketrans("-", "−")


def write_report(folder: Path) -> Row:
    """Write `figures.md`, `figures.json` and a drawing of each analysis from the cells in `figures/`; return tables."""
    cells_in = folder / "figures"
    cells_in.mkdir(parents=True, exist_ok=True)
    tables = tables_of(read_cells(cells_in))
    lines = ["# The paper's analyses of path weights", "", _ABOUT]
    for name, table in tables["analyses"].items():
        lines += ["", f"## {_TITLES[name]}", "", f"![{_TITLES[name]}](figures/{name}.svg)", ""]
        lines += _SECTIONS_OF[name](table, tables["analyses"])
        _draw(name, tables["analyses"], cells_in / f"{name}.svg")
    replaced(folder / "figures.json", json.dumps(tables, indent=1) + "\n")
    replaced(folder / "figures.md", "\n".join(lines) + "\n")
    return tables


def _text(told: Row | None, form: str = ".3g") -> str:
    """Return a mean with its interval and the number of seeds."""
    if told is None:
        return ""
    between = "" if told["low"] is None else f" [{told['low']:{form}}, {told['high']:{form}}]"
    return f"{told['mean']:{form}}{between} ({told['runs']})".translate(_MINUS)


def _p(p: float | None) -> str:
    return "" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def _tested_cells(told: Row | None, form: str = "+.2f") -> list[str]:
    """Return four cells: what was found, its p, what was there before training, and p of the change."""
    if told is None:
        return [""] * 4
    return [_text(told, form), _p(told["p"]), _text(told["before"], form), _p(told["against_before"]["p"])]


def _rows(head: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *lines)]


def _each(table: Row) -> list[tuple[list[str], Row]]:
    """Return the cells that begin a line, and what there is to tell, for each data set and rule."""
    return [([graph, outer], told) for graph, rules in table.items() for outer, told in rules.items()]


def _failed(told: Row) -> str:
    return f"{told['collapsed']} / {told['flat']} / {told['weight']['runs']}"


def _distribution_lines(table: Row, _: Row) -> list[str]:
    shares = ("0.05", "0.25", "0.5", "0.75", "0.95")
    head = ["data set", "rule", "mean of A", "sd of A", *(f"{100 * float(one):g} %" for one in shares)]
    lines = []
    for begin, told in _each(table):
        for name, part in (("", told), (", before", told["before"])):
            spread = [_text(part[what]) for what in ("mean", "sd")]
            quantiles = [f"{part['quantiles'][one]['mean']:.3g}" for one in shares]
            last = [_text(part["effective"], ".3f"), "" if name else _failed(told)]
            lines.append([begin[0], begin[1] + name, *spread, *quantiles, *last])
    return _rows([*head, "(ΣA)²/ΣA² of paths", _FAILED], lines)


def _relevance_lines(table: Row, _: Row) -> list[str]:
    weights = ["A with label", "A without"]
    head = ["data set", "rule", *weights, "relative difference", "p", "before", "p of the change", _FAILED]
    lines, control = [], []
    for begin, told in _each(table):
        means = [_text(told["groups"][name]) for name in ("with_label", "without_label")]
        lines.append([*begin, *means, *_tested_cells(told["gain"], "+.3f"), _failed(told)])
        means = [_text(told["relative"][name], ".3f") for name in ("seen", "masked", "neither")]
        control.append([*begin, *means, *_tested_cells(told["control"], "+.3f")])
    about = (
        "The control: half of the labels, chosen by chance, were masked. Relative weights of paths with a seen label "
        "and no masked one, with a masked one and no seen one, and with neither. Only the difference between the first "
        "two can come from having seen the label."
    )
    head_of_control = [
        "data set",
        "rule",
        "seen",
        "masked",
        "neither",
        "seen − masked",
        "p",
        "before",
        "p of the change",
    ]
    return [*_rows(head, lines), "", about, "", *_rows(head_of_control, control)]


def _classes_lines(table: Row, _: Row) -> list[str]:
    about = (
        "Relative weight of the paths that contain a venue (column) when the target is another (line). *Own* is the "
        "mean of the diagonal less the mean of all else; *strongest* the share of targets whose own venue has the "
        "heaviest paths (by chance 1 over the number of venues)."
    )
    head = ["data set", "rule", "own", "p", "before", "p of the change", "strongest", _FAILED]
    ends = [[_text(told["own_strongest"], ".2f"), _failed(told)] for _, told in _each(table)]
    found = [[*begin, *_tested_cells(told["own"], "+.3f")] for begin, told in _each(table)]
    lines = [about, "", *_rows(head, [[*one, *end] for one, end in zip(found, ends, strict=True)])]
    for begin, told in _each(table):
        venues = told["venues"]
        named = [f"{venue} ({size:,})" for venue, size in zip(venues, told["sizes"], strict=True)]
        matrix = [
            [name, *(_text(one, ".3f") for one in row)] for name, row in zip(named, told["relative"], strict=True)
        ]
        lines += ["", f"### {begin[0]}, {begin[1]}", "", *_rows(["target", *venues], matrix)]
    return lines


def _trend_lines(name: str, tables: Sequence[Row]) -> list[str]:
    """Write the correlations of one property, as the cells of some analyses found them."""
    head = ["data set", "rule", "window", "r", "p", "before", "p of the change", "r with single nodes", "r over paths"]
    head += ["r at one length"] * (name == "diversity") + ["paper", _FAILED]
    lines = []
    for table in tables:
        for begin, told in _each(table):
            trend, paper = told[name], _PAPER_R[name].get(begin[0])
            others = ["r_single", "r_paths"] + ["r_within"] * (name == "diversity")
            rs = [_text(trend[what], "+.2f") for what in others]
            last = ["" if paper is None else f"{paper:+.2f}".translate(_MINUS), _failed(told)]
            lines.append([*begin, str(told["window"]), *_tested_cells(trend["r"]), *rs, *last])
    return _rows(head, lines)


def _length_lines(table: Row, _: Row) -> list[str]:
    return _trend_lines("length", [table])


def _diversity_lines(table: Row, every: Row) -> list[str]:
    return _trend_lines("diversity", [table, every.get("length", {})])


_SECTIONS_OF: dict[str, Callable[[Row, Row], list[str]]] = {
    "distribution": _distribution_lines,
    "relevance": _relevance_lines,
    "classes": _classes_lines,
    "length": _length_lines,
    "diversity": _diversity_lines,
}


# ---------------------------------------------------------------------- what is drawn

_COLORS = {"unrolled": "#2b6ca3", "paper": "#c2571a"}
_SHOWN_BINS = 60


def _draw(name: str, tables: Row, file: Path) -> None:
    """Draw an analysis, a line of panels for each outer rule; the same tables give the same bytes."""
    from matplotlib import rc_context, rcdefaults, rcParams
    from matplotlib.figure import Figure

    graphs = list(tables[name])
    rules = [outer for outer in OUTER if any(outer in tables[name][graph] for graph in graphs)]
    with rc_context():
        rcdefaults()  # whatever the user's settings are
        rcParams.update({"svg.hashsalt": name, "svg.fonttype": "none", "font.size": 9, "axes.titlesize": 9})
        rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False})
        columns = [""] if name == "relevance" else graphs
        wide = 4.6 if name in ("relevance", "classes") else 3.4
        figure = Figure(figsize=(wide * len(columns), 3.2 * len(rules)), layout="constrained")
        panels = figure.subplots(len(rules), len(columns), squeeze=False)
        for (line, outer), (column, graph) in product(enumerate(rules), enumerate(columns)):
            axes = panels[line, column]
            if graph and outer not in tables[name][graph]:
                axes.set_axis_off()
            elif name == "relevance":
                told = {one: rows[outer] for one, rows in tables[name].items() if outer in rows}
                _draw_relevance(axes, told, outer)
            else:
                more = _DRAWN[name](axes, tables, graph, outer)
                axes.set_title(f"{graph}, {outer}{more}", loc="left")
        figure.suptitle(_TITLES[name].partition(":")[0])
        write_whole(
            {file: lambda stream: figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})}
        )


def _draw_distribution(axes: Any, tables: Row, graph: str, outer: str) -> str:
    told = tables["distribution"][graph][outer]
    both = {"before training": told["before"]["shares"], "trained": told["shares"]}
    # As many bins as can be seen, over the weights that occur.
    used = np.flatnonzero(np.sum(list(both.values()), axis=0) > 1e-4)
    low, high = int(used.min()), int(used.max()) + 1
    step = max(1, -(-(high - low) // _SHOWN_BINS))
    edges = np.arange(low, high + step, step) / _BINS
    for (name, shares), color in zip(both.items(), ("0.6", _COLORS[outer]), strict=True):
        padded = np.append(shares[low:], np.zeros(step * len(edges)))[: step * (len(edges) - 1)]
        axes.stairs(padded.reshape(-1, step).sum(axis=1), edges, fill=name == "trained", color=color, label=name)
    axes.set_xlabel("weight A")
    axes.set_ylabel("share of paths")
    axes.legend()
    return ""


def _draw_relevance(axes: Any, told: Row, outer: str) -> None:
    marks = {
        "seen": ("a label that was seen", "o"),
        "masked": ("one that was masked", "s"),
        "neither": ("neither", "v"),
    }
    for shift, (name, (label, mark)) in zip((-0.2, 0.0, 0.2), marks.items(), strict=True):
        known = [(place, one["relative"][name]) for place, one in enumerate(told.values()) if one["relative"][name]]
        means = [one["mean"] for _, one in known]
        half = [0.0 if one["high"] is None else one["high"] - one["mean"] for _, one in known]
        places = [place + shift for place, _ in known]
        axes.errorbar(places, means, half, fmt=mark, label=label, color=_COLORS[outer] if name == "seen" else "0.45")
    axes.axhline(1, color="0.8", linewidth=0.8, zorder=0)
    axes.set_xticks(range(len(told)), list(told))
    axes.set_xlim(-0.5, len(told) - 0.5)
    axes.set_ylabel("weight / mean weight")
    axes.set_title(f"{outer}: paths with …", loc="left")
    axes.legend()


def _draw_classes(axes: Any, tables: Row, graph: str, outer: str) -> str:
    told = tables["classes"][graph][outer]
    values = np.array([[np.nan if one is None else one["mean"] for one in row] for row in told["relative"]])
    apart = max(float(np.nanmax(np.abs(values - 1))), 1e-6)
    mesh = axes.pcolormesh(values, cmap="RdBu_r", vmin=1 - apart, vmax=1 + apart)
    for (line, column), value in np.ndenumerate(values):
        dark = abs(value - 1) > 0.6 * apart
        axes.text(column + 0.5, line + 0.5, f"{value:.2f}", ha="center", va="center", color="w" if dark else "k")
    places = np.arange(len(values)) + 0.5
    axes.set_xticks(places, told["venues"], rotation=30, ha="right")
    axes.set_yticks(places, told["venues"])
    axes.invert_yaxis()
    axes.set_xlabel("venue on the path")
    axes.set_ylabel("target")
    axes.figure.colorbar(mesh, ax=axes, label="weight / mean weight")
    return ""


def _draw_trend(axes: Any, name: str, parts: Sequence[tuple[Row, str]]) -> str:
    """Draw curves, each with its interval, those before training in gray; return r of the last, and the paper's.

    `parts` are tables and colors.
    """
    for told, color in parts:
        trend = told[name]
        for part, shade, style in ((trend["before"], "0.6", "--"), (trend["curve"], color, "-")):
            points = [(int(value), one) for value, one in part.items() if one is not None]
            where, means = [value for value, _ in points], [one["mean"] for _, one in points]
            first = told is parts[0][0]
            label = f"window {told['window']}" if style == "-" else "before training" if first else None
            axes.plot(where, means, style, color=shade, marker="o", markersize=3, label=label)
            if style == "-" and all(one["low"] is not None for _, one in points):
                bounds = [[one[side] for _, one in points] for side in ("low", "high")]
                axes.fill_between(where, *bounds, color=shade, alpha=0.15, linewidth=0)
    axes.set_xlabel("nodes in the path" if name == "length" else "distinct nodes in the path")
    axes.set_ylabel("weight / mean weight")
    axes.legend()
    last, paper = parts[-1][0], parts[0][0]["paper"]
    r = "none" if last[name]["r"] is None else f"{last[name]['r']['mean']:+.2f}"
    return f"\nr = {r} (window {last['window']}), the paper {paper:+.2f}".translate(_MINUS)


def _draw_length(axes: Any, tables: Row, graph: str, outer: str) -> str:
    return _draw_trend(axes, "length", [(tables["length"][graph][outer], _COLORS[outer])])


def _draw_diversity(axes: Any, tables: Row, graph: str, outer: str) -> str:
    told = tables["diversity"][graph][outer]
    wider = tables.get("length", {}).get(graph, {}).get(outer)
    parts = [(told, "#6b8e23")] + ([] if wider is None else [(wider, _COLORS[outer])])
    return _draw_trend(axes, "diversity", parts)


_DRAWN: dict[str, Callable[[Any, Row, str, str], str]] = {
    "distribution": _draw_distribution,
    "classes": _draw_classes,
    "length": _draw_length,
    "diversity": _draw_diversity,
}
