"""`cge predict`: the predictions of a saved model, for the nodes of its graph and for new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cge.cli.common_options import Exact, Json, ModelFolder, ModelJobs, Quiet
from cge.cli.flags import shell_message
from cge.cli.graph_options import (
    DELIMITERS,
    FILES,
    Comment,
    Delimiter,
    EdgeType,
    Header,
    SelfLoops,
    Source,
    Target,
    Weight,
    Weighted,
    column_of,
    require_file,
)
from cge.cli.model_files import (
    escape_note,
    ids_of,
    load_model,
    output_file,
    require_predictions,
    split_ids,
)
from cge.cli.prediction_table import print_predictions, to_columns, to_json
from cge.cli.printing import print_json, print_notes

if TYPE_CHECKING:
    from cge.data.graph_update import GraphUpdate

NewEdges = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="New edges, between new nodes or to nodes of the graph.", rich_help_panel=FILES),
]
NewFeatures = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Features of new nodes: a table with a node column, .npy or .npz.", rich_help_panel=FILES
    ),
]
FeatureNodes = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="The nodes of the rows of .npy or .npz, one per line.", rich_help_panel=FILES),
]
NodeIds = Annotated[
    str | None,
    typer.Option(
        metavar="IDS",
        help="Predict only these nodes: ids separated by commas \\[all nodes of the graph, or all new ones].",
    ),
]


def predict(
    folder: ModelFolder,
    graph: NewEdges = None,
    features: NewFeatures = None,
    feature_nodes: FeatureNodes = None,
    nodes: NodeIds = None,
    out: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write all predictions to a .csv, .tsv, .parquet or .json file.")
    ] = None,
    weighted: Weighted = None,
    self_loops: SelfLoops = False,
    delimiter: Delimiter = None,
    header: Header = None,
    comment: Comment = "#",
    source: Source = None,
    target: Target = None,
    weight: Weight = None,
    edge_type: EdgeType = None,
    exact: Exact = False,
    n_jobs: ModelJobs = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Predict classes with a saved model, for the nodes of its graph or for new ones.

    New edges and features are added to the graph of the model, so that neighbors in it are used. The output has the
    predicted class of each node, its confidence, the probabilities of all classes, and the evidence: whether the
    features of a new node, its edges, or both were used.

    For example:

      cge predict model --nodes 35,40
      cge predict model --out predictions.csv
      cge predict model --graph new-edges.csv --features new.csv --out predictions.parquet
    """
    from cge.estimators.predictions import predict_nodes
    from cge.store.export_formats import count_escaped_cells
    from cge.store.exports import TABLES, write_predictions

    if out is not None:
        output_file(out, TABLES, inputs=[graph, features, feature_nodes])
    columns = {"source": source, "target": target, "weight": weight, "edge_type": edge_type}
    format_options = {"delimiter": delimiter, "self_loops": self_loops}
    format_options |= {"header": header is not None, "weighted": weighted is not None}
    require_file("--graph", graph, columns | format_options)
    words = None if nodes is None else split_ids(nodes)
    model = load_model(folder, n_jobs)
    require_predictions(model, folder)
    edge_columns: dict[str, Any] = {name: column_of(text) for name, text in columns.items()} | {"weighted": weighted}
    dialect = (header, delimiter and DELIMITERS.get(delimiter, delimiter), comment or None)
    update, notes = _read_update(model, (graph, features, feature_nodes), edge_columns, dialect, self_loops)
    ids = None if words is None else ids_of(model, words)
    predictions, prediction_notes = predict_nodes(model, ids, update)
    notes = [shell_message(note) for note in (*notes, *prediction_notes)]
    if out is not None:
        table = to_columns(predictions)
        write_predictions(out, table, lambda: {"folder": folder} | to_json(predictions), exact=exact)
        if not exact and out.lower().endswith((".csv", ".tsv")):
            notes += escape_note(count_escaped_cells(table))
    if as_json:
        content = to_json(predictions, full=out is None)  # else they are in the file
        print_json({"folder": folder, "out": out, "notes": notes} | content)
    elif not quiet:
        print_notes(notes)
        print_predictions(predictions, out)


def _read_update(
    model: Any, files: tuple[str | None, ...], columns: dict[str, Any], dialect: tuple[Any, ...], self_loops: bool
) -> tuple[GraphUpdate | None, list[str]]:
    """Read new edges and features, if any, and notes about them."""
    from cge.data.files.dialect import TextOptions
    from cge.data.files.edges import EdgeOptions
    from cge.data.files.graph_files import read_graph_update

    options = EdgeOptions(**columns, text=TextOptions(*dialect))
    if files == (None, None, None):
        return None, []
    return read_graph_update(model.graph_, *files[:2], feature_nodes=files[2], options=options, self_loops=self_loops)
