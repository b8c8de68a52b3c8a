"""Stored graphs that are fitted and predicted out of core: the options of several commands, and what they run."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cge.cli.common_options import flag_option, text_option
from cge.cli.fit_output import describe_labels
from cge.cli.fit_plan import format_bytes
from cge.cli.ingest import BlockProgress
from cge.cli.main import command_line
from cge.cli.output_folder import output_folder
from cge.cli.printing import print_json, print_notes, print_pairs
from cge.errors import InputError, format_value

if TYPE_CHECKING:
    from cge.cli.graph_options import Files
    from cge.data.stored import StoredGraph
    from cge.engine import Engine
    from cge.estimators.cge import CGE
    from cge.estimators.embeddings import DeepWalk
    from cge.estimators.path_estimator import PathEstimator
    from cge.estimators.stored_model import StoredModel
    from cge.graph import Graph
    from cge.targets import Target

_PANEL = "Graphs larger than memory"


@dataclass(frozen=True)
class LargeGraphs:
    """The options about graphs larger than memory; each field is an option."""

    memory: Annotated[
        str | None,
        text_option("SIZE", "Memory to use, such as 8GB \\[default: what is available].", rich_help_panel=_PANEL),
    ] = None
    engine: Annotated[
        str,
        text_option("NAME", "Where tasks run: 'local', or 'ray'.", choices=("local", "ray"), rich_help_panel=_PANEL),
    ] = "local"
    address: Annotated[
        str | None,
        text_option("HOST:PORT", "The Ray cluster; 'auto': the one that runs on this machine.", rich_help_panel=_PANEL),
    ] = None

    @property
    def limit(self) -> int:
        """The bytes that may be used."""
        from cge.memory import available_memory, parse_bytes

        return (available_memory() or 4 << 30) if self.memory is None else parse_bytes(self.memory)

    def make_engine(self) -> Engine:
        """Return the engine; on this machine tasks run one after the other, each with all threads."""
        from cge.engine import make_engine

        return make_engine(self.engine, self.address, n_jobs=1)


def large_graph(
    model: PathEstimator, files: Files, options: LargeGraphs, *, forced: bool, check_memory: bool
) -> StoredGraph | None:
    """Return the stored graph of a command that is fitted out of core; None where it is fitted in memory.

    That depends on the graph and the settings alone, not on this machine: a fit in memory compares more candidates.
    """
    from cge.data.stored import is_stored_graph, open_graph
    from cge.estimators.cge import CGE
    from cge.estimators.stored_fit import fits_out_of_core, stored_bytes

    if files.edges is None or not is_stored_graph(files.edges):
        if forced or options.memory is not None or options.engine != "local":
            problem = "--out-of-core, --memory and --engine are for stored graphs"
            raise InputError(problem, hint="write one with 'cge ingest', and give its folder instead of EDGES")
        return None
    stored = open_graph(files.edges)
    if forced or (isinstance(model, CGE) and fits_out_of_core(model, stored)):
        return stored
    hint = "add --out-of-core, which compares fewer candidates (docs/scaling.md)"
    if options.engine != "local":
        raise InputError(f"this fit is one in memory, which has no tasks for --engine {options.engine}", hint=hint)
    if check_memory and stored_bytes(stored) > options.limit:
        raise InputError(f"this stored graph is fitted in memory, and {_need(stored, options.limit)}", hint=hint)
    return None


def _need(stored: StoredGraph, limit: int) -> str:
    from cge.estimators.stored_fit import stored_bytes

    return f"a fit in memory needs about {format_bytes(stored_bytes(stored))} of {format_bytes(limit)}"


def choice_note(stored: StoredGraph, limit: int, out_of_core: bool) -> str:
    """Return the note on where a stored graph is fitted."""
    if not out_of_core:
        return f"the stored graph is fitted in memory ({_need(stored, limit)})"
    need = _need(stored, limit)
    return f"the stored graph is fitted out of core ({need}): fixed weightings, on labeled nodes; nothing is learned"


def fit_out_of_core(
    model: CGE,
    stored: StoredGraph,
    files: Files,
    labels: tuple[str, str | None],
    out: str,
    options: LargeGraphs,
    *,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Fit and save a model, and print a summary; a fit that was interrupted continues."""
    from cge.estimators.settings import check_settings
    from cge.estimators.stored_fit import check_stored_settings

    check_settings(model)
    check_stored_settings(model, stored)
    note = choice_note(stored, options.limit, out_of_core=True)
    if dry_run:
        if as_json:
            print_json({"notes": [note]})
        elif not quiet:
            print(note)
        return
    print_notes([] if quiet or as_json else [note])
    with output_folder(out) as folder:
        summary, notes, target = _fit(model, stored, files, labels, folder, options, sys.stderr.isatty() and not quiet)
    if as_json:
        print_json(summary | {"notes": [note, *notes]})
    elif not quiet:
        print_notes(notes)
        counts, accuracy = summary["labels_seen"], summary["validation_accuracy"]
        rows = [("model", out), ("graph", f"{summary['nodes']:,} nodes, {summary['entries']:,} entries")]
        described = describe_labels(counts, summary["refitted"], "", cross_validated=summary["cross_validated"])
        rows.append(("labels", described))
        rows += [("weighting", summary["weighting"]), ("classifiers", ", ".join(summary["classifiers"]))]
        rows += [] if accuracy is None else [(f"validation {target.metric}", target.format_score(accuracy))]
        print_pairs([*rows, ("time", f"{summary['seconds']:.1f} s"), ("memory", format_bytes(summary["peak_bytes"]))])


