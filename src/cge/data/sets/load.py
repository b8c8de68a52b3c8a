"""Load a data set by its name; the readers of those that are published as one archive of arrays or as tables.

Edges of the tables point from a paper to one that it cites, from a package to one that it depends on. By default they
are read as undirected, the usual choice for random walks. `directed=True` keeps the directions.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import scipy.io
import scipy.sparse as sp

from cge.arrays import Array
from cge.data.dataset import Dataset
from cge.data.files.arrays import load_members
from cge.data.sets.catalog import dataset_info
from cge.data.sets.fetch import fetch_files, location_of
from cge.data.sets.planetoid import load_nell, load_nell_derived, load_planetoid
from cge.data.sets.typed import load_typed
from cge.data.splits import Split
from cge.errors import FileFormatError, InputError
from cge.graph import Graph
from cge.ids import factorize

_CORA = "degrees neighbors word_counts words num_words labels class_names paper_ids train validation test"
_MASKS = ("train_masks", "val_masks", "test_masks")
_MAX_WORDS = 5_000  # the most frequent ones; a word must be in _MIN_PACKAGES descriptions
_MIN_PACKAGES = 5


def load_dataset(
    name: str, *, directed: bool = False, edge_types: bool | None = None, download: bool = True, trust: bool = False
) -> Dataset:
    """Load a data set by name; `catalog()` lists them.

    Its files are taken from the folder named by the environment variable `CGE_DATA_DIR`, else from the user's cache,
    else downloaded there; CORA comes with the package. The SHA256 of each file must be the published one.

    Parameters
    ----------
    name : str
        "cora", "citeseer", "pubmed", "nell-0.1", "nell-0.01", "nell-0.001", "vispub", "blogcatalog", "debian", "npm",
        "actor", "chameleon", "squirrel", "acm", "imdb", "yelp" or "aifb", in any case.
    directed : bool
        Keep edge directions, where the source has them (vispub, debian, npm, aifb).
    edge_types : bool, optional
        Whether edge types, and node types, are kept, where the source has them (debian, acm, imdb, yelp, aifb); they
        are by default.
    download : bool
        Whether the network may be used.
    trust : bool
        Read files whose SHA256 is not the published one, such as tables that you made yourself.

    Examples
    --------
    >>> load_dataset("cora").label_counts()["Theory"]
    351
    """
    info = dataset_info(name)
    if directed and not info.has_directions:
        raise InputError(f"the edges of {info.name!r} have no directions; leave out directed=True")
    if edge_types is not None and not info.has_edge_types:
        raise InputError(f"the edges of {info.name!r} have no types; leave out edge_types={edge_types!r}")
    if not info.files:
        return load_cora()
    data_files = info.raw_files if info.raw_files and location_of(info.files) == "not downloaded" else info.files
    root = fetch_files(info.name, data_files, contents=info.contents, download=download, trust=trust)
    first = root / data_files[0].path
    folder = first.parent
    match info.name:
        case "citeseer" | "pubmed":
            return load_planetoid(folder, info.name, trust=trust)
        case "nell-0.1" | "nell-0.01" | "nell-0.001" if data_files == info.raw_files:
            return load_nell(folder, info.name, trust=trust)
        case "nell-0.1" | "nell-0.01" | "nell-0.001":
            return load_nell_derived(first, info.name)
        case "vispub":
            return load_vispub(folder, directed=directed)
        case "blogcatalog":
            return load_blogcatalog(first)
        case "debian":
            return load_debian(folder, directed=directed, edge_types=edge_types is not False)
        case "npm":
            return load_npm(folder, directed=directed)
        case "acm" | "imdb" | "yelp" | "aifb":
            return load_typed(folder, info.name, directed=directed, edge_types=edge_types is not False)
        case _:
            return load_heterophilous(first, info.name)


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
        notes="bundled; node order, class order and split as in Planetoid; titles are paper ids",
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


def load_vispub(folder: str | Path, *, directed: bool = False) -> Dataset:
    """Read the papers of IEEE VIS, 1990-2015, and their citations; venues are classes, node ids are DOIs."""
    nodes_path, edges_path = Path(folder) / "nodes.tsv", Path(folder) / "edges.tsv"
    nodes = _read_columns(nodes_path, {"id": int, "doi": str, "venue": str, "title": str}, header=True)
    edges = _read_columns(edges_path, {"source": int, "target": int}, header=False)
    _check_numbering(nodes_path, nodes["id"], edges_path, edges)
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


def load_debian(folder: str | Path, *, directed: bool = False, edge_types: bool = True) -> Dataset:
    """Read the packages of Debian 12: sections as classes, TF-IDF of the one-line descriptions as features.

    Node ids are package names, titles the descriptions. Edge types are the kinds of dependency (Depends, Recommends,
    …); two packages may have edges of several types. `edge_types=False` merges them.
    """
    nodes_path, edges_path = (Path(folder) / f"debian12_packages.{part}.tsv.gz" for part in ("nodes", "edges"))
    nodes = _read_columns(nodes_path, {"id": int, "name": str, "section": str, "description": str}, header=True)
    edges = _read_columns(edges_path, {"source": int, "target": int, "kind": str}, header=False)
    _check_numbering(nodes_path, nodes["id"], edges_path, edges)
    types = edges["kind"] if edge_types else None
    graph = Graph.from_codes(edges["source"], edges["target"], nodes["name"], edge_types=types, directed=directed)
    codes, sections = factorize(nodes["section"])
    order = np.argsort(sections.astype(str))
    return Dataset(
        "debian",
        graph.with_features(_tf_idf(nodes_path, nodes["description"])),
        np.argsort(order)[codes],
        tuple(sections[order].tolist()),
        node_titles=nodes["description"],
        notes=f"classes are sections; features are TF-IDF of descriptions, words in at least {_MIN_PACKAGES} packages, "
        f"at most {_MAX_WORDS:,} of them; no published split",
        citation="Debian 12 package index, https://packages.debian.org",
    )


def load_npm(folder: str | Path, *, directed: bool = False) -> Dataset:
    """Read the npm packages of December 2016 and what they depend on, without labels; node ids are package names."""
    names_path, edges_path = (Path(folder) / f"npm_deps_2016-12.{part}.txt.gz" for part in ("names", "edges"))
    names = _json_lines(names_path)
    edges = _read_columns(edges_path, {"source": int, "target": int}, header=False)
    _check_numbering(names_path, np.arange(len(names)), edges_path, edges)
    return Dataset(
        "npm",
        Graph.from_codes(edges["source"], edges["target"], names, directed=directed),
        np.full(len(names), -1),
        notes="no labels and no features: for measuring at scale",
        citation="package dependent-packages 2.2.2, from the npm registry, December 2016",
    )


def _tf_idf(path: Path, texts: Array) -> sp.csr_array:
    """Return TF-IDF rows of unit length, `(n, words)`."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # slow to import, and only needed here

    vectorizer = TfidfVectorizer(min_df=_MIN_PACKAGES, max_features=_MAX_WORDS, dtype=np.float32)
    try:
        return sp.csr_array(vectorizer.fit_transform(texts))
    except ValueError:  # no word remains
        raise FileFormatError(path, f"no word is in {_MIN_PACKAGES} descriptions; fetch the file again") from None


