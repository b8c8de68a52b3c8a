"""Accuracy of logistic regression on vectors; prints `[[validation, test], …]`, an entry for each file.

Called as a script with the name of a data set and files of vectors `(n, d)`: the peers' environments have no
scikit-learn. Logistic regression on the public split, C from 0.01 to 100 selected on the validation nodes.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression

from cge.data import load_dataset

__all__ = ["accuracy"]

_STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0)


def accuracy(vectors: npt.NDArray[Any], labels: npt.NDArray[Any], split: Any) -> tuple[float, float]:
    """Return the accuracies on validation and test nodes of the C with the best validation accuracy."""
    best = (-1.0, 0.0)
    for strength in _STRENGTHS:
        model = LogisticRegression(C=strength, max_iter=2000).fit(vectors[split.train], labels[split.train])
        validation = float(model.score(vectors[split.validation], labels[split.validation]))
        if validation > best[0]:
            best = (validation, float(model.score(vectors[split.test], labels[split.test])))
    return best


if __name__ == "__main__":
    data = load_dataset(sys.argv[1])
    print(json.dumps([accuracy(np.load(path), data.labels, data.split) for path in sys.argv[2:]]))
