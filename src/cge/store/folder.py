"""A model or a checkpoint as a folder: `<name>-<hash>.safetensors`, and `<name>.json` that names it.

The `safetensors` library reads arrays and checks every offset. They are written here: the library's `save` holds the
whole file in memory, and its `save_file` leaves temporary files behind when it is killed.

The tensors are written under a new name, then the JSON file is replaced: only then does the old state become the new
one. An interrupted writer leaves a complete state, and possibly files that the next writer removes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from cge.arrays import Array
from cge.data.files.file_path import FilePath, file_path
from cge.errors import FileFormatError, InputError, format_value
from cge.store import manifest as manifests
from cge.store.atomic import Writer, lock_folder, write_error, write_files

_ATTEMPTS = 20
_INTEGERS = frozenset(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))
STORABLE = _INTEGERS | {"bool", "float16", "float32", "float64"}


@dataclass(frozen=True, eq=False)
class Stored:
    """The content of a folder; `environment` has the versions and the platform it was saved with."""

    kind: str
    metadata: dict[str, Any]
    arrays: dict[str, Array]
    environment: dict[str, str]


def write_folder(
    folder: FilePath, kind: str, metadata: Mapping[str, Any], arrays: Mapping[str, Array], *, name: str = "model"
) -> None:
    """Save metadata and arrays in a folder; whatever happens, it holds the complete old state or the complete new one.

    The folder is created where it is missing; other files in it stay as they are. Metadata are numbers, strings, lists
    and dictionaries; arrays are integers, float16 to float64 or bool, of any shape. States of several names, the start
    of the files' names, can lie in one folder. Equal arguments give equal bytes.
    """
    path = file_path(folder)
    try:
        content = manifests.plain(metadata)
    except RecursionError:
        raise InputError("the metadata is nested too deeply to be saved") from None
    ordered = checked_arrays(arrays)
    try:
        if path.exists() and not path.is_dir():
            raise InputError(f"{path} is a file", hint="give the path of a folder")
        path.mkdir(parents=True, exist_ok=True)
        with lock_folder(path):
            _current_tensors(path, name)  # refuses to replace a file that is not ours
            try:
                _commit(path, kind, content, ordered, name)
            finally:
                # The JSON file decides which tensors stay, not the progress of the commit: an interruption may fall
                # between its replacement and the next line.
                _remove_old_tensors(path, name, keep=_current_tensors(path, name))
    except OSError as error:
        raise write_error(path, error, "folder") from None


def _commit(path: Path, kind: str, metadata: dict[str, Any], arrays: dict[str, Array], name: str) -> None:
    size, digest = 0, hashlib.sha256()
    for chunk in tensor_chunks(arrays):
        size += len(chunk)
        digest.update(chunk)
    tensors = manifests.Tensors(manifests.tensor_name(name, digest.hexdigest()), size, digest.hexdigest())
    data = manifests.to_bytes(manifests.Manifest(kind, metadata, manifests.environment(), tensors))
    files: dict[Path, Writer] = {path / tensors.file: lambda stream: stream.writelines(tensor_chunks(arrays))}
    files[path / f"{name}.json"] = lambda stream: stream.write(data)  # after the tensors that it names
    write_files(files, folder=path)


def _current_tensors(path: Path, name: str) -> str | None:
    """Return the tensor file that the JSON file names, None where there is none; refuse one that is not ours."""
    file = path / f"{name}.json"
    try:
        content = json.loads(_read_bounded(file))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        content = None
    if not manifests.is_manifest(content):
        raise InputError(f"{file} was not written by cge", hint="move it away, or choose another folder")
    tensors = content.get("tensors")
    tensor_file = tensors.get("file") if isinstance(tensors, dict) else None
    return tensor_file if isinstance(tensor_file, str) else None


def _remove_old_tensors(folder: Path, name: str, keep: str | None) -> None:
    """Remove the tensors of earlier states; the caller holds the lock."""
    tensors = re.compile(rf"{name}-[0-9a-f]{{16}}\.safetensors")
    with suppress(OSError):  # the next writer removes what stays
        for entry in list(folder.iterdir()):
            if tensors.fullmatch(entry.name) and entry.name != keep:
                entry.unlink()


def read_folder(folder: FilePath, kind: str | tuple[str, ...] | None = None, *, name: str = "model") -> Stored:
    """Return what `write_folder` has saved; anything but a complete state of the kind raises `FileFormatError`."""
    path = file_path(folder)
    kinds = (kind,) if isinstance(kind, str) else kind
    for _ in range(_ATTEMPTS):
        manifest = _read_manifest(path, name)
        if kinds is not None and manifest.kind not in kinds:
            problem = f"expected {' or '.join(map(repr, kinds))}, found {format_value(manifest.kind)}"
            raise FileFormatError(path, problem, hint="give the folder of another save")
        try:
            arrays = read_tensors(path, manifest.tensors)
        except FileNotFoundError:
            continue  # a writer has replaced both files since; the JSON file now names other tensors
        return Stored(manifest.kind, manifest.metadata, arrays, manifest.environment)
    raise manifests.damaged(path, f"the tensor file {manifest.tensors.file!r} is missing")


def _read_manifest(path: Path, name: str) -> manifests.Manifest:
    file = path / f"{name}.json"
    try:
        data = _read_bounded(file)
    except FileNotFoundError:
        if path.is_dir():
            problem = f"the folder holds no {file.name!r}; give a folder that cge has saved"
        else:
            problem = "there is no such folder; expected a model saved by `cge fit` or `model.save`"
        raise FileFormatError(path, problem) from None
    except NotADirectoryError:
        raise FileFormatError(path, "this is a file", hint="give the path of a folder that cge has saved") from None
    except OSError as error:
        raise FileFormatError(file, f"the file cannot be read ({error.strerror or error})") from None
    if len(data) > manifests.MAX_BYTES:
        problem = f"the file is longer than {manifests.MAX_BYTES:,} bytes"
        raise FileFormatError(file, problem, hint="give a folder that cge has saved")
    return manifests.parse(file, name, data)


def _read_bounded(file: Path) -> bytes:
    with manifests.open_regular(file) as stream:
        return stream.read(manifests.MAX_BYTES + 1)


def checked_arrays(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return arrays in the order of the library, little-endian: large items first, then by name; so all are aligned."""
    for name, array in arrays.items():
        if not isinstance(name, str) or not name.isprintable() or name in ("", "__metadata__"):
            raise InputError(f"arrays need names of printable characters, found {format_value(name)}")
        if not isinstance(array, np.ndarray) or array.dtype.name not in STORABLE:
            problem = f"has dtype {array.dtype}" if isinstance(array, np.ndarray) else f"is a {type(array).__name__}"
            problem = f"the array {format_value(name)} {problem}, which cannot be saved"
            raise InputError(problem, hint="use integers, float16 to float64 or bool")
    ordered = sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
    return {name: np.asarray(array, array.dtype.newbyteorder("<")) for name, array in ordered}


