"""The OpenAPI document of the server."""

from __future__ import annotations

from typing import Any

_ID = {"oneOf": [{"type": "string"}, {"type": "integer"}], "description": "A node id."}
_IDS = {"type": "array", "items": _ID, "minItems": 1}
_PAIRS = {"type": "array", "items": {"type": "array", "items": _ID, "minItems": 2, "maxItems": 2}}
_TOP = {"type": "integer", "minimum": 1, "maximum": 1000}
_NUMBERS = {"type": "array", "items": {"type": "number"}}
_GRAPH = {
    "type": "object",
    "description": "New edges and features, merged with the graph of the model.",
    "properties": {
        "edges": _PAIRS,
        "weights": _NUMBERS,
        "edge_types": {"type": "array", "items": {"type": "string"}},
        "features": {"type": "object", "additionalProperties": _NUMBERS},
        "node_types": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "additionalProperties": False,
}
# The fields of each operation; the first is required, unless it is "graph" or "top".
_FIELDS: dict[str, tuple[str, dict[str, Any]]] = {
    "predict": ("Predict known nodes, or new ones.", {"nodes": _IDS, "graph": _GRAPH}),
    "explain": (
        "Explain a prediction by paths.",
        {"node": _ID, "top": _TOP, "class": {"type": "string"}, "graph": _GRAPH},
    ),
    "similar": ("List the nodes with the most similar vectors.", {"node": _ID, "top": _TOP}),
    "links": ("List likely missing links.", {"top": _TOP, "node": _ID}),
    "embed": ("Return vectors.", {"nodes": _IDS}),
    "update": (
        "Change the graph of the model.",
        {"graph": _GRAPH, "remove_edges": _PAIRS, "labels": {"type": "object"}},
    ),
}
_ERRORS = {
    "400": "The request is wrong; `error` is one sentence that says how.",
    "401": "The bearer token is missing or wrong.",
    "404": "A node is unknown.",
    "413": "The body is too large.",
    "415": "The body is not JSON.",
    "503": "Too many requests wait.",
    "504": "The request took too long.",
}


def openapi_document(version: str, token: bool) -> dict[str, Any]:
    """Return the document, of OpenAPI 3.1."""
    paths: dict[str, Any] = {}
    errors = {code: {"description": text} for code, text in _ERRORS.items()}
    for name, (summary, fields) in _FIELDS.items():
        schema: dict[str, Any] = {"type": "object", "properties": fields, "additionalProperties": False}
        first = next(iter(fields))
        if first not in ("graph", "top") and name != "predict":
            schema["required"] = [first]
        body = {"required": True, "content": {"application/json": {"schema": schema}}}
        answers = {"200": {"description": "The answer, a JSON object."}, **errors}
        paths[f"/{name}"] = {"post": {"summary": summary, "requestBody": body, "responses": answers}}
    for name, summary in {"health": "The model that is served.", "metrics": "Counters for Prometheus."}.items():
        paths[f"/{name}"] = {"get": {"summary": summary, "responses": {"200": {"description": summary}}}}
    document: dict[str, Any] = {"openapi": "3.1.0", "info": {"title": "cge", "version": version}, "paths": paths}
    if token:
        document["components"] = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}}
        document["security"] = [{"token": []}]
    return document
