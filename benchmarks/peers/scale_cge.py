# mypy: disable-error-code="import-not-found"
"""The whole pipeline from files to vectors, predictions and a saved model: seconds and memory of each step."""

import math
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from measure import job, peak_mb, report, selected_by, timed

import cge
from cge.data.graph_update import GraphUpdate
from cge.estimators.predictions import predict_nodes
from cge.store.exports import Export, write_export

_SLOPE_STEPS = ("fit", "embed", "export")  # whose seconds are compared with those of a smaller graph
_NEW, _EDGES = 10_000, 10  # new nodes, and their edges to old nodes


@dataclass(frozen=True)
class Step:
    """A step of the pipeline: wall seconds, CPU seconds, and the peak memory of the process up to its end."""

    seconds: float
    cpu_seconds: float
    peak_mb: float


def main() -> None:
    """Do the job."""
    task = job()
    warnings.simplefilter("ignore")
    pipeline(task, task["warm_up"], max_epochs=2)  # compiles, and imports libraries
    baseline = peak_mb()
    steps, model, accuracy = pipeline(task, task["files"], task["max_epochs"])
    peak = peak_mb()
    for _ in range(task["repeats"] - 1):
        again, _, _ = pipeline(task, task["files"], task["max_epochs"])
        steps = min(steps, again, key=_seconds)
    size = {
        "nodes": model.graph_.num_nodes,
        "slope_seconds": sum(steps[name].seconds for name in _SLOPE_STEPS),
        "above_baseline_mb": peak - baseline,
    }
    details, selected = selected_by(model)
    notes = [
        f"{_seconds(steps):.1f} s: " + ", ".join(f"{name} {step.seconds:.1f}" for name, step in steps.items()),
        f"{size['above_baseline_mb']:,.0f} MB above {baseline:,.0f}",
        f"accuracy {accuracy:.3f}",
        selected,
    ]
    if task["smaller"]:
        details["slopes"] = slopes(task["smaller"], size)
        text = ", ".join(f"{name} {slope:.2f}" for name, slope in details["slopes"].items())
        notes.append(f"slope from {task['smaller']['nodes']:,} nodes: {text}")
    report(
        work=size["nodes"],
        seconds=_seconds(steps),
        cpu_seconds=sum(step.cpu_seconds for step in steps.values()),
        peak_mb=peak,
        **size,
        **details,
        edges=model.graph_.num_edges,
        baseline_mb=baseline,
        steps={name: vars(step) for name, step in steps.items()},
        accuracy=accuracy,
        repeats=task["repeats"],
        note="; ".join(notes),
    )


def pipeline(task: dict[str, Any], files: dict[str, str], max_epochs: int | None) -> tuple[dict[str, Step], Any, float]:
    """Read, fit, embed, export, save, load and predict old nodes and new ones; return steps, model and accuracy."""
    steps: dict[str, Step] = {}

    def step(name: str, work: Callable[[], Any]) -> Any:
        result, seconds, cpu_seconds = timed(work)
        steps[name] = Step(seconds, cpu_seconds, peak_mb())
        return result

    def read() -> Any:
        graph = cge.read_graph(files["edges"], files["features"], nodes=files["nodes"])
        return graph, *cge.read_labels(files["labels"], graph)

    graph, labels, names = step("read", read)
    model = cge.CGE(training={"max_epochs": max_epochs}, random_state=task["seed"], n_jobs=task["n_jobs"])
    step("fit", lambda: model.fit(graph, labels))
    vectors = step("embed", model.transform)
    with tempfile.TemporaryDirectory() as folder:
        step("export", lambda: write_export(Export(graph, vectors), Path(folder) / "vectors.parquet"))
        step("save", lambda: model.save(Path(folder) / "model"))
        model = step("load", lambda: cge.load(Path(folder) / "model"))
    predicted = step("predict", model.predict)
    new = graph_update(graph, task["seed"])
    step("new", lambda: predict_nodes(model, None, new))
    planted = np.array([int(name.removeprefix("class-")) for name in names])[predicted]
    return steps, model, float((planted == np.load(files["classes"]))[labels < 0].mean())


def graph_update(graph: Any, seed: int) -> GraphUpdate:
    """Return new nodes, each with the features of an old node and edges to others."""
    random = np.random.default_rng(seed)
    ids = np.array([f"new-{number}" for number in range(_NEW)])
    neighbors = graph.node_ids[random.integers(graph.num_nodes, size=_NEW * _EDGES)]
    features = graph.features[random.integers(graph.num_nodes, size=_NEW)]
    return GraphUpdate((np.repeat(ids, _EDGES), neighbors), feature_ids=ids, features=features)


def _seconds(steps: dict[str, Step]) -> float:
    return sum(step.seconds for step in steps.values())


def slopes(smaller: dict[str, float], larger: dict[str, float]) -> dict[str, float]:
    """Return the exponents with which time and memory grow with the number of nodes, where both are positive.

    >>> smaller = {"nodes": 10, "slope_seconds": 1.0, "above_baseline_mb": 5.0}
    >>> slopes(smaller, {"nodes": 1000, "slope_seconds": 100.0, "above_baseline_mb": 50.0})
    {'time': 1.0, 'memory': 0.5}
    """
    factor = math.log(larger["nodes"] / smaller["nodes"])
    keys = {"time": "slope_seconds", "memory": "above_baseline_mb"}
    return {
        name: math.log(larger[key] / smaller[key]) / factor
        for name, key in keys.items()
        if smaller[key] > 0 and larger[key] > 0
    }


if __name__ == "__main__":
    main()