def tensor_chunks(arrays: dict[str, Array]) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a safetensors file with these arrays, which come from `checked_arrays`."""
    header, start = {}, 0
    for name, array in arrays.items():
        end = start + array.nbytes
        code = "BOOL" if array.dtype == np.bool_ else f"{array.dtype.kind.upper()}{8 * array.itemsize}"
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little")
    yield text
    for array in arrays.values():
        yield array.reshape(-1).view(np.uint8).data  # a copy, of one array at a time, where it is not in C order


def read_tensors(folder: Path, expected: manifests.Tensors) -> dict[str, Array]:
    """Return the arrays of a file, which must have its size and hash; a missing file raises `FileNotFoundError`."""
    path = folder / expected.file
    try:
        with manifests.open_regular(path) as stream:
            size = stream.seek(0, 2)
            if size != expected.size:
                raise manifests.damaged(path, f"the file has {size:,} bytes, expected {expected.size:,}")
            stream.seek(0)
            if hashlib.file_digest(stream, "sha256").hexdigest() != expected.sha256:
                raise manifests.damaged(path, "the file was changed since it was saved")
        with safe_open(path, framework="np") as tensors:
            arrays = {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118 - no dictionary
    except (FileFormatError, FileNotFoundError):
        raise
    except OSError as error:
        raise FileFormatError(path, f"the file cannot be read ({error.strerror or error})") from None
    except (SafetensorError, ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError) as error:
        # The library has no error of its own for types and shapes that NumPy does not know.
        raise manifests.damaged(path, f"this is not a readable safetensors file ({format_value(str(error))})") from None
    for name, array in arrays.items():
        if array.dtype.name not in STORABLE:
            raise manifests.damaged(path, f"the array {format_value(name)} has the foreign dtype {array.dtype}")
        if array.dtype == np.bool_ and array.size and array.view(np.uint8).max() > 1:
            raise manifests.damaged(
                path, f"the array {format_value(name)} contains bytes that are neither true nor false"
            )
    return arrays
