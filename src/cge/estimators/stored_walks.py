"""DeepWalk of a stored graph: vectors as Parquet parts, without loading the graph or a whole table of vectors."""

from __future__ import annotations

from dataclasses import asdict, fields
from functools import partial
from pathlib import Path

import numpy as np

from cge.data.stored.folder import StoredGraph
from cge.engine import Engine
from cge.errors import InputError, Message, Spelling
from cge.estimators.embeddings import DeepWalk
from cge.estimators.settings import check_settings
from cge.estimators.stored_fit import start_work
from cge.estimators.stored_model import vector_parts, write_vector_part
from cge.training.slab_propagation import Progress, run_tasks
from cge.training.walk_buckets import BucketTasks, WalkSettings


def write_walk_vectors(
    model: DeepWalk, stored: StoredGraph, out: Path, *, work: Path, engine: Engine, progress: Progress
) -> int:
    """Write DeepWalk vectors of all nodes to a folder of Parquet parts; return the number of parts.

    An interrupted call continues. The vectors are not those of `DeepWalk.fit`, which visits pairs in another order.
    """
    check_settings(model)
    if model.metapath is not None:
        problem = Message.of("{metapath} is for graphs in memory", metapath=model.metapath)
        raise InputError(problem, hint=Message("leave it out", Spelling("", ", or give --out a file")))
    if not stored.num_entries:
        raise InputError("the graph has no edges, so there are no walks")
    settings = WalkSettings(**{field.name: getattr(model, field.name) for field in fields(WalkSettings)})
    if not start_work(work, {"graph": stored.fingerprint, "settings": asdict(settings)}):
        for path in out.glob("part-*.parquet"):
            path.unlink()
    tasks = BucketTasks.of(stored, work, settings)
    tasks.run(engine, progress)
    write = partial(_write_part, tasks, str(out.resolve()))
    return len(run_tasks(engine, write, vector_parts(stored.num_nodes), "writing parts", progress))


def _write_part(tasks: BucketTasks, out: str, part: tuple[int, int, int]) -> None:
    number, first, stop = part
    path = Path(out) / f"part-{number:05d}.parquet"
    if path.exists():
        return
    vectors = tasks.vectors(first, stop)
    if not np.isfinite(vectors).all():
        rate = tasks.settings.learning_rate
        problem = Message.of("training overflowed with {learning_rate}", learning_rate=rate)
        raise InputError(problem, parameter="learning_rate", hint="try a tenth of it")
    write_vector_part(path, tasks.stored.ids.slice(first, stop), vectors)
