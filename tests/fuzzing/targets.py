"""Every reader of files, with valid files to damage and the function that reads them."""

from __future__ import annotations

import gzip
import io
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from cge.data import load_folder, read_features, read_graph, read_labels
from cge.data.files.update_files import read_graph_update
from cge.data.sets.aminer import read_aminer
from cge.data.sets.load import load_debian, load_heterophilous, load_npm, load_vispub
from cge.data.sets.pickles import read_pickle
from cge.data.sets.planetoid import load_nell_derived, load_planetoid
from cge.errors import CgeError
from cge.estimators.configs import read_settings
from cge.estimators.tuning import open_storage
from cge.graph import Graph
from studies.cells import read_cells
from tests.fuzzing.damage import damaged, damaged_gzip, damaged_npy, damaged_zip, nonsense

__all__ = ["TARGETS", "Files", "Target", "read_files"]

Files = dict[str, bytes]


@dataclass(frozen=True)
class Target:
    """A reader: `valid` files to damage, one at a time; `around` are other files that it needs; `read` reads them."""

    valid: Files
    read: Callable[[Path, Files], object]
    around: Mapping[str, bytes] = field(default_factory=dict)
    share: float = 1.0  # of the inputs, relative to the other targets
    draw: Callable[[Random], Files] | None = None  # draws damaged files that belong together

    def make(self, random: Random) -> Files:
        """Draw a file and damage it."""
        if self.draw is not None:
            return self.draw(random)
        name = random.choice(sorted(self.valid))
        return {name: damage_file(name, self.valid[name], random)}


def read_files(target: Target, folder: Path, files: Files) -> bool:
    """Read damaged files in a folder; return whether they were accepted. Only a `CgeError` is caught."""
    written = {**target.around, **files}
    for name, data in written.items():
        (folder / name).write_bytes(data)
    try:
        target.read(folder, files)
    except CgeError:
        return False
    finally:
        for name in written:  # other targets use the same folder
            (folder / name).unlink(missing_ok=True)
    return True


# ---------------------------------------------------------------------- valid files


def parquet(**columns: Any) -> bytes:
    """Return a Parquet file, not compressed, so that damage reaches its content."""
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream, compression="NONE")
    return stream.getvalue()


def npy(array: Any) -> bytes:
    """Return an array in NumPy's format."""
    stream = io.BytesIO()
    np.save(stream, np.asarray(array), allow_pickle=False)
    return stream.getvalue()


def npz(**arrays: Any) -> bytes:
    """Return an archive of arrays."""
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def sparse(matrix: Any) -> bytes:
    """Return a sparse matrix as SciPy saves it."""
    stream = io.BytesIO()
    sp.save_npz(stream, matrix, compressed=False)
    return stream.getvalue()


_PAIRS = np.array([[0, 1], [1, 2], [2, 3], [3, 0], [4, 0]])
_MATRIX = sp.csr_array((np.ones(8), ([0, 1, 1, 2, 2, 3, 3, 0], [1, 0, 2, 1, 3, 2, 0, 3])), shape=(5, 5))
_NAMES = ["ann", "bob", "New York, NY", "dan", "eve é"]
_TEXT = (
    b'source,target,weight,type\nann,bob,0.5,knows\nbob,"New York, NY",2,likes\n'
    b'dan,ann,1e3,knows\n"eve \xc3\xa9",dan,7,knows\n'
)
_NUMBERED = b"0 1\n1 2\n2 3\n3 0\n4 0\n"
_LABELED = b'node,label\nann,red\nbob,blue\n"New York, NY",red\ndan,green\n'
_CODED = b"0\t1\n1\t0\n2\t1\n3\t2\n"
_ROWS = b'node,a,b\nann,1,2\nbob,3,4.5\n"New York, NY",-1,0\ndan,0,1e-3\neve \xc3\xa9,2,2\n'
_FEATURES = np.arange(10, dtype=np.float32).reshape(5, 2)

