"""`cge report`: one page about a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cge.cli.options import Json, Quiet
from cge.cli.printing import print_json
from cge.errors import InputError

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

__all__ = ["report"]


def report(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="A model that 'cge fit' or CGE.save wrote.")],
    out: Annotated[str, typer.Option(metavar="FILE", help="The page to write.")] = "report.html",
    labels: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Labels that the model has not seen, to measure it by: node and label."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="What to call the graph \\[the folder's name].")] = None,
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
    from cge.estimators.loading import load
    from cge.report import write_page

    model = load(folder)
    if not isinstance(model, CGE):
        raise InputError(f"a report is about a cge.CGE, but {folder!r} holds a {type(model).__name__}")
    truth = None if labels is None else _truth(model, labels)
    size = write_page(model, out, name=name or Path(folder).resolve().name, truth=truth)
    if as_json:
        print_json({"file": out, "bytes": size})
    elif not quiet:
        print(f"{out}: {size / 1e6:.1f} MB")


def _truth(model: Any, file: str) -> Array:
    """Return the labels in a file as class numbers of the model, −1 where there are none."""
    import numpy as np

    from cge.data import read_labels

    codes, names = read_labels(file, model.graph_)
    known = {str(one): place for place, one in enumerate(model.classes_.tolist())}
    strange = [one for one in names if one not in known]
    if strange:
        raise InputError(
            f"{file} has the class {strange[0]!r}, which the model does not know; it knows {', '.join(known)}"
        )
    places = np.array([known[one] for one in names] + [-1])  # −1 is the last place
    return np.asarray(places[codes])
