"""`cge predict`: what a saved model says of nodes, of those it was trained on and of new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cge.cli.common_options import Json, ModelJobs, Quiet
from cge.cli.flags import shell_message
from cge.cli.graph_options import DELIMITERS, FILES, column_of, need_file
from cge.cli.model_files import (
    EXACT,
    ids_of,
    load_model,
    need_predictions,
    note_of_guards,
    output_file,
    split_ids,
    tell,
)
from cge.cli.prediction_table import columns_of, content_of, print_predictions
from cge.cli.printing import print_json

if TYPE_CHECKING:
    from cge.data.graph_update import GraphUpdate
    from cge.estimators.predictions import Predictions

__all__ = ["predict"]


def _read(*names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel="How to read new edges", **more)


def predict(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder of a model that 'cge fit' saved.")],
    graph: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="New edges, among new nodes and to known ones.", rich_help_panel=FILES),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Features of new nodes: a table keyed by node, or .npy or .npz.", rich_help_panel=FILES
        ),
    ] = None,
    feature_nodes: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Nodes of the rows of .npy or .npz, one per line.", rich_help_panel=FILES),
    ] = None,
    nodes: Annotated[
        str | None,
        typer.Option(
            metavar="IDS", help="Only these ids, separated by commas; by default all of training, or all new ones."
        ),
    ] = None,
    out: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write all of it to a .csv, .tsv, .parquet or .json file.")
    ] = None,
    weighted: Annotated[bool | None, _read("--weighted/--unweighted", help="Demand weights, or ignore them.")] = None,
    self_loops: Annotated[bool, _read("--self-loops", help="Keep edges from a node to itself.")] = False,
    delimiter: Annotated[
        str | None, _read(metavar="SIGN", help="What separates columns of edges: one sign, 'tab' or 'space'.")
    ] = None,
    header: Annotated[
        bool | None, _read("--header/--no-header", help="Whether the first row of edges names the columns.")
    ] = None,
    comment: Annotated[str, _read(metavar="SIGN", help="What begins a line to skip; '' for nothing.")] = "#",
    source: Annotated[str | None, _read(metavar="COLUMN", help="Sources: a name, or a number from 1.")] = None,
    target: Annotated[str | None, _read(metavar="COLUMN", help="Targets, likewise.")] = None,
    weight: Annotated[str | None, _read(metavar="COLUMN", help="Weights of edges, likewise.")] = None,
    edge_type: Annotated[str | None, _read(metavar="COLUMN", help="Types of edges, likewise.")] = None,
    exact: Annotated[bool, typer.Option("--exact", help=EXACT)] = False,
    n_jobs: ModelJobs = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Predict classes with a saved model, of the nodes it was trained on or of new ones.

    New edges and features are put together with the graph of the model, so that known neighbors count. Each node comes
    with its class, the model's confidence in it, the chances of all classes, and the way it was predicted.

    For example:

      cge predict model --nodes 35,40
      cge predict model --out predictions.csv
      cge predict model --graph new-edges.csv --features new.csv --out predictions.parquet
    """
    from cge.store.export_tables import count_escaped_cells
    from cge.store.exports import TABLES, write_predictions

    if out is not None:
        output_file(out, TABLES, inputs=[graph, features, feature_nodes])
    columns = {"source": source, "target": target, "weight": weight, "edge_type": edge_type}
    ways = {"delimiter": delimiter, "self_loops": self_loops}
    ways |= {"header": header is not None, "weighted": weighted is not None}
    need_file("--graph", graph, columns | ways)
    words = None if nodes is None else split_ids(nodes)
    model = load_model(folder, n_jobs)
    need_predictions(model, folder)
    ends: dict[str, Any] = {name: column_of(given) for name, given in columns.items()} | {"weighted": weighted}
    text = (header, delimiter and DELIMITERS.get(delimiter, delimiter), comment or None)
    new, notes = _new_nodes(model, (graph, features, feature_nodes), ends, text, self_loops)
    found, more = _predictions(model, None if words is None else ids_of(model, words, "--nodes"), new)
    notes = [shell_message(note) for note in (*notes, *more)]
    if out is not None:
        table = columns_of(found)
        write_predictions(out, table, lambda: {"folder": folder} | content_of(found), exact=exact)
        if not exact and out.lower().endswith((".csv", ".tsv")):
            notes += note_of_guards(count_escaped_cells(table))
    if as_json:
        content = content_of(found, full=out is None)  # else they are in the file
        print_json({"folder": folder, "out": out, "notes": notes} | content)
    elif not quiet:
        tell(notes)
        print_predictions(found, out)


def _new_nodes(
    model: Any, files: tuple[str | None, ...], ends: dict[str, Any], text: tuple[Any, ...], self_loops: bool
) -> tuple[GraphUpdate | None, list[str]]:
    """Read new edges and features, where there are any."""
    from cge.data.files.dialect import TextOptions
    from cge.data.files.edges import EdgeOptions
    from cge.data.files.graph_update_files import read_graph_update

    options = EdgeOptions(**ends, text=TextOptions(*text))
    if files == (None, None, None):
        return None, []
    return read_graph_update(model.graph_, *files[:2], feature_nodes=files[2], options=options, self_loops=self_loops)


def _predictions(model: Any, wanted: list[Any] | None, new: GraphUpdate | None) -> tuple[Predictions, list[str]]:
    from cge.estimators.predictions import predict_nodes

    return predict_nodes(model, wanted, new)
