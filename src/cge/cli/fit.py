"""`cge fit`: train `cge.CGE` on files and save the model."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from cge.cli.common_options import Json
from cge.cli.config import take_config
from cge.cli.dry_run import content_of, print_plan
from cge.cli.estimator_options import values_of
from cge.cli.fit_summary import facts_of, print_facts, rounds_of
from cge.cli.flags import shell_message
from cge.cli.graph_options import FILES, Files, takes_files
from cge.cli.main import Stopped, command_line
from cge.cli.memory import available_memory, refuse_too_large
from cge.cli.output_folder import Checkpoint, folder_of, output_folder
from cge.cli.printing import print_json
from cge.errors import CgeWarning, CheckpointError, FileFormatError, InputError, Message

if TYPE_CHECKING:
    import numpy.typing as npt

    from cge.estimators.cge import CGE
    from cge.estimators.fit_plan import FitPlan
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
            help="Labels of other nodes, best a random sample, that choose the best round and calibrate chances; "
            "by default, a share of the labels does.",
            rich_help_panel=FILES,
        ),
    ] = None,
    files: Files,
    out: Annotated[
        str,
        typer.Option(
            metavar="DIR", help="Folder for the model; a model that is there is replaced when the new one is done."
        ),
    ],
    config: Annotated[  # noqa: ARG001 - its callback does it
        str | None,
        typer.Option(
            metavar="FILE",
            help="Settings and other options as TOML, such as 'cge tune' writes; the command line goes before it.",
            callback=take_config,
            is_eager=True,
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where a fit was stopped.")] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Read the files, print what would be done and what it costs, and write nothing."
        ),
    ] = False,
    no_memory_check: Annotated[
        bool, typer.Option("--no-memory-check", help="Begin even if the memory seems too small.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but warnings and errors.")] = False,
    as_json: Json = False,
    **settings: Any,
) -> None:
    """Learn which paths of a graph matter for your labels, and save the model.

    The defaults suit most graphs. A fit that was stopped goes on with --resume, to the same model. Settings have their
    defaults in brackets.

    For example:

      cge fit edges.csv --labels labels.csv --out model
      cge fit edges.csv --labels labels.csv --features words.npz --out model --dry-run
      cge fit edges.csv --labels labels.csv --weighting steps --seed 3 --out model --resume
      cge fit --config fit.toml --threads 4
    """
    from cge.estimators.cge import CGE
    from cge.estimators.configs import flat_params, make_estimator
    from cge.estimators.settings import check_settings

    model: CGE = make_estimator(CGE, values_of(CGE, settings))
    check_settings(model)
    if dry_run:
        folder, task = folder_of(out), _read(files, labels, validation)
        told = _planned(model, task), task.graph, str(folder), available_memory()
        if as_json:
            said = {"notes": task.notes, "settings": flat_params(model)}
            print_json(content_of(*told) | said)
        elif not quiet:
            _tell("note", task.notes)
            print_plan(*told)
        return
    with output_folder(out) as folder:
        checkpoint = Checkpoint(folder)
        task = _read(files, labels, validation)
        plan, notes = _planned(model, task), task.notes
        if not no_memory_check:
            refuse_too_large(plan, available_memory())
        if not resume:
            checkpoint.remove()
        elif not checkpoint.folder.exists():
            notes.append(f"there is no checkpoint in {folder}, so the fit starts with the first round")
        if not (quiet or as_json):
            _tell("note", notes)
        began, format_value = time.perf_counter(), sys.stderr.isatty() and not (quiet or as_json)
        try:
            warned = _fit(model, task, checkpoint, format_value)
            seconds = time.perf_counter() - began
            model.fit_call_["command"] = command_line(without=["--resume"])
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


class _Task(NamedTuple):
    """What the files tell: graph, labels and validation labels by node, and what to note about them."""

    graph: Graph
    y: Any
    validation: Any
    notes: list[str]


def _read(files: Files, labels: str, validation: str | None) -> _Task:
    graph, reading = files.read_graph()
    y, more, notes = _labels(files, labels, validation, graph)
    return _Task(graph, y, more, [*map(shell_message, reading.notes), *notes])


def _labels(files: Files, labels: str, validation: str | None, graph: Graph) -> tuple[Any, Any, list[str]]:
    """Return labels and validation labels by node, as `CGE.fit` takes them, and what to note about them."""
    codes, names, notes = files.read_labels(labels, graph)
    y = _by_node(graph, codes, names)
    if validation is None:
        return y, None, notes
    codes, names, others = files.read_labels(validation, graph)
    more, notes = _by_node(graph, codes, names), notes + others
    both = len(more.keys() & y.keys())
    if both == len(more):
        raise InputError(
            f"{validation}: every node in it has a label in {labels}, too, so none is left to choose the round; "
            f"remove the nodes of one file from the other"
        )
    if not both:
        return y, more, notes
    twice = f"{both:,} of {len(more):,} nodes in {validation} have a label in {labels}, too: they train only"
    return y, more, [*notes, twice]


def _planned(model: CGE, task: _Task) -> FitPlan:
    """Return what a fit will do; what no fit can begin with is told here."""
    from cge.estimators.fit_plan import plan_fit

    return plan_fit(model, task.graph, task.y, task.validation)


def _by_node(graph: Graph, codes: Array, names: tuple[str, ...]) -> dict[Any, Any]:
    """Return {node id: name of its class}, or the list of names where nodes may have several."""
    from cge.data.label_arrays import labeled

    ids, nodes = graph.node_ids.tolist(), labeled(codes).nonzero()[0].tolist()
    if codes.ndim == 1:
        return {ids[node]: names[codes[node]] for node in nodes}
    return {ids[node]: [names[place] for place in codes[node].nonzero()[0].tolist()] for node in nodes}


def _fit(model: CGE, task: _Task, checkpoint: Checkpoint, format_value: bool) -> list[str]:
    """Train, and return the warnings of the library as sentences, but for that of idle settings, which was told."""
    from cge.cli.progress import Watch

    again = bool(model.refit and task.validation is None and model.validation_fraction)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CgeWarning)
        watch = Watch(checkpoint, again, format_value)
        with _resuming(), watch:
            model.fit(task.graph, task.y, task.validation, resume=checkpoint.folder, callback=watch)
    for one in caught:
        if not issubclass(one.category, CgeWarning):
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    messages = [warning.message for warning in caught if issubclass(warning.category, CgeWarning)]
    return [shell_message(one) for one in messages if isinstance(one, Warning)]


def _way_on(checkpoint: Checkpoint) -> str:
    again, first = checkpoint.max_epochs("refit"), checkpoint.max_epochs("select") or checkpoint.max_epochs("train")
    if not first and checkpoint.any():
        return "the same command with --resume goes on"
    if not first:
        return "no round was done, so there is nothing to go on from"
    done = f"{again} of the training on all labels" if again else f"{first}"
    return f"the same command with --resume goes on from round {done}"


@contextmanager
def _resuming() -> Iterator[None]:
    """Replace the hint of a checkpoint that cannot be used: its folder lies in that of the model."""
    try:
        yield
    except (CheckpointError, FileFormatError) as error:
        hint = "leave out --resume to start again, or give --out another folder"
        raise InputError(Message(error.place, error.problem), hint=hint) from error


def _tell(kind: str, sentences: list[str]) -> None:
    for sentence in sentences:
        print(f"{kind}: {sentence}", file=sys.stderr)
