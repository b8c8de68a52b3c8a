"""Data sets that are published as one archive of arrays: CORA, BlogCatalog and the heterophilous graphs."""

from __future__ import annotations

import zlib
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse as sp

from cge.data.dataset import Dataset
from cge.data.files.arrays import load_members
from cge.data.splits import Split
from cge.errors import FileFormatError, InputError
from cge.graph import Graph

_CORA = "degrees neighbors word_counts words num_words labels class_names paper_ids train validation test"
_MASKS = ("train_masks", "val_masks", "test_masks")


def load_cora() -> Dataset:
    """Return the bundled CORA in Planetoid's node order with its standard split; titles are the original paper ids.

    `scripts/build_cora.py` builds the file; `bundled/README.md` documents its source.

    >>> load_cora()
    Dataset(cora: 2,708 nodes, 5,278 edges, 7 classes, 2,708 labeled nodes, 1,433 features, split 140/500/1,000)
    """
    with as_file(files("cge.data.sets") / "bundled" / "cora.npz") as path:
        parts = load_members(path, _CORA.split())
    size, columns = len(parts["labels"]), parts["words"].astype(np.int32)
    rows = np.concatenate([[0], np.cumsum(parts["word_counts"], dtype=np.int32)])
    features = sp.csr_array((np.ones(len(columns), np.float32), columns, rows), shape=(size, int(parts["num_words"])))
    source = np.repeat(np.arange(size), parts["degrees"])
    return Dataset(
        "cora",
        Graph.from_edges((source, parts["neighbors"].astype(np.int64)), features, num_nodes=size),
        parts["labels"].astype(np.int64),
        tuple(parts["class_names"].tolist()),
        Split(parts["train"], parts["validation"], parts["test"]),
        node_titles=parts["paper_ids"].astype(str).astype(object),
        notes="bundled; nodes, classes and split in the order of Planetoid; titles are paper ids",
        citation="A. McCallum, K. Nigam, J. Rennie, K. Seymore: Automating the construction of internet portals with "
        "machine learning. Information Retrieval 3, 2000; split of Z. Yang, W. Cohen, R. Salakhutdinov: Revisiting "
        "semi-supervised learning with graph embeddings. ICML 2016",
    )


def load_blogcatalog(path: str | Path) -> Dataset:
    """Read DeepWalk's `.mat` file with `network` (n, n) and `group` (n, 39); a blogger may be in several groups.

    `load_dataset` checks the file's SHA256 first: SciPy may end the whole process on a damaged one.
    """
    try:
        parts = scipy.io.loadmat(path, variable_names=["network", "group"])
        network, group = parts["network"], parts["group"]
    except (OSError, KeyError, TypeError, ValueError, zlib.error, scipy.io.matlab.MatReadError) as error:
        raise FileFormatError(path, f"cannot be read as MATLAB arrays network and group: {error}") from None
    labels = (np.asarray(group.todense()) if sp.issparse(group) else np.asarray(group)) != 0
    return Dataset(
        "blogcatalog",
        Graph.from_scipy(network, directed=False),
        labels.astype(np.int64),
        tuple(str(number + 1) for number in range(labels.shape[1])),
        notes="several labels per node; no features; no published split",
        citation="L. Tang, H. Liu: Relational learning via latent social dimensions. KDD 2009",
    )


def load_heterophilous(path: str | Path, name: str) -> Dataset:
    """Read a graph in which neighbors mostly do *not* share a label (Platonov et al., 2023), with its ten splits.

    The file has edges, features, labels and ten rows of masks, each row a split. Classes have no names.
    """
    parts = load_members(Path(path), ["node_features", "node_labels", "edges", *_MASKS])
    labels, masks = parts["node_labels"], [parts[mask] for mask in _MASKS]
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or labels.max(initial=0) >= len(labels):
        raise FileFormatError(path, f"labels must be numbers below {labels.size:,}, one for each node; fetch it again")
    if any(mask.dtype != bool or mask.ndim != 2 or mask.shape != (len(masks[0]), len(labels)) for mask in masks):
        raise FileFormatError(path, f"masks must be booleans of shape (splits, {len(labels):,})")
    try:
        return Dataset(
            name,
            Graph.from_edges(parts["edges"], sp.csr_array(parts["node_features"]), num_nodes=len(labels)),
            labels,
            tuple(map(str, range(int(labels.max()) + 1))),
            splits=tuple(Split(*map(np.flatnonzero, rows)) for rows in zip(*masks, strict=True)),
            notes="ten published splits; the first is the default",
            citation="O. Platonov et al.: A critical look at the evaluation of GNNs under heterophily: are we really "
            "making progress? ICLR 2023",
        )
    except (InputError, TypeError, ValueError) as error:
        raise FileFormatError(path, f"contains inconsistent arrays: {error}") from None
