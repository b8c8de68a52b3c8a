"""Saved models with intact files but inconsistent content: `cge.load` raises an error."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

import cge
from cge.errors import FileFormatError, InputError
from tests.fuzzing.models import saved, sealed

Change = Callable[[dict[str, Any], dict[str, Any]], object]


def refused(kind: str, change: Change, folder: Path) -> str:
    text, tensors = saved()[kind]
    content, arrays = json.loads(text), load_tensors(tensors)
    change(content["metadata"], arrays)
    for name, data in sealed(content, save_tensors(arrays)).items():
        (folder / name).write_bytes(data)
    with pytest.raises(FileFormatError) as error:
        cge.load(folder)
    assert str(error.value).startswith(f"{folder}: this folder does not hold a complete ")
    assert str(error.value).endswith("; save the model again")
    return error.value.problem


@pytest.mark.parametrize(
    ("kind", "change", "problem"),
    [
        ("edges", lambda metadata, _: metadata.update(ensemble=[]), "there is no classifier"),
        (
            "edges",
            lambda metadata, _: metadata["selection"].update(hop_weights=10**12),
            "1,000,000,000,000 hop weights, but paths have at most 4 hops",
        ),
        ("edges", lambda metadata, _: metadata.update(best_epoch=99), "the best epoch, 99, is not in the history"),
        (
            "edges",
            lambda metadata, _: metadata.update(selection_history=[]),
            ", is not in the history",
        ),
        ("transductive", lambda metadata, _: metadata.update(best_epoch=0), "the best epoch, 0, is not in the history"),
        ("edges", lambda metadata, _: metadata.update(labels_seen=7), "'labels_seen' must be an object, found 7"),
        ("edges", lambda metadata, _: metadata.update(cross_validated=1), "'cross_validated' must be a bool, found 1"),
        (
            "edges",
            lambda _, arrays: arrays["ensemble.0.offset"].fill(np.nan),
            "the parameters ensemble.0.offset are not finite",
        ),
        ("walks", lambda _, arrays: arrays["embedding"].fill(np.nan), "its vectors are not finite"),
        ("edges", lambda _, arrays: arrays["scale.spread"].fill(0), "the scale of edge inputs must be positive"),
        (
            "edges",
            lambda _, arrays: arrays.update({"train.nodes": arrays["train.nodes"].astype(np.float64)}),
            "the train labels do not belong to this graph",
        ),
        (
            "inductive",
            lambda _, arrays: arrays.pop("validation.probabilities"),
            "the probabilities of the validation labels are missing",
        ),
        ("sampled", lambda metadata, _: metadata["calibration"].update(temperature=0.0), "must be positive and finite"),
        ("transductive", lambda metadata, _: metadata.update(temperature=-1.0), "must be positive and finite"),
    ],
)
def test_inconsistent_content_is_refused(kind: str, change: Change, problem: str, tmp_path: Path) -> None:
    assert problem in refused(kind, change, tmp_path)


def test_the_number_of_jobs_does_not_change_results(tmp_path: Path) -> None:
    edges = [(node, (node + step) % 30) for node in range(30) for step in (1, 2)]
    model = cge.CGE(n_jobs=2, training={"max_epochs": 3}).fit(cge.Graph.from_edges(edges), {0: "a", 1: "b", 15: "b"})
    model.save(tmp_path / "model")
    assert cge.load(tmp_path / "model").n_jobs == 2
    again = cge.load(tmp_path / "model", n_jobs=1)
    assert again.n_jobs == again.fitted_.data.n_jobs == 1
    assert np.array_equal(again.predict_proba(), model.predict_proba())
    with pytest.raises(InputError, match="n_jobs must be"):
        cge.load(tmp_path / "model", n_jobs=0)
