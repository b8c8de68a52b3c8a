"""A model of a stored graph: predictions and vectors by ranges of rows, as Parquet parts, without loading the graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.data.stored.folder import SLAB_COLUMNS, StoredGraph
from cge.data.stored.work_files import sha256
from cge.engine import Engine
from cge.errors import InputError
from cge.estimators.classifier_inputs import ClassifierInputs, neighborhood_matrix
from cge.estimators.configs import make_estimator
from cge.estimators.encoder_model import EncoderModel
from cge.estimators.methods import stored_class, stored_kinds
from cge.estimators.persistence import stored_graph_of
from cge.estimators.predictions import Predictions
from cge.estimators.stored_encoder import restore_encoder
from cge.estimators.stored_fit import start_work
from cge.graph import Graph
from cge.models.row_products import FileArray
from cge.parallel import split_blocks
from cge.store import Stored, read_folder, unpack_values
from cge.store.atomic import write_files
from cge.store.export_formats import write_parquet_table
from cge.training.classifier_registry import CLASSIFIERS
from cge.training.dense_scale import ROW_RANGE
from cge.training.slab_propagation import Output, Progress, SlabTasks, run_tasks

_PART_RANGES = 4  # ranges of rows in a part
_TRAINED, _NO_INFORMATION = 0, 4  # evidence


@dataclass(frozen=True)
class StoredModel:
    """A model folder that refers to a stored graph; tasks open it anew."""

    folder: str

    @classmethod
    def open(cls, folder: str | Path) -> StoredModel | None:
        """Return the model of a folder; None where it has its own graph."""
        model = cls(str(folder))
        return None if model.stored_graph is None else model

    def __reduce__(self) -> tuple[Any, ...]:
        """Send only the path to workers."""
        return StoredModel, (str(Path(self.folder).resolve()),)

    @cached_property
    def _content(self) -> Stored:
        return read_folder(self.folder, stored_kinds())

    @cached_property
    def stored_graph(self) -> StoredGraph | None:
        """The graph to which the folder refers."""
        return stored_graph_of(self._content, self.folder)

    @property
    def graph(self) -> StoredGraph:
        """The stored graph."""
        if self.stored_graph is None:
            raise InputError(f"{self.folder} does not refer to a stored graph")
        return self.stored_graph

    @cached_property
    def encoder(self) -> EncoderModel:
        """The trained classifiers and weightings, with a graph of one node in index of the stored one."""
        content, width = self._content, self.graph.num_features
        settings: Any = content.metadata["settings"]
        estimator = make_estimator(stored_class(content.kind), settings)
        classes = unpack_values(content.arrays, "classes.")
        features, none = np.zeros((1, width), np.float32), np.empty(0, np.int64)
        graph = Graph(np.zeros(2, np.int64), none, np.zeros(1, np.int64), features=features)
        return restore_encoder(estimator, graph, classes, content.metadata, content.arrays, self.graph.num_nodes)

    # ------------------------------------------------------------------ propagation

    def outputs(self, *, vectors: bool) -> list[Output]:
        """Return the columns that predictions, or vectors, need."""
        encoder, slabs = self.encoder, len(self.graph.slab_names)
        outputs: list[Output] = []
        for index, (name, classifier, weighting, _) in enumerate(encoder.ensemble):
            how = weighting.edge_weighting.normalization.item(), tuple(weighting.edge_weighting.used_hop_weights())
            outputs += _slabs(f"scores-{index}", how, classifier.projection)
            if CLASSIFIERS[name].unit_rows:
                outputs += [Output(f"lengths-{index}", number, *how) for number in range(slabs)]
            outputs.append(Output(f"reach-{index}", 0, *how, reach=True))
            if vectors and index == 0:
                outputs += _slabs("neighborhoods", how, neighborhood_matrix(self.graph.num_features))
        return outputs

    def propagate(self, work: Path, engine: Engine, memory: int, progress: Progress, *, vectors: bool = False) -> None:
        """Write all propagated columns to the folder `work`."""
        n_jobs = self._content.metadata["settings"].get("n_jobs")
        tasks = SlabTasks.of(self.graph, work, engine, memory, n_jobs)
        tasks.prepare(engine, progress)
        run_tasks(engine, tasks.propagate, self.outputs(vectors=vectors), "propagating", progress)

    def plan(self, vectors: bool) -> dict[str, Any]:
        """Return what parts depend on: the graph, the model, and whether they are vectors."""
        model = sha256(Path(self.folder) / "model.json")
        return {"graph": self.graph.fingerprint, "model": model, "vectors": vectors}

    def classifier_inputs(self, work: str, first: int, stop: int) -> ClassifierInputs:
        """Return the inputs of the classifiers for a range of nodes, from the propagated columns."""
        folder = Path(work)

        def columns(name: str) -> Array:
            files = sorted(folder.glob(f"{name}-[0-9][0-9][0-9][0-9].npy"))
            return np.concatenate([FileArray(file)[first:stop] for file in files], axis=1)

        projected = []
        for index, (name, classifier, _, _) in enumerate(self.encoder.ensemble):
            part = columns(f"scores-{index}")
            if CLASSIFIERS[name].unit_rows:
                squares = np.zeros(stop - first)
                for file in sorted(folder.glob(f"lengths-{index}-*.npy")):
                    squares += FileArray(file)[first:stop]
                part = part / np.where(squares > 0, np.sqrt(squares), 1).astype(np.float32)[:, None]
            projected.append(part + classifier.offset)

        def reach_inputs() -> Any:
            parts = [columns(f"reach-{index}")[:, 0] != 0 for index in range(len(projected))]
            return np.logical_or.reduce(parts)

        return ClassifierInputs(tuple(projected), None, reach_inputs, partial(columns, "neighborhoods"))

    # ------------------------------------------------------------------ parts

    def predictions(self, work: str, first: int, stop: int) -> Predictions:
        """Return the predictions of a range of nodes."""
        encoder, inputs = self.encoder, self.classifier_inputs(work, first, stop)
        probabilities = encoder.probabilities_from(inputs, encoder.temperature)
        evidence = np.where(inputs.has_information, _TRAINED, _NO_INFORMATION)
        ids = self.graph.ids.slice(first, stop)
        return Predictions(ids, encoder.target.classes, probabilities, evidence, encoder.target)

    def write_predictions(self, work: str, out: str, part: tuple[int, int, int]) -> None:
        """Write a part of the predictions as Parquet."""
        number, first, stop = part
        path = Path(out) / f"part-{number:05d}.parquet"
        if path.exists():
            return
        ranges = [self.predictions(work, first + a, first + b) for a, b in split_blocks(stop - first, ROW_RANGE)]
        joined = {name: [each.columns()[name] for each in ranges] for name in ranges[0].columns()}
        write_files({path: lambda stream: write_parquet_table(stream, _joined(joined))})

    def scales(self, work: Path, engine: Engine, progress: Progress) -> list[float]:
        """Return the factor of each classifier's part of the vectors, as `ClassifierInputs.scales`."""
        ranges = split_blocks(self.graph.num_nodes, ROW_RANGE)
        sums = run_tasks(engine, partial(self.range_sums, str(work)), ranges, "scaling vectors", progress)
        scales = []
        for index in range(len(self.encoder.ensemble)):
            spreads = []
            for kind in range(2):
                total = sum((each[index][kind][0] for each in sums), np.zeros(len(sums[0][index][kind][0])))
                squares = sum(each[index][kind][1] for each in sums)
                mean = total / max(self.graph.num_nodes, 1)
                spreads.append(float(np.sqrt(max(squares / max(self.graph.num_nodes, 1) - float(mean @ mean), 0.0))))
            scales.append(spreads[0] / spreads[1] if spreads[1] > 0 else 1.0)
        return scales

    def range_sums(self, work: str, bounds: tuple[int, int]) -> list[list[tuple[Array, float]]]:
        """Return, for class scores and vectors of each classifier, the sum of the rows and of their squares."""
        inputs = self.classifier_inputs(work, *bounds)
        pairs = zip(self.encoder.ensemble, inputs.projected, strict=True)
        parts = [(trained.classifier.scores(part), part) for trained, part in pairs]
        return [[(rows.sum(axis=0, dtype=np.float64), _squares(rows)) for rows in pair] for pair in parts]

    def write_vectors(self, work: str, out: str, scales: list[float], part: tuple[int, int, int]) -> None:
        """Write a part of the vectors as Parquet: ids, and a list of numbers for each."""
        number, first, stop = part
        path = Path(out) / f"part-{number:05d}.parquet"
        if path.exists():
            return
        ranges = [(first + a, first + b) for a, b in split_blocks(stop - first, ROW_RANGE)]
        parts_of = scales, self.encoder.ensemble, self.encoder.target
        parts = [self.classifier_inputs(work, *bounds).vectors(*parts_of) for bounds in ranges]
        ids = self.graph.ids.slice(first, stop)
        write_vector_part(path, ids, np.concatenate(parts))

    def parts(self) -> list[tuple[int, int, int]]:
        """Return number, first node and end of each part."""
        return vector_parts(self.graph.num_nodes)


