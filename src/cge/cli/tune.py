"""`cge tune`: search for the settings of a method that suit a data set."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from cge.cli.common_options import DatasetName, Jobs, Json, PerClass, TrainShare, method_names
from cge.cli.evaluate import any_dataset
from cge.cli.main import Stopped
from cge.cli.printing import print_json

__all__ = ["tune"]


def tune(
    dataset: DatasetName,
    method: Annotated[
        str, typer.Option(metavar="NAME", help="As in 'cge evaluate'.", autocompletion=method_names)
    ] = "cge",
    trials: Annotated[int, typer.Option(min=1, help="Search until the study has so many trials.")] = 50,
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="URL|FILE",
            help="A database (sqlite:///tune.db) or a journal file; several machines may share it "
            "\\[runs/tune/DATASET-METHOD.journal].",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Fits of each trial, whose mean counts.")] = 1,
    first_seed: Annotated[
        int, typer.Option("--seed", "--first-seed", min=0, help="The first seed, of fits and of proposals.")
    ] = 0,
    per_class: PerClass = 20,
    train_share: TrainShare = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting that stays fixed; repeat it."),
    ] = None,
    out: Annotated[str | None, typer.Option(metavar="FILE", help="Write the best settings here, as TOML, too.")] = None,
    n_jobs: Jobs = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but the result.")] = False,
    as_json: Json = False,
) -> None:
    """Search for the settings of a method that suit a data set.

    Optuna proposes, accuracy on the validation labels counts, and test labels are never looked at. Trials are kept in
    the storage as they come: the same command goes on where it was stopped. The best settings are printed as TOML,
    which 'cge evaluate --config' takes; for the method cge, 'cge fit --config' does, too.

    For example:

      cge tune cora --method gcn --trials 30 --out gcn.toml
      cge evaluate cora --method gcn --config gcn.toml
    """
    from cge.estimators.methods import settings_from_text
    from cge.estimators.tuning import as_toml, open_storage, space_of
    from cge.estimators.tuning import tune as search
    from cge.store.atomic import write_text

    fixed = settings_from_text(settings or [])
    space_of(method, fixed)  # a wrong name is told before data are read
    if out is not None:
        Path(out).parent.mkdir(parents=True, exist_ok=True)
    data = any_dataset(dataset)
    where = storage or f"runs/tune/{data.name}-{method}.journal"

    def told(number: int, _value: float | None, became: str) -> None:
        if not quiet and not as_json:
            print(f"trial {number}/{trials}: {became}", file=sys.stderr, flush=True)

    try:
        found = search(
            data,
            method,
            trials,
            open_storage(where),
            seeds,
            first_seed=first_seed,
            per_class=per_class,
            train_share=train_share,
            n_jobs=n_jobs,
            fixed=fixed,
            on_trial=told,
        )
    except KeyboardInterrupt:
        raise Stopped("the same command goes on where it was stopped") from None
    if out is not None:
        write_text(Path(out), as_toml(found.settings))
    if as_json:
        told_all = {"dataset": data.name, "method": method, "settings": found.settings}
        print_json(told_all | {"validation": found.accuracy, "trials": found.trials, "pruned": found.pruned})
    else:
        what, ending = "micro-F1" if data.multilabel else "accuracy", "" if found.trials == 1 else "s"
        print(f"# {data.name}, {method}: validation {what} {found.accuracy:.4f}, best of {found.trials} trial{ending}")
        print(as_toml(found.settings), end="")
