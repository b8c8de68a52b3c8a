"""The report: one HTML file that opens offline. What it shows is gathered here; how, in page.html, page.css, page.js.

Data and the chart library (Plotly) lie in the page as compressed text. Nothing of the user's is ever read as markup.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.errors import InputError
from cge.estimators.nearest import lengths, nearest_rows
from cge.evaluation.significance import share_interval
from cge.report.paths import strongest_of
from cge.report.worth import worth_of
from cge.store.whole import writable_file, write_whole

__all__ = ["facts_of", "write_page"]

Array = npt.NDArray[Any]

_MOST_NODES = 4000  # on the page
_MOST_CLASSES = 60  # of a heat map
_TAKEN = 40  # nodes whose paths are taken away
_PATHS, _NEAR = 5, 6  # of a node
_COLORS = (
    "#2f6fd0", "#d9822b", "#2a9d5c", "#c4483f", "#8456b8", "#8c6d4f", "#d06fae", "#6f7a1f", "#1f9aa8", "#b8932a",
)  # fmt: skip


def write_page(model: Any, out: str | Path, **told: Any) -> int:
    """Write the report of a trained `CGE` to a file, at once or not at all; return its size in bytes.

    `told` goes to `facts_of`.
    """
    path = writable_file(out)
    home = files("cge.report")
    page = Template((home / "page.html").read_text("utf-8")).substitute(
        style=(home / "page.css").read_text("utf-8"),
        script=(home / "page.js").read_text("utf-8"),
        library=_packed(_library()),
        data=_packed(json.dumps(facts_of(model, **told), ensure_ascii=False, allow_nan=False)),
    )
    content = page.encode()
    write_whole({path: lambda stream: stream.write(content)})
    return len(content)


def _library() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def _packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def facts_of(
    model: Any,
    *,
    name: str = "a graph",
    truth: Array | None = None,
    accuracy: Sequence[dict[str, Any]] = (),
    titles: Array | None = None,
    class_names: Sequence[str] | None = None,
    command: str = "",
) -> dict[str, Any]:
    """Return all that the page shows, as JSON holds it.

    Parameters
    ----------
    truth : (n,), optional
        Labels of nodes that were not trained on, as class numbers of `model.classes_` with −1 for unknown: they are
        shown, and make the confusion matrix.
    accuracy : rows of "method", "accuracy" and "interval", optional
        The model beside others; without them, that of the model on `truth`.
    titles : (n,), optional
        What people call the nodes.
    class_names : (c,), optional
        What people call the classes.
    """
    if not hasattr(model, "_fitted"):
        raise InputError("the report is about a trained model; call fit first")
    if model._fitted.several:
        raise InputError("the report shows models with one label per node; this one has several")
    chances = model.predict_proba()
    told, sure = chances.argmax(1), chances.max(1)
    known = _known(model)
    shown = _chosen(len(told), known, truth)
    places = np.full(len(told), -1)
    places[shown] = np.arange(len(shown))
    names = np.asarray(model.node_ids_ if titles is None else titles, object)
    labels = known if truth is None else np.where(known >= 0, known, truth)
    across = _flat(model.embedding_)
    paths, weights = _paths(model, shown, places, told)
    worth = worth_of(model)
    tested = np.empty(0, np.int64) if truth is None else np.flatnonzero((truth >= 0) & (known < 0))
    right = int((told[tested] == truth[tested]).sum()) if truth is not None else 0
    rows = list(accuracy)
    if not rows and len(tested):
        rows = [{"method": "cge", "accuracy": right / len(tested), "interval": share_interval(right, len(tested))}]
    classes = [str(one) for one in (model.classes_.tolist() if class_names is None else class_names)]
    parameters = model.weight_parameters_ or {"gate": {}, "hops": []}
    gates = sorted(parameters["gate"].items(), key=lambda pair: abs(pair[1]))
    settings = {**model.get_params(), "weights": model.weights_, "readers": ", ".join(model.readers_)}
    return {
        "title": f"cge: {name}",
        "words": _words(model, name, len(tested), right, rows),
        "verdict": worth.sentences(),
        "hints": _hints(model, len(told), len(shown), len(tested)),
        "accuracy": rows,
        "curves": _curves(model),
        "step": "epoch" if model.encoder == "paths" else "round",
        "classes": classes,
        "colors": list(_COLORS),
        "nodes": {
            "keys": list(range(len(shown))),
            "id": [str(one) for one in names[shown]],
            "label": labels[shown].tolist(),
            "trained": (known[shown] >= 0).astype(int).tolist(),
            "told": told[shown].tolist(),
            "shown": (told if truth is None else np.where(labels >= 0, labels, told))[shown].tolist(),
            "sure": [round(float(one), 4) for one in sure[shown]],
            "x": [round(float(one), 4) for one in across[shown, 0]],
            "y": [round(float(one), 4) for one in across[shown, 1]],
        },
        "paths": paths,
        "near": _near(model.embedding_, shown),
        "first": _first(model, shown, tested),
        "confusion": _confusion(told, truth, tested, len(classes)) if len(tested) else None,
        "gates": [[key, round(value, 4)] for key, value in gates],
        "hops": [round(one, 4) for one in parameters["hops"]],
        "histogram": _histogram(weights),
        "lengths": _lengths(weights),
        "relevance": _relevance(paths, told[shown], labels[shown], len(classes)),
        "faithful": _faithful(model, shown),
        "command": command or f"cge.CGE({', '.join(_changed(model))}).fit(graph, y)",
        "settings": [[key, str(value)] for key, value in settings.items()],
        "footer": "Made by cge. This page needs no network: chart library and data are inside.",
    }


def _known(model: Any) -> Array:
    """Return the training labels of the model as class numbers, `(n,)`, −1 where there are none."""
    found = np.full(len(model.node_ids_), -1)
    fitted = model._fitted
    if hasattr(fitted, "known"):
        found[fitted.known] = np.asarray(fitted.matrix).argmax(1)
    return found


def _chosen(count: int, known: Array, truth: Array | None) -> Array:
    """Return the nodes that are on the page: all, or in a large graph the labeled ones first."""
    if count <= _MOST_NODES:
        return np.arange(count)
    first = np.flatnonzero((known >= 0) | (truth >= 0 if truth is not None else False))[:_MOST_NODES]
    rest = np.setdiff1d(np.arange(count), first)
    more = rest[np.linspace(0, len(rest) - 1, _MOST_NODES - len(first)).astype(np.int64)] if len(rest) else rest
    return np.unique(np.concatenate([first, more]))


def _flat(vectors: Array) -> Array:
    """Return two numbers for each vector: UMAP where it is installed, principal components otherwise."""
    try:
        from umap import UMAP
    except ImportError:
        centered = vectors - vectors.mean(0)
        _, _, turned = np.linalg.svd(centered, full_matrices=False)
        across: Array = centered @ turned[:2].T
        return across if across.shape[1] == 2 else np.column_stack([across, np.zeros(len(across))])
    return np.asarray(UMAP(random_state=0).fit_transform(vectors))


def _paths(model: Any, shown: Array, places: Array, told: Array) -> tuple[list[list[Any]], list[tuple[Any, ...]]]:
    """Return the strongest paths of each node on the page, as the page numbers nodes, and all of them in one list."""
    if model.encoder != "paths":
        return [[] for _ in shown], []
    rows: list[list[Any]] = []
    every: list[tuple[Any, ...]] = []
    for node, found in zip(shown.tolist(), strongest_of(model._fitted, shown, told[shown], _PATHS), strict=True):
        mine = []
        for path, weight, brings in found:
            every.append((node, path, weight))
            if (places[path] >= 0).all():
                mine.append([places[path].tolist(), round(float(weight), 4), round(float(brings), 5)])
        rows.append(mine)
    return rows, every


def _near(vectors: Array, shown: Array) -> list[list[int]]:
    """Return the nodes on the page nearest to each, by cosine."""
    some = vectors[shown]
    if len(some) < 2:
        return [[] for _ in some]
    found: list[list[int]] = nearest_rows(some, np.arange(len(some)), min(_NEAR, len(some) - 1), lengths(some))[
        0
    ].tolist()
    return found


def _faithful(model: Any, shown: Array) -> dict[str, Any]:
    """Return how the chance of the predicted class falls as paths are taken away, as a mean over some nodes."""
    some = shown[np.linspace(0, len(shown) - 1, min(_TAKEN, len(shown))).astype(np.int64)]
    found = model.faithfulness(model.node_ids_[np.unique(some)].tolist())
    return {
        "share": found.shares.tolist(),
        "strongest": [round(float(one), 4) for one in found.deletion.mean(0)],
        "random": [round(float(one), 4) for one in found.random_deletion.mean(0)],
    }


def _first(model: Any, shown: Array, tested: Array) -> int:
    """Return which node the explorer begins with: a test node with several neighbors."""
    degrees = model.graph_.degrees[shown]
    good = (degrees >= 3) & (np.isin(shown, tested) if len(tested) else True)
    return int(np.flatnonzero(good)[0]) if good.any() else 0


def _confusion(told: Array, truth: Any, tested: Array, classes: int) -> list[list[int]]:
    counts = np.bincount(truth[tested] * classes + told[tested], minlength=classes * classes)
    return [row.tolist() for row in counts.reshape(classes, classes)]


def _curves(model: Any) -> list[dict[str, Any]]:
    history = model.history_ if model.selection_history_ is None else model.selection_history_
    rows = history.rows()
    wanted = (
        ("supervised_loss", "loss of the labels", False),
        ("consistency_loss", "disagreement", False),
        ("path_loss", "loss of paths", False),
        ("outer_loss", "outer loss", False),
        ("validation_accuracy", "accuracy on selection labels", True),
    )
    found = []
    for key, name, share in wanted:
        points = [(row["number"], row[key]) for row in rows if row.get(key) is not None]
        if points:
            x, y = zip(*points, strict=True)
            found.append({"name": name, "x": list(x), "y": [round(float(one), 5) for one in y], "share": share})
    return found


def _histogram(weights: list[tuple[Any, ...]]) -> dict[str, Any] | None:
    """Return how often weights are how large, by powers of ten; those that are negative or zero are left out."""
    values = np.array([one[2] for one in weights])
    values = np.log10(values[values > 0])
    if len(values) < 2:
        return None
    low, high = np.quantile(values, [0.001, 0.999])
    count, edges = np.histogram(values, bins=30, range=(low, max(high, low + 1e-6)))
    return {"middle": [round(float(one), 4) for one in 10 ** ((edges[:-1] + edges[1:]) / 2)], "count": count.tolist()}


def _lengths(weights: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Return the geometric mean of positive weights by number of steps and of distinct nodes, with a standard error."""
    kept = [one for one in weights if one[2] > 0]
    if not kept:
        return []
    values = np.log(np.array([one[2] for one in kept]))
    kinds = {
        "by steps": np.array([len(one[1]) - 1 for one in kept]),
        "by distinct nodes": np.array([len(set(one[1])) for one in kept]),
    }
    found = []
    for name, key in kinds.items():
        sizes = [size for size in np.unique(key).tolist() if (key == size).sum() > 1]
        means = [float(np.exp(values[key == size].mean())) for size in sizes]
        errors = [float(values[key == size].std(ddof=1) / np.sqrt((key == size).sum())) for size in sizes]
        spread = [mean * error for mean, error in zip(means, errors, strict=True)]
        found.append({"name": name, "x": sizes, "y": means, "error": spread})
    return found


