"""NELL from the pickles of Planetoid, with validation nodes derived from the other splits.

The available copies of NELL have no `ally`: a split labels its training and test nodes only. The three splits (0.1,
0.01, 0.001) number the same entities differently, and the features of an entity identify it in another split. Entities
that are unlabeled in a split and labeled in another can be validation nodes: 500 of them, drawn with a fixed seed, are
the *derived* validation nodes. Mention them where results depend on them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from cge.data.dataset import Dataset
from cge.data.sets.planetoid import DERIVED, load_planetoid
from cge.data.splits import Split

_SHARES = ("0.1", "0.01", "0.001")
_VALIDATION = 500


def load_nell(folder: str | Path, name: str, *, trust: bool = False) -> Dataset:
    """Read "nell-0.1", "nell-0.01" or "nell-0.001" from `ind.nell.*`.

    Validation nodes are those of `ally`, if there is one; else they are derived, if all three splits are in the folder;
    else there are none, as `Dataset.notes` mentions. `trust` is that of `load_planetoid`.
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
    """Label unlabeled entities as the other splits do, and make 500 of them validation nodes."""
    split = data.split
    if split is None:
        return data
    labels, names = data.labels.copy(), list(data.class_names)
    nodes = _by_features(data)
    for other in others:
        for row, other_node in _by_features(other).items():
            node, label = nodes.get(row, -1), int(other.labels[other_node])
            if label < 0 or node < 0 or labels[node] >= 0:
                continue
            if other.class_names[label] not in names:
                names.append(other.class_names[label])
            labels[node] = names.index(other.class_names[label])
    recovered = np.flatnonzero((labels >= 0) & (data.labels < 0))
    # The generator of the published arrays (`load_nell_derived`): these are the same nodes.
    random = np.random.RandomState(0)
    validation = random.choice(recovered, min(_VALIDATION, len(recovered)), replace=False)
    derived = Split(split.train, validation, split.test)
    return replace(data, labels=labels, class_names=tuple(names), split=derived, splits=(derived,), notes=DERIVED)


def _by_features(data: Dataset) -> dict[bytes, int]:
    """Return nodes by their rows of features, without nodes that share a row."""
    if data.graph.features is None:
        return {}
    features = sp.csr_array(data.graph.features, copy=True)
    features.sort_indices()
    nodes: dict[bytes, int] = {}
    for node in np.flatnonzero(np.diff(features.indptr)).tolist():
        start, end = features.indptr[node], features.indptr[node + 1]
        row = features.indices[start:end].astype(np.int64).tobytes() + features.data[start:end].tobytes()
        nodes[row] = -1 if row in nodes else node
    return {row: node for row, node in nodes.items() if node >= 0}
