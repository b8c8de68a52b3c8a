"""What `cge fit` prints: its progress on a terminal, and a summary of the model that it has trained."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

from cge.cli.output_folder import Checkpoint
from cge.cli.printing import print_pairs

if TYPE_CHECKING:
    from cge.estimators.path_estimator import PathEstimator
    from cge.targets import Target
    from cge.training.history import Epoch, PaperEpoch

_LOSSES = {"path loss": "path_loss", "supervised loss": "supervised_loss", "consistency loss": "consistency_loss"}
_STAGES = {"select": "final training", "train": "final training", "refit": "training on all labels"}


def _epoch_line(epoch: PaperEpoch | Epoch, target: Target) -> str:
    """Return the numbers of an epoch in one line."""
    values = vars(epoch)
    parts = [f"{title} {values[name]:.3f}" for title, name in _LOSSES.items() if name in values]
    if epoch.validation_accuracy is not None:
        parts.append(f"validation {target.validation_metric} {target.format_score(epoch.validation_accuracy)}")
    if values.get("weight_mean") is not None:
        parts.append(f"path weights {values['weight_mean']:.2f} ± {values['weight_std']:.2f}")
    return " · ".join(parts)


class FitProgress(Progress):
    """Shows a fit on the error stream, one bar and a line of numbers under it; the callback of `fit`.

    The epochs in a `checkpoint` count as done. `target` names the validation score. `refit` says whether a second
    training on all labels follows. `candidates` is the number of candidates of the model search, the final training
    included; 0 for the paper's algorithm. Which of them are trained depends on results, so that the bar may jump ahead,
    but never goes back.
    """

    def __init__(self, checkpoint: Checkpoint, target: Target, refit: bool, visible: bool, candidates: int = 0) -> None:
        self._numbers = ""  # Progress draws itself when it is made
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), _TimeLeft())
        terminal = Console(stderr=True)
        super().__init__(*columns, console=terminal, transient=True, refresh_per_second=4, disable=not visible)
        self._checkpoint, self._target, self._refit, self._candidates = checkpoint, target, refit, candidates
        self._compared, self._epoch, self._started = 0, 0, time.monotonic()
        self._first = checkpoint.epochs("select") or checkpoint.epochs("train")
        self._seconds: list[float] = []
        start = f"after epoch {self._first}" if self._first else "preparing the graph"
        self._task = self.add_task(start, total=None, ends=None)

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield the bar and the numbers."""
        yield self.make_tasks_table(self.tasks)
        if self._numbers:
            yield Text(f"  {self._numbers}", style="dim", no_wrap=True, overflow="ellipsis")

    def __call__(self, epoch: PaperEpoch | Epoch) -> None:
        """Show an epoch that is done."""
        if self.disable:
            return
        self._numbers = _epoch_line(epoch, self._target)
        if self._candidates:
            self._show_search(epoch)
            return
        self._seconds = [*(self._seconds if epoch.epoch > 1 else []), epoch.seconds]
        last, done, total = epoch.max_epochs, epoch.epoch, epoch.max_epochs * (2 if self._refit else 1)
        if epoch.stage == "refit":  # it ends after the epoch that the first training selected
            last = self._checkpoint.best_epoch() or epoch.max_epochs
            done, total = self._first + epoch.epoch, self._first + last
        else:
            self._first = epoch.epoch
        ends = time.monotonic() + (total - done) * sum(self._seconds) / len(self._seconds)
        text = f"{epoch.stage} · epoch {epoch.epoch}/{last}"
        self.update(self._task, completed=done, total=total, description=text, refresh=True, ends=ends)

    def _show_search(self, epoch: PaperEpoch | Epoch) -> None:
        """Show an epoch of a candidate, or of a training that follows the search."""
        searching, others = epoch.stage == "compare", self._candidates - 1
        self._compared += searching and (not self._compared or epoch.epoch <= self._epoch)
        self._epoch = epoch.epoch if searching else self._epoch
        finished = max(min(self._compared, others) - 1, 0) if searching else others + (epoch.stage == "refit")
        total = self._candidates + self._refit
        done = max(finished + epoch.epoch / epoch.max_epochs, self.tasks[0].completed)
        text = f"candidate {self._compared} of at most {others}" if searching else _STAGES.get(epoch.stage, epoch.stage)
        text += f" · epoch {epoch.epoch}/{epoch.max_epochs}"
        now = time.monotonic()
        ends = now + (now - self._started) * (total - done) / done
        self.update(self._task, completed=done, total=total, description=text, refresh=True, ends=ends)


def reading(visible: bool) -> AbstractContextManager[object]:
    """Return a context that shows that files are read, from the first second on."""
    return Console(stderr=True).status("reading files") if visible else nullcontext()


class _TimeLeft(ProgressColumn):
    """Time until the last epoch, if training does not stop early; it counts down between epochs."""

    def render(self, task: Task) -> Text:
        if task.fields["ends"] is None:
            return Text("")
        seconds = max(0, math.ceil(task.fields["ends"] - time.monotonic()))
        clock = str(timedelta(seconds=seconds)) if seconds >= 3600 else f"{seconds // 60}:{seconds % 60:02}"
        return Text(f"up to {clock} left")


