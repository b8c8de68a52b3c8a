"""`cge fit`: train `cge.CGE` on files and save the model."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cge.cli.files import FILES, Files, takes_files
from cge.cli.fitted import facts_of, print_facts, rounds_of
from cge.cli.main import Stopped
from cge.cli.options import Json
from cge.cli.output import Checkpoint, output_folder
from cge.cli.printing import print_json
from cge.cli.settings import values_of
from cge.cli.wording import as_flags, settings_as_flags
from cge.errors import CgeWarning, CheckpointError, FileFormatError, InputError

if TYPE_CHECKING:
    import numpy.typing as npt

    from cge.estimators.cge import CGE
    from cge.graph import Graph

    Array = npt.NDArray[Any]

__all__ = ["fit"]


@takes_files
def fit(
    *,
    labels: Annotated[
        str, typer.Option(metavar="FILE", help="Labels to train on: a table of node and label.", rich_help_panel=FILES)
    ],
    validation: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Labels of other nodes that only choose the best round; by default, a share of the labels does.",
            rich_help_panel=FILES,
        ),
    ] = None,
    files: Files,
    out: Annotated[
        str,
        typer.Option(
            metavar="DIR", help="Folder for the model; one that is there is replaced when the new one is done."
        ),
    ],
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on after the last round of a fit that was stopped.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but warnings and errors.")] = False,
    as_json: Json = False,
    **settings: Any,
) -> None:
    """Learn from labels which paths of a graph matter, make vectors and predictions of them, and save the model.

    A checkpoint in DIR/checkpoint is written after each round and removed when the model is saved: a fit that was
    stopped goes on with --resume, to the same model. Settings have their defaults in brackets.

    For example:

      cge fit edges.csv --labels labels.csv --out model
      cge fit edges.csv --labels labels.csv --features words.npz --weighting cnn --dim 64 --seed 3 --out model --resume
    """
    from cge.estimators.cge import CGE
    from cge.estimators.settings import check_settings

    model = CGE(**values_of(CGE, settings))
    with _in_the_shell(model):
        check_settings(model)
    with output_folder(out) as folder:
        checkpoint = Checkpoint(folder)
        graph, reading = files.read_graph()
        y, more, notes = _labels(files, labels, validation, graph)
        notes = [*(as_flags(note) for note in reading.notes), *notes]
        if not resume:
            checkpoint.remove()
        elif not checkpoint.folder.exists():
            notes.append(f"there is no checkpoint in {folder}, so the fit starts with the first round")
        if not (quiet or as_json):
            _tell("note", notes)
        began, shown = time.perf_counter(), sys.stderr.isatty() and not (quiet or as_json)
        try:
            warned = _fit(model, graph, y, more, checkpoint, shown)
            seconds = time.perf_counter() - began
            model.save(folder)
        except KeyboardInterrupt:
            raise Stopped(_way_on(checkpoint)) from None
        checkpoint.remove()
    _tell("warning", warned)
    found = facts_of(model, out, seconds)
    if as_json:
        print_json(found | {"warnings": warned, "notes": notes, **rounds_of(model)})
    elif not quiet:
        print_facts(found, model, files.multilabel)


def _labels(files: Files, labels: str, validation: str | None, graph: Graph) -> tuple[Any, Any, list[str]]:
    """Return labels and validation labels by node, as `CGE.fit` takes them, and what to note about them."""
    y = _by_node(graph, *files.read_labels(labels, graph))
    if validation is None:
        return y, None, []
    more = _by_node(graph, *files.read_labels(validation, graph))
    both = len(more.keys() & y.keys())
    if both == len(more):
        raise InputError(
            f"{validation}: every node in it has a label in {labels}, too, so none is left to choose the round; "
            f"remove the nodes of one file from the other"
        )
    if not both:
        return y, more, []
    return y, more, [f"{both:,} of {len(more):,} nodes in {validation} have a label in {labels}, too: they train only"]


def _by_node(graph: Graph, codes: Array, names: tuple[str, ...]) -> dict[Any, Any]:
    """Return {node id: name of its class}, or the list of names where nodes may have several."""
    from cge.data.labels import labeled

    ids, nodes = graph.node_ids.tolist(), labeled(codes).nonzero()[0].tolist()
    if codes.ndim == 1:
        return {ids[node]: names[codes[node]] for node in nodes}
    return {ids[node]: [names[place] for place in codes[node].nonzero()[0].tolist()] for node in nodes}


def _fit(model: CGE, graph: Graph, y: Any, validation: Any, checkpoint: Checkpoint, shown: bool) -> list[str]:
    """Train, and return the warnings of the library as sentences."""
    from cge.cli.progress import Watch

    again = bool(model.refit and validation is None and model.held_out)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CgeWarning)
        watch = Watch(checkpoint, again, shown)
        with _in_the_shell(model, checkpoint), watch:
            model.fit(graph, y, validation, resume=checkpoint.folder, on_round=watch)
    for one in caught:
        if not issubclass(one.category, CgeWarning):
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    said = [str(one.message) for one in caught if issubclass(one.category, CgeWarning)]
    return [settings_as_flags(sentence, model.get_params()) for sentence in said]


def _way_on(checkpoint: Checkpoint) -> str:
    again, first = checkpoint.rounds("refit"), checkpoint.rounds("select") or checkpoint.rounds("train")
    if not first and checkpoint.any():
        return "the same command with --resume goes on"
    if not first:
        return "no round was done, so there is nothing to go on from"
    done = f"{again} of the training on all labels" if again else f"{first}"
    return f"the same command with --resume goes on from round {done}"


@contextmanager
def _in_the_shell(model: CGE, checkpoint: Checkpoint | None = None) -> Iterator[None]:
    """Let errors of the library name flags, and the way out of a checkpoint that does not fit."""
    try:
        yield
    except InputError as error:
        what = settings_as_flags(str(error), model.get_params())
        if checkpoint is not None and isinstance(error, CheckpointError | FileFormatError):
            what = what.partition(";")[0] + "; leave out --resume to start anew, or give --out another folder"
        raise InputError(what) from error


def _tell(kind: str, sentences: list[str]) -> None:
    for sentence in sentences:
        print(f"{kind}: {sentence}", file=sys.stderr)
