"""`cge demo`: what the library does, on a citation graph that comes with it."""

from __future__ import annotations

from typing import Annotated

import typer

from cge.cli.printing import facts, heading, print_json, print_table

__all__ = ["demo"]

_SHOWN = 6


def demo(
    seed: Annotated[int, typer.Option(min=0, help="Seed of the walks.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Show CORA, the citation graph that comes with cge, and paths sampled from it.

    Nodes are papers, edges are citations, classes are fields. Needs no network and no files.

    Example: cge demo --seed 3
    """
    from cge.data import load_dataset
    from cge.sampling import PathTable, Walker

    data = load_dataset("cora")
    walker = Walker(data.graph, length=10, walks_per_node=10, seed=seed)
    paths = PathTable(window=3, shortest=2)
    for walks in walker.batches():
        paths.add(walks)
    sampled = walker.sample(0, _SHOWN)
    names, classes = data.graph.node_ids, [*data.class_names, "unknown"]
    shown = [
        [{"paper": names[node].item(), "class": classes[data.labels[node]]} for node in walk[:4].tolist() if node >= 0]
        for walk in sampled
    ]
    if as_json:
        print_json(
            {
                "dataset": data.name,
                "nodes": data.graph.num_nodes,
                "edges": data.graph.num_edges,
                "classes": data.label_counts(),
                "walks": walker.num_walks,
                "subpaths": int(paths.counts.sum()),
                "distinct_subpaths": len(paths),
                "paths": shown,
            }
        )
        return
    heading("CORA: papers that cite each other")
    facts(data.rows())
    print()
    heading(f"The first four nodes of {_SHOWN} random walks")
    print_table(
        [("path", "left"), ("fields", "left")],
        [
            (
                " → ".join(str(node["paper"]) for node in walk),
                " → ".join(str(node["class"]) for node in walk),
            )
            for walk in shown
        ],
    )
    print()
    total, distinct = int(paths.counts.sum()), len(paths)
    print(
        f"{walker.num_walks:,} walks of 10 nodes hold {total:,} paths of 2 or 3 nodes, {distinct:,} of them distinct."
    )
    print("Most tools treat all of them alike. What cge is for is to learn which of them matter for your labels.")
