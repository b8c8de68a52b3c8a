"""The files of a graph, or of new nodes, and how to read them: options of several commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from cge.cli.command import FILE_FORMAT, flag_of, shell_message
from cge.cli.common_options import FILES, among, dataset_names, file_option
from cge.errors import InputError, format_value

if TYPE_CHECKING:
    import numpy.typing as npt

    from cge.cli.model_files import SavedModel
    from cge.data.files.dialect import TextOptions
    from cge.data.files.edge_summary import EdgeSummary
    from cge.data.files.edges import EdgeOptions
    from cge.data.graph_update import GraphUpdate
    from cge.graph import Graph


def _read(*flags: str, **more: Any) -> Any:
    return typer.Option(*flags, rich_help_panel=FILE_FORMAT, **more)


def _file(flag: str, metavar: str, text: str) -> Any:
    return typer.Option(flag, metavar=metavar, help=text, rich_help_panel=FILES)


def _features_or_attributes(content: str) -> Any:
    flags, text = ("--features", "--attributes"), f"Features, or attributes, {content}"
    return typer.Option(*flags, metavar="FILE", help=text, rich_help_panel=FILES)


def _column(content: str) -> Any:
    return _read(metavar="COLUMN", help=f"Column of {content}.")


NodeColumn = Annotated[str | None, _column("nodes in the labels file: a name, or a number from 1")]
LabelColumn = Annotated[str | None, _column("labels in the labels file")]
LabelHeader = Annotated[
    bool | None, _read("--label-header/--no-label-header", help="Whether the first row of labels names the columns.")
]
MissingLabels = Annotated[
    str,
    _read(
        metavar="NAME",
        help="Rows of labels that are empty, or of nodes that are not in the graph: 'error' or 'skip'.",
        autocompletion=among("error", "skip"),
    ),
]
Ids = Annotated[
    str,
    _read(
        help="Read node ids as 'int' or 'str'; 'auto': integers if both ids of the first row are integers.",
        autocompletion=among("auto", "int", "str"),
    ),
]
MissingFeatures = Annotated[
    str,
    _read(
        metavar="NAME",
        help="Features of nodes without a row: 'error', 'zero', or the 'mean' of the others.",
        autocompletion=among("error", "zero", "mean"),
    ),
]


def text_options(header: bool | None, delimiter: str | None, comment: str) -> TextOptions:
    """Return how to read text; separators may be given by name."""
    from cge.data.files.dialect import TextOptions

    names = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}
    return TextOptions(header, delimiter and names.get(delimiter, delimiter), comment or None)


def column_of(text: str | None) -> str | int | None:
    """Return digits as the number of a column, anything else as its name."""
    return int(text) if text is not None and text.isascii() and text.isdigit() else text


def require_file(option: str, file: str | None, about: dict[str, Any]) -> None:
    """Refuse options that describe a file which is not given; `about` has None or False where they are not given."""
    unused = next((name for name, value in about.items() if value not in (None, False)), None)
    if file is None and unused is not None:
        raise InputError(f"--{unused.replace('_', '-')} describes the file of {option}; add {option}, or leave it out")


def _by_type(option: str, arguments: list[str]) -> dict[str, str]:
    """Return files by type, given as TYPE=FILE.

    >>> _by_type("--edges", ["cites=a.csv", "writes=b=c.csv"])
    {'cites': 'a.csv', 'writes': 'b=c.csv'}
    """
    pairs = [each.partition("=") for each in arguments]
    wrong = next((value for value, (name, _, path) in zip(arguments, pairs, strict=True) if not name or not path), None)
    if wrong is not None:
        raise InputError(f"{option} must be TYPE=FILE where it is repeated, found {format_value(wrong)}")
    names = [name for name, _, _ in pairs]
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        raise InputError(f"{option} names the type {format_value(duplicate)} twice; give each type one file")
    return {name: path for name, _, path in pairs}


def _features(files: list[str] | None) -> Any:
    """Return the file of features, or files by node type; a single file may have a name with "="."""
    if not files:
        return None
    single = len(files) == 1 and ("=" not in files[0] or Path(files[0]).exists())
    return files[0] if single else _by_type("--features", files)


@dataclass(frozen=True)
class LabelOptions:
    """The options about a file of labels; each field is an option."""

    node_column: NodeColumn = None
    label_column: LabelColumn = None
    label_header: LabelHeader = None
    missing_labels: MissingLabels = "error"


def label_arguments(options: LabelOptions | Files) -> dict[str, Any]:
    """Return the arguments of `read_labels` that options about labels stand for."""
    columns = {"node": column_of(options.node_column), "label": column_of(options.label_column)}
    return columns | {"header": options.label_header, "missing_labels": options.missing_labels}


def require_labels(labels: str | None, options: LabelOptions | Files) -> None:
    """Refuse options about labels where there is no file of labels."""
    about: dict[str, Any] = {"node_column": options.node_column, "label_column": options.label_column}
    about |= {"label_header": options.label_header, "missing_labels": options.missing_labels != "error"}
    about |= {"multilabel": isinstance(options, Files) and options.multilabel}
    require_file("--labels", labels, about)


@dataclass(frozen=True)
class EdgeFormat:
    """The options about the format of a file of edges; each field is an option."""

    self_loops: Annotated[
        bool,
        _read(
            "--self-loops",
            help="Keep the file's self-loops and their weights; by default they are dropped, and CGE gives every node "
            "one of the mean edge weight.",
        ),
    ] = False
    weighted: Annotated[bool | None, _read("--weighted/--unweighted", help="Require edge weights, or ignore them.")] = (
        None
    )
    delimiter: Annotated[
        str | None, _read(metavar="CHAR", help="Separator of the columns of edges: one character, 'tab' or 'space'.")
    ] = None
    header: Annotated[
        bool | None, _read("--header/--no-header", help="Whether the first row of edges names the columns.")
    ] = None
    comment: Annotated[
        str, _read(metavar="CHAR", help="Lines that start with this character are skipped; '' for none.")
    ] = "#"
    source: Annotated[str | None, _column("sources: a name, or a number from 1")] = None
    target: Annotated[str | None, _column("targets")] = None
    weight: Annotated[str | None, _column("edge weights")] = None
    edge_type: Annotated[str | None, _column("edge types")] = None

    def edge_columns(self) -> dict[str, Any]:
        """Return the columns of sources, targets, weights and types, None where they are not given."""
        return {name: column_of(getattr(self, name)) for name in ("source", "target", "weight", "edge_type")}

    def edge_options(self, **more: Any) -> EdgeOptions:
        """Return the options of a reader of edges."""
        from cge.data.files.edges import EdgeOptions

        text = text_options(self.header, self.delimiter, self.comment)
        return EdgeOptions(**self.edge_columns(), weighted=self.weighted, text=text, **more)


@dataclass(frozen=True)
class Files(EdgeFormat):
    """The options about the files of a graph; each field is an option."""

    edges: Annotated[
        str | None,
        typer.Argument(metavar="EDGES", help="Edges: {suffixes of edges}; or a folder written by 'cge ingest'."),
    ] = None
    relation_files: Annotated[
        list[str] | None,
        _file("--edges", "TYPE=FILE", "Edges of one type, instead of EDGES; repeat it for each type."),
    ] = None
    features: Annotated[
        list[str] | None,
        _file(
            "--features",
            "FILE",
            "Features: {suffixes of features}; "
            "or TYPE=FILE for the nodes of one type (repeat the option for each type).",
        ),
    ] = None
    attributes: Annotated[
        str | None,
        _file("--attributes", "FILE", "A table of nodes with text, categories, numbers, dates, instead of features."),
    ] = None
    attribute_columns: Annotated[
        str | None,
        _file("--attribute-columns", "NAMES", "Only these columns, separated by commas; -NAME leaves one out."),
    ] = None
    node_types: Annotated[
        str | None,
        _file("--node-types", "FILE|COLUMN", "Node types: a table of nodes and types, or a column of --node-list."),
    ] = None
    node_list: Annotated[str | None, file_option("All node ids, isolated nodes included: {suffixes of nodes}.")] = None
    directed: Annotated[bool, typer.Option("--directed", help="The edges are directed.", rich_help_panel=FILES)] = False
    ids: Ids = "auto"
    edge_features: Annotated[
        list[str] | None,
        _read(metavar="COLUMN", help="Column of numbers of the edges, which may be missing; repeat it."),
    ] = None
    reverse_edges: Annotated[
        bool,
        _read("--reverse-edges", help="With --directed: also enter each edge in reverse, with a type of its own."),
    ] = False
    node_column: NodeColumn = None
    label_column: LabelColumn = None
    multilabel: Annotated[bool, _read("--multilabel", help="A node may have several labels.")] = False
    label_header: LabelHeader = None
    missing_labels: MissingLabels = "error"
    missing_features: MissingFeatures = "error"

    def read_graph(self) -> tuple[Graph, EdgeSummary]:
        """Read edges, features and nodes; return the graph and how it was read."""
        from cge.data.files.graph_files import read_graph_with_summary

        if (self.edges is None) == (not self.relation_files):
            raise InputError("give a file EDGES, or --edges TYPE=FILE for each edge type, and not both")
        if self.edges is not None and not Path(self.edges).exists() and self.edges.lower() in dataset_names():
            hint = "EDGES is a file, data sets by name work in 'cge evaluate' and 'cge tune'"
            raise InputError(f"{self.edges}: there is no such file", hint=hint)
        options = self.edge_options(ids=self.ids, edge_features=tuple(map(column_of, self.edge_features or ())))
        how: dict[str, Any] = {"nodes": self.node_list, "directed": self.directed, "self_loops": self.self_loops}
        how |= {"node_types": self.node_types, "reverse_edges": self.reverse_edges}
        require_file("--attributes", self.attributes, {"attribute_columns": self.attribute_columns})
        columns_of_attributes = [name.strip() for name in (self.attribute_columns or "").split(",") if name.strip()]
        how |= {"missing_features": self.missing_features, "attributes": self.attributes}
        how |= {"attribute_columns": columns_of_attributes}
        edges: Any = self.edges if self.relation_files is None else _by_type("--edges", self.relation_files)
        return read_graph_with_summary(edges, _features(self.features), options=options, **how)

    def read_labels(self, path: str, graph: Graph) -> tuple[npt.NDArray[Any], tuple[str, ...], list[str]]:
        """Return labels and class names as `cge.read_labels` does, and notes about what may not be intended."""
        from cge.data.files.labels import read_labels_with_notes

        how = label_arguments(self)
        text = text_options(how.pop("header"), None, self.comment)
        codes, names, notes = read_labels_with_notes(path, graph, text, multilabel=self.multilabel, **how)
        return codes, names, [*map(shell_message, notes), *_attributes_like_labels(graph, codes, names)]


def _attributes_like_labels(graph: Graph, codes: npt.NDArray[Any], names: tuple[str, ...]) -> list[str]:
    """Return notes about attributes that equal the labels."""
    if graph.encoder is None or codes.ndim > 1:
        return []
    nodes, rows = (codes >= 0).nonzero()[0], graph.features
    alike = graph.encoder.columns_like(rows[nodes], [names[code] for code in codes[nodes]])  # type: ignore[index]
    text = "the attribute {} equals the label of {:,} of the {:,} labeled nodes; if it is the label, leave it out with "
    return [f"{text.format(format_value(name), same, len(nodes))}--attribute-columns=-{name}" for name, same in alike]


@dataclass(frozen=True)
class UpdateFiles(EdgeFormat):
    """The options about files of new nodes; each field is an option."""

    EDGES: ClassVar[str] = "--graph"

    graph: Annotated[str | None, file_option("New edges, between new nodes or to nodes of the graph.")] = None
    features: Annotated[
        str | None,
        _features_or_attributes("of new nodes: a table with a node column, .npy or .npz."),
    ] = None
    feature_nodes: Annotated[str | None, file_option("The nodes of the rows of .npy or .npz, one per line.")] = None
    node_types: Annotated[str | None, file_option("A table of new nodes and their types.")] = None

    def __post_init__(self) -> None:
        """Refuse options about a file that is not given."""
        about = {"delimiter": self.delimiter, "self_loops": self.self_loops} | self.edge_columns()
        about |= {"header": self.header is not None, "weighted": self.weighted is not None}
        require_file(self.EDGES, self.graph, about)

    @property
    def paths(self) -> tuple[str | None, ...]:
        """The files that are given."""
        return self.graph, self.features, self.feature_nodes

    def read(self, model: SavedModel, remove_edges: str | None = None) -> tuple[GraphUpdate | None, list[str]]:
        """Return the update of a model's graph, None where no file is given, and notes about how it was read."""
        if not any(self.paths):
            return None, []
        from cge.data.files.update_files import read_graph_update
        from cge.estimators.path_estimator import PathEstimator

        how: dict[str, Any] = {"self_loops": self.self_loops, "feature_nodes": self.feature_nodes}
        fit_call = model.fit_call_ if isinstance(model, PathEstimator) else {}
        options = self.edge_options(usual_names=fit_call.get("edge_columns"))  # of the file of training
        how |= {"options": options, "node_types": self.node_types, "remove_edges": remove_edges}
        return read_graph_update(model.graph_, self.graph, self.features, **how)


