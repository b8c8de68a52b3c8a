"""Stored folders: whole states or clear errors, whatever happens to the files; graphs, ids and values come back."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save

from cge.errors import CgeError, FileFormatError, InputError
from cge.graph import Graph
from cge.store import (
    atomic,
    metadata_field,
    metadata_record,
    pack_graph,
    pack_values,
    read_folder,
    unpack_graph,
    unpack_values,
    write_folder,
)
from cge.store import manifest as manifests
from cge.store.folder import checked_arrays, tensor_chunks
from cge.store.packing import pack_ids, unpack_ids
from tests.fuzzing.damage import edited
from tests.stored_files import with_hash

METADATA = {"settings": {"dim": 8, "lr": 0.1, "name": "ü \ud800", "none": None}, "list": [1, True, "x"]}
ARRAYS = {
    "vectors": np.arange(6, dtype=np.float32).reshape(2, 3),
    "mask": np.array([True, False, True]),
    "empty": np.empty((0, 4), np.int16),
    "scalar": np.array(2.5),
}


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def same(arrays: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> bool:
    return sorted(arrays) == sorted(expected) and all(
        arrays[name].dtype == array.dtype and arrays[name].shape == array.shape and np.array_equal(arrays[name], array)
        for name, array in expected.items()
    )


def rewrite(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the JSON file of a folder by hand."""
    content = json.loads((folder / "model.json").read_text())
    changed = change(content)
    (folder / "model.json").write_text(json.dumps(with_hash(content if changed is None else changed)))


def reseal(folder: Path, data: bytes) -> None:
    """Replace the tensors of a folder, and its JSON file's claims about them, by hand."""
    sha256 = hashlib.sha256(data).hexdigest()
    (folder / f"model-{sha256[:16]}.safetensors").write_bytes(data)
    entry = {"file": f"model-{sha256[:16]}.safetensors", "size": len(data), "sha256": sha256}
    rewrite(folder, lambda content: content.update(tensors=entry))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_folder(tmp_path / "saved", "test", METADATA, ARRAYS)
    return tmp_path / "saved"


# ---------------------------------------------------------------------- whole states


def test_what_is_written_is_read(folder: Path) -> None:
    stored = read_folder(folder, "test")
    assert stored.kind == "test"
    assert stored.metadata == METADATA
    assert same(stored.arrays, ARRAYS)
    assert sorted(stored.environment) == ["cge", "numpy", "platform", "python", "torch"]
    assert stored.environment["numpy"] == np.__version__
    assert stored.environment["python"] == ".".join(map(str, sys.version_info[:3]))
    assert read_folder(str(folder), ("other", "test")).kind == "test"
    assert read_folder(folder).metadata["settings"]["lr"] == 0.1


def test_the_files_are_json_and_safetensors(folder: Path) -> None:
    content = json.loads((folder / "model.json").read_text())
    assert sorted(content) == ["environment", "format", "format_version", "kind", "metadata", "sha256", "tensors"]
    assert (content["format"], content["format_version"], content["kind"]) == ("cge", 9, "test")
    file = folder / content["tensors"]["file"]
    data = file.read_bytes()
    assert content["tensors"]["size"] == len(data)
    assert content["tensors"]["sha256"] == hashlib.sha256(data).hexdigest()
    assert file.name == f"model-{hashlib.sha256(data).hexdigest()[:16]}.safetensors"
    assert names_in(folder) == [file.name, "model.json"]
    assert same(load(data), ARRAYS)
    assert file.stat().st_mode == (folder / "model.json").stat().st_mode


