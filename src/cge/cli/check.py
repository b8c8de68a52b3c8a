"""`cge check`: read a graph's files and say how they were read and what is in them, before anything is trained."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cge.cli.printing import facts, print_json
from cge.cli.wording import as_flags

if TYPE_CHECKING:
    from cge.data.files.reading import Reading

__all__ = ["check"]

_QUANTILES = ("min", "p25", "median", "p75", "p90", "p99", "max")
_DELIMITERS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}


def check(
    edges: Annotated[
        str,
        typer.Argument(metavar="EDGES", help="Edges: .csv, .tsv, .txt (each also .gz), .parquet, .npy, .npz or .mtx."),
    ],
    labels: Annotated[str | None, typer.Option(metavar="FILE", help="Labels: a table of node and label.")] = None,
    features: Annotated[
        str | None, typer.Option(metavar="FILE", help="Features: a table keyed by node, .npy or .npz.")
    ] = None,
    nodes: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="All nodes, isolated ones too: one per line, a column of a table, or .npy."),
    ] = None,
    directed: Annotated[bool, typer.Option("--directed", help="Edges have a direction.")] = False,
    self_loops: Annotated[bool, typer.Option("--self-loops", help="Keep edges from a node to itself.")] = False,
    weighted: Annotated[
        bool | None, typer.Option("--weighted/--unweighted", help="Demand weights, or ignore them.")
    ] = None,
    ids: Annotated[str, typer.Option(help="Read node ids as 'int' or 'str'; 'auto' looks at the first row.")] = "auto",
    delimiter: Annotated[
        str | None, typer.Option(metavar="SIGN", help="What separates columns of edges: one sign, 'tab' or 'space'.")
    ] = None,
    header: Annotated[
        bool | None, typer.Option("--header/--no-header", help="Whether the first row of edges names the columns.")
    ] = None,
    comment: Annotated[str, typer.Option(metavar="SIGN", help="What begins a line to skip; '' for nothing.")] = "#",
    source: Annotated[str | None, typer.Option(metavar="COLUMN", help="Sources: a name, or a number from 1.")] = None,
    target: Annotated[str | None, typer.Option(metavar="COLUMN", help="Targets, likewise.")] = None,
    weight: Annotated[str | None, typer.Option(metavar="COLUMN", help="Weights of edges, likewise.")] = None,
    edge_type: Annotated[str | None, typer.Option(metavar="COLUMN", help="Types of edges, likewise.")] = None,
    node: Annotated[str | None, typer.Option(metavar="COLUMN", help="Nodes in the file of labels, likewise.")] = None,
    label: Annotated[str | None, typer.Option(metavar="COLUMN", help="Labels in their file, likewise.")] = None,
    multilabel: Annotated[bool, typer.Option("--multilabel", help="A node may have several labels.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Read a graph, its labels and its features, and say what is in them or what is wrong with them.

    For example:

    cge check edges.csv

    cge check edges.tsv.gz --labels labels.csv --features features.npz --directed
    """
    from cge.data import Dataset, read_labels
    from cge.data.files.dialect import TextOptions
    from cge.data.files.edges import EdgeOptions
    from cge.data.files.read import graph_and_reading

    text = TextOptions(header, delimiter and _DELIMITERS.get(delimiter, delimiter), comment or None)
    columns = (_column(source), _column(target), _column(weight), _column(edge_type))
    options = EdgeOptions(*columns, weighted, ids, text)
    graph, reading = graph_and_reading(
        edges, features, nodes=nodes, options=options, directed=directed, self_loops=self_loops
    )
    named: dict[str, Any] = {"node": _column(node), "label": _column(label), "comment": comment or None}
    data = None
    if labels is not None:
        data = Dataset(labels, graph, *read_labels(labels, graph, multilabel=multilabel, **named))
    summary, notes = graph.summary(), [as_flags(note) for note in reading.notes]
    if as_json:
        numbers = asdict(summary) | {
            "degree_quantiles": dict(zip(_QUANTILES, summary.degree_quantiles, strict=True)),
        }
        how = {name: value for name, value in asdict(reading).items() if name != "notes"}
        labeled, classes = (0, {}) if data is None else (len(data.labeled), data.label_counts())
        print_json({"reading": how, "graph": numbers, "labeled": labeled, "classes": classes, "notes": notes})
        return
    rows = [*_told(reading, graph.num_nodes), *summary.rows(), *([] if data is None else data.label_rows())]
    facts([*rows, *(("note:", note) for note in notes)])


def _column(given: str | None) -> str | int | None:
    """Take digits as the number of a column, anything else as its name."""
    return int(given) if given is not None and given.isascii() and given.isdigit() else given


def _told(reading: Reading, nodes: int) -> list[tuple[str, str]]:
    """Return how edges were read as (name, value) pairs of text."""
    rows = [("read from", reading.path)]
    if reading.delimiter is not None:
        rows.append(("separated by", f"{reading.delimiter}, {'with a' if reading.header else 'no'} header"))
    if reading.columns:
        rows.append(("columns", ", ".join(f"{part} {column}" for part, column in reading.columns.items())))
    first = ", ".join([*map(str, reading.first_ids), *(["…"] if nodes > len(reading.first_ids) else [])])
    what = [f"{reading.rows:,} read"]
    if reading.duplicates_merged:
        what.append(f"{reading.duplicates_merged:,} duplicates merged")
    if reading.self_loops_dropped:
        what.append(f"{reading.self_loops_dropped:,} self-loops dropped")
    return [*rows, ("ids", f"{reading.ids}: {first}"), ("rows", ", ".join(what))]
