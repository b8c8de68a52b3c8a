"""`cge evaluate`: the accuracy of a method on a data set, over several seeds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cge.cli.common_options import (
    DatasetName,
    FirstSeed,
    Jobs,
    Json,
    PerClass,
    QuietResult,
    Settings,
    TrainShare,
    TrustData,
    method_names,
)
from cge.cli.printing import print_json, print_pairs
from cge.errors import InputError, format_value

if TYPE_CHECKING:
    from cge.data.dataset import Dataset
    from cge.data.splits import Split
    from cge.estimators.methods import Method as MethodEntry

_METRICS = {
    "accuracy": "accuracy",
    "micro_f1": "micro-F1",
    "macro_f1": "macro-F1",
    "micro_f1_above_half": "micro-F1, threshold ½",
    "macro_f1_above_half": "macro-F1, threshold ½",
    "auc": "AUC",
    "ap": "AP",
}
_TASKS = {"label": "cge", "link": "deepwalk"}  # with the default method of each


Method = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Method to evaluate; 'list' prints all of them \\[cge; deepwalk with --task link].",
        autocompletion=method_names,
    ),
]
Task = Annotated[str, typer.Option(metavar="TASK", help="Predict the 'label' of a node, or a 'link' between two.")]
Config = Annotated[
    str | None, typer.Option(metavar="FILE", help="Settings as TOML, as 'cge tune' writes; --set has precedence.")
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Remove test nodes from the training graph (inductive methods).")
]


def evaluate(
    dataset: DatasetName,
    method: Method = None,
    task: Task = "label",
    seeds: Annotated[int, typer.Option(min=1, max=10_000, help="Number of runs, each with its own seed.")] = 5,
    first_seed: FirstSeed = 0,
    settings: Settings = None,
    config: Config = None,
    per_class: PerClass = 20,
    train_share: TrainShare = None,
    strict: Strict = False,
    trust_data: TrustData = False,
    n_jobs: Jobs = None,
    quiet: QuietResult = False,
    as_json: Json = False,
) -> None:
    """Train a method on a data set and score it on the test labels, for several seeds.

    Models are selected on the validation labels and scored once on the test labels. With --task link a tenth of the
    edges is held out and has to be distinguished from pairs of nodes without an edge. A folder contains edges, labels,
    and optionally features and a split (docs/datasets.md).

    For example:

      cge evaluate cora --method gcn --seeds 10
      cge evaluate cora --set weighting=edges+hops --set hops=6 --json
      cge evaluate cora --task link --method node2vec
    """
    from cge.estimators.methods import find_method, make, methods_for
    from cge.evaluation.protocol import link_summary, notes_on_split, run_once, split_of, summarize

    if task not in _TASKS:
        raise InputError(f"--task must be one of {', '.join(map(repr, _TASKS))}, found {format_value(task)}")
    links, name = task == "link", method or _TASKS[task]
    if links and strict:
        raise InputError("--strict removes test nodes, and link prediction has none", hint="leave it out")
    kind = "links" if links else "nodes"
    if name == "list":
        descriptions = {key: entry.description for key, entry in methods_for(kind).items()}
        print_json(descriptions) if as_json else print_pairs(descriptions.items())
        return
    values, entry = _settings(name, kind, settings or [], config), find_method(name, kind)
    data, rows = any_dataset(dataset, trust_data), []
    notes = [data.notes] if data.notes else []
    fixed_split = train_share is None and len(data.splits) == 1
    if fixed_split and not links and seeds > 1 and "random_state" not in entry.parameters():
        seeds = 1
        notes.append(f"{name} is deterministic and the split is fixed, so there is one run")
    notes += [] if links else notes_on_split(data, *split_of(data, first_seed, per_class, train_share))
    for seed in range(first_seed, first_seed + seeds):
        estimator = make(name, seed, n_jobs, kind, **values)

        def labels(seed: int = seed) -> tuple[Dataset, Split]:
            return split_of(data, seed, per_class, train_share)

        rows.append(_links(estimator, data, seed, labels) if links else run_once(estimator, *labels(), strict))
        if not quiet and not as_json:
            scores = ", ".join(f"{metric} {value:.4f}" for metric, value in rows[-1]["metrics"].items())
            print(f"seed {seed}: {scores} ({rows[-1]['seconds']:.1f} s)", file=sys.stderr, flush=True)
    result = (link_summary if links else summarize)(data.name, name, _params(entry, estimator), rows)
    drawn = not links and train_share is None and not data.splits
    protocol = {"strict": strict, "first_seed": first_seed, "published_splits": len(data.splits)}
    result["protocol"] = protocol | {"per_class": per_class if drawn else None, "train_share": train_share}
    result["notes"] = notes
    if as_json:
        print_json(result)
    else:
        print_pairs(_result_rows(result, strict, values))


def _settings(name: str, kind: str, pairs: list[str], config: str | None) -> dict[str, Any]:
    """Return the settings of --set and --config; refuse wrong ones before data are read."""
    from cge.estimators.configs import read_settings
    from cge.estimators.methods import find_method, make, settings_from_text

    values = settings_from_text(pairs)
    make(name, 0, None, kind, **values)
    if config is None:
        return values
    known = find_method(name, kind).declared_settings()
    if known is not None:
        known.pop("random_state", None)
    return read_settings(config, known) | values


def _params(entry: MethodEntry, estimator: Any) -> dict[str, Any]:
    """Return the settings of an estimator by their flat names, but for the seed."""
    from cge.estimators.configs import flat_params

    params = flat_params(estimator) if entry.declared_settings() is not None else estimator.get_params()
    return {name: _plain(value) for name, value in params.items() if name != "random_state"}


def _links(estimator: Any, data: Dataset, seed: int, labels: Callable[[], tuple[Dataset, Split]]) -> dict[str, Any]:
    """Run link prediction once; only classifiers get labels."""
    from cge.data.link_split import hold_out_links
    from cge.evaluation.protocol import run_links

    held = hold_out_links(data.graph, seed=seed)
    if not hasattr(estimator, "predict_proba"):
        return run_links(estimator, held)
    chosen, split = labels()
    validation = chosen.labels_of(split.validation) if len(split.validation) else None
    return run_links(estimator, held, (chosen.labels_of(split.train), validation))


def any_dataset(name: str, trust: bool = False) -> Dataset:
    """Return a data set by its name, or the one in a folder."""
    from cge.data import catalog, load_dataset
    from cge.data.dataset_folder import load_folder

    known = {entry.name for entry in catalog()}
    if Path(name).is_dir() and name not in known:
        return load_folder(name)
    if name.lower() in known:
        return load_dataset(name, trust=trust)
    names = ", ".join(entry.name for entry in catalog())
    raise InputError(f"there is no data set and no folder {name!r}", hint=f"the data sets are {names}")


def _plain(value: Any) -> Any:
    return getattr(value, "__qualname__", str(value)) if callable(value) else value


def _result_rows(result: dict[str, Any], strict: bool, given: dict[str, Any]) -> list[tuple[str, str]]:
    """Return a result as (name, value) pairs of text."""
    rows = [("data set", result["dataset"]), ("method", result["method"] + (", strict" if strict else ""))]
    if given:
        rows.append(("settings", ", ".join(f"{name}={value}" for name, value in given.items())))
    for name in _METRICS:
        if name in result:
            score = result[name]
            spread = "" if score["sd"] is None else f" ± {score['sd']:.4f}"
            interval = (
                ""
                if score["sd"] is None
                else f", 95 % confidence interval {score['ci95'][0]:.4f} to {score['ci95'][1]:.4f}"
            )
            runs = "1 seed" if len(score["per_seed"]) == 1 else f"{len(score['per_seed'])} seeds"
            rows.append((_METRICS[name], f"{score['mean']:.4f}{spread} ({runs}{interval})"))
    labels, edges = result["labels"], result.get("edges")
    if edges is not None:
        rows.append(("edges", ", ".join(f"{name} {count:,}" for name, count in edges.items())))
        rows.append(("selected scorers", "; ".join(dict.fromkeys(result["scorers"]))))
    return [
        *rows,
        ("test nodes" if edges is None else "test pairs", f"{result['n_test']:,}"),
        ("labels seen", ", ".join(f"{name} {labels[name]:,}" for name in ("train", "outer", "validation"))),
        ("seconds per run", f"{result['seconds']:.1f}"),
        ("peak memory", f"{result['peak_mb']:,} MB"),
        *[("note", note) for note in result["notes"]],
    ]
