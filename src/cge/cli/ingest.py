"""`cge ingest`: files of edges, larger than memory, to a stored graph."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from cge.cli.common_options import FILES, Jobs, Json, Quiet, file_option, int_option, text_option
from cge.cli.fit_plan import format_bytes
from cge.cli.graph_options import EdgeFormat, Ids, MissingFeatures
from cge.cli.option_groups import takes_options
from cge.cli.printing import print_json, print_pairs
from cge.errors import InputError

Edges = Annotated[
    list[str],
    typer.Argument(metavar="EDGES", help="Files of edges with the same columns: .csv, .tsv, .txt, .gz or .parquet."),
]
Features = Annotated[
    list[str] | None, file_option("Dense features: a table with a column of nodes (repeat it), or .npy.")
]
Directed = Annotated[bool, typer.Option("--directed", help="The edges are directed.", rich_help_panel=FILES)]
Out = Annotated[str, text_option("DIR", "Folder to write; an interrupted ingest into it continues.")]
Projections = Annotated[
    int | None, int_option("Make so many features of a graph without any: random projections of walks.", minimum=1)
]
Memory = Annotated[str, text_option("SIZE", "Memory to use at most, such as 4GB.")]


@takes_options
def ingest(
    edges: Edges,
    *,
    out: Out,
    features: Features = None,
    labels: Annotated[str | None, file_option("Labels: a table of nodes and labels.")] = None,
    node_list: Annotated[str | None, file_option("All node ids, isolated nodes included.")] = None,
    directed: Directed = False,
    projections: Projections = None,
    memory: Memory = "4GB",
    edge_format: EdgeFormat,
    ids: Ids = "auto",
    missing_features: MissingFeatures = "error",
    n_jobs: Jobs = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Store a graph larger than memory in a folder.

    Every command takes the folder instead of EDGES. Files are read once and sorted on disk. An ingest that was
    interrupted continues when it is repeated.

    For example:

      cge ingest edges.csv --out graph
      cge ingest 'edges/*.parquet' --features x.npy --out graph --memory 8GB
      cge ingest edges.csv --projections 128 --out graph
      cge fit graph --labels labels.csv --out model
    """
    from cge.data.stored import ingest as write_graph
    from cge.data.stored.ingest import IngestOptions
    from cge.engine import LocalEngine
    from cge.memory import parse_bytes
    from cge.training.walk_projections import add_projections

    settings = IngestOptions(edge_format.edge_options(ids=ids), directed, edge_format.self_loops, missing_features)
    more: dict[str, Any] = {"features": features, "labels": labels, "nodes": node_list, "options": settings}
    start = time.perf_counter()
    if projections is not None and features is not None:
        raise InputError("--projections makes features, and --features gives them", hint="leave one of them out")
    with BlockProgress(sys.stderr.isatty() and not (quiet or as_json)) as progress:
        limit, show = parse_bytes(memory), progress.show
        stored = write_graph(edges, out, memory=limit, n_jobs=n_jobs, progress=show, **more)
        if projections is not None:
            work = Path(out) / "projections"
            tasks: dict[str, Any] = {"work": work, "engine": LocalEngine(1), "memory": limit, "n_jobs": n_jobs}
            stored = add_projections(stored, projections, **tasks, progress=show)
            shutil.rmtree(work)
    size = sum(file["bytes"] for file in stored.metadata["files"].values())
    sizes = {"nodes": stored.num_nodes, "entries": stored.num_entries, "features": stored.num_features}
    if as_json:
        seconds = time.perf_counter() - start
        print_json({"folder": out, "rows": stored.metadata["rows"], "bytes": size, "seconds": seconds} | sizes)
    elif not quiet:
        rows = [(name, f"{value:,}") for name, value in sizes.items() if value]
        rows = [("rows read", f"{stored.metadata['rows']:,}"), *rows]
        print_pairs([*rows, ("written to", f"{out}, {format_bytes(size)}")])


class BlockProgress(Progress):
    """Shows the stages of work on blocks on the error stream: how many are done, and the time left."""

    def __init__(self, visible: bool) -> None:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        more = (TextColumn("{task.fields[rate]}"), TimeRemainingColumn(elapsed_when_finished=True))
        super().__init__(*columns, *more, console=Console(stderr=True), transient=True, disable=not visible)
        self._stage, self._bar, self._first, self._started = "", self.add_task("", rate=""), 0, 0.0

    def show(self, stage: str, done: int, total: int | None) -> None:
        """Show that so much of a stage is done."""
        if self.disable:
            return
        now = time.monotonic()
        if stage != self._stage:
            self.remove_task(self._bar)
            self._stage, self._bar = stage, self.add_task(stage, total=total, rate="")
            self._first, self._started = done, now
        speed = (done - self._first) / max(now - self._started, 1e-3)
        self.update(self._bar, completed=done, total=total, rate=f"{speed:,.0f}/s" if speed >= 1 else "")