def _fit(
    model: CGE,
    stored: StoredGraph,
    files: Files,
    labels: tuple[str, str | None],
    out: Path,
    options: LargeGraphs,
    visible: bool,
) -> tuple[dict[str, Any], list[str], Target]:
    """Fit and save a model; return its summary, notes and target."""
    from cge.estimators.stored_fit import fit_stored

    start, limit, work = time.perf_counter(), options.limit, out / "work"
    read = [_labels(files, path, stored) for path in labels if path is not None]
    y, validation = read[0][0], read[1][0] if len(read) > 1 else None
    with BlockProgress(visible) as progress:

        def show_epoch(record: Any) -> None:
            progress.show(f"training ({record.stage})", record.epoch, record.max_epochs)

        how: dict[str, Any] = {"work": work, "memory": limit, "engine": options.make_engine()}
        fitted = fit_stored(model, stored, y, validation, **how, progress=progress.show, callback=show_epoch)
    fitted.save(out, command_line(), validation is not None)
    shutil.rmtree(work)
    encoder = fitted.model
    summary = {"folder": str(out), "nodes": stored.num_nodes, "entries": stored.num_entries}
    summary |= {"weighting": encoder.weighting_name, "classifiers": encoder.classifier_names()}
    summary |= {"validation_accuracy": encoder.validation_score, "labels_seen": encoder.log.labels_seen}
    refitted = encoder.log.selection_history is not None
    summary |= {"refitted": refitted, "cross_validated": encoder.log.cross_validated}
    summary |= {"seconds": time.perf_counter() - start, "peak_bytes": _peak()}
    return summary, [note for _, notes in read for note in notes], encoder.target


def _labels(files: Files, path: str, stored: StoredGraph) -> tuple[dict[Any, Any], list[str]]:
    """Return {node id: label} of a file, checked like those of a graph in memory, and notes."""
    from cge.cli.fit import read_label_dict

    return read_label_dict(files, path, _labeled_graph(files, path, stored))


def _labeled_graph(files: Files, path: str, stored: StoredGraph) -> Graph:
    """Return a graph without edges that has those nodes of a stored graph which occur in a file of labels."""
    import numpy as np

    from cge.cli.graph_options import label_arguments, text_options
    from cge.data.files.labels import read_label_table
    from cge.graph import Graph

    how = label_arguments(files)
    text, skip = text_options(how["header"], None, files.comment), how["missing_labels"] == "skip"
    table = read_label_table(Path(path), stored.ids.is_text, text, how["node"], how["label"], optional=skip)
    known = table.nodes[stored.ids.find(table.nodes.tolist()) >= 0]
    ids = np.unique(np.concatenate([stored.ids.slice(0, min(2, len(stored))), known]))
    return Graph(np.zeros(len(ids) + 1, np.int64), np.empty(0, np.int64), ids, stored.directed)


