"""Drawings of the paper's analyses; the same tables give the same bytes."""

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
    "relevance": "Path relevance: paths with and without a target label",
    "classes": "Class relevance: paths that contain a venue, when the target is another",
    "length": "Weight against path length",
    "diversity": "Weight against path diversity",
}
_MINUS = str.maketrans("-", "−")
_COLORS = {"unrolled": "#2b6ca3", "paper": "#c2571a"}
_SHOWN_BINS = 60


def draw(name: str, tables: Row, file: Path) -> None:
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
        figure.suptitle(TITLES[name].partition(":")[0])
        write_files(
            {file: lambda stream: figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})}
        )


def _draw_distribution(axes: Any, tables: Row, graph: str, outer: str) -> str:
    told = tables["distribution"][graph][outer]
    both = {"before training": told["before"]["shares"], "trained": told["shares"]}
    # As many bins as can be seen, over the weights that occur.
    used = np.flatnonzero(np.sum(list(both.values()), axis=0) > 1e-4)
    low, high = int(used.min()), int(used.max()) + 1
    step = max(1, -(-(high - low) // _SHOWN_BINS))
    edges = np.arange(low, high + step, step) / BINS
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
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


def _draw_classes(axes: Any, tables: Row, graph: str, outer: str) -> str:
    told = tables["classes"][graph][outer]
    values = np.array([[np.nan if one is None else one["mean"] for one in row] for row in told["relative"]])
    apart = max(float(np.nanmax(np.abs(values - 1))), 1e-6)
    mesh = axes.pcolormesh(values, cmap="RdBu_r", vmin=1 - apart, vmax=1 + apart)
    digits = 2 if apart > 0.02 else 3
    for (line, column), value in np.ndenumerate(values):
        dark = abs(value - 1) > 0.6 * apart
        axes.text(column + 0.5, line + 0.5, f"{value:.{digits}f}", ha="center", va="center", color="wk"[not dark])
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
