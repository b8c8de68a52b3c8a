"""`cge embed`: the vectors of a saved model as files for other tools."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cge.cli.common_options import Exact, Json, ModelFolder, ModelJobs, Quiet
from cge.cli.graph_options import FILES, LabelColumn, LabelNodes, column_of, require_file
from cge.cli.model_files import escape_note, load_model, output_file, require_vectors
from cge.cli.printing import print_json, print_notes, print_pairs
from cge.errors import InputError

if TYPE_CHECKING:
    from cge.store.exports import Export

Out = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="File for the vectors; the suffix is the format: .parquet, .csv, .tsv, .txt and .bin (word2vec), .npz; "
        ".graphml is the graph with labels and predictions.",
    ),
]
Projector = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Folder for vectors.tsv and metadata.tsv, for the embedding projector."),
]
Labels = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Labels, a table of nodes and labels, for .graphml and --projector \\[the training labels].",
        rich_help_panel=FILES,
    ),
]


def embed(
    folder: ModelFolder,
    out: Out = None,
    projector: Projector = None,
    labels: Labels = None,
    node: LabelNodes = None,
    label: LabelColumn = None,
    exact: Exact = False,
    n_jobs: ModelJobs = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write the vectors of a saved model, or its graph with predictions, for other tools.

    An existing file is replaced when the new one is complete. docs/predictions.md describes the formats.

    For example:

      cge embed model --out vectors.parquet
      cge embed model --out words.bin --projector projector
      cge embed model --out graph.graphml --labels labels.csv
    """
    from cge.store.exports import VECTORS, checked_folder, write_export

    require_file("--labels", labels, {"node": node, "label": label})
    if out is None and projector is None:
        raise InputError("there is nothing to write; give --out a file, or --projector a folder")
    if out is not None:
        output_file(out, list(VECTORS), inputs=[labels])
    if projector is not None:
        checked_folder(projector)
    model = load_model(folder, n_jobs)
    graphml = out is not None and out.lower().endswith(".graphml")
    if projector is not None or not graphml:
        hint = "give --out a .graphml file, which needs none, or train a model with 'cge fit'"
        require_vectors(model, folder, hint)
    columns: dict[str, Any] = {"node": column_of(node), "label": column_of(label)}
    export = replace(_export(model, labels, columns, with_labels=projector is not None or graphml), exact=exact)
    names = [] if out is None else [out]
    if projector is not None:
        names += [str(Path(projector) / name) for name in ("vectors.tsv", "metadata.tsv")]
    written = list(zip(names, write_export(export, out, projector=projector), strict=True))
    notes = escape_note(_escaped_cells(export, out, projector))
    result = {
        "folder": folder,
        "nodes": len(export.graph),
        "dim": int(export.vectors.shape[1]) or None,
        "files": [{"path": name, "bytes": path.stat().st_size} for name, path in written],
        "notes": notes,
    }
    if as_json:
        print_json(result)
    elif not quiet:
        print_notes(notes)
        rows = [("" if place else "written to", name) for place, (name, _) in enumerate(written)]
        dim = [("dimensions", f"{result['dim']:,}")] if result["dim"] else []
        print_pairs([("nodes", f"{result['nodes']:,}"), *dim, *rows])


def _escaped_cells(export: Export, out: str | None, projector: str | None) -> int:
    """Return how many cells of text got an apostrophe."""
    from cge.store.export_formats import count_escaped_cells

    if export.exact:
        return 0
    table = out is not None and out.lower().endswith((".csv", ".tsv"))
    cells: dict[str, Any] = {"id": export.ids} if table else {}
    if projector is not None:
        cells |= {"node": export.texts, "label": export.label or [], "prediction": export.prediction or []}
    return count_escaped_cells(cells)


def _export(model: Any, labels: str | None, columns: dict[str, Any], *, with_labels: bool) -> Export:
    """Return the vectors, and labels and predictions where the format has a place for them."""
    import numpy as np

    from cge.data import read_labels
    from cge.estimators.predictions import predict_nodes, training_labels
    from cge.store.export_formats import SEPARATOR
    from cge.store.exports import Export

    vectors = getattr(model, "embedding_", np.empty((len(model.graph_), 0), np.float32))
    rows = training_labels(model) if with_labels else None
    if labels is not None:
        matrix, names = read_labels(labels, model.graph_, multilabel=True, **columns)
        rows = [[names[code] for code in row.nonzero()[0].tolist()] for row in matrix]
    texts = None if rows is None else [SEPARATOR.join(map(str, row)) or None for row in rows]
    if not with_labels or not hasattr(model, "predict_proba"):
        return Export(model.graph_, vectors, texts)
    predictions, _ = predict_nodes(model)
    predicted = [
        SEPARATOR.join(map(str, value)) if isinstance(value, list) else str(value) for value in predictions.predicted
    ]
    return Export(model.graph_, vectors, texts, predicted, predictions.confidence)