@pytest.mark.parametrize("dtype", ["?", "b", "B", "h", "H", "i", "I", "q", "Q", "e", "f", "d", ">i4", ">f8"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3)])
def test_every_dtype_and_shape_survives(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    array = (np.arange(np.prod(shape, dtype=int)) % 2).astype(dtype).reshape(shape)
    write_folder(tmp_path, "test", {}, {"a": array, "other": np.ones(3, np.int8)})
    loaded = read_folder(tmp_path).arrays["a"]
    assert loaded.dtype == np.dtype(dtype).newbyteorder("=")
    assert loaded.shape == shape
    assert np.array_equal(loaded, array)
    assert loaded.flags.writeable


def test_views_are_written_as_they_look(tmp_path: Path) -> None:
    square = np.arange(16.0).reshape(4, 4)
    views = {
        "transposed": square.T,
        "strided": square[::2, 1::2],
        "reversed": square[::-1],
        "fortran": square.copy("F"),
    }
    write_folder(tmp_path, "test", {}, views)
    loaded = read_folder(tmp_path).arrays
    assert same(loaded, views)
    assert loaded["transposed"].tolist()[0] == [0, 4, 8, 12]


def test_no_arrays_and_extreme_values(tmp_path: Path) -> None:
    write_folder(tmp_path, "test", {}, {})
    assert read_folder(tmp_path).arrays == {}
    odd = {"f": np.array([np.nan, np.inf, -0.0]), "i": np.array([-(2**63), 2**63 - 1]), "u": np.array([2**64 - 1], "Q")}
    write_folder(tmp_path, "test", {}, odd)
    loaded = read_folder(tmp_path).arrays
    assert loaded["f"].tobytes() == odd["f"].tobytes()
    assert same({name: loaded[name] for name in "iu"}, {name: odd[name] for name in "iu"})


def test_the_same_input_makes_the_same_bytes(tmp_path: Path) -> None:
    write_folder(tmp_path / "a", "test", {"x": 1, "y": {"p": 2, "q": 3}}, ARRAYS)
    turned = dict(reversed(ARRAYS.items()))
    write_folder(tmp_path / "b", "test", {"y": {"q": 3, "p": 2}, "x": 1}, turned)
    assert names_in(tmp_path / "a") == names_in(tmp_path / "b")
    for name in names_in(tmp_path / "a"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    write_folder(tmp_path / "b", "test", {"x": 1}, ARRAYS | {"scalar": np.array(2.6)})
    assert names_in(tmp_path / "a") != names_in(tmp_path / "b")


def test_tensors_are_those_of_the_library() -> None:
    """The bytes are the library's own wherever item sizes differ; the order within one size is free."""
    assert b"".join(tensor_chunks(checked_arrays(ARRAYS))) == save(ARRAYS)


def test_metadata_come_back_as_json_has_them(tmp_path: Path) -> None:
    metadata = {"a": (1, np.int64(2), np.float32(0.5)), "b": np.bool_(True), "c": np.str_("x"), "big": 2**200}
    write_folder(tmp_path, "test", metadata, {})
    assert read_folder(tmp_path).metadata == {"a": [1, 2, 0.5], "b": True, "c": "x", "big": 2**200}
    assert type(read_folder(tmp_path).metadata["a"][1]) is int


def test_a_missing_folder_is_made_and_others_files_stay(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    write_folder(deep, "test", {}, {"x": np.ones(1)})
    first = names_in(deep)
    others = [
        "notes.txt",
        "model-best.safetensors",
        "model-0123456789abcdef.txt",
        "model-0123456789abcdef.safetensors.old",
        "model-best-0123456789abcdef.safetensors",
        ".cge-0123.tmp",
        ".other-0123456789abcdef.tmp",
    ]
    ours = [".cge-0123456789abcdef.tmp", "model-0123456789abcdef.safetensors"]
    for name in others + ours:
        (deep / name).write_text("x")
    write_folder(deep, "test", {}, {"x": np.zeros(1)}, name="model")
    assert set(others) < set(names_in(deep))
    assert not set(ours) & set(names_in(deep))
    assert not set(first) - {"model.json"} & set(names_in(deep))
    assert len(names_in(deep)) == len(others) + 2


def test_states_of_several_names_lie_in_one_folder(tmp_path: Path) -> None:
    for name in ("model", "best", "model-1"):
        write_folder(tmp_path, name, {}, {"x": np.full(3, len(name))}, name=name)
    write_folder(tmp_path, "model", {}, {"x": np.zeros(3)})
    assert len(names_in(tmp_path)) == 6
    assert read_folder(tmp_path, "best", name="best").arrays["x"].tolist() == [4, 4, 4]
    assert read_folder(tmp_path, "model-1", name="model-1").arrays["x"].tolist() == [7, 7, 7]
    assert read_folder(tmp_path, "model").arrays["x"].tolist() == [0, 0, 0]


# ---------------------------------------------------------------------- refusals of the writer


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (
            {"a": [1, {"b": np.nan}]},
            "metadata['a'][1]['b'] is nan, which JSON cannot contain; use None, or put it in an array",
        ),
        ({"a": {3: 1}}, "metadata['a'] has the key 3; keys must be strings"),
        (
            {"a": {1}},
            "metadata['a'] is {1}; use numbers, strings, lists and dictionaries, and arrays for the rest",
        ),
        (
            {"a": np.ones(2)},
            "metadata['a'] is array([1., 1.]); use numbers, strings, lists and dictionaries, ",
        ),
    ],
)
def test_metadata_that_json_cannot_hold(tmp_path: Path, metadata: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        write_folder(tmp_path / "new", "test", metadata, {})
    assert not (tmp_path / "new").exists()


def test_metadata_without_end(folder: Path) -> None:
    endless: dict[str, Any] = {}
    endless["self"] = endless
    with pytest.raises(InputError, match=r"^the metadata is nested too deeply to be saved$"):
        write_folder(folder, "test", endless, {})
    with pytest.raises(InputError, match=r"^the metadata cannot be written as JSON \(Exceeds the limit"):
        write_folder(folder, "test", {"huge": 10**5000}, {})
    assert same(read_folder(folder).arrays, ARRAYS)
    assert len(names_in(folder)) == 2


def test_metadata_larger_than_a_reader_takes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "MAX_BYTES", 1000)
    with pytest.raises(
        InputError, match=r"^the metadata takes 3,\d\d\d bytes, at most 1,000 fit; put long lists in arrays$"
    ):
        write_folder(folder, "test", {"long": "x" * 3000}, {})
    assert read_folder(folder).metadata == METADATA
    assert len(names_in(folder)) == 2


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"a": np.array(["x"])},
            "the array 'a' has dtype <U1, which cannot be saved; use integers, float16 to float64 or bool",
        ),
        ({"a": np.array([{}])}, "the array 'a' has dtype object, which cannot be saved"),
        ({"a": np.ones(1, complex)}, "the array 'a' has dtype complex128, which cannot be saved"),
        ({"a": [1.0]}, "the array 'a' is a list, which cannot be saved"),
        ({"": np.ones(1)}, "arrays need names of printable characters, found ''"),
        ({"__metadata__": np.ones(1)}, "arrays need names of printable characters, found '__metadata__'"),
        ({"\ud800": np.ones(1)}, "arrays need names of printable characters, found '\\ud800'"),
        ({3: np.ones(1)}, "arrays need names of printable characters, found 3"),
    ],
)
def test_arrays_that_cannot_be_saved(folder: Path, arrays: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        write_folder(folder, "test", {}, arrays)
    assert same(read_folder(folder).arrays, ARRAYS)


@pytest.mark.parametrize("text", ["{}", "", '{"format": "other"}', "[1", "[" * 100_000, '"cge"'])
def test_a_json_file_that_is_not_ours_stays(tmp_path: Path, text: str) -> None:
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(
        InputError, match=r"model\.json was not written by cge; move it away, or choose another folder$"
    ):
        write_folder(tmp_path, "test", {}, ARRAYS)
    assert names_in(tmp_path) == ["model.json"]
    assert (tmp_path / "model.json").read_text() == text


def test_files_where_folders_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match=r"file is a file; give the path of a folder$"):
        write_folder(tmp_path / "file", "test", {}, {})
    with pytest.raises(InputError, match=r"below cannot be written \(Not a directory\); choose another"):
        write_folder(tmp_path / "file" / "below", "test", {}, {})
    (tmp_path / "model.json").mkdir()
    with pytest.raises(
        InputError, match=r"model\.json was not written by cge; move it away, or choose another folder$"
    ):
        write_folder(tmp_path, "test", {}, {})
    with pytest.raises(InputError, match=r"^the path is empty"):
        write_folder("", "test", {}, {})
    assert (tmp_path / "file").read_text() == "x"
    assert names_in(tmp_path) == ["file", "model.json"]


def test_a_link_is_not_written_through(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "model.json").symlink_to(folder / "model.json")
    with pytest.raises(
        InputError, match=r"model\.json was not written by cge; move it away, or choose another folder$"
    ):
        write_folder(tmp_path, "test", {}, {})
    assert read_folder(folder).metadata == METADATA


