#!/usr/bin/env python
"""SGC on the splits of the study of path weights, as it is and with the shares of classes that `CGE` goes by.

`CGE` with its defaults learns from 500 random selection labels how common classes are. Here SGC gets the same: its
chances are calibrated on these labels and moved as `prior_correction` moves those of `CGE`. Written to results/.

    python scripts/sgc_shares.py --graph debian --seeds 5
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from cge.estimators.baselines import SGC
from cge.metrics import class_prior_ratio, fit_temperature, scale_probabilities
from cge.store.atomic import write_text
from studies.cells import Cell
from studies.weights import task_of

ROOT = Path(__file__).parents[1]


def main() -> int:
    """Measure; print and keep what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", default="debian", help="a graph of the study [debian]")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "sgc-shares.json")
    told = parser.parse_args()
    found: dict[str, list[float]] = {"SGC": [], "SGC with shares": []}
    for seed in range(told.seeds):
        graph, labels, split, _ = task_of(Cell(told.graph, "none", seed))
        y, validation = (
            np.where(np.isin(np.arange(len(labels)), one), labels, -1) for one in (split.train, split.validation)
        )
        model = SGC().fit(graph, y, validation)
        probabilities, truth = model.predict_proba().astype(np.float64), labels[split.test]
        chosen = labels[split.validation]
        temperature = fit_temperature(probabilities[split.validation], chosen)
        whole, _ = class_prior_ratio(chosen, np.bincount(labels[split.train], minlength=probabilities.shape[1]))
        moved = scale_probabilities(probabilities, temperature) * np.exp(whole)
        for name, one in (("SGC", probabilities), ("SGC with shares", moved)):
            found[name].append(float((one[split.test].argmax(1) == truth).mean()))
        print(seed, {name: round(values[-1], 4) for name, values in found.items()}, flush=True)
    rows = {
        name: {"per_seed": values, "mean": float(np.mean(values)), "sd": float(np.std(values, ddof=1))}
        for name, values in found.items()
    }
    write_text(told.out, json.dumps({"graph": told.graph} | rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
