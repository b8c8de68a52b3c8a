"""The files of a graph, and how to read them: the options that `cge check` and `cge fit` share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from cge.cli.common_options import among, dataset_names
from cge.cli.flags import shell_message
from cge.errors import InputError

if TYPE_CHECKING:
    import numpy.typing as npt

    from cge.data.files.edge_summary import EdgeSummary
    from cge.graph import Graph

__all__ = ["DELIMITERS", "FILES", "Files", "column_of", "need_file", "takes_files"]

FILES, _READING = "Files", "How to read them"  # panels of the help
DELIMITERS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}


def _read(*names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel=_READING, **more)


def column_of(given: str | None) -> str | int | None:
    """Take digits as the number of a column, anything else as its name."""
    return int(given) if given is not None and given.isascii() and given.isdigit() else given


def need_file(option: str, given: str | None, about: dict[str, Any]) -> None:
    """Refuse options that say how to read a file which is not given; `about` has None or False where they are not."""
    strange = next((name for name, value in about.items() if value not in (None, False)), None)
    if given is None and strange is not None:
        raise InputError(f"--{strange.replace('_', '-')} is about the file of {option}; give one, or leave it out")


@dataclass(frozen=True)
class Files:
    """What is given on the command line about the files of a graph; each field is an option."""

    edges: Annotated[
        str,
        typer.Argument(metavar="EDGES", help="Edges: .csv, .tsv, .txt (each also .gz), .parquet, .npy, .npz or .mtx."),
    ]
    features: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Features: a table keyed by node, .npy or .npz.", rich_help_panel=FILES),
    ] = None
    nodes: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="All nodes, isolated ones too: one per line, a column of a table, or .npy.",
            rich_help_panel=FILES,
        ),
    ] = None
    directed: Annotated[bool, _read("--directed", help="Edges have a direction.")] = False
    self_loops: Annotated[bool, _read("--self-loops", help="Keep edges from a node to itself.")] = False
    weighted: Annotated[bool | None, _read("--weighted/--unweighted", help="Demand weights, or ignore them.")] = None
    ids: Annotated[
        str,
        _read(
            help="Read node ids as 'int' or 'str'; 'auto' looks at the first row.",
            autocompletion=among("auto", "int", "str"),
        ),
    ] = "auto"
    delimiter: Annotated[
        str | None, _read(metavar="SIGN", help="What separates columns of edges: one sign, 'tab' or 'space'.")
    ] = None
    header: Annotated[
        bool | None, _read("--header/--no-header", help="Whether the first row of edges names the columns.")
    ] = None
    comment: Annotated[str, _read(metavar="SIGN", help="What begins a line to skip; '' for nothing.")] = "#"
    source: Annotated[str | None, _read(metavar="COLUMN", help="Sources: a name, or a number from 1.")] = None
    target: Annotated[str | None, _read(metavar="COLUMN", help="Targets, likewise.")] = None
    weight: Annotated[str | None, _read(metavar="COLUMN", help="Weights of edges, likewise.")] = None
    edge_type: Annotated[str | None, _read(metavar="COLUMN", help="Types of edges, likewise.")] = None
    node: Annotated[str | None, _read(metavar="COLUMN", help="Nodes in the file of labels, likewise.")] = None
    label: Annotated[str | None, _read(metavar="COLUMN", help="Labels in their file, likewise.")] = None
    multilabel: Annotated[bool, _read("--multilabel", help="A node may have several labels.")] = False

    def read_graph(self) -> tuple[Graph, EdgeSummary]:
        """Read edges, features and nodes, and tell how."""
        from cge.data.files.dialect import TextOptions
        from cge.data.files.edges import EdgeOptions
        from cge.data.files.graph_files import read_graph_with_summary

        if not Path(self.edges).exists() and self.edges.lower() in dataset_names():
            raise InputError(
                f"{self.edges}: there is no such file; EDGES is one, data sets by name are for 'cge evaluate', "
                "tune and reproduce"
            )
        delimiter = self.delimiter and DELIMITERS.get(self.delimiter, self.delimiter)
        text = TextOptions(self.header, delimiter, self.comment or None)
        columns = (column_of(self.source), column_of(self.target), column_of(self.weight), column_of(self.edge_type))
        return read_graph_with_summary(
            self.edges,
            self.features,
            nodes=self.nodes,
            options=EdgeOptions(*columns, self.weighted, self.ids, text),
            directed=self.directed,
            self_loops=self.self_loops,
        )

    def read_labels(self, path: str, graph: Graph) -> tuple[npt.NDArray[Any], tuple[str, ...], list[str]]:
        """Read a file of labels, as `cge.read_labels` returns them, and tell what may not be as meant."""
        from cge.data.files.dialect import TextOptions
        from cge.data.files.graph_files import read_labels_with_notes

        named: dict[str, Any] = {"node": column_of(self.node), "label": column_of(self.label)}
        text = TextOptions(comment=self.comment or None)
        codes, names, notes = read_labels_with_notes(path, graph, text, multilabel=self.multilabel, **named)
        return codes, names, list(map(shell_message, notes))


def takes_files(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command with an argument `files: Files` an option for each field instead.

    Typer knows no options in groups, so the signature that it reads is written here. `**settings` are left out of it:
    `cge.cli.estimator_options` puts options in their place.
    """
    hints = get_type_hints(Files, include_extras=True)
    fields = inspect.signature(Files).parameters
    parameters: list[inspect.Parameter] = []
    for one in inspect.signature(command, eval_str=True).parameters.values():
        if one.name == "files":
            parameters += [
                field.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
                for name, field in fields.items()
            ]
        elif one.kind is not inspect.Parameter.VAR_KEYWORD:
            parameters.append(one)

    @wraps(command)
    def spread(**given: Any) -> None:
        command(files=Files(**{name: given.pop(name) for name in fields}), **given)

    spread.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return spread
