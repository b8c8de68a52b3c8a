"""`cge fit`: train a model on files and save it."""

from __future__ import annotations

import sys
import time
import warnings
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from cge.cli.command import shell_message
from cge.cli.common_options import Json, file_option, flag_option, text_option
from cge.cli.estimator_options import METHODS, estimator_of, parsed_settings, use_config
from cge.cli.fit_output import FitProgress, fit_summary, print_summary, reading
from cge.cli.fit_plan import plan_json, print_plan, refuse_too_large
from cge.cli.graph_options import Files
from cge.cli.main import Stopped, command_line
from cge.cli.option_groups import HelpAll, takes_options
from cge.cli.out_of_core import LargeGraphs, OutOfCore, choice_note, fit_out_of_core, large_graph
from cge.cli.output_folder import Checkpoint, folder_of, output_folder
from cge.cli.printing import print_json, print_notes
from cge.errors import CgeWarning, CheckpointError, FileFormatError, InputError, Message

if TYPE_CHECKING:
    from cge.estimators.classifier import TaskLabels
    from cge.estimators.fit_plan import FitPlan
    from cge.estimators.path_estimator import PathEstimator
    from cge.graph import Graph

# What `cge fit --help` shows; `--help-all` shows every option.
COMMON: tuple[str, ...] = ("labels", "validation", "features", "directed", "out", "config", "dry_run")
COMMON += ("method", "weighting", "hops", "random_state", "n_jobs")


Labels = Annotated[str, file_option("Training labels: a table of nodes and labels.")]
Validation = Annotated[
    str | None,
    file_option(
        "Validation labels, for nodes not in --labels; used to select the model and the epoch and to calibrate "
        "probabilities \\[default: a fifth of --labels; with about 20 to 249, 3-fold cross-validation "
        "(--method cge); see --validation-fraction and --refit (--help-all)]."
    ),
]
Out = Annotated[
    str, text_option("DIR", "Output folder; an existing model there is replaced once the new one has been trained.")
]
Method = Annotated[
    str,
    text_option("NAME", "'cge', or 'paper': the algorithm of Hou et al. 2019 (arXiv:1911.09454).", choices=METHODS),
]
Config = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Settings and other options as TOML, as written by 'cge tune'; the command line takes precedence.",
        callback=use_config,
        is_eager=True,
    ),
]
DryRun = Annotated[bool, flag_option("--dry-run", "Read the files and print what would be trained; write nothing.")]
NoMemoryCheck = Annotated[bool, flag_option("--no-memory-check", "Start even if the memory seems too small.")]


@takes_options
def fit(
    *,
    labels: Labels,
    validation: Validation = None,
    files: Files,
    out: Out,
    method: Method = METHODS[0],
    config: Config = None,  # noqa: ARG001 - used by its callback
    resume: Annotated[bool, flag_option("--resume", "Continue a fit that was interrupted.")] = False,
    dry_run: DryRun = False,
    no_memory_check: NoMemoryCheck = False,
    large: LargeGraphs,
    out_of_core: OutOfCore = False,
    quiet: Annotated[bool, flag_option("--quiet", "Print nothing but warnings and errors.")] = False,
    as_json: Json = False,
    help_all: HelpAll = False,  # noqa: ARG001 - used by its callback
    **settings: Any,
) -> None:
    """Train a node classifier on a graph and save the model.

    Path weights are fixed or learned on training labels; validation labels select which. The defaults, in brackets,
    suit most graphs.

    For example:

      cge fit edges.csv --labels labels.csv --out model
      cge fit edges.csv --labels labels.csv --features x.npz --out model
      cge fit edges.csv --labels labels.csv --out model --dry-run
      cge fit --config fit.toml --jobs 4
    """
    from cge.data.stored import is_stored_graph, open_graph
    from cge.estimators.cge import CGE
    from cge.estimators.configs import flat_params, make_estimator
    from cge.memory import available_memory

    model: PathEstimator = make_estimator(estimator_of(method), parsed_settings(method, settings))
    check = {"forced": out_of_core, "check_memory": not (no_memory_check or dry_run)}
    stored = large_graph(model, files, large, **check)
    if stored is not None:
        if not isinstance(model, CGE):
            raise InputError("the algorithm of the paper is not available out of core", hint="leave --method out")
        printing = {"dry_run": dry_run, "quiet": quiet, "as_json": as_json}
        fit_out_of_core(model, stored, files, (labels, validation), out, large, **printing)
        return
    if dry_run:
        folder, task = folder_of(out), _read(files, labels, validation, model)
        more = {"notes": task.notes, "method": method, "settings": flat_params(model)}
        _print_dry_run((task.plan, task.graph, str(folder), available_memory()), more, quiet=quiet, as_json=as_json)
        return
    with output_folder(out) as folder:
        checkpoint, visible = Checkpoint(folder), sys.stderr.isatty() and not (quiet or as_json)
        with reading(visible):
            task = _read(files, labels, validation, model)
        if not no_memory_check:
            refuse_too_large(task.plan, available_memory())
        if not resume:
            checkpoint.remove()
        elif not checkpoint.folder.exists():
            task.notes.append(f"there is no checkpoint in {folder}, so training starts with the first epoch")
        if files.edges is not None and is_stored_graph(files.edges):
            task.notes.append(choice_note(open_graph(files.edges), large.limit, out_of_core=False))
        print_notes([] if quiet or as_json else task.notes)
        start = time.perf_counter()
        try:
            warning_texts = _fit(model, task, checkpoint, visible)
            seconds = time.perf_counter() - start
            model.fit_call_ |= {"command": command_line(without=["--resume"]), "edge_columns": task.edge_columns}
            model.save(folder)
        except KeyboardInterrupt:
            raise Stopped(checkpoint.resume_hint()) from None
        checkpoint.remove()
    print_notes(warning_texts, "warning")
    summary, selection = fit_summary(model, out, seconds), model.selection_history_
    if as_json:
        about = {"warnings": warning_texts, "notes": task.notes, "method": method, "settings": flat_params(model)}
        histories = {"history": model.history_.rows(), "selection_history": selection and selection.rows()}
        print_json(summary | about | histories)
    elif not quiet:
        print_summary(summary, model)


