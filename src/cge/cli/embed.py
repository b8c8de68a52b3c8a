"""`cge embed`: the vectors of a saved model as files for other tools."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cge.cli.common_options import Json, ModelJobs, Quiet
from cge.cli.graph_options import FILES, need_file
from cge.cli.model_files import EXACT, load_model, note_of_guards, output_file, tell
from cge.cli.printing import facts, print_json
from cge.errors import InputError

if TYPE_CHECKING:
    from cge.store.exports import Export

__all__ = ["embed"]


def embed(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder of a model that was saved.")],
    out: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="File for the vectors; its suffix tells the format: .parquet, .csv, .tsv, .txt and "
            ".bin (word2vec), .npz; .graphml is the graph with labels and predictions.",
        ),
    ] = None,
    projector: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Folder for vectors.tsv and metadata.tsv, for the embedding projector."),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Known labels, a table of node and label, for .graphml and --projector; by default those that the "
            "model was trained on, where it has kept them.",
            rich_help_panel=FILES,
        ),
    ] = None,
    node: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Nodes in that file: a name, or a number.", rich_help_panel=FILES),
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Labels in that file, likewise.", rich_help_panel=FILES)
    ] = None,
    exact: Annotated[bool, typer.Option("--exact", help=EXACT)] = False,
    n_jobs: ModelJobs = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write the vectors of a saved model, or its graph with predictions, for other tools.

    A file that is there is replaced when the new one is complete. Formats are described in docs/predictions.md.

    For example:

      cge embed model --out vectors.parquet
      cge embed model --out words.bin --projector projector
      cge embed model --out graph.graphml --labels labels.csv
    """
    from cge.store.exports import VECTORS, checked_folder, write_export

    need_file("--labels", labels, {"node": node, "label": label})
    if out is None and projector is None:
        raise InputError("there is nothing to write; give --out a file, or --projector a folder")
    if out is not None:
        output_file(out, list(VECTORS), inputs=[labels])
    if projector is not None:
        checked_folder(projector)
    model = load_model(folder, n_jobs)
    drawn = out is not None and out.lower().endswith(".graphml")
    if not hasattr(model, "embedding_") and (projector is not None or not drawn):
        raise InputError(
            f"{folder} holds a {type(model).__name__}, which has no vectors; give --out a .graphml file, which needs "
            "none, or train a model with 'cge fit'"
        )
    told = projector is not None or drawn
    export = replace(_export(model, labels, node, label, told), exact=exact)
    names = [] if out is None else [out]
    if projector is not None:
        names += [str(Path(projector) / name) for name in ("vectors.tsv", "metadata.tsv")]
    written = list(zip(names, write_export(export, out, projector=projector), strict=True))
    notes = note_of_guards(_guarded(export, out, projector))
    found = {
        "folder": folder,
        "nodes": len(export.graph),
        "dim": int(export.vectors.shape[1]) or None,
        "files": [{"path": name, "bytes": path.stat().st_size} for name, path in written],
        "notes": notes,
    }
    if as_json:
        print_json(found)
    elif not quiet:
        tell(notes)
        rows = [("" if place else "written to", name) for place, (name, _) in enumerate(written)]
        size = [("numbers each", f"{found['dim']:,}")] if found["dim"] else []
        facts([("nodes", f"{found['nodes']:,}"), *size, *rows])


def _guarded(export: Export, out: str | None, projector: str | None) -> int:
    """Return how many cells of text got an apostrophe."""
    from cge.store.export_tables import count_escaped_cells

    if export.exact:
        return 0
    table = out is not None and out.lower().endswith((".csv", ".tsv"))
    return count_escaped_cells({"id": export.ids} if table else {}) + (
        0
        if projector is None
        else count_escaped_cells(
            {"node": export.texts, "label": export.label or [], "prediction": export.prediction or []}
        )
    )


def _export(model: Any, labels: str | None, node: str | None, label: str | None, told: bool) -> Export:
    """Gather vectors, and what is known and predicted of nodes where it is to be told."""
    import numpy as np

    from cge.cli.graph_options import column_of
    from cge.data import read_labels
    from cge.estimators.predictions import predict_nodes, training_labels
    from cge.store.export_tables import SEPARATOR
    from cge.store.exports import Export

    vectors = getattr(model, "embedding_", np.empty((len(model.graph_), 0), np.float32))
    known = training_labels(model) if told else None
    if labels is not None:
        columns: dict[str, Any] = {"node": column_of(node), "label": column_of(label)}
        matrix, names = read_labels(labels, model.graph_, multilabel=True, **columns)
        known = [[names[place] for place in row.nonzero()[0].tolist()] for row in matrix]
    texts = None if known is None else [SEPARATOR.join(map(str, one)) or None for one in known]
    if not told or not hasattr(model, "predict_proba"):
        return Export(model.graph_, vectors, texts)
    found, _ = predict_nodes(model)
    predicted = [SEPARATOR.join(map(str, one)) if isinstance(one, list) else str(one) for one in found.predicted]
    return Export(model.graph_, vectors, texts, predicted, found.confidence)
