"""Graphs in which neighbors mostly do *not* share a label (Platonov et al., 2023), with their ten splits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from cge.data.dataset import Dataset
from cge.data.files.arrays import load_members
from cge.data.splits import Split
from cge.errors import FileFormatError, InputError
from cge.graph import Graph

_MASKS = ("train_masks", "val_masks", "test_masks")


def load_heterophilous(path: str | Path, name: str) -> Dataset:
    """Read a `.npz` file: edges, features, labels and ten rows of masks, each row a split. Classes have no names."""
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
