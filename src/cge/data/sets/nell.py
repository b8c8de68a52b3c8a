"""NELL from the pickles of Planetoid, with validation nodes that the other splits allow.

The copies of NELL that are at hand have no `ally`: a split labels its training and test nodes only. The three splits
(0.1, 0.01, 0.001) number the same entities differently, and the features of an entity tell which it is in another
split. An entity that a split leaves unlabeled and another one labels can be validated on: 500 of them, drawn once and
for all, are the *derived* validation nodes. Where results depend on them, say so.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from cge.data.dataset import Dataset
from cge.data.sets.planetoid import DERIVED, load_planetoid
from cge.data.splits import Split

__all__ = ["load_nell"]

_SHARES = ("0.1", "0.01", "0.001")
_VALIDATION = 500


def load_nell(folder: str | Path, name: str, *, trust: bool = False) -> Dataset:
    """Read "nell-0.1", "nell-0.01" or "nell-0.001" from `ind.nell.*`.

    Validation nodes are those of `ally`, if there is one; else they are derived, if all three splits are in the folder;
    else there are none. `Dataset.notes` says which. `trust` is that of `load_planetoid`.
    """
    share = name.removeprefix("nell-")
    data = replace(load_planetoid(folder, f"nell.{share}", trust=trust), name=name)
    others = [other for other in _SHARES if other != share]
    if data.split is None or len(data.split.validation):
        return data
    if not all((Path(folder) / f"ind.nell.{other}.graph").is_file() for other in others):
        return data
    return with_derived_validation(data, [load_planetoid(folder, f"nell.{other}", trust=trust) for other in others])


def with_derived_validation(data: Dataset, others: list[Dataset]) -> Dataset:
    """Take over the labels that other splits give to unlabeled entities, and validate on 500 of these."""
    split = data.split
    if split is None:
        return data
    labels, names = data.labels.copy(), list(data.class_names)
    places = _by_features(data)
    for other in others:
        for row, node in _by_features(other).items():
            here, label = places.get(row, -1), int(other.labels[node])
            if label < 0 or here < 0 or labels[here] >= 0:
                continue
            if other.class_names[label] not in names:
                names.append(other.class_names[label])
            labels[here] = names.index(other.class_names[label])
    recovered = np.flatnonzero((labels >= 0) & (data.labels < 0))
    # The generator of the published arrays (`load_nell_derived`): these are the same nodes.
    random = np.random.RandomState(0)
    validation = random.choice(recovered, min(_VALIDATION, len(recovered)), replace=False)
    derived = Split(split.train, validation, split.test)
    return replace(data, labels=labels, class_names=tuple(names), split=derived, splits=(derived,), notes=DERIVED)


def _by_features(data: Dataset) -> dict[bytes, int]:
    """Return the nodes by their rows of features, where no other node has the same row."""
    if data.graph.features is None:
        return {}
    features = sp.csr_array(data.graph.features, copy=True)
    features.sort_indices()
    found: dict[bytes, int] = {}
    for node in np.flatnonzero(np.diff(features.indptr)).tolist():
        begin, end = features.indptr[node], features.indptr[node + 1]
        row = features.indices[begin:end].astype(np.int64).tobytes() + features.data[begin:end].tobytes()
        found[row] = -1 if row in found else node
    return {row: node for row, node in found.items() if node >= 0}
