"""`cge check`: read a graph's files and say what is in them, before anything is trained."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from cge.cli.printing import facts, print_json

__all__ = ["check"]


def check(
    edges: Annotated[Path, typer.Argument(help="Edges: .csv, .tsv, .txt (each also .gz), .parquet, .npz or .mtx.")],
    labels: Annotated[Path | None, typer.Option(help="Labels: a table of node and label.")] = None,
    features: Annotated[Path | None, typer.Option(help="Features: a table keyed by node, .npy or .npz.")] = None,
    nodes: Annotated[Path | None, typer.Option(help="All nodes, one per line, so that isolated ones are kept.")] = None,
    directed: Annotated[bool, typer.Option("--directed", help="Edges have a direction.")] = False,
    self_loops: Annotated[bool, typer.Option("--self-loops", help="Keep edges from a node to itself.")] = False,
    multilabel: Annotated[bool, typer.Option("--multilabel", help="A node may have several labels.")] = False,
    ids: Annotated[str, typer.Option(help="Read node ids as 'int' or 'str'; 'auto' looks at the first row.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Read a graph, its labels and its features, and say what is in them or what is wrong with them.

    For example:

    cge check edges.csv

    cge check edges.tsv.gz --labels labels.csv --features features.npz --directed
    """
    from cge.data import read_graph, read_labels

    graph = read_graph(edges, features, nodes=nodes, directed=directed, self_loops=self_loops, ids=ids)
    summary = graph.summary()
    counts: dict[str, int] = {}
    labeled = 0
    if labels is not None:
        values, names = read_labels(labels, graph, multilabel=multilabel)
        known = values.any(axis=1) if values.ndim == 2 else values >= 0
        labeled = int(np.count_nonzero(known))
        sizes = values.sum(axis=0) if values.ndim == 2 else np.bincount(values[known], minlength=len(names))
        counts = dict(zip(names, sizes.tolist(), strict=True))
    if as_json:
        print_json({"graph": asdict(summary), "labeled": labeled, "classes": counts})
        return
    rows = summary.rows()
    if labels is not None:
        largest = sorted(counts.items(), key=lambda pair: -pair[1])
        listed = ", ".join(f"{name} {count:,}" for name, count in largest[:8]) + (", …" if len(largest) > 8 else "")
        rows += [("labeled nodes", f"{labeled:,} of {graph.num_nodes:,}"), ("classes", f"{len(counts):,}: {listed}")]
    facts(rows)
