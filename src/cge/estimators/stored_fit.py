"""A fit of `CGE` on a stored graph that does not fit in memory: propagation in files, training on labeled rows."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from cge.arrays import Array
from cge.data.stored.folder import SLAB_COLUMNS, StoredGraph
from cge.data.stored.work_files import load_json, open_array, save_json
from cge.engine import Engine, LocalEngine
from cge.errors import InputError, Message
from cge.estimators.classifier import TaskLabels, task_labels
from cge.estimators.encoder_fit import EncoderFit
from cge.estimators.encoder_model import EncoderModel
from cge.estimators.encoder_options import encoder_settings
from cge.estimators.fitted_model import LabeledNodes, ValidationNodes
from cge.estimators.path_estimator import Callback
from cge.estimators.persistence import Checkpoints
from cge.graph import Graph
from cge.targets import Task
from cge.training.candidate_evaluation import CandidateEvaluator
from cge.training.labeled_rows import (
    LabeledCrossFitEvaluator,
    LabeledData,
    LabeledEvaluator,
    LabeledSearch,
    hop_rows,
    is_walk_weighting,
    reads_labeled_rows,
)
from cge.training.model_search import ModelSearch
from cge.training.slab_propagation import HopRows, Progress, SlabTasks, run_tasks

if TYPE_CHECKING:
    from cge.estimators.cge import CGE

_CELLS = 50_000_000  # nodes times features: larger graphs are fitted out of core on every machine
_BASE_MEMORY, _ENTRY_BYTES, _CELL_BYTES = 560e6, 260, 78  # of a fit in memory


def in_memory_bytes(stored: StoredGraph) -> float:
    """Return about how many bytes a fit in memory needs."""
    cells = stored.num_nodes * max(stored.num_features, 1)
    return _BASE_MEMORY + _ENTRY_BYTES * (stored.num_entries + stored.num_nodes) + _CELL_BYTES * cells


def is_large(stored: StoredGraph, memory: int | None) -> bool:
    """Return whether a graph is fitted out of core: it is large, or a fit in memory would need more than there is."""
    cells = stored.num_nodes * stored.num_features
    return cells > _CELLS or (memory is not None and in_memory_bytes(stored) > memory)


def check_stored_settings(model: CGE, stored: StoredGraph) -> None:
    """Refuse settings that need all nodes in memory, and graphs without features."""
    if not stored.num_features:
        hint = "run 'cge ingest' with --features, or with --projections, which makes them"
        raise InputError("a fit out of core needs node features, and this stored graph has none", hint=hint)
    wrong = None
    if model.weighting != "auto" and not (isinstance(model.weighting, str) and is_walk_weighting(model.weighting)):
        wrong = Message.of("{weighting}", weighting=model.weighting if isinstance(model.weighting, str) else "custom")
    elif model.classifier != "auto" and not reads_labeled_rows(model.classifier):
        wrong = Message.of("{classifier}", classifier=model.classifier)
    elif model.label_propagation is True:
        wrong = Message.of("{label_propagation}", label_propagation=True)
    elif model.inputs not in ("auto", "features"):
        wrong = Message.of("{inputs}", inputs=model.inputs)
    if wrong is not None:
        hint = "leave it out, or fit in memory, on a machine with enough of it"
        raise InputError(Message(wrong, " needs all nodes in memory, and this fit is out of core"), hint=hint)


@dataclass(frozen=True, eq=False)
class StoredFit:
    """A trained model, with node numbers of the stored graph; `save` writes it without the graph."""

    estimator: CGE
    stored: StoredGraph
    model: EncoderModel

    def save(self, folder: str | Path, command: str, validation: bool) -> None:
        """Write a model folder that refers to the stored graph by its path and hash."""
        from cge.estimators.persistence import save_estimator
        from cge.store import pack_values

        metadata = self.model.metadata() | {"fit_call": {"command": command, "validation": validation}}
        metadata["trained_nodes"] = self.stored.num_nodes  # the model has only the labeled ones
        arrays = self.model.arrays() | pack_values(self.model.target.classes, "classes.")
        arrays["vectors.scales"] = np.empty(0)  # those of all nodes are computed at first use
        save_estimator(self.estimator, folder, self.stored, metadata, arrays)


def fit_stored(
    estimator: CGE,
    stored: StoredGraph,
    y: Mapping[Any, Any],
    validation: Mapping[Any, Any] | None = None,
    *,
    work: Path,
    memory: int,
    engine: Engine | None = None,
    progress: Progress = lambda *_: None,
    callback: Callback = None,
) -> StoredFit:
    """Fit on a stored graph; `y` and `validation` are {node id: label}, `work` a folder for results on the way.

    Blocks depend on `memory` and tasks run on `engine`, but the result does not depend on either.
    """
    check_stored_settings(estimator, stored)
    engine = LocalEngine(1) if engine is None else engine
    ids = list(dict.fromkeys([*y, *(validation or ())]))
    node_idx = stored.ids.find_all(ids, "labels")
    nodes, order = np.sort(node_idx), np.argsort(node_idx)
    kept = hop_rows(str(estimator.weighting), estimator.hops)
    start_work(work, {"graph": stored.fingerprint, "hops": list(map(list, kept.hops)), "nodes": nodes.tolist()})
    tasks = SlabTasks.of(stored, work, engine, memory, estimator.n_jobs)
    tasks.prepare(engine, progress)
    slabs = range(len(stored.slab_names))
    run_tasks(engine, partial(tasks.labeled_rows, kept, nodes), slabs, "propagating inputs", progress)
    rows = partial(_rows, work, kept, stored.num_features)
    labeled_ids = np.empty(len(ids), object) if stored.ids.is_text else np.empty(len(ids), np.int64)
    labeled_ids[:] = [ids[place] for place in order.tolist()]
    graph = Graph(np.zeros(len(ids) + 1, np.int64), np.empty(0, np.int64), labeled_ids, stored.directed)
    graph = replace(graph, features=rows(kept.hops[0][0], 0), feature_names=tuple(stored.metadata["feature_names"]))
    labels = task_labels(graph, y, validation, estimator.task)
    labels = replace(labels, target=labels.target.with_scoring(estimator.scoring))
    data = LabeledData(graph, rows, tasks.dense_scale(), estimator.n_jobs)
    data.self_loop_weight = float(load_json(tasks.folder / "walk.json")["loop_weight"])
    folder = work / "checkpoint"
    checkpoints = Checkpoints(folder, estimator, graph, labels.codes, labels.train, labels.validation)
    model = _LabeledFit(estimator, data, labels, checkpoints, callback).run()
    return StoredFit(estimator, stored, _with_nodes(model, nodes))


def start_work(work: Path, plan: dict[str, Any]) -> bool:
    """Return whether a folder has results of the same computation, which continues; otherwise empty it."""
    if load_json(work / "plan.json") == plan:
        return True
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    save_json(work / "plan.json", plan)
    return False


def _rows(work: Path, kept: HopRows, width: int, b: float, hop: int) -> Array:
    """Return the rows of M_b^k X of the labeled nodes, from the files of all slabs."""
    count = -(-width // SLAB_COLUMNS)
    slabs = [open_array(work / f"rows-{number:04d}.npy")[kept.places[b, hop]] for number in range(count)]
    return np.concatenate(slabs, axis=1)


def _with_nodes(model: EncoderModel, nodes: Array) -> EncoderModel:
    """Return a model whose labeled nodes are those of the stored graph."""
    train, validation = model.train, model.validation
    model.train = LabeledNodes(nodes[train.nodes], train.matrix)
    model.validation = ValidationNodes(nodes[validation.nodes], validation.matrix, validation.probabilities)
    return model


class _LabeledFit(EncoderFit):
    """The steps of a fit, on rows of labeled nodes."""

    data: LabeledData

    def __init__(
        self, model: CGE, data: LabeledData, labels: TaskLabels, checkpoints: Checkpoints, callback: Callback
    ) -> None:
        self.model, self.graph, self.data, self.labels = model, data.graph, data, labels
        self.checkpoints, self.callback = checkpoints, callback
        self.settings = replace(encoder_settings(model, len(labels.classes)), label_propagation=False)

    def _evaluator(self, train_idx: Array, validation_idx: Array, cross_fit: Any = ()) -> CandidateEvaluator:
        train, validation = (torch.from_numpy(np.ascontiguousarray(part)) for part in (train_idx, validation_idx))
        labels, classes = torch.from_numpy(self.labels.codes), len(self.labels.classes)
        task = Task(self.graph, None, labels, classes, train, validation, [], target=self.labels.target)
        given = task, self.data, self.settings, self._class_weights(train_idx), self._train
        return LabeledCrossFitEvaluator(*given, folds=cross_fit) if cross_fit else LabeledEvaluator(*given)

    def _search(self, evaluator: CandidateEvaluator) -> ModelSearch:
        return LabeledSearch(evaluator)

    def _temperatures(self, *_: Any) -> dict[str, float]:
        """Return none: those of nodes without features or edges would need all nodes."""
        return {}
