"""Checkpoints of a fit, with which only the same fit can continue."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.errors import CheckpointError, Message
from cge.estimators.configs import flat_params
from cge.graph import Graph
from cge.store import read_folder, write_folder
from cge.store.manifest import environment
from cge.training.torch_state import TrainerState

_KIND = "checkpoint"
_FREE = ("n_jobs",)  # settings that may differ when a fit continues: they do not change the result


class Checkpoints:
    """Reads and writes the checkpoints of one fit in a folder; with None there are none.

    A fit is identified by its settings, graph, features and labels: continuing with others would mix two trainings.
    """

    def __init__(self, folder: str | Path | None, estimator: Any, graph: Graph, *labels: Array) -> None:
        self.folder = None if folder is None else Path(folder)
        self.fit = "" if folder is None else _digest(estimator, graph, labels)
        # Checkpoints of another fit are refused even if this fit would never read them.
        files = [] if self.folder is None or not self.folder.is_dir() else sorted(self.folder.glob("*.json"))
        self._unread = {file.stem: self._stored(file.stem) for file in files}

    def read(self, stage: str) -> TrainerState | None:
        """Return the checkpoint of a stage, such as "select", "train" or "refit"; None where there is none."""
        return self._unread.pop(stage, None)

    def _stored(self, stage: str) -> TrainerState | None:
        if self.folder is None or not (self.folder / f"{stage}.json").exists():
            return None
        stored = read_folder(self.folder, _KIND, name=stage)
        if stored.metadata.get("fit") != self.fit:
            raise CheckpointError(
                f"{self.folder} holds a checkpoint of another fit (other settings, graph or labels)",
                hint=Message.of("give {resume} another folder, or remove this one"),
            )
        metadata = {name: value for name, value in stored.metadata.items() if name != "fit"}
        return TrainerState(metadata, stored.arrays)

    def writer(self, stage: str) -> Callable[[Callable[[], TrainerState]], None] | None:
        """Return a function that writes the checkpoints of a stage, None without a folder."""
        folder = self.folder
        if folder is None:
            return None

        def write(state: Callable[[], TrainerState]) -> None:
            saved = state()
            write_folder(folder, _KIND, saved.metadata | {"fit": self.fit}, saved.arrays, name=stage)

        return write


def _named(value: Any) -> Any:
    """Return a setting as a JSON value: classes and functions by name, functions with their bytecode."""
    code = getattr(value, "__code__", None)
    name = getattr(value, "__qualname__", value)
    return name if code is None else f"{name} {code.co_code.hex()} {code.co_names} {code.co_consts}"


def _digest(estimator: Any, graph: Graph, labels: tuple[Array, ...]) -> str:
    """Return a hash of everything that a fit depends on."""
    settings = {name: value for name, value in flat_params(estimator).items() if name not in _FREE}
    named = {name: _named(value) for name, value in settings.items()}
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in named.items()}
    digest = hashlib.sha256(json.dumps([plain, environment().get("cge")], sort_keys=True, default=str).encode())
    features: Any = graph.features
    sparse = [features.indptr, features.indices, features.data] if sp.issparse(features) else [features]
    for part in [graph.indptr, graph.indices, graph.weights, graph.edge_types, *labels, *sparse]:
        array = np.empty(0) if part is None else np.ascontiguousarray(part)
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()