def _print_dry_run(
    plan: tuple[FitPlan, Graph, str, int | None], more: dict[str, Any], *, quiet: bool, as_json: bool
) -> None:
    if as_json:
        print_json(plan_json(*plan) | more)
    elif not quiet:
        print_notes(more["notes"])
        print_plan(*plan)


class _Task(NamedTuple):
    """The content of the files: graph and labels, notes about them, and the plan of the fit.

    `edge_columns` are the names of the columns of sources and targets, where the edges have a header.
    """

    graph: Graph
    labels: TaskLabels
    notes: list[str]
    plan: FitPlan
    edge_columns: tuple[str, ...] = ()


def _read(files: Files, labels: str, validation: str | None, model: PathEstimator) -> _Task:
    """Check the settings, then read the files."""
    from cge.estimators.fit_plan import plan_fit
    from cge.estimators.path_estimator import checked_labels
    from cge.estimators.settings import check_settings
    from cge.store.packing import check_names

    check_settings(model)
    graph, reading = files.read_graph()
    check_names(graph)
    y, notes = read_label_dict(files, labels, graph)
    validation_labels = None
    if validation is not None:
        validation_labels, validation_notes = read_label_dict(files, validation, graph)
        notes += [*validation_notes, *_shared_nodes(labels, y, validation, validation_labels)]
    task_labels = checked_labels(model, graph, y, validation_labels)
    notes = [*map(shell_message, reading.notes), *notes]
    columns = [reading.columns.get(part) for part in ("source", "target")]
    names = tuple(name for name in columns if isinstance(name, str))
    return _Task(graph, task_labels, notes, plan_fit(model, graph, task_labels), names if len(names) == 2 else ())


def read_label_dict(files: Files, path: str, graph: Graph) -> tuple[dict[Any, Any], list[str]]:
    """Return {node id: name of its class}, or a list of names in a multilabel task, and notes about the file."""
    import numpy as np

    from cge.targets import class_target

    codes, names, notes = files.read_labels(path, graph)
    target = class_target(codes, np.array(names, object))
    nodes = target.labeled(codes).nonzero()[0]
    return dict(zip(graph.node_ids[nodes].tolist(), target.decode(codes[nodes]), strict=True)), notes


def _shared_nodes(labels: str, y: dict[Any, Any], validation: str, validation_labels: dict[Any, Any]) -> list[str]:
    """Return a note about nodes that have both a training and a validation label; raise an error if all do."""
    shared = len(validation_labels.keys() & y.keys())
    if shared == len(validation_labels):
        problem = f"{validation}: every node in it has a label in {labels}, too, so no validation label is left"
        raise InputError(problem, hint="remove the nodes of one file from the other")
    count = f"{shared:,} of {len(validation_labels):,} nodes in {validation} have a label in {labels}, too"
    return [f"{count}: they are used for training only"] if shared else []


def _fit(model: PathEstimator, task: _Task, checkpoint: Checkpoint, visible: bool) -> list[str]:
    """Train, and return the warnings of the library."""
    target, candidates = task.labels.target, len(task.plan.candidates)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CgeWarning)
        try:
            with FitProgress(checkpoint, target, task.plan.refit, visible, candidates) as progress:
                model.fit(task.graph, task.labels, resume=checkpoint.folder, callback=progress)
        except (CheckpointError, FileFormatError) as error:  # the checkpoint's folder is part of the output folder
            hint = "leave out --resume to start again, or give --out another folder"
            raise InputError(Message(error.place, error.problem), hint=hint) from error
    for warning in caught:
        if not issubclass(warning.category, CgeWarning):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return [shell_message(warning.message) for warning in caught if issubclass(warning.category, CgeWarning)]
