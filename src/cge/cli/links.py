"""`cge links`: links that the graph of a saved model is likely to lack."""

from __future__ import annotations

from typing import Annotated, Any

from cge.cli.common_options import Json, ModelFolder, ModelJobs, NoEscape, Quiet, int_option, text_option
from cge.cli.main import printable
from cge.cli.model_files import escape_note, ids_of, load_model, output_file
from cge.cli.printing import print_json, print_notes, print_pairs, print_table

_MAX_ROWS = 20  # rows that are printed


def links(
    folder: ModelFolder,
    *,
    top: Annotated[int, int_option("How many links.", minimum=1)] = 100,
    node: Annotated[str | None, text_option("ID", "Only links of this node.")] = None,
    out: Annotated[str | None, text_option("FILE", "Write them to a .csv, .tsv, .parquet or .json file.")] = None,
    random_state: Annotated[int, int_option("Seed.", "--seed", minimum=0)] = 0,
    no_escape: NoEscape = False,
    n_jobs: ModelJobs = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Predict missing links in the graph of a saved model.

    A logistic regression is trained on held-out edges and as many random pairs of nodes; its inputs are common
    neighbors, paths, and cosines of walk vectors and of propagated features. The score is the probability of an edge
    if edges and random pairs are equally frequent.
    Candidates have common neighbors or similar vectors. 'cge evaluate DATASET --task link' measures such scores.

    For example:

      cge links model --top 20
      cge links model --node 35 --json
      cge links model --top 1000 --out links.csv
    """
    from cge.estimators.link_predictor import predictor_of

    if out is not None:
        from cge.store.exports import TABLES, write_predictions

        output_file(out, TABLES)
    model = load_model(folder, n_jobs)
    wanted = None if node is None else ids_of(model, [node])[0]
    predictor = predictor_of(model, random_state)
    rows = predictor.top_links(top, wanted)
    content: dict[str, Any] = {"folder": folder, "validation_auc": predictor.validation_auc_}
    full = content | {"links": [link._asdict() for link in rows]}
    notes: list[str] = []
    if out is not None:
        import numpy as np

        from cge.store.export_formats import checked_texts

        kind = model.node_ids_.dtype
        columns = [np.array([row[side] for row in rows], kind) for side in (0, 1)]
        endpoints: Any = columns if kind.kind == "i" else [checked_texts(column) for column in columns]
        table = {
            "source": endpoints[0],
            "target": endpoints[1],
            "score": np.array([row.score for row in rows], np.float32),
        }
        write_predictions(out, table, lambda: full, exact=no_escape)
        notes = [] if no_escape or not out.lower().endswith((".csv", ".tsv")) else escape_note(table)
    if as_json:
        print_json((content | {"out": out, "count": len(rows)} if out else full) | {"notes": notes})
    elif not quiet:
        print_notes(notes)
        if out is not None:
            print_pairs([("links", f"{len(rows):,}"), ("written to", out)])
            return
        titles = [("source", "left"), ("target", "left"), ("score", "right")]
        print_table(titles, [[printable(a), printable(b), f"{score:.4f}"] for a, b, score in rows[:_MAX_ROWS]])
        if len(rows) > _MAX_ROWS:
            print(f"and {len(rows) - _MAX_ROWS:,} more; --out FILE writes all of them, --json prints them")
