"""`cge bench update`: changed edges of a trained model, against a pass over all nodes with the same parameters.

Three graphs: a grid (degree 4, as in road networks), local edges (a ring whose nodes are joined to nearby ones, mean
degree 10) and random edges (mean degree 10); K = 2 hops reach few nodes of the first and many of the last. A model is
trained for a few epochs. The full pass predicts and embeds all nodes of the changed graph; the update changes edges at
random places, half of them removed, and its time includes the new graph. The rows of both are compared bit by bit.
`computed again` is the share of the nodes within K hops of a change; around these, the inputs of the nodes of K + 1
more hops are needed. CPU times; their ratio matters.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.report import machine_description, save_table
from cge.data.graph_update import GraphUpdate
from cge.errors import CgeWarning
from cge.estimators.cge import CGE
from cge.estimators.model_update import updated_model
from cge.estimators.predictions import extended_graph
from cge.graph import Graph
from cge.training.encoder_data import EncoderData

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="cge bench update", description=str(__doc__).splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--save", action="store_true", help="write results/update.json and .md")
    parser.add_argument("--nodes", type=int, default=1_000_000, help="default: %(default)s")
    parser.add_argument("--edges", type=int, default=1_000, help="changed edges; default: %(default)s")
    parser.add_argument("--hops", type=int, default=2, help="default: %(default)s")
    args = parser.parse_args(argv)
    rows: list[dict[str, Any]] = []
    for kind in ("grid", "local", "random"):
        rows.append(_measure(kind, args.nodes, args.edges, args.hops))
        lines = _table(rows)
        if args.save:  # after each graph
            save_table("update", __doc__, _result(rows), lines)
    print(json.dumps(_result(rows)) if args.json else "\n".join(lines))
    return 0 if all(row["same"] for row in rows) else 1


def _result(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"bench": "update", "machine": machine_description([]), "rows": rows}


def _table(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| graph | nodes | changed edges | computed again | full pass, CPU s | update, CPU s | share | same bytes |",
        "|---|--:|--:|--:|--:|--:|--:|---|",
    ]
    return lines + [
        f"| {row['graph']} | {row['nodes']:,} | {row['edges']:,} | {row['affected']:,} "
        f"({row['affected'] / row['nodes']:.1%}) | "
        f"{row['full_cpu_seconds']:.2f} | {row['cpu_seconds']:.2f} | "
        f"{row['cpu_seconds'] / row['full_cpu_seconds']:.1%} | {'yes' if row['same'] else 'NO'} |"
        for row in rows
    ]


def _measure(kind: str, nodes: int, edges: int, hops: int) -> dict[str, Any]:
    random = np.random.default_rng(0)
    steps = np.array([1, int(nodes**0.5)] if kind == "grid" else [])  # to the neighbors in a row and in a column

    def shifts(count: int) -> Any:
        return random.choice(steps, count) if kind == "grid" else random.integers(1, limit, count)

    limit, per_node = (20 if kind == "local" else nodes), (2 if kind == "grid" else 5)
    source = np.tile(np.arange(nodes), per_node)
    shift = np.repeat(steps, nodes) if kind == "grid" else shifts(per_node * nodes)
    features = random.random((nodes, 32), np.float32)
    classes = np.arange(nodes) * 10 // nodes
    features[np.arange(nodes), classes] += 0.5
    graph = Graph.from_edges(np.stack([source, (source + shift) % nodes], axis=1), features)
    labels = {int(node): int(classes[node]) for node in random.choice(nodes, 500, replace=False)}
    model = CGE("degree", hops=hops, classifier="mlp", label_propagation=False, training={"max_epochs": 5})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CgeWarning)
        model.fit(graph, labels)
    fitted: Any = model.fitted_
    fitted.own_vectors, fitted.own_inputs.reached  # noqa: B018 - computed once, as in a server
    updated_model(fitted, extended_graph(model, GraphUpdate([(0, 7)])), fitted.train, np.empty(0, np.int64))  # loads
    row = random.integers(0, nodes, edges)
    removed = np.stack([row, graph.indices[graph.indptr[row]]], axis=1)[: edges // 2]
    far = shifts(edges - edges // 2) + (kind == "grid")  # diagonals: the other edges of a grid are there already
    update = GraphUpdate(np.stack([row[edges // 2 :], (row[edges // 2 :] + far) % nodes], axis=1), remove_edges=removed)
    start, cpu = time.perf_counter(), time.process_time()
    grown = extended_graph(model, update, replace_features=True)
    updated, affected = updated_model(fitted, grown, fitted.train, np.empty(0, np.int64))
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    start, cpu = time.perf_counter(), time.process_time()
    full = EncoderData(grown.graph, training_data=fitted.data)
    everything: Any = type(fitted)(
        **{name: getattr(fitted, name) for name in ("selection", "ensemble", "calibration", "weighting_selected")},
        **{name: getattr(fitted, name) for name in ("target", "train", "validation", "log")},
        data=full,
        stored_scales=tuple(fitted.vector_scales),
    )
    vectors, probabilities = everything.own_vectors, everything.probabilities(None, np.arange(nodes))
    full_seconds, full_cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    same = np.array_equal(updated.own_vectors, vectors)
    same &= np.array_equal(updated.probabilities(None, np.arange(nodes)), probabilities)
    counts = {"nodes": nodes, "edges": edges, "affected": len(affected), "hops": hops}
    return (
        {"graph": kind}
        | counts
        | {
            "seconds": seconds,
            "full_seconds": full_seconds,
            "cpu_seconds": cpu_seconds,
            "full_cpu_seconds": full_cpu_seconds,
            "same": bool(same),
        }
    )


if __name__ == "__main__":
    sys.exit(main())
