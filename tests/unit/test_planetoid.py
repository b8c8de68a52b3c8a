"""Planetoid files: hashes are checked, nothing in a pickle is run, files that do not go together are refused."""

from __future__ import annotations

import contextlib
import copyreg
import hashlib
import os
import pickle
import struct
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from cge.data.sets import fetch, pickles
from cge.data.sets.load import load_dataset
from cge.data.sets.pickles import read_pickle
from cge.data.sets.planetoid import load_nell, load_planetoid
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


@pytest.mark.parametrize("write", [as_python_2, partial(pickle.dumps, protocol=4)], ids=["python 2", "python 3"])
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
def test_pickles_of_python_2_and_3_are_read(tmp_path: Path, write: Any, value: Any) -> None:
    path = tmp_path / "value.pkl"
    path.write_bytes(write(value))
    result = read_pickle(path, trust=True)
    if sp.issparse(value):
        assert isinstance(result, sp.csr_array)
        value, result = value.toarray(), result.toarray()
    if isinstance(value, np.ndarray):
        assert result.dtype == value.dtype.newbyteorder("=")
        assert np.array_equal(result, value)
        assert result.flags.writeable
    else:
        assert result == value


def test_a_file_is_unpickled_only_if_its_hash_is_published_or_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, content = tmp_path / "ind.tiny.graph", as_python_2(defaultdict(list, GRAPH))
    path.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    with pytest.raises(FileFormatError) as error:
        read_pickle(path)
    assert str(error.value) == (
        f"{path}: no SHA256 is published for this file, found {digest}; pass trust=True if you trust its source"
    )
    monkeypatch.setattr(fetch, "checksums", lambda: {"planetoid/ind.tiny.graph": digest})
    assert read_pickle(path) == GRAPH
    path.write_bytes(pickle.dumps(GRAPH))
    with monkeypatch.context() as patch:
        patch.setattr(pickles, "_Unpickler", None)  # the hash is checked first
        with pytest.raises(FileFormatError) as error:
            read_pickle(path)
    assert str(error.value).startswith(f"{path}: expected the SHA256 {digest}, found ")
    assert str(error.value).endswith("; fetch the file again, or pass trust=True if you trust its source")
    assert read_pickle(path, trust=True) == GRAPH


