"""`cge tune`: hyperparameter search for a method on a data set."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from cge.cli.checkout import require
from cge.cli.common_options import (
    DatasetName,
    FirstSeed,
    Jobs,
    Json,
    PerClass,
    QuietResult,
    TrainShare,
    TrustData,
    int64,
    method_names,
)
from cge.cli.evaluate import any_dataset
from cge.cli.main import Stopped
from cge.cli.printing import print_json

Method = Annotated[str, typer.Option(metavar="NAME", help="As in 'cge evaluate'.", autocompletion=method_names)]
Trials = Annotated[int, typer.Option(min=1, callback=int64, help="Number of trials, those of earlier runs included.")]
Storage = Annotated[
    str | None,
    typer.Option(
        metavar="URL|FILE",
        help="A database (sqlite:///tune.db) or a journal file; several machines may share it "
        "\\[runs/tune/DATASET-METHOD.journal].",
    ),
]
Seeds = Annotated[int, typer.Option(min=1, callback=int64, help="Runs per trial; their mean accuracy is its score.")]
Fixed = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting that is not searched; may be repeated."),
]
Out = Annotated[str | None, typer.Option(metavar="FILE", help="Also write the best settings to this TOML file.")]


def tune(
    dataset: DatasetName,
    method: Method = "cge",
    trials: Trials = 50,
    storage: Storage = None,
    seeds: Seeds = 1,
    first_seed: FirstSeed = 0,
    per_class: PerClass = 20,
    train_share: TrainShare = None,
    settings: Fixed = None,
    out: Out = None,
    trust_data: TrustData = False,
    n_jobs: Jobs = None,
    quiet: QuietResult = False,
    as_json: Json = False,
) -> None:
    """Search for the settings of a method that suit a data set (needs the package optuna).

    Optuna proposes settings and the accuracy on the validation labels scores them; test labels are never used. Trials
    are stored as they finish: the same command continues where it stopped. The best settings are printed as TOML, which
    'cge evaluate --config' reads; those of the method cge are also read by 'cge fit --config'.

    For example:

      cge tune cora --method gcn --trials 30 --out gcn.toml
      cge evaluate cora --method gcn --config gcn.toml
    """
    from cge.estimators.methods import settings_from_text
    from cge.store.atomic import write_text

    require("optuna", "tune", "tune")
    from cge.estimators.tuning import as_toml, open_storage, search_space
    from cge.estimators.tuning import tune as search

    fixed = settings_from_text(settings or [])
    search_space(method, fixed)  # refuses a wrong name before data are read
    if out is not None:
        Path(out).parent.mkdir(parents=True, exist_ok=True)
    data = any_dataset(dataset, trust_data)

    def print_trial(number: int, _value: float | None, outcome: str) -> None:
        if not quiet and not as_json:
            print(f"trial {number}/{trials}: {outcome}", file=sys.stderr, flush=True)

    try:
        best = search(
            data,
            method,
            trials,
            open_storage(storage or f"runs/tune/{data.name}-{method}.journal"),
            seeds,
            first_seed=first_seed,
            per_class=per_class,
            train_share=train_share,
            n_jobs=n_jobs,
            fixed=fixed,
            on_trial=print_trial,
        )
    except KeyboardInterrupt:
        raise Stopped("the same command continues where it stopped") from None
    if out is not None:
        write_text(Path(out), as_toml(best.settings))
    if as_json:
        result = {"dataset": data.name, "method": method, "settings": best.settings}
        print_json(result | {"validation": best.accuracy, "trials": best.trials, "pruned": best.pruned})
    else:
        metric, plural = "micro-F1" if data.multilabel else "accuracy", "" if best.trials == 1 else "s"
        print(f"# {data.name}, {method}: validation {metric} {best.accuracy:.4f}, best of {best.trials} trial{plural}")
        print(as_toml(best.settings), end="")
