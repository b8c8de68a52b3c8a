"""A fit of `CGE` on a stored graph that does not fit in memory: propagation in files, training on labeled rows."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cge.arrays import Array
from cge.data.stored.folder import SLAB_COLUMNS, StoredGraph
from cge.data.stored.work_files import load_json, open_array, save_json
from cge.engine import Engine, LocalEngine
from cge.errors import InputError, Message, Spelling
from cge.estimators.classifier import task_labels
from cge.estimators.encoder_model import EncoderModel
from cge.estimators.labeled_fit import (
    LabeledFit,
    in_memory_bytes,
    is_large_size,
    labeled_graph,
    needs_all_nodes,
    with_nodes,
)
from cge.estimators.path_estimator import Callback
from cge.estimators.persistence import Checkpoints
from cge.training.labeled_rows import LabeledData, hop_rows
from cge.training.slab_columns import HopRows
from cge.training.slab_propagation import Progress, SlabTasks, run_tasks

if TYPE_CHECKING:
    from cge.estimators.cge import CGE


def fits_out_of_core(model: CGE, stored: StoredGraph) -> bool:
    """Return whether a stored graph is fitted out of core: it is large, and no setting needs all nodes in memory."""
    return stored.num_features > 0 and needs_all_nodes(model) is None and is_large_size(*_sizes(stored))


def stored_bytes(stored: StoredGraph) -> float:
    """Return about how many bytes a fit of a stored graph in memory needs."""
    return in_memory_bytes(*_sizes(stored))


def _sizes(stored: StoredGraph) -> tuple[int, int, int]:
    return stored.num_nodes, stored.num_entries, stored.num_features


def check_stored_settings(model: CGE, stored: StoredGraph) -> None:
    """Refuse settings that need all nodes in memory, and graphs without features."""
    if not stored.num_features:
        shell = "run 'cge ingest' with --features, or with --projections, which makes them"
        hint: str = Message(Spelling("pass features to `ingest`, or call `add_projections`, which makes them", shell))
        raise InputError("a fit out of core needs node features, and this stored graph has none", hint=hint)
    wrong = needs_all_nodes(model)
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
    names = tuple(stored.metadata["feature_names"])
    graph = labeled_graph(labeled_ids, stored.directed, rows(kept.hops[0][0], 0), names)
    labels = task_labels(graph, y, validation, estimator.task)
    labels = replace(labels, target=labels.target.with_scoring(estimator.scoring))
    loop_weight = float(load_json(tasks.folder / "walk.json")["loop_weight"])
    data = LabeledData(graph, rows, tasks.dense_scale(), loop_weight, estimator.n_jobs)
    folder = work / "checkpoint"
    checkpoints = Checkpoints(folder, estimator, graph, labels.codes, labels.train, labels.validation)
    model = LabeledFit(estimator, data, labels, checkpoints, callback).run()
    return StoredFit(estimator, stored, with_nodes(model, nodes))


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
