"""`cge explain`: the paths that contribute to the predictions of a saved model."""

from __future__ import annotations

from collections.abc import Container, Iterator
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

from cge.cli.command import shell_message
from cge.cli.common_options import Json, ModelFolder, ModelJobs, NoEscape, Quiet, flag_option, int_option, text_option
from cge.cli.graph_options import UpdateFiles
from cge.cli.main import printable
from cge.cli.model_files import check_choice, escape_note, ids_of, load_path_model, output_file
from cge.cli.option_groups import takes_options
from cge.cli.printing import heading, print_json, print_notes, print_pairs, print_table, width
from cge.errors import InputError, counted

if TYPE_CHECKING:
    from cge.estimators.path_estimator import PathEstimator
    from cge.explain.explanation import Explanation
    from cge.explain.metapath_weights import MetapathWeight
    from cge.explain.weighting_comparison import WeightingComparison

_FOLDED = 16  # characters to which columns of text may be folded
# Left out first in a narrow terminal.
_DISPENSABLE = ("edge types", "hops", "paths", "top features", "training labels", "ends at")
_NO_LABELS = "No training labels are propagated."
_EMPTY = {  # what is printed instead of a table without rows
    "path": "No such path contributes anything.",
    "endpoint": "No path contributes anything.",
    "labeled-node": _NO_LABELS,
    "label": _NO_LABELS,
    "feature": "No features are propagated.",
    "metapath": "Edges have no types.",
}
_TABLES = ("path", "endpoint", "labeled-node", "label", "feature", "metapath")


TargetClass = Annotated[
    str | None, text_option("NAME", "Class to explain; with --node, its score for that node.", "--class")
]
TrainUniform = Annotated[
    bool,
    flag_option(
        "--train-uniform", "Without --node and --class: train a second model with uniform weights, for comparison."
    ),
]
Classifier = Annotated[
    str, text_option("NAME", "Name or index, from 0, of the classifier to explain, where several are averaged.")
]
By = Annotated[
    str | None,
    text_option(
        "TABLE",
        "Table to print and to write: 'path', or contributions added up by 'endpoint', 'labeled-node', 'label', "
        "'feature' or 'metapath' \\[endpoints and paths are printed, paths are written].",
        choices=_TABLES,
    ),
]


