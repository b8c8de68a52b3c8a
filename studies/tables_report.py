"""Markdown, JSON and a plot of a table of the paper, from its cells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cge.errors import InputError
from cge.evaluation.significance import stars
from cge.store.atomic import write_files, write_text
from studies.cells import read_cells
from studies.table_text import p_text
from studies.tables import Table, belongs, read_table, tables_of

__all__ = ["write_report"]

_ABOUT = (
    "Test accuracy in percent: mean ± standard deviation over seeds, with the number of seeds in parentheses "
    "(deterministic methods are run once), and the paper's number after the slash. A method that is better than its "
    "baseline is marked by stars (paired t-test over seeds, \\* p < 0.05, \\*\\* p < 0.01) and by † (McNemar's test "
    "over the test nodes of the first seed, p < 0.05); these p-values are not corrected for the number of comparisons, "
    "and ‡ marks p < 0.05 in the t-test after Holm's correction over all comparisons of the table. Cells marked by ° "
    "are of older code (versions are listed below) and are not compared with newer ones. "
    "Validation labels select epochs and settings, test labels are used once. Splits are the published ones, so the "
    "standard deviation covers the randomness of training only; with {nodes} test nodes, an accuracy has a standard "
    "error of about {error:.1f} points in addition. Written by `cge reproduce {name}`."
)
_SIMILAR = 2.0  # points: about a standard error of the difference between accuracies on 500 and on 1,000 nodes
_EACH = (
    "95 % confidence intervals are over seeds. A result is similar to the paper's if it is within "
    f"{_SIMILAR:g} points, about one standard error where the paper tests on about 500 nodes and we on 1,000. Gains "
    "are over the baseline, on the seeds that both have (their number in parentheses)."
)
_RESULT = ["data set", "method", "labels", "test nodes", "accuracy [95 % CI]", "paper", "difference"]
_COLUMNS = [*_RESULT, "baseline", "gain (seeds)", "p (t-test)", "p (Holm)", "p (McNemar)", "version"]


def write_report(name: str, folder: Path) -> dict[str, Any]:
    """Write `NAME.md`, `NAME.json` and `NAME.svg` to a folder from the cells in its `NAME/`; return the tables."""
    table = read_table(name)
    rows = {cell: row for cell, row in read_cells(folder / name).items() if belongs(cell, row, name)}
    if not rows:
        raise InputError(f"{folder / name} has no cell of {name} with its present settings; run some first")
    tables = tables_of(table, rows)
    write_text(folder / f"{name}.json", json.dumps(tables, indent=1) + "\n")
    write_text(folder / f"{name}.md", "\n".join(_markdown(table, tables)) + "\n")
    if tables["datasets"]:
        _draw(table, tables, folder / f"{name}.svg")
    return tables


def _markdown(table: Table, tables: dict[str, Any]) -> list[str]:
    datasets = tables["datasets"]
    sizes = [next(iter(methods.values()))["n_test"] for methods in datasets.values()]
    about = _ABOUT.format(
        name=table.name,
        nodes=" to ".join(dict.fromkeys(f"{size:,}" for size in (min(sizes, default=0), max(sizes, default=0)))),
        error=100 * (0.16 / max(min(sizes, default=1), 1)) ** 0.5,
    )
    lines = [f"# {table.title}", "", f"{about} {table.note}".rstrip(), ""]
    lines += ["| method | " + " | ".join(datasets) + " |", "|---|" + "---|" * len(datasets)]
    if datasets:
        labels = [_labels(next(iter(methods.values()))) for methods in datasets.values()]
        lines.append("| *training + validation labels* | " + " | ".join(labels) + " |")
    for group, methods in table.groups.items():
        present = [method for method in methods if any(method in rows for rows in datasets.values())]
        if present:
            lines.append(f"| *{group}* |" + " |" * len(datasets))
        for method in present:
            lines.append(f"| {method} | " + " | ".join(_text(rows.get(method)) for rows in datasets.values()) + " |")
    return lines + (_each_cell(table, datasets) if datasets else [])


def _each_cell(table: Table, datasets: dict[str, Any]) -> list[str]:
    """Return every cell with its interval, and how it compares with the paper and with its baseline."""
    lines = ["", "## Cell by cell", "", _EACH, ""]
    lines += [f"| {' | '.join(_COLUMNS)} |", "|---" * len(_COLUMNS) + "|"]
    for dataset, rows in datasets.items():
        for method in (method for method in table.methods if method in rows):
            row = rows[method]
            accuracy, paper, gain = row["accuracy"], row["paper"], row.get("against")
            interval = (
                "" if accuracy["low"] is None else f" [{100 * accuracy['low']:.1f}, {100 * accuracy['high']:.1f}]"
            )
            cells = [dataset, method, _labels(row), f"{row['n_test']:,}", f"{100 * accuracy['mean']:.1f}{interval}"]
            cells += ["", ""] if paper is None else [f"{100 * paper:.1f}", _verdict(accuracy["mean"] - paper)]
            cells += [""] * 5 if gain is None else [gain["method"], f"{100 * gain['gain']:+.1f} ({gain['runs']})"]
            cells += [] if gain is None else [p_text(gain["p"]), p_text(gain["p_holm"]), p_text(row["mcnemar"]["p"])]
            cells.append(", ".join(row["versions"]) + "°" * row["outdated"])
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def _labels(row: dict[str, Any]) -> str:
    outer = row["labels"]["outer"]
    weighting = f" ({outer:,} train the weighting)" if outer else ""
    return f"{row['labels']['train']:,}{weighting} + {row['labels']['validation']:,}"


def _verdict(difference: float) -> str:
    points = round(100 * difference, 1)
    word = "similar" if abs(points) <= _SIMILAR else "above" if points > 0 else "below"
    return f"{word} ({points:+.1f})"


def _text(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    accuracy, gain, mark = row["accuracy"], row.get("against", {}), ""
    spread = "" if accuracy["sd"] is None else f" ± {100 * accuracy['sd']:.1f}"
    if gain.get("gain", 0) > 0:
        mark = stars(gain["p"]).replace("*", "\\*") + "†" * (row["mcnemar"]["p"] < 0.05)
        mark += "‡" * ((gain["p_holm"] or 1.0) < 0.05)
    paper = "" if row["paper"] is None else f" / {100 * row['paper']:.1f}"
    return f"{100 * accuracy['mean']:.1f}{mark}{spread} ({accuracy['runs']}){'°' * row['outdated']}{paper}"


def _draw(table: Table, tables: dict[str, Any], file: Path) -> None:
    """Draw our accuracies against the paper's."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": table.name, "svg.fonttype": "none"}):
        figure = Figure(figsize=(6, 6), layout="constrained")
        axes = figure.add_subplot()
        low = 1.0
        for dataset, rows in tables["datasets"].items():
            compared = [row for row in rows.values() if row["paper"] is not None]
            paper, ours = [row["paper"] for row in compared], [row["accuracy"]["mean"] for row in compared]
            axes.scatter(paper, ours, label=dataset, s=24)
            low = min([low, *paper, *ours])
        axes.plot([low - 0.02, 0.9], [low - 0.02, 0.9], color="0.6", linewidth=1)
        axes.set_xlabel("accuracy in the paper")
        axes.set_ylabel("our accuracy, mean over seeds")
        axes.set_title(table.title)
        axes.legend(frameon=False)
        write_files({file: lambda stream: figure.savefig(stream, format="svg", metadata={"Date": None})})
