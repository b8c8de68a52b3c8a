"""Vectors of nodes: `cge embed` writes them as files for other tools, `cge similar` compares those of a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from cge.cli.command import shell_message
from cge.cli.common_options import Json, ModelFolder, ModelJobs, NoEscape, Quiet, file_option, int_option, text_option
from cge.cli.graph_options import EmbedFiles, label_arguments, require_labels
from cge.cli.main import printable
from cge.cli.model_files import check_choice, escape_note, ids_of, load_model, output_file, vectors_of, wrong_model
from cge.cli.option_groups import takes_options
from cge.cli.out_of_core import LargeGraphs, large_model, write_parts_of, write_walk_parts
from cge.cli.printing import print_json, print_notes, print_pairs, print_table
from cge.errors import InputError

if TYPE_CHECKING:
    from cge.arrays import Array
    from cge.cli.model_files import SavedModel
    from cge.estimators.embeddings import DeepWalk, NodeVectors
    from cge.store.exports import Export

Out = Annotated[
    str | None,
    text_option(
        "FILE",
        "File for the vectors; the suffix is the format: .parquet, .csv, .tsv, .txt and .bin (word2vec), .npz; "
        ".graphml is the graph with labels and predictions.",
    ),
]
Projector = Annotated[
    str | None, text_option("DIR", "Folder for vectors.tsv and metadata.tsv, for the embedding projector.")
]
Labels = Annotated[
    str | None,
    file_option("Labels, a table of nodes and labels, for .graphml and --projector \\[default: the training labels]."),
]
METHODS = ("deepwalk", "node2vec", "propagated")
Method = Annotated[
    str | None,
    text_option(
        "NAME",
        "'deepwalk', 'node2vec', or 'propagated' for --features propagated along edges \\[default: deepwalk].",
        choices=METHODS,
    ),
]
Settings = Annotated[
    list[str] | None, text_option("NAME=VALUE", "A setting of the method, such as window=5; may be repeated.", "--set")
]
Metric = Annotated[str, text_option("NAME", "'cosine', or 'dot' for inner products.", choices=("cosine", "dot"))]
Search = Annotated[
    str,
    text_option(
        "NAME",
        "'exact', or 'approximate' with an index of usearch; 'auto' is exact for one node.",
        choices=("auto", "exact", "approximate"),
    ),
]


@takes_options
def embed(
    *,
    files: EmbedFiles,
    out: Out = None,
    method: Method = None,
    dim: Annotated[int | None, int_option("Size of the vectors \\[default: 128].", minimum=1)] = None,
    settings: Settings = None,
    random_state: Annotated[int | None, int_option("Seed \\[default: 0].", "--seed", minimum=0)] = None,
    save: Annotated[str | None, text_option("DIR", "Also save the vectors as a model, for 'cge similar'.")] = None,
    projector: Projector = None,
    labels: Labels = None,
    no_escape: NoEscape = False,
    large: LargeGraphs,
    n_jobs: ModelJobs = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write vectors (embeddings) of a saved model, or of a graph without labels.

    Given edges, vectors are trained without labels: DeepWalk, node2vec, or propagated features. Given a model, .graphml
    is its graph with predictions. An existing file is replaced once the new one is complete. docs/predictions.md
    describes the formats.

    For example:

      cge embed edges.csv --out vectors.parquet
      cge embed edges.csv --method node2vec --dim 64 --set q=0.5 --out vectors.csv
      cge embed edges.csv --features x.npz --method propagated --out vectors.npz
      cge embed model --out words.bin --projector projector
      cge embed model --out graph.graphml --labels labels.csv
    """
    from cge.data.stored import is_stored_graph
    from cge.store.exports import VECTORS, checked_folder

    require_labels(labels, files)
    if out is None and projector is None:
        raise InputError("there is nothing to write; give --out a file, or --projector a folder")
    model_of_stored = None if files.edges is None or projector else large_model(files.edges, large, out)
    if model_of_stored is not None and out is not None:
        write_parts_of(model_of_stored, out, large, vectors=True, quiet=quiet, as_json=as_json)
        return
    if out is not None and not projector and _writes_parts(files.edges, out):
        walks = _walk_model(method, dim, settings, random_state, n_jobs)
        write_walk_parts(walks, str(files.edges), out, large, n_jobs, quiet=quiet, as_json=as_json)
        return
    if out is not None:
        output_file(out, list(VECTORS), inputs=[labels, *(files.features or []), files.node_list])
    if projector is not None:
        checked_folder(projector)
    options = {"method": method, "dim": dim, "settings": settings, "random_state": random_state, "save": save}
    notes: list[str] = []
    source = files.edges or ", ".join(files.relation_files or [])
    path = Path(source)
    stored = path.is_file() or is_stored_graph(path)
    trained = files.edges is None or stored or (bool(path.suffix) and not path.exists())
    if not trained:
        files.refuse_with_model(options)
        model: SavedModel = load_model(source, n_jobs)
    else:
        options.pop("save")
        model, notes = _train(files, n_jobs=n_jobs, **options)  # type: ignore[arg-type]
        if save is not None:
            model.save(save)
    graphml = out is not None and out.lower().endswith(".graphml")
    vectors = vectors_of(model)
    if vectors is None and (projector is not None or not graphml):
        hint = "give --out a .graphml file, which needs none, or train a model with 'cge fit'"
        raise wrong_model(model, source, "which has no vectors", hint)
    with_labels = projector is not None or graphml
    export = _export(model, vectors, labels, with_labels=with_labels, exact=no_escape, **label_arguments(files))
    result: dict[str, Any] = {"folder": source} | ({"method": type(model).__name__} if trained else {})
    result |= _write(export, out, projector, notes)
    if as_json:
        print_json(result)
    elif not quiet:
        print_notes(result["notes"])
        rows = [("" if place else "written to", file["path"]) for place, file in enumerate(result["files"])]
        width = [("dimensions", f"{result['dim']:,}")] if result["dim"] else []
        print_pairs([("nodes", f"{result['nodes']:,}"), *width, *rows])


