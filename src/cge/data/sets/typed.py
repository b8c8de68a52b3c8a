"""Data sets with node and edge types: ACM, IMDB, Yelp and AIFB, each a folder of four tables.

`nodes.csv` (id, type and a name), `edges.csv.gz` (source, target, type and a weight), `features.npz` (a sparse matrix
with a row for each node) and `labels.csv` (id, label and the role of the node in each split).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import scipy.sparse as sp

from cge.arrays import Array
from cge.data.dataset import Dataset
from cge.data.files.graph_files import read_graph
from cge.data.splits import Split
from cge.errors import FileFormatError, InputError
from cge.graph import Graph

TYPED_FILES = ("nodes.csv", "edges.csv.gz", "features.npz", "labels.csv")
_ROLES = ("train", "validation", "test")


@dataclass(frozen=True)
class TypedSource:
    """What the files of a data set do not contain: class names, notes and the citation."""

    classes: tuple[str, ...]
    notes: str
    citation: str


TYPED_SETS = {
    "acm": TypedSource(
        ("database", "wireless communication", "data mining"),
        "papers are labeled; splits of HeCo with 20, 40 and 60 training labels per class; words of an author are those "
        "of the author's papers",
        "X. Wang, N. Liu, H. Han, C. Shi: Self-supervised heterogeneous graph neural network with co-contrastive "
        "learning. KDD 2021",
    ),
    "imdb": TypedSource(
        ("0", "1", "2"),
        "movies are labeled by genre (action, comedy and drama, in an undocumented order); split of GTN",
        "S. Yun, M. Jeong, R. Kim, J. Kang, H. J. Kim: Graph transformer networks. NeurIPS 2019",
    ),
    "yelp": TypedSource(
        ("0", "1", "2"),
        "businesses are labeled by category; split of HGSL; weights are numbers of parallel links",
        "J. Zhao, X. Wang, C. Shi, B. Hu, G. Song, Y. Ye: Heterogeneous graph structure learning for graph neural "
        "networks. AAAI 2021",
    ),
    "aifb": TypedSource(
        ("id1", "id2", "id3", "id4"),
        "persons are labeled by research group; no features; published split without validation nodes",
        "M. Schlichtkrull, T. Kipf et al.: Modeling relational data with graph convolutional networks. ESWC 2018",
    ),
}


def load_typed(folder: str | Path, name: str, *, directed: bool = False, edge_types: bool = True) -> Dataset:
    """Read a data set with node and edge types from its folder; `edge_types=False` leaves out both kinds of types."""
    nodes, edges, features, labels = (Path(folder) / file for file in TYPED_FILES)
    source, titles = TYPED_SETS[name], _titles(nodes)
    graph = read_graph(edges, features, nodes=nodes, node_types="type", directed=directed)
    if not edge_types:
        weighted = graph.weights is not None
        graph = Graph.from_scipy(graph.to_scipy(), graph.features, graph.node_ids, directed, weighted=weighted)
    if isinstance(graph.features, sp.csr_array) and not graph.features.count_nonzero():
        graph = graph.with_features(None)
    codes, splits = _labels(labels, len(graph), len(source.classes))
    try:
        return Dataset(
            name,
            graph,
            codes,
            source.classes,
            splits=splits,
            node_titles=titles,
            notes=source.notes,
            citation=source.citation,
        )
    except InputError as error:
        raise FileFormatError(labels, f"contains inconsistent columns: {error}") from None


def _columns(path: Path) -> dict[str, Array]:
    try:
        table = pa_csv.read_csv(path, convert_options=pa_csv.ConvertOptions(strings_can_be_null=False))
    except (OSError, pa.ArrowException) as error:
        raise FileFormatError(path, f"cannot be read as a table: {error}") from None
    return {name: np.asarray(table.column(name).to_numpy()) for name in table.column_names}


def _titles(path: Path) -> Array | None:
    """Return the names of the nodes, where the table has a column of them."""
    names = _columns(path).get("name")
    return None if names is None else names.astype(object)


def _labels(path: Path, size: int, classes: int) -> tuple[Array, tuple[Split, ...]]:
    """Return the label of each node, −1 where there is none, and the splits, one for each column of roles."""
    columns = _columns(path)
    ids, labels = (columns.get(name, np.empty(0)) for name in ("id", "label"))
    for values, limit in ((ids, size), (labels, classes)):
        if values.dtype.kind != "i" or (len(values) and not 0 <= values.min() <= values.max() < limit):
            raise FileFormatError(path, f"expected nodes below {size:,} and labels below {classes}; fetch it again")
    codes = np.full(size, -1, np.int64)
    codes[ids] = labels
    roles = [columns[name] for name in columns if name.startswith("split")]
    return codes, tuple(Split(*(np.sort(ids[role == each]) for each in _ROLES)) for role in roles)