class Failing:
    """Lets a number of system calls succeed, then fails all."""

    def __init__(self, successes: int, number: int) -> None:
        self.successes, self.number = successes, number

    def __call__(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self.successes -= 1
            if self.successes < 0:
                raise OSError(self.number, os.strerror(self.number))
            return call(*args, **kwargs)

        return wrapped


@pytest.mark.parametrize("successes", range(6))
@pytest.mark.parametrize("existing", [True, False])
def test_a_failing_disk_leaves_the_old_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, successes: int, existing: bool
) -> None:
    """fsync of the tensors and of the JSON file, replace, fsync of the folder, replace (the commit), fsync."""
    if existing:
        write_folder(tmp_path, "test", {"state": "old"}, {"x": np.zeros(5)})
    before = names_in(tmp_path)
    failing = Failing(successes, errno.ENOSPC)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing(os.fsync))
        patch.setattr(Path, "replace", failing(Path.replace))
        with pytest.raises(InputError) as error:
            write_folder(tmp_path, "test", {"state": "new"}, {"x": np.ones(5)})
    assert str(error.value) == (
        f"{tmp_path} cannot be written (No space left on device); free the disk or choose another folder"
    )
    if successes == 5:  # after the commit
        assert read_folder(tmp_path).metadata == {"state": "new"}
        assert read_folder(tmp_path).arrays["x"].tolist() == [1] * 5
        assert len(names_in(tmp_path)) == 2
        return
    assert names_in(tmp_path) == before
    if existing:
        assert read_folder(tmp_path).metadata == {"state": "old"}
        assert read_folder(tmp_path).arrays["x"].tolist() == [0] * 5
    write_folder(tmp_path, "test", {"state": "new"}, {"x": np.ones(5)})
    assert read_folder(tmp_path).metadata == {"state": "new"}


def test_a_read_only_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "mkdir", Failing(0, errno.EROFS)(Path.mkdir))
    with pytest.raises(InputError, match=r"new cannot be written \(Read-only file system\); choose an"):
        write_folder(tmp_path / "new", "test", {}, {})


def test_a_file_system_that_syncs_and_locks_no_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = os.fsync

    def files_only(handle: int) -> None:
        if not Path(f"/proc/self/fd/{handle}").is_file():
            raise OSError(errno.EINVAL, "Invalid argument")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", files_only)
    monkeypatch.setattr(atomic.fcntl, "flock", Failing(0, errno.ENOLCK)(len))
    write_folder(tmp_path, "test", METADATA, ARRAYS)
    assert read_folder(tmp_path).metadata == METADATA


def run_python(code: str, *arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE)


FILLS_THE_DISK = """
import resource, sys
import numpy as np
from cge.errors import InputError
from cge.store import write_folder
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    write_folder(sys.argv[1], "test", {}, {"x": np.ones(1_000_000)})
except InputError as error:
    print(error)
"""


def test_a_file_that_cannot_grow_is_removed(folder: Path) -> None:
    child = run_python(FILLS_THE_DISK, folder)
    output = child.communicate()[0].decode()
    assert output == f"{folder} cannot be written (File too large); choose another folder\n"
    assert same(read_folder(folder).arrays, ARRAYS)
    assert len(names_in(folder)) == 2


REWRITES_FOREVER = """
import sys
import numpy as np
from cge.store import write_folder
state = int(sys.argv[2])
while True:
    state += 1
    write_folder(sys.argv[1], "test", {"state": state}, {"x": np.full(20_000, state), "y": np.full(7, state)})
    print(state, flush=True)
"""


@pytest.mark.slow
def test_a_killed_writer_leaves_a_whole_state(tmp_path: Path) -> None:
    last, leftovers, kill = 0, 0, -1
    while kill < 5 or (not leftovers and kill < 60):  # until a kill falls into a write
        kill += 1
        child = run_python(REWRITES_FOREVER, tmp_path, last)
        assert child.stdout is not None
        written = [int(child.stdout.readline()) for _ in range(3)]
        time.sleep(0.0037 * (kill % 7))
        child.send_signal(signal.SIGKILL)
        written += [int(line) for line in child.stdout.read().split()]
        child.stdout.close()
        assert child.wait() == -signal.SIGKILL
        stored = read_folder(tmp_path, "test")
        state = stored.metadata["state"]
        assert written[-1] <= state <= written[-1] + 1
        assert state > last
        assert same(stored.arrays, {"x": np.full(20_000, state), "y": np.full(7, state)})
        leftovers += len(names_in(tmp_path)) - 2
        last = state
    assert leftovers > 0, "no kill fell into a write: the test shows nothing"
    write_folder(tmp_path, "test", {}, ARRAYS)
    assert len(names_in(tmp_path)) == 2


def test_readers_and_writers_at_the_same_time(tmp_path: Path) -> None:
    errors: list[BaseException] = []
    write_folder(tmp_path, "test", {"state": 0}, {"x": np.full(500, 0)})
    done = threading.Event()

    def write(states: list[int]) -> None:
        try:
            for turn in range(40):
                state = states[turn % len(states)]
                write_folder(tmp_path, "test", {"state": state}, {"x": np.full(500, state)})
        except BaseException as error:
            errors.append(error)

    def read() -> None:
        try:
            while not done.is_set():
                stored = read_folder(tmp_path)
                assert stored.arrays["x"].tolist() == [stored.metadata["state"]] * 500
        except BaseException as error:
            errors.append(error)

    writers = [threading.Thread(target=write, args=(states,)) for states in ([1, 2], [2, 3, 4])]
    readers = [threading.Thread(target=read) for _ in range(2)]
    for thread in readers + writers:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    assert errors == []
    assert len(names_in(tmp_path)) == 2


# ---------------------------------------------------------------------- refusals of the reader

HINT = "restore the folder from a copy, or save it again"


def refused(folder: Path, kind: str | tuple[str, ...] | None = None) -> str:
    with pytest.raises(FileFormatError) as error:
        read_folder(folder, kind)
    return str(error.value)


def test_no_folder_and_no_json(tmp_path: Path) -> None:
    assert (
        refused(tmp_path / "no")
        == f"{tmp_path}/no: there is no such folder; expected a model saved by `cge fit` or `model.save`"
    )
    assert refused(tmp_path) == f"{tmp_path}: the folder holds no 'model.json'; give a folder that cge has saved"
    (tmp_path / "file").write_text("x")
    expected = f"{tmp_path}/file: this is a file; give the path of a folder that cge has saved"
    assert refused(tmp_path / "file") == expected
    (tmp_path / "model.json").mkdir()
    assert refused(tmp_path) == f"{tmp_path}/model.json: this is a folder, expected a file; put the file itself there"
    assert refused(tmp_path / ("x" * 300)).endswith("/model.json: the file cannot be read (File name too long)")


