#!/usr/bin/env python
"""Compare the defaults of `cge.PaperCGE` with other settings: validation accuracy on CORA and CITESEER.

Writes results/defaults.md. Test accuracy is reported, and not used to select.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import cge
from cge.estimators.configs import make_estimator
from cge.store.atomic import write_text

ROOT = Path(__file__).parents[1]
SEEDS = 6
DATA = ("cora", "citeseer")
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("the defaults, uniform weights", {}),
    *((f"pretrain={k}, max_epochs={6 - k}", {"pretrain": k, "max_epochs": 6 - k}) for k in (0, 1, 3, 4)),
    *((f"window={k}", {"window": k}) for k in (3, 4, 8)),
    *((f"label_pairs={share}", {"label_pairs": share}) for share in (0.0, 0.01, 0.03, 0.3)),
    *((f"walks_per_node={k}", {"walks_per_node": k}) for k in (3, 10)),
    *((f"learning_rate={rate}", {"learning_rate": rate}) for rate in (0.0125, 0.05)),
    *((f"weighting={kind}", {"weighting": kind}) for kind in ("average", "cnn", "lstm")),
    ("weighting=average, outer=paper", {"weighting": "average", "outer": "paper"}),
]


def accuracies(name: str, settings: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Return validation and test accuracy of each seed, `(seeds, 2)`."""
    data: Any = cge.load_dataset(name)
    rows = []
    for seed in range(SEEDS):
        model = make_estimator(cge.PaperCGE, {"weighting": "uniform", "random_state": seed, **settings})
        model.fit(data.graph, data.labels_of(data.split.train), data.labels_of(data.split.validation))
        parts = (data.split.validation, data.split.test)
        rows.append([model.score(data.graph.node_ids[nodes], data.labels[nodes]) for nodes in parts])
    return np.array(rows)


def page(table: list[tuple[str, list[np.ndarray[Any, Any]]]]) -> str:
    """Return the Markdown page; `table` has the accuracies on each data set, by variant."""
    lines = [
        "# The defaults of PaperCGE compared with other settings",
        "",
        f"`scripts/measure_defaults.py`: transductive, public splits, mean ± standard deviation over {SEEDS} seeds.",
        "Each row changes the settings it names; `mean` is the mean of the two validation accuracies.",
        "",
        "| settings | mean | " + " | ".join(f"{name} validation | {name} test" for name in DATA) + " |",
        "|---|" + "--:|" * (1 + 2 * len(DATA)),
    ]
    for title, results in table:
        cells = [f"{column.mean():.3f} ± {column.std():.3f}" for result in results for column in result.T]
        mean = np.mean([result[:, 0].mean() for result in results])
        lines.append(f"| {title} | {mean:.4f} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def main() -> int:
    """Measure every variant and write the table."""
    warnings.simplefilter("ignore", cge.CgeWarning)
    table = []
    for title, settings in VARIANTS:
        table.append((title, [accuracies(name, settings) for name in DATA]))
        print(page(table).splitlines()[-1], flush=True)
    write_text(ROOT / "results" / "defaults.md", page(table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