class _Call:
    """Pickled as a call of a function."""

    def __init__(self, function: Any, *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def _refusal(path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the message for a file that is refused both when its hash is published and when it is trusted."""
    path.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    monkeypatch.setattr(fetch, "checksums", lambda: {path.name: digest})
    for trust in (False, True):
        with pytest.raises(FileFormatError) as error:
            read_pickle(path, trust=trust)
    return str(error.value)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_function_named_in_a_pickle_is_not_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: int
) -> None:
    path, trace = tmp_path / "code.pkl", tmp_path / "trace"
    code = f"__import__('pathlib').Path({str(trace)!r}).touch()"
    builtins = "__builtin__" if protocol < 3 else "builtins"
    for call, name in (
        (_Call(os.system, f"touch {trace}"), f"{os.system.__module__}.system"),
        (_Call(eval, code), f"{builtins}.eval"),
        (_Call(exec, code), f"{builtins}.exec"),
    ):
        message = _refusal(path, pickle.dumps(call, protocol), monkeypatch)
        assert message == f"{path}: asks for {name!r}, but {FORBIDDEN}"
        assert not trace.exists()
    pickle.loads(pickle.dumps(_Call(eval, code), protocol))  # an ordinary unpickler runs the same bytes
    assert trace.exists()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"cos\nsystem\n.", "asks for 'os.system'"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "asks for 'os.system'"),
        (b"\x80\x04\x8c\x05numpy\x8c\x0dload.__call__\x93.", "asks for 'numpy.load.__call__'"),
        (b"(S'touch trace'\nios\nsystem\n.", "holds the opcode INST"),
        (b"(cos\nsystem\nS'touch trace'\no.", "holds the opcode OBJ"),
        (b"Pid\n.", "holds the opcode PERSID"),
        (b"\x80\x02K\x01Q.", "holds the opcode BINPERSID"),
        (b"\x80\x02\x82\xf0.", "holds the opcode EXT1"),
        (b"\x80\x02\x83\xf0\xf0.", "holds the opcode EXT2"),
        (b"\x80\x05\x97.", "holds the opcode NEXT_BUFFER"),
    ],
    ids=["GLOBAL", "STACK_GLOBAL", "dotted", "INST", "OBJ", "PERSID", "BINPERSID", "EXT1", "EXT2", "buffer"],
)
def test_other_opcodes_that_could_run_code_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert problem in _refusal(tmp_path / "code.pkl", content, monkeypatch)
    assert not (tmp_path / "trace").exists()


def test_registered_extension_codes_are_refused_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, trace = tmp_path / "code.pkl", tmp_path / "trace"
    content = b"\x80\x02\x82\xf0X" + struct.pack("<I", len(f"touch {trace}")) + f"touch {trace}".encode() + b"\x85R."
    copyreg.add_extension("os", "system", 0xF0)
    try:
        assert "opcode EXT1" in _refusal(path, content, monkeypatch)
    finally:
        copyreg.remove_extension("os", "system", 0xF0)
    assert not trace.exists()


def _array_bytes(shape: bytes, data: bytes = b"U\x04abcd") -> bytes:
    """Return a pickle of an i4 array with this shape and data, as opcodes."""
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01btR"
    dtype = b"cnumpy\ndtype\nU\x02i4K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    return b"\x80\x02" + array + b"(K\x01" + shape + dtype + b"\x89" + data + b"tb."


_DOUBLING = b"K\x01" + b"q\x00h\x00\x86" * 200  # a tuple of itself and itself, two hundred times over


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "pickle exhausted before seeing STOP"),
        (as_python_2(Y)[:-15], "expected 24 bytes in a string1, but only 14 remain"),
        (b"\x80\x02\x00.", "at position 2, opcode b'\\x00' unknown"),
        (b"\x80\x02T\xff\xff\xff\xff.", "string4 byte count < 0: -1"),
        (
            b"\x80\x05\x96\xff\xff\xff\xff\x0f\x00\x00\x00.",
            "expected 68719476735 bytes in a bytearray8, but only 1 remain",
        ),
        (b"\x80\x02Nr\xff\xff\xff\xff.", "memo index 4,294,967,295 in a file of 9 bytes"),
        (_array_bytes(b"J\xff\xff\xff\x7f\x85"), "expected 8,589,934,588 bytes for an array of shape (2147483647,)"),
        (_array_bytes(b"J\xff\xff\xff\xff\x85"), "the shape of an array is not one or two numbers of a sensible size"),
        (_array_bytes(_DOUBLING), "the shape of an array is not one or two numbers of a sensible size"),
        (_array_bytes(b"K\x01\x85").replace(b"i4", b"O8"), "expected an array of numbers, found another type"),
        (_array_bytes(b"K\x01\x85").replace(b"U\x02i4", _DOUBLING), "expected an array of numbers, found another type"),
        (_array_bytes(b"K\x01\x85", b"]"), "expected 4 bytes for an array of shape (1,), found 0"),
        (b"\x80\x02cnumpy\ndtype\n.", "found a type without a value"),
        (b"\x80\x02cnumpy\ndtype\n)R.", "found a type without a value"),
    ],
)
def test_a_file_that_is_not_a_pickle_of_arrays_is_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "file.pkl"
    path.write_bytes(content)
    with pytest.raises(FileFormatError) as error:
        read_pickle(path, trust=True)
    assert str(error.value).startswith(f"{path}: is not a pickle of arrays ({problem}")
    assert str(error.value).endswith("); fetch the file again")


def test_a_sparse_matrix_with_a_negative_row_pointer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.pkl"
    pointers = struct.pack("<4i", 0, 1, 2, 4)  # SciPy would take the last to be -4 and read outside its memory
    path.write_bytes(as_python_2(ALLX).replace(pointers, struct.pack("<4i", 0, 1, 2, -4)))
    with pytest.raises(FileFormatError, match=r"is not a pickle of arrays \(row pointers must ascend from 0 to 4\)"):
        read_pickle(path, trust=True)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"none.pkl: cannot be read: No such file or directory$"):
        read_pickle(tmp_path / "none.pkl")


@given(st.binary(max_size=200))
def test_random_bytes_raise_only_our_errors(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    _read_or_refuse(tmp_path_factory.getbasetemp() / "random.pkl", data)


@given(
    st.sampled_from([as_python_2(ALLX), as_python_2(Y), as_python_2(defaultdict(list, GRAPH)), pickle.dumps(ALLX, 4)]),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(max_size=3), st.integers(0, 3)), max_size=4),
)
def test_damaged_pickles_raise_only_our_errors(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, damage: list[tuple[float, bytes, int]]
) -> None:
    for position, inserted, removed in damage:
        place = int(position * len(data))
        data = data[:place] + inserted + data[place + removed :]
    _read_or_refuse(tmp_path_factory.getbasetemp() / "damaged.pkl", data)


def _read_or_refuse(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with contextlib.suppress(CgeError):
        read_pickle(path, trust=True)


# ---------------------------------------------------------------------- putting a set together


def test_rows_are_assigned_to_their_nodes(tmp_path: Path) -> None:
    data = load_planetoid(write_set(tmp_path), "tiny", trust=True)
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
    data = load_planetoid(tmp_path, "tiny", trust=True)
    assert data.labels.tolist() == [0, 1, -1, -1, 0, 1]
    assert data.split is not None
    assert data.split.sizes == (2, 0, 2)


@pytest.mark.parametrize(
    ("changes", "file", "problem"),
    [
        ({"graph": [1]}, "graph", "must contain a dictionary: node → list of neighbors"),
        ({"graph": {0: ["a"]}}, "graph", "must contain integers as nodes and neighbors"),
        ({"graph": GRAPH | {5: [6]}}, "graph", "must number its 6 nodes from 0, found 6"),
        ({"graph": GRAPH | {5: [-1]}}, "graph", "must number its 6 nodes from 0, found -1"),
        ({"x": Y}, "x", "must contain a sparse matrix of features"),
        ({"y": X}, "y", "must contain a matrix of one-hot labels"),
        ({"y": Y[:1]}, "y", "has 1 rows, but ind.tiny.x has 2"),
        ({"ally": ALLY[:2]}, "ally", "has 2 rows, but ind.tiny.allx has 3"),
        ({"ty": TY[:, :2]}, "ty", "2 classes do not match 3 of y"),
        ({"ty": np.ones((2, 3))}, "ty", "row 0 has 3 labels; expected at most one"),
        (
            {"tx": sp.csr_matrix((2, 7))},
            "allx",
            "shape (3, 2) does not match (2, 2) of x, (2, 7) of tx and 6 nodes of graph",
        ),
        (
            {"graph": {0: [1], 1: [0]}},
            "allx",
            "shape (3, 2) does not match (2, 2) of x, (2, 2) of tx and 2 nodes of graph",
        ),
        ({"test_index": "5\n"}, "test.index", "has 1 rows, but ind.tiny.tx has 2"),
        ({"test_index": "5\nx\n"}, "test.index", "must contain one node number per line"),
        ({"test_index": "5\n5\n"}, "test.index", "test nodes must be distinct, from 3 (rows of allx) to 5"),
        ({"test_index": "5\n6\n"}, "test.index", "test nodes must be distinct, from 3 (rows of allx) to 5"),
    ],
)
def test_inconsistent_files_are_refused(tmp_path: Path, changes: dict[str, object], file: str, problem: str) -> None:
    with pytest.raises(FileFormatError) as error:
        load_planetoid(write_set(tmp_path, **changes), "tiny", trust=True)
    assert str(error.value) == f"{tmp_path / f'ind.tiny.{file}'}: {problem}"


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    (write_set(tmp_path) / "ind.tiny.tx").unlink()
    with pytest.raises(
        FileFormatError, match=r"ind.tiny.tx: is missing; the Planetoid set 'tiny' needs x, y, tx, ty, allx"
    ):
        load_planetoid(tmp_path, "tiny", trust=True)


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
        all_labels = one_hot[[labels.get(value, 0) for value in values[share]]]
        parts = {"x": rows[:1], "y": all_labels[:1], "allx": rows[:3], "tx": rows[[5]], "ty": all_labels[[5]]}
        name = f"nell.{share}"
        write_set(folder, name, test_index="5\n", **parts)
        (folder / f"ind.{name}.ally").unlink()
    return folder


def test_nell_takes_validation_nodes_from_the_other_splits(tmp_path: Path) -> None:
    folder = write_nell(tmp_path, "0.1", "0.01", "0.001")
    data = load_nell(folder, "nell-0.1", trust=True)
    # Node 0 (training) and 5 (test) are labeled; the others train on the entity 3, node 2 here, and test on 6 and 1.
    assert load_planetoid(folder, "nell.0.1", trust=True).labels.tolist() == [0, -1, -1, -1, -1, 1]
    assert data.name == "nell-0.1"
    assert [data.class_names[label] if label >= 0 else "" for label in data.labels] == ["0", "", "1", "", "", "2"]
    assert data.split is not None
    assert [part.tolist() for part in (data.split.train, data.split.validation, data.split.test)] == [[0], [2], [5]]
    assert data.splits == (data.split,)
    assert "derived" in data.notes


def test_nell_without_the_other_splits_has_no_validation_nodes(tmp_path: Path) -> None:
    data = load_nell(write_nell(tmp_path, "0.1", "0.01"), "nell-0.1", trust=True)
    assert data.split is not None
    assert data.split.sizes == (1, 0, 1)
    assert "no validation nodes" in data.notes


def test_nell_with_ally_validates_on_the_nodes_after_the_training_nodes(tmp_path: Path) -> None:
    folder = write_nell(tmp_path, "0.1", "0.01", "0.001")
    (folder / "ind.nell.0.1.ally").write_bytes(as_python_2(np.eye(3, dtype=np.int32)))
    data = load_nell(folder, "nell-0.1", trust=True)
    assert data.split is not None
    assert data.split.validation.tolist() == [1, 2]
    assert data.notes == ""


def test_nell_is_loaded_from_its_pickles_where_the_arrays_are_missing(own_data_dir: Path) -> None:
    write_nell(own_data_dir / "nell", "0.1", "0.01", "0.001")
    assert load_dataset("NELL-0.1", trust=True).split == load_nell(own_data_dir / "nell", "nell-0.1", trust=True).split
