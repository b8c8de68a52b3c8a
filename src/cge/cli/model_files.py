"""What commands share that use a saved model: loading it, node ids from the shell, output files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cge.errors import FileFormatError, InputError, Message, UnknownNodeError, format_value

if TYPE_CHECKING:
    from cge.arrays import Array
    from cge.estimators.classifier import BaselineClassifier
    from cge.estimators.embeddings import NodeVectors
    from cge.estimators.path_estimator import PathEstimator
    from cge.graph import Graph

    SavedModel = PathEstimator | BaselineClassifier | NodeVectors


def check_choice(option: str, value: str, choices: Iterable[str]) -> None:
    """Refuse a value that is none of the choices."""
    if value not in choices:
        raise InputError(f"{option} must be one of {', '.join(map(repr, choices))}, found {format_value(value)}")


def load_model(folder: str, n_jobs: int | None = None) -> SavedModel:
    """Return the model in a folder; it uses `n_jobs` threads, by default as many as in training."""
    from cge.estimators.persistence import load

    try:
        model: SavedModel = load(folder, n_jobs=n_jobs)
    except InputError as error:
        if (Path(folder) / "checkpoint").is_dir() and not (Path(folder) / "model.json").exists():
            hint = "continue it with the same 'cge fit' command and --resume"
            raise InputError(f"{folder}: the fit into this folder is not finished", hint=hint) from None
        if error.parameter != "weighting":
            raise
        raise InputError(Message(f"{folder}: ", error.problem), hint=error.hint) from None
    return model


def load_path_model(
    folder: str, n_jobs: int | None, problem: str, hint: str = "train a model with 'cge fit'"
) -> PathEstimator:
    """Return the `CGE` or `PaperCGE` in a folder; refuse another model, with the reason."""
    from cge.estimators.path_estimator import PathEstimator

    model = load_model(folder, n_jobs)
    if not isinstance(model, PathEstimator):
        raise wrong_model(model, folder, problem, hint)
    return model


def wrong_model(model: SavedModel, folder: str, problem: str, hint: str) -> InputError:
    """Return the error of a model that a command cannot use."""
    return InputError(f"{folder} contains a {type(model).__name__}, {problem}", hint=hint)


def vectors_of(model: SavedModel) -> Array | None:
    """Return the vectors of a model; None for a classifier that has none."""
    from cge.estimators.baselines import VectorClassifier
    from cge.estimators.classifier import BaselineClassifier

    if isinstance(model, BaselineClassifier) and not isinstance(model, VectorClassifier):
        return None
    return model.embedding_


def output_file(file: str, formats: Sequence[str], option: str = "--out", inputs: Iterable[str | None] = ()) -> Path:
    """Return the path of a file to write; refuse one that cannot be written before anything is computed."""
    from cge.data.files.file_path import file_path
    from cge.store.atomic import writable_file
    from cge.store.exports import file_format

    try:
        file_path(file)
    except InputError:
        raise InputError(f"{option} must be the path of a file, found {format_value(file)}") from None
    try:
        file_format(file, formats)
        path = writable_file(file)
    except InputError as error:
        raise InputError(Message(f"{option} ", error.message)) from None
    for source in inputs:
        if source is not None and path.exists() and Path(source).exists() and path.samefile(source):
            raise InputError(f"{option} {file} is also an input file; choose another one to write")
    return path


def ids_of(model: SavedModel, words: Sequence[str]) -> list[Any]:
    """Return ids in the type that the model has: integers where its ids are."""
    from cge.data.files.dialect import is_integer

    if model.node_ids_.dtype.kind != "i":
        return list(words)
    wrong = next((word for word in words if not is_integer(word)), None)
    if wrong is not None:
        raise UnknownNodeError("", [wrong], node_ids=model.node_ids_[:2].tolist())
    return [int(word) for word in words]


def escape_note(columns: dict[str, Any]) -> list[str]:
    """Return a note if cells of a text table start like formulas, and so got an apostrophe."""
    from cge.store.export_formats import count_escaped_cells

    cells = count_escaped_cells(columns)
    start = f"{cells:,} cells start like formulas" if cells > 1 else "1 cell starts like a formula"
    return [f"{start}; an apostrophe was put before them, for spreadsheets (not with --no-escape)"] if cells else []


def read_test_labels(model: PathEstimator, file: str, graph: Graph | None = None, **columns: Any) -> Array:
    """Return the labels in a file: class numbers of the model, −1 where there are none; zeros and ones; or numbers.

    They are those of the nodes of `graph`, by default that of the model.
    """
    from cge.data import read_labels

    target, graph = model.fitted_.target, model.graph_ if graph is None else graph
    try:
        codes, names = read_labels(file, graph, multilabel=target.multilabel, **columns)
    except FileFormatError as error:
        if error.parameter != "multilabel":
            raise
        hint = "keep one label for each node, as in training"
        raise FileFormatError(error.path, error.problem, error.line, hint=hint) from None
    return target.encode_names(graph, codes, names, file)


def no_test_labels(file: str) -> InputError:
    """Return the error of a file of test labels all of which were used in training."""
    problem = f"{file}: every node in it has a training or validation label"
    return InputError(problem, hint="give labels of other nodes")
