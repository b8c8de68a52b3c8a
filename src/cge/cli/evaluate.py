"""`cge evaluate`: how well a method predicts on a data set, over several seeds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cge.cli.options import DatasetName, Json, Threads, method_names
from cge.cli.printing import facts, print_json
from cge.errors import InputError

if TYPE_CHECKING:
    from cge.data.dataset import Dataset

__all__ = ["any_dataset", "evaluate"]


def evaluate(
    dataset: DatasetName,
    method: Annotated[
        str,
        typer.Option(metavar="NAME", help="What to evaluate; 'list' prints the names.", autocompletion=method_names),
    ] = "cge",
    seeds: Annotated[int, typer.Option(min=1, max=10_000, help="Runs, each with a seed of its own.")] = 5,
    first_seed: Annotated[int, typer.Option("--seed", "--first-seed", min=0, help="The first seed.")] = 0,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the method; may be repeated.")
    ] = None,
    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="Settings as TOML, such as 'cge tune' writes; --set goes before.")
    ] = None,
    per_class: Annotated[
        int, typer.Option(min=1, help="Training labels of each class, where the data set has no split.")
    ] = 20,
    train_share: Annotated[
        float | None, typer.Option(min=0, max=0.99, help="Draw splits with this share of the labels instead.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Test nodes are not in the graph in training (inductive methods).")
    ] = False,
    threads: Threads = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but the result.")] = False,
    as_json: Json = False,
) -> None:
    """Train a method on a data set and score it on the test labels, for several seeds.

    Validation labels choose what a method leaves open; test labels score once. A folder holds edges, labels, and
    perhaps features and a split (docs/datasets.md).

    For example:

      cge evaluate cora --method gcn --seeds 10
      cge evaluate cora --set weighting=steps --set hops=6 --json
    """
    from cge.estimators.settings import settings_of
    from cge.estimators.settings_file import read_settings
    from cge.evaluation.protocol import run_once, split_of, summary
    from cge.experiments.methods import METHODS, make, settings_from_text

    if method == "list":
        told = {name: one.about for name, one in METHODS.items()}
        print_json(told) if as_json else facts(told.items())
        return
    given = settings_from_text(settings or [])
    make(method, 0, threads, **given)  # a wrong name is told before data are read
    if config is not None:
        known = settings_of(METHODS[method].kind())
        given = read_settings(config, {name: one for name, one in known.items() if name != "random_state"}) | given
    data, rows = any_dataset(dataset), []
    for seed in range(first_seed, first_seed + seeds):
        chosen, split = split_of(data, seed, per_class, train_share)
        estimator = make(method, seed, threads, **given)
        rows.append(run_once(estimator, chosen, split, strict))
        if not quiet and not as_json:
            scores = ", ".join(f"{name} {value:.4f}" for name, value in rows[-1]["metrics"].items())
            print(f"seed {seed}: {scores} ({rows[-1]['seconds']:.1f} s)", file=sys.stderr, flush=True)
    params = {name: _plain(value) for name, value in estimator.get_params().items() if name != "random_state"}
    found = summary(data.name, method, params, rows)
    if as_json:
        print_json(found)
    else:
        facts(_told(found, strict))


def any_dataset(name: str) -> Dataset:
    """Return a data set by its name, or the one that a folder holds."""
    from cge.data import catalog, load_dataset
    from cge.data.folder import load_folder

    if name in {entry.name for entry in catalog()}:
        return load_dataset(name)
    if Path(name).is_dir():
        return load_folder(name)
    listed = ", ".join(entry.name for entry in catalog())
    raise InputError(f"there is no data set and no folder {name!r}; the data sets are {listed}")


def _plain(value: Any) -> Any:
    return getattr(value, "__qualname__", str(value)) if callable(value) else value


def _told(found: dict[str, Any], strict: bool) -> list[tuple[str, str]]:
    """Return a result as (name, value) pairs of text."""
    rows = [("data set", found["dataset"]), ("method", found["method"] + (", strict" if strict else ""))]
    for name in ("accuracy", "micro_f1", "macro_f1"):
        if name in found:
            told = found[name]
            spread = "" if told["sd"] is None else f" ± {told['sd']:.4f}"
            interval = "" if told["sd"] is None else f", 95 % interval {told['ci95'][0]:.4f} to {told['ci95'][1]:.4f}"
            runs = "1 seed" if len(told["per_seed"]) == 1 else f"{len(told['per_seed'])} seeds"
            rows.append((name.replace("_f1", "-F1"), f"{told['mean']:.4f}{spread} ({runs}{interval})"))
    labels = found["labels"]
    return [
        *rows,
        ("test nodes", f"{found['n_test']:,}"),
        ("labels seen", ", ".join(f"{name} {labels[name]:,}" for name in ("train", "outer", "selection"))),
        ("seconds per run", f"{found['seconds']:.1f}"),
        ("peak memory", f"{found['peak_mb']:,} MB"),
    ]
