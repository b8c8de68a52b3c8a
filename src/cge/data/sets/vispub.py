"""Papers of IEEE VIS, 1990–2015, and the citations among them; venues are classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cge.data.dataset import Dataset
from cge.data.sets.tsv import read_columns
from cge.errors import FileFormatError
from cge.graph import Graph
from cge.ids import factorize


def load_vispub(folder: str | Path, *, directed: bool = False) -> Dataset:
    """Read `nodes.tsv` and `edges.tsv`: node ids are DOIs, titles those of the papers.

    Citations, which point from the citing paper to the cited, are read as undirected unless `directed`.
    """
    nodes_path, edges_path = Path(folder) / "nodes.tsv", Path(folder) / "edges.tsv"
    nodes = read_columns(nodes_path, {"id": int, "doi": str, "venue": str, "title": str}, header=True)
    edges = read_columns(edges_path, {"source": int, "target": int}, header=False)
    endpoints = np.concatenate([edges["source"], edges["target"]])
    if not np.array_equal(nodes["id"], np.arange(len(nodes["id"]))):
        raise FileFormatError(nodes_path, "must number its papers 0, 1, 2, …")
    if len(endpoints) and (endpoints.min() < 0 or endpoints.max() >= len(nodes["id"])):
        raise FileFormatError(edges_path, f"found paper {endpoints.max()}, but there are {len(nodes['id']):,}")
    codes, venues = factorize(nodes["venue"])
    return Dataset(
        "vispub",
        Graph.from_codes(edges["source"], edges["target"], nodes["doi"], directed=directed),
        codes,
        tuple(venues.tolist()),
        node_titles=nodes["title"],
        notes="classes are venues; no features; no published split",
        citation="P. Isenberg et al.: vispubdata.org: A metadata collection about IEEE Visualization (VIS) "
        "publications. IEEE Transactions on Visualization and Computer Graphics 23(9), 2017",
    )
