"""`cge demo`: what the library does, on a citation graph that comes with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cge.cli.printing import facts, heading, print_json, print_table

__all__ = ["demo"]

_SHOWN = 3  # walks that stay in a field, and as many that do not
_NODES = 4  # of each

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]


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
    inside, crossing = _telling_walks(walker.sample(0, data.graph.num_nodes)[:, :_NODES], data.labels)
    ends = data.labels[paths.paths.start] == data.labels[paths.paths.end]
    total, distinct, alike = int(paths.counts.sum()), len(paths), float(ends.mean())
    papers = data.graph.node_ids if data.node_titles is None else data.node_titles  # CORA's own ids of papers
    shown = [
        [{"paper": str(papers[node]), "field": data.class_names[data.labels[node]]} for node in walk]
        for walk in [*inside, *crossing]
    ]
    if as_json:
        print_json(
            {
                "dataset": data.name,
                "nodes": data.graph.num_nodes,
                "edges": data.graph.num_edges,
                "classes": data.label_counts(),
                "walks": walker.num_walks,
                "subpaths": total,
                "distinct_subpaths": distinct,
                "ends_in_same_field": alike,
                "paths": shown,
            }
        )
        return
    heading("CORA: papers that cite each other")
    facts(data.rows())
    print()
    heading(f"The first {_NODES} nodes of some random walks")
    print_table(
        [("papers", "left"), ("fields", "left")],
        [
            (" → ".join(node["paper"] for node in walk), _fields([node["field"].replace("_", " ") for node in walk]))
            for walk in shown
        ],
    )
    print()
    print(
        f"{walker.num_walks:,} walks of 10 nodes hold {total:,} paths of 2 or 3 nodes, {distinct:,} of them distinct."
    )
    print(f"{alike:.0%} of the distinct paths join papers of one field; the others lead astray if all count alike.")


def _fields(names: list[str]) -> str:
    return f"all in {names[0]}" if len(set(names)) == 1 else " → ".join(names)


def _telling_walks(walks: Array, labels: Array) -> tuple[list[list[int]], list[list[int]]]:
    """Return the first walks that stay in one class and the first that do not, as lists of nodes."""
    walks = walks[(walks >= 0).all(axis=1)]
    stays = (labels[walks] == labels[walks[:, :1]]).all(axis=1)
    return walks[stays][:_SHOWN].tolist(), walks[~stays][:_SHOWN].tolist()