def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.json")
    assert refused(tmp_path).endswith(
        "/model.json: this is not a regular file, expected a file; put the file itself there"
    )


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"format": "cge", "x": NaN}', "\ud800", "1" * 5000])
def test_broken_json(folder: Path, text: str) -> None:
    (folder / "model.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    assert refused(folder) == f"{folder}/model.json: this is not readable JSON; {HINT}"


@pytest.mark.parametrize("text", ["{}", "[]", "3", "null", '{"format": "pt"}', '{"format": ["cge"]}'])
def test_foreign_json(folder: Path, text: str) -> None:
    (folder / "model.json").write_text(text)
    assert refused(folder) == f"{folder}/model.json: this was not written by cge; give a folder that cge has saved"


def test_oversize_json(folder: Path) -> None:
    with (folder / "model.json").open("ab") as stream:
        stream.truncate(64 * 2**20 + 1)
    expected = f"{folder}/model.json: the file is longer than 67,108,864 bytes; give a folder that cge has saved"
    assert refused(folder) == expected


def test_a_newer_format(folder: Path) -> None:
    rewrite(folder, lambda content: {"format": "cge", "format_version": 10, "else": "unknown"})
    assert refused(folder) == (
        f"{folder}/model.json: written by a newer cge (format version 10, this one reads 9); upgrade cge"
    )
    write_folder(folder, "test", {}, {})  # it is ours, and may be replaced
    assert read_folder(folder).metadata == {}


@pytest.mark.parametrize("version", [0, -1, True, 2.0, "2", None])
def test_no_format_version(folder: Path, version: object) -> None:
    rewrite(folder, lambda content: content.update(format_version=version))
    assert refused(folder) == f"{folder}/model.json: expected format version 9, found {version!r}; {HINT}"


def test_a_folder_of_format_version_1(folder: Path) -> None:
    """Its metadata was called facts and had no hash."""
    old = {"environment": {"cge": "0.1.0"}, "facts": {}, "format": "cge", "format_version": 1, "kind": "CGE"}
    (folder / "model.json").write_text(json.dumps(old))
    assert refused(folder) == (
        f"{folder}/model.json: written by cge 0.1.0 in format version 1, this cge reads 9; fit the model again"
    )
    (folder / "model.json").write_text(json.dumps(old | {"environment": None, "kind": "checkpoint"}))
    assert refused(folder) == (
        f"{folder}/model.json: written by an older cge in format version 1, this cge reads 9; "
        "remove it and start the fit again"
    )
    write_folder(folder, "test", {}, {})  # it is ours, and may be replaced
    assert read_folder(folder).metadata == {}


@pytest.mark.parametrize(
    "place", [("metadata", "list"), ("metadata", "settings", "lr"), ("kind",), ("environment", "numpy")]
)
def test_edited_metadata_is_refused(folder: Path, place: tuple[str, ...]) -> None:
    content = json.loads((folder / "model.json").read_text())
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = "0.5"
    (folder / "model.json").write_text(json.dumps(content))
    assert refused(folder) == f"{folder}/model.json: the file was changed since it was saved; {HINT}"
    (folder / "model.json").write_text(json.dumps(with_hash(content)))
    assert read_folder(folder).environment  # a hash detects damage, not forgery


def test_formatting_the_json_is_no_damage(folder: Path) -> None:
    content = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps(content, indent=None))
    assert read_folder(folder).metadata == METADATA


def test_metadata_fields_have_types() -> None:
    metadata = {"a": 1, "b": True, "c": 0.5, "d": None}
    assert metadata_field(metadata, "a", int) == 1
    assert type(metadata_field(metadata, "a", float)) is float
    assert metadata_field(metadata, "d", float, type(None)) is None
    with pytest.raises(InputError, match=r"^'b' must be an integer, found True$"):
        metadata_field(metadata, "b", int)
    with pytest.raises(InputError, match=r"^'c' must be a list or None, found 0.5$"):
        metadata_field(metadata, "c", list, type(None))
    with pytest.raises(InputError, match=r"^'e' must be a number, found nothing$"):
        metadata_field(metadata, "e", float)


@dataclass(frozen=True)
class Record:
    name: str
    loss: float
    gain: float | None
    parts: dict[str, int]


def test_records_have_all_fields_and_their_types() -> None:
    row: dict[str, Any] = {"name": "a", "loss": 1, "gain": None, "parts": {"x": 1}}
    assert metadata_record(Record, row) == Record("a", 1.0, None, {"x": 1})
    for change, message in (
        ({"loss": "low"}, "'loss' must be a number, found 'low'"),
        ({"gain": True}, "'gain' must be a number or None, found True"),
        ({"parts": [1]}, "'parts' must be an object, found [1]"),
        ({"more": 1}, "Record has no field 'more'"),
    ):
        with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
            metadata_record(Record, row | change)
    with pytest.raises(InputError, match=r"^'name' must be a string, found nothing$"):
        metadata_record(Record, {"loss": 1.0})
    with pytest.raises(InputError, match=r"^expected an object with the fields of Record, found \[\]$"):
        metadata_record(Record, [])


def test_another_kind(folder: Path) -> None:
    assert refused(folder, "model") == f"{folder}: expected 'model', found 'test'; give the folder of another save"
    assert refused(folder, ("a", "b")).endswith("expected 'a' or 'b', found 'test'; give the folder of another save")


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        (("kind",), 3, "'kind' must be a string, found 3"),
        (("metadata",), [1], "'metadata' must be an object, found [1]"),
        (("environment",), None, "'environment' must be an object, found None"),
        (("environment", "numpy"), 2, "'numpy' must be a string, found 2"),
        (("tensors",), "x", "'tensors' must be an object, found 'x'"),
        (("tensors", "size"), True, "'size' must be an integer, found True"),
        (("tensors", "size"), 1.5, "'size' must be an integer, found 1.5"),
        (("tensors", "sha256"), None, "'sha256' must be a string, found None"),
        (("tensors", "sha256"), "AB", "expected a SHA-256 of 64 digits, found 'AB'"),
        (("tensors", "file"), 0, "'file' must be a string, found 0"),
    ],
)
def test_metadata_of_wrong_types(folder: Path, place: tuple[str, ...], value: object, problem: str) -> None:
    def change(content: dict[str, Any]) -> None:
        for key in place[:-1]:
            content = content[key]
        content[place[-1]] = value

    rewrite(folder, change)
    assert refused(folder) == f"{folder}/model.json: {problem}; {HINT}"


