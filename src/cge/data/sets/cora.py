"""The CORA graph, bundled with the package so that it loads without a network.

`scripts/build_cora.py` builds the file; `bundled/README.md` documents its source.
"""

from __future__ import annotations

from importlib.resources import as_file, files

import numpy as np
import scipy.sparse as sp

from cge.data.dataset import Dataset
from cge.data.files.arrays import load_members
from cge.data.splits import Split
from cge.graph import Graph


def load_cora() -> Dataset:
    """Return CORA in Planetoid's node order with its standard split; titles are the paper ids of the original.

    >>> load_cora()
    Dataset(cora: 2,708 nodes, 5,278 edges, 7 classes, 2,708 labeled nodes, 1,433 features, split 140/500/1,000)
    """
    with as_file(files("cge.data.sets") / "bundled" / "cora.npz") as path:
        parts = load_members(path, _PARTS)
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


_PARTS = (
    "degrees",
    "neighbors",
    "word_counts",
    "words",
    "num_words",
    "labels",
    "class_names",
    "paper_ids",
    "train",
    "validation",
    "test",
)
