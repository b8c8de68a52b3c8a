"""The output folder of `cge fit`: whether it can be written, and the checkpoints in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from cge.errors import InputError, Message, format_value

_ANOTHER = "give --out another folder"

_TENSORS = re.compile(r"\.?[a-z0-9-]+-[0-9a-f]{16}\.(tmp|safetensors)")  # with or without a JSON file that names them


def folder_of(out: str) -> Path:
    """Return the path of the output folder, which may not exist yet; nothing is written."""
    from cge.data.files.file_path import file_path

    try:
        folder = file_path(out)
    except InputError:
        raise InputError(f"--out must be the path of a folder, found {format_value(out)}") from None
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file", hint="give --out a folder")
    parent = next((path for path in folder.parents if path.exists()), None)
    if parent is not None and not parent.is_dir():
        raise InputError(f"{folder} cannot be created: {parent} is a file", hint=_ANOTHER)
    return folder


@contextmanager
def output_folder(out: str) -> Iterator[Path]:
    """Create the output folder and reserve it for this fit, or raise an error; an empty one is removed at the end."""
    from cge.store.atomic import reserve_folder

    folder = folder_of(out)
    new = not folder.exists()
    try:
        _try_writing(folder)
        with ExitStack() as stack:
            try:
                stack.enter_context(reserve_folder(folder))
            except InputError as error:
                hint = f"{error.hint}, or {_ANOTHER}" if error.hint else _ANOTHER
                raise InputError(Message(error.place, error.problem), hint=hint) from None
            yield folder
    finally:
        if new:
            with suppress(OSError):  # it is not empty
                folder.rmdir()


def _try_writing(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass  # permissions, full disks and read-only systems show only when something is written
    except OSError as error:
        raise InputError(f"{folder} cannot be written ({error.strerror or error})", hint=_ANOTHER) from None
    model = folder / "model.json"
    _refuse_links(model)
    if model.exists() and _content(model) is None:
        raise InputError(f"{model} was not written by cge", hint=f"move it away, or {_ANOTHER}")


def _refuse_links(*paths: Path) -> None:
    """Refuse symbolic links: they lead to files of other folders, which would be replaced or removed."""
    link = next((path for path in paths if path.is_symlink()), None)
    if link is not None:
        raise InputError(f"{link} is a symbolic link", hint=f"remove it, or {_ANOTHER}")


class Checkpoint:
    """The folder of the checkpoints of a fit, inside the output folder."""

    def __init__(self, model: Path) -> None:
        self.folder = model / "checkpoint"
        _refuse_links(self.folder, *self._files())
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"{self.folder} is a file", hint=f"move it away, or {_ANOTHER}")
        for file in self._files():
            if file.name[0] != "." and not _is_ours(file):
                raise InputError(f"{file} is no checkpoint of cge", hint=f"move it away, or {_ANOTHER}")

    def remove(self) -> None:
        """Remove checkpoints and unfinished ones; the folder, too, if it has no other files."""
        with suppress(OSError):  # the next fit tries again
            for file in self._files():
                if _is_ours(file):
                    file.unlink()
            self.folder.rmdir()

    def epochs(self, stage: str) -> int:
        """Return how many epochs of a stage ("select", "train" or "refit") are stored."""
        rows = self._metadata(stage).get("epochs")
        return len(rows) if isinstance(rows, list) else 0

    def resume_hint(self) -> str:
        """Return how an interrupted fit is continued."""
        refit, first = self.epochs("refit"), self.epochs("select") or self.epochs("train")
        if not first and not any(file.suffix == ".json" for file in self._files()):
            return "no epoch was finished, so there is no checkpoint to continue from"
        epoch = f"{refit} of the training on all labels" if refit else f"{first}"
        return f"the same command with --resume continues{f' from epoch {epoch}' if first else ''}"

    def best_epoch(self) -> int:
        """Return the best epoch of the stage "select", 0 where there is none."""
        return int(self._metadata("select").get("best_epoch", 0))

    def _metadata(self, stage: str) -> dict[str, Any]:
        metadata = (_content(self.folder / f"{stage}.json") or {}).get("metadata")
        return metadata if isinstance(metadata, dict) else {}

    def _files(self) -> list[Path]:
        return sorted(self.folder.iterdir()) if self.folder.is_dir() else []


def _is_ours(file: Path) -> bool:
    if file.suffix == ".json":
        return (_content(file) or {}).get("kind") == "checkpoint"
    return _TENSORS.fullmatch(file.name) is not None


def _content(file: Path) -> dict[str, Any] | None:
    """Return the content of a JSON file of cge, None if it is something else."""
    from cge.store.manifest import MAX_BYTES, is_manifest, open_regular

    try:
        with open_regular(file) as stream:
            content: dict[str, Any] = json.loads(stream.read(MAX_BYTES))
    except (OSError, ValueError, RecursionError, InputError):
        return None
    return content if is_manifest(content) else None
