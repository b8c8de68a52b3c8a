"""What the server answers: JSON objects in, JSON objects out, without any HTTP.

The model in use is replaced as a whole by an update, so that requests that are running finish with the one they began
with. Nothing in a request names a file.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from threading import RLock
from typing import Any

import numpy as np

from cge.data.graph_update import GraphUpdate
from cge.errors import CgeWarning, InputError, format_value
from cge.estimators.cge import CGE
from cge.estimators.link_predictor import predictor_of
from cge.estimators.path_estimator import PathEstimator
from cge.estimators.predictions import predict_nodes
from cge.estimators.similar import SimilarNodes

_GRAPH_FIELDS = {"edges", "weights", "edge_types", "features", "node_types"}
_MAX_TOP = 1000


@dataclass(frozen=True)
class Limits:
    """Bytes of a body, node ids (or edges) and seconds of a request, and how many requests may wait."""

    max_body: int = 1 << 20
    max_ids: int = 1000
    timeout: float = 30.0
    max_waiting: int = 256


class Service:
    """The operations of a server on one model; `update` may be refused, with the reason."""

    def __init__(self, model: PathEstimator, limits: Limits, refuse_update: str = "") -> None:
        self.limits, self.refuse_update = limits, refuse_update
        self.model, self.updates = model, 0
        self._lock = RLock()
        self._similar: tuple[PathEstimator, SimilarNodes] | None = None
        self.operations: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "predict": self.predict,
            "explain": self.explain,
            "similar": self.similar,
            "links": self.links,
            "embed": self.embed,
            "update": self.update,
        }

    def warm_up(self) -> None:
        """Compute what all requests share, before the first one."""
        self.model.fitted_.warm_up()
        self._nearest(self.model)

    def health(self) -> dict[str, Any]:
        """Return what the server serves."""
        model = self.model
        return {
            "status": "ok",
            "model": type(model).__name__,
            "nodes": len(model.graph_),
            "edges": model.graph_.num_edges,
            "classes": [str(name) for name in model.fitted_.target.class_names or ()],
            "updates": self.updates,
            "example": model.node_ids_[:1].tolist()[0],
        }

    def predict(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Predict known nodes, or new ones with `graph`: their edges and features."""
        _check_fields(request, {"nodes", "graph"})
        model, update = self.model, self._graph(request)
        nodes = None if update is not None and "nodes" not in request else self._ids(model, request, "nodes")
        predictions, notes = predict_nodes(model, nodes, update)
        rows = [{name: row[name] for name in ("node", "evidence")} | row for row in predictions.rows()]
        return {"predictions": rows, "notes": list(map(str, notes))}

    def explain(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Explain the prediction of a node by its paths."""
        _check_fields(request, {"node", "top", "class", "graph"})
        model, update = self.model, self._graph(request)
        label = request.get("class")
        with self._lock:  # explainers are made at their first use
            explanation = model.explain(
                self._id(model, request.get("node"), known=update is None),
                self._top(request, 10),
                target_class=None if label is None else model.fitted_.target.class_named(label),
                graph=update,
            )
        return dict(explanation.to_dict())

    def similar(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """List the nodes with the most similar vectors."""
        _check_fields(request, {"node", "top"})
        model = self.model
        hits = self._nearest(model).of(self._id(model, request.get("node")), self._top(request, 10))
        return {"similar": [{"node": hit.node, "score": _rounded(hit.score)} for hit in hits]}

    def links(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """List likely missing links, of a node or of all."""
        _check_fields(request, {"node", "top"})
        model = self.model
        node = None if request.get("node") is None else self._id(model, request["node"])
        with self._lock:  # the predictor is trained at its first use
            predictor = predictor_of(model)
        rows = predictor.top_links(self._top(request, 100), node)
        return {"links": [{"source": a, "target": b, "score": _rounded(score)} for a, b, score in rows]}

    def embed(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return vectors of nodes."""
        _check_fields(request, {"nodes"})
        model = self.model
        nodes = self._ids(model, request, "nodes")
        vectors = model.embedding_[model.graph_.indices_of(nodes)]
        return {"nodes": nodes, "vectors": [list(map(_rounded, row)) for row in vectors]}

    def update(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Change the graph of the model: add and remove edges, replace features, add labels."""
        _check_fields(request, {"graph", "remove_edges", "labels"})
        if self.refuse_update:
            raise InputError(self.refuse_update)
        if not isinstance(self.model, CGE):
            raise InputError(f"a {type(self.model).__name__} cannot be updated")
        with self._lock:
            model = copy(self.model)
            update = self._graph(request) or GraphUpdate()
            removed = self._pairs(model, request.get("remove_edges", []), "remove_edges")
            labels = request.get("labels")
            if labels is not None:
                labels = self._labels(model, labels)
            changes = GraphUpdate(**(vars(update) | {"remove_edges": removed}))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CgeWarning)  # the advice is part of the answer
                summary = model.update(changes, labels)
            self.model, self.updates = model, self.updates + 1
        return dict(summary.as_dict())

    # ------------------------------------------------------------------ reading requests

    def _nearest(self, model: PathEstimator) -> SimilarNodes:
        kept = self._similar
        if kept is None or kept[0] is not model:
            with self._lock:
                kept = model, SimilarNodes(model.node_ids_, model.embedding_)
                self._similar = kept
        return kept[1]

    def _top(self, request: Mapping[str, Any], default: int) -> int:
        top = request.get("top", default)
        if isinstance(top, bool) or not isinstance(top, int) or not 1 <= top <= _MAX_TOP:
            raise InputError(parameter="top", expected=f"an integer from 1 to {_MAX_TOP:,}", found=top)
        return top

    def _id(self, model: PathEstimator, value: Any, *, known: bool = True) -> Any:
        """Return a node id in the type of the model's; digits are accepted where ids are integers."""
        integers = model.node_ids_.dtype.kind == "i"
        if isinstance(value, str) and integers and value.lstrip("-").isdecimal() and len(value) < 19:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int if integers else str):
            expected = "an integer" if integers else "text"
            raise InputError(parameter="node", expected=f"an id, which is {expected}", found=value)
        if isinstance(value, int) and abs(value) >= 2**63:
            raise InputError(f"there is no node {format_value(value)}")
        if known:
            model.graph_.indices_of([value])
        return value

    def _ids(self, model: PathEstimator, request: Mapping[str, Any], name: str) -> list[Any]:
        values = request.get(name)
        if not isinstance(values, list) or not 1 <= len(values) <= self.limits.max_ids:
            expected = f"a list of 1 to {self.limits.max_ids:,} ids"
            count = f"{len(values):,} values" if isinstance(values, list) else values
            raise InputError(parameter=name, expected=expected, found=count)
        return [self._id(model, value, known=False) for value in values]

    def _pairs(self, model: PathEstimator, values: Any, name: str) -> list[tuple[Any, Any]]:
        if not isinstance(values, list) or len(values) > self.limits.max_ids:
            raise InputError(f"{name} must be a list of at most {self.limits.max_ids:,} pairs of ids")
        if not all(isinstance(pair, list) and len(pair) == 2 for pair in values):
            raise InputError(f"{name} must be a list of pairs of ids, such as [[1, 2], [2, 3]]")
        return [(self._id(model, a, known=False), self._id(model, b, known=False)) for a, b in values]

    def _labels(self, model: PathEstimator, values: Any) -> dict[Any, Any]:
        if not isinstance(values, dict) or len(values) > self.limits.max_ids:
            raise InputError(f"labels must be an object of at most {self.limits.max_ids:,} node ids and labels")
        named = model.fitted_.target.class_named
        return {self._id(model, node, known=False): named(value) for node, value in values.items()}

    def _graph(self, request: Mapping[str, Any]) -> GraphUpdate | None:
        """Return the new edges and features of a request."""
        content = request.get("graph")
        if content is None:
            return None
        if not isinstance(content, dict):
            raise InputError("graph must be an object with edges, features, or both")
        _check_fields(content, _GRAPH_FIELDS)
        model, edges = self.model, self._pairs(self.model, content.get("edges", []), "edges")
        features, node_types = content.get("features") or {}, content.get("node_types") or {}
        if not isinstance(features, dict) or len(features) > self.limits.max_ids or not isinstance(node_types, dict):
            raise InputError(f"features must be an object of at most {self.limits.max_ids:,} ids and lists of numbers")
        rows = [_numbers(row) for row in features.values()]
        if len({len(row) for row in rows}) > 1:
            raise InputError("the lists of features must have the same length")
        types = content.get("edge_types")
        return GraphUpdate(
            edges,
            None if content.get("weights") is None else np.array(_numbers(content["weights"])),
            None if types is None else [str(name) for name in _checked_list(types, len(edges), "edge_types")],
            feature_ids=[self._id(model, node, known=False) for node in features],
            features=np.array(rows) if rows else None,
            node_types={self._id(model, node, known=False): str(name) for node, name in node_types.items()} or None,
        )


def _check_fields(request: Mapping[str, Any], allowed: set[str]) -> None:
    unknown = next((name for name in request if name not in allowed), None)
    if unknown is not None:
        raise InputError(f"there is no field {format_value(unknown)}; the fields are {', '.join(sorted(allowed))}")


def _checked_list(values: Any, count: int, name: str) -> Sequence[Any]:
    if not isinstance(values, list) or len(values) != count:
        raise InputError(f"{name} must be a list with an entry for each edge")
    return values


def _numbers(values: Any) -> list[float]:
    if not isinstance(values, list) or not all(isinstance(x, int | float) and not isinstance(x, bool) for x in values):
        raise InputError(f"expected a list of numbers, found {format_value(values)}")
    try:
        return [float(value) for value in values]
    except OverflowError:
        raise InputError("a number is too large") from None


def _rounded(value: Any) -> float:
    """Return a float32 without spurious digits."""
    return float(str(np.float32(value)))
