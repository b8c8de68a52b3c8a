"""`cge similar`: the nodes whose vectors are most similar to that of a node."""

from __future__ import annotations

from typing import Annotated

import typer

from cge.cli.common_options import Json, ModelFolder, ModelJobs, among, int64
from cge.cli.model_files import ids_of, load_model, printable, require_vectors
from cge.cli.printing import print_json, print_table
from cge.errors import InputError, format_value


def similar(
    folder: ModelFolder,
    node: Annotated[str, typer.Argument(metavar="ID", help="A node; write -- before one that starts with a minus.")],
    top: Annotated[int, typer.Option(min=1, callback=int64, help="How many nodes.")] = 10,
    metric: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="'cosine', or 'dot' for inner products.", autocompletion=among("cosine", "dot")
        ),
    ] = "cosine",
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="'exact', or 'approximate' with an index of usearch; 'auto' is exact for one node.",
            autocompletion=among("auto", "exact", "approximate"),
        ),
    ] = "auto",
    n_jobs: ModelJobs = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the ids, one per line.")] = False,
    as_json: Json = False,
) -> None:
    """List the nodes whose vectors are most similar to that of a node.

    Ties are in the order of the graph's nodes. The node itself is left out.

    For example:

      cge similar model 35
      cge similar model ann --top 3 --metric dot --json
    """
    from cge.estimators.similar import METHODS, METRICS, SimilarNodes

    for option, value, legal in (("--metric", metric, METRICS), ("--method", method, METHODS)):
        if value not in legal:  # before a large model is read
            raise InputError(f"{option} must be one of {', '.join(map(repr, legal))}, found {format_value(value)}")
    model = load_model(folder, n_jobs)
    require_vectors(model, folder)
    node_id = ids_of(model, [node])[0]
    if node_id not in model.graph_:
        first = ", ".join(map(format_value, model.node_ids_[:3].tolist()))
        raise InputError(f"there is no node {format_value(node_id)} in {folder}, whose first ids are {first}")
    search = SimilarNodes(model.node_ids_, model.embedding_, metric, method=method)
    neighbors = search.of(node_id, top)
    if as_json:
        query = {"folder": folder, "node": node_id, "metric": metric, "method": search.method_for(1)}
        print_json(query | {"nodes": len(model.node_ids_), "similar": [row._asdict() for row in neighbors]})
    elif quiet:
        for row in neighbors:
            print(printable(row.node))
    else:
        title = "cosine" if metric == "cosine" else "inner product"
        print_table(
            [("node", "left"), (title, "right")], [(printable(row.node), f"{row.score:.4f}") for row in neighbors]
        )