def refers_to_stored_graph(folder: str) -> bool:
    """Return whether a model folder has no graph of its own; False also for what is no model, which loading refuses."""
    try:
        about = json.loads((Path(folder) / "model.json").read_text(encoding="utf-8"))["metadata"]["graph"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return False
    return isinstance(about, dict) and "stored" in about


def large_model(folder: str, options: LargeGraphs, out: str | None) -> StoredModel | None:
    """Return the model of a folder that refers to a large stored graph, or where the output is a folder of parts."""
    if not refers_to_stored_graph(folder):
        return None
    from cge.estimators.stored_fit import stored_bytes
    from cge.estimators.stored_model import StoredModel

    model = StoredModel.open(folder)
    parts = out is not None and not Path(out).suffix
    if model is None or not (parts or options.engine != "local" or stored_bytes(model.graph) > options.limit):
        return None
    if not parts:
        problem = f"{folder} is a model of a graph larger than memory, whose results are folders of Parquet parts"
        raise InputError(problem, hint="give --out a folder, such as --out parts")
    return model


def write_parts_of(
    model: StoredModel, out: str, options: LargeGraphs, *, vectors: bool, quiet: bool, as_json: bool
) -> None:
    """Write predictions or vectors to a folder of Parquet parts, or continue to, and print what was written."""
    from cge.estimators.stored_model import write_parts

    def write(folder: Path, work: Path, engine: Engine, progress: Any) -> int:
        return write_parts(model, folder, work, engine, options.limit, progress, vectors=vectors)

    about = {"folder": model.folder, "nodes": model.graph.num_nodes}
    _write_folder(write, out, options.make_engine(), about, quiet=quiet, as_json=as_json)


def write_walk_parts(
    model: DeepWalk, folder: str, out: str, options: LargeGraphs, n_jobs: int | None, *, quiet: bool, as_json: bool
) -> None:
    """Write DeepWalk vectors of a stored graph to a folder of Parquet parts, or continue to."""
    from cge.data.stored import open_graph
    from cge.engine import make_engine
    from cge.estimators.stored_walks import write_walk_vectors

    stored = open_graph(folder)

    def write(folder: Path, work: Path, engine: Engine, progress: Any) -> int:
        return write_walk_vectors(model, stored, folder, work=work, engine=engine, progress=progress)

    engine, about = make_engine(options.engine, options.address, n_jobs), {"folder": folder, "nodes": len(stored)}
    _write_folder(write, out, engine, about, quiet=quiet, as_json=as_json)


def _write_folder(
    write: Callable[[Path, Path, Engine, Any], int],
    out: str,
    engine: Engine,
    about: dict[str, Any],
    *,
    quiet: bool,
    as_json: bool,
) -> None:
    """Let a function write parts to a folder, in which it may continue, and print what was written."""
    folder, start = Path(out), time.perf_counter()
    work = folder / "work"
    if folder.exists() and not work.is_dir() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"--out {format_value(out)} exists and is not empty", hint="give another folder, or remove it")
    folder.mkdir(parents=True, exist_ok=True)
    with BlockProgress(sys.stderr.isatty() and not (quiet or as_json)) as progress:
        count = write(folder, work, engine, progress.show)
    shutil.rmtree(work)
    if as_json:
        result = about | {"parts": count, "out": out}
        print_json(result | {"seconds": time.perf_counter() - start, "peak_bytes": _peak()})
    elif not quiet:
        written = f"{out}, {count:,} Parquet {'part' if count == 1 else 'parts'}"
        print_pairs([("nodes", f"{about['nodes']:,}"), ("written to", written), ("memory", format_bytes(_peak()))])


def _peak() -> int:
    """Return the peak resident memory of this process, in bytes."""
    import resource

    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


OutOfCore = Annotated[
    bool, flag_option("--out-of-core", "Fit a graph stored by 'cge ingest' in bounded memory even if it is small.")
]