EDGES: Files = {
    "edges.csv": _TEXT,
    "edges.tsv": b"# a comment\n0\t1\t0.5\n1\t2\t2\n2\t3\t1\n",
    "edges.txt": _NUMBERED,
    "edges.csv.gz": gzip.compress(_TEXT, mtime=0),
    "edges.parquet": parquet(source=[0, 1, 2, 3], target=[1, 2, 3, 0], weight=[0.5, 1.0, 2.0, 3.0]),
    "edges.pq": parquet(source=_NAMES[:4], target=_NAMES[1:], type=["a", "b", "a", "a"]),
    "empty.parquet": parquet(source=pa.array([], pa.int64()), target=pa.array([], pa.int64())),
    "edges.npy": npy(_PAIRS),
    "edges.npz": npz(edges=_PAIRS),
    "matrix.npz": sparse(_MATRIX),
    "columns.npz": sparse(_MATRIX.tocsc()),
    "entries.npz": sparse(_MATRIX.tocoo()),
    "diagonal.npz": sparse(sp.dia_array(_MATRIX)),
    "edges.mtx": b"%%MatrixMarket matrix coordinate real general\n% a comment\n5 5 4\n1 2 0.5\n2 1 0.5\n3 4 2\n4 3 2\n",
    "half.mtx": b"%%MatrixMarket matrix coordinate pattern symmetric\n5 5 4\n2 1\n3 2\n4 3\n5 1\n",
}
_LABELS: Files = {
    "labels.csv": _LABELED,
    "labels.tsv": _CODED,
    "labels.csv.gz": gzip.compress(_LABELED, mtime=0),
    "labels.parquet": parquet(node=_NAMES[:4], label=["red", "blue", "red", "green"]),
    "empty.parquet": parquet(node=pa.array([], pa.string()), label=pa.array([], pa.string())),
    "labels.pq": parquet(node=[0, 1, 2, 3], label=[1, 0, 1, 2]),
}
_FEATURE_FILES: Files = {
    "features.csv": _ROWS,
    "features.tsv": b"0\t1\t2\n1\t3\t4\n2\t5\t6\n3\t7\t8\n4\t9\t0\n",
    "features.parquet": parquet(node=_NAMES, a=[1.0, 2, 3, 4, 5], b=[1, 2, 3, 4, 5]),
    "empty.parquet": parquet(node=pa.array([], pa.string()), a=pa.array([], pa.float64())),
    "features.npy": npy(_FEATURES),
    "features.npz": npz(features=_FEATURES),
    "words.npz": sparse(sp.csr_array(_FEATURES)),
}
_NODES: Files = {
    "nodes.txt": b'ann\nbob\n"New York, NY"\ndan\n"eve \xc3\xa9"\n',
    "nodes.csv": b"node\n4\n3\n2\n1\n0\n",
    "nodes.parquet": parquet(id=_NAMES),
    "nodes.npy": npy([0, 1, 2, 3, 4]),
    "named.npy": npy(_NAMES),
    "empty.parquet": parquet(id=pa.array([], pa.string())),
    "empty.npy": npy(np.empty(0, np.int64)),
}
_OF_TEXT = {"edges.csv", "edges.csv.gz", "edges.pq", "labels.csv", "labels.csv.gz", "labels.parquet", "features.csv"}
_OF_TEXT |= {"empty.parquet", "features.parquet", "nodes.txt", "nodes.parquet", "named.npy"}
_FOLDER: Files = {
    "edges.csv": _TEXT,
    "labels.csv": _LABELED,
    "features.csv": _ROWS,
    "split.csv": b'node,role\nann,train\nbob,train\ndan,validation\n"New York, NY",test\n',
}


@cache
def _graphs() -> tuple[Graph, Graph]:
    """Return the graph of the text edges, and one of integers."""
    edges, features = [("ann", "bob"), ("bob", "New York, NY"), ("dan", "ann"), ("eve é", "dan")], np.ones((5, 2))
    return Graph.from_edges(edges, features, _NAMES), Graph.from_edges(_PAIRS, features)


def _graph_of(name: str) -> Graph:
    """Return the graph whose ids are those of a valid file."""
    return _graphs()[int(name not in _OF_TEXT)]


def _pickles() -> Files:
    x, y = sp.csr_matrix(np.eye(2, dtype=np.float32)), np.array([[1, 0], [0, 1]], np.int32)
    allx, ally = sp.csr_matrix(np.ones((3, 2), np.float32)), np.array([[1, 0], [0, 1], [0, 0]], np.int32)
    graph = {0: [1, 1, 0], 1: [0, 2], 2: [1], 3: [], 4: [5], 5: [4]}
    parts: dict[str, Any] = {"x": x, "y": y, "tx": x, "ty": y, "allx": allx, "ally": ally, "graph": graph}
    files = {f"ind.cora.{name}": pickle.dumps(part, protocol=4) for name, part in parts.items()}
    return files | {"ind.cora.test.index": b"5\n4\n"}