def fit_summary(model: PathEstimator, out: str, seconds: float) -> dict[str, Any]:
    """Return a summary of a trained model as a JSON object; what `PaperCGE` does not have is None."""
    last = vars(model.history_[model.best_epoch_ - 1])
    weights = None
    if last.get("weight_mean") is not None:
        columns = {"mean": "weight_mean", "std": "weight_std", "effective_fraction": "effective_fraction"}
        weights = {key: last[name] for key, name in columns.items()}
    return {
        "folder": out,
        "nodes": model.graph_.num_nodes,
        "edges": model.graph_.num_edges,
        "classes": model.fitted_.target.class_names,
        "labels_seen": model.labels_seen_,
        "best_epoch": model.best_epoch_,
        "refitted": model.selection_history_ is not None,
        "cross_validated": model.fitted_.log.cross_validated,
        "metric": model.fitted_.target.metric,
        "validation_accuracy": model.fitted_.validation_score,
        "weighting": model.weighting_,
        "path_weight_summary": weights,
        **model.fitted_.selected,
        "weighting_comparison": model.compare_weighting().to_dict(),
        "seconds": seconds,
    }


def print_summary(summary: dict[str, Any], model: PathEstimator) -> None:
    """Print a summary, and how to use the model."""
    from cge.estimators.fitted_model import learned_weights_unused

    labels = describe_labels(
        summary["labels_seen"],
        summary["refitted"],
        "were learned",
        unused=learned_weights_unused(model.fitted_),
        outer_labels=model.outer_labels,
        cross_validated=summary["cross_validated"],
    )
    comparison = model.compare_weighting().sentences(label="")
    rows = [
        ("nodes", f"{summary['nodes']:,}"),
        ("edges", f"{summary['edges']:,}"),
        ("labels", labels),
        ("best epoch", _best_epoch(summary, model)),
        ("validation", _score(summary, model)),
        ("weighting", " ".join(comparison)),
    ]
    weights = summary["path_weight_summary"]
    if weights is not None:
        spread = f"{weights['mean']:.3g} ± {weights['std']:.2g}"
        rows.append(
            ("path weights", f"{spread}, effective sample size {weights['effective_fraction']:.0%} of the paths")
        )
    names = summary["classifiers"]
    if names:
        text = ", ".join(names) + (f" (mean of their {model.fitted_.target.texts.outputs})" if len(names) > 1 else "")
        text += ", with label propagation" if summary["label_propagation"] else ""
        others = [weighting for weighting in model.fitted_.weighting_names() if weighting != model.weighting_]
        text += f", some of them with the weighting {' or '.join(others)}" if others else ""
        rows.append(("classifier", text + (", with prior correction" if summary["prior_correction"] else "")))
    folder = json.dumps(summary["folder"], ensure_ascii=False)
    rows += [("seconds", f"{summary['seconds']:.1f}"), ("saved to", summary["folder"])]
    print_pairs([*rows, ("in Python", f"model = cge.load({folder}); model.predict()")])


def describe_labels(
    counts: dict[str, int],
    refit: bool,
    learned: str,
    *,
    unused: bool = False,
    outer_labels: str = "folds",
    cross_validated: bool = False,
) -> str:
    """Return how many labels train and validate, and on how many path weights are `learned`.

    `outer_labels` is the setting of `PaperCGE`: path weights are learned on training or validation labels.

    >>> describe_labels({"train": 40, "outer": 32, "validation": 8}, True, "were learned")
    '40 (32 training, 8 held out for validation); path weights were learned on the 32'
    >>> describe_labels({"train": 40, "outer": 10, "validation": 10}, False, "are learned", outer_labels="validation")
    '40 training, 10 validation; path weights are learned on 10 other validation labels'
    """
    train, outer, validation = (counts[name] for name in ("train", "outer", "validation"))
    text = f"{train:,} training, {validation:,} validation"
    if refit:
        text = f"{train:,} ({train - validation:,} training, {validation:,} held out for validation)"
    if cross_validated:
        text = f"{train:,}, validated by 3-fold cross-validation"
    if not outer:
        return text
    if outer_labels == "validation":
        return f"{text}; path weights {learned} on {outer:,} other validation labels"
    if unused:
        return f"{text}; path weights were also learned, on the {outer:,} training labels, but not selected"
    which = f"the {train - validation:,}" if refit and not cross_validated else "the training labels"
    again = " and again in the refit" if refit and outer == train and not cross_validated else ""
    return f"{text}; path weights {learned} on {which}{again}"


def _best_epoch(summary: dict[str, Any], model: PathEstimator) -> str:
    text = f"{summary['best_epoch']} of {len(model.selection_history_ or model.history_)}"
    if summary["refitted"]:
        return f"{text}, selected on held-out labels, then refitted on all labels"
    return f"{text}, the last: there are no validation labels" if summary["validation_accuracy"] is None else text


def _score(summary: dict[str, Any], model: PathEstimator) -> str:
    if summary["validation_accuracy"] is None:
        return "none"
    score = model.fitted_.target.format_score(summary["validation_accuracy"])
    return f"{summary['metric']} {score} on {summary['labels_seen']['validation']:,} labels"
