"""The protocol of every result: training labels train, validation labels select, test labels score once.

Link prediction: an estimator is trained without some edges, and has to rank them above pairs that are no edges.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score

from cge.arrays import Array
from cge.data.dataset import Dataset
from cge.data.link_split import Links, LinkSplit
from cge.data.splits import Split, stratified
from cge.data.splits import per_class as split_per_class
from cge.errors import InputError, Message
from cge.evaluation.significance import mean_interval
from cge.metrics import classification_metrics
from cge.models.edge_features import PAIR_OPERATORS, pair_cosines, pair_vectors
from cge.models.pair_inputs import candidate_pairs, neighbor_matrix

_PACKAGES = ("cge", "numba", "numpy", "scikit-learn", "scipy", "torch")
_STRENGTHS = (0.01, 1.0, 100.0)  # inverse of regularization
_VALIDATION = 500  # validation labels of a split that is drawn


def draw_split(labels: Array, per_class: int, seed: int) -> tuple[Array, Split]:
    """Draw a split with `per_class` training labels of each class, and return the labels it covers.

    500 labels are validation labels, or half of those that do not train; all others are test nodes. Classes with fewer
    than twice `per_class` nodes are left out: they are too few to train and to test on.
    """
    sizes = np.bincount(labels[labels >= 0])
    rare = np.flatnonzero(sizes < 2 * per_class)
    covered = np.where(np.isin(labels, rare), -1, labels)
    classes = np.unique(covered[covered >= 0])
    if len(classes) < 2:
        hint = Message.of("use fewer with {per_class}")
        raise InputError(f"fewer than two classes have {2 * per_class:,} labels", hint=hint)
    covered = np.where(covered >= 0, np.searchsorted(classes, covered), -1)
    rest = int(np.count_nonzero(covered >= 0)) - per_class * len(classes)
    return covered, split_per_class(covered, per_class, min(_VALIDATION, rest // 2), None, seed=seed)


def split_of(data: Dataset, seed: int, per_class: int = 20, train_share: float | None = None) -> tuple[Dataset, Split]:
    """Return the split of a seed, and the data set with the labels that it covers.

    Published splits are taken in turn. Without any, or with `train_share`, a split is drawn: `per_class` labels of a
    class train, or that share of all labels, of which a tenth (at least one) are validation labels.
    """
    if train_share is not None:
        if not train_share > 0:
            raise InputError(parameter="train_share", expected="above 0", found=train_share)
        validation = min(max(train_share / 10, 1.5 / max(len(data.labeled), 1)), train_share)
        return data, stratified(data.labels, train_share - validation, validation, None, seed=seed)
    if data.splits:
        return data, data.splits[seed % len(data.splits)]
    if data.multilabel:
        hint = Message.of("choose {train_share}")
        raise InputError(f"{data.name} has several labels per node and no split", hint=hint)
    labels, split = draw_split(data.labels, per_class, seed)
    names = tuple(data.class_names[code] for code in np.unique(data.labels[labels >= 0]))
    return Dataset(data.name, data.graph, labels, names, split), split


def notes_on_split(data: Dataset, covered: Dataset, split: Split) -> list[str]:
    """Return notes on a split: classes that it leaves out, and test nodes whose class has no training label."""
    notes, names = [], set(covered.class_names)
    dropped = [name for name, count in data.label_counts().items() if count and name not in names]
    if dropped:
        first = ", ".join(dropped[:5]) + (", …" if len(dropped) > 5 else "")
        notes.append(f"{len(dropped):,} of {data.num_classes:,} classes have too few labels and are left out: {first}")
    if not covered.multilabel:
        untrained = int(np.count_nonzero(~np.isin(covered.labels[split.test], covered.labels[split.train])))
        if untrained:
            notes.append(f"{untrained:,} test nodes have classes without a training label: no method can predict them")
    return notes


def run_once(estimator: Any, data: Dataset, split: Split, strict: bool = False) -> dict[str, Any]:
    """Train an estimator on a split, score it on the test nodes, and return metrics, label counts, time and memory.

    With `strict` the test nodes and their edges are not in the training graph.
    """
    if not len(split.test):
        raise InputError(f"{data.name} has no test nodes in its split, so nothing can be scored")
    if not data.multilabel:
        untrained = np.setdiff1d(data.labels[split.validation], data.labels[split.train])
        if len(untrained):
            name = data.class_names[untrained[0]]
            problem = f"{data.name} has validation nodes of the class {name!r}, but no training node of it"
            raise InputError(problem, hint="train on some, or leave the class out of the validation nodes")
    start, ids = time.perf_counter(), data.graph.node_ids[split.test]
    y = data.labels_of(split.train)
    validation = data.labels_of(split.validation) if len(split.validation) else None
    if strict:
        if not getattr(estimator, "inductive", False):
            problem = f"this {type(estimator).__name__} cannot predict nodes that are not in the training graph"
            raise InputError(problem, hint=Message.of("leave out {strict}"))
        rest = np.setdiff1d(np.arange(data.graph.num_nodes), split.test)
        estimator.fit(data.graph.subgraph(rest), y[rest], None if validation is None else validation[rest])
        probabilities = estimator.predict_proba(ids, graph=data.graph)
    else:
        estimator.fit(data.graph, y, validation)
        probabilities = estimator.predict_proba(ids)
    seconds = time.perf_counter() - start
    probabilities = expand_classes(probabilities, estimator.classes_, data.num_classes)
    labels_seen = {"train": len(split.train), "outer": 0, "validation": len(split.validation)}
    row: dict[str, Any] = {"metrics": classification_metrics(probabilities, data.labels[split.test])}
    if not data.multilabel:
        row["correct"] = pack_flags(probabilities.argmax(1) == data.labels[split.test])
    return row | {
        "n_test": len(ids),
        "labels": dict(getattr(estimator, "labels_seen_", labels_seen)),
        "seconds": round(seconds, 2),
        "peak_mb": round(peak_mb()),
    }


def run_links(estimator: Any, split: LinkSplit, labels: tuple[Any, Any] | None = None) -> dict[str, Any]:
    """Train an estimator, with labels if it needs any, select a scorer on validation pairs, and score test pairs."""
    start = time.perf_counter()
    estimator.fit(split.graph, *(() if labels is None else labels))
    candidates = candidate_pairs(neighbor_matrix(split.graph))
    pairs, cut = np.concatenate([split.validation.pairs, split.test.pairs, candidates]), len(split.validation)
    best_auc, best_scorer, other_scores = -1.0, "", np.empty(0)
    for name, scores in _scored(estimator, split.train, pairs):
        auc = float(roc_auc_score(split.validation.linked, scores[:cut]))
        if auc > best_auc:
            best_auc, best_scorer, other_scores = auc, name, scores[cut:]
    test_scores, candidate_scores = np.split(other_scores, [len(split.test)])
    return {
        "metrics": {
            "auc": float(roc_auc_score(split.test.linked, test_scores)),
            "ap": float(average_precision_score(split.test.linked, test_scores)),
            "hits_at_100": _hits(split, candidates, candidate_scores, 100),
        },
        "scorer": best_scorer,
        "n_test": len(split.test),
        "labels": dict(getattr(estimator, "labels_seen_", {"train": 0, "outer": 0, "validation": 0})),
        "edges": dict(split.edges),
        "seconds": round(time.perf_counter() - start, 2),
        "peak_mb": round(peak_mb()),
    }


def _hits(split: LinkSplit, candidates: Array, scores: Array, top: int) -> float:
    """Return the share of test edges among the candidates of highest score, validation edges left out."""
    size = np.int64(len(split.graph))
    codes = candidates[:, 0].astype(np.int64) * size + candidates[:, 1]
    validation, test = (part.pairs[part.linked] @ np.array([size, 1]) for part in (split.validation, split.test))
    ranked = np.lexsort((codes, -scores))
    ranked = ranked[~np.isin(codes[ranked], validation)][:top]
    return float(np.isin(codes[ranked], test).sum() / max(min(top, len(ranked)), 1))


def _scored(estimator: Any, train: Links, pairs: Array) -> Iterator[tuple[str, Array]]:
    """Yield the name of each scorer, the simplest first, and its scores of pairs, `(k,)`."""
    if hasattr(estimator, "link_scores"):
        yield from estimator.link_scores(pairs).items()
        return
    vectors = estimator.embedding_
    yield from zip(("dot", "cosine"), pair_cosines(vectors, pairs[:, 0], pairs[:, 1]), strict=True)
    for how in PAIR_OPERATORS:
        x, x_test = (pair_vectors(vectors, endpoints[:, 0], endpoints[:, 1], how) for endpoints in (train.pairs, pairs))
        mean, sd = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-12)
        for strength in _STRENGTHS:
            model: Any = LogisticRegression(C=strength, max_iter=1000).fit((x - mean) / sd, train.linked)
            yield f"{how}, C = {strength:g}", model.decision_function((x_test - mean) / sd)


def expand_classes(probabilities: Array, classes: Array, count: int) -> Array:
    """Return probabilities `(k, c)` of the classes with training labels as those of all classes, `(k, count)`."""
    expanded = np.zeros((len(probabilities), count), np.float32)
    expanded[:, classes] = probabilities
    return expanded


def summarize(
    dataset: str, method: str, settings: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return mean, standard deviation and 95 % confidence interval of each metric over runs, for a JSON file."""
    summary: dict[str, Any] = {"dataset": dataset, "method": method, "settings": dict(settings)}
    for name in rows[0]["metrics"]:
        values = [float(row["metrics"][name]) for row in rows]
        interval = mean_interval(values)
        bounds = [None if bound is None else min(max(bound, 0.0), 1.0) for bound in (interval.low, interval.high)]
        summary[name] = {"per_seed": values, "mean": interval.mean, "std": interval.sd, "ci95": bounds}
    return summary | {
        "n_test": rows[0]["n_test"],
        "labels": rows[0]["labels"],
        "seconds": round(float(np.mean([row["seconds"] for row in rows])), 2),
        "peak_mb": max(row["peak_mb"] for row in rows),
        "versions": versions(),
    }


def link_summary(
    dataset: str, method: str, settings: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the summary of the runs of a method, for a JSON file."""
    summary = summarize(dataset, method, settings, rows)
    return summary | {"edges": rows[0]["edges"], "scorers": [row["scorer"] for row in rows]}


def pack_flags(flags: Array) -> str:
    """Return booleans as hexadecimal text, four to a digit."""
    return np.packbits(np.asarray(flags, bool)).tobytes().hex()


def unpack_flags(text: str, count: int) -> Array:
    """Return the booleans that `pack_flags` turned into text."""
    return np.unpackbits(np.frombuffer(bytes.fromhex(text), np.uint8), count=count).astype(bool)


def versions() -> dict[str, str]:
    """Return the installed versions of the packages that results depend on."""
    return {"python": platform.python_version()} | {name: version(name) for name in _PACKAGES}


def peak_mb() -> float:
    """Return the peak memory of this process in MB; 0 on Windows, where it is not known."""
    try:
        import resource
    except ImportError:
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)