def _masks() -> bytes:
    masks = {
        name: np.eye(2, 5, offset).astype(bool)
        for offset, name in enumerate(("train_masks", "val_masks", "test_masks"))
    }
    return npz(node_features=_FEATURES, node_labels=np.arange(5) % 2, edges=_PAIRS, **masks)


def _nell() -> bytes:
    matrix = sp.csr_array(_FEATURES)
    parts = {
        "feat_data": matrix.data,
        "feat_indices": matrix.indices,
        "feat_indptr": matrix.indptr,
        "feat_shape": np.array([5, 2]),
    }
    split = {"train_idx": [0, 1], "val_idx_derived": [2], "test_idx": [3]}
    return npz(edges=_PAIRS, labels=np.array([0, 1, 0, 1, -1]), **split, **parts)


_AMINER = b"2\n\n#*First paper\n#cKDD\n#index 1\n\n#*Second, with \xc3\xa9\n#cICML\n#index2\n#%1\n#%99\n"
_AMINER += b"\n#*Third\n#cKDD\n#index3\n#%1\n#%2\n"
_TOML = b'dim = 64\nclassifier = "consistency"\nrefit = false\ndropout = 0.5\nn_augmentations = "none"\n'
_CELLS = b'{"graph": "cora", "method": "gcn", "seed": 0, "test": 0.81}\n'
_CELLS += _CELLS.replace(b": 0,", b": 1,")
_VISPUB: Files = {
    "nodes.tsv": b"id\tdoi\tvenue\ttitle\n0\t10/a\tVIS\tOne\n1\t10/b\tInfoVis\tTwo\n2\t10/c\tVIS\t\xc3\x9cber\n",
    "edges.tsv": b"0\t1\n1\t2\n",
}
_NPM: Files = {
    "npm_deps_2016-12.names.txt.gz": gzip.compress(b'"left-pad"\n"@angular/core"\n"x"\n', mtime=0),
    "npm_deps_2016-12.edges.txt.gz": gzip.compress(b"0\t1\n1\t2\n", mtime=0),
}

_DEBIAN: Files = {
    "debian12_packages.nodes.tsv.gz": gzip.compress(
        b"id\tname\tsection\tdescription\n" + b"".join(b"%d\tp%d\tlibs\ta shared word\n" % (k, k) for k in range(6)),
        mtime=0,
    ),
    "debian12_packages.edges.tsv.gz": gzip.compress(b"0\t1\tDepends\n1\t2\tSuggests\n5\t4\tDepends\n", mtime=0),
}

_JOURNAL = (
    b'{"op_code":0,"worker_id":"a","study_name":"x","directions":[2]}\n'
    b'{"op_code":4,"worker_id":"a","study_id":0,"datetime_start":"2026-01-01T10:00:00.0+00:00"}\n'
    b'{"op_code":5,"worker_id":"a","trial_id":0,"param_name":"dim","param_value_internal":2.0,"distribution":'
    rb'"{\"name\": \"IntDistribution\", \"attributes\": {\"log\": false, \"step\": 1, \"low\": 2, \"high\": 5}}"}'
    b'\n{"op_code":6,"worker_id":"a","trial_id":0,"state":1,"values":[0.5],'
    b'"datetime_complete":"2026-01-01T10:00:01.0+00:00"}\n'
)

# ---------------------------------------------------------------------- damage by format


def damage_file(name: str, data: bytes, random: Random) -> bytes:
    """Damage a file as its format allows."""
    draw = random.random()
    if draw < 0.15:
        return nonsense(random)
    if draw < 0.17:
        return data
    damage = {".gz": damaged_gzip, ".npy": damaged_npy, ".npz": damaged_zip}.get(Path(name).suffix, damaged)
    return damage(data, random)


def _first(files: Files) -> str:
    return next(iter(files))


def _read_edges(folder: Path, files: Files) -> object:
    path = folder / _first(files)
    options: dict[str, Any] = {"ids": ("auto", "str", "int")[sum(files[path.name][:3]) % 3]}
    if sum(files[path.name][:5]) % 2:
        options = {"directed": True, "self_loops": True}
    return read_graph(path, **options)


