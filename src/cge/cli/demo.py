"""`cge demo`: what the library does, on the citation graph that is part of it."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cge.cli.common_options import Jobs, Json, Quiet, int64
from cge.cli.output_folder import output_folder
from cge.cli.printing import heading, print_json, print_pairs, print_table

_PAPERS, _PATHS = 3, 4  # papers that are explained, and paths of each

if TYPE_CHECKING:
    import numpy.typing as npt

    from cge.data.dataset import Dataset
    from cge.estimators.cge import CGE

    Array = npt.NDArray[Any]


def demo(
    out: Annotated[str, typer.Option(metavar="DIR", help="Output folder for model and report.")] = "runs/demo",
    seed: Annotated[int, typer.Option(min=0, callback=int64, help="Seed of the training.")] = 0,
    max_epochs: Annotated[
        int | None,
        typer.Option(
            min=1, callback=int64, help="Maximum number of epochs, for a quick look \\[the classifier's default]."
        ),
    ] = None,
    n_jobs: Jobs = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train on the citation graph CORA, print the accuracy and explain predictions.

    Nodes are papers, edges are citations, classes are research fields; 140 papers are training nodes. Needs no network
    and no files.

    For example:

      cge demo --out runs/demo --seed 3
    """
    from cge.data import load_dataset

    start, data = time.perf_counter(), load_dataset("cora")
    papers = _Papers(data)
    with output_folder(out) as folder:
        progress = _Progress(sys.stderr.isatty() and not (quiet or as_json))
        model, uniform = (
            _fit(papers, weighting, seed, max_epochs, n_jobs, progress) for weighting in ("auto", "uniform")
        )
        progress.clear()
        model.save(folder)
        accuracy = _accuracies(papers, model, uniform)
        _write_report(papers, model, accuracy, folder / "report.html")
    result = {
        "dataset": data.name,
        "labels": model.labels_seen_,
        "test_nodes": len(papers.split.test),
        "accuracy": [{key: row[key] for key in ("method", "accuracy", "interval")} for row in accuracy],
        "weighting": model.weighting_,
        "weight_parameters": model.weight_parameters_,
        "classifiers": model.classifiers_,
        "search_results": model.search_results_,
        "explanations": _explanations(papers, model),
        "folder": out,
        "report": str(Path(out) / "report.html"),
        "seconds": time.perf_counter() - start,
    }
    if as_json:
        print_json(result)
    elif not quiet:
        _print(data, result)


