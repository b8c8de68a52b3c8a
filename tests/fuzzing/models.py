"""Saved models of every kind, to be damaged: bytes, JSON, headers, arrays, with wrong and with correct hashes."""

from __future__ import annotations

import hashlib
import json
import tempfile
import warnings
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

import cge
from cge.estimators.baselines import LabelPropagation, WalkClassifier
from cge.estimators.graph_networks import GCN
from tests.fuzzing.damage import damaged, damaged_json
from tests.fuzzing.targets import Files, Target
from tests.stored_files import with_hash

__all__ = ["MODELS", "saved", "sealed"]

_QUICK: dict[str, Any] = {"dim": 4, "refit": False, "training": {"max_epochs": 3}}
_PAPER: dict[str, Any] = _QUICK | {
    "walks_per_node": 1,
    "walk_length": 4,
    "window": 2,
    "training": {"pretrain": 1, "max_epochs": 3},
    "outer_problem": {"outer_steps": 1},
}
_KINDS: dict[str, Any] = {
    "edges": lambda: cge.CGE("edges+hops", classifier="mlp", label_propagation=True, **_QUICK),
    "sampled": lambda: cge.CGE("average", classifier="consistency", **_QUICK),
    "transductive": lambda: cge.PaperCGE("transductive", "cnn", **_PAPER),
    "inductive": lambda: cge.PaperCGE("inductive", "uniform", **_PAPER),
    "walks": lambda: cge.DeepWalk(dim=4, walks_per_node=1, walk_length=4, window=2),
    "label propagation": LabelPropagation,
    "walk classifier": WalkClassifier,
    "gcn": lambda: GCN(epochs=2),
}


@cache
def saved() -> dict[str, tuple[bytes, bytes]]:
    """Train a small model of each kind; return its JSON and its tensors."""
    rng = np.random.default_rng(0)
    edges = [(f"n{a}", f"n{b}") for a in range(12) for b in rng.choice(12, 2).tolist() if a != b]
    graph = cge.Graph.from_edges(edges, rng.normal(size=(12, 3)), [f"n{k}" for k in range(12)])
    y = {f"n{k}": ("left", "right")[k % 2] for k in range(8)}
    files = {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, make in _KINDS.items():
            model, home = make(), Path(folder) / name
            (model.fit(graph) if name == "walks" else model.fit(graph, y)).save(home)
            files[name] = (home / "model.json").read_bytes(), next(home.glob("*.safetensors")).read_bytes()
    return files


def sealed(content: Any, tensors: bytes) -> Files:
    """Return the files of a folder whose JSON file has the correct hash of these tensors."""
    digest = hashlib.sha256(tensors).hexdigest()
    name = f"model-{digest[:16]}.safetensors"
    if isinstance(content, dict):
        content = with_hash(content | {"tensors": {"file": name, "sha256": digest, "size": len(tensors)}})
    return {"model.json": json.dumps(content).encode(), name: tensors}


def _draw(random: Random) -> Files:
    text, tensors = saved()[random.choice(sorted(saved()))]
    kind = random.randrange(6)
    if kind == 0:
        name = json.loads(text)["tensors"]["file"]
        if random.random() < 0.5:
            return {"model.json": damaged(text, random), name: tensors}
        return {"model.json": text, name: damaged(tensors, random)}
    content = json.loads(text)
    if kind == 1:  # the header of the tensors, or any of their bytes
        end = 8 + int.from_bytes(tensors[:8], "little")
        if random.random() < 0.5:
            header = json.dumps(damaged_json(json.loads(tensors[8:end]), random)).encode()
            return sealed(content, len(header).to_bytes(8, "little") + header + tensors[end:])
        return sealed(content, damaged(tensors, random))
    if kind < 4:
        content["metadata"] = damaged_json(content["metadata"], random)
        return sealed(content, tensors)
    return sealed(content, save_tensors(_other_arrays(load_tensors(tensors), random)))


def _other_arrays(arrays: dict[str, Any], random: Random) -> dict[str, Any]:
    name = random.choice(sorted(arrays))
    array, kind = arrays[name], random.randrange(7)
    if kind == 0:
        del arrays[name]
    elif kind == 1:
        arrays[name] = arrays[random.choice(sorted(arrays))].copy()
    elif kind == 2:
        arrays[name] = array[: random.randrange(len(array) + 1)].copy() if array.ndim else array.reshape(1)
    elif kind == 3:
        arrays[name] = np.repeat(array, random.randrange(3), axis=0) if array.ndim else array
    elif kind == 4:
        with np.errstate(all="ignore"):
            arrays[name] = array.astype(random.choice(("int64", "int32", "float32", "float64", "uint8", "bool")))
    elif kind == 5:
        arrays[name] = array.reshape(random.choice(((-1,), (1, *array.shape), (*array.shape, 1))))
    elif array.size:
        changed = array.copy().reshape(-1)
        with np.errstate(all="ignore"):
            value = random.choice((0, 1, -1, 100, 2**31 - 1, -(2**31), np.nan, np.inf, 1e30))
            changed[random.randrange(array.size)] = np.array(value).astype(array.dtype)
        arrays[name] = changed.reshape(array.shape)
    return arrays


def _load(folder: Path, _: Files) -> object:
    return cge.load(folder)


MODELS: dict[str, Target] = {"model": Target({}, _load, share=2, draw=_draw)}