def _write(export: Export, out: str | None, projector: str | None, notes: list[str]) -> dict[str, Any]:
    """Write the files; return their names and sizes, and notes."""
    from cge.store.exports import write_export

    names = [] if out is None else [out]
    if projector is not None:
        names += [str(Path(projector) / name) for name in ("vectors.tsv", "metadata.tsv")]
    paths = write_export(export, out, projector=projector)
    notes += [] if export.exact else escape_note(_text_cells(export, out, projector))
    files = [{"path": name, "bytes": path.stat().st_size} for name, path in zip(names, paths, strict=True)]
    dim = int(export.vectors.shape[1]) or None
    return {"nodes": len(export.graph), "dim": dim, "files": files, "notes": notes}


def _train(
    files: EmbedFiles,
    *,
    method: str | None,
    dim: int | None,
    settings: list[str] | None,
    random_state: int | None,
    n_jobs: int | None,
) -> tuple[NodeVectors, list[str]]:
    """Train vectors on the files of a graph; return the model, and notes about the files."""
    model = _model(method, dim, settings, random_state, n_jobs)
    graph, reading = files.read_graph()
    model.fit(graph)
    return model, list(map(shell_message, reading.notes))


def _model(
    method: str | None, dim: int | None, settings: list[str] | None, random_state: int | None, n_jobs: int | None
) -> NodeVectors:
    """Return the estimator of vectors that the options describe."""
    from cge.estimators.methods import make, settings_from_text
    from cge.estimators.settings import check_settings

    name = method or METHODS[0]
    check_choice("--method", name, METHODS)
    values = settings_from_text(settings or []) | ({} if dim is None else {"dim": dim})
    model: NodeVectors = make(name, random_state or 0, n_jobs, "links", **values)
    check_settings(model)
    return model


def _writes_parts(edges: str | None, out: str) -> bool:
    """Return whether vectors of a stored graph are written as a folder of parts."""
    from cge.data.stored import is_stored_graph

    return edges is not None and not Path(out).suffix and is_stored_graph(edges)


def _walk_model(method: str | None, *how: Any) -> DeepWalk:
    if method not in (None, METHODS[0]):
        problem = f"a folder of parts has vectors of {METHODS[0]}, found --method {method}"
        raise InputError(problem, hint="give --out a file, and the graph is read into memory")
    return cast("DeepWalk", _model(method, *how))


def _text_cells(export: Export, out: str | None, projector: str | None) -> dict[str, Any]:
    """Return the columns of text in tables for spreadsheets."""
    cells: dict[str, Any] = {"id": export.ids} if out is not None and out.lower().endswith((".csv", ".tsv")) else {}
    if projector is not None:
        cells |= {"node": export.texts, "label": export.label or [], "prediction": export.prediction or []}
    return cells


def _export(
    model: SavedModel, vectors: Array | None, labels: str | None, *, with_labels: bool, exact: bool, **columns: Any
) -> Export:
    """Return the vectors, and labels and predictions where the format has a place for them."""
    import numpy as np

    from cge.data import read_labels
    from cge.estimators.embeddings import NodeVectors
    from cge.estimators.predictions import predict_nodes, training_labels
    from cge.store.export_formats import SEPARATOR
    from cge.store.exports import Export

    if vectors is None:
        vectors = np.empty((len(model.graph_), 0), np.float32)
    rows = training_labels(model) if with_labels else None
    if labels is not None:
        matrix, names = read_labels(labels, model.graph_, multilabel=True, **columns)
        rows = [[names[code] for code in row.nonzero()[0].tolist()] for row in matrix]
    texts = None if rows is None else [SEPARATOR.join(map(str, row)) or None for row in rows]
    if not with_labels or isinstance(model, NodeVectors):
        return Export(model.graph_, vectors, texts, exact=exact)
    predictions, _ = predict_nodes(model)
    lists = [value if isinstance(value, list) else [value] for value in predictions.predicted]
    predicted = [SEPARATOR.join(map(str, values)) for values in lists]
    return Export(model.graph_, vectors, texts, predicted, predictions.confidence, exact=exact)


def similar(
    folder: ModelFolder,
    node: Annotated[str, typer.Argument(metavar="ID", help="A node; write -- before one that starts with a minus.")],
    top: Annotated[int, int_option("How many nodes.", minimum=1)] = 10,
    metric: Metric = "cosine",
    search: Search = "auto",
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

    check_choice("--metric", metric, METRICS)  # before a large model is read
    check_choice("--search", search, METHODS)
    model = load_model(folder, n_jobs)
    vectors = vectors_of(model)
    if vectors is None:
        raise wrong_model(model, folder, "which has no vectors", "train one with 'cge fit'")
    node_id = ids_of(model, [node])[0]
    model.graph_.index_of(node_id)  # an unknown one is named, with one that looks alike
    index = SimilarNodes(model.node_ids_, vectors, metric, method=search)
    neighbors = index.of(node_id, top)
    if as_json:
        query = {"folder": folder, "node": node_id, "metric": metric, "search": index.method_for(1)}
        print_json(query | {"nodes": len(model.node_ids_), "similar": [row._asdict() for row in neighbors]})
    elif quiet:
        print("".join(f"{printable(row.node)}\n" for row in neighbors), end="")
    else:
        columns = [("node", "left"), ("cosine" if metric == "cosine" else "inner product", "right")]
        print_table(columns, [(str(row.node), f"{row.score:.4f}") for row in neighbors])
