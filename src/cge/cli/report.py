"""`cge report`: one page about a trained model."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cge.cli.common_options import Json, ModelJobs, Quiet
from cge.cli.graph_options import column_of, need_file
from cge.cli.model_files import load_model, output_file
from cge.cli.printing import print_json
from cge.errors import FileFormatError, InputError, format_list, format_value

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

__all__ = ["report"]

_MOST_NODES = 20_000  # of a graph on which others are trained without being asked for


def report(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="A model that 'cge fit' or CGE.save wrote.")],
    out: Annotated[str, typer.Option(metavar="FILE", help="The page to write.")] = "report.html",
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Labels that the model has not seen, to measure it by: node and label. Without them, the labels that "
            "chose measure it.",
        ),
    ] = None,
    node: Annotated[str | None, typer.Option(metavar="COLUMN", help="Nodes in that file: a name, or a number.")] = None,
    label: Annotated[str | None, typer.Option(metavar="COLUMN", help="Labels in that file, likewise.")] = None,
    compare: Annotated[
        bool | None,
        typer.Option(
            "--compare/--no-compare",
            help="Train its twin with A ≡ 1 and plain methods on the same labels, beside which it is shown "
            "\\[up to 20,000 nodes].",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="What to call the graph on the page.")] = None,
    flat: Annotated[
        str, typer.Option("--map", metavar="pca|umap", help="How the map is drawn; umap needs the package umap-learn.")
    ] = "pca",
    n_jobs: ModelJobs = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write one page about a saved model: how well it does, a map, paths and weights.

    The HTML file opens offline, on a phone as well, and can be sent around: data and charts are inside.

    For example:

      cge report model
      cge report model --out report.html --labels test.csv
    """
    from cge.estimators.cge import CGE
    from cge.report import compared, measured_by, write_page
    from cge.report.maps import need_map

    output_file(out, [".html", ".htm"], inputs=[labels])
    need_map(flat)
    model = load_model(folder, n_jobs)
    if not isinstance(model, CGE):
        raise InputError(f"a report is about a cge.CGE, but {folder!r} holds a {type(model).__name__}")
    need_file("--labels", labels, {"node": node, "label": label})
    truth = None if labels is None else _truth(model, labels, node=column_of(node), label=column_of(label))
    measured, rows = measured_by(model, truth), []
    if labels is not None and measured is None:
        raise InputError(f"{labels}: every node in it has a label that trained the model; give labels of other nodes")
    if measured is not None and (len(model.graph_) <= _MOST_NODES if compare is None else compare):
        rows = compared(model, measured, _told if sys.stderr.isatty() and not (quiet or as_json) else None)
    elif compare:
        raise InputError(f"{folder} keeps no labels to compare by; give some with --labels")
    told: dict[str, Any] = {"name": name or "", "truth": truth, "accuracy": rows, "flat": flat}
    size = write_page(model, out, **told)
    if as_json:
        by = None if measured is None else {"labels": len(measured.nodes), "unseen": measured.unseen}
        rows = rows or ([] if measured is None else [measured.row("cge", measured.probabilities)])
        found = {
            "file": out,
            "bytes": size,
            "measured_by": by,
            "accuracy": [{key: row[key] for key in ("method", "accuracy", "interval")} for row in rows],
            "calibration_error": None if measured is None else measured.reliability()["error"],
            "worth": model.compare_weighting().facts(),
        }
        print_json(found)
    elif not quiet:
        print(f"{out}: {size / 1e6:.1f} MB")


def _told(method: str) -> None:
    print(f"training for comparison: {method}", file=sys.stderr, flush=True)


def _truth(model: Any, file: str, **columns: Any) -> Array:
    """Return the labels in a file as class numbers of the model, −1 where there are none, or as zeros and ones."""
    import numpy as np

    from cge.data import read_labels

    several = model._fitted.several
    try:
        codes, names = read_labels(file, model.graph_, multilabel=several, **columns)
    except FileFormatError as error:
        if error.parameter != "multilabel":
            raise
        hint = "keep one label for each node, as in training"
        raise FileFormatError(error.path, error.problem, error.line, hint=hint) from None
    known = {str(one): place for place, one in enumerate(model.classes_.tolist())}
    strange = [one for one in names if one not in known]
    if strange:
        raise InputError(
            f"{file} has the class {format_value(strange[0])}, which the model does not know; it knows {format_list(list(known))}"
        )
    places = np.array([known[one] for one in names])
    if not several:
        return np.asarray(np.append(places, -1)[codes])  # −1 is the last place
    found = np.zeros((len(codes), len(known)), np.int64)
    found[:, places] = codes
    return found