def _json_lines(path: Path) -> Array:
    """Return one JSON string per line, read as one JSON list."""
    try:
        lines = gzip.decompress(path.read_bytes()).splitlines()
        values = json.loads(b"[" + b",".join(lines) + b"]")
    except (OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
        raise FileFormatError(path, f"cannot be read as gzipped JSON strings, one per line: {error}") from None
    if len(values) != len(lines) or not all(type(value) is str for value in values):
        raise FileFormatError(path, "must contain one JSON string per line")
    return np.array(values, object)


def _read_columns(path: Path, columns: Mapping[str, type], *, header: bool) -> dict[str, Array]:
    """Return columns of `int` (int64) or `str` (objects) by name; plain or gzip, without quotes.

    With a header columns are selected by name, else by position.
    """
    types = {name: pa.int64() if kind is int else pa.large_string() for name, kind in columns.items()}
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            table = pa_csv.read_csv(
                stream,
                pa_csv.ReadOptions(column_names=None if header else list(columns)),
                pa_csv.ParseOptions(delimiter="\t", quote_char=False),
                pa_csv.ConvertOptions(column_types=types, include_columns=list(columns), strings_can_be_null=False),
            )
    except (OSError, KeyError, pa.ArrowException) as error:
        raise FileFormatError(path, f"cannot be read as tab-separated columns {', '.join(columns)}: {error}") from None
    for name in columns:
        if table.column(name).null_count:
            raise FileFormatError(path, f"column {name!r} has {table.column(name).null_count:,} empty fields")
    return {name: np.asarray(table.column(name).to_numpy()) for name in columns}


def _check_numbering(nodes_path: Path, numbers: Array, edges_path: Path, edges: Mapping[str, Array]) -> None:
    if not np.array_equal(numbers, np.arange(len(numbers))):
        raise FileFormatError(nodes_path, "must number its nodes 0, 1, 2, …")
    for endpoints in (edges["source"], edges["target"]):
        wrong = np.flatnonzero((endpoints < 0) | (endpoints >= len(numbers)))
        if len(wrong):
            line = int(wrong[0]) + 1
            raise FileFormatError(edges_path, f"found node {endpoints[wrong[0]]}, but there are {len(numbers):,}", line)
