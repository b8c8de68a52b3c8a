"""Malformed files of every kind and the exact message for each, from the library; a sample also from `cge check`."""

from __future__ import annotations

import gzip
import os
import pickle
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from cge.cli.main import run
from cge.data import read_graph, read_labels
from cge.data.files import blocks
from cge.errors import CgeError, FileFormatError, InputError, UnknownNodeError

Files = dict[str, str | bytes | Callable[[Path], None]]


@dataclass(frozen=True)
class Case:
    """Files to write, which of them to read, and the message, in which `{dir}` is their folder."""

    name: str
    files: Files
    message: str
    edges: str = "edges.csv"
    labels: str | None = None
    features: str | None = None
    nodes: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    error: type[CgeError] = FileFormatError

    def write(self, folder: Path) -> None:
        for name, content in self.files.items():
            path = folder / name
            if callable(content):
                content(path)
            else:
                path.write_bytes(content.encode() if isinstance(content, str) else content)

    def path(self, folder: Path, which: str) -> Path | None:
        name = getattr(self, which)
        return None if name is None else folder / name

    def expected(self, folder: Path) -> str:
        return self.message.replace("{dir}", str(folder))


class _RunsCode:
    """A pickle that creates a folder when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (os.environ.get("CGE_TEST_TRACE", "code-was-run"),)


def _npy_pickle(path: Path) -> None:
    array = np.empty((1, 2), object)
    array[:] = _RunsCode()
    np.save(path, array, allow_pickle=True)


def _npz_pickle(path: Path) -> None:
    array = np.empty((1, 2), object)
    array[:] = _RunsCode()
    np.savez(path, features=array)


def _table(**columns: Any) -> Callable[[Path], None]:
    return lambda path: pq.write_table(pa.table(columns), path)


def _cut(write: Callable[[Path], None], keep: float) -> Callable[[Path], None]:
    def writer(path: Path) -> None:
        write(path)
        path.write_bytes(path.read_bytes()[: int(path.stat().st_size * keep)])

    return writer


def _too_large(path: Path) -> None:
    pq.write_table(pa.table({"node": ["a", "b"], "x": [1.0, 1e300]}), path)


def _npy_header(shape: tuple[int, ...]) -> Callable[[Path], None]:
    """Write an array of one number whose header declares another shape."""

    def writer(path: Path) -> None:
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, {"descr": "<i8", "fortran_order": False, "shape": shape})
            file.write(bytes(8))

    return writer


def _packed(write: Callable[[Path], None]) -> Callable[[Path], None]:
    def writer(path: Path) -> None:
        write(path)
        path.write_bytes(gzip.compress(path.read_bytes(), 0))

    return writer


def _in_archive(name: str, write: Callable[[Path], None]) -> Callable[[Path], None]:
    def writer(path: Path) -> None:
        write(path)
        content = path.read_bytes()
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, content)

    return writer


def _matrix(kind: str, shape: tuple[int, int], **parts: list[int]) -> Callable[[Path], None]:
    """Write parts of a sparse matrix of one 1 as SciPy does, without its checks."""
    arrays = {name: np.array(part) for name, part in parts.items()}
    data = np.ones((1, 2, 2) if kind == "bsr" else 1)
    return lambda path: np.savez(path, format=kind.encode(), shape=np.array(shape), data=data, **arrays)


def _out_of_bounds(path: Path) -> None:
    matrix = sp.csr_array(np.eye(2))
    matrix.indices[1] = 1000
    sp.save_npz(path, matrix)


def _bad_parquet_text(path: Path) -> None:
    text = pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, 4], np.int32)), pa.py_buffer(b"caf\xe9"))
    pq.write_table(pa.table({"source": ["a"], "target": text}), path)


GOOD = "a,b\nb,c\n"
MATRIX = "%%MatrixMarket matrix coordinate real general\n"
AS_TEXT = "pass ids='str' to read all ids as text"
DROP = "remove the edge, or pass weighted=False to ignore weights"
POINT = "write 1.5, with a point"
NETWORKX = "in NetworkX, write the file by write_weighted_edgelist, or by write_edgelist with data=False"
PICKLE = "this contains pickled objects, which can run arbitrary code and are never opened; save numbers"
EMPTY = (
    "found 2,000,000,000 rows, but only 1 entry, for which at most 10,000,100 rows are allowed; correct the size, or "
    "leave out isolated nodes"
)
ONE_ROW = "give each node one row"
KEEP = "remove these rows, add edges of these nodes, or pass all node ids with nodes"
SKIP_FLAG = "--missing-labels skip"
SKIP = "pass missing_labels='skip' to leave such rows out"

CASES = [
    # the file itself
    Case("missing file", {}, "{dir}/edges.csv: there is no such file; check its path"),
    Case(
        "directory",
        {"edges.csv": lambda path: path.mkdir()},
        "{dir}/edges.csv: this is a directory; give the path of a file",
    ),
    Case("empty file", {"edges.csv": ""}, "{dir}/edges.csv: the file is empty"),
    Case(
        "only comments",
        {"edges.csv": "# one\n\n  # two\n"},
        "{dir}/edges.csv: the file has no rows, only blanks or comments",
    ),
    Case("only a header", {"edges.csv": "source,target\n"}, "{dir}/edges.csv: the file has a header but no rows"),
    Case(
        "unknown suffix",
        {"edges.foo": GOOD},
        "{dir}/edges.foo: the suffix '.foo' is not one of .csv, .tsv, .tab, .txt, .text, .dat, .edges, .edgelist, "
        ".cites, .content, .parquet, .pq, .npy, .npz, .mtx; rename or convert the file",
        edges="edges.foo",
    ),
    *(
        Case(
            f"{suffix} file",
            {f"edges{suffix}": GOOD},
            f"{{dir}}/edges{suffix}: {problem}",
            edges=f"edges{suffix}",
        )
        for suffix, problem in [
            (".xlsx", "spreadsheets are not supported; save it as CSV"),
            (".xls", "spreadsheets are not supported; save it as CSV"),
            (".csv.zip", "only gzip is decompressed; unpack it first"),
            (".tsv.bz2", "only gzip is decompressed; unpack it first"),
            (".xz", "only gzip is decompressed; unpack it first"),
            (".zst", "only gzip is decompressed; unpack it first"),
            (".tar.gz", "only gzip is decompressed; unpack it first"),
            (".json", "this format is not supported; convert it to an edge list, e.g. with NetworkX"),
            (".graphml", "this format is not supported; convert it to an edge list, e.g. with NetworkX"),
            (".gml", "this format is not supported; convert it to an edge list, e.g. with NetworkX"),
            (".adjlist", "this format is not supported; convert it to an edge list, e.g. with NetworkX"),
        ]
    ),
    Case(
        "pickle",
        {"edges.pkl": lambda path: path.write_bytes(pickle.dumps(_RunsCode())) and None},
        "{dir}/edges.pkl: pickles can run arbitrary code and are never opened; save the data as .npz or .parquet",
        edges="edges.pkl",
    ),
    Case(
        "pickle under another name",
        {"edges.csv": lambda path: path.write_bytes(pickle.dumps([_RunsCode()], protocol=4)) and None},
        "{dir}/edges.csv: expected text, plain or gzip, found a pickle, which can run arbitrary code and is never "
        "opened",
    ),
    Case(
        "binary",
        {"edges.csv": b"1,2\n3,\x004\n"},
        "{dir}/edges.csv, line 2: expected text, found a zero byte; this looks like a binary file",
    ),
    Case(
        "binary later",
        {"edges.csv": b"1,2\n3,4\n5,6\n\x00\n"},
        "{dir}/edges.csv, line 4: expected text, found a zero byte; this looks like a binary file",
    ),
    Case(
        "zip archive",
        {"edges.csv": b"PK\x03\x04rest"},
        "{dir}/edges.csv: expected text, plain or gzip, found a zip archive or a spreadsheet; unpack it, or save "
        "it as CSV",
    ),
    Case(
        "UTF-16",
        {"edges.csv": "a,b\n".encode("utf-16")},
        "{dir}/edges.csv: the text is UTF-16; save it as UTF-8",
    ),
    Case(
        "truncated gzip",
        {"edges.csv.gz": gzip.compress(GOOD.encode())[:-9]},
        "{dir}/edges.csv.gz: the gzip data ends too early: the file is truncated; fetch it again",
        edges="edges.csv.gz",
    ),
    Case(
        "damaged gzip",
        {"edges.csv.gz": gzip.compress(GOOD.encode())[:-8] + b"\0" * 8},
        "{dir}/edges.csv.gz: the gzip data is damaged; fetch the file again",
        edges="edges.csv.gz",
    ),
    Case(
        "bare carriage returns",
        {"edges.csv": "a,b\rb,c\r"},
        "{dir}/edges.csv, line 1: lines end in bare carriage returns; save the file with ordinary line ends",
    ),
    Case(
        "invalid UTF-8",
        {"edges.csv": b"a,b\nb,caf\xe9\n"},
        "{dir}/edges.csv, line 2: expected UTF-8 text, found b'caf\\xe9'; save it as UTF-8",
    ),
    # rows and columns
    Case(
        "missing column",
        {"edges.csv": "a\nb\n"},
        "{dir}/edges.csv, line 1: expected a source and a target separated by commas, found only 'a'; pass delimiter",
    ),
    Case(
        "decimal comma between semicolons",
        {"edges.csv": "1;2;1,5\n2;3;2,5\n"},
        f"{{dir}}/edges.csv, line 1: expected a weight in column 3, found '1,5'; {POINT}",
    ),
    Case(
        "decimal comma later",
        {"edges.csv": "source;target;weight\n1;2;1\n2;3;1,5\n"},
        f"{{dir}}/edges.csv, line 3: expected a positive, finite weight, found '1,5'; {POINT}",
    ),
    Case(
        "decimal comma between blanks",
        {"edges.txt": "1 2 1,5\n2 3 2,5\n"},
        f"{{dir}}/edges.txt, line 1: expected a weight in column 3, found '1,5'; {POINT}",
        edges="edges.txt",
    ),
    Case(
        "two delimiters that both fit",
        {"edges.csv": "x;y,z\nu;v,w\n"},
        "{dir}/edges.csv, line 1: both semicolons and commas could separate the columns; pass delimiter",
    ),
    Case(
        "two delimiters in names",
        {"edges.txt": "ns;1 ns;2\nns;2 ns;3\n"},
        "{dir}/edges.txt, line 1: both semicolons and blanks could separate the columns; pass delimiter",
        edges="edges.txt",
    ),
    Case(
        "attributes of NetworkX",
        {"edges.edgelist": "1 2 {'weight': 2.0, 'color': 'red'}\n"},
        "{dir}/edges.edgelist, line 1: expected a weight, found the attributes {'weight': 2.0, 'color': 'red'}; "
        f"{NETWORKX}",
        edges="edges.edgelist",
    ),
    Case(
        "attributes of NetworkX later",
        {"edges.edgelist": "1 2 {}\n2 3 {'weight': 2.0}\n"},
        "{dir}/edges.edgelist, line 2: expected 3 columns as in line 1, found 4: \"2 3 {'weight': 2.0}\"; "
        f"{NETWORKX}",
        edges="edges.edgelist",
    ),
    Case(
        "attributes of NetworkX between commas",
        {"edges.csv": "1,2,{}\n2,3,{'weight': 2.0}\n"},
        "{dir}/edges.csv, line 2: expected no attributes as in the first row, found \"{'weight': 2.0}\"; "
        f"{NETWORKX}",
    ),
    Case(
        "short row",
        {"edges.csv": "# edges\n1,2\n3\n"},
        "{dir}/edges.csv, line 3: expected 2 columns as in line 2, found 1: '3'",
    ),
    Case(
        "long row",
        {"edges.txt": "1 2\n\n3 4 5\n"},
        "{dir}/edges.txt, line 3: expected 2 columns as in line 1, found 3: '3 4 5'",
        edges="edges.txt",
    ),
    Case(
        "long row behind CRLF and a byte order mark",
        {"edges.csv": "\ufeff1,2\r\n3,4,5\r\n"},
        "{dir}/edges.csv, line 2: expected 2 columns as in line 1, found 3: '3,4,5'",
    ),
    Case(
        "endless text in a row",
        {"edges.csv": "1,2\n3,4," + "5" * 100 + "\n"},
        f"{{dir}}/edges.csv, line 2: expected 2 columns as in line 1, found 3: '3,4,{'5' * 55}… (106 characters)",
    ),
    Case("empty field", {"edges.csv": "1,2\n3,\n"}, "{dir}/edges.csv, line 2: the node id is empty: '3,'"),
    Case("empty name", {"edges.csv": 'a,b\n"",c\n'}, "{dir}/edges.csv, line 2: the node id is empty: '\"\",c'"),
    Case(
        "unclosed quote",
        {"edges.csv": 'a,b\n"c,d\ne,f"\n'},
        "{dir}/edges.csv, line 2: a quoted field does not close on its line: '\"c,d'; "
        'close it, or write " as "" inside',
    ),
    Case(
        "text after a quote",
        {"edges.csv": 'a,b\n"c"d,e\n'},
        "{dir}/edges.csv, line 2: expected the end of the field after a closing quote, found '\"c\"d,e'",
    ),
    Case(
        "duplicate header",
        {"edges.csv": "# e\nsource,target,source\n1,2,3\n"},
        "{dir}/edges.csv, line 2: the header has the name 'source' twice; rename one of the columns",
    ),
    Case(
        "no such column",
        {"edges.csv": "source,target\n1,2\n"},
        "{dir}/edges.csv, line 1: there is no column 'cost' for weight; the columns are 'source', 'target'",
        options={"weight": "cost"},
    ),
    Case(
        "no such column number",
        {"edges.csv": "1,2\n"},
        "{dir}/edges.csv, line 1: there is no column 3 for weight, found 2 columns",
        options={"weight": 3},
    ),
    Case(
        "one column for source and target",
        {"edges.csv": "1,2\n"},
        "source, target, weight and edge_type must be different columns",
        options={"source": 2},
        error=InputError,
    ),
    Case(
        "many columns",
        {"edges.csv": "1,2,3,4\n"},
        "{dir}/edges.csv, line 1: found 4 columns without a header; say which to read, as in source=1, "
        "target=2, weight=3, or pass weighted=False to read no weights",
    ),
    # ids
    Case(
        "mixed types",
        {"edges.csv": "1,2\n3,4\n5,abc\n"},
        f"{{dir}}/edges.csv, line 3: expected an integer node id as in the first row, found 'abc'; {AS_TEXT}",
    ),
    Case(
        "float id",
        {"edges.csv": "1,2\n3.0,4\n"},
        f"{{dir}}/edges.csv, line 2: expected an integer node id as in the first row, found '3.0'; {AS_TEXT}",
    ),
    Case(
        "two ids in a field",
        {"edges.csv": "1,2\n3 4,5\n"},
        f"{{dir}}/edges.csv, line 2: expected an integer node id as in the first row, found '3 4'; {AS_TEXT}",
    ),
    Case(
        "text where integers are required",
        {"edges.csv": "a,b\n"},
        f"{{dir}}/edges.csv, line 1: expected an integer node id, found 'a'; {AS_TEXT}",
        options={"ids": "int"},
    ),
    Case(
        "huge id",
        {"edges.csv": "1,2\n3,9223372036854775808\n"},
        f"{{dir}}/edges.csv, line 2: the node id '9223372036854775808' does not fit in 64 bits; {AS_TEXT}",
    ),
    # weights
    Case(
        "NaN weight",
        {"edges.csv": "1,2,0.5\n2,3,nan\n"},
        f"{{dir}}/edges.csv, line 2: expected a positive, finite weight, found 'nan'; {DROP}",
    ),
    Case(
        "negative weight",
        {"edges.csv": "1,2,0.5\n\n2,3,-1\n"},
        f"{{dir}}/edges.csv, line 3: expected a positive, finite weight, found '-1'; {DROP}",
    ),
    Case(
        "zero weight",
        {"edges.csv": "source,target,weight\n1,2,0\n"},
        f"{{dir}}/edges.csv, line 2: expected a positive, finite weight, found '0'; {DROP}",
    ),
    Case(
        "infinite weight",
        {"edges.csv": "1,2,0.5\n2,3,1e999\n"},
        f"{{dir}}/edges.csv, line 2: expected a positive, finite weight, found '1e999'; {DROP}",
    ),
    Case(
        "text among weights",
        {"edges.csv": "1,2,0.5\n2,3,high\n"},
        f"{{dir}}/edges.csv, line 2: expected a positive, finite weight, found 'high'; {DROP}",
    ),
    Case(
        "empty weight",
        {"edges.csv": "1,2,0.5\n2,3,\n"},
        "{dir}/edges.csv, line 2: the weight is empty: '2,3,'",
    ),
    Case(
        "text in the third column",
        {"edges.csv": "1,2,friend\n2,3,foe\n"},
        "{dir}/edges.csv, line 1: expected a weight in column 3, found 'friend'; pass edge_type=3 to read types, "
        "weighted=False to ignore the column, or header=True if this line names the columns",
    ),
    Case(
        "no weights",
        {"edges.csv": "1,2\n"},
        "{dir}/edges.csv, line 1: found no column of weights; name it by weight, or pass weighted=False",
        options={"weighted": True},
    ),
    # lists of nodes
    Case(
        "edge to an unlisted node",
        {"edges.csv": GOOD, "nodes.txt": "a\nb\n"},
        "node 'c' in {dir}/edges.csv is not in the graph (ids look like 'a', 'b'); the list of nodes "
        "must contain every node",
        nodes="nodes.txt",
        error=UnknownNodeError,
    ),
    Case(
        "node listed twice",
        {"edges.csv": "1,2\n", "nodes.txt": "1\n2\n1\n"},
        "{dir}/nodes.txt, line 3: node 1 occurs twice, first in line 1; keep one row",
        nodes="nodes.txt",
    ),
    Case(
        "text in a list of integers",
        {"edges.csv": "1,2\n", "nodes.txt": "1\ntwo\n"},
        "{dir}/nodes.txt, line 2: expected an integer node id as in the graph, found 'two'",
        nodes="nodes.txt",
    ),
    # labels
    Case(
        "unknown nodes in labels",
        {"edges.csv": GOOD, "labels.csv": "node,label\na,x\nz,x\nq,y\nz,y\n"},
        f"2 nodes in {{dir}}/labels.csv are not in the graph, the first: 'z', 'q'; {KEEP}, or {SKIP}",
        labels="labels.csv",
        error=UnknownNodeError,
    ),
    Case(
        "unknown integer in labels",
        {"edges.csv": "1,2\n", "labels.csv": "1,x\n7,x\n"},
        f"node 7 in {{dir}}/labels.csv is not in the graph (ids look like 1, 2); {KEEP}, or {SKIP}",
        labels="labels.csv",
        error=UnknownNodeError,
    ),
    Case(
        "label conflict",
        {"edges.csv": GOOD, "labels.csv": "a,x\nb,x\n\na,y\n"},
        "{dir}/labels.csv, line 4: node 'a' has the label 'y', but 'x' in line 1; keep one, or pass multilabel=True",
        labels="labels.csv",
    ),
    Case(
        "labels without a label",
        {"edges.csv": GOOD, "labels.csv": "a\nb\n"},
        "{dir}/labels.csv: expected two columns, a node and a label, found one; separate them by a comma or a tab",
        labels="labels.csv",
    ),
    *(
        Case(
            f"labels with only a header {header!r}",
            {"edges.csv": edges, "labels.csv": f"{header}\n"},
            "{dir}/labels.csv: the file has a header but no rows",
            labels="labels.csv",
        )
        for edges, header in [
            (GOOD, "node,label"),
            (GOOD, "id,group"),
            (GOOD, "Label,who"),
            ("1,2\n", "paper,field"),
        ]
    ),
    Case(
        "labels of other nodes only",
        {"edges.csv": "1,2\n2,3\n", "labels.csv": "101,x\n102,x\n101,x\n"},
        "2 nodes in {dir}/labels.csv are not in the graph, the first: 101, 102; no row has a node of the graph, whose "
        "first ids are 1, 2, 3; write ids alike in both files",
        labels="labels.csv",
        error=UnknownNodeError,
    ),
    Case(
        "empty label",
        {"edges.csv": GOOD, "labels.csv": "a,x\nb,\n"},
        f"{{dir}}/labels.csv, line 2: the label is empty: 'b,'; {SKIP}",
        labels="labels.csv",
    ),
    # features
    Case(
        "text among features",
        {"edges.csv": GOOD, "features.csv": "node,height,width\na,1,2\nb,3,wide\nc,5,6\n"},
        "{dir}/features.csv, line 3: expected a finite number in column 'width', found 'wide'",
        features="features.csv",
    ),
    Case(
        "features with decimal commas",
        {"edges.csv": GOOD, "features.csv": "a;1,5;2\nb;3;4\nc;5;6\n"},
        f"{{dir}}/features.csv, line 1: expected a finite number in column 2, found '1,5'; {POINT}",
        features="features.csv",
    ),
    Case(
        "NaN feature",
        {"edges.csv": GOOD, "features.csv": "a,1,2\nb,nan,4\nc,5,6\n"},
        "{dir}/features.csv, line 2: expected a finite number in column 2, found 'nan'",
        features="features.csv",
    ),
    Case(
        "node without features",
        {"edges.csv": GOOD, "features.csv": "a,1\nb,2\n"},
        f"{{dir}}/features.csv: 1 node of the graph has no row, the first: 'c'; {ONE_ROW}, or pass "
        "missing_features='mean'",
        features="features.csv",
    ),
    Case(
        "features twice",
        {"edges.csv": GOOD, "features.csv": "a,1\nb,2\nc,3\nb,4\n"},
        "{dir}/features.csv, line 4: node 'b' occurs twice, first in line 2; keep one row",
        features="features.csv",
    ),
    Case(
        "features of an unlisted node",
        {"edges.csv": GOOD, "nodes.txt": "a\nb\nc\n", "features.csv": "a,1\nb,2\nc,3\nd,4\n"},
        f"node 'd' in {{dir}}/features.csv is not in the graph (ids look like 'a', 'b'); {KEEP}",
        features="features.csv",
        nodes="nodes.txt",
        error=UnknownNodeError,
    ),
    Case(
        "wrong number of feature rows",
        {"edges.csv": GOOD, "features.npy": lambda path: np.save(path, np.ones((5, 2)))},
        f"{{dir}}/features.npy: found 5 rows for 3 nodes; {ONE_ROW}",
        features="features.npy",
    ),
    Case(
        "NaN in a feature array",
        {"edges.csv": GOOD, "features.npy": lambda path: np.save(path, np.array([[1.0], [np.nan], [2.0]]))},
        "{dir}/features.npy: features must be finite as float32, found nan in row 1, column 0",
        features="features.npy",
    ),
    Case(
        "flat features",
        {"edges.csv": GOOD, "features.npy": lambda path: np.save(path, np.ones(3))},
        "{dir}/features.npy: expected numbers of shape (nodes, features), found float64 of shape (3,)",
        features="features.npy",
    ),
    Case(
        "pickle in .npy",
        {"edges.csv": GOOD, "features.npy": _npy_pickle},
        f"{{dir}}/features.npy: {PICKLE}",
        features="features.npy",
    ),
    Case(
        "pickle in .npz",
        {"edges.csv": GOOD, "features.npz": _npz_pickle},
        f"{{dir}}/features.npz: {PICKLE}",
        features="features.npz",
    ),
    Case(
        "an invalid string in .npy",
        {
            "edges.csv": "a,b\n",
            "nodes.npy": lambda path: np.save(path, np.array([[97, 1 << 21]], np.uint32).view("U2")[0]),
        },
        "{dir}/nodes.npy: a string contains 0x200000, which is not a character; write it again",
        nodes="nodes.npy",
    ),
    Case(
        "half of a matrix that is not square",
        {"half.mtx": "%%MatrixMarket matrix coordinate pattern symmetric\n5 3 1\n5 1\n"},
        "{dir}/half.mtx: a symmetric matrix must be square, found 5 rows, 3 columns",
        edges="half.mtx",
    ),
    Case(
        "too large for float32 in Parquet",
        {"edges.csv": "a,b\n", "features.parquet": _too_large},
        "{dir}/features.parquet: features must be finite as float32, found inf in row 1, column 0",
        features="features.parquet",
    ),
    Case(
        "truncated .npy",
        {"edges.csv": GOOD, "features.npy": _cut(lambda path: np.save(path, np.ones((9, 9))), 0.5)},
        "{dir}/features.npy: the header declares an array of shape (9, 9) in 648 bytes, found 260; is the file "
        "truncated?",
        features="features.npy",
    ),
    Case(
        "huge .npy header",
        {"edges.npy": _npy_header((10**12, 2))},
        "{dir}/edges.npy: the header declares an array of shape (1000000000000, 2) in 16,000,000,000,000 bytes, found "
        "8; is the file truncated?",
        edges="edges.npy",
    ),
    Case(
        "huge header in a packed .npy",
        {"edges.npy.gz": _packed(_npy_header((10**16, 2)))},
        "{dir}/edges.npy.gz: the header declares an array of shape (10000000000000000, 2) in 160,000,000,000,000,000 "
        "bytes, found at most 163,960; is the file truncated?",
        edges="edges.npy.gz",
    ),
    Case(
        "huge header in .npz",
        {"edges.npz": _in_archive("edges.npy", _npy_header((10**12, 2)))},
        "{dir}/edges.npz: the header declares an array of shape (1000000000000, 2) in 16,000,000,000,000 bytes, found "
        "8; is the file truncated?",
        edges="edges.npz",
    ),
    Case(
        "truncated .npz",
        {"edges.csv": GOOD, "features.npz": _cut(lambda path: sp.save_npz(path, sp.eye_array(9)), 0.5)},
        "{dir}/features.npz: this is not a readable .npz file; write or fetch it again",
        features="features.npz",
    ),
    Case(
        ".npz without a known array",
        {"edges.csv": GOOD, "features.npz": lambda path: np.savez(path, colors=np.ones(3))},
        "{dir}/features.npz: expected a sparse matrix or an array named 'features' or 'x' or 'X' or 'arr_0', "
        "found 'colors'",
        features="features.npz",
    ),
    # matrices
    Case(
        "no Matrix-Market banner",
        {"edges.mtx": "1 2\n"},
        "{dir}/edges.mtx, line 1: expected a banner such as '%%MatrixMarket matrix coordinate real general', "
        "found '1 2'",
        edges="edges.mtx",
    ),
    Case(
        "complex Matrix-Market",
        {"edges.mtx": MATRIX.replace("real", "complex")},
        "{dir}/edges.mtx, line 1: expected 'real' or 'integer' or 'double' or 'pattern' in the banner, found 'complex'",
        edges="edges.mtx",
    ),
    Case(
        "no Matrix-Market size",
        {"edges.mtx": MATRIX + "% nothing\n"},
        "{dir}/edges.mtx: expected the size of the matrix, found the end",
        edges="edges.mtx",
    ),
    Case(
        "broken Matrix-Market size",
        {"edges.mtx": MATRIX + "2 two 1\n"},
        "{dir}/edges.mtx, line 2: expected the numbers of rows, columns, entries, found '2 two 1'",
        edges="edges.mtx",
    ),
    Case(
        "broken Matrix-Market entry",
        {"edges.mtx": MATRIX + "2 2 2\n1 2 1.0\n2 x 1.0\n"},
        "{dir}/edges.mtx, line 4: expected an integer column number, found 'x'",
        edges="edges.mtx",
    ),
    Case(
        "Matrix-Market entry without a value",
        {"edges.mtx": MATRIX + "2 2 2\n1 2 1.0\n2 1\n"},
        "{dir}/edges.mtx, line 4: expected 3 columns as in the banner, found 2: '2 1'",
        edges="edges.mtx",
    ),
    Case(
        "Matrix-Market entry out of bounds",
        {"edges.mtx": MATRIX + "2 2 2\n1 2 1.0\n% note\n2 3 1.0\n"},
        "{dir}/edges.mtx, line 5: the column number 3 is not between 1 and 2",
        edges="edges.mtx",
    ),
    Case(
        "truncated Matrix-Market",
        {"edges.mtx": MATRIX + "2 2 2\n1 2 1.0\n"},
        "{dir}/edges.mtx: the header declares 2 entries, found 1; is the file truncated?",
        edges="edges.mtx",
    ),
    Case(
        "oblong matrix",
        {"edges.mtx": MATRIX + "2 3 1\n1 2 1.0\n"},
        "{dir}/edges.mtx: an adjacency matrix must be square, found shape (2, 3)",
        edges="edges.mtx",
    ),
    Case(
        "matrix that is not symmetric",
        {"edges.mtx": MATRIX + "2 2 1\n1 2 1.0\n"},
        "{dir}/edges.mtx: the adjacency matrix is not symmetric; pass directed=True, or add the transpose for "
        "an undirected graph",
        edges="edges.mtx",
    ),
    Case(
        "matrix with an index out of bounds",
        {"edges.npz": _out_of_bounds},
        "{dir}/edges.npz: the matrix is damaged (columns must be from 0 to 1); write or fetch it again",
        edges="edges.npz",
    ),
    Case(
        "matrix with a negative row pointer",
        {"edges.npz": _matrix("csr", (2, 2), indices=[1], indptr=[0, 1, -1])},
        "{dir}/edges.npz: the matrix is damaged (row pointers must ascend from 0 to 1); write or fetch it again",
        edges="edges.npz",
    ),
    Case(
        "matrix with too few row pointers",
        {"edges.npz": _matrix("csc", (2, 2), indices=[1], indptr=[0, 1])},
        "{dir}/edges.npz: the matrix is damaged (there must be 3 row pointers, found 2); write or fetch it again",
        edges="edges.npz",
    ),
    Case(
        "coordinates out of bounds",
        {"edges.npz": _matrix("coo", (2, 2), row=[0], col=[-1])},
        "{dir}/edges.npz: the matrix is damaged (columns must be from 0 to 1); write or fetch it again",
        edges="edges.npz",
    ),
    Case(
        "matrix in blocks",
        {"edges.npz": _matrix("bsr", (2, 2), indices=[0], indptr=[0, 1])},
        "{dir}/edges.npz: expected a matrix as csr, csc, coo or dia, found 'bsr'; save its .tocsr()",
        edges="edges.npz",
    ),
    Case(
        "huge empty matrix",
        {"edges.npz": _matrix("coo", (2 * 10**9, 2 * 10**9), row=[0], col=[1])},
        f"{{dir}}/edges.npz: {EMPTY}",
        edges="edges.npz",
    ),
    Case(
        "huge empty Matrix-Market",
        {"edges.mtx": MATRIX + "2000000000 2000000000 1\n1 2 1.0\n"},
        f"{{dir}}/edges.mtx: {EMPTY}",
        edges="edges.mtx",
    ),
    Case(
        "negative Matrix-Market size",
        {"edges.mtx": MATRIX + "-1 -1 0\n"},
        "{dir}/edges.mtx, line 2: expected the numbers of rows, columns, entries, found '-1 -1 0'",
        edges="edges.mtx",
    ),
    Case(
        "array of three columns",
        {"edges.npy": lambda path: np.save(path, np.ones((4, 3), int))},
        "{dir}/edges.npy: expected edges of shape (edges, 2), found (4, 3); save more columns as a table",
        edges="edges.npy",
    ),
    # Parquet
    Case(
        "broken Parquet",
        {"edges.parquet": b"PAR1 and no more"},
        "{dir}/edges.parquet: this is not a readable Parquet file; write or fetch it again",
        edges="edges.parquet",
    ),
    Case(
        "Parquet without a column",
        {"edges.parquet": _table(source=[1], target=[2])},
        "{dir}/edges.parquet: there is no column 'cost' for weight; the columns are 'source', 'target'",
        edges="edges.parquet",
        options={"weight": "cost"},
    ),
    Case(
        "Parquet with one column",
        {"edges.parquet": _table(source=[1])},
        "{dir}/edges.parquet: expected a source and a target, found the columns ['source']",
        edges="edges.parquet",
    ),
    Case(
        "Parquet with a missing id",
        {"edges.parquet": _table(source=[1, 2, None], target=[2, 3, 4])},
        "{dir}/edges.parquet: the node id is missing in row 3",
        edges="edges.parquet",
    ),
    Case(
        "Parquet with mixed ids",
        {"edges.parquet": _table(source=[1], target=["b"])},
        f"{{dir}}/edges.parquet: sources are int64, but targets are string; {AS_TEXT}",
        edges="edges.parquet",
    ),
    Case(
        "Parquet with invalid UTF-8",
        {"edges.parquet": _bad_parquet_text},
        "{dir}/edges.parquet: expected UTF-8 text, found b'caf\\xe9'; save it as UTF-8",
        edges="edges.parquet",
    ),
    Case(
        "Parquet with a negative weight",
        {"edges.parquet": _table(source=[1, 2], target=[2, 3], weight=[1.0, -2.0])},
        f"{{dir}}/edges.parquet: expected positive, finite numbers as weight, found -2.0 in row 2; {DROP}",
        edges="edges.parquet",
    ),
]


def _read(case: Case, folder: Path) -> None:
    features, nodes = case.path(folder, "features"), case.path(folder, "nodes")
    graph = read_graph(folder / case.edges, features, nodes=nodes, **case.options)
    if case.labels is not None:
        read_labels(folder / case.labels, graph)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_message(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = tmp_path / "trace"
    monkeypatch.setenv("CGE_TEST_TRACE", str(trace))
    monkeypatch.chdir(tmp_path)
    case.write(tmp_path)
    with pytest.raises(CgeError) as caught:
        _read(case, tmp_path)
    assert str(caught.value) == case.expected(tmp_path)
    assert type(caught.value) is case.error
    assert not trace.exists()


@pytest.mark.parametrize(
    ("name", "in_python", "in_shell"),
    [
        ("missing file", "", ""),
        ("missing column", "pass delimiter", "pass --delimiter"),
        ("mixed types", "pass ids='str'", "pass --ids str"),
        ("negative weight", "pass weighted=False", "pass --unweighted"),
        ("unknown nodes in labels", "nodes, or pass missing_labels='skip'", f"--node-list, or pass {SKIP_FLAG}"),
        ("label conflict", "pass multilabel=True", "pass --multilabel"),
        ("features twice", "", ""),
        ("pickle in .npy", "", ""),
    ],
)
def test_message_on_the_command_line(
    name: str, in_python: str, in_shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = next(case for case in CASES if case.name == name)
    case.write(tmp_path)
    words = ["check", str(tmp_path / case.edges)]
    for content in ("labels", "features", "nodes"):
        if case.path(tmp_path, content):
            words += [f"--{content}", str(case.path(tmp_path, content))]
    for option, value in case.options.items():
        words += [f"--{option.replace('_', '-')}"] + ([] if value is True else [str(value)])
    assert in_python in case.message
    for more in ([], ["--json"]):
        assert run([*words, *more]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err == f"cge: {case.expected(tmp_path).replace(in_python, in_shell)}\n"


def test_the_pickles_run_code_when_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pickles above would run code if they were loaded."""
    monkeypatch.setenv("CGE_TEST_TRACE", str(tmp_path / "trace"))
    _npy_pickle(tmp_path / "features.npy")
    np.load(tmp_path / "features.npy", allow_pickle=True)
    assert (tmp_path / "trace").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permission(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    path.write_text(GOOD)
    path.chmod(0)
    with pytest.raises(FileFormatError, match="you may not read this file; change its permissions"):
        read_graph(path)


def test_permission_as_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "edges.csv"
    path.write_text(GOOD)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(FileFormatError, match="you may not read this file; change its permissions"):
        read_graph(path)


@pytest.mark.parametrize("line", [1, 3])
def test_endless_line(line: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "MAX_LINE_BYTES", 1 << 20)
    path = tmp_path / "edges.csv"
    path.write_text("a,b\n" * (line - 1) + "c," + "d" * (1 << 25))
    with pytest.raises(FileFormatError, match=f"line {line}: this line is longer than 1 MB; is this a text file"):
        read_graph(path)


def test_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileFormatError, match="this is not a regular file"):
        read_graph(tmp_path / "pipe")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ids": "float"}, "ids must be 'auto', 'int' or 'str', found 'float'"),
        ({"delimiter": "::"}, "delimiter must be one ASCII character or None, found '::'"),
        ({"comment": ""}, "comment must be one ASCII character or None, found ''"),
        ({"weight": 3, "weighted": False}, "weight=3 names a column, but weighted=False asks to ignore it"),
        ({"source": 0}, "source must be the name of a column or its number, from 1, found 0"),
    ],
)
def test_options(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("1,2,3\n")
    with pytest.raises(InputError) as caught:
        read_graph(tmp_path / "edges.csv", **options)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "the path is empty; pass the path of a file"),
        ("-", "reading from standard input is not supported; save it to a file"),
        ("https://example.org/e.csv", "'https://example.org/e.csv' is a web address; download it first"),
        (Path("http://example.org/e.csv"), "'http:/example.org/e.csv' is a web address; download it first"),
        ("a\0b", "the path 'a\\x00b' contains a zero byte; pass the path of a file"),
        (3, "expected the path of a file, found 3"),
    ],
)
def test_paths(path: Any, message: str, tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text(GOOD)
    for read in (
        lambda: read_graph(path),
        lambda: read_graph(tmp_path / "edges.csv", path),
        lambda: read_graph(tmp_path / "edges.csv", nodes=path),
        lambda: read_labels(path, read_graph(tmp_path / "edges.csv")),
    ):
        with pytest.raises(InputError) as caught:
            read()
        assert str(caught.value) == message


def test_too_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    (tmp_path / "edges.csv").write_text(GOOD)
    monkeypatch.setattr("cge.data.files.graph_files.load_edges", fail)
    with pytest.raises(FileFormatError, match="the graph needs more memory than this machine has"):
        read_graph(tmp_path / "edges.csv")
