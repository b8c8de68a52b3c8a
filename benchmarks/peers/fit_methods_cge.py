# mypy: disable-error-code="import-not-found,import-untyped,no-untyped-call"
"""A whole fit of one estimator: seconds, memory and accuracies, compared with those of GCN."""

import warnings
from typing import Any

import networkx as nx
import numpy as np
from measure import job, peak_mb, report, selected_by, timed

import cge
from cge.data.dataset import Dataset
from cge.data.splits import Split
from cge.estimators.baselines import SGC, LabelPropagation, WalkClassifier
from cge.estimators.configs import make_estimator
from cge.estimators.graph_networks import GCN
from cge.evaluation.protocol import split_of

_ESTIMATORS: dict[str, Any] = {
    "CGE": cge.CGE,
    "GCN": GCN,
    "SGC": SGC,
    "LabelPropagation": LabelPropagation,
    "WalkClassifier": WalkClassifier,
}
_LIMITS = {"CGE": "max_epochs", "GCN": "epochs"}  # the settings that limit epochs
_LEFT_OUT = {"SGC": ("random_state", "n_jobs"), "LabelPropagation": ("random_state", "n_jobs")}  # settings they lack


class PyGGCN:
    """The GCN of PyTorch Geometric, with the settings of ours: 32 hidden units, Adam, patience 100."""

    def __init__(self, random_state: int = 0, n_jobs: int | None = None, epochs: int = 300) -> None:
        self.random_state, self.n_jobs, self.epochs = random_state, n_jobs, epochs

    def fit(self, graph: Any, y: Any, validation: Any) -> "PyGGCN":
        """Train, and keep the predictions of the epoch with the highest validation accuracy."""
        import torch
        from torch_geometric import nn

        torch.manual_seed(self.random_state)
        rows = graph.features.toarray() if hasattr(graph.features, "toarray") else graph.features
        rows = rows / np.maximum(np.abs(rows).sum(1, keepdims=True), 1e-9)
        x, edges = torch.from_numpy(rows.astype(np.float32)), torch.from_numpy(np.stack(graph.to_scipy().nonzero()))
        self.graph_ = graph
        parts = [
            (torch.from_numpy(np.flatnonzero(part >= 0)), torch.from_numpy(part[part >= 0])) for part in (y, validation)
        ]
        network = nn.GCN(x.shape[1], 32, 2, int(parts[0][1].max()) + 1, dropout=0.5)
        optimizer = torch.optim.Adam(network.parameters(), lr=0.01, weight_decay=5e-4)
        best, since = -1.0, 0
        for _ in range(self.epochs):
            network.train()
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(x, edges)[parts[0][0]], parts[0][1]).backward()
            optimizer.step()
            network.eval()
            with torch.no_grad():
                predicted = network(x, edges).argmax(1)
            accuracy = float((predicted[parts[1][0]] == parts[1][1]).float().mean())
            since += 1
            if accuracy > best:
                best, since, self.predicted_ = accuracy, 0, predicted.numpy()
            if since >= 100:
                break
        return self

    def score(self, nodes: Any, labels: Any) -> float:
        """Return the accuracy."""
        return float((self.predicted_[self.graph_.indices_of(nodes)] == labels).mean())


def load(name: str) -> tuple[Any, Any]:
    """Return a data set with its split; "les-miserables" has 77 nodes and the communities of its characters."""
    if name != "les-miserables":
        return split_of(cge.load_dataset(name), 0)
    network = nx.les_miserables_graph()
    communities = nx.community.greedy_modularity_communities(network, weight="weight")
    labels = {node: number for number, part in enumerate(communities) for node in part}
    graph = cge.Graph.from_networkx(network)
    values = np.array([labels[node] for node in graph.node_ids.tolist()])
    order = np.random.default_rng(0).permutation(len(values))
    split = Split(train=np.sort(order[:30]), validation=np.sort(order[30:50]), test=np.sort(order[50:]))
    names = tuple(str(number) for number in range(len(communities)))
    return Dataset("les-miserables", graph, values, names), split


def main() -> None:
    """Do the job."""
    task = job()
    warnings.simplefilter("ignore")
    name = task["estimator"]
    data, split = load(task["data"])

    def fit(data: Any, split: Any, epochs: int | None) -> Any:
        settings = task["settings"] | {"random_state": task["seed"], "n_jobs": task["n_jobs"]}
        settings = {key: value for key, value in settings.items() if key not in _LEFT_OUT.get(name, ())}
        limit = {} if epochs is None or name not in (*_LIMITS, "PyGGCN") else {_LIMITS.get(name, "epochs"): epochs}
        model = PyGGCN(**settings, **limit) if name == "PyGGCN" else make_estimator(_ESTIMATORS[name], settings | limit)
        return model.fit(data.graph, data.labels_of(split.train), data.labels_of(split.validation))

    fit(*load("cora"), 1)  # compiles
    model, wall, cpu = timed(lambda: fit(data, split, task["max_epochs"]))
    peak = peak_mb()
    walls, cpus = [wall], [cpu]
    while len(walls) < task["repeats"] and sum(walls) + wall < task["patience"]:
        _, wall, cpu = timed(lambda: fit(data, split, task["max_epochs"]))
        walls.append(wall)
        cpus.append(cpu)
    wall = min(walls)
    details: dict[str, Any] = {"repeats": len(walls)}
    notes = [f"{wall:.2f} s per run, {min(cpus):.2f} CPU s"]
    if task["gcn"]:
        details |= {"times_gcn": wall / task["gcn"]["seconds"], "memory_times_gcn": peak / task["gcn"]["peak_mb"]}
        notes[0] += f": {details['times_gcn']:.2f} × GCN; memory {details['memory_times_gcn']:.2f} × GCN"
    for part in ("validation", "test"):
        nodes = getattr(split, part)
        details[part] = model.score(data.graph.node_ids[nodes], data.labels[nodes])
    notes.append(f"accuracy {details['validation']:.3f} validation, {details['test']:.3f} test")
    if name == "CGE":
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
