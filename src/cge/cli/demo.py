"""`cge demo`: what the library does, on a citation graph that comes with it."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cge.cli.options import Json, Quiet, Threads
from cge.cli.output import output_folder
from cge.cli.printing import facts, heading, print_json, print_table

__all__ = ["demo"]

_EXPLAINED, _PATHS = 3, 4  # papers, and paths of each

if TYPE_CHECKING:
    import numpy.typing as npt

    from cge.data.dataset import Dataset
    from cge.estimators.cge import CGE

    Array = npt.NDArray[Any]


def demo(
    out: Annotated[str, typer.Option(metavar="DIR", help="Folder for the trained model.")] = "runs/demo",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the training.")] = 0,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Epochs at most of each training, for a quick look \\[as many as pay].")
    ] = None,
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train on CORA, a citation graph that comes with cge, and say how well and why.

    Nodes are papers, edges are citations, classes are fields; 140 papers have a label. Needs no network and no files.

    For example:

      cge demo --out runs/demo --seed 3
    """
    from cge.data import load_dataset

    began, data = time.perf_counter(), load_dataset("cora")
    with output_folder(out) as folder:
        watch = _Watch(sys.stderr.isatty() and not (quiet or as_json))
        model, twin = (_fitted(data, weighting, seed, rounds, threads, watch) for weighting in ("auto", "none"))
        watch.end()
        model.save(folder)
        accuracy = _accuracies(data, model, twin)
        _page(data, model, accuracy, folder / "report.html")
    found = {
        "dataset": data.name,
        "labels": model.labels_seen_,
        "test_nodes": len(data.split.test) if data.split else 0,
        "accuracy": [{key: one[key] for key in ("method", "accuracy", "interval")} for one in accuracy],
        "weights": model.weights_,
        "weight_parameters": model.weight_parameters_,
        "readers": model.readers_,
        "compared": model.compared_,
        "explained": _explained(data, model),
        "folder": out,
        "report": str(Path(out) / "report.html"),
        "seconds": time.perf_counter() - began,
    }
    if as_json:
        print_json(found)
    elif not quiet:
        _print(data, found)


class _Watch:
    """Counts epochs on one line of the error stream."""

    def __init__(self, shown: bool) -> None:
        self._shown, self._count = shown, 0

    def __call__(self, one: Any) -> None:
        self._count += 1
        if self._shown and self._count % 10 == 0:
            accuracy = "" if one.validation_accuracy is None else f", validation {one.validation_accuracy:.1%}"
            print(f"\r{one.stage}: epoch {one.number}{accuracy}      ", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Clear the line."""
        if self._shown:
            print("\r" + " " * 60 + "\r", end="", file=sys.stderr, flush=True)


def _fitted(data: Dataset, weighting: str, seed: int, rounds: int | None, threads: int | None, watch: _Watch) -> CGE:
    from cge.estimators.cge import CGE

    assert data.split is not None  # noqa: S101 - CORA has one
    y, validation = data.labels_of(data.split.train), data.labels_of(data.split.validation)
    model = CGE(weighting=weighting, rounds=rounds, random_state=seed, threads=threads)
    return model.fit(data.graph, y, validation, on_round=watch)


def _accuracies(data: Dataset, model: CGE, twin: CGE) -> list[dict[str, Any]]:
    """Return the share of test nodes that each method has right, with its interval."""
    from cge.report import compared, measured_by

    assert data.split is not None  # noqa: S101 - CORA has one
    measured = measured_by(model, data.labels_of(data.split.test))
    assert measured is not None  # noqa: S101 - there are test nodes
    return compared(model, measured, twin=twin)


def _page(data: Dataset, model: CGE, accuracy: list[dict[str, Any]], file: Path) -> None:
    """Write the report."""
    from cge.report import write_page

    assert data.split is not None  # noqa: S101 - CORA has one
    names = [_plain(data.class_names[one]) for one in model.classes_.tolist()]
    told: dict[str, Any] = {"name": "CORA", "titles": data.node_titles, "class_names": names, "accuracy": accuracy}
    write_page(model, file, truth=data.labels_of(data.split.test), command="cge demo", **told)


def _explained(data: Dataset, model: CGE) -> list[dict[str, Any]]:
    """Return the strongest paths of some test papers that are right and have neighbors."""
    assert data.split is not None  # noqa: S101 - CORA has one
    test = data.split.test
    right = model.predict()[test] == data.labels[test]
    several = data.graph.degrees[test] >= _EXPLAINED
    papers = data.graph.node_ids if data.node_titles is None else data.node_titles  # CORA's own ids of papers
    found = []
    for node in test[right & several][:_EXPLAINED].tolist():
        shares = model.explain(data.graph.node_ids[node], top=_PATHS)
        paths = []
        for one in shares:
            numbers = data.graph.indices_of(one.path).tolist()
            named = [str(papers[number]) for number in numbers]
            fields = [data.class_names[data.labels[number]] for number in numbers]
            paths.append({"papers": named, "fields": fields, "weight": one.weight, "contribution": one.contribution})
        chance = float(model.predict_proba([data.graph.node_ids[node]]).max())
        field = data.class_names[data.labels[node]]
        found.append({"paper": str(papers[node]), "field": field, "chance": chance, "paths": paths})
    return found


def _print(data: Dataset, found: dict[str, Any]) -> None:
    seen = found["labels"]
    heading("CORA: papers that cite each other")
    facts(data.rows())
    print()
    heading(f"Right on {found['test_nodes']:,} test papers")
    print(f"{seen['train']} labels train, {seen['selection']} choose; brackets are 95 % intervals.")
    print_table(
        [("method", "left"), ("right", "right"), ("interval", "left")],
        [
            (one["method"], f"{one['accuracy']:.1%}", "[{:.1%}, {:.1%}]".format(*one["interval"]))
            for one in found["accuracy"]
        ],
    )
    print()
    heading(f"Weights of paths: {found['weights']}")
    print(_verdict(found))
    hops = found["weight_parameters"]["hops"]
    print("Weight of paths by steps: " + ", ".join(f"{step}: {share:.2f}" for step, share in enumerate(hops)) + ".")
    for one in found["explained"]:
        print()
        heading(f"Why paper {one['paper']} is in {_plain(one['field'])} ({one['chance']:.0%} sure)")
        print_table(
            [("path", "left"), ("fields", "left"), ("weight", "right"), ("brings", "right")],
            [_row(path) for path in one["paths"]],
        )
    print()
    print(f"The model is in {found['folder']}: cge.load({found['folder']!r}). {found['seconds']:.0f} seconds.")
    print(f"Open {found['report']} in a browser for a map, every paper's paths, and more.")


def _row(path: dict[str, Any]) -> tuple[str, ...]:
    numbers = f"{path['weight']:.2f}", f"{path['contribution']:+.3f}"
    return (" → ".join(path["papers"]), _fields(path["fields"]), *numbers)


def _verdict(found: dict[str, Any]) -> str:
    """Say how the weights were chosen."""
    told = ("none", "cosine", "gates", "steps")
    rows = [one for one in found["compared"] if one["gain"] is not None and one["weights"] in told]
    words = [f"{one['weights']} {100 * one['gain']:+.1f} ± {100 * one['error']:.1f} points" for one in rows]
    return "Compared on the selection labels: " + "; ".join(words) + "." if words else "Nothing was compared."


def _plain(field: str) -> str:
    return field.replace("_", " ")


def _fields(names: list[str]) -> str:
    return f"all in {_plain(names[0])}" if len(set(names)) == 1 else " → ".join(map(_plain, names))
