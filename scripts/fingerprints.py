"""Record or check the sha256 of predictions and vectors, to see whether a change of the code changes a result.

`fingerprints.py --record` adds fits that are missing to `results/fingerprints.json`; without it the same fits are run
and compared with that file. Needs `CGE_DATA_DIR` for CITESEER and chameleon. Hashes hold for one kind of processor
and one set of versions.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from cge.data import load_dataset
from cge.estimators.methods import make
from cge.evaluation.protocol import split_of
from studies.tables import read_table

FILE = Path(__file__).parents[1] / "results" / "fingerprints.json"


def cells() -> Iterator[tuple[str, str, int]]:
    """Yield dataset, method and seed of every fit."""
    for dataset in ("cora", "citeseer", "chameleon"):
        for seed in range(3):
            yield dataset, "cge", seed
    for method in read_table("table2").methods:
        if method != "cge" and "," not in method:  # rows of other protocols and settings
            yield "cora", method, 0


def sha256(values: Any) -> str:
    """Return the hash of an array's bytes."""
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


def fingerprint(dataset: str, method: str, seed: int) -> dict[str, str]:
    """Fit a method on a data set and return the hashes of its probabilities and, where it has them, its vectors."""
    data, split = split_of(load_dataset(dataset), seed)
    settings = read_table("table2").settings_of(dataset, method) if dataset == "cora" else {}
    model = make(method, seed, **settings)
    model.fit(data.graph, data.labels_of(split.train), data.labels_of(split.validation))
    hashes = {"probabilities": sha256(model.predict_proba())}
    if hasattr(model, "embedding_"):
        hashes["vectors"] = sha256(model.embedding_)
    return hashes


def main() -> int:
    """Run every fit; return 1 where a hash differs from the recorded one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="write the hashes instead of checking them")
    parser.add_argument("--only", default="", help="fits whose name contains this, such as cora/cge/0")
    options = parser.parse_args()
    recorded: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}
    differing = 0
    for dataset, method, seed in cells():
        name = f"{dataset}/{method}/{seed}"
        if options.only not in name or (options.record and name in recorded):
            continue
        hashes = fingerprint(dataset, method, seed)
        if options.record:
            recorded[name] = hashes
            FILE.write_text(json.dumps(recorded, indent=1) + "\n")
        same = recorded.get(name) == hashes
        differing += not same
        print(f"{name}: {'recorded' if options.record else 'same' if same else 'DIFFERENT'}", flush=True)
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
