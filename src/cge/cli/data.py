"""`cge check` describes the files of a graph; `cge datasets` lists the data sets, and which are on this machine."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from cge.cli.command import shell_message
from cge.cli.common_options import Json, Quiet, file_option, flag_option
from cge.cli.graph_options import Files, require_labels
from cge.cli.main import print_error
from cge.cli.option_groups import takes_options
from cge.cli.printing import print_json, print_pairs, print_table
from cge.errors import format_list, format_text, format_value

if TYPE_CHECKING:
    from cge.data.files.edge_summary import EdgeSummary

_QUANTILES = ("min", "p25", "median", "p75", "p90", "p99", "max")
_SIZES = ("nodes", "edges", "classes", "features")
_FIELDS = ("name", "title", *_SIZES, "source", "license", "location", "downloadable")


@takes_options
def check(
    *,
    labels: Annotated[str | None, file_option("Labels: a table of nodes and labels.")] = None,
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
    from cge.data.stored import is_stored_graph, open_graph

    require_labels(labels, files)
    if files.edges is not None and is_stored_graph(files.edges):
        open_graph(files.edges).verify()
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
        attributes = None if graph.encoder is None else dict(graph.encoder.rows())
        print_json(result | {"attributes": attributes, "notes": notes})
    elif not quiet:
        rows = [*_reading_rows(reading, graph.num_nodes), *summary.rows()]
        rows += [] if graph.encoder is None else graph.encoder.rows()
        rows += [] if data is None else data.label_rows()
        print_pairs([*rows, *(("note:", note) for note in notes)])


def _reading_rows(reading: EdgeSummary, nodes: int) -> list[tuple[str, str]]:
    """Return how edges were read as (name, value) pairs of text."""
    rows = [("read from", reading.path)]
    if reading.delimiter is not None:
        rows.append(("separated by", f"{reading.delimiter}, {'with a' if reading.header else 'no'} header"))
    if reading.columns:
        columns = ", ".join(f"{part} = {format_value(column)}" for part, column in reading.columns.items())
        rows.append(("columns", f"{columns}; not read: {format_list(reading.unread)}" if reading.unread else columns))
    first = ", ".join([*map(format_text, reading.first_ids), *(["…"] if nodes > len(reading.first_ids) else [])])
    changes = {"duplicates merged": reading.duplicates_merged, "self-loops dropped": reading.self_loops_dropped}
    counts = ", ".join([f"{reading.rows:,}", *(f"{count:,} {what}" for what, count in changes.items() if count)])
    return [*rows, ("ids", f"{reading.ids}: {first}"), ("rows", counts)]


def datasets(
    quiet: Annotated[bool, flag_option("--quiet", "Print only the names, one per line.")] = False,
    as_json: Json = False,
) -> None:
    """List the data sets that load by name, and whether they are on this machine.

    CORA is part of cge. Others are downloaded when they are first loaded, or prepared by hand (docs/datasets.md).

    For example:

      cge datasets
      cge datasets --quiet
    """
    from cge.data import catalog
    from cge.data.sets.fetch import cache_dir, data_dir

    entries, folder, cache = catalog(), data_dir(), cache_dir()
    if folder is not None and not folder.is_dir():
        hint = "set it to the one with planetoid/ and so on"
        print_error(f"CGE_DATA_DIR is {str(folder)!r}, which is not a folder; {hint}")
    elif folder is not None and all(entry.location != "CGE_DATA_DIR" for entry in entries):
        hint = f"files are expected at {entries[1].files[0].path} and so on"
        print_error(f"CGE_DATA_DIR is {str(folder)!r}, which contains none of the data sets; {hint}")
    if as_json:
        about = [{key: getattr(entry, key) for key in _FIELDS} for entry in entries]
        print_json({"data_dir": folder and str(folder), "cache_dir": str(cache), "datasets": about})
        return
    if quiet:
        print("\n".join(entry.name for entry in entries))
        return
    titles = ("name", *_SIZES, "location", "access", "title")
    cells = [[getattr(entry, title) or "–" for title in titles] for entry in entries]
    rows = [[f"{cell:,}" if isinstance(cell, int) else cell for cell in row] for row in cells]
    print_table([(title, "right" if title in _SIZES else "left") for title in titles], rows)
    print()
    print_pairs((entry.name, entry.source) for entry in entries)
    print()
    print_pairs([("CGE_DATA_DIR", "not set" if folder is None else str(folder)), ("cache", str(cache))])
    print(
        "\nFiles are searched in CGE_DATA_DIR, then in the cache, and then downloaded where the access is 'download'.\n"
        "Data sets with the access 'manual' are described in docs/datasets.md."
    )