@takes_options
def explain(
    folder: ModelFolder,
    *,
    update: UpdateFiles,
    node: Annotated[str | None, text_option("ID", "Explain the prediction for this node.")] = None,
    to: Annotated[str | None, text_option("ID", "Only paths from --node to this node.")] = None,
    target_class: TargetClass = None,
    by: By = None,
    top: Annotated[
        int | None,
        int_option("How many rows to list \\[enough to cover 80 % of the contributions, at most 10].", minimum=1),
    ] = None,
    hop: Annotated[int | None, int_option("List only paths with this number of hops.", minimum=0)] = None,
    train_uniform: TrainUniform = False,
    classifier: Classifier = "0",
    csv: Annotated[str | None, text_option("FILE", "Write the table as CSV.")] = None,
    parquet: Annotated[str | None, text_option("FILE", "Write the table as Parquet.")] = None,
    no_escape: NoEscape = False,
    n_jobs: ModelJobs = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Explain a prediction: the nodes, labels and features at the ends of paths, and the paths to them.

    Use --node or --class; without them, the path weighting is described and compared with uniform weights. The
    contributions of all paths and a constant add up to the score of a class (docs/explanations.md). New nodes are
    explained with their edges and features, as by 'cge predict'.

    For example:

      cge explain model
      cge explain model --train-uniform
      cge explain model --by metapath
      cge explain model --node 35
      cge explain model --node 35 --class Theory --by feature
      cge explain model --node 35 --to 887 --json
      cge explain model --class Theory --top 50 --csv theory.csv
      cge explain model --graph new-edges.csv --node new-1
    """
    if to is not None and node is None:
        raise InputError("--to needs --node, the node where paths start")
    if train_uniform and (node is not None or target_class is not None):
        raise InputError("--train-uniform is about the whole model; leave out --node and --class")
    exports = {"csv": csv, "parquet": parquet}
    if by is not None:
        check_choice("--by", by, _TABLES)
    files = [(output_file(path, [f".{kind}"], f"--{kind}"), kind) for kind, path in exports.items() if path is not None]
    if node is None and any(update.paths):
        raise InputError("--graph and --features add new nodes", hint="name the one to explain with --node")
    model = load_path_model(folder, n_jobs, "whose predictions are not based on paths")
    if node is None and target_class is None:
        if files:
            raise InputError("--csv and --parquet write paths", hint="add --node or --class")
        if by == "metapath":
            _print_metapaths(folder, model.metapaths(top or 10, classifier=_index(classifier)), as_json, quiet)
        else:
            _print_weighting(folder, model, model.compare_weighting(train_uniform=train_uniform), as_json, quiet)
        return
    new, reading_notes = update.read(model)
    notes = list(map(shell_message, reading_notes))
    options = {"top": top, "hop": hop, "classifier": _index(classifier)}
    explanation = _explain(model, node, to, target_class, new, options)
    table = by or "path"
    notes += [note for path, kind in files for note in _write(explanation, table, path, kind, no_escape)]
    if not quiet:
        print_notes(notes)
        size, name = len(explanation.rows(table)), "paths" if table == "path" else "rows"
        print_notes([] if as_json else [f"{size:,} {name} are written to {path}" for path, _ in files])
    if as_json:
        print_json({"folder": folder, **explanation.to_dict()})
    elif not quiet:
        _print(explanation, by)


def _index(classifier: str) -> int | str:
    """Return the index of a classifier, or its name."""
    return int(classifier) if classifier.isascii() and classifier.isdigit() else classifier


def _print_weighting(
    folder: str, model: PathEstimator, comparison: WeightingComparison, as_json: bool, quiet: bool
) -> None:
    """Print how the path weighting of a model compares with uniform weights."""
    if as_json:
        about = {"folder": folder, "weight_parameters": model.fitted_.weight_parameters}
        print_json(about | comparison.to_dict())
    elif not quiet:
        heading("Path weighting")
        print("\n".join(map(printable, comparison.sentences())))


def _print_metapaths(folder: str, metapaths: list[MetapathWeight], as_json: bool, quiet: bool) -> None:
    """Print the metapaths of a model, as shares of all path weights and contributions."""
    if as_json:
        print_json({"folder": folder, "metapaths": [row.to_dict() for row in metapaths]})
    elif not quiet:
        heading("Metapaths with the largest contributions")
        titles = ("weight", "uniform weight", "contribution", "change in accuracy without it")
        columns = [("metapath", "left"), *((title, "right") for title in titles)]
        print_table(columns, (_metapath_cells(row) for row in metapaths))
        print(fill("Weights and contributions are shares of those of all metapaths.", width()))


def _metapath_cells(row: MetapathWeight) -> list[str]:
    shares = [f"{share:.1%}" for share in (row.weight, row.uniform_weight, row.contribution)]
    change = "" if row.accuracy_change is None else f"{100 * row.accuracy_change:+.1f} percentage points"
    return [printable(row.metapath), *shares, change]


def _explain(
    model: PathEstimator, node: str | None, to: str | None, target_class: str | None, new: Any, options: dict[str, Any]
) -> Explanation:
    label = None if target_class is None else model.fitted_.target.class_named(target_class)
    if node is None:
        return model.explain_class(label, **options)
    start, *end = ids_of(model, [node] if to is None else [node, to])
    if not end:
        return model.explain(start, target_class=label, graph=new, **options)
    return model.explain_pair(start, end[0], target_class=label, graph=new, **options)


def _write(explanation: Explanation, by: str, path: Path, kind: str, no_escape: bool) -> list[str]:
    """Write a table, completely or not at all; return notes about it."""
    from cge.store.atomic import write_files
    from cge.store.export_formats import write_parquet_table, write_text_table

    columns = _columns(explanation, by, text=kind == "csv")
    if kind == "parquet":
        write_files({path: lambda stream: write_parquet_table(stream, columns)})
        return []
    write_files({path: lambda stream: write_text_table(stream, columns, ",", exact=no_escape)})
    return [] if no_escape else escape_note(columns)


def _columns(explanation: Explanation, by: str, text: bool) -> dict[str, Any]:
    """Return the rows of a table as columns; lists are joined where cells are text."""
    import numpy as np

    from cge.explain.explanation import label_text

    def cell(value: Any) -> Any:
        return value if value is None or isinstance(value, int) else label_text(value)

    rows = explanation.rows(by)
    for row in rows:
        row |= {f"contribution to {name}": value for name, value in row.pop("contributions", {}).items()}
    columns: dict[str, Any] = {"rank": np.arange(1, len(rows) + 1)}
    for name in rows[0] if rows else ():
        values = [row[name] for row in rows]
        if name in ("path", "training_labels", "edge_types") and text:
            columns[name] = [" → ".join("·" if each is None else label_text(each) for each in row) for row in values]
        elif name in ("path", "training_labels", "edge_types"):
            columns[name] = [[cell(each) for each in row] for row in values]
        elif name == "features":
            columns[name] = ["; ".join(f"{feature} {value:+.4g}" for feature, value in cells) for cells in values]
        elif name not in ("name", "label", "ends_at"):
            columns[name] = np.array(values, np.int64 if isinstance(values[0], int) else np.float64)
        else:
            columns[name] = ["" if value is None else label_text(value) for value in values]
    info = explanation.classifier
    numbers = {"classifier_index": np.full(len(rows), info.index), "num_classifiers": np.full(len(rows), info.count)}
    return columns | {"classifier": [info.name] * len(rows)} | numbers


def _print(explanation: Explanation, by: str | None) -> None:
    _print_heading(explanation)
    for sentence in (explanation.describe_information(), explanation.describe_classifier()):
        if sentence:
            print(fill(printable(sentence), width()))
    print()
    contribution = (
        "contribution" if explanation.node is not None else f"mean contribution ({explanation.num_nodes:,} nodes)"
    )
    print_table([("part of the score", "left"), (contribution, "right")], _parts(explanation))
    if explanation.target.texts.score_meaning:
        print(fill(explanation.target.texts.score_meaning, width()))
    if not explanation.exact:
        print("The paper's algorithm has no exact sum over paths: contributions are an attribution, with a remainder.")
    for table in ("endpoint", "path") if by is None else (by,):
        print()
        _print_rows(explanation, table)


def _print_rows(explanation: Explanation, by: str) -> None:
    """Print a table, with fewer columns in a narrow terminal."""
    from cge.explain.explanation import TEXT_COLUMNS, label_text

    def text(label: Any) -> str:
        return printable(label_text(label))

    if not explanation.rows(by):
        numbers = by == "label" and explanation.by_labeled_node.size
        print("Labels are numbers: --by labeled-node lists the nodes that have one." if numbers else _EMPTY[by])
        return
    columns = explanation.table(by, text)
    for title in _DISPENSABLE:
        if _needed_width(columns, TEXT_COLUMNS) > width():
            columns.pop(title, None)
    sides = ["left" if title in TEXT_COLUMNS else "right" for title in columns]
    print_table(list(zip(columns, sides, strict=True)), zip(*columns.values(), strict=True))
    footer = [explanation.describe_coverage(), *explanation.table_footer()] if by == "path" else []
    if by == "path" and explanation.node is None:
        footer.insert(0, "Each path contributes to the score of its first node.")
    if "training label" in columns:
        footer.append("· = no training label")
    for sentence in filter(None, footer):
        print(fill(sentence, width()))


def _print_heading(explanation: Explanation) -> None:
    output = explanation.target.format_output(explanation.probabilities[explanation.target_index])
    texts, label, node = explanation.target.texts, printable(explanation.target_class), printable(explanation.node)
    if explanation.node is None:
        heading(f"Paths that contribute most to {label}")
        nodes = "1 node is" if explanation.num_nodes == 1 else f"{explanation.num_nodes:,} nodes are"
        print(f"{nodes} predicted as {label}")
        print_pairs([("mean probability", output)])
        return
    via = "" if explanation.endpoint is None else f", paths to {printable(explanation.endpoint)}"
    predicted = explanation.target_class in explanation.predicted_all
    title = texts.prediction_title if predicted else texts.class_title
    heading(f"{title.format(node=node, label=label)}{via}")
    rows = [(texts.output_title, output)]
    if explanation.predicted_all != (explanation.target_class,):
        rows.append(("predicted", _predicted(explanation)))
    print_pairs(rows)


def _needed_width(columns: dict[str, list[str]], foldable: Container[str]) -> int:
    """Return how many columns of a terminal a table needs; text may be folded."""
    widths = {title: max(len(title), *map(len, cells)) for title, cells in columns.items()}
    return sum(min(width, _FOLDED) + 2 if title in foldable else width + 2 for title, width in widths.items())


def _predicted(explanation: Explanation) -> str:
    """Return the predicted classes with their probabilities."""
    probabilities = dict(zip(explanation.classes.tolist(), explanation.probabilities.tolist(), strict=True))
    if explanation.predicted_all:
        return "; ".join(f"{printable(name)} ({probabilities[name]:.0%})" for name in explanation.predicted_all)
    likely = explanation.predicted
    return f"no class; the most probable is {printable(likely)} ({probabilities[likely]:.0%})"


def _parts(explanation: Explanation) -> Iterator[tuple[str, str]]:
    """Yield the parts that the score of the explained class is made of."""
    from cge.explain.explanation import signed

    def row(name: str, numbers: Any) -> tuple[str, str]:
        return name, signed(numbers[explanation.target_index])

    inputs = "features" if explanation.by_feature.size else "inputs"
    yield row("constant", explanation.constant)
    if explanation.label_propagation.any():
        yield row("training labels, all paths", explanation.label_propagation)
    for hop, contributions in enumerate(explanation.by_hop):
        yield row(f"{inputs}, paths of {counted(hop, 'hop')}", contributions)
    if explanation.endpoint is not None or not explanation.exact:
        yield row("remainder", explanation.remainder)
    yield row("score", explanation.scores)
    for name, contributions in explanation.by_edge_type.items():
        yield row(f"of which over edges of type {printable(name)}", contributions)
