"""The folder that `cge fit` writes: whether it can be written, and the checkpoints in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from cge.errors import InputError, format_value

__all__ = ["Checkpoint", "folder_of", "output_folder"]

_TENSORS = re.compile(r"\.?[a-z0-9-]+-[0-9a-f]{16}\.(tmp|safetensors)")  # with or without a JSON file that names them


def folder_of(given: str) -> Path:
    """Return the folder of a model, which may not be there yet; nothing is written."""
    from cge.data.files.file_path import file_path

    try:
        folder = file_path(given)
    except InputError:
        raise InputError(f"--out must be the path of a folder, found {format_value(given)}") from None
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; give --out a folder")
    above = next((one for one in folder.parents if one.exists()), None)
    if above is not None and not above.is_dir():
        raise InputError(f"{folder} cannot be made: {above} is a file; give --out another folder")
    return folder


@contextmanager
def output_folder(given: str) -> Iterator[Path]:
    """Make the folder of a model and keep other fits out, or say why that is impossible.

    What stays empty is removed at the end.
    """
    folder = folder_of(given)
    new = not folder.exists()
    try:
        _try_writing(folder)
        with _alone(folder):
            yield folder
    finally:
        if new:
            with suppress(OSError):  # there is something in it
                folder.rmdir()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    from cge.store.locks import reserve_folder

    with ExitStack() as stack:
        try:
            stack.enter_context(reserve_folder(folder))
        except InputError as error:
            raise InputError(f"{error}, or give --out another folder") from None
        yield


def _try_writing(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass  # permissions, full disks and read-only systems show when something is written, not before
    except OSError as error:
        raise InputError(f"{folder} cannot be written ({error.strerror or error}); give --out another folder") from None
    model = folder / "model.json"
    _refuse_links(model)
    if model.exists() and _content(model) is None:
        raise InputError(f"{model} was not written by cge; move it away, or give --out another folder")


def _refuse_links(*paths: Path) -> None:
    """Refuse links: they lead to files of other folders, which would be replaced or removed."""
    linked = next((one for one in paths if one.is_symlink()), None)
    if linked is not None:
        raise InputError(f"{linked} is a symbolic link; remove it, or give --out another folder")


class Checkpoint:
    """The folder of the checkpoints of a fit, which lies in that of the model."""

    def __init__(self, model: Path) -> None:
        self.folder = model / "checkpoint"
        _refuse_links(self.folder, *self._files())
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"{self.folder} is a file; move it away, or give --out another folder")
        for file in self._files():
            if file.name[0] != "." and not _is_ours(file):
                raise InputError(f"{file} is no checkpoint of cge; move it away, or give --out another folder")

    def remove(self) -> None:
        """Remove checkpoints and what is left of unfinished ones; the folder, too, if nothing else is in it."""
        with suppress(OSError):  # the next fit tries again
            for file in self._files():
                if _is_ours(file):
                    file.unlink()
            self.folder.rmdir()

    def any(self) -> bool:
        """Say whether anything is kept."""
        return any(file.suffix == ".json" for file in self._files())

    def max_epochs(self, stage: str) -> int:
        """Return how many rounds of a stage ("select", "train" or "refit") are kept."""
        found = self._facts(stage).get("max_epochs")
        return len(found) if isinstance(found, list) else 0

    def best_epoch(self) -> int:
        """Return the best round of the labels held out: that of "select", 0 where there is none."""
        return int(self._facts("select").get("best_round", 0))

    def _facts(self, stage: str) -> dict[str, Any]:
        found = (_content(self.folder / f"{stage}.json") or {}).get("metadata")
        return found if isinstance(found, dict) else {}

    def _files(self) -> list[Path]:
        return sorted(self.folder.iterdir()) if self.folder.is_dir() else []


def _is_ours(file: Path) -> bool:
    if file.suffix == ".json":
        return (_content(file) or {}).get("kind") == "checkpoint"
    return _TENSORS.fullmatch(file.name) is not None


def _content(file: Path) -> dict[str, Any] | None:
    """Return what stands in a JSON file of cge, None where it is something else."""
    from cge.store.file_io import open_regular
    from cge.store.manifest import MAX_BYTES, is_manifest

    try:
        with open_regular(file) as stream:
            content: dict[str, Any] = json.loads(stream.read(MAX_BYTES))
    except (OSError, ValueError, RecursionError, InputError):
        return None
    return content if is_manifest(content) else None
