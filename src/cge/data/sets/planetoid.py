"""The files of Planetoid (Yang, Cohen and Salakhutdinov, 2016): CORA, CITESEER, PUBMED and NELL.

A set is eight files `ind.<name>.<part>`:

==============  ====================================================================
`x`, `y`        features and one-hot labels of the training nodes, which come first
`allx`, `ally`  the same of all nodes but the test nodes
`tx`, `ty`      the same of the test nodes, in the order of `test.index`
`graph`         node → list of neighbors
`test.index`    node numbers, one per line
==============  ====================================================================

The standard split trains on the rows of `x`, validates on the 500 nodes after them and tests on `test.index`. A node
without a row (15 in CITESEER, the 55,864 relation nodes of NELL) has features of zero and no label.

NELL has no `ally`: a split labels its training and test nodes only. Its three splits (0.1, 0.01, 0.001) number the same
entities differently, and the features of an entity identify it in another split. Entities that are unlabeled in a split
and labeled in another can be validation nodes: 500 of them, drawn with a fixed seed, are the *derived* validation
nodes. `load_nell` derives them, `load_nell_derived` reads arrays to which they were added. Mention them where results
depend on them.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.checks import checked_csr
from cge.data.dataset import Dataset
from cge.data.files.arrays import load_members
from cge.data.sets.fetch import read_checked
from cge.data.sets.pickles import read_pickle
from cge.data.splits import Split
from cge.errors import FileFormatError, InputError
from cge.graph import Graph

PARTS = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")
_SHARES = ("0.1", "0.01", "0.001")  # of NELL
_VALIDATION = 500
_CITATION = "Z. Yang, W. Cohen, R. Salakhutdinov: Revisiting semi-supervised learning with graph embeddings. ICML 2016"
# By column of the label matrices; identified by the sizes of the classes.
_CORA_CLASSES = "Theory Reinforcement_Learning Genetic_Algorithms Neural_Networks Probabilistic_Methods Case_Based"
_CLASS_NAMES = {
    "cora": (*_CORA_CLASSES.split(), "Rule_Learning"),
    "citeseer": ("AI", "ML", "IR", "DB", "Agents", "HCI"),
    "pubmed": ("Diabetes_Experimental", "Diabetes_Type_1", "Diabetes_Type_2"),
}
_ENTITIES = "9,891 entities have features, the other nodes are relations and have neither features nor labels"
_NOTES = {
    "citeseer": "15 nodes of the test range have neither features nor a label; 48 nodes have no edge",
    "nell": f"no validation nodes: the source labels only training and test nodes; {_ENTITIES}",
}
_DERIVED = (
    "validation nodes are derived: the source has none, these are 500 entities whose labels come from the other two "
    f"splits; {_ENTITIES}"
)


def load_planetoid(folder: str | Path, name: str, *, trust: bool = False) -> Dataset:
    """Read `ind.<name>.*` in a folder: "cora", "citeseer", "pubmed", "nell.0.1", "nell.0.01" or "nell.0.001".

    Node ids are 0 … n-1. Classes without nodes are dropped; the classes of NELL have no names but their column numbers.
    A file whose SHA256 is not the published one is refused unless `trust` is true; nothing in a file is ever run.
    """
    paths = {part: Path(folder) / f"ind.{name}.{part}" for part in PARTS}
    missing = [path for part, path in paths.items() if part != "ally" and not path.is_file()]
    if missing:
        raise FileFormatError(missing[0], f"is missing; the Planetoid set {name!r} needs {', '.join(PARTS)}")
    edges, size = _adjacency(paths["graph"], trust)
    test = _test_index(paths["test.index"], trust)
    x, allx, tx = (_features(paths[part], trust) for part in ("x", "allx", "tx"))
    y, ty = (_one_hot(paths[part], trust) for part in ("y", "ty"))
    has_ally = paths["ally"].is_file()
    all_y = _one_hot(paths["ally"], trust) if has_ally else y
    rows = {"x": x.shape[0], "y": len(y), "tx": tx.shape[0], "ty": len(ty), "test.index": len(test)}
    rows |= {"allx": allx.shape[0], "ally": len(all_y) if has_ally else allx.shape[0]}
    for first, second in (("x", "y"), ("tx", "ty"), ("tx", "test.index"), ("allx", "ally")):
        if rows[first] != rows[second]:
            problem = f"has {rows[second]:,} rows, but {paths[first].name} has {rows[first]:,}"
            raise FileFormatError(paths[second], problem)
    if not x.shape[0] <= allx.shape[0] <= size or not x.shape[1] == allx.shape[1] == tx.shape[1]:
        problem = f"shape {allx.shape} does not match {x.shape} of x, {tx.shape} of tx and {size:,} nodes of graph"
        raise FileFormatError(paths["allx"], problem)
    if not y.shape[1] == ty.shape[1] == all_y.shape[1]:
        raise FileFormatError(paths["ty"], f"{ty.shape[1]:,} classes do not match {y.shape[1]:,} of y")
    if len(np.unique(test)) < len(test) or np.any((test < allx.shape[0]) | (test >= size)):
        problem = f"test nodes must be distinct, from {allx.shape[0]:,} (rows of allx) to {size - 1:,}"
        raise FileFormatError(paths["test.index"], problem)

    labels = np.full(size, -1, np.int64)
    labels[: len(all_y)] = _class_of(paths["ally" if has_ally else "y"], all_y)
    labels[test] = _class_of(paths["ty"], ty)
    split = Split(np.arange(len(y)), np.arange(len(y), min(len(y) + _VALIDATION, len(all_y))), test)
    notes = "" if name.startswith("nell") and len(split.validation) else _NOTES.get(name.split(".")[0], "")
    return _dataset(name, edges, _all_features(allx, tx, test, size), labels, split, notes)


def load_nell(folder: str | Path, name: str, *, trust: bool = False) -> Dataset:
    """Read "nell-0.1", "nell-0.01" or "nell-0.001" from `ind.nell.*`.

    Validation nodes are those of `ally`, if there is one; else they are derived, if all three splits are in the folder;
    else there are none, as `Dataset.notes` mentions. `trust` is that of `load_planetoid`.
    """
    share = name.removeprefix("nell-")
    data = replace(load_planetoid(folder, f"nell.{share}", trust=trust), name=name)
    others = [other for other in _SHARES if other != share]
    all_present = all((Path(folder) / f"ind.nell.{other}.graph").is_file() for other in others)
    split = data.splits[0]
    if len(split.validation) or not all_present:
        return data
    labels, names = data.labels.copy(), list(data.class_names)
    nodes = _by_features(data)
    for other in (load_planetoid(folder, f"nell.{share}", trust=trust) for share in others):
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
    return replace(data, labels=labels, class_names=tuple(names), split=derived, splits=(derived,), notes=_DERIVED)


def load_nell_derived(path: str | Path, name: str) -> Dataset:
    """Read the arrays derived from a NELL split: the same graph, features, training and test nodes.

    The validation nodes are *derived*: 500 entities that are unlabeled in this split and labeled in another of the
    three. Mention it where results depend on them.
    """
    names = ["edges", "labels", "train_idx", "val_idx_derived", "test_idx"]
    parts = load_members(Path(path), names + [f"feat_{part}" for part in ("data", "indices", "indptr", "shape")])
    if parts["labels"].ndim != 1 or parts["labels"].dtype.kind not in "iu":
        raise FileFormatError(path, "labels must be numbers, one for each node; fetch it again")
    try:
        rows, columns = parts["feat_shape"].tolist()
        features = checked_csr(parts["feat_data"], parts["feat_indices"], parts["feat_indptr"], (rows, columns))
        split = Split(parts["train_idx"], parts["val_idx_derived"], parts["test_idx"])
        return _dataset(name, parts["edges"], features, parts["labels"].astype(np.int64), split, _DERIVED)
    except (InputError, TypeError, ValueError) as error:
        raise FileFormatError(path, f"contains inconsistent arrays: {error}") from None


def _dataset(name: str, edges: Array, features: Any, labels: Array, split: Split, notes: str) -> Dataset:
    classes, codes = np.unique(labels[labels >= 0], return_inverse=True)
    compact = np.full(len(labels), -1, np.int64)
    compact[labels >= 0] = codes
    graph = Graph.from_edges(edges, features, num_nodes=len(labels))
    columns = _CLASS_NAMES.get(name, ())
    names = tuple(columns[label] if label < len(columns) else str(label) for label in classes.tolist())
    return Dataset(name, graph, compact, names, split, notes=notes, citation=_CITATION)


def _adjacency(path: Path, trust: bool) -> tuple[Array, int]:
    """Return the entries of the adjacency lists, `(entries, 2)`, and the number of nodes."""
    table = read_pickle(path, trust=trust)
    if not isinstance(table, dict) or not all(isinstance(row, list) for row in table.values()):
        raise FileFormatError(path, "must contain a dictionary: node → list of neighbors")
    lengths = np.fromiter(map(len, table.values()), np.int64, len(table))
    try:
        nodes = np.fromiter(table.keys(), np.int64, len(table))
        neighbors = np.fromiter(chain.from_iterable(table.values()), np.int64, int(lengths.sum()))
    except (TypeError, ValueError, OverflowError):
        raise FileFormatError(path, "must contain integers as nodes and neighbors") from None
    for values in (nodes, neighbors):
        wrong = values[(values < 0) | (values >= len(table))]
        if len(wrong):
            raise FileFormatError(path, f"must number its {len(table):,} nodes from 0, found {wrong[0]}")
    return np.column_stack([np.repeat(nodes, lengths), neighbors]), len(table)


def _test_index(path: Path, trust: bool) -> Array:
    content = read_checked(path, trust=trust)
    try:
        return np.array(content.split(), np.int64)
    except (ValueError, OverflowError):
        raise FileFormatError(path, "must contain one node number per line") from None


def _features(path: Path, trust: bool) -> sp.csr_array:
    matrix = read_pickle(path, trust=trust)
    if not sp.issparse(matrix):
        raise FileFormatError(path, "must contain a sparse matrix of features")
    return matrix


def _one_hot(path: Path, trust: bool) -> Array:
    matrix = read_pickle(path, trust=trust)
    if not isinstance(matrix, np.ndarray) or matrix.ndim != 2 or not matrix.shape[1]:
        raise FileFormatError(path, "must contain a matrix of one-hot labels")
    return matrix


def _class_of(path: Path, one_hot: Array) -> Array:
    """Return the column of the one in each row, −1 for a row of zeros."""
    ones = (one_hot != 0).sum(axis=1)
    if ones.max(initial=0) > 1:
        raise FileFormatError(path, f"row {int(ones.argmax()):,} has {int(ones.max())} labels; expected at most one")
    return np.where(ones == 1, (one_hot != 0).argmax(axis=1), -1)


def _all_features(allx: sp.csr_array, tx: sp.csr_array, test: Array, size: int) -> sp.csr_array:
    """Return the rows of `allx`, then those of `tx` at the indices `test`; other rows are empty."""
    rows = sp.csr_array(sp.vstack([allx, tx[np.argsort(test)]]))
    sizes = np.zeros(size + 1, np.int64)
    sizes[1 + np.r_[np.arange(allx.shape[0]), np.sort(test)]] = np.diff(rows.indptr)
    return sp.csr_array((rows.data, rows.indices, np.cumsum(sizes)), shape=(size, allx.shape[1]))


def _by_features(data: Dataset) -> dict[bytes, int]:
    """Return nodes by their rows of features, without nodes that share a row."""
    features = sp.csr_array(data.graph.features, copy=True)
    features.sort_indices()
    nodes: dict[bytes, int] = {}
    for node in np.flatnonzero(np.diff(features.indptr)).tolist():
        start, end = features.indptr[node], features.indptr[node + 1]
        row = features.indices[start:end].astype(np.int64).tobytes() + features.data[start:end].tobytes()
        nodes[row] = -1 if row in nodes else node
    return {row: node for row, node in nodes.items() if node >= 0}
