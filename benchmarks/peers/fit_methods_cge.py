# mypy: disable-error-code="import-not-found"
"""A whole fit of one estimator: seconds, memory, accuracies, and how many times GCN's the first two are."""

import warnings
from typing import Any

from measure import chosen_by, job, peak_mb, report, timed

import cge
from cge.estimators.graph_networks import GCN

_ESTIMATORS: dict[str, tuple[Any, str]] = {"CGE": (cge.CGE, "max_epochs"), "GCN": (GCN, "epochs")}  # what limits epochs


def main() -> None:
    """Do the job."""
    task = job()
    warnings.simplefilter("ignore")
    estimator, limit = _ESTIMATORS[task["estimator"]]
    data: Any = cge.load_dataset(task["data"])

    def fit(of: Any, most: int | None) -> Any:
        settings = task["settings"] | ({} if most is None else {limit: most})
        model = estimator(**settings, random_state=task["seed"], n_jobs=task["n_jobs"])
        return model.fit(of.graph, of.labels_of(of.split.train), of.labels_of(of.split.validation))

    fit(cge.load_dataset("cora"), 1)  # compiles
    model, wall, cpu = timed(lambda: fit(data, task["max_epochs"]))
    peak = peak_mb()
    walls, cpus = [wall], [cpu]
    while len(walls) < task["repeats"] and sum(walls) + wall < task["patience"]:
        _, wall, cpu = timed(lambda: fit(data, task["max_epochs"]))
        walls.append(wall)
        cpus.append(cpu)
    wall = min(walls)
    facts: dict[str, Any] = {"repeats": len(walls)}
    notes = [f"{wall:.2f} s a run"]
    if task["gcn"]:
        facts |= {"times_gcn": wall / task["gcn"]["seconds"], "memory_times_gcn": peak / task["gcn"]["peak_mb"]}
        notes[0] += f": {facts['times_gcn']:.2f} × GCN's; memory {facts['memory_times_gcn']:.2f} × GCN's"
    for part in ("validation", "test"):
        nodes = getattr(data.split, part)
        facts[part] = model.score(data.graph.node_ids[nodes], data.labels[nodes])
    notes.append(f"accuracy {facts['validation']:.3f} validation, {facts['test']:.3f} test")
    if task["estimator"] == "CGE":
        more, note = chosen_by(model)
        facts |= more
        notes.append(note)
    report(
        work=data.graph.num_nodes,
        seconds=wall,
        cpu_seconds=min(cpus),
        peak_mb=peak,
        **facts,
        note="; ".join(notes),
    )


if __name__ == "__main__":
    main()