def _relevance(paths: list[list[Any]], told: Array, labels: Array, classes: int) -> list[list[float | None]] | None:
    """Return the geometric mean of weights of paths that contain class i, of nodes predicted to be of class j."""
    total, count = np.zeros((classes, classes)), np.zeros((classes, classes))
    for target, mine in zip(told.tolist(), paths, strict=True):
        for nodes, weight, _ in mine:
            inside = np.unique(labels[nodes][1:])
            inside = inside[inside >= 0]
            if weight > 0 and len(inside):
                total[inside, target] += np.log(weight)
                count[inside, target] += 1
    if not count.any() or classes > _MOST_CLASSES:
        return None
    means = np.exp(total / np.maximum(count, 1))
    return [[round(float(means[i, j]), 4) if count[i, j] else None for j in range(classes)] for i in range(classes)]


def _words(model: Any, name: str, tested: int, right: int, rows: list[dict[str, Any]]) -> list[str]:
    seen, graph = model.labels_seen_, model.graph_
    features = "no features" if graph.features is None else f"{graph.features.shape[1]:,} features"
    first = (
        f"A model of {name}: {graph.num_nodes:,} nodes, {graph.num_edges:,} edges, {features}, "
        f"{len(model.classes_)} classes. {seen['train']:,} labels trained it, {seen['outer']:,} taught the weights of "
        f"paths, {seen['selection']:,} chose what was left open."
    )
    words = [first]
    if tested:
        low, high = share_interval(right, tested)
        words.append(
            f"Of {tested:,} nodes whose labels it has not seen, {100 * right / tested:.1f} % are right "
            f"(95 % interval {100 * low:.1f} to {100 * high:.1f})."
        )
    else:
        best = [one for one in model.history_.column("validation_accuracy") if one is not None]
        if best:
            words.append(
                f"On the selection labels it was right for {100 * max(best):.1f} %, which is a little too good."
            )
    others = [f"{row['method']} {100 * row['accuracy']:.1f} %" for row in rows if row["method"] != "cge"]
    if others:
        words.append(f"For comparison, trained on the same labels: {', '.join(others)}.")
    return words


def _hints(model: Any, nodes: int, shown: int, tested: int) -> dict[str, str]:
    some = "" if nodes == shown else f" {shown:,} of {nodes:,} nodes are shown."
    return {
        "curves-words": f"The best {'epoch' if model.encoder == 'paths' else 'round'} was number {model.best_round_}.",
        "map-words": "Every node by its vector in two dimensions, colored by its label or else by its prediction. "
        f"Click a node to see its paths.{some}",
        "confusion-words": f"{tested:,} nodes that were not trained on.",
        "weights-words": f"Weights: {model.weights_}. Readers: {', '.join(model.readers_) or 'the head of the paper'}.",
    }


def _changed(model: Any) -> list[str]:
    """Return the settings that are not the defaults, as Python writes them."""
    defaults = type(model)().get_params()
    return [f"{name}={value!r}" for name, value in model.get_params().items() if value != defaults[name]]