def test_entries_that_are_missing(folder: Path) -> None:
    for key in ("kind", "metadata", "environment", "tensors"):
        write_folder(folder, "test", METADATA, ARRAYS)
        rewrite(folder, lambda content, key=key: content.pop(key) and None)
        assert f"'{key}' must be " in (message := refused(folder))
        assert message.endswith(f", found nothing; {HINT}")


@pytest.mark.parametrize(
    "file", ["../secret.safetensors", "/etc/passwd", "a/b.safetensors", "..", "", "model.json", "other.safetensors"]
)
def test_tensor_files_elsewhere(folder: Path, file: str) -> None:
    own = next(name for name in names_in(folder) if name != "model.json")
    (folder.parent / "secret.safetensors").write_bytes((folder / own).read_bytes())
    (folder / "other.safetensors").write_bytes((folder / own).read_bytes())
    rewrite(folder, lambda content: content["tensors"].update(file=file))
    assert refused(folder) == f"{folder}/model.json: expected the tensor file '{own}', found '{file}'; {HINT}"


def test_links_are_not_followed(folder: Path) -> None:
    for name in names_in(folder):
        (folder / name).rename(folder.parent / name)
        (folder / name).symlink_to(folder.parent / name)
        assert (
            refused(folder) == f"{folder}/{name}: this is a symbolic link, expected a file; put the file itself there"
        )
        (folder.parent / name).rename(folder / name)
    assert read_folder(folder).metadata == METADATA


def test_tensors_missing_cut_or_changed(folder: Path) -> None:
    file = folder / next(name for name in names_in(folder) if name != "model.json")
    data = file.read_bytes()
    file.write_bytes(data[:-1])
    cut = f"{file}: the file has {len(data) - 1:,} bytes, expected {len(data):,}; {HINT}"
    assert refused(folder) == cut
    file.write_bytes(data + b"x")
    assert refused(folder) == cut.replace(f"has {len(data) - 1}", f"has {len(data) + 1}")
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert refused(folder) == f"{file}: the file was changed since it was saved; {HINT}"
    file.unlink()
    assert refused(folder) == f"{folder}: the tensor file '{file.name}' is missing; {HINT}"
    file.mkdir()
    assert refused(folder) == f"{file}: this is a folder, expected a file; put the file itself there"


def safetensors(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def tensor(dtype: str, shape: list[int], end: int) -> dict[str, Any]:
    return {"a": {"dtype": dtype, "shape": shape, "data_offsets": [0, end]}}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 8,
        b"\xff" * 100,
        safetensors(b"["),
        safetensors(b"[" * 1000),
        safetensors(tensor("F32", [2], 4), b"1234"),
        safetensors(tensor("F32", [1], 4), b"12345"),
        safetensors(tensor("F32", [1], 4), b"123"),
        safetensors(tensor("BF16", [1], 2), b"12"),
        safetensors(tensor("F8_E4M3", [1], 1), b"1"),
        safetensors(tensor("U8", [2**63, 0], 0)),
        safetensors(tensor("U8", [1] * 200, 1), b"1"),
        safetensors(tensor("U8", [-1], 1), b"1"),
    ],
)
def test_broken_safetensors_under_a_right_hash(folder: Path, data: bytes) -> None:
    reseal(folder, data)
    message = refused(folder)
    assert ".safetensors: this is not a readable safetensors file (" in message
    assert message.endswith(f"); {HINT}")


def test_foreign_tensors_under_a_right_hash(folder: Path) -> None:
    reseal(folder, safetensors(tensor("C64", [1], 8), b"12345678"))
    assert refused(folder).endswith(f"the array 'a' has the foreign dtype complex64; {HINT}")
    reseal(folder, safetensors(tensor("BOOL", [2], 2), b"\x01\x02"))
    assert refused(folder).endswith(f"the array 'a' contains bytes that are neither true nor false; {HINT}")


# ---------------------------------------------------------------------- damage at random


def state_bytes() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        write_folder(folder, "test", METADATA, ARRAYS)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


STATE = state_bytes()
TENSORS = next(name for name in STATE if name != "model.json")

edits = st.lists(
    st.tuples(
        st.sampled_from(["flip", "cut", "insert", "remove"]),
        st.floats(0, 1, exclude_max=True),
        st.binary(min_size=1, max_size=9),
    ),
    min_size=1,
    max_size=4,
)


@given(st.sampled_from(sorted(STATE)), edits)
def test_damaged_files_raise_only_our_errors(name: str, steps: list[tuple[str, float, bytes]]) -> None:
    damaged = edited(STATE[name], steps)
    with tempfile.TemporaryDirectory() as folder:
        for each, data in (STATE | {name: damaged}).items():
            (Path(folder) / each).write_bytes(data)
        try:
            stored = read_folder(folder)
        except CgeError:
            assert damaged != STATE[name]
            return
    assert same(stored.arrays, ARRAYS)
    assert stored.metadata == METADATA  # changed bytes that were accepted changed nothing
    assert name == "model.json" or damaged == STATE[name]


@given(edits)
def test_damaged_tensors_under_a_right_hash_raise_only_our_errors(steps: list[tuple[str, float, bytes]]) -> None:
    header = int.from_bytes(STATE[TENSORS][:8], "little") + 8
    damaged = edited(STATE[TENSORS][:header], steps) + STATE[TENSORS][header:]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "model.json").write_bytes(STATE["model.json"])
        reseal(Path(folder), damaged)
        try:
            stored = read_folder(folder)
        except CgeError:
            return
    assert all(isinstance(array, np.ndarray) for array in stored.arrays.values())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
KEYS = [("format",), ("format_version",), ("kind",), ("metadata",), ("environment",), ("tensors",)]
KEYS += [("tensors", "file"), ("tensors", "size"), ("tensors", "sha256"), ("environment", "numpy")]


