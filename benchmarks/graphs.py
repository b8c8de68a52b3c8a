"""The graphs of the benchmarks, written once to the cache folder in the formats that the tools read.

Four undirected graphs without self-loops, repeats or isolated nodes, their nodes renumbered 0 … n-1: CORA, PUBMED and
npm from the catalog, and a generated power-law graph of 1 M nodes and 10 M edges. Every tool gets the same edges:

- `<name>.npz`: `indptr (n+1,)` int64 and `indices (2m,)` int32, rows ascending;
- `<name>.integers.tsv`: one edge per line, once, in random order;
- `<name>.strings.tsv`: the same lines with node v called `node-v`.
"""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import scipy.sparse as sp

from benchmarks.harness import cache_folder
from cge.errors import MissingDataError

__all__ = [
    "GRAPHS",
    "GraphFiles",
    "distinct",
    "edge_keys",
    "graph_files",
    "power_law_edges",
    "write_file",
    "write_named",
]

Array = npt.NDArray[Any]

GRAPHS = ("cora", "pubmed", "npm", "powerlaw")

_FORMAT = 1  # part of the folder's name: raise it when the files change
_NODES, _EDGES, _SEED = 1_000_000, 10_000_000, 0
_EXPONENT = 2.5  # of the degree distribution
_HEAD = 10.0  # flattens the head, so that the largest degree stays near 15,000


@dataclass(frozen=True)
class GraphFiles:
    """The files of a graph, and its size."""

    name: str
    nodes: int
    edges: int
    arrays: Path
    integers: Path
    strings: Path


def graph_files(name: str, share: float = 1.0) -> GraphFiles:
    """Return the files of a graph, written if they do not exist; `share` keeps that part of the edges."""
    folder = cache_folder() / f"graphs-{_FORMAT}"
    label = name if share == 1.0 else f"{name}-{share:g}"
    arrays, integers, strings = (folder / f"{label}{end}" for end in (".npz", ".integers.tsv", ".strings.tsv"))
    if not (arrays.exists() and integers.exists() and strings.exists()):
        folder.mkdir(parents=True, exist_ok=True)
        source, target = _edges(name)
        part = slice(None, max(1, round(len(source) * share)))
        source, target = _compact(source[part], target[part])
        write_file(integers, lambda file: _write_integers(file, source, target))
        write_file(strings, lambda file: write_named(file, source, target))
        write_file(arrays, lambda file: _write_arrays(file, source, target))
    with np.load(arrays) as file:
        return GraphFiles(label, len(file["indptr"]) - 1, len(file["indices"]) // 2, arrays, integers, strings)


def power_law_edges(nodes: int, edges: int, seed: int) -> tuple[Array, Array]:
    """Return `edges` distinct undirected edges between `nodes` nodes whose degrees follow a power law.

    A Chung–Lu graph: both ends are drawn with probability ∝ (rank + head)^(-1 / (exponent - 1)). So that no node is
    isolated, each is first the end of one edge. Ranks are shuffled over the node numbers.
    """
    random = np.random.default_rng(seed)
    every = np.arange(nodes, dtype=np.int64)
    keys = edge_keys(every, _ranks(random, nodes, nodes), nodes)
    missed = np.setdiff1d(every, np.concatenate([keys // nodes, keys % nodes]))  # drew themselves
    keys = np.concatenate([keys, edge_keys(missed, (missed + 1) % nodes, nodes)])
    keys = distinct(keys)
    while len(keys) < edges:
        count = int((edges - len(keys)) * 1.2) + 1000
        more = edge_keys(_ranks(random, count, nodes), _ranks(random, count, nodes), nodes)
        keys = distinct(np.concatenate([keys, more]))
    keys = keys[:edges]
    number = random.permutation(nodes)
    source, target = number[keys // nodes], number[keys % nodes]
    order = random.permutation(edges)
    return source[order], target[order]


def _ranks(random: np.random.Generator, count: int, nodes: int) -> Array:
    """Draw ranks by inverting the distribution function of (rank + head)^(-a), which has a closed form."""
    power = 1.0 - 1.0 / (_EXPONENT - 1.0)
    low, high = _HEAD**power, (nodes + _HEAD) ** power
    ranks = (low + random.random(count) * (high - low)) ** (1.0 / power) - _HEAD
    drawn: Array = np.minimum(ranks.astype(np.int64), nodes - 1)
    return drawn


def edge_keys(source: Array, target: Array, nodes: int) -> Array:
    """Return one number per undirected edge, without self-loops."""
    proper = source != target
    low, high = np.minimum(source, target)[proper], np.maximum(source, target)[proper]
    keys: Array = low * nodes + high
    return keys


def distinct(keys: Array) -> Array:
    """Return each key once, in order of first appearance."""
    _, first = np.unique(keys, return_index=True)
    return keys[np.sort(first)]


def _edges(name: str) -> tuple[Array, Array]:
    if name == "powerlaw":
        return power_law_edges(_NODES, _EDGES, _SEED)
    graph = _catalog_graph(name)
    source = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    target = graph.indices.astype(np.int64)
    keys = np.unique(edge_keys(source, target, graph.num_nodes))
    keys = np.random.default_rng(_SEED).permutation(keys)
    return keys // graph.num_nodes, keys % graph.num_nodes


def _catalog_graph(name: str) -> Any:
    try:
        from cge.data import load_dataset
    except ImportError as error:
        raise MissingDataError(f"the catalog of data sets cannot be imported: {error}") from error
    return load_dataset(name).graph


def _compact(source: Array, target: Array) -> tuple[Array, Array]:
    """Renumber the nodes that occur 0 … n-1, in their old order."""
    _, codes = np.unique(np.concatenate([source, target]), return_inverse=True)
    return codes[: len(source)], codes[len(source) :]


def write_file(path: Path, fill: Callable[[io.BufferedWriter], None]) -> None:
    """Write a file under another name and rename it when it is complete."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    with part.open("wb") as file:
        fill(file)
    shutil.move(part, path)


def _write_arrays(file: io.BufferedWriter, source: Array, target: Array) -> None:
    nodes = int(max(source.max(), target.max())) + 1
    ones = np.ones(2 * len(source), np.int8)
    rows, columns = np.concatenate([source, target]), np.concatenate([target, source])
    matrix = sp.csr_array(sp.coo_array((ones, (rows, columns)), shape=(nodes, nodes)))
    matrix.sort_indices()
    np.savez(file, indptr=matrix.indptr.astype(np.int64), indices=matrix.indices.astype(np.int32))


def _write_integers(file: io.BufferedWriter, source: Array, target: Array) -> None:
    _write_columns(file, pa.array(source), pa.array(target))


def write_named(file: io.BufferedWriter, *columns: Array) -> None:
    """Write columns of node numbers as lines of names: node 7 is called `node-7`."""
    named = (pc.binary_join_element_wise("node", pa.array(ids).cast(pa.string()), "-") for ids in columns)
    _write_columns(file, *named)


def _write_columns(file: io.BufferedWriter, *columns: Any) -> None:
    options = pa.csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    pa.csv.write_csv(pa.table({str(number): column for number, column in enumerate(columns)}), file, options)
