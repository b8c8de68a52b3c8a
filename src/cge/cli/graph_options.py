"""The files of a graph and how to read them: options of `cge check` and `cge fit`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cge.cli.command import shell_message
from cge.cli.common_options import FILES, among, dataset_names, file_option
from cge.errors import InputError

if TYPE_CHECKING:
    import numpy.typing as npt

    from cge.data.files.dialect import TextOptions
    from cge.data.files.edge_summary import EdgeSummary
    from cge.graph import Graph


def _read(*flags: str, **more: Any) -> Any:
    return typer.Option(*flags, rich_help_panel="File format", **more)


def _column(content: str) -> Any:
    return _read(metavar="COLUMN", help=f"Column of {content}.")


SelfLoops = Annotated[
    bool, _read("--self-loops", help="Keep the file's own self-loops and their weights; by default they are replaced.")
]
Weighted = Annotated[bool | None, _read("--weighted/--unweighted", help="Require edge weights, or ignore them.")]
Delimiter = Annotated[
    str | None, _read(metavar="CHAR", help="Separator of the columns of edges: one character, 'tab' or 'space'.")
]
Header = Annotated[bool | None, _read("--header/--no-header", help="Whether the first row of edges names the columns.")]
Comment = Annotated[str, _read(metavar="CHAR", help="Lines that start with this character are skipped; '' for none.")]
Source = Annotated[str | None, _column("sources: a name, or a number from 1")]
Target = Annotated[str | None, _column("targets")]
Weight = Annotated[str | None, _column("edge weights")]
EdgeType = Annotated[str | None, _column("edge types")]
NodeColumn = Annotated[str | None, _column("nodes in the labels file: a name, or a number from 1")]
LabelColumn = Annotated[str | None, _column("labels in the labels file")]


def text_options(header: bool | None, delimiter: str | None, comment: str) -> TextOptions:
    """Return how to read text; separators may be given by name."""
    from cge.data.files.dialect import TextOptions

    names = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}
    return TextOptions(header, delimiter and names.get(delimiter, delimiter), comment or None)


def column_of(given: str | None) -> str | int | None:
    """Return digits as the number of a column, anything else as its name."""
    return int(given) if given is not None and given.isascii() and given.isdigit() else given


def require_file(option: str, given: str | None, about: dict[str, Any]) -> None:
    """Refuse options that describe a file which is not given; `about` has None or False where they are not given."""
    unused = next((name for name, value in about.items() if value not in (None, False)), None)
    if given is None and unused is not None:
        raise InputError(f"--{unused.replace('_', '-')} describes the file of {option}; add {option}, or leave it out")


@dataclass(frozen=True)
class Files:
    """The options about the files of a graph; each field is an option."""

    edges: Annotated[str, typer.Argument(metavar="EDGES", help="Edges: {suffixes of edges}.")]
    features: Annotated[str | None, file_option("Features: {suffixes of features}.")] = None
    node_list: Annotated[str | None, file_option("All node ids, isolated nodes included: {suffixes of nodes}.")] = None
    directed: Annotated[bool, typer.Option("--directed", help="The edges are directed.", rich_help_panel=FILES)] = False
    self_loops: SelfLoops = False
    weighted: Weighted = None
    ids: Annotated[
        str,
        _read(
            help="Read node ids as 'int' or 'str'; 'auto': integers if both ids of the first row are integers.",
            autocompletion=among("auto", "int", "str"),
        ),
    ] = "auto"
    delimiter: Delimiter = None
    header: Header = None
    comment: Comment = "#"
    source: Source = None
    target: Target = None
    weight: Weight = None
    edge_type: EdgeType = None
    node_column: NodeColumn = None
    label_column: LabelColumn = None
    multilabel: Annotated[bool, _read("--multilabel", help="A node may have several labels.")] = False

    def read_graph(self) -> tuple[Graph, EdgeSummary]:
        """Read edges, features and nodes; return the graph and how it was read."""
        from cge.data.files.edges import EdgeOptions
        from cge.data.files.graph_files import read_graph_with_summary

        if not Path(self.edges).exists() and self.edges.lower() in dataset_names():
            hint = "EDGES is a file, data sets by name work in 'cge evaluate' and 'cge tune'"
            raise InputError(f"{self.edges}: there is no such file", hint=hint)
        text = text_options(self.header, self.delimiter, self.comment)
        source, target, weight, edge_type = map(column_of, (self.source, self.target, self.weight, self.edge_type))
        options = EdgeOptions(source, target, weight, edge_type, self.weighted, self.ids, text)
        how: dict[str, Any] = {"nodes": self.node_list, "directed": self.directed, "self_loops": self.self_loops}
        return read_graph_with_summary(self.edges, self.features, options=options, **how)

    def read_labels(self, path: str, graph: Graph) -> tuple[npt.NDArray[Any], tuple[str, ...], list[str]]:
        """Return labels and class names as `cge.read_labels` does, and notes about what may not be intended."""
        from cge.data.files.node_tables import read_labels_with_notes

        named: dict[str, Any] = {"node": column_of(self.node_column), "label": column_of(self.label_column)}
        text = text_options(None, None, self.comment)
        codes, names, notes = read_labels_with_notes(path, graph, text, multilabel=self.multilabel, **named)
        return codes, names, list(map(shell_message, notes))


def takes_files(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command with an argument `files: Files` an option for each field instead.

    Typer has no groups of options, so the signature that it reads is changed here. `**settings` are left out of it:
    `cge.cli.estimator_options` adds an option for each.
    """
    fields = inspect.signature(Files, eval_str=True).parameters
    options = [field.replace(kind=inspect.Parameter.KEYWORD_ONLY) for field in fields.values()]
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            parameters += options if parameter.name == "files" else [parameter]

    @wraps(command)
    def with_fields(**options: Any) -> None:
        command(files=Files(**{name: options.pop(name) for name in fields}), **options)

    with_fields.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return with_fields
