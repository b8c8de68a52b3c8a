"""Text, tables and drawings of the paper's analyses, from their cells."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cge.store.atomic import write_text
from studies.cells import read_cells
from studies.figures_plots import TITLES, draw
from studies.figures_tables import PAPER_R, tables_of

__all__ = ["write_report"]

Row = dict[str, Any]

_ABOUT = (
    'CGE-LSTM (`encoder="table"`), trained by both outer rules. Numbers are means over seeds with 95 % intervals '
    "(Student's t) and the number of seeds in brackets; p is from Student's t-test over seeds, paired where two sides "
    "come from one training, two-sided. *Before* is the same network before it was trained, at the same vectors: what "
    "is there already is not learned. Relative weights are A over the mean of A. *Collapsed* counts the seeds in which "
    "the mean of A had fallen below 0.02 by the last round (weights are those of the kept round, which can be "
    "earlier), *flat* those in which its spread stayed below 2 % of the mean. Made by `cge reproduce figures`; [what "
    "is measured and why](../docs/results.md).\n\n*Test* is the accuracy of the model whose weights these are. "
    "Intervals of r are wide, and cut at ±1, where seeds disagree in sign; *per seed* tells. Nothing is corrected for "
    "the number of tests, about sixty: a single p above 0.001 is a hint, no more."
)
_FAILED = ["test", "collapsed / flat / seeds"]
_MINUS = str.maketrans("-", "−")


def write_report(folder: Path) -> Row:
    """Write `figures.md`, `figures.json` and a drawing of each analysis from the cells in `figures/`; return tables."""
    cells_in = folder / "figures"
    cells_in.mkdir(parents=True, exist_ok=True)
    tables = tables_of(read_cells(cells_in))
    lines = ["# The paper's analyses of path weights", "", _ABOUT]
    for name, table in tables["analyses"].items():
        lines += ["", f"## {TITLES[name]}", "", f"![{TITLES[name]}](figures/{name}.svg)", ""]
        lines += _SECTIONS_OF[name](table, tables["analyses"])
        draw(name, tables["analyses"], cells_in / f"{name}.svg")
    write_text(folder / "figures.json", json.dumps(tables, indent=1) + "\n")
    write_text(folder / "figures.md", "\n".join(lines) + "\n")
    return tables


def _text(told: Row | None, form: str = ".3g") -> str:
    """Return a mean with its interval and the number of seeds."""
    if told is None:
        return ""
    between = "" if told["low"] is None else f" [{told['low']:{form}}, {told['high']:{form}}]"
    return f"{told['mean']:{form}}{between} ({told['runs']})".translate(_MINUS)


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else f"{value:{form}}".translate(_MINUS)


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


def _failed(told: Row) -> list[str]:
    """Return two cells: test accuracy, and in how many seeds weights collapsed or stayed flat."""
    return [_text(told["test"], ".3f"), f"{told['collapsed']} / {told['flat']} / {told['weight']['runs']}"]


def _per_seed(told: Row | None, form: str) -> str:
    return "" if told is None else ", ".join(_number(one, form) for one in told["per_seed"])


def _distribution_lines(table: Row, _: Row) -> list[str]:
    shares = ("0.05", "0.25", "0.5", "0.75", "0.95")
    head = ["data set", "rule", "mean of A", "sd of A", *(f"{100 * float(one):g} %" for one in shares)]
    lines = []
    for begin, told in _each(table):
        for name, part in (("", told), (", before", told["before"])):
            spread = [_text(part[what]) for what in ("mean", "sd")]
            quantiles = [f"{part['quantiles'][one]['mean']:.3g}" for one in shares]
            last = ["", ""] if name else _failed(told)
            lines.append([begin[0], begin[1] + name, *spread, *quantiles, _text(part["effective"], ".3f"), *last])
    return _rows([*head, "(ΣA)²/ΣA² of paths", *_FAILED], lines)


def _relevance_lines(table: Row, _: Row) -> list[str]:
    weights = ["A with label", "A without"]
    head = ["data set", "rule", *weights, "relative difference", "p", "before", "p of the change"]
    head += ["per seed", "kept round", *_FAILED]
    lines, control = [], []
    for begin, told in _each(table):
        means = [_text(told["groups"][name]) for name in ("with_label", "without_label")]
        seeds = [_per_seed(told["gain"], "+.2f"), ", ".join(map(str, told["max_epochs"]))]
        lines.append([*begin, *means, *_tested_cells(told["gain"], "+.3f"), *seeds, *_failed(told)])
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
    head = ["data set", "rule", "own", "p", "before", "p of the change", "strongest", *_FAILED]
    ends = [[_text(told["own_strongest"], ".2f"), *_failed(told)] for _, told in _each(table)]
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
    head = ["data set", "rule", "window", "r", "p", "before", "p of the change", "per seed", "r with single nodes"]
    head += ["r over paths"] + ["r at one length"] * (name == "diversity") + ["paper", *_FAILED]
    lines = []
    for table in tables:
        for begin, told in _each(table):
            trend, paper = told[name], PAPER_R[name].get(begin[0])
            others = ["r_single", "r_paths"] + ["r_within"] * (name == "diversity")
            rs = [_text(trend[what], "+.2f") for what in others]
            last = ["" if paper is None else _number(paper, "+.2f"), *_failed(told)]
            tested = [*_tested_cells(trend["r"]), _per_seed(trend["r"], "+.2f")]
            lines.append([*begin, str(told["window"]), *tested, *rs, *last])
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
