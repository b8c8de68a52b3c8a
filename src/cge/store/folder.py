"""A model or a checkpoint as a folder: `<name>-<hash>.safetensors`, and `<name>.json` that names it.

The tensors are written under a new name, then the JSON file is replaced: only then does the old state become the new
one. An interrupted writer leaves a complete state, and possibly files that the next writer removes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cge.arrays import Array
from cge.data.files.file_path import FilePath, file_path
from cge.errors import FileFormatError, InputError, format_value
from cge.store import manifest as manifests
from cge.store.atomic import Writer, lock_folder, write_error, write_files
from cge.store.tensors import checked_arrays, read_tensors, tensor_chunks

_ATTEMPTS = 20


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
    _check_names(kind, name)
    try:
        content = manifests.plain(metadata)
    except RecursionError:
        raise InputError("the metadata is nested too deeply to be saved") from None
    if not isinstance(content, dict):
        raise InputError(f"metadata must be a dictionary, found {format_value(metadata)}")
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
    """Return what `write_folder` has saved under a name; anything but a complete state raises `FileFormatError`.

    It must be of the given kind, or one of several; by default any.
    """
    path = file_path(folder)
    kinds = (kind,) if isinstance(kind, str) else kind
    _check_names("any", name)
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


def _check_names(kind: str, name: str) -> None:
    if not isinstance(kind, str) or not kind:
        raise InputError(f"the kind of what is saved must be a string, found {format_value(kind)}")
    if not isinstance(name, str) or not re.fullmatch("[A-Za-z0-9_-]+", name):
        raise InputError(f"the name of what is saved must be letters, digits, - or _, found {format_value(name)}")
