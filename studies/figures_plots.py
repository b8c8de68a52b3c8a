"""Plots of the paper's analyses; the same tables give the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from cge.store.atomic import write_files
from studies.figures import BINS, OUTER

__all__ = ["TITLES", "draw"]

Row = dict[str, Any]

TITLES = {
    "distribution": "Distribution of weights",
    "relevance": "Path relevance: paths with and without a labeled node",
    "classes": "Class relevance: paths through a venue, by target venue",
    "length": "Weight against path length",
    "diversity": "Weight against path diversity",
}
_MINUS = str.maketrans("-", "−")
_COLORS = {"unrolled": "#2b6ca3", "paper": "#c2571a"}
_MAX_BINS = 60


def draw(name: str, tables: Row, file: Path) -> None:
    """Draw an analysis, a row of panels for each outer rule."""
    from matplotlib import rc_context, rcdefaults, rcParams
    from matplotlib.figure import Figure

    graphs = list(tables[name])
    rules = [outer for outer in OUTER if any(outer in tables[name][graph] for graph in graphs)]
    with rc_context():
        rcdefaults()  # ignore settings of the user
        rcParams.update({"svg.hashsalt": name, "svg.fonttype": "none", "font.size": 9, "axes.titlesize": 9})
        rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False})
        columns = [""] if name == "relevance" else graphs
        width = 4.6 if name in ("relevance", "classes") else 3.4
        figure = Figure(figsize=(width * len(columns), 3.2 * len(rules)), layout="constrained")
        panels = figure.subplots(len(rules), len(columns), squeeze=False)
        for (row, outer), (column, graph) in product(enumerate(rules), enumerate(columns)):
            axes = panels[row, column]
            if graph and outer not in tables[name][graph]:
                axes.set_axis_off()
            elif name == "relevance":
                by_graph = {graph: by_rule[outer] for graph, by_rule in tables[name].items() if outer in by_rule}
                _draw_relevance(axes, by_graph, outer)
            else:
                suffix = _PANELS[name](axes, tables, graph, outer)
                axes.set_title(f"{graph}, {outer}{suffix}", loc="left")
        figure.suptitle(TITLES[name].partition(":")[0])
        write_files(
            {file: lambda stream: figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})}
        )


def _draw_distribution(axes: Any, tables: Row, graph: str, outer: str) -> str:
    summary = tables["distribution"][graph][outer]
    both = {"untrained": summary["untrained"]["shares"], "trained": summary["shares"]}
    # As many bins as are visible, over the weights that occur.
    used = np.flatnonzero(np.sum(list(both.values()), axis=0) > 1e-4)
    low, high = int(used.min()), int(used.max()) + 1
    step = max(1, -(-(high - low) // _MAX_BINS))
    edges = np.arange(low, high + step, step) / BINS
    for (name, shares), color in zip(both.items(), ("0.6", _COLORS[outer]), strict=True):
        padded = np.append(shares[low:], np.zeros(step * len(edges)))[: step * (len(edges) - 1)]
        axes.stairs(padded.reshape(-1, step).sum(axis=1), edges, fill=name == "trained", color=color, label=name)
    axes.set_xlabel("weight A")
    axes.set_ylabel("share of paths")
    axes.legend()
    return ""


def _draw_relevance(axes: Any, by_graph: Row, outer: str) -> None:
    marks = {
        "seen": ("a training label", "o"),
        "masked": ("a masked label", "s"),
        "neither": ("neither", "v"),
    }
    for shift, (name, (label, mark)) in zip((-0.2, 0.0, 0.2), marks.items(), strict=True):
        relative = [summary["relative"][name] for summary in by_graph.values()]
        points = [(position + shift, interval) for position, interval in enumerate(relative) if interval]
        means = [interval["mean"] for _, interval in points]
        half = [0.0 if interval["high"] is None else interval["high"] - interval["mean"] for _, interval in points]
        color = _COLORS[outer] if name == "seen" else "0.45"
        axes.errorbar([position for position, _ in points], means, half, fmt=mark, label=label, color=color)
    axes.axhline(1, color="0.8", linewidth=0.8, zorder=0)
    axes.set_xticks(range(len(by_graph)), list(by_graph))
    axes.set_xlim(-0.5, len(by_graph) - 0.5)
    axes.set_ylabel("weight / mean weight")
    axes.set_title(f"{outer}: paths with …", loc="left")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


def _draw_classes(axes: Any, tables: Row, graph: str, outer: str) -> str:
    summary = tables["classes"][graph][outer]
    values = np.array([[np.nan if cell is None else cell["mean"] for cell in row] for row in summary["relative"]])
    spread = max(float(np.nanmax(np.abs(values - 1))), 1e-6)
    mesh = axes.pcolormesh(values, cmap="RdBu_r", vmin=1 - spread, vmax=1 + spread)
    digits = 2 if spread > 0.02 else 3
    for (row, column), value in np.ndenumerate(values):
        dark = abs(value - 1) > 0.6 * spread
        axes.text(column + 0.5, row + 0.5, f"{value:.{digits}f}", ha="center", va="center", color="wk"[not dark])
    positions = np.arange(len(values)) + 0.5
    axes.set_xticks(positions, summary["venues"], rotation=30, ha="right")
    axes.set_yticks(positions, summary["venues"])
    axes.invert_yaxis()
    axes.set_xlabel("venue on the path")
    axes.set_ylabel("target venue")
    axes.figure.colorbar(mesh, ax=axes, label="weight / mean weight")
    return ""


def _draw_trend(axes: Any, name: str, parts: Sequence[tuple[Row, str]]) -> str:
    """Draw curves with intervals, those of the untrained network in gray; return the correlations as text.

    `parts` are tables and colors.
    """
    for summary, color in parts:
        trend = summary[name]
        for curve, shade, style in ((trend["untrained"], "0.6", "--"), (trend["curve"], color, "-")):
            points = [(int(value), interval) for value, interval in curve.items() if interval is not None]
            values, means = [value for value, _ in points], [interval["mean"] for _, interval in points]
            first = summary is parts[0][0]
            label = f"window {summary['window']}" if style == "-" else "untrained" if first else None
            axes.plot(values, means, style, color=shade, marker="o", markersize=3, label=label)
            if style == "-" and all(interval["low"] is not None for _, interval in points):
                bounds = [[interval[end] for _, interval in points] for end in ("low", "high")]
                axes.fill_between(values, *bounds, color=shade, alpha=0.15, linewidth=0)
    axes.set_xlabel("nodes in the path" if name == "length" else "distinct nodes in the path")
    axes.set_ylabel("weight / mean weight")
    axes.legend()
    last, paper = parts[-1][0], parts[0][0]["paper"]
    r = "none" if last[name]["r"] is None else f"{last[name]['r']['mean']:+.2f}"
    return f"\nr = {r} (window {last['window']}), paper {paper:+.2f}".translate(_MINUS)


def _draw_length(axes: Any, tables: Row, graph: str, outer: str) -> str:
    return _draw_trend(axes, "length", [(tables["length"][graph][outer], _COLORS[outer])])


def _draw_diversity(axes: Any, tables: Row, graph: str, outer: str) -> str:
    summary = tables["diversity"][graph][outer]
    wider = tables.get("length", {}).get(graph, {}).get(outer)
    parts = [(summary, "#6b8e23")] + ([] if wider is None else [(wider, _COLORS[outer])])
    return _draw_trend(axes, "diversity", parts)


_PANELS: dict[str, Callable[[Any, Row, str, str], str]] = {
    "distribution": _draw_distribution,
    "classes": _draw_classes,
    "length": _draw_length,
    "diversity": _draw_diversity,
}
