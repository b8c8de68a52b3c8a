"""`cge similar`: the nodes whose vectors are most like a node's."""

from __future__ import annotations

from typing import Annotated

import typer

from cge.cli.common_options import Json, ModelJobs, among
from cge.cli.model_files import ids_of, load_model, printable
from cge.cli.printing import print_json, print_table
from cge.errors import InputError, format_value

__all__ = ["similar"]


def similar(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder of a model that was saved.")],
    node: Annotated[str, typer.Argument(metavar="ID", help="A node; put -- before one that begins with a minus sign.")],
    top: Annotated[int, typer.Option(min=1, help="How many nodes.")] = 10,
    metric: Annotated[
        str,
        typer.Option(
            metavar="WORD", help="'cosine', or 'dot' for inner products.", autocompletion=among("cosine", "dot")
        ),
    ] = "cosine",
    method: Annotated[
        str,
        typer.Option(
            metavar="WORD",
            help="'exact', or 'approximate' with an index of usearch; 'auto' is exact for one node.",
            autocompletion=among("auto", "exact", "approximate"),
        ),
    ] = "auto",
    n_jobs: ModelJobs = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the ids alone, one on a line.")] = False,
    as_json: Json = False,
) -> None:
    """List the nodes of a saved model whose vectors are most like that of one node.

    Equal ones stand in the order of the graph's nodes. The node itself is left out.

    For example:

      cge similar model 35
      cge similar model ann --top 3 --metric dot --json
    """
    from cge.estimators.similar import METHODS, METRICS, SimilarNodes

    for option, value, legal in (("--metric", metric, METRICS), ("--method", method, METHODS)):
        if value not in legal:  # told before a large model is read
            raise InputError(f"{option} must be one of {', '.join(map(repr, legal))}, found {format_value(value)}")
    model = load_model(folder, n_jobs)
    if not hasattr(model, "embedding_"):
        raise InputError(f"{folder} holds a {type(model).__name__}, which has no vectors; train one with 'cge fit'")
    name = ids_of(model, [node], "ID")[0]
    if name not in model.graph_:
        first = ", ".join(map(format_value, model.node_ids_[:3].tolist()))
        raise InputError(
            f"there is no node {format_value(name)} in {folder}, whose first ids are {first}; choose one of its ids"
        )
    search = SimilarNodes(model.node_ids_, model.embedding_, metric, method=method)
    found = search.of(name, top)
    if as_json:
        rows = [one._asdict() for one in found]
        used = {"folder": folder, "node": name, "metric": metric, "method": search.used(1)}
        print_json(used | {"nodes": len(model.node_ids_), "similar": rows})
    elif quiet:
        for one in found:
            print(printable(one.node))
    else:
        title = "cosine" if metric == "cosine" else "inner product"
        print_table([("node", "left"), (title, "right")], [(printable(one.node), f"{one.score:.4f}") for one in found])