@given(st.sampled_from(KEYS), json_values)
def test_any_value_in_the_json_raises_only_our_errors(place: tuple[str, ...], value: object) -> None:
    content = json.loads(STATE["model.json"])
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with tempfile.TemporaryDirectory() as folder:
        for each, data in (STATE | {"model.json": json.dumps(with_hash(content)).encode()}).items():
            (Path(folder) / each).write_bytes(data)
        try:
            stored = read_folder(folder)
        except CgeError:
            return
    assert stored.metadata == content["metadata"]
    assert stored.kind == content["kind"]


@given(json_values, json_values)
def test_all_metadata_survives(first: object, second: object) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_folder(folder, "test", {"first": first, "second": second}, {})
        assert read_folder(folder).metadata == {"first": first, "second": second}


# ---------------------------------------------------------------------- ids and values


@pytest.mark.parametrize(
    "ids",
    [
        np.array([5, -3, 2**62]),
        np.array([], np.int64),
        np.array([], object),
        np.array(["a", "", "ü 🙂", "a\0b", "\0", "x" * 1000], object),
        np.array(["", ""], object),
        np.array(["\ud800", "ok", "\ude00\ud83d", "é"], object),
    ],
)
def test_ids_come_back(ids: np.ndarray) -> None:
    loaded = unpack_ids(pack_ids(ids))
    assert loaded.dtype == ids.dtype
    assert loaded.tolist() == ids.tolist()


def test_ids_are_few_arrays_of_plain_numbers() -> None:
    packed = pack_ids(np.array(["é", "ab"], object), "node.")
    assert {name: (array.dtype.name, array.tolist()) for name, array in packed.items()} == {
        "node.text": ("uint8", [0xC3, 0xA9, 97, 98]),
        "node.ends": ("int64", [0, 2, 4]),
    }
    assert list(pack_ids([7, 8])) == ["ids.numbers"]
    objects = np.array([np.int64(4), 5], object)
    assert unpack_ids(pack_ids(objects)).tolist() == [4, 5]
    assert unpack_ids(pack_ids(np.array(["a", "b"]))).tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("ids", "actual"),
    [
        ([("x", 1), ("y", 2)], "('x', 1) at position 0"),
        (["a", 1], "1 at position 1"),
        ([1, 2, "a"], "'a' at position 2"),
        ([1, 2**63], "9223372036854775808 at position 1"),
        ([b"ab"], "b'ab' at position 0"),
        ([1, 1.5, "x"], "1.5 at position 1"),
    ],
)
def test_ids_that_cannot_be_saved(ids: Any, actual: str) -> None:
    with pytest.raises(InputError) as error:
        pack_ids(ids)
    assert str(error.value) == (
        f"saving needs node ids that are all integers (of 64 bits) or all strings, found {actual}; "
        "give the nodes such ids, for example str(id)"
    )


def test_a_million_ids_take_about_a_second() -> None:
    ids = np.array([f"node {number} é" for number in range(1_000_000)], object)
    start = time.process_time()
    loaded = unpack_ids(pack_ids(ids))
    assert time.process_time() - start < 4  # far from what a slow machine needs, far below a loop that is quadratic
    assert loaded[[0, -1]].tolist() == ["node 0 é", "node 999999 é"]
    assert np.array_equal(loaded, ids)


@given(st.lists(st.text(st.characters())))  # half surrogate pairs included
def test_any_strings_survive(items: list[str]) -> None:
    array = np.empty(len(items), object)
    array[:] = items
    assert unpack_values(pack_values(array)).tolist() == items
    fixed = np.array(items, dtype=str) if items else np.empty(0, "U3")
    loaded = unpack_values(pack_values(fixed))
    assert loaded.dtype == fixed.dtype
    assert loaded.tobytes() == fixed.tobytes()


@pytest.mark.parametrize(
    "values",
    [
        np.array([3, 1, 2]),
        np.array([3, 1], np.int8),
        np.array([2**64 - 1], np.uint64),
        np.array([0.5, np.inf]),
        np.array([0.5], np.float32),
        np.array([False, True]),
        np.array(["cat", "a much longer dog"]),
        np.array(["b", "a"], "U40")[::-1],
        np.array(["x"], ">U3"),
        np.array(["cat", "dog"], object),
        np.array([""]),
        np.empty(0, "U7"),
        np.empty(0, bool),
    ],
)
def test_values_come_back(tmp_path: Path, values: np.ndarray) -> None:
    write_folder(tmp_path, "test", {}, pack_values(values, "classes."))
    loaded = unpack_values(read_folder(tmp_path).arrays, "classes.")
    assert loaded.dtype == values.dtype.newbyteorder("=")
    assert np.array_equal(loaded, values)


def test_objects_that_are_integers_come_back_as_integers() -> None:
    assert unpack_values(pack_values(np.array([3, 4], object))).tolist() == [3, 4]


@pytest.mark.parametrize(
    ("values", "actual"),
    [
        (np.array([1, "a"], object), "'a' at position 1"),
        (np.array([None, "a"], object), "None at position 0"),
        (np.array([True], object), "True at position 0"),
        (np.array([b"x"]), "dtype |S1"),
        (np.array(["2020-01-01"], "M8[D]"), "dtype datetime64[D]"),
        (np.ones(1, complex), "dtype complex128"),
    ],
)
def test_values_that_cannot_be_saved(values: np.ndarray, actual: str) -> None:
    with pytest.raises(InputError) as error:
        pack_values(values)
    assert str(error.value) == (
        "saving needs values that are all integers (of 64 bits), floats, booleans or strings, "
        f"found {actual}; use one of these types"
    )


def test_values_must_be_flat_arrays() -> None:
    with pytest.raises(InputError, match=r"^saving needs a flat array, found array\(\[\[1\]\]\)$"):
        pack_values(np.array([[1]]))
    with pytest.raises(InputError, match=r"^saving needs a flat array, found \['a'\]$"):
        pack_values(["a"])  # type: ignore[arg-type]