class _Progress:
    """Counts epochs on one line of the error stream."""

    def __init__(self, visible: bool) -> None:
        self._visible, self._count = visible, 0

    def __call__(self, epoch: Any) -> None:
        self._count += 1
        if self._visible and self._count % 10 == 0:
            value = epoch.validation_accuracy
            accuracy = "" if value is None else f", validation accuracy {value:.1%}"
            print(f"\r{epoch.stage}: epoch {epoch.epoch}{accuracy}      ", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Clear the line."""
        if self._visible:
            print("\r" + " " * 70 + "\r", end="", file=sys.stderr, flush=True)


class _Papers:
    """CORA with the ids of papers as node ids and the names of fields as classes."""

    def __init__(self, data: Dataset) -> None:
        from dataclasses import replace

        import numpy as np

        assert data.split is not None  # noqa: S101 - CORA has one
        assert data.node_titles is not None  # noqa: S101 - the ids of its papers
        ids = np.array([str(title) for title in data.node_titles], object)
        self.graph, self.split = replace(data.graph, node_ids=ids), data.split
        names = np.array([name.replace("_", " ") for name in data.class_names], object)
        self.fields: Array = names[data.labels]

    def labels(self, nodes: Array) -> dict[str, str]:
        """Return the fields of papers by id."""
        return dict(zip(self.graph.node_ids[nodes].tolist(), self.fields[nodes].tolist(), strict=True))

    def test_codes(self, model: CGE) -> Array:
        """Return the fields of test papers as class numbers of a model, `(n,)`, −1 for all others."""
        import numpy as np

        codes, test = np.full(len(self.fields), -1), self.split.test
        codes[test] = np.searchsorted(model.classes_.astype(str), self.fields[test].astype(str))
        return codes


def _fit(
    papers: _Papers, weighting: str, seed: int, max_epochs: int | None, n_jobs: int | None, progress: _Progress
) -> CGE:
    from cge.estimators.cge import CGE

    y, validation = papers.labels(papers.split.train), papers.labels(papers.split.validation)
    model = CGE(weighting, training={"max_epochs": max_epochs}, random_state=seed, n_jobs=n_jobs)
    model.fit(papers.graph, y, validation, callback=progress)
    return model


def _accuracies(papers: _Papers, model: CGE, uniform: CGE) -> list[dict[str, Any]]:
    """Return the test accuracy of each method, with its confidence interval."""
    from cge.report import compare_methods, scored_nodes

    scored = scored_nodes(model, papers.test_codes(model))
    assert scored is not None  # noqa: S101 - there are test nodes
    return compare_methods(model, scored, uniform_model=uniform)


def _write_report(papers: _Papers, model: CGE, accuracy: list[dict[str, Any]], file: Path) -> None:
    from cge.report import write_page

    labels = papers.test_codes(model)
    write_page(model, file, test_labels=labels, command="cge demo", name="CORA", method_scores=accuracy)


def _explanations(papers: _Papers, model: CGE) -> list[dict[str, Any]]:
    """Return the strongest paths of the first test papers that are predicted correctly and have enough neighbors."""
    test = papers.split.test
    correct = model.predict()[test] == papers.fields[test]
    connected = papers.graph.degrees[test] >= _PAPERS
    explanations = []
    for node in test[correct & connected][:_PAPERS].tolist():
        paper = papers.graph.node_ids[node]
        paths = [
            {
                "papers": list(row.path),
                "fields": papers.fields[papers.graph.indices_of(row.path)].tolist(),
                "weight": row.weight,
                "contribution": row.contribution,
            }
            for row in model.explain(paper, top=_PATHS)
        ]
        probability = float(model.predict_proba([paper]).max())
        explanations.append({"paper": paper, "field": papers.fields[node], "probability": probability, "paths": paths})
    return explanations


def _print(data: Dataset, result: dict[str, Any]) -> None:
    labels = result["labels"]
    heading("CORA: papers and their citations")
    print_pairs(data.rows())
    print()
    heading(f"Accuracy on {result['test_nodes']:,} test papers")
    counts = f"{labels['train']} training labels, {labels['validation']} validation labels"
    print(f"{counts}; 95 % confidence intervals in brackets.")
    print_table(
        [("method", "left"), ("accuracy", "right"), ("", "left")],
        [
            (row["method"], f"{row['accuracy']:.1%}", "[{:.1%}, {:.1%}]".format(*row["interval"]))
            for row in result["accuracy"]
        ],
    )
    print()
    heading(f"Selected path weighting: {result['weighting']}")
    print(_search_sentence(result["search_results"]))
    hops = result["weight_parameters"]["hops"]
    print(f"Hop weights (0 to {len(hops) - 1} edges): {', '.join(f'{weight:.2f}' for weight in hops)}.")
    print()
    print("Explanations of three correct predictions; fields are the true ones of all papers on a path:")
    for explanation in result["explanations"]:
        print()
        confidence = f"{explanation['probability']:.0%} confidence"
        heading(f"Paper {explanation['paper']} is predicted as {explanation['field']} ({confidence})")
        print_table(
            [("path", "left"), ("fields", "left"), ("weight", "right"), ("contribution", "right")],
            [_path_row(path) for path in explanation["paths"]],
        )
    print()
    print(f"Model: {result['folder']} (cge.load({result['folder']!r})). Time: {result['seconds']:.0f} seconds.")
    if result["explanations"]:
        print(f"More paths: cge explain {result['folder']} --node {result['explanations'][0]['paper']}")
    print(f"Report with a map of all papers: open {result['report']} in a browser.")


def _path_row(path: dict[str, Any]) -> tuple[str, ...]:
    numbers = f"{path['weight']:.2f}", f"{path['contribution']:+.3f}"
    return (" → ".join(path["papers"]), _fields(path["fields"]), *numbers)


def _search_sentence(search_results: list[dict[str, Any]]) -> str:
    """Return how candidates did in the comparison that selected the weighting."""
    from cge.models.weightings import weighting_descriptions

    names = {*weighting_descriptions()} - {row["weighting"] for row in search_results[:1]}
    rows = [row for row in search_results if row["accuracy_gain"] is not None and row["weighting"] in names]
    gains = [
        f"{row['weighting']} {100 * row['accuracy_gain']:+.1f} ± {100 * row['accuracy_gain_se']:.1f} points"
        for row in rows
    ]
    if not gains:
        return "Only one weighting was trained."
    return f"Validation accuracy, change over the best candidate so far (± standard error): {'; '.join(gains)}."


def _fields(names: list[str]) -> str:
    if len(names) == 1:
        return "(the paper itself)"
    return f"all in {names[0]}" if len(set(names)) == 1 else " → ".join(names)
