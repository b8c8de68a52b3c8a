"""Planetoid files: pickles are read as data and never run, and files that do not go together are refused."""

from __future__ import annotations

import contextlib
import os
import pickle
import struct
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from cge.data.sets.load import load_dataset
from cge.data.sets.nell import load_nell
from cge.data.sets.pickles import read_pickle
from cge.data.sets.planetoid import load_planetoid
from cge.errors import CgeError, FileFormatError

# Six nodes: two to train on, one without a label in `ally`, two test nodes (5, 4) and node 3 without a row.
X = sp.csr_matrix(np.array([[1, 0], [0, 1]], np.float32))
ALLX = sp.csr_matrix(np.array([[1, 0], [0, 1], [1, 1]], np.float32))
TX = sp.csr_matrix(np.array([[0, 5], [0, 4]], np.float32))
Y = np.array([[1, 0, 0], [0, 0, 1]], np.int32)
ALLY = np.array([[1, 0, 0], [0, 0, 1], [0, 0, 0]], np.int32)
TY = np.array([[0, 0, 1], [1, 0, 0]], np.int32)
GRAPH = {0: [1, 1, 0], 1: [0, 2], 2: [1], 3: [], 4: [5], 5: [4]}

FORBIDDEN = "only arrays, sparse matrices, dictionaries and lists are read from a pickle; nothing in the file was run"


class _Python2(pickle._Pickler):  # type: ignore[name-defined, misc]
    """Writes bytes and text the way Python 2 did, with the old names of NumPy's and SciPy's modules."""

    dispatch = pickle._Pickler.dispatch.copy()  # type: ignore[attr-defined]

    def _save_text(self, text: Any) -> None:
        data = text if isinstance(text, bytes) else text.encode("latin1")
        short = len(data) < 256
        self.write((b"U" + bytes([len(data)]) if short else b"T" + struct.pack("<i", len(data))) + data)

    dispatch[bytes] = dispatch[str] = _save_text


def as_python_2(value: object) -> bytes:
    class Buffer(bytearray):
        write = bytearray.extend

    buffer = Buffer()
    _Python2(buffer, 2).dump(value)
    new = {b"numpy._core.multiarray": b"numpy.core.multiarray", b"scipy.sparse._csr": b"scipy.sparse.csr"}
    data = bytes(buffer)
    for name, old in new.items():
        data = data.replace(name, old)
    return data


def write_set(folder: Path, name: str = "tiny", **changes: object) -> Path:
    adjacency = defaultdict(list, GRAPH)
    parts: dict[str, object] = {"x": X, "y": Y, "allx": ALLX, "ally": ALLY, "tx": TX, "ty": TY, "graph": adjacency}
    for part, value in (parts | changes).items():
        if part != "test_index":
            (folder / f"ind.{name}.{part}").write_bytes(as_python_2(value))
    (folder / f"ind.{name}.test.index").write_text(str(changes.get("test_index", "5\n4\n")))
    return folder


# ---------------------------------------------------------------------- reading pickles


@pytest.mark.parametrize(
    "write", [as_python_2, lambda value: pickle.dumps(value, 2), lambda value: pickle.dumps(value, 4)]
)
@pytest.mark.parametrize(
    "value",
    [
        Y,
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array([1, 2], ">i4"),
        np.zeros((0, 4)),
        np.array([True, False]),
        ALLX,
        defaultdict(list, GRAPH),
        {1: [2], "name": None, "many": list(range(300)), "large": [2**40, -5, 70_000]},
    ],
    ids=["int", "fortran", "big-endian", "empty", "bool", "sparse", "graph", "dictionary"],
)
def test_what_python_2_and_3_write_is_read(tmp_path: Path, write: Any, value: Any) -> None:
    path = tmp_path / "value.pkl"
    path.write_bytes(write(value))
    found = read_pickle(path)
    if sp.issparse(value):
        assert isinstance(found, sp.csr_array)
        value, found = value.toarray(), found.toarray()
    if isinstance(value, np.ndarray):
        assert found.dtype == value.dtype.newbyteorder("=")
        assert np.array_equal(found, value)
        assert found.flags.writeable
    else:
        expected = {
            key.encode() if write is as_python_2 and isinstance(key, str) else key: v for key, v in value.items()
        }
        assert found == expected