TEXT = {"v.text": np.frombuffer(b"abc", np.uint8), "v.ends": np.array([0, 1, 3])}


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        ({}, "expected one of the arrays v.numbers, -characters and -text, found none"),
        (
            TEXT | {"v.numbers": np.ones(1)},
            "expected one of the arrays v.numbers, -characters and -text, found 'v.numbers' and 'v.text'",
        ),
        ({"v.text": TEXT["v.text"]}, "expected flat int64 under 'v.ends', found nothing"),
        (
            TEXT | {"v.ends": np.array([0, 3], np.int32)},
            "expected flat int64 under 'v.ends', found int32 of shape (2,)",
        ),
        (TEXT | {"v.ends": np.empty(0, int)}, "expected flat int64 under 'v.ends', found int64 of shape (0,)"),
        (TEXT | {"v.ends": np.array([[0, 3]])}, "expected flat int64 under 'v.ends', found int64 of shape (1, 2)"),
        (TEXT | {"v.ends": np.array([0, 2, 1, 3])}, "'v.ends' must rise from 0 to 3"),
        (TEXT | {"v.ends": np.array([0, 4])}, "'v.ends' must rise from 0 to 3"),
        (TEXT | {"v.ends": np.array([1, 3])}, "'v.ends' must rise from 0 to 3"),
        (TEXT | {"v.ends": np.array([0, -(2**62), 3])}, "'v.ends' must rise from 0 to 3"),
        (TEXT | {"v.text": np.ones(3)}, "expected flat uint8 under 'v.text', found float64 of shape (3,)"),
        (TEXT | {"v.text": np.array([97, 255, 98], np.uint8)}, "'v.text' is not UTF-8 text"),
        (
            TEXT | {"v.text": np.frombuffer("aé".encode(), np.uint8), "v.ends": np.array([0, 2, 3])},
            "'v.text' is not UTF",
        ),
        ({"v.numbers": np.ones((2, 2))}, "expected flat numbers under 'v.numbers', found float64 of shape (2, 2)"),
        (
            {"v.characters": np.ones(2, np.uint32)},
            "expected uint32 of two dimensions under 'v.characters', found uint32 of shape (2,)",
        ),
        (
            {"v.characters": np.ones((2, 0), np.uint32)},
            "expected uint32 of two dimensions under 'v.characters', found uint32 of shape (2, 0)",
        ),
        (
            {"v.characters": np.empty((0, 2**40), np.uint32)},
            "expected uint32 of two dimensions under 'v.characters', found uint32 of shape (0, 1099511627776)",
        ),
        (
            {"v.characters": np.full((1, 1), 0x110000, np.uint32)},
            "'v.characters' contains 1,114,112, which is not a character",
        ),
    ],
)
def test_damaged_values(arrays: dict[str, np.ndarray], problem: str) -> None:
    with pytest.raises(FileFormatError) as error:
        unpack_values(arrays, "v.", where="here")
    assert str(error.value).startswith(f"here: {problem}")
    assert str(error.value).endswith(f"; {HINT}")


def test_values_that_are_no_ids() -> None:
    with pytest.raises(
        FileFormatError, match=r"^the stored ids: expected ids that are int64 or strings, found float64; "
    ):
        unpack_ids({"ids.numbers": np.ones(2)})


# ---------------------------------------------------------------------- graphs

EDGES = [("a", "b"), ("b", "c"), ("d", "a")]
SPARSE = sp.csr_array(np.array([[0, 1.5, 0], [0, 0, 0], [2, 0, 3], [0, 0, 1]], np.float32))
WIDE = sp.csr_array((SPARSE.data, SPARSE.indices, SPARSE.indptr), shape=SPARSE.shape)
WIDE.indices, WIDE.indptr = WIDE.indices.astype(np.int64), WIDE.indptr.astype(np.int64)

GRAPHS = {
    "strings": Graph.from_edges(EDGES),
    "integers": Graph.from_edges([(10, -3), (7, 10)], directed=True),
    "empty": Graph.from_edges([]),
    "isolated": Graph.from_edges([], num_nodes=3),
    "weights": Graph.from_edges(EDGES, weights=[1, 2.5, 1e-30]),
    "float32 weights": Graph.from_edges(EDGES, weights=np.array([1, 2.5, 3], np.float32)),
    "types": Graph.from_edges(EDGES, edge_types=["likes", "ü\ud800", "likes"], directed=True),
    "dense": Graph.from_edges(EDGES, np.arange(12).reshape(4, 3), ["a", "b", "c", "d"]),
    "dense, no columns": Graph.from_edges(EDGES, np.empty((4, 0)), ["a", "b", "c", "d"]),
    "sparse": Graph.from_edges(EDGES, SPARSE, ["a", "b", "c", "d"]),
    "sparse, int64": Graph.from_edges(EDGES, WIDE, ["a", "b", "c", "d"]),
    "self-loops": Graph.from_edges([(0, 0), (0, 1)], self_loops=True, weights=[1, 2], edge_types=["x", "y"]),
    "int64 rows": Graph(np.array([0, 1, 2]), np.array([1, 0]), np.array([5, 6])),
}


def assert_same_graph(loaded: Graph, graph: Graph) -> None:
    for name in ("indptr", "indices", "node_ids", "weights", "edge_types"):
        array, expected = getattr(loaded, name), getattr(graph, name)
        assert (array is None) == (expected is None), name
        if expected is not None:
            assert array.dtype == expected.dtype, name
            assert array.tolist() == expected.tolist(), name
    assert (loaded.directed, loaded.edge_type_names) == (graph.directed, graph.edge_type_names)
    assert type(loaded.features) is type(graph.features)
    if isinstance(graph.features, sp.csr_array):
        assert loaded.features.shape == graph.features.shape
        for name in ("data", "indices", "indptr"):
            assert getattr(loaded.features, name).dtype == getattr(graph.features, name).dtype, name
            assert getattr(loaded.features, name).tolist() == getattr(graph.features, name).tolist(), name
    elif graph.features is not None:
        assert loaded.features.dtype == graph.features.dtype
        assert loaded.features.shape == graph.features.shape
        assert loaded.features.tolist() == graph.features.tolist()


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_graphs_come_back(tmp_path: Path, name: str) -> None:
    metadata, arrays = pack_graph(GRAPHS[name], "the.")
    assert all(key.startswith("the.") for key in arrays)
    write_folder(tmp_path, "test", {"graph": metadata}, arrays | {"other": np.ones(2)})
    stored = read_folder(tmp_path)
    loaded = unpack_graph(stored.metadata["graph"], stored.arrays, "the.")
    assert_same_graph(loaded, GRAPHS[name])
    assert not loaded.indices.flags.writeable


def test_graphs_came_as_described() -> None:
    """The graphs above have the types their names promise; otherwise the test would show less than it says."""
    assert GRAPHS["sparse"].features.indices.dtype == np.int32
    assert GRAPHS["sparse, int64"].features.indices.dtype == np.int64
    assert GRAPHS["float32 weights"].weights.dtype == np.float32
    assert GRAPHS["int64 rows"].indptr.dtype == np.int64
    assert GRAPHS["strings"].indptr.dtype == np.int32


