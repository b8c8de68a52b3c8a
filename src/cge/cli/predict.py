"""`cge predict`: the predictions of a saved model, for the nodes of its graph and for new ones."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Annotated, Any

from cge.cli.command import shell_message
from cge.cli.common_options import Json, ModelFolder, ModelJobs, NoEscape, Quiet, text_option
from cge.cli.graph_options import UpdateFiles
from cge.cli.model_files import escape_note, ids_of, load_model, output_file, wrong_model
from cge.cli.option_groups import takes_options
from cge.cli.out_of_core import LargeGraphs, large_model, write_parts_of
from cge.cli.printing import print_json, print_notes, print_pairs, print_table
from cge.errors import InputError, format_value

if TYPE_CHECKING:
    from cge.estimators.predictions import Predictions

NodeIds = Annotated[
    str | None,
    text_option(
        "IDS", "Predict only these nodes: ids separated by commas \\[default: all nodes of the graph, or all new ones]."
    ),
]
Out = Annotated[
    str | None,
    text_option("FILE", "File for all predictions: .csv, .tsv, .parquet or .json; of a stored graph also a folder."),
]

_MAX_ROWS = 20  # rows that are printed
_BASIS = {
    "training graph": "in the training graph",
    "features+edges": "new, by features and edges",
    "features": "new, by features only",
    "edges": "new, by edges only",
    "no information": "paths reach no label and only inputs of zeros: {unknown}",
}
_TEXTS = ("node", "class", "evidence")  # columns; the others are numbers


@takes_options
def predict(
    folder: ModelFolder,
    *,
    update: UpdateFiles,
    nodes: NodeIds = None,
    out: Out = None,
    no_escape: NoEscape = False,
    large: LargeGraphs,
    n_jobs: ModelJobs = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Predict labels with a saved model, for nodes of its graph or new ones.

    New edges and features are added to the graph of the model, so that neighbors in it are used. The output has the
    predicted class of each node, its confidence, the probabilities of all classes (in regression only the value), and
    the evidence: whether the features of a new node, its edges, or both were used.

    For example:

      cge predict model --nodes 35,40
      cge predict model --out predictions.csv
      cge predict model --graph new-edges.csv --features new.csv --out predictions.parquet
    """
    from cge.estimators.embeddings import NodeVectors
    from cge.estimators.predictions import predict_nodes

    stored = None if nodes is not None or any(update.paths) else large_model(folder, large, out)
    if stored is not None and out is not None:
        write_parts_of(stored, out, large, vectors=False, quiet=quiet, as_json=as_json)
        return
    if out is not None:
        from cge.store.exports import TABLES, write_predictions

        output_file(out, TABLES, inputs=update.paths)
    given_ids = None if nodes is None else _split_ids(nodes)
    model = load_model(folder, n_jobs)
    if isinstance(model, NodeVectors):
        problem, hint = "which has vectors but makes no predictions", "train a classifier with 'cge fit'"
        raise wrong_model(model, folder, problem, hint)
    new, notes = update.read(model)
    ids = None if given_ids is None else ids_of(model, given_ids)
    predictions, prediction_notes = predict_nodes(model, ids, new)
    notes = [shell_message(note) for note in (*notes, *prediction_notes)]
    if out is not None:
        table = predictions.columns()
        write_predictions(out, table, lambda: {"folder": folder} | _to_json(predictions), exact=no_escape)
        if not no_escape and out.lower().endswith((".csv", ".tsv")):
            notes += escape_note(table)
    if as_json:
        content = _to_json(predictions, full=out is None)  # else they are in the file
        print_json({"folder": folder, "out": out, "notes": notes} | content)
    elif not quiet:
        print_notes(notes)
        _print(predictions, out)


def _split_ids(text: str) -> list[str]:
    """Return ids that are separated by commas; one that contains a comma is put in quotes.

    >>> _split_ids('a, "New York, NY"')
    ['a', 'New York, NY']
    """
    try:
        ids = next(csv.reader([text], skipinitialspace=True, strict=True), [])
    except csv.Error:
        problem = f"--nodes {format_value(text)} has a quote that does not close"
        raise InputError(problem, hint='write " as "" inside') from None
    ids = [each.strip() for each in ids]
    if not ids or not all(ids):
        raise InputError(f"--nodes must be ids separated by commas, found {format_value(text)}")
    return list(dict.fromkeys(ids))


def _to_json(predictions: Predictions, *, full: bool = True) -> dict[str, Any]:
    """Return predictions as a JSON object; without the nodes unless `full`."""
    about = {"classes": predictions.target.class_names, "evidence": predictions.counts()}
    return {"nodes": len(predictions.nodes), **about, "predictions": predictions.rows() if full else None}


def _print(predictions: Predictions, out: str | None) -> None:
    """Print the first predictions, or the file they were written to and the evidence they are based on."""
    if out is not None:
        counts = ", ".join(f"{count:,} {_BASIS[name]}" for name, count in predictions.counts().items())
        counts = counts.format(unknown=predictions.target.texts.prior)
        print_pairs([("nodes", f"{len(predictions.nodes):,}"), ("based on", counts), ("written to", out)])
        return
    columns = predictions.texts(_MAX_ROWS)
    titles = [(title, "left" if title in _TEXTS else "right") for title in columns]
    print_table(titles, zip(*columns.values(), strict=True))
    if len(predictions.nodes) > _MAX_ROWS:
        print(f"and {len(predictions.nodes) - _MAX_ROWS:,} more; --out FILE writes all of them, --json prints them")