@dataclass(frozen=True)
class ChangeFiles(UpdateFiles):
    """The options about files of changes to the graph of a model; each field is an option."""

    EDGES: ClassVar[str] = "--add-edges"
    graph: Annotated[str | None, _file("--add-edges", "FILE", "New edges, of new and of existing nodes.")] = None
    remove_edges: Annotated[str | None, file_option("Edges to remove: a table of pairs of nodes.")] = None
    labels: Annotated[str | None, file_option("Further labels: a table of nodes and labels.")] = None
    features: Annotated[
        str | None,
        _features_or_attributes("of new nodes, and of existing ones whose features change."),
    ] = None

    @property
    def paths(self) -> tuple[str | None, ...]:
        """The files that are given."""
        return *super().paths, self.remove_edges, self.labels


@dataclass(frozen=True)
class EmbedFiles(Files):
    """The options about the files of a graph, or the folder of a model instead of its edges."""

    edges: Annotated[
        str | None, typer.Argument(metavar="DIR|EDGES", help="Folder of a saved model, or edges: {suffixes of edges}.")
    ] = None

    def refuse_with_model(self, training_options: Mapping[str, object]) -> None:
        """Refuse options about training, where the vectors of a saved model are written."""
        about_labels = ("edges", "node_column", "label_column", "label_header", "missing_labels")
        options = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in about_labels}
        defaults = {field.name: field.default for field in fields(self)}
        unused = [name for name, value in options.items() if value != defaults[name]]
        unused += [name for name, value in training_options.items() if value is not None]
        if unused:
            problem = f"{flag_of(unused[0])} is for edges, but {self.edges} is the folder of a model"
            raise InputError(problem, hint="leave it out, or give a file of edges")
