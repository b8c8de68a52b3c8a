"""`cge demo`: what the library does, on the citation graph that is part of it."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cge.cli.common_options import Jobs, Json, Quiet, int_option, text_option
from cge.cli.fit_output import FitProgress
from cge.cli.output_folder import Checkpoint, output_folder
from cge.cli.printing import heading, print_json, print_pairs, print_table

if TYPE_CHECKING:
    import numpy.typing as npt

    from cge.data.dataset import Dataset
    from cge.estimators.cge import CGE

_PAPERS, _PATHS = 3, 4  # papers that are explained, and paths of each
_LEARNED = ("weight_parameters", "classifiers", "search_results")

MaxEpochs = Annotated[
    int | None, int_option("Maximum number of epochs, for a quick look \\[default: that of the classifier].", minimum=1)
]


def demo(
    out: Annotated[str, text_option("DIR", "Output folder for model and report.")] = "runs/demo",
    seed: Annotated[int, int_option("Seed of the training.", minimum=0)] = 0,
    max_epochs: MaxEpochs = None,
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
    import numpy as np

    from cge.data import load_dataset
    from cge.estimators.cge import CGE
    from cge.estimators.fit_plan import plan_fit
    from cge.report import compare_methods, scored_nodes, write_page
    from cge.report.scored_nodes import plain_rows
    from cge.targets import SingleLabel

    start, data = time.perf_counter(), load_dataset("cora")
    assert data.split is not None  # noqa: S101 - CORA has one
    split, names = data.split, np.array([name.replace("_", " ") for name in data.class_names], object)
    graph, fields = replace(data.graph, node_ids=np.array(data.node_titles, object)), names[data.labels]
    parts = (split.train, split.validation)
    y, validation = (dict(zip(graph.node_ids[nodes], fields[nodes], strict=True)) for nodes in parts)
    model = CGE(training={"max_epochs": max_epochs}, random_state=seed, n_jobs=n_jobs)
    visible = sys.stderr.isatty() and not (quiet or as_json)
    with output_folder(out) as folder:
        candidates = len(plan_fit(model, graph, y, validation).candidates)
        with FitProgress(Checkpoint(folder), SingleLabel(names), False, visible, candidates) as progress:
            model.fit(graph, y, validation, callback=progress)
        model.save(folder)
        test_labels = np.full(len(fields), -1)
        test_labels[split.test] = np.searchsorted(model.classes_.astype(str), fields[split.test].astype(str))
        scored = scored_nodes(model, test_labels)
        assert scored is not None  # noqa: S101 - there are test nodes
        rows = compare_methods(model, scored)
        about: dict[str, Any] = {"title": "CORA", "command": "cge demo", "method_scores": rows}
        write_page(model, folder / "report.html", test_labels=test_labels, **about)
    result = {
        "dataset": data.name,
        "labels": model.labels_seen_,
        "test_nodes": len(split.test),
        "accuracy": plain_rows(rows),
        "weighting": model.weighting_,
        **{name: model.fitted_.selected[name] for name in _LEARNED},
        "explanations": _explanations(model, split.test, fields),
        "folder": out,
        "report": str(Path(out) / "report.html"),
        "seconds": time.perf_counter() - start,
    }
    if as_json:
        print_json(result)
    elif not quiet:
        _print(data, result)


def _explanations(model: CGE, test: npt.NDArray[Any], fields: npt.NDArray[Any]) -> list[dict[str, Any]]:
    """Return the main paths of the first test papers that are predicted correctly and have enough neighbors."""
    graph, explanations = model.graph_, []
    suitable = (model.predict()[test] == fields[test]) & (graph.degrees[test] >= _PAPERS)
    for node in test[suitable][:_PAPERS].tolist():
        paper = graph.node_ids[node]
        paths = [
            {
                "papers": list(row.path),
                "fields": fields[graph.indices_of(row.path)].tolist(),
                "weight": row.relative_weight,
                "contribution": row.contribution,
            }
            for row in model.explain(paper, top=_PATHS)
        ]
        probability = float(model.predict_proba([paper]).max())
        explanations.append({"paper": paper, "field": fields[node], "probability": probability, "paths": paths})
    return explanations


def _print(data: Dataset, result: dict[str, Any]) -> None:
    labels = result["labels"]
    heading("CORA: papers and their citations")
    print_pairs(data.rows())
    print()
    heading(f"Accuracy on {result['test_nodes']:,} test papers")
    counts = f"{labels['train']} training labels, {labels['validation']} validation labels"
    print(f"{counts}; 95% confidence intervals in brackets.")
    rows = result["accuracy"]
    cells = [(row["method"], f"{row['accuracy']:.1%}", "[{:.1%}, {:.1%}]".format(*row["interval"])) for row in rows]
    print_table([("method", "left"), ("accuracy", "right"), ("", "left")], cells)
    print()
    heading(f"Selected path weighting: {result['weighting']}")
    print(_search_sentence(result["search_results"]))
    hop_weights = result["weight_parameters"]["hop_weights"]
    print(f"Hop weights (0 to {len(hop_weights) - 1} hops): {', '.join(f'{weight:.2f}' for weight in hop_weights)}.")
    print()
    print("Explanations of three correct predictions, with the true classes of all papers on a path:")
    for explanation in result["explanations"]:
        print()
        probability = f"probability {explanation['probability']:.2f}"
        heading(f"Paper {explanation['paper']} is predicted as {explanation['field']} ({probability})")
        columns = [("path", "left"), ("true classes", "left"), ("relative weight", "right"), ("contribution", "right")]
        print_table(columns, map(_path_row, explanation["paths"]))
    print()
    print(f"Model: {result['folder']} (cge.load({result['folder']!r})). Time: {result['seconds']:.0f} seconds.")
    if result["explanations"]:
        print(f"More paths: cge explain {result['folder']} --node {result['explanations'][0]['paper']}")
    print(f"Report: open {result['report']} in a browser.")


def _path_row(path: dict[str, Any]) -> tuple[str, ...]:
    fields = path["fields"]
    described = f"all in {fields[0]}" if len(set(fields)) == 1 else " → ".join(fields)
    if len(fields) == 1:
        described = "(the paper itself)"
    return " → ".join(path["papers"]), described, f"{path['weight']:.2f}", f"{path['contribution']:+.3f}"


def _search_sentence(search_results: list[dict[str, Any]]) -> str:
    """Return how candidates did in the comparison that selected the weighting."""
    from cge.models.weightings import weighting_descriptions

    names = {*weighting_descriptions()} - {row["weighting"] for row in search_results[:1]}
    gains = [
        f"{row['weighting']} {100 * row['accuracy_gain']:+.1f} ± {100 * row['accuracy_gain_se']:.1f} percentage points"
        for row in search_results
        if row["accuracy_gain"] is not None and row["weighting"] in names
    ]
    if not gains:
        return "Only one weighting was trained."
    return f"Gain in validation accuracy over the best candidate before (± standard error): {'; '.join(gains)}."
