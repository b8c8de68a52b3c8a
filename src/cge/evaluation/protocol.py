"""The protocol of every result: training labels train, validation labels choose, test labels score, once.

Takes anything that behaves like an estimator of this package, and knows none.
"""

from __future__ import annotations

import platform
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.data.dataset import Dataset
from cge.data.splits import Split, per_class, stratified
from cge.errors import InputError, Message
from cge.evaluation.significance import mean_interval
from cge.metrics import classification_metrics

__all__ = [
    "drawn",
    "notes_on_split",
    "of_all_classes",
    "packed",
    "peak_mb",
    "run_once",
    "split_of",
    "summary",
    "unpacked",
    "versions",
]

Array = npt.NDArray[Any]

_PARTS = ("cge", "numba", "numpy", "scikit-learn", "scipy", "torch")
_VALIDATION = 500  # nodes that choose, where a split is drawn


def drawn(labels: Array, each: int, seed: int) -> tuple[Array, Split]:
    """Draw a split with `each` training labels of a class, and return the labels it is about.

    500 labels choose, or half of what is left; all others are test nodes. Classes with fewer than twice as many nodes
    are left out: they are too few to train and to test on.
    """
    sizes = np.bincount(labels[labels >= 0])
    rare = np.flatnonzero(sizes < 2 * each)
    kept = np.where(np.isin(labels, rare), -1, labels)
    classes = np.unique(kept[kept >= 0])
    if len(classes) < 2:
        hint = Message.of("use a lower {per_class}")
        raise InputError(f"fewer than two classes have {2 * each:,} labels", parameter="per_class", hint=hint)
    kept = np.where(kept >= 0, np.searchsorted(classes, kept), -1)
    left = int(np.count_nonzero(kept >= 0)) - each * len(classes)
    return kept, per_class(kept, each, min(_VALIDATION, left // 2), None, seed=seed)


def split_of(data: Dataset, seed: int, each: int = 20, share: float | None = None) -> tuple[Dataset, Split]:
    """Return the split of a seed, and the data set with the labels that it is about.

    Published splits are taken in turn. Where there are none, or `share` is told, one is drawn: `each` labels of a class
    train, or that share of all labels, of which a tenth (at least one) chooses.
    """
    if share is not None:
        if not share > 0:
            raise InputError(parameter="train_share", expected="above 0", found=share)
        held = min(max(share / 10, 1.5 / max(len(data.labeled), 1)), share)
        return data, stratified(data.labels, share - held, held, None, seed=seed)
    if data.splits:
        return data, data.splits[seed % len(data.splits)]
    if data.multilabel:
        hint = Message.of("pass {train_share}")
        raise InputError(f"{data.name} has several labels per node and no split", parameter="train_share", hint=hint)
    labels, split = drawn(data.labels, each, seed)
    names = tuple(data.class_names[one] for one in np.unique(data.labels[labels >= 0]))
    return Dataset(data.name, data.graph, labels, names, split), split


def notes_on_split(data: Dataset, chosen: Dataset, split: Split) -> list[str]:
    """Return what has to be known of a split: classes that are left out of it, and test nodes that nothing can tell."""
    found, there = [], set(chosen.class_names)
    gone = [name for name, count in data.label_counts().items() if count and name not in there]
    if gone:
        format_list = ", ".join(gone[:5]) + (", …" if len(gone) > 5 else "")
        found.append(
            f"{len(gone):,} of {data.num_classes:,} classes have too few labels and are left out: {format_list}"
        )
    if not chosen.multilabel:
        unknown = int(np.count_nonzero(~np.isin(chosen.labels[split.test], chosen.labels[split.train])))
        if unknown:
            found.append(f"{unknown:,} test nodes are of classes without a training label: nothing gets them right")
    return found


def run_once(estimator: Any, data: Dataset, split: Split, strict: bool = False) -> dict[str, Any]:
    """Train an estimator on a split, score it, and say what it saw and what it took.

    With `strict` the test nodes and their edges are not there in training: the estimator has to predict nodes of a
    graph that it has not seen.
    """
    if not len(split.test):
        raise InputError(f"{data.name} has no test nodes in its split, so nothing can be scored")
    if not data.multilabel:
        alone = np.setdiff1d(data.labels[split.validation], data.labels[split.train])
        if len(alone):
            name = data.class_names[alone[0]]
            raise InputError(
                f"{data.name} has validation nodes of the class {name!r}, but no training node of it; train on "
                "some, or leave the class out of the validation nodes"
            )
    began, ids = time.perf_counter(), data.graph.node_ids[split.test]
    y = data.labels_of(split.train)
    validation = data.labels_of(split.validation) if len(split.validation) else None
    if strict:
        if getattr(estimator, "encoder", "table") == "table":
            kind = type(estimator).__name__ + (" with encoder='table'" if hasattr(estimator, "encoder") else "")
            hint = Message.of("leave out {strict}")
            raise InputError(f"{kind} cannot predict nodes outside its training graph", parameter="strict", hint=hint)
        kept = np.setdiff1d(np.arange(data.graph.num_nodes), split.test)
        known = None if validation is None else validation[kept]
        estimator.fit(data.graph.subgraph(kept), y[kept], known)
        probabilities = estimator.predict_proba(ids, graph=data.graph)
    else:
        estimator.fit(data.graph, y, validation)
        probabilities = estimator.predict_proba(ids)
    seconds = time.perf_counter() - began
    every = of_all_classes(probabilities, estimator.classes_, data.num_classes)
    seen = {"train": len(split.train), "outer": 0, "selection": len(split.validation)}
    row: dict[str, Any] = {"metrics": classification_metrics(every, data.labels[split.test])}
    if not data.multilabel:
        row["right"] = packed(every.argmax(1) == data.labels[split.test])
    return row | {
        "n_test": len(ids),
        "labels": dict(getattr(estimator, "labels_seen_", seen)),
        "seconds": round(seconds, 2),
        "peak_mb": round(peak_mb()),
    }


def of_all_classes(probabilities: Array, classes: Array, count: int) -> Array:
    """Return chances `(k, c)` of some classes, by number, as those of all `(k, count)`: some have no training label."""
    every = np.zeros((len(probabilities), count), np.float32)
    every[:, classes] = probabilities
    return every


def summary(
    dataset: str, method: str, settings: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return what the runs of a method on a data set come to, as JSON holds it."""
    found: dict[str, Any] = {"dataset": dataset, "method": method, "settings": dict(settings)}
    for name in rows[0]["metrics"]:
        values = [float(row["metrics"][name]) for row in rows]
        told = mean_interval(values)
        ends = [None if end is None else min(max(end, 0.0), 1.0) for end in (told.low, told.high)]  # of a share
        found[name] = {"per_seed": values, "mean": told.mean, "sd": told.sd, "ci95": ends}
    return found | {
        "n_test": rows[0]["n_test"],
        "labels": rows[0]["labels"],
        "seconds": round(float(np.mean([row["seconds"] for row in rows])), 2),
        "peak_mb": max(row["peak_mb"] for row in rows),
        "versions": versions(),
    }


def packed(flags: Array) -> str:
    """Return yes and no as text, four to a letter.

    >>> packed(np.array([True, False, True, True, True])), unpacked("b8", 5).tolist()
    ('b8', [True, False, True, True, True])
    """
    return np.packbits(np.asarray(flags, bool)).tobytes().hex()


def unpacked(text: str, count: int) -> Array:
    """Return what `packed` made text of."""
    return np.unpackbits(np.frombuffer(bytes.fromhex(text), np.uint8), count=count).astype(bool)


def versions() -> dict[str, str]:
    """Return which versions of what a result depends on are installed."""
    return {"python": platform.python_version()} | {name: version(name) for name in _PARTS}


def peak_mb() -> float:
    """Return the most memory this process has ever held."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)
