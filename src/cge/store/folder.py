"""A model or a checkpoint as a folder: `<name>-<hash>.safetensors`, and `<name>.json` that names it.

The tensors are written under a name of their own, then the JSON file is replaced: that is the one moment at which the
old state becomes the new one. Whoever is interrupted leaves a whole state, and maybe files the next writer removes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from cge.data.files.file_path import FilePath, file_path
from cge.errors import FileFormatError, InputError, disk_hint, format_value
from cge.store import manifest as manifests
from cge.store.file_io import locked, open_regular, remove_others, sync_folder, write_temporary
from cge.store.tensors import checked_arrays, read_tensors, tensor_chunks

__all__ = ["Stored", "read_folder", "write_folder"]

Array = npt.NDArray[Any]

_ATTEMPTS = 20


@dataclass(frozen=True, eq=False)
class Stored:
    """What a folder holds.

    Attributes
    ----------
    kind : str
    facts : dict
        What JSON can hold.
    arrays : dict of arrays
    environment : dict of str
        Versions of cge, python, numpy, torch, and the platform it was saved with.
    """

    kind: str
    facts: dict[str, Any]
    arrays: dict[str, Array]
    environment: dict[str, str]


def write_folder(
    folder: FilePath, kind: str, facts: Mapping[str, Any], arrays: Mapping[str, Array], *, name: str = "model"
) -> None:
    """Save facts and arrays in a folder; whatever happens, it holds the whole old state or the whole new one.

    Parameters
    ----------
    folder : path
        Made where it is missing. Files of others in it stay as they are.
    kind : str
        What is saved, as `read_folder` will ask for it.
    facts : mapping
        Numbers, strings, lists and dictionaries.
    arrays : mapping of names to arrays
        Integers, float16 to float64 or bool, of any shape.
    name : str
        The start of the files' names; states of several names can lie in one folder.

    The same arguments make the same bytes.
    """
    path = file_path(folder)
    _check_names(kind, name)
    try:
        content = manifests.plain(facts)
    except RecursionError:
        raise InputError("the facts are nested too deeply to be saved") from None
    if not isinstance(content, dict):
        raise InputError(f"facts must be a dictionary, found {format_value(facts)}")
    ordered = checked_arrays(arrays)
    try:
        if path.exists() and not path.is_dir():
            raise InputError(f"{path} is a file; give the path of a folder")
        path.mkdir(parents=True, exist_ok=True)
        with locked(path):
            _named_tensors(path, name)  # refuses to replace a file that is not ours
            try:
                _commit(path, kind, content, ordered, name)
            finally:
                # What stands in the JSON file now decides, not how far the commit came: an interruption may fall
                # between its replacement and the next line.
                remove_others(path, name, keep=_named_tensors(path, name))
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"{path} cannot be written ({reason}); {disk_hint(error)} folder") from None


def _commit(path: Path, kind: str, facts: dict[str, Any], arrays: dict[str, Array], name: str) -> None:
    tensors = write_temporary(path, name, tensor_chunks(arrays))
    file = manifests.tensor_name(name, tensors.sha256)
    data = manifests.to_bytes(
        manifests.Manifest(kind, facts, manifests.environment(), file, tensors.size, tensors.sha256)
    )
    text = write_temporary(path, name, [data])
    tensors.path.replace(path / file)
    sync_folder(path)  # the tensors' name must be on the disk before a JSON file that mentions it
    text.path.replace(path / f"{name}.json")
    sync_folder(path)


def _named_tensors(path: Path, name: str) -> str | None:
    """Return the tensor file that the JSON file names, None where there is none; refuse one that is not ours."""
    file = path / f"{name}.json"
    try:
        content = json.loads(_bounded(file))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        content = None
    if not manifests.is_ours(content):
        raise InputError(f"{file} was not written by cge; move it away, or choose another folder")
    tensors = content.get("tensors")
    named = tensors.get("file") if isinstance(tensors, dict) else None
    return named if isinstance(named, str) else None


def read_folder(folder: FilePath, kind: str | tuple[str, ...] | None = None, *, name: str = "model") -> Stored:
    """Return what `write_folder` has saved; anything but a whole state raises `FileFormatError`.

    Parameters
    ----------
    folder : path
    kind : str or tuple of str, optional
        What must be stored there; by default, anything.
    name : str
        The start of the files' names.
    """
    path = file_path(folder)
    kinds = (kind,) if isinstance(kind, str) else kind
    _check_names("any", name)
    for _ in range(_ATTEMPTS):
        manifest = _read_manifest(path, name)
        if kinds is not None and manifest.kind not in kinds:
            wanted = " or ".join(map(repr, kinds))
            raise FileFormatError(
                path, f"expected {wanted}, found {format_value(manifest.kind)}; give the folder of another save"
            )
        try:
            arrays = read_tensors(path / manifest.file, manifest.size, manifest.sha256)
        except FileNotFoundError:
            continue  # a writer has replaced both files since; the JSON file then names another one
        return Stored(manifest.kind, manifest.facts, arrays, manifest.environment)
    raise FileFormatError(
        path, f"the tensor file {manifest.file!r} is missing; restore the folder from a copy, or save it again"
    )


def _read_manifest(path: Path, name: str) -> manifests.Manifest:
    file = path / f"{name}.json"
    try:
        data = _bounded(file)
    except FileNotFoundError:
        if path.is_dir():
            problem = f"the folder holds no {file.name!r}; give a folder that cge has saved"
        else:
            problem = "there is no such folder; give one that cge has saved"
        raise FileFormatError(path, problem) from None
    except NotADirectoryError:
        raise FileFormatError(path, "this is a file; give the path of a folder that cge has saved") from None
    except OSError as error:
        raise FileFormatError(file, f"the file cannot be read ({error.strerror or error})") from None
    if len(data) > manifests.LARGEST:
        raise FileFormatError(
            file, f"the file is longer than {manifests.LARGEST:,} bytes; give a folder that cge has saved"
        )
    return manifests.parse(file, name, data)


def _bounded(file: Path) -> bytes:
    with open_regular(file) as stream:
        return stream.read(manifests.LARGEST + 1)


def _check_names(kind: str, name: str) -> None:
    if not isinstance(kind, str) or not kind:
        raise InputError(f"the kind of what is saved must be a string, found {format_value(kind)}")
    if not isinstance(name, str) or not re.fullmatch("[A-Za-z0-9_-]+", name):
        raise InputError(f"the name of what is saved must be letters, digits, - or _, found {format_value(name)}")
