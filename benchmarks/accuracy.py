"""How well vectors predict the classes of a data set; prints `[[validation, test], …]`, one entry for each file.

Called as a script with the name of a data set and files of vectors `(n, d)`: the peers' environments have no
scikit-learn. Logistic regression on the public split, C from 0.01 to 100 chosen on the validation nodes.
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
    """Return the accuracy on validation and test nodes of the C that is best on the former, the smallest of equals."""
    best = (-1.0, 0.0)
    for strength in _STRENGTHS:
        model = LogisticRegression(C=strength, max_iter=2000).fit(vectors[split.train], labels[split.train])
        found = float(model.score(vectors[split.validation], labels[split.validation]))
        if found > best[0]:
            best = (found, float(model.score(vectors[split.test], labels[split.test])))
    return best


if __name__ == "__main__":
    data = load_dataset(sys.argv[1])
    print(json.dumps([accuracy(np.load(path), data.labels, data.split) for path in sys.argv[2:]]))