def test_a_graph_with_ids_that_cannot_be_saved() -> None:
    with pytest.raises(
        InputError, match=r"^saving needs node ids that are all integers .*, found \('x', 1\) at position 0"
    ):
        pack_graph(Graph.from_edges([(("x", 1), ("y", 2))]))


FULL = Graph.from_edges(
    [(0, 1), (1, 2), (3, 0)],
    SPARSE,
    weights=[1, 2, 3],
    edge_types=["x", "y", "x"],
)


@pytest.mark.parametrize(
    ("part", "value", "problem"),
    [
        ("ids.numbers", None, "expected one of the arrays graph.ids.numbers, -characters and -text, found none"),
        ("ids.numbers", np.array([0, 1, 2, 2]), "node ids must be unique, but 2 occurs twice"),
        ("ids.numbers", np.arange(3), "there must be 4 row pointers, found 5"),
        ("indptr", None, "expected int32 or int64 of 1 dimensions under 'graph.indptr', found nothing"),
        ("indptr", np.array([0, 2, 1, 5, 6]), "row pointers must ascend from 0 to the number of entries, 6"),
        (
            "indices",
            np.array([2, 1, 0, 2, 0, 1], np.int32),
            "the entries of each row must ascend, those of row 0 do not",
        ),
        ("indptr", np.array([0, 2, 4, 5, 7]), "row pointers must ascend from 0 to the number of entries, 6"),
        (
            "indptr",
            np.array([0.0, 2, 4, 5, 6]),
            "expected int32 or int64 of 1 dimensions under 'graph.indptr', found float64 of shape (5,)",
        ),
        ("indices", np.array([1, 3, 0, 2, 1, 4]), "an entry has node index 4, but there are 4 nodes"),
        ("indices", np.array([1, 3, 0, 2, 1, -1]), "an entry has node index -1, but there are 4 nodes"),
        (
            "indices",
            np.array([1, 3, 0, 3, 1, 0]),
            "the edges of an undirected graph must be in the rows of both endpoints",
        ),
        ("weights", np.ones(5), "there are 6 edges, but the weights have shape (5,)"),
        ("weights", -np.ones(6), "edge weights must be positive and finite, found -1.0 at edge 0 and 5 more"),
        ("weights", None, "expected float32 or float64 of 1 dimensions under 'graph.weights', found nothing"),
        ("edge_types", np.full(6, 2, np.int16), "there must be 6 edge types, numbers below 2"),
        ("edge_types", np.full(6, -1, np.int16), "there must be 6 edge types, numbers below 2"),
        ("edge_types", np.zeros(7, np.int16), "there must be 6 edge types, numbers below 2"),
        ("features", np.ones(3, np.float32), "values and columns must be flat and equally long"),
        (
            "features",
            np.full(4, np.nan, np.float32),
            "features must be finite as float32, found nan in row 0, column 1",
        ),
        ("features.indices", np.array([1, 0, 2, 3]), "columns must be from 0 to 2"),
        ("features.indptr", np.array([0, 1, 1, 3, -4]), "row pointers must ascend from 0 to 4"),
        ("features.indptr", np.array([0, 4]), "there must be 5 row pointers, found 2"),
    ],
)
def test_damaged_graphs(part: str, value: np.ndarray | None, problem: str) -> None:
    metadata, arrays = pack_graph(FULL)
    assert f"graph.{part}" in arrays
    changed = {name: array for name, array in arrays.items() if name != f"graph.{part}"}
    if value is not None:
        changed[f"graph.{part}"] = value
    with pytest.raises(FileFormatError) as error:
        unpack_graph(metadata, changed, where="model")
    assert str(error.value) == f"model: {problem}; {HINT}"


@pytest.mark.parametrize(
    ("fact", "value", "problem"),
    [
        ("directed", 1, "'directed' must be a bool, found 1"),
        ("weights", None, "'weights' must be a bool, found None"),
        ("edge_type_names", ["x", 3], "the names of edge types must be strings, found ['x', 3]"),
        ("edge_type_names", ["x"], "there must be 6 edge types, numbers below 1"),
        ("features", "round", "expected none, dense or sparse features, found 'round' with 3 columns"),
        ("features", "dense", "expected float32 of 2 dimensions under 'graph.features', found float32 of shape (4,)"),
        ("num_features", -1, "expected none, dense or sparse features, found 'sparse' with -1 columns"),
        ("num_features", 2, "columns must be from 0 to 1"),
    ],
)
def test_damaged_metadata_of_graphs(fact: str, value: object, problem: str) -> None:
    metadata, arrays = pack_graph(FULL)
    assert fact in metadata
    with pytest.raises(FileFormatError) as error:
        unpack_graph(metadata | {fact: value}, arrays)
    assert str(error.value) == f"the stored graph: {problem}; {HINT}"
    with pytest.raises(FileFormatError, match=r"^the stored graph: expected the metadata of a graph, found \[\]; "):
        unpack_graph([], arrays)  # type: ignore[arg-type]


def test_dense_features_of_another_width() -> None:
    metadata, arrays = pack_graph(GRAPHS["dense"])
    with pytest.raises(FileFormatError, match=r"^the stored graph: expected 5 features, found 3; "):
        unpack_graph(metadata | {"num_features": 5}, arrays)


numbers = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 9)


@given(st.sampled_from([*sorted(GRAPHS), "full"]), st.data())
def test_any_damaged_arrays_raise_only_our_errors(name: str, data: st.DataObject) -> None:
    metadata, arrays = pack_graph((GRAPHS | {"full": FULL})[name])
    part = data.draw(st.sampled_from(sorted(arrays)))
    dtype = data.draw(st.sampled_from([arrays[part].dtype, np.dtype(np.int64), np.dtype(np.uint8), np.dtype("f4")]))
    values = data.draw(st.lists(numbers, max_size=8))
    arrays[part] = np.array(values, np.int64).astype(dtype)
    if data.draw(st.booleans()):
        metadata[data.draw(st.sampled_from(sorted(metadata)))] = data.draw(json_values)
    try:
        graph = unpack_graph(metadata, arrays)
    except CgeError:
        return
    assert graph.to_scipy().shape == (graph.num_nodes, graph.num_nodes)  # a graph like any other
    assert graph.summary().nodes == graph.num_nodes
