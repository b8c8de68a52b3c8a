"""`cge explain`: the paths that contribute to the predictions of a saved model."""

from __future__ import annotations

from collections.abc import Container, Iterator
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

from cge.cli.common_options import Exact, Json, ModelFolder, ModelJobs, Quiet, flag_option, int_option, text_option
from cge.cli.main import printable
from cge.cli.model_files import escape_note, ids_of, load_model, output_file, require
from cge.cli.printing import heading, print_json, print_notes, print_pairs, print_table, width
from cge.errors import InputError

if TYPE_CHECKING:
    from cge.estimators.path_estimator import PathEstimator
    from cge.explain.explanation import Explanation

_FOLDED = 16  # characters to which columns of text may be folded
_DISPENSABLE = ("edge types", "distinct nodes", "hops", "training labels")  # left out first in a narrow terminal


TargetClass = Annotated[
    str | None, text_option("NAME", "Class to explain; with --node, its score for that node.", "--class")
]
Compare = Annotated[
    bool,
    flag_option(
        "--compare", "Without --node and --class: train a second model with uniform weights and compare with it."
    ),
]
Classifier = Annotated[int, int_option("Index of the classifier, from 0, where several are averaged.", minimum=0)]


def explain(
    folder: ModelFolder,
    node: Annotated[str | None, text_option("ID", "Explain the prediction for this node.")] = None,
    to: Annotated[str | None, text_option("ID", "Only paths from --node to this node.")] = None,
    target_class: TargetClass = None,
    top: Annotated[int, int_option("How many paths to list.", minimum=1)] = 20,
    hop: Annotated[int | None, int_option("List only paths with this number of edges.", minimum=0)] = None,
    compare: Compare = False,
    classifier: Classifier = 0,
    csv: Annotated[str | None, text_option("FILE", "Write the paths as CSV.")] = None,
    parquet: Annotated[str | None, text_option("FILE", "Write the paths as Parquet.")] = None,
    exact: Exact = False,
    n_jobs: ModelJobs = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """List the paths of the graph that contribute most to a prediction.

    Use --node or --class; without them, the path weighting is described and compared with uniform weights. The
    contributions of all paths, a constant and label propagation add up to the score of a class (docs/explanations.md).

    For example:

      cge explain model
      cge explain model --compare
      cge explain model --node 35
      cge explain model --node 35 --class Theory
      cge explain model --node 35 --to 887 --json
      cge explain model --class Theory --top 50 --csv theory.csv
    """
    if to is not None and node is None:
        raise InputError("--to needs --node, the node where paths start")
    if compare and (node is not None or target_class is not None):
        raise InputError("--compare is about the whole model; leave out --node and --class")
    given = {"csv": csv, "parquet": parquet}
    files = [(output_file(path, [f".{kind}"], f"--{kind}"), kind) for kind, path in given.items() if path is not None]
    model = load_model(folder, n_jobs)
    require(model, "explain", folder, "whose predictions are not based on paths")
    regression = model.fitted_.target.kind == "regression"
    if regression and target_class is not None:
        raise InputError("a regression model has no classes", hint="leave out --class")
    if node is None and target_class is None:
        if files:
            raise InputError("--csv and --parquet write paths", hint="add --node or --class")
        comparison = model.compare_weighting(train_uniform=compare)
        if as_json:
            parameters = getattr(model, "weight_parameters_", None)
            print_json({"folder": folder, "weight_parameters": parameters, **comparison.to_dict()})
        elif not quiet:
            heading("Path weighting")
            print("\n".join(map(printable, comparison.sentences())))
        return
    explanation = _explain(model, node, to, target_class, {"top": top, "hop": hop, "classifier": classifier})
    notes = [note for path, kind in files for note in _write(explanation, path, kind, exact)]
    if not quiet:
        print_notes(notes)
        print_notes([] if as_json else [f"{len(explanation):,} paths are written to {path}" for path, _ in files])
    if as_json:
        print_json({"folder": folder, **explanation.to_dict()})
    elif not quiet:
        _print(explanation, regression=regression)


def _explain(
    model: PathEstimator, node: str | None, to: str | None, target_class: str | None, options: dict[str, Any]
) -> Explanation:
    classes = {str(label): label for label in model.classes_.tolist()}
    label = None if target_class is None else classes.get(target_class, target_class)
    if node is None:
        return model.explain_class(label, **options)
    start, *end = ids_of(model, [node] if to is None else [node, to])
    for known in (start, *end):
        model.graph_.index_of(known)  # raises an error if there is none
    if not end:
        return model.explain(start, target_class=label, **options)
    return model.explain_pair(start, end[0], target_class=label, **options)


def _write(explanation: Explanation, path: Path, kind: str, exact: bool) -> list[str]:
    """Write the paths as a table, completely or not at all; return notes about it."""
    from cge.store.atomic import write_files
    from cge.store.export_formats import write_parquet_table, write_text_table

    columns = _columns(explanation, text=kind == "csv")
    if kind == "parquet":
        write_files({path: lambda stream: write_parquet_table(stream, columns)})
        return []
    write_files({path: lambda stream: write_text_table(stream, columns, ",", exact=exact)})
    return [] if exact else escape_note(columns)


def _columns(explanation: Explanation, text: bool) -> dict[str, Any]:
    """Return the paths as columns; lists are joined where cells are text."""
    import numpy as np

    from cge.explain.explanation import label_text

    def cells(name: str) -> list[Any]:
        rows = [getattr(path, name) for path in explanation]
        if text:
            return [" → ".join("·" if value is None else label_text(value) for value in row) for row in rows]
        return [
            [value if value is None or isinstance(value, int) else label_text(value) for value in row] for row in rows
        ]

    paths = list(explanation)
    names = ("path", "labels", "types") if explanation.by_edge_type else ("path", "labels")
    columns: dict[str, Any] = {"rank": np.arange(1, len(paths) + 1)} | {name: cells(name) for name in names}
    for name in ("length", "hops", "diversity", "weight", "contribution"):
        kind = np.float64 if name in ("weight", "contribution") else np.int64
        columns[name] = np.array([getattr(path, name) for path in paths], kind)
    contributions = np.array([path.contributions for path in paths]).reshape(len(paths), len(explanation.classes))
    for name, column in zip(explanation.classes.tolist(), contributions.T, strict=True):
        columns[f"contribution to {name}"] = np.ascontiguousarray(column)
    columns["classifier"] = np.full(len(paths), explanation.classifier.index)
    columns["n_classifiers"] = np.full(len(paths), explanation.classifier.count)
    columns["classifier_name"] = [explanation.classifier.name] * len(paths)
    return columns


def _print(explanation: Explanation, *, regression: bool) -> None:
    from cge.explain.explanation import TEXT_COLUMNS, label_text

    _print_heading(explanation, regression)
    if explanation.describe_classifier():
        print(printable(explanation.describe_classifier()))
    print()
    print_table([("part of the score", "left"), ("contribution", "right")], _parts(explanation))
    if not explanation.exact:
        print("The paper's algorithm has no exact sum over paths: contributions are an attribution, with a remainder.")
    print()
    if not len(explanation):
        print("No such path contributes anything.")
        return
    if explanation.node is not None:
        listed = sum(path.contribution for path in explanation)
        total = explanation.by_hop[:, explanation.target_index].sum()
        which = "all paths" if explanation.endpoint is None else "all paths between the two nodes"
        numbers = f"{listed:+.2f} of {total:+.2f}".replace("-", "−")
        print(f"Contribution of these {len(explanation)} paths: {numbers} from {which}.")
    columns = explanation.table(lambda label: printable(label_text(label)))
    for title in _DISPENSABLE:
        if _needed_width(columns, TEXT_COLUMNS) > width():
            columns.pop(title, None)
    sides = ["left" if title in TEXT_COLUMNS else "right" for title in columns]
    print_table(list(zip(columns, sides, strict=True)), zip(*columns.values(), strict=True))
    print(fill(explanation.table_footer(lambda label: printable(label_text(label))), width()))


def _print_heading(explanation: Explanation, regression: bool) -> None:
    output, label = explanation.probabilities[explanation.target_index], printable(explanation.target_class)
    node = printable(explanation.node)
    if explanation.node is None:
        heading(f"Paths that contribute most to {label}")
        nodes = "1 node is" if explanation.num_nodes == 1 else f"{explanation.num_nodes:,} nodes are"
        print(f"{nodes} predicted as {label}")
        print_pairs([("mean probability", f"{output:.0%}")])
        return
    via = "" if explanation.endpoint is None else f", paths to {printable(explanation.endpoint)}"
    if regression:
        heading(f"Paths that contribute most to the value of {node}{via}")
        print_pairs([("predicted", f"{output:.6g}")])
        return
    predicted = explanation.target_class in explanation.predicted_all
    heading(f"Why {node} is predicted as {label}{via}" if predicted else f"What contributes to {label} at {node}{via}")
    rows = [("probability", f"{output:.0%}")]
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

    yield row("constant", explanation.constant)
    if explanation.label_propagation.any():
        yield row("label propagation", explanation.label_propagation)
    for hop, contributions in enumerate(explanation.by_hop):
        yield row(f"paths with {hop} edge{'' if hop == 1 else 's'}", contributions)
    if explanation.endpoint is not None or not explanation.exact:
        yield row("remainder", explanation.remainder)
    yield row("score", explanation.scores)
    for name, contributions in explanation.by_edge_type.items():
        yield row(f"of the paths, edge type {printable(name)}", contributions)
