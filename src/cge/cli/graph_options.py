"""The files of a graph and how to read them: options of `cge check` and `cge fit`."""

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

FILES, _READING = "Files", "File format"  # panels of the help
DELIMITERS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}


def _read(*names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel=_READING, **more)


def _column(content: str) -> Any:
    return _read(metavar="COLUMN", help=f"Column of {content}.")


SelfLoops = Annotated[bool, _read("--self-loops", help="Keep edges from a node to itself.")]
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
LabelNodes = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column of nodes in the labels file: a name, or a number from 1."),
]
LabelColumn = Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of labels in the labels file.")]


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

    edges: Annotated[
        str,
        typer.Argument(metavar="EDGES", help="Edges: {suffixes of edges}."),
    ]
    features: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Features: {suffixes of features}.", rich_help_panel=FILES),
    ] = None
    nodes: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="List of all nodes, isolated ones included: {suffixes of nodes}.",
            rich_help_panel=FILES,
        ),
    ] = None
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
    node: Annotated[str | None, _column("nodes in the labels file")] = None
    label: Annotated[str | None, _column("labels in the labels file")] = None
    multilabel: Annotated[bool, _read("--multilabel", help="A node may have several labels.")] = False

    def read_graph(self) -> tuple[Graph, EdgeSummary]:
        """Read edges, features and nodes; return the graph and how it was read."""
        from cge.data.files.dialect import TextOptions
        from cge.data.files.edges import EdgeOptions
        from cge.data.files.graph_files import read_graph_with_summary

        if not Path(self.edges).exists() and self.edges.lower() in dataset_names():
            raise InputError(
                f"{self.edges}: there is no such file; EDGES is a file, data sets by name work in 'cge evaluate' and "
                "'cge tune'"
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
        """Return labels and class names as `cge.read_labels` does, and notes about what may not be intended."""
        from cge.data.files.dialect import TextOptions
        from cge.data.files.node_tables import read_labels_with_notes

        named: dict[str, Any] = {"node": column_of(self.node), "label": column_of(self.label)}
        text = TextOptions(comment=self.comment or None)
        codes, names, notes = read_labels_with_notes(path, graph, text, multilabel=self.multilabel, **named)
        return codes, names, list(map(shell_message, notes))


def takes_files(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command with an argument `files: Files` an option for each field instead.

    Typer has no groups of options, so the signature that it reads is changed here. `**settings` are left out of it:
    `cge.cli.estimator_options` adds an option for each.
    """
    hints = get_type_hints(Files, include_extras=True)
    fields = inspect.signature(Files).parameters
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if parameter.name == "files":
            parameters += [
                field.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
                for name, field in fields.items()
            ]
        elif parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            parameters.append(parameter)

    @wraps(command)
    def with_fields(**options: Any) -> None:
        command(files=Files(**{name: options.pop(name) for name in fields}), **options)

    with_fields.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return with_fields