def _read_labels(folder: Path, files: Files) -> object:
    path = folder / _first(files)
    return read_labels(path, _graph_of(path.name), multilabel=bool(sum(files[path.name][:3]) % 2))


def _read_features(folder: Path, files: Files) -> object:
    path = folder / _first(files)
    if sum(files[path.name][:3]) % 2:
        return read_features(path, _graph_of(path.name))
    return read_graph(folder / ("edges.csv" if path.name in _OF_TEXT else "edges.txt"), path)


def _read_nodes(folder: Path, files: Files) -> object:
    name = _first(files)
    return read_graph(folder / ("edges.csv" if name in _OF_TEXT else "edges.txt"), nodes=folder / name)


def _read_new(folder: Path, files: Files) -> object:
    name = _first(files)
    path, graph = folder / name, _graph_of(name)
    if name in _NODES:
        return read_graph_update(graph, features=folder / "rows.npy", feature_nodes=path)
    if name in EDGES:
        return read_graph_update(graph, path)
    return read_graph_update(graph, features=path, feature_nodes=None if name in _KEYED else folder / "numbers.npy")


def _read_journal(path: Path) -> object:
    return open_storage(str(path)).get_all_studies()


def _read_folder(folder: Path, _: Files) -> object:
    return load_folder(folder)


def _single(read: Callable[[Path], object]) -> Callable[[Path, Files], object]:
    return lambda folder, files: read(folder / _first(files))


def _whole(read: Callable[[Path], object]) -> Callable[[Path, Files], object]:
    return lambda folder, _: read(folder)


def _target(
    files: Files, read: Callable[[Path, Files], object], around: Files | None = None, share: float = 1.0
) -> Target:
    return Target(files, read, around or {}, share)


_PICKLES = _pickles()
_ARRAYS = {name: data for name, data in _PICKLES.items() if not name.endswith("index")}
_KEYED = ("features.csv", "features.tsv", "features.parquet")
_NEW = {name: data for name, data in (EDGES | _FEATURE_FILES | _NODES).items() if not name.endswith(".mtx")}
for _matrix in ("matrix.npz", "columns.npz", "entries.npz", "diagonal.npz"):
    del _NEW[_matrix]
_AROUND_NEW = {"rows.npy": npy(_FEATURES), "numbers.npy": npy([0, 1, 2, 3, 7])}

TARGETS: dict[str, Target] = {
    "edges": _target(EDGES, _read_edges, share=4),
    "labels": _target(_LABELS, _read_labels, share=2),
    "features": _target(_FEATURE_FILES, _read_features, {"edges.csv": _TEXT, "edges.txt": _NUMBERED}, share=2),
    "nodes": _target(_NODES, _read_nodes, {"edges.csv": _TEXT, "edges.txt": _NUMBERED}),
    "new-nodes": _target(_NEW, _read_new, _AROUND_NEW),
    "folder": _target(_FOLDER, _read_folder, _FOLDER),
    "split": _target({"split.csv": _FOLDER["split.csv"]}, _read_folder, _FOLDER),
    "pickle": _target(_ARRAYS, _single(partial(read_pickle, trust=True)), share=2),
    "planetoid": _target(_PICKLES, _whole(partial(load_planetoid, name="cora", trust=True)), _PICKLES),
    "nell": _target({"nell.npz": _nell()}, _single(partial(load_nell_derived, name="nell-0.1")), share=0.5),
    "heterophilous": _target({"actor.npz": _masks()}, _single(partial(load_heterophilous, name="actor")), share=0.5),
    "vispub": _target(_VISPUB, _whole(load_vispub), _VISPUB, share=0.5),
    "npm": _target(_NPM, _whole(load_npm), _NPM, share=0.5),
    "debian": _target(_DEBIAN, _whole(load_debian), _DEBIAN, share=0.2),
    "aminer": _target({"papers.txt": _AMINER, "papers.gz": gzip.compress(_AMINER, mtime=0)}, _single(read_aminer)),
    "settings": _target({"settings.toml": _TOML}, _single(read_settings), share=0.5),
    "journal": _target({"cora-gcn.journal": _JOURNAL}, _single(_read_journal), share=0.2),
    "cells": _target({"cora.jsonl": _CELLS}, _whole(read_cells), share=0.5),
}