def vector_parts(nodes: int) -> list[tuple[int, int, int]]:
    """Return number, first node and end of each part of the rows of all nodes."""
    return [(number, *bounds) for number, bounds in enumerate(split_blocks(nodes, _PART_RANGES * ROW_RANGE))]


def write_vector_part(path: Path, ids: Array, vectors: Array) -> None:
    """Write ids and vectors of some nodes as Parquet."""
    write_files({path: lambda stream: _write_vectors(stream, ids, vectors)})


def write_parts(
    model: StoredModel, out: Path, work: Path, engine: Engine, memory: int, progress: Progress, *, vectors: bool
) -> int:
    """Write predictions or vectors of all nodes to a folder of Parquet parts; return the number of parts."""
    if not start_work(work, model.plan(vectors)):
        for path in out.glob("part-*.parquet"):
            path.unlink()
    model.propagate(work, engine, memory, progress, vectors=vectors)
    folders = str(work.resolve()), str(out.resolve())
    if vectors:
        task: Any = partial(model.write_vectors, *folders, model.scales(work, engine, progress))
    else:
        task = partial(model.write_predictions, *folders)
    return len(run_tasks(engine, task, model.parts(), "writing parts", progress))


def _slabs(name: str, how: tuple[float, tuple[float, ...]], matrix: Array) -> list[Output]:
    blocks = split_blocks(matrix.shape[1], SLAB_COLUMNS)
    return [Output(name, number, *how, matrix[:, a:b]) for number, (a, b) in enumerate(blocks)]


def _joined(columns: dict[str, list[Any]]) -> dict[str, Any]:
    return {
        name: np.concatenate(parts) if isinstance(parts[0], np.ndarray) else [item for part in parts for item in part]
        for name, parts in columns.items()
    }


def _squares(rows: Array) -> float:
    return float(np.square(rows, dtype=np.float64).sum())


def _write_vectors(stream: Any, ids: Array, vectors: Array) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    flat = pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(vectors).ravel()), vectors.shape[1])
    pq.write_table(pa.table({"node": ids, "vector": flat}), stream)
