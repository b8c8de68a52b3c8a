"""`cge demo`: what the library does, on a citation graph that comes with it."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cge.cli.common_options import Jobs, Json, Quiet
from cge.cli.output_folder import output_folder
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
    max_epochs: Annotated[
        int | None, typer.Option(min=1, help="Epochs at most of each training, for a quick look \\[as many as pay].")
    ] = None,
    n_jobs: Jobs = None,
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
    papers = _Papers(data)
    with output_folder(out) as folder:
        watch = _Watch(sys.stderr.isatty() and not (quiet or as_json))
        model, twin = (_fitted(papers, weighting, seed, max_epochs, n_jobs, watch) for weighting in ("auto", "uniform"))
        watch.end()
        model.save(folder)
        accuracy = _accuracies(papers, model, twin)
        _page(papers, model, accuracy, folder / "report.html")
    found = {
        "dataset": data.name,
        "labels": model.labels_seen_,
        "test_nodes": len(papers.split.test),
        "accuracy": [{key: one[key] for key in ("method", "accuracy", "interval")} for one in accuracy],
        "weights": model.weighting_,
        "weight_parameters": model.weight_parameters_,
        "classifiers": model.classifiers_,
        "compared": model.search_results_,
        "explained": _explained(papers, model),
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

    def __init__(self, format_value: bool) -> None:
        self._shown, self._count = format_value, 0

    def __call__(self, one: Any) -> None:
        self._count += 1
        if self._shown and self._count % 10 == 0:
            accuracy = "" if one.validation_accuracy is None else f", validation {one.validation_accuracy:.1%}"
            print(f"\r{one.stage}: epoch {one.epoch}{accuracy}      ", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Clear the line."""
        if self._shown:
            print("\r" + " " * 60 + "\r", end="", file=sys.stderr, flush=True)


class _Papers:
    """CORA as its people know it: nodes have the ids of papers, classes the names of fields."""

    def __init__(self, data: Dataset) -> None:
        from dataclasses import replace

        import numpy as np

        assert data.split is not None  # noqa: S101 - CORA has one
        assert data.node_titles is not None  # noqa: S101 - the ids of its papers
        ids = np.array([str(one) for one in data.node_titles], object)
        self.graph, self.split = replace(data.graph, node_ids=ids), data.split
        names = np.array([name.replace("_", " ") for name in data.class_names], object)
        self.fields: Array = names[data.labels]

    def labeled(self, nodes: Array) -> dict[str, str]:
        """Return the fields of some papers."""
        return dict(zip(self.graph.node_ids[nodes].tolist(), self.fields[nodes].tolist(), strict=True))

    def truth(self, model: CGE) -> Array:
        """Return the fields of test papers as class numbers of a model, `(n,)`, −1 for all others."""
        import numpy as np

        found, test = np.full(len(self.fields), -1), self.split.test
        found[test] = np.searchsorted(model.classes_.astype(str), self.fields[test].astype(str))
        return found


def _fitted(
    papers: _Papers, weighting: str, seed: int, max_epochs: int | None, n_jobs: int | None, watch: _Watch
) -> CGE:
    from cge.estimators.cge import CGE

    y, validation = papers.labeled(papers.split.train), papers.labeled(papers.split.validation)
    model = CGE(weighting, training={"max_epochs": max_epochs}, random_state=seed, n_jobs=n_jobs)
    return model.fit(papers.graph, y, validation, callback=watch)


def _accuracies(papers: _Papers, model: CGE, twin: CGE) -> list[dict[str, Any]]:
    """Return the share of test nodes that each method has right, with its interval."""
    from cge.report import compared, measured_by

    measured = measured_by(model, papers.truth(model))
    assert measured is not None  # noqa: S101 - there are test nodes
    return compared(model, measured, twin=twin)


def _page(papers: _Papers, model: CGE, accuracy: list[dict[str, Any]], file: Path) -> None:
    """Write the report."""
    from cge.report import write_page

    write_page(model, file, truth=papers.truth(model), command="cge demo", name="CORA", accuracy=accuracy)


def _explained(papers: _Papers, model: CGE) -> list[dict[str, Any]]:
    """Return the strongest paths of the first test papers that are right and have several neighbors."""
    test = papers.split.test
    right = model.predict()[test] == papers.fields[test]
    several = papers.graph.degrees[test] >= _EXPLAINED
    found = []
    for node in test[right & several][:_EXPLAINED].tolist():
        paper = papers.graph.node_ids[node]
        paths = [
            {
                "papers": list(one.path),
                "fields": papers.fields[papers.graph.indices_of(one.path)].tolist(),
                "weight": one.weight,
                "contribution": one.contribution,
            }
            for one in model.explain(paper, top=_PATHS)
        ]
        chance = float(model.predict_proba([paper]).max())
        found.append({"paper": paper, "field": papers.fields[node], "chance": chance, "paths": paths})
    return found


def _print(data: Dataset, found: dict[str, Any]) -> None:
    seen = found["labels"]
    heading("CORA: papers that cite each other")
    facts(data.rows())
    print()
    heading(f"Right on {found['test_nodes']:,} test papers")
    print(f"{seen['train']} labels train, {seen['validation']} choose; brackets are 95 % intervals.")
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
    print()
    print("Three papers that it has right, with the true field of every paper on their paths:")
    for one in found["explained"]:
        print()
        heading(f"Why paper {one['paper']} is in {one['field']} ({one['chance']:.0%} sure)")
        print_table(
            [("path", "left"), ("fields", "left"), ("weight", "right"), ("brings", "right")],
            [_row(path) for path in one["paths"]],
        )
    print()
    first = found["explained"][0]["paper"] if found["explained"] else None
    asked = f" or cge explain {found['folder']} --node {first}" if first else ""
    print(f"The model is in {found['folder']}: cge.load({found['folder']!r}){asked}. {found['seconds']:.0f} seconds.")
    print(f"Open {found['report']} in a browser for a map, every paper's paths, and more.")


def _row(path: dict[str, Any]) -> tuple[str, ...]:
    numbers = f"{path['weight']:.2f}", f"{path['contribution']:+.3f}"
    return (" → ".join(path["papers"]), _fields(path["fields"]), *numbers)


def _verdict(found: dict[str, Any]) -> str:
    """Say how the weights were chosen."""
    told = ("uniform", "cosine", "edges", "edges+hops")
    rows = [one for one in found["compared"] if one["gain"] is not None and one["weights"] in told]
    words = [f"{one['weights']} {100 * one['gain']:+.1f} ± {100 * one['error']:.1f} points" for one in rows]
    return "Compared on the selection labels: " + "; ".join(words) + "." if words else "Nothing was compared."


def _fields(names: list[str]) -> str:
    return f"all in {names[0]}" if len(set(names)) == 1 else " → ".join(names)
