"""Methods on data sets: `cge evaluate` scores a method over several seeds, `cge tune` searches its settings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cge.cli.checkout import require_package
from cge.cli.common_options import (
    Address,
    EngineName,
    Jobs,
    Json,
    dataset_names,
    flag_option,
    int_option,
    text_option,
)
from cge.cli.main import Stopped
from cge.cli.model_files import check_choice
from cge.cli.printing import print_json, print_pairs
from cge.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from cge.data.dataset import Dataset
    from cge.estimators.methods import Method as MethodEntry

_METRICS = {
    "accuracy": "accuracy",
    "micro_f1": "micro-F1",
    "macro_f1": "macro-F1",
    "micro_f1_above_half": "micro-F1, threshold ½",
    "macro_f1_above_half": "macro-F1, threshold ½",
    "auc": "AUC",
    "ap": "AP",
    "hits_at_100": "hits@100",
}
_TASKS = {"label": "cge", "link": "link-predictor"}  # with the default method of each


def _method(text: str) -> Any:
    def names() -> list[str]:
        from cge.estimators.methods import methods_for

        return list(methods_for())

    return text_option("NAME", text, autocompletion=names)


DatasetName = Annotated[
    str,
    typer.Argument(
        metavar="DATASET",
        help="A data set by name ('cge datasets' lists them), or a folder; for links also a file of edges.",
        autocompletion=dataset_names,
    ),
]
FirstSeed = Annotated[int, int_option("The first seed.", "--seed", "--first-seed", minimum=0)]
PerClass = Annotated[int, int_option("Training labels per class, where the data set has no split.", minimum=1)]
TrainShare = Annotated[
    float | None, typer.Option(min=0, max=0.99, help="Draw splits with this fraction of the labels for training.")
]
TrustData = Annotated[
    bool, flag_option("--trust-data", "Read files of a data set whose SHA256 is not the published one.")
]
QuietResult = Annotated[bool, flag_option("--quiet", "Print nothing but the result.")]

Method = Annotated[
    str | None,
    _method("Method to evaluate; 'list' prints all of them \\[default: cge; link-predictor with --task link]."),
]
Task = Annotated[str, text_option("TASK", "Predict the 'label' of a node, or a 'link' between two.")]
Settings = Annotated[list[str] | None, text_option("NAME=VALUE", "A setting of the method; may be repeated.", "--set")]
Config = Annotated[str | None, text_option("FILE", "Settings as TOML, as 'cge tune' writes; --set has precedence.")]
Strict = Annotated[bool, flag_option("--strict", "Remove test nodes from the training graph (inductive methods).")]

Trials = Annotated[int, int_option("Number of trials, those of earlier runs included.", minimum=1)]
Storage = Annotated[
    str | None,
    text_option(
        "URL|FILE",
        "A database (sqlite:///tune.db) or a journal file; several machines may share it "
        "\\[default: runs/tune/DATASET-METHOD.journal].",
    ),
]
Runs = Annotated[int, int_option("Runs per trial; their mean accuracy is its score.", "--seeds", minimum=1)]
Fixed = Annotated[
    list[str] | None, text_option("NAME=VALUE", "A setting that is not searched; may be repeated.", "--set")
]
Out = Annotated[str | None, text_option("FILE", "Also write the best settings to this TOML file.")]


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
    engine: EngineName = "local",
    address: Address = None,
    n_jobs: Jobs = None,
    quiet: QuietResult = False,
    as_json: Json = False,
) -> None:
    """Train a method on a data set and score it on the test labels, for several seeds.

    Models are selected on the validation labels and scored once on the test labels. With --task link a tenth of the
    edges is held out and has to be distinguished from pairs of nodes without an edge; no labels are needed. A folder
    contains edges, labels, and optionally features and a split (docs/datasets.md).

    For example:

      cge evaluate cora --method gcn --seeds 10
      cge evaluate cora --set weighting=edges+hops --set hops=6 --json
      cge evaluate edges.csv --task link
      cge evaluate cora --task link --method node2vec
    """
    from cge.engine import make_engine
    from cge.estimators.evaluation_run import EvaluationRun
    from cge.estimators.methods import find_method, methods_for
    from cge.evaluation.protocol import link_summary, notes_on_split, split_of, summarize

    check_choice("--task", task, _TASKS)
    links, name = task == "link", method or _TASKS[task]
    if links and strict:
        raise InputError("--strict removes test nodes, and link prediction has none", hint="leave it out")
    kind = "links" if links else "nodes"
    if name == "list":
        descriptions = {key: entry.description for key, entry in methods_for(kind).items()}
        print_json(descriptions) if as_json else print_pairs(descriptions.items())
        return
    values, entry = _settings(name, kind, settings or [], config), find_method(name, kind)
    data, rows = _load(dataset, trust_data, links), []
    notes = [data.notes] if data.notes else []
    fixed_split = train_share is None and len(data.splits) == 1
    if fixed_split and not links and seeds > 1 and "random_state" not in entry.parameters():
        seeds = 1
        notes.append(f"{name} is deterministic and the split is fixed, so there is one run")
    notes += [] if links else notes_on_split(data, *split_of(data, first_seed, per_class, train_share))
    protocol: dict[str, Any] = {"per_class": per_class, "train_share": train_share, "strict": strict}
    run = EvaluationRun(data, name, kind, values, **protocol, n_jobs=_jobs(engine, n_jobs))
    blocks = range(first_seed, first_seed + seeds)
    for seed, row in zip(blocks, make_engine(engine, address, 1).map(run, blocks), strict=True):
        rows.append(row)
        if not quiet and not as_json:
            scores = ", ".join(f"{metric} {value:.4f}" for metric, value in row["metrics"].items())
            print(f"seed {seed}: {scores} ({row['seconds']:.1f} s)", file=sys.stderr, flush=True)
    params = _params(entry, run.estimator(first_seed))
    result = (link_summary if links else summarize)(data.name, name, params, rows)
    drawn = not links and train_share is None and not data.splits
    seen = {"first_seed": first_seed, "published_splits": len(data.splits)}
    result["protocol"] = protocol | seen | {"per_class": per_class if drawn else None}
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
    plain = {name: getattr(value, "__qualname__", str(value)) for name, value in params.items() if callable(value)}
    return {name: value for name, value in (params | plain).items() if name != "random_state"}


def _jobs(engine: str, n_jobs: int | None) -> int | None:
    """Return the threads of a task: on a cluster, a task has one core."""
    return 1 if n_jobs is None and engine != "local" else n_jobs


def _load(name: str, trust: bool, links: bool = False) -> Dataset:
    """Return a data set by its name, or the one in a folder; for links, labels are not needed, only edges."""
    from cge.data import load_dataset
    from cge.data.dataset_folder import load_folder

    known = dataset_names()
    if Path(name).is_dir() and name not in known:
        return load_folder(name, need_labels=not links)
    if links and Path(name).is_file():
        import numpy as np

        from cge.data import Dataset, read_graph

        graph = read_graph(name)
        return Dataset(Path(name).stem, graph, np.full(len(graph), -1))
    if name.lower() in known:
        return load_dataset(name, trust=trust)
    hint = f"{did_you_mean(name, known)}the data sets are {', '.join(known)}"
    raise InputError(f"there is no data set and no folder {name!r}", hint=hint)


def _result_rows(result: dict[str, Any], strict: bool, settings: dict[str, Any]) -> list[tuple[str, str]]:
    """Return a result as (name, value) pairs of text."""
    rows = [("data set", result["dataset"]), ("method", result["method"] + (", strict" if strict else ""))]
    if settings:
        rows.append(("settings", ", ".join(f"{name}={value}" for name, value in settings.items())))
    rows += [(title, _score(result[name])) for name, title in _METRICS.items() if name in result]
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


def _score(score: dict[str, Any]) -> str:
    """Return the mean over the runs, with standard deviation and confidence interval where there are several."""
    if score["std"] is None:
        return f"{score['mean']:.4f} (1 seed)"
    interval = "95 % confidence interval {:.4f} to {:.4f}".format(*score["ci95"])
    return f"{score['mean']:.4f} ± {score['std']:.4f} ({len(score['per_seed'])} seeds, {interval})"


def tune(
    dataset: DatasetName,
    method: Annotated[str, _method("As in 'cge evaluate'.")] = "cge",
    trials: Trials = 50,
    storage: Storage = None,
    seeds: Runs = 1,
    first_seed: FirstSeed = 0,
    per_class: PerClass = 20,
    train_share: TrainShare = None,
    settings: Fixed = None,
    out: Out = None,
    trust_data: TrustData = False,
    engine: EngineName = "local",
    address: Address = None,
    n_jobs: Jobs = None,
    quiet: QuietResult = False,
    as_json: Json = False,
) -> None:
    """Tune the hyperparameters of a method on a data set with Optuna (needs the package optuna).

    Optuna proposes settings and the accuracy on the validation labels scores them; test labels are never used. Trials
    are stored as they finish: the same command continues where it stopped. The best settings are printed as TOML, which
    'cge evaluate --config' reads; those of the method cge are also read by 'cge fit --config'.

    For example:

      cge tune cora --method gcn --trials 30 --out gcn.toml
      cge evaluate cora --method gcn --config gcn.toml
    """
    from cge.estimators.methods import settings_from_text
    from cge.store.atomic import write_text

    require_package("optuna", "tune", "tune")
    import numpy as np

    from cge.engine import make_engine
    from cge.estimators.tuning import as_toml, open_storage, search_space
    from cge.estimators.tuning import tune as search
    from cge.targets import class_target

    fixed = settings_from_text(settings or [])
    search_space(method, fixed)  # refuses a wrong name before data are read
    if out is not None:
        Path(out).parent.mkdir(parents=True, exist_ok=True)
    data = _load(dataset, trust_data)

    def print_trial(number: int, _value: float | None, outcome: str) -> None:
        if not quiet and not as_json:
            print(f"trial {number}/{trials}: {outcome}", file=sys.stderr, flush=True)

    split: dict[str, Any] = {"first_seed": first_seed, "per_class": per_class, "train_share": train_share}
    try:
        opened = open_storage(storage or f"runs/tune/{data.name}-{method}.journal")
        more: dict[str, Any] = {"n_jobs": _jobs(engine, n_jobs), "fixed": fixed, "on_trial": print_trial}
        more["engine"] = make_engine(engine, address, 1)
        best = search(data, method, trials, opened, seeds, **split, **more)
    except KeyboardInterrupt:
        raise Stopped("the same command continues where it stopped") from None
    if out is not None:
        write_text(Path(out), as_toml(best.settings))
    if as_json:
        result = {"dataset": data.name, "method": method, "settings": best.settings}
        print_json(result | {"validation": best.accuracy, "trials": best.trials, "pruned": best.pruned})
    else:
        metric = class_target(data.labels, np.array(data.class_names)).metric
        plural = "" if best.trials == 1 else "s"
        print(f"# {data.name}, {method}: validation {metric} {best.accuracy:.4f}, best of {best.trials} trial{plural}")
        print(as_toml(best.settings), end="")