class _Evil:
    def __init__(self, function: Any, *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_code_in_a_pickle_is_named_and_not_run(tmp_path: Path, protocol: int) -> None:
    path, trace = tmp_path / "evil.pkl", tmp_path / "trace"
    code = f"__import__('pathlib').Path({str(trace)!r}).touch()"
    builtins = "__builtin__" if protocol < 3 else "builtins"
    for evil, name in (
        (_Evil(os.system, f"touch {trace}"), f"{os.system.__module__}.system"),
        (_Evil(eval, code), f"{builtins}.eval"),
        (_Evil(exec, code), f"{builtins}.exec"),
    ):
        path.write_bytes(pickle.dumps(evil, protocol))
        with pytest.raises(FileFormatError) as error:
            read_pickle(path)
        assert str(error.value) == f"{path}: asks for {name!r}, but {FORBIDDEN}"
        assert not trace.exists()
    pickle.loads(pickle.dumps(_Evil(eval, code), protocol))  # the same bytes do run in an ordinary unpickler
    assert trace.exists()


def _array_bytes(shape: bytes, data: bytes = b"U\x04abcd") -> bytes:
    """Return a pickle of an i4 array with this shape and data, as instructions."""
    made = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01btR"
    dtype = b"cnumpy\ndtype\nU\x02i4K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    return b"\x80\x02" + made + b"(K\x01" + shape + dtype + b"\x89" + data + b"tb."


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "ends too early: byte 0 announces 1 more bytes, but 0 are left"),
        (as_python_2(Y)[:-15], "ends too early: byte 136 announces 24 more bytes, but 14 are left"),
        (b"hello", "is not a pickle of arrays: it is damaged at or before byte 2; get the file again"),
        (b"\x89PNG\r\n", "is not a pickle of arrays: found the instruction b'P' at byte 1"),
        (b"PK\x03\x04", "is not a pickle of arrays: found the instruction b'P' at byte 0"),
        (b"\x80\x02cnumpy", "ends too early: the name at byte 3 has no end"),
        (b"\x80\x02T\xff\xff\xff\xff.", "ends too early: byte 7 announces 4,294,967,295 more bytes, but 1 are left"),
        (
            b"\x80\x02Nr\xff\xff\xff\xff\x85\x86.",
            "is not a pickle of arrays: the instruction at byte 9 lacks its operands",
        ),
        (
            _array_bytes(b"J\xff\xff\xff\x7f\x85"),
            "announces an array of 2,147,483,647 values of 4 bytes, but holds 4 bytes for it",
        ),
        (
            _array_bytes(b"J\xff\xff\xff\xff\x85"),
            "announces an array whose shape is not one or two numbers of a sensible size",
        ),
        (
            _array_bytes(b"K\x01\x85").replace(b"i4", b"O8"),
            "holds an array of type 'O8'; only numbers and true/false values are read",
        ),
        (_array_bytes(b"K\x01\x85", b"]"), "holds an array of objects; only arrays of numbers are read"),
        (b"\x80\x02]K\x01\x85K\x02s.", "is not a pickle of arrays: byte 8 fills something that is no dictionary"),
        (b"\x80\x02}K\x01a.", "is not a pickle of arrays: byte 5 appends to something that is no list"),
        (b"\x80\x02K\x01K\x02b.", "is not a pickle of arrays: byte 6 sets the state of a plain value"),
        (b"\x80\x02K\x01)R.", "is not a pickle of arrays: byte 5 calls something that is no function"),
        (b"\x80\x02cnumpy\ndtype\n.", "is not a pickle of arrays: found a bare dtype"),
    ],
)
def test_what_is_not_a_pickle_of_arrays_is_refused(tmp_path: Path, data: bytes, problem: str) -> None:
    path = tmp_path / "file.pkl"
    path.write_bytes(data)
    with pytest.raises(FileFormatError) as error:
        read_pickle(path)
    assert str(error.value) == f"{path}: {problem}"


def test_a_small_file_cannot_ask_for_exponential_time(tmp_path: Path) -> None:
    doubling = b"K\x01" + b"q\x00h\x00\x86" * 200  # a tuple of itself and itself, two hundred times over
    path = tmp_path / "file.pkl"
    for data in (
        b"\x80\x02}" + doubling + b"K\x01s.",  # as a key: it would be hashed
        b"\x80\x02" + doubling + doubling + b"\x93.",  # as a name: it would be printed
        _array_bytes(doubling),  # as a shape
        _array_bytes(b"K\x01\x85").replace(b"U\x02i4", doubling),  # as a type
    ):
        path.write_bytes(data)
        with pytest.raises(FileFormatError):
            read_pickle(path)


