"""`cge report`: an HTML page about a trained model."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cge.cli.common_options import Json, ModelFolder, ModelJobs, Quiet, flag_option, text_option
from cge.cli.graph_options import LabelOptions, label_arguments, require_labels
from cge.cli.model_files import load_path_model, no_test_labels, output_file, read_test_labels
from cge.cli.option_groups import takes_options
from cge.cli.printing import print_json
from cge.errors import InputError

_MAX_NODES = 20_000  # of a graph on which other methods are trained without --compare


Labels = Annotated[
    str | None,
    text_option("FILE", "Test labels, a table of nodes and labels \\[default: the validation labels are used]."),
]
Compare = Annotated[
    bool | None,
    flag_option(
        "--compare/--no-compare",
        "Compare with baselines and with uniform weights, which takes as long as a fit; --no-compare: with nothing "
        "\\[default: with baselines, on graphs of up to 20,000 nodes].",
    ),
]
Projection = Annotated[
    str, text_option("pca|umap", "2-D projection of the vectors; umap needs the package umap-learn.", "--projection")
]


@takes_options
def report(
    folder: ModelFolder,
    *,
    out: Annotated[str, text_option("FILE", "The HTML file to write.")] = "report.html",
    labels: Labels = None,
    columns: LabelOptions,
    compare: Compare = None,
    title: Annotated[str, typer.Option(help="Title of the page.", show_default=False)] = "",
    projection: Projection = "pca",
    n_jobs: ModelJobs = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write an HTML page about a saved model: accuracy, a 2-D projection of the vectors, paths and weights.

    The file contains all data and charts and opens offline.

    For example:

      cge report model
      cge report model --out report.html --labels test.csv
    """
    from cge.report import compare_methods, scored_nodes, write_page
    from cge.report.charts import check_projection
    from cge.report.scored_nodes import plain_rows

    require_labels(labels, columns)
    output_file(out, [".html", ".htm"], inputs=[labels])
    check_projection(projection)
    model = load_path_model(folder, n_jobs, "for which there is no report")
    test_labels = None if labels is None else read_test_labels(model, labels, **label_arguments(columns))
    scored, rows = scored_nodes(model, test_labels), []
    visible = sys.stderr.isatty() and not (quiet or as_json)
    if labels is not None and scored is None:
        raise no_test_labels(labels)
    if scored is not None and (len(model.graph_) <= _MAX_NODES if compare is None else compare):
        rows = compare_methods(model, scored, _print_method if visible else None, uniform=bool(compare))
    elif compare:
        raise InputError(f"{folder} has no validation labels to compare on", hint="give test labels with --labels")
    size = write_page(model, out, title=title, test_labels=test_labels, method_scores=rows, projection=projection)
    if as_json:
        rows = rows or ([] if scored is None else [scored.row("cge", scored.probabilities)])
        diagram, target = None if scored is None else scored.reliability(), model.fitted_.target
        result = {
            "file": out,
            "bytes": size,
            "scored_on": None if scored is None else {"labels": len(scored.nodes), "kind": scored.kind},
            "metric": target.metric,
            target.score_key: plain_rows(rows, target.score_key),
            "calibration_error": diagram and diagram["error"],
            "weighting_comparison": model.compare_weighting().to_dict(),
        }
        print_json(result)
    elif not quiet:
        print(f"written to {out} ({size / 1e6:.1f} MB)")


def _print_method(method: str) -> None:
    print(f"training for comparison: {method}", file=sys.stderr, flush=True)
