# mypy: disable-error-code="import-not-found"
"""A whole fit of one estimator: seconds, memory and accuracies, compared with those of GCN."""

import warnings
from typing import Any

from measure import job, peak_mb, report, selected_by, timed

import cge
from cge.estimators.configs import make_estimator
from cge.estimators.graph_networks import GCN

_ESTIMATORS: dict[str, tuple[Any, str]] = {
    "CGE": (cge.CGE, "max_epochs"),
    "GCN": (GCN, "epochs"),
}  # the setting that limits epochs


def main() -> None:
    """Do the job."""
    task = job()
    warnings.simplefilter("ignore")
    estimator, limit = _ESTIMATORS[task["estimator"]]
    data: Any = cge.load_dataset(task["data"])

    def fit(dataset: Any, epochs: int | None) -> Any:
        settings = task["settings"] | {"random_state": task["seed"], "n_jobs": task["n_jobs"]}
        model = make_estimator(estimator, settings | ({} if epochs is None else {limit: epochs}))
        split = dataset.split
        return model.fit(dataset.graph, dataset.labels_of(split.train), dataset.labels_of(split.validation))

    fit(cge.load_dataset("cora"), 1)  # compiles
    model, wall, cpu = timed(lambda: fit(data, task["max_epochs"]))
    peak = peak_mb()
    walls, cpus = [wall], [cpu]
    while len(walls) < task["repeats"] and sum(walls) + wall < task["patience"]:
        _, wall, cpu = timed(lambda: fit(data, task["max_epochs"]))
        walls.append(wall)
        cpus.append(cpu)
    wall = min(walls)
    details: dict[str, Any] = {"repeats": len(walls)}
    notes = [f"{wall:.2f} s per run"]
    if task["gcn"]:
        details |= {"times_gcn": wall / task["gcn"]["seconds"], "memory_times_gcn": peak / task["gcn"]["peak_mb"]}
        notes[0] += f": {details['times_gcn']:.2f} × GCN; memory {details['memory_times_gcn']:.2f} × GCN"
    for part in ("validation", "test"):
        nodes = getattr(data.split, part)
        details[part] = model.score(data.graph.node_ids[nodes], data.labels[nodes])
    notes.append(f"accuracy {details['validation']:.3f} validation, {details['test']:.3f} test")
    if task["estimator"] == "CGE":
        selected, note = selected_by(model)
        details |= selected
        notes.append(note)
    report(
        work=data.graph.num_nodes,
        seconds=wall,
        cpu_seconds=min(cpus),
        peak_mb=peak,
        **details,
        note="; ".join(notes),
    )


if __name__ == "__main__":
    main()
