#!/usr/bin/env python
"""Measure the defaults of `cge.CGE` beside others: validation accuracy on CORA and CITESEER, all else equal.

Writes results/defaults.md. Test accuracy is told, not chosen by.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import cge

ROOT = Path(__file__).parents[1]
SEEDS = 6
DATA = ("cora", "citeseer")
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("the defaults, A ≡ 1", {}),
    *((f"pretrain={k}, rounds={6 - k}", {"pretrain": k, "max_epochs": 6 - k}) for k in (0, 1, 3, 4)),
    *((f"window={k}", {"window": k}) for k in (3, 4, 8)),
    *((f"label_pairs={share}", {"label_pairs": share}) for share in (0.0, 0.01, 0.03, 0.3)),
    *((f"walks_per_node={k}", {"walks_per_node": k}) for k in (3, 10)),
    *((f"learning_rate={rate}", {"learning_rate": rate}) for rate in (0.0125, 0.05)),
    *((f"weighting={kind}", {"weighting": kind}) for kind in ("average", "cnn", "lstm")),
    ("weighting=average, outer=paper", {"weighting": "average", "outer": "paper"}),
]


def scores(name: str, settings: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Return validation and test accuracy of each seed, `(seeds, 2)`."""
    data: Any = cge.load_dataset(name)
    ids, parts = data.graph.node_ids, (data.split.train, data.split.validation, data.split.test)
    train, validation, test = ({ids[node]: data.labels[node] for node in part} for part in parts)
    found = []
    for seed in range(SEEDS):
        model = cge.CGE(**{"encoder": "table", "weighting": "none", "random_state": seed, **settings})
        model.fit(data.graph, train, validation)
        found.append([model.score(list(part), list(part.values())) for part in (validation, test)])
    return np.array(found)


def main() -> int:
    """Measure every variant and write the table."""
    warnings.simplefilter("ignore", cge.CgeWarning)
    page = [
        "# The defaults of CGE beside others",
        "",
        f"`scripts/measure_defaults.py`, encoder `table`, public splits, mean ± standard deviation over {SEEDS} seeds.",
        "Each row changes what it names; `mean` is that of the two validation accuracies.",
        "",
        "| | mean | " + " | ".join(f"{name} validation | {name} test" for name in DATA) + " |",
        "|---|" + "--:|" * (1 + 2 * len(DATA)),
    ]
    for title, settings in VARIANTS:
        found = [scores(name, settings) for name in DATA]
        cells = [f"{part.mean():.3f} ± {part.std():.3f}" for one in found for part in one.T]
        page.append(f"| {title} | {np.mean([one[:, 0].mean() for one in found]):.4f} | " + " | ".join(cells) + " |")
        print(page[-1], flush=True)
    (ROOT / "results" / "defaults.md").write_text("\n".join([*page, ""]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
