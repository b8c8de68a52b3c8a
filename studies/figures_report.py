"""Text, tables and plots of the paper's analyses, from their cells."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cge.store.atomic import write_text
from studies.cells import read_cells
from studies.figures_plots import TITLES, draw
from studies.figures_tables import PAPER_R, tables_of
from studies.table_text import p_text

__all__ = ["write_report"]

Row = dict[str, Any]

_ABOUT = (
    'CGE-LSTM (`PaperCGE(setting="transductive")`), trained by both outer rules. Numbers are means over seeds '
    "with 95 % confidence intervals (Student's t) in brackets and the number of seeds in parentheses; p-values "
    "are those of a two-sided t-test over seeds, paired where both sides come from one training. *Untrained* is "
    "the same network before training, at the same vectors: what holds there as well was not learned. Relative "
    "weights are A divided by the mean of A. *Collapsed* counts the seeds in which the mean of A fell below 0.02 "
    "by the last epoch (the weights are those of the best epoch, which can be earlier), *constant* those in which "
    "its standard deviation stayed below 2 % of the mean. Written by `cge reproduce figures`; "
    "[discussion](../docs/results.md#the-papers-analyses-of-path-weights)."
    "\n\n"
    "*Test accuracy* is that of the model with these weights. Intervals of r are wide, and clipped to ±1, where "
    "seeds disagree in sign; see *per seed*. Nothing is corrected for the number of tests, about sixty: a single "
    "p above 0.001 is weak evidence."
)
_OUTCOME = ["test accuracy", "collapsed / constant / seeds"]
_TESTED = ["p", "untrained", "p of the change"]
_MINUS = str.maketrans("-", "−")


def write_report(folder: Path) -> Row:
    """Write `figures.md`, `figures.json` and a plot of each analysis from the cells in `figures/`; return tables."""
    cells_folder = folder / "figures"
    cells_folder.mkdir(parents=True, exist_ok=True)
    tables = tables_of(read_cells(cells_folder))
    lines = ["# The paper's analyses of path weights", "", _ABOUT]
    for name, table in tables["analyses"].items():
        lines += ["", f"## {TITLES[name]}", "", f"![{TITLES[name]}](figures/{name}.svg)", ""]
        lines += _SECTIONS[name](table, tables["analyses"])
        draw(name, tables["analyses"], cells_folder / f"{name}.svg")
    write_text(folder / "figures.json", json.dumps(tables, indent=1) + "\n")
    write_text(folder / "figures.md", "\n".join(lines) + "\n")
    return tables


def _text(interval: Row | None, form: str = ".3g") -> str:
    """Return a mean with its interval and the number of seeds."""
    if interval is None:
        return ""
    between = "" if interval["low"] is None else f" [{interval['low']:{form}}, {interval['high']:{form}}]"
    return f"{interval['mean']:{form}}{between} ({interval['runs']})".translate(_MINUS)


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else f"{value:{form}}".translate(_MINUS)


def _tested_cells(test: Row | None, form: str = "+.2f") -> list[str]:
    """Return four cells: the value, its p, the value of the untrained network, and p of the change."""
    if test is None:
        return [""] * 4
    return [_text(test, form), p_text(test["p"]), _text(test["untrained"], form), p_text(test["change"]["p"])]


def _rows(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (columns, ["---"] * len(columns), *lines)]


def _each(table: Row) -> list[tuple[list[str], Row]]:
    """Return the first two cells of a line and the summary, for each data set and outer rule."""
    return [([graph, outer], summary) for graph, rules in table.items() for outer, summary in rules.items()]


def _outcome(summary: Row) -> list[str]:
    """Return two cells: test accuracy, and in how many seeds the weights collapsed or stayed constant."""
    counts = f"{summary['collapsed']} / {summary['constant']} / {summary['weight']['runs']}"
    return [_text(summary["test"], ".3f"), counts]


def _per_seed(test: Row | None, form: str) -> str:
    return "" if test is None else ", ".join(_number(value, form) for value in test["per_seed"])


def _distribution_lines(table: Row, _: Row) -> list[str]:
    shares = ("0.05", "0.25", "0.5", "0.75", "0.95")
    columns = ["data set", "outer rule", "mean of A", "sd of A", *(f"{100 * float(share):g} %" for share in shares)]
    lines = []
    for start, summary in _each(table):
        for suffix, part in (("", summary), (", untrained", summary["untrained"])):
            spread = [_text(part[name]) for name in ("mean", "sd")]
            quantiles = [f"{part['quantiles'][share]['mean']:.3g}" for share in shares]
            end = ["", ""] if suffix else _outcome(summary)
            lines.append([start[0], start[1] + suffix, *spread, *quantiles, _text(part["effective"], ".3f"), *end])
    return _rows([*columns, "(ΣA)²/(n ΣA²)", *_OUTCOME], lines)


def _relevance_lines(table: Row, _: Row) -> list[str]:
    columns = ["data set", "outer rule", "A with label", "A without", "relative difference", *_TESTED]
    columns += ["per seed", "best epochs", *_OUTCOME]
    lines, control = [], []
    for start, summary in _each(table):
        means = [_text(summary["groups"][name]) for name in ("with_label", "without_label")]
        seeds = [_per_seed(summary["gain"], "+.2f"), ", ".join(map(str, summary["best_epochs"]))]
        lines.append([*start, *means, *_tested_cells(summary["gain"], "+.3f"), *seeds, *_outcome(summary)])
        means = [_text(summary["relative"][name], ".3f") for name in ("seen", "masked", "neither")]
        control.append([*start, *means, *_tested_cells(summary["control"], "+.3f")])
    about = (
        "The control: half of the training labels, chosen at random, were masked. Relative weights of paths with a "
        "training label and no masked one, with a masked one and no training label, and with neither. Only the "
        "difference between the first two can come from having seen the label."
    )
    control_columns = ["data set", "outer rule", "seen", "masked", "neither", "seen − masked", *_TESTED]
    return [*_rows(columns, lines), "", about, "", *_rows(control_columns, control)]


def _classes_lines(table: Row, _: Row) -> list[str]:
    about = (
        "Relative weight of the paths through a venue (column) for each target venue (row). *Own* is the mean of the "
        "diagonal minus the mean of all other entries; *strongest* the share of targets whose own venue has the "
        "largest weights (by chance 1 over the number of venues)."
    )
    columns = ["data set", "outer rule", "own", *_TESTED, "strongest", *_OUTCOME]
    lines = [
        [*start, *_tested_cells(summary["own"], "+.3f"), _text(summary["own_strongest"], ".2f"), *_outcome(summary)]
        for start, summary in _each(table)
    ]
    page = [about, "", *_rows(columns, lines)]
    for start, summary in _each(table):
        venues = summary["venues"]
        named = [f"{venue} ({size:,})" for venue, size in zip(venues, summary["sizes"], strict=True)]
        matrix = [
            [name, *(_text(interval, ".3f") for interval in row)]
            for name, row in zip(named, summary["relative"], strict=True)
        ]
        page += ["", f"### {start[0]}, {start[1]}", "", *_rows(["target", *venues], matrix)]
    return page


def _trend_lines(name: str, tables: Sequence[Row]) -> list[str]:
    """Return the correlations of path weights with length or diversity."""
    columns = ["data set", "outer rule", "window", "r", *_TESTED, "per seed", "r with single nodes"]
    columns += ["r over paths"] + ["r at equal length"] * (name == "diversity") + ["paper", *_OUTCOME]
    lines = []
    for table in tables:
        for start, summary in _each(table):
            trend, paper = summary[name], PAPER_R[name].get(start[0])
            others = ["r_single", "r_paths"] + ["r_within"] * (name == "diversity")
            correlations = [_text(trend[key], "+.2f") for key in others]
            end = ["" if paper is None else _number(paper, "+.2f"), *_outcome(summary)]
            tested = [*_tested_cells(trend["r"]), _per_seed(trend["r"], "+.2f")]
            lines.append([*start, str(summary["window"]), *tested, *correlations, *end])
    return _rows(columns, lines)


def _length_lines(table: Row, _: Row) -> list[str]:
    return _trend_lines("length", [table])


def _diversity_lines(table: Row, analyses: Row) -> list[str]:
    return _trend_lines("diversity", [table, analyses.get("length", {})])


_SECTIONS: dict[str, Callable[[Row, Row], list[str]]] = {
    "distribution": _distribution_lines,
    "relevance": _relevance_lines,
    "classes": _classes_lines,
    "length": _length_lines,
    "diversity": _diversity_lines,
}
