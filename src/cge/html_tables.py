"""Tables and scatter plots as HTML without scripts, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

from cge.arrays import Array

_COLORS = ("#2f6fd0", "#d9822b", "#2a9d5c", "#c4483f", "#8456b8", "#8c6d4f", "#d06fae", "#6f7a1f", "#1f9aa8", "#b8932a")
_OTHER = "#8a94a3"
_CELL = "text-align:left;padding:2px 12px 2px 0"


def html_table(rows: Iterable[Sequence[object]], header: Iterable[object] = (), title: str = "") -> str:
    """Return rows as a table; all text is escaped.

    >>> "&lt;b&gt;" in html_table([("<b>", 1)])
    True
    """
    caption = f"<p><strong>{escape(title)}</strong></p>" if title else ""
    lines = [_row([*header], "th")] if header else []
    return f"{caption}<table>{''.join([*lines, *(_row(row, 'td') for row in rows)])}</table>"


def _row(cells: Sequence[object], tag: str) -> str:
    texts = [f'<{tag} style="{_CELL}">{escape(str(cell))}</{tag}>' for cell in cells]
    return f"<tr>{''.join(texts)}</tr>"


def html_scatter(vectors: Array, codes: Array, names: Sequence[object]) -> str:
    """Return the first two principal components of vectors `(n, d)` as SVG; `codes (n,)` are indices into `names`."""
    centered = vectors.astype(np.float64) - vectors.mean(axis=0)
    _, _, directions = np.linalg.svd(centered, full_matrices=False)
    points = np.zeros((len(vectors), 2))
    points[:, : min(2, len(directions))] = centered @ directions[:2].T
    low, size = points.min(axis=0), np.maximum(np.ptp(points, axis=0), 1e-12)
    places = np.round(10 + 380 * (points - low) / size * (1, 0.6), 1).tolist()
    dots = [
        f'<circle cx="{x}" cy="{y}" r="2.5" fill="{_color(code)}"/>'
        for (x, y), code in zip(places, codes.tolist(), strict=True)
    ]
    legend = [
        f'<span style="color:{_color(code)}">●</span> {escape(str(name))}'
        for code, name in enumerate(names[: len(_COLORS)])
    ]
    return f'<svg viewBox="0 0 400 250" width="400">{"".join(dots)}</svg><p>{" ".join(legend)}</p>'


def _color(code: int) -> str:
    return _COLORS[code] if code < len(_COLORS) else _OTHER