def test_a_sparse_matrix_with_a_negative_row_pointer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.pkl"
    pointers = struct.pack("<4i", 0, 1, 2, 4)  # SciPy takes the last to be -4 and reads outside its memory
    path.write_bytes(as_python_2(ALLX).replace(pointers, struct.pack("<4i", 0, 1, 2, -4)))
    with pytest.raises(FileFormatError, match="is not a pickle of arrays: it is damaged"):
        read_pickle(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"none.pkl: cannot be read: No such file or directory$"):
        read_pickle(tmp_path / "none.pkl")


@given(st.binary(max_size=200))
def test_random_bytes_raise_only_errors_of_ours(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    _read_or_refuse(tmp_path_factory.getbasetemp() / "random.pkl", data)


@given(
    st.sampled_from([as_python_2(ALLX), as_python_2(Y), as_python_2(defaultdict(list, GRAPH)), pickle.dumps(ALLX, 4)]),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(max_size=3), st.integers(0, 3)), max_size=4),
)
def test_damaged_pickles_raise_only_errors_of_ours(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, damage: list[tuple[float, bytes, int]]
) -> None:
    for where, inserted, removed in damage:
        place = int(where * len(data))
        data = data[:place] + inserted + data[place + removed :]
    _read_or_refuse(tmp_path_factory.getbasetemp() / "damaged.pkl", data)


