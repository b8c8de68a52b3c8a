"""Estimators in folders: `save` and `load`, and the checkpoints of a fit, with which only the same fit can continue."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.data.stored.folder import StoredGraph, open_graph
from cge.errors import CgeError, CheckpointError, FileFormatError, InputError, Message, Spelling, format_value
from cge.estimators.configs import flat_params, make_estimator
from cge.estimators.methods import stored_class, stored_kinds
from cge.estimators.settings import check_settings
from cge.graph import Graph
from cge.parallel import resolve_jobs
from cge.store import Stored, pack_graph, read_folder, unpack_graph, write_folder
from cge.store.manifest import environment
from cge.training.stored_state import TrainerState

if TYPE_CHECKING:
    from cge.estimators.path_estimator import PathEstimator
    from cge.models.path_networks import PathWeighting

_CUSTOM = "custom"  # key in the stored settings of a custom weighting, which has to be passed to `load` again
_KIND = "checkpoint"
_FREE = ("n_jobs",)  # settings that may differ when a fit continues: they do not change the result

# What Python, NumPy and PyTorch raise where contents are inconsistent; a folder with a valid hash may hold anything.
_PROBLEMS = (ArithmeticError, AttributeError, CgeError, LookupError, RuntimeError, TypeError, ValueError)


def save_estimator(
    estimator: Any, folder: str | Path, graph: Graph | StoredGraph, metadata: dict[str, Any], arrays: dict[str, Array]
) -> None:
    """Write a trained estimator to a folder, atomically; `metadata` and `arrays` are those of its model.

    Of a stored graph, only its path and hash are written.
    """
    params = sorted(flat_params(estimator).items())
    settings = {name: {_CUSTOM: name_of(value)} if callable(value) else value for name, value in params}
    graph_arrays: dict[str, Array] = {}
    if isinstance(graph, StoredGraph):
        graph_metadata: dict[str, Any] = {"stored": str(graph.folder.resolve()), "sha256": graph.fingerprint}
    else:
        graph_metadata, graph_arrays = pack_graph(graph)
    metadata = metadata | {"settings": settings, "graph": graph_metadata}
    write_folder(folder, type(estimator).__name__, metadata, arrays | graph_arrays)


def name_of(value: Any) -> str:
    """Return the name of a class or function."""
    return str(getattr(value, "__qualname__", type(value).__qualname__))


def load(
    folder: str | Path, *, weighting: Callable[[int], PathWeighting] | None = None, n_jobs: int | None = None
) -> Any:
    """Return the estimator that `save` wrote to a folder; it makes exactly the same predictions.

    A damaged folder, or one of another format version, raises `FileFormatError`. Folders contain no code, so your own
    weighting has to be passed again.

    Parameters
    ----------
    folder : path
        The folder that was passed to `save`.
    weighting : callable, optional
        The `PathWeighting` class that the model was trained with, if it was your own.
    n_jobs : int, optional
        Number of threads from now on; by default as in training. Results do not depend on it.

    Returns
    -------
    CGE, PaperCGE, DeepWalk, Node2Vec or a baseline
        As it was saved.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from cge.estimators.embeddings import DeepWalk
    >>> from cge.graph import Graph
    >>> model = DeepWalk(dim=8, walks_per_node=2, walk_length=5).fit(Graph.from_edges([("a", "b"), ("b", "c")]))
    >>> with TemporaryDirectory() as folder:
    ...     model.save(folder)
    ...     loaded = load(folder)
    >>> bool((loaded.embedding_ == model.embedding_).all())
    True
    """
    stored = read_folder(folder, stored_kinds())
    settings = stored.metadata.get("settings")
    if not isinstance(settings, dict):
        raise FileFormatError(folder, "the settings are missing; save the model again")
    custom = settings.get("weighting")
    if isinstance(custom, dict):
        problem = f"this model has the weighting {custom.get(_CUSTOM)!r}, "
        if weighting is None:
            problem += "which is not part of the folder"
            hint = Spelling("pass it as load(…, weighting=…)", "load it in Python with cge.load(…, weighting=…)")
            raise InputError(problem, parameter="weighting", hint=Message(hint))
        if name_of(weighting) != custom.get(_CUSTOM):
            problem += f"but weighting is {name_of(weighting)!r}"
            raise InputError(problem, parameter="weighting", hint="pass the one it was trained with")
        settings = settings | {"weighting": weighting}
    elif weighting is not None:
        raise InputError("this model was not trained with a weighting of your own; leave weighting out")
    if n_jobs is not None:
        settings = settings | ({"n_jobs": resolve_jobs(n_jobs)} if "n_jobs" in settings else {})
    try:
        with np.errstate(all="ignore"):  # vectors that are not finite are refused below
            return _restored(stored, settings, folder)
    except FileFormatError:
        raise
    except MemoryError:
        raise FileFormatError(folder, "this model needs more memory than this machine has") from None
    except _PROBLEMS as error:
        reason = error if isinstance(error, CgeError) else format_value(str(error))
        problem = f"this folder does not hold a complete {stored.kind} model ({reason}); save the model again"
        raise FileFormatError(folder, problem) from None


def _restored(stored: Stored, settings: dict[str, Any], folder: str | Path) -> Any:
    estimator = make_estimator(stored_class(stored.kind), settings)
    check_settings(estimator)
    referred = stored_graph_of(stored, folder)
    graph = (
        unpack_graph(stored.metadata.get("graph", {}), stored.arrays, where=folder)
        if referred is None
        else referred.load()
    )
    estimator._unpack(graph, stored.metadata, stored.arrays)
    if not np.isfinite(vars(estimator).get("embedding_", 0.0)).all():
        raise InputError("its vectors are not finite")
    return estimator


def stored_graph_of(stored: Stored, folder: str | Path) -> StoredGraph | None:
    """Return the stored graph to which a model folder refers; None where the graph is part of the folder."""
    about = stored.metadata.get("graph", {})
    if not isinstance(about, dict) or "stored" not in about:
        return None
    graph = open_graph(about["stored"])
    if graph.fingerprint != about.get("sha256"):
        problem = f"this model was trained on another graph than the one that is now in {about['stored']}"
        raise FileFormatError(folder, problem, hint="restore that folder, or fit the model again")
    return graph


def pickled_state(estimator: PathEstimator) -> dict[str, Any]:
    """Return the settings of an estimator and, once trained, the bytes of its model folder: data, no objects."""
    if estimator.fitted_model is None:
        return {"settings": dict(vars(estimator))}
    with TemporaryDirectory() as folder:
        estimator.save(folder)
        files = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    custom = estimator.get_params().get("weighting")
    return {"files": files, "weighting": custom if callable(custom) else None}


def restore_pickled(estimator: Any, state: dict[str, Any]) -> None:
    """Restore an estimator from `pickled_state`."""
    if "settings" in state:
        vars(estimator).update(state["settings"])
        return
    with TemporaryDirectory() as folder:
        for name, content in state["files"].items():
            (Path(folder) / Path(name).name).write_bytes(content)
        vars(estimator).update(vars(load(folder, weighting=state["weighting"])))


class Checkpoints:
    """Reads and writes the checkpoints of one fit in a folder; with None there are none.

    A fit is identified by its settings, graph, features and labels: continuing with others would mix two fits.
    """

    def __init__(self, folder: str | Path | None, estimator: Any, graph: Graph, *labels: Array) -> None:
        self.folder = None if folder is None else Path(folder)
        self.fit = "" if folder is None else _fit_hash(estimator, graph, labels)
        self._unread: dict[str, TrainerState] = {}
        # Checkpoints of another fit are refused even if this fit would never read them.
        for file in [] if self.folder is None else sorted(self.folder.glob("*.json")):
            stored = read_folder(file.parent, _KIND, name=file.stem)
            if stored.metadata.pop("fit", None) != self.fit:
                problem = f"{self.folder} holds a checkpoint of another fit (other settings, graph or labels)"
                raise CheckpointError(problem, hint=Message.of("give {resume} another folder, or remove this one"))
            self._unread[file.stem] = TrainerState(stored.metadata, stored.arrays)

    def read(self, stage: str) -> TrainerState | None:
        """Return the checkpoint of a stage, such as "select", "train" or "refit"; None where there is none."""
        return self._unread.pop(stage, None)

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


def _fit_hash(estimator: Any, graph: Graph, labels: tuple[Array, ...]) -> str:
    """Return a hash of everything that a fit depends on."""
    settings = {name: value for name, value in flat_params(estimator).items() if name not in _FREE}
    named = {name: _named(value) for name, value in settings.items()}
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in named.items()}
    return data_hash([plain, environment().get("cge")], graph, labels)


def data_hash(settings: Any, graph: Graph, labels: Iterable[Array]) -> str:
    """Return a hash of settings, which are JSON values, of a graph with features and types, and of labels."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode())
    features: Any = graph.features
    sparse = [features.indptr, features.indices, features.data] if sp.issparse(features) else [features]
    typed = [part for part in (graph.node_types, graph.edge_features) if part is not None]
    for part in [graph.indptr, graph.indices, graph.weights, graph.edge_types, *labels, *sparse, *typed]:
        array = np.empty(0) if part is None else np.ascontiguousarray(part)
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()
