#!/usr/bin/env python
"""SGC on the splits of the study of weightings, with and without the prior correction of `CGE`.

By default `CGE` estimates the class frequencies from 500 random validation labels. Here SGC gets the same: its
probabilities are calibrated on these labels and corrected as `prior_correction` corrects those of `CGE`.

    python scripts/sgc_prior_correction.py --graph debian --seeds 5
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from cge.estimators.baselines import SGC
from cge.metrics import class_prior_ratio, fit_temperature, scale_probabilities
from cge.store.atomic import write_text
from studies.cells import Cell
from studies.weights import task_of

ROOT = Path(__file__).parents[1]


def main() -> int:
    """Measure the accuracies, print and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", default="debian", help="a graph of the study [debian]")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "sgc-prior-correction.json")
    options = parser.parse_args()
    accuracies: dict[str, list[float]] = {"SGC": [], "SGC, prior correction": []}
    for seed in range(options.seeds):
        graph, labels, split, _ = task_of(Cell(options.graph, "uniform", seed))
        y, validation = (
            np.where(np.isin(np.arange(len(labels)), nodes), labels, -1) for nodes in (split.train, split.validation)
        )
        model = SGC().fit(graph, y, validation)
        probabilities, validation_labels = model.predict_proba().astype(np.float64), labels[split.validation]
        temperature = fit_temperature(probabilities[split.validation], validation_labels)
        counts = np.bincount(labels[split.train], minlength=probabilities.shape[1])
        log_ratio = class_prior_ratio(np.bincount(validation_labels, minlength=len(counts)), counts)
        corrected = scale_probabilities(probabilities, temperature) * np.exp(log_ratio)
        for name, values in (("SGC", probabilities), ("SGC, prior correction", corrected)):
            accuracies[name].append(float((values[split.test].argmax(1) == labels[split.test]).mean()))
        print(seed, {name: round(values[-1], 4) for name, values in accuracies.items()}, flush=True)
    rows = {
        name: {"per_seed": values, "mean": float(np.mean(values)), "sd": float(np.std(values, ddof=1))}
        for name, values in accuracies.items()
    }
    write_text(options.out, json.dumps({"graph": options.graph} | rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