def _read_or_refuse(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with contextlib.suppress(CgeError):
        read_pickle(path)


# ---------------------------------------------------------------------- putting a set together


def test_rows_go_to_their_nodes(tmp_path: Path) -> None:
    data = load_planetoid(write_set(tmp_path), "tiny")
    assert data.graph.num_nodes == 6
    assert data.graph.num_edges == 3  # 0–1 once, the self-loop of 0 dropped
    assert data.graph.features.toarray().tolist() == [[1, 0], [0, 1], [1, 1], [0, 0], [0, 4], [0, 5]]  # type: ignore[union-attr]
    assert data.labels.tolist() == [0, 1, -1, -1, 0, 1]
    assert data.class_names == ("0", "2")  # no node has column 1
    assert data.split is not None
    assert [part.tolist() for part in (data.split.train, data.split.validation, data.split.test)] == [
        [0, 1],
        [2],
        [4, 5],
    ]


def test_without_ally_only_training_and_test_labels_are_known(tmp_path: Path) -> None:
    (write_set(tmp_path) / "ind.tiny.ally").unlink()
    data = load_planetoid(tmp_path, "tiny")
    assert data.labels.tolist() == [0, 1, -1, -1, 0, 1]
    assert data.split is not None
    assert data.split.sizes == (2, 0, 2)


@pytest.mark.parametrize(
    ("changes", "file", "problem"),
    [
        ({"graph": [1]}, "graph", "must hold a dictionary: node → list of neighbors"),
        ({"graph": {0: ["a"]}}, "graph", "must hold whole numbers as nodes and neighbors"),
        ({"graph": GRAPH | {5: [6]}}, "graph", "must number its 6 nodes from 0, found 6"),
        ({"graph": GRAPH | {5: [-1]}}, "graph", "must number its 6 nodes from 0, found -1"),
        ({"x": Y}, "x", "must hold a sparse matrix of features"),
        ({"y": X}, "y", "must hold a matrix of one-hot labels"),
        ({"y": Y[:1]}, "y", "has 1 rows, but ind.tiny.x has 2"),
        ({"ally": ALLY[:2]}, "ally", "has 2 rows, but ind.tiny.allx has 3"),
        ({"ty": TY[:, :2]}, "ty", "2 classes do not go with 3 of y"),
        ({"ty": np.ones((2, 3))}, "ty", "row 0 has 3 labels; at most one is read"),
        (
            {"tx": sp.csr_matrix((2, 7))},
            "allx",
            "shape (3, 2) does not go with (2, 2) of x, (2, 7) of tx and 6 nodes of graph",
        ),
        (
            {"graph": {0: [1], 1: [0]}},
            "allx",
            "shape (3, 2) does not go with (2, 2) of x, (2, 2) of tx and 2 nodes of graph",
        ),
        ({"test_index": "5\n"}, "test.index", "has 1 rows, but ind.tiny.tx has 2"),
        ({"test_index": "5\nx\n"}, "test.index", "must hold one node number per line"),
        ({"test_index": "5\n5\n"}, "test.index", "test nodes must be distinct, from 3 (rows of allx) to 5"),
        ({"test_index": "5\n6\n"}, "test.index", "test nodes must be distinct, from 3 (rows of allx) to 5"),
    ],
)
def test_files_that_do_not_go_together_are_refused(
    tmp_path: Path, changes: dict[str, object], file: str, problem: str
) -> None:
    with pytest.raises(FileFormatError) as error:
        load_planetoid(write_set(tmp_path, **changes), "tiny")
    assert str(error.value) == f"{tmp_path / f'ind.tiny.{file}'}: {problem}"


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    (write_set(tmp_path) / "ind.tiny.tx").unlink()
    with pytest.raises(
        FileFormatError, match=r"ind.tiny.tx: is missing; the Planetoid set 'tiny' needs x, y, tx, ty, allx"
    ):
        load_planetoid(tmp_path, "tiny")


# ---------------------------------------------------------------------- NELL: three splits of the same entities


def write_nell(folder: Path, *shares: str) -> Path:
    """Write splits that number the same entities differently: node 2 of the first is the training node of the others.

    Entities are told apart by their rows of features, here one number each; node 3 has none.
    """
    folder.mkdir(parents=True, exist_ok=True)
    values = {"0.1": [1, 2, 3, 0, 5, 6], "0.01": [3, 5, 1, 0, 2, 6], "0.001": [3, 2, 5, 0, 6, 1]}
    labels = {1: 0, 2: 2, 3: 1, 5: 0, 6: 2}
    one_hot = np.eye(3, dtype=np.int32)
    for share in shares:
        rows = sp.csr_matrix(np.array(values[share], np.float32)[:, None])
        known = one_hot[[labels.get(value, 0) for value in values[share]]]
        parts = {"x": rows[:1], "y": known[:1], "allx": rows[:3], "tx": rows[[5]], "ty": known[[5]]}
        name = f"nell.{share}"
        write_set(folder, name, test_index="5\n", **parts)
        (folder / f"ind.{name}.ally").unlink()
    return folder


def test_nell_takes_validation_nodes_from_the_other_splits(tmp_path: Path) -> None:
    folder = write_nell(tmp_path, "0.1", "0.01", "0.001")
    data = load_nell(folder, "nell-0.1")
    # Node 0 (training) and 5 (test) are labeled; the others train on the entity 3, node 2 here, and test on 6 and 1.
    assert load_planetoid(folder, "nell.0.1").labels.tolist() == [0, -1, -1, -1, -1, 1]
    assert data.name == "nell-0.1"
    assert [data.class_names[label] if label >= 0 else "" for label in data.labels] == ["0", "", "1", "", "", "2"]
    assert data.split is not None
    assert [part.tolist() for part in (data.split.train, data.split.validation, data.split.test)] == [[0], [2], [5]]
    assert data.splits == (data.split,)
    assert "derived" in data.notes


def test_nell_without_the_other_splits_has_no_validation_nodes(tmp_path: Path) -> None:
    data = load_nell(write_nell(tmp_path, "0.1", "0.01"), "nell-0.1")
    assert data.split is not None
    assert data.split.sizes == (1, 0, 1)
    assert "no validation nodes" in data.notes


def test_nell_with_ally_validates_on_the_nodes_after_the_training_nodes(tmp_path: Path) -> None:
    folder = write_nell(tmp_path, "0.1", "0.01", "0.001")
    (folder / "ind.nell.0.1.ally").write_bytes(as_python_2(np.eye(3, dtype=np.int32)))
    data = load_nell(folder, "nell-0.1")
    assert data.split is not None
    assert data.split.validation.tolist() == [1, 2]
    assert data.notes == ""


def test_nell_is_loaded_from_its_pickles_where_the_arrays_are_not_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CGE_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("CGE_CACHE_DIR", str(tmp_path / "cache"))
    write_nell(tmp_path / "nell", "0.1", "0.01", "0.001")
    assert load_dataset("NELL-0.1").split == load_nell(tmp_path / "nell", "nell-0.1").split
