"""`cge check`: read the files of a graph, and print how they were read and what they contain."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from cge.cli.common_options import Json, Quiet
from cge.cli.flags import shell_message
from cge.cli.graph_options import FILES, Files, require_file, takes_files
from cge.cli.printing import print_json, print_pairs
from cge.errors import format_list, format_value

if TYPE_CHECKING:
    from cge.data.files.edge_summary import EdgeSummary

_QUANTILES = ("min", "p25", "median", "p75", "p90", "p99", "max")


@takes_files
def check(
    *,
    labels: Annotated[
        str | None, typer.Option(metavar="FILE", help="Labels: a table of nodes and labels.", rich_help_panel=FILES)
    ] = None,
    files: Files,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Read the files of a graph and print a summary, or what is wrong with them.

    Notes point out what may not be intended. With --quiet only the exit code tells whether the files can be read.

    For example:

      cge check edges.csv
      cge check edges.tsv.gz --labels labels.csv --features features.npz --directed
    """
    from cge.data import Dataset

    require_file("--labels", labels, {"node": files.node, "label": files.label, "multilabel": files.multilabel})
    graph, reading = files.read_graph()
    summary, notes, data = graph.summary(), list(map(shell_message, reading.notes)), None
    if labels is not None:
        codes, names, label_notes = files.read_labels(labels, graph)
        data, notes = Dataset(labels, graph, codes, names), notes + label_notes
    if as_json:
        quantiles = dict(zip(_QUANTILES, summary.degree_quantiles, strict=True))
        graph_json = asdict(summary) | {"degree_quantiles": quantiles}
        reading_json = {name: value for name, value in asdict(reading).items() if name != "notes"}
        labeled, classes = (0, {}) if data is None else (len(data.labeled), data.label_counts())
        result = {"reading": reading_json, "graph": graph_json, "labeled": labeled, "classes": classes}
        print_json(result | {"notes": notes})
        return
    if quiet:
        return
    rows = [*_reading_rows(reading, graph.num_nodes), *summary.rows(), *([] if data is None else data.label_rows())]
    print_pairs([*rows, *(("note:", note) for note in notes)])


def _reading_rows(reading: EdgeSummary, nodes: int) -> list[tuple[str, str]]:
    """Return how edges were read as (name, value) pairs of text."""
    rows = [("read from", reading.path)]
    if reading.delimiter is not None:
        rows.append(("separated by", f"{reading.delimiter}, {'with a' if reading.header else 'no'} header"))
    if reading.columns:
        columns = ", ".join(f"{part} = {format_value(column)}" for part, column in reading.columns.items())
        rows.append(("columns", f"{columns}; not read: {format_list(reading.unread)}" if reading.unread else columns))
    first = ", ".join([*map(str, reading.first_ids), *(["…"] if nodes > len(reading.first_ids) else [])])
    counts = [f"{reading.rows:,}"]
    if reading.duplicates_merged:
        counts.append(f"{reading.duplicates_merged:,} duplicates merged")
    if reading.self_loops_dropped:
        counts.append(f"{reading.self_loops_dropped:,} self-loops dropped")
    return [*rows, ("ids", f"{reading.ids}: {first}"), ("rows", ", ".join(counts))]
