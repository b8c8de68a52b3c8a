"""`cge explain`: the paths behind the predictions of a saved model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from cge.cli.common_options import Json, ModelJobs, Quiet
from cge.cli.model_files import EXACT, ids_of, load_model, note_of_guards, output_file, printable, tell
from cge.cli.printing import facts, heading, print_json, print_table, width
from cge.errors import InputError, UnknownNodeError

if TYPE_CHECKING:
    from cge.estimators.cge import CGE
    from cge.explain.explanation import Explanation

__all__ = ["explain"]

_TEXTS = ("path", "known labels", "edge types")  # columns of the table that may be folded, to that many letters
_FOLDED, _NAME = 16, 14
_DISPENSABLE = ("edge types", "diversity", "length", "known labels")  # columns to leave out first in a narrow terminal


def explain(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder of a model that was saved.")],
    node: Annotated[str | None, typer.Option(metavar="ID", help="Explain the prediction for this node.")] = None,
    to: Annotated[
        str | None, typer.Option(metavar="ID", help="Of the paths from --node, only look at those to this one.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--class", metavar="NAME", help="Explain a class: which paths speak for it; with --node, at this node."
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many paths.")] = 20,
    hop: Annotated[int | None, typer.Option(min=0, help="List only paths of that many steps.")] = None,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="Without --node and --class: train the twin with A ≡ 1, and say how far ahead of it the weights are.",
        ),
    ] = False,
    classifier: Annotated[int, typer.Option(min=0, help="Which reader, where several are averaged.")] = 0,
    csv: Annotated[str | None, typer.Option("--csv", metavar="FILE", help="Write the paths as CSV.")] = None,
    parquet: Annotated[str | None, typer.Option(metavar="FILE", help="Write the paths as Parquet.")] = None,
    exact: Annotated[bool, typer.Option("--exact", help=EXACT)] = False,
    n_jobs: ModelJobs = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Say which paths of the graph carry a prediction, and how much each brings.

    With --node or --class; without them, what the weights of paths came to. All paths, a constant and the votes of
    known labels add up to the score of a class (docs/explanations.md); the strongest paths are listed.

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
    if compare and (node is not None or name is not None):
        raise InputError("--compare is about all weights; leave out --node and --class")
    files = [
        (output_file(given, [suffix], option), suffix)
        for given, suffix, option in ((csv, ".csv", "--csv"), (parquet, ".parquet", "--parquet"))
        if given is not None
    ]
    model = load_model(folder, n_jobs)
    if not hasattr(model, "explain"):
        kind = type(model).__name__
        raise InputError(f"{folder} holds a {kind}, which has no paths to explain it by; train one with 'cge fit'")
    if node is None and name is None:
        _say_worth(
            model,
            folder,
            [option for option, given in (("--csv", csv), ("--parquet", parquet)) if given],
            compare,
            quiet,
            as_json,
        )
        return
    told = {"top": top, "hop": hop, "classifier": classifier}
    found = _found(model, node, to, name, told)
    notes = [note for path, suffix in files for note in _write(found, path, suffix, exact)]
    if not quiet:
        tell(notes)
        tell([] if as_json else [f"{len(found):,} paths are written to {path}" for path, _ in files])
    if as_json:
        print_json({"folder": folder, **found.facts()})
    elif not quiet:
        _print(found)


def _say_worth(model: CGE, folder: str, files: list[str], compare: bool, quiet: bool, as_json: bool) -> None:
    """Say what the weights of paths came to."""
    if files:
        raise InputError(f"{files[0]} writes paths; say which with --node or --class")
    worth = model.compare_weighting(train_uniform=compare)
    if as_json:
        print_json({"folder": folder, "weight_parameters": getattr(model, "weight_parameters_", {}), **worth.facts()})
    elif not quiet:
        heading("What the weights of paths came to")
        print("\n".join(map(printable, worth.sentences())))


def _found(model: CGE, node: str | None, to: str | None, name: str | None, told: dict[str, Any]) -> Explanation:
    classes = {str(one): one for one in model.classes_.tolist()}
    if node is None:
        return model.explain_class(classes.get(str(name), name), **told)
    first = _known_id(model, node, "--node")
    told = told | {"target_class": None if name is None else classes.get(name, name)}
    return (
        model.explain(first, **told) if to is None else model.explain_pair(first, _known_id(model, to, "--to"), **told)
    )


def _known_id(model: CGE, text: str, option: str) -> Any:
    """Return the id of a node of the model."""
    node = ids_of(model, [text], option)[0]
    if node not in model.graph_:
        raise UnknownNodeError(option, [node])
    return node


# ---------------------------------------------------------------------- files


def _write(found: Explanation, path: Any, suffix: str, exact: bool) -> list[str]:
    """Write the paths as a table, which is there as a whole or not at all; return what to note about it."""
    from cge.store.atomic import write_files
    from cge.store.export_tables import count_escaped_cells, write_parquet_table, write_text_table

    columns = _columns(found, text=suffix == ".csv")

    def write(stream: BinaryIO) -> None:
        if suffix == ".csv":
            write_text_table(stream, columns, ",", exact=exact)
        else:
            write_parquet_table(stream, columns)

    write_files({path: write})
    return [] if exact or suffix != ".csv" else note_of_guards(count_escaped_cells(columns))


def _columns(found: Explanation, text: bool) -> dict[str, Any]:
    """Return the paths as columns; lists are joined where cells are text."""
    import numpy as np

    def cells(name: str) -> list[Any]:
        rows = [getattr(one, name) for one in found]
        return [_joined(row, str) if text else [_cell(one) for one in row] for row in rows]

    paths = list(found)
    names = ("path", "labels", "types") if found.edge_types else ("path", "labels")
    columns: dict[str, Any] = {"rank": np.arange(1, len(paths) + 1)} | {name: cells(name) for name in names}
    for name in ("length", "diversity", "weight", "contribution"):
        kind = np.int64 if name in ("length", "diversity") else np.float64
        columns[name] = np.array([getattr(one, name) for one in paths], kind)
    brought = np.array([one.contributions for one in paths]).reshape(len(paths), len(found.classes))
    for name, column in zip(found.classes.tolist(), brought.T, strict=True):
        columns[f"contribution to {name}"] = np.ascontiguousarray(column)
    columns["classifier"] = np.full(len(paths), found.classifier.place)
    columns["classifiers"] = np.full(len(paths), found.classifier.count)
    columns["reader_name"] = [found.classifier.name] * len(paths)
    return columns


def _text(label: Any) -> str:
    """Return an id or a label as text; a node may have several labels."""
    if not isinstance(label, tuple):
        return str(label)
    from cge.store.export_tables import SEPARATOR

    return SEPARATOR.join(map(str, label))


def _cell(label: Any) -> Any:
    """Return an id or a label as Parquet holds it: integers stay integers, and what is not known is nothing."""
    return label if label is None or isinstance(label, int) else _text(label)


def _joined(names: Iterable[Any], format_value: Callable[[str], str]) -> str:
    """Return what is known along a path; a dot stands for what is not."""
    return " → ".join("·" if one is None else format_value(_text(one)) for one in names)


# ---------------------------------------------------------------------- the terminal


def _print(found: Explanation) -> None:
    chance, name = found.probabilities[found.place], printable(found.explained)
    if found.node is None:
        heading(f"Which paths speak for {name}")
        facts([("nodes", f"{found.num_nodes:,} are predicted to be in it"), ("chance", f"{chance:.0%} on average")])
    else:
        via = "" if found.end is None else f", and what paths to {printable(found.end)} bring"
        told = found.explained in found.predicted_all
        why = f"Why {printable(found.node)} is in" if told else f"What speaks for {printable(found.node)} being in"
        heading(f"{why} {name} ({chance:.0%} sure){via}")
        if found.predicted_all != (found.explained,):
            facts([("predicted", _predicted(found))])
    if found.classifier_words():
        print(printable(found.classifier_words()))
    print()
    print_table([("of the score", "left"), ("brings", "right")], _parts(found))
    if not found.exact:
        print(
            "This encoder trains vectors by paths; that these paths bring what they do is an attribution, no identity."
        )
    print()
    if not len(found):
        print("No such path brings anything.")
        return
    if found.node is not None:
        format_list, every = sum(one.contribution for one in found), found.hops[:, found.place].sum()
        which = "all paths" if found.end is None else "all paths between the two"
        print(
            f"These {len(found)} paths bring {format_list:+.2f} of the {every:+.2f} that {which} bring:".replace(
                "-", "−"
            )
        )
    columns = _told(found)
    for name in _DISPENSABLE:  # as many as there is room for
        if sum(_room(title, cells) for title, cells in columns.items()) > width():
            columns.pop(name, None)
    sides = ["left" if title in _TEXTS else "right" for title in columns]
    print_table(list(zip(columns, sides, strict=True)), zip(*columns.values(), strict=True))


def _told(found: Explanation) -> dict[str, list[str]]:
    """Return what is told of paths, by title; nothing that is nowhere known."""
    columns = {
        "path": [_joined(one.path, printable) for one in found],
        "known labels": [_joined(one.labels, printable) for one in found],
        "edge types": [_joined(one.types, printable) for one in found],
        "length": [str(one.length) for one in found],
        "diversity": [str(one.diversity) for one in found],
        "weight": [f"{one.weight:.3g}" for one in found],
        "brings": [_signed(one.contribution) for one in found],
    }
    if not found.edge_types:
        del columns["edge types"]
    if found.runner_up is not None:
        place, name = found.runner_up, printable(found.classes.tolist()[found.runner_up])
        columns[f"to {name if len(name) <= _NAME else name[: _NAME - 1] + '…'}"] = [
            _signed(float(one.contributions[place])) for one in found
        ]
    return columns


def _room(title: str, cells: list[str]) -> int:
    """Return how many columns of a terminal a column needs; text may be folded."""
    wide = max(len(title), *map(len, cells))
    return min(wide, _FOLDED) + 2 if title in _TEXTS else wide + 2


def _signed(number: float) -> str:
    """Return a number with its sign; what is small has two digits that tell.

    >>> _signed(0.25), _signed(-0.0000314)
    ('+0.2500', '-3.1e-05')
    """
    return f"{number:+.4f}" if abs(number) >= 0.001 or not number else f"{number:+.2g}"


def _predicted(found: Explanation) -> str:
    """Return the predicted classes with their chances."""
    probabilities = dict(zip(found.classes.tolist(), found.probabilities.tolist(), strict=True))
    if found.predicted_all:
        return "; ".join(f"{printable(one)} ({probabilities[one]:.0%})" for one in found.predicted_all)
    return f"nothing; the most likely is {printable(found.predicted)} ({probabilities[found.predicted]:.0%})"


def _parts(found: Explanation) -> Iterator[tuple[str, str]]:
    """Return what the score of the explained class is made of."""
    place = found.place

    def row(name: str, numbers: Any) -> tuple[str, str]:
        return name, _signed(numbers[place])

    yield row("constant", found.constant)
    if found.votes.any():
        yield row("votes of known labels", found.votes)
    for steps, brought in enumerate(found.hops):
        yield row(f"paths of {steps} step{'' if steps == 1 else 's'}", brought)
    if found.end is not None or not found.exact:
        yield row("anything else", found.remainder)
    yield row("score", found.scores)
    for name, brought in found.edge_types.items():
        yield row(f"of the paths, by {printable(name)}", brought)
