"""A fit as it is watched on a terminal: round, stage, losses, accuracy, weights, time left."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, Task, TextColumn
from rich.text import Text

from cge.cli.output_folder import Checkpoint

if TYPE_CHECKING:
    from cge.training.history import Epoch, PaperEpoch

__all__ = ["Watch", "line_of"]


def line_of(one: PaperEpoch | Epoch) -> str:
    """Return what there is to say about a round or an epoch, in one line."""
    told = vars(one)
    losses = {"path loss": "path_loss", "label loss": "supervised_loss", "disagreement": "consistency_loss"}
    parts = [f"{words} {told[name]:.3f}" for words, name in losses.items() if name in told]
    if one.validation_accuracy is not None:
        parts.append(f"validation {one.validation_accuracy:.1%}")
    if told.get("weight_mean") is not None and told.get("weight_std") is not None:
        parts.append(f"weights {told['weight_mean']:.2f} ± {told['weight_std']:.2f}")
    return " · ".join(parts)


class Watch(AbstractContextManager["Watch"]):
    """Shows the rounds of a fit on the error stream; called with each `PaperEpoch`.

    Parameters
    ----------
    checkpoint : Checkpoint
        Where the fit keeps its rounds: those of an earlier run count as done.
    again : bool
        Whether a second training on all labels is to be expected.
    shown : bool
        Whether to show anything.
    """

    def __init__(self, checkpoint: Checkpoint, again: bool, format_value: bool) -> None:
        self._checkpoint, self._again, self._shown = checkpoint, again, format_value
        self._first = checkpoint.max_epochs("select") or checkpoint.max_epochs("train")
        self._seconds: list[float] = []
        self._bar = _Bar(f"after round {self._first}" if self._first else "reading the graph")

    def __enter__(self) -> Watch:
        if self._shown:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._bar.stop()

    def __call__(self, one: PaperEpoch | Epoch) -> None:
        """Show a round or an epoch that is done."""
        if not self._shown:
            return
        if one.epoch == 1:
            self._seconds = []
        self._seconds.append(one.seconds)
        if not hasattr(one, "path_loss"):  # an epoch: of one training among several
            left = (one.max_epochs - one.epoch) * sum(self._seconds) / len(self._seconds)
            text = f"{one.stage} · epoch {one.epoch}/{one.max_epochs}"
            self._bar.advance_to(one.epoch, one.max_epochs, text, line_of(one), left)
            return
        done, of, total = one.epoch, one.max_epochs, one.max_epochs * (2 if self._again else 1)
        if one.stage == "refit":  # which ends after the round that the first training has chosen
            of = self._checkpoint.best_epoch() or one.max_epochs
            done, total = self._first + one.epoch, self._first + of
        else:
            self._first = one.epoch
        left = (total - done) * sum(self._seconds) / len(self._seconds)
        self._bar.advance_to(done, total, f"{one.stage} · round {one.epoch}/{of}", line_of(one), left)


class _Bar(Progress):
    """One bar, with a line of numbers under it."""

    def __init__(self, words: str) -> None:
        self.numbers = ""
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), _TimeLeft())
        super().__init__(*columns, console=Console(stderr=True), transient=True, refresh_per_second=4)
        self._task = self.add_task(words, total=None, ends=None)

    def get_renderables(self) -> Iterable[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        if self.numbers:
            yield Text(f"  {self.numbers}", style="dim", no_wrap=True, overflow="ellipsis")

    def advance_to(self, done: int, total: int, words: str, numbers: str, left: float) -> None:
        self.numbers = numbers
        told: dict[str, Any] = {"ends": time.monotonic() + left}
        self.update(self._task, completed=done, total=total, description=words, refresh=True, **told)


class _TimeLeft(TextColumn):
    """Time until the last round if none is saved by patience; it counts down between rounds."""

    def __init__(self) -> None:
        super().__init__("")

    def render(self, task: Task) -> Text:
        if task.fields["ends"] is None:
            return Text("")
        seconds = max(0, math.ceil(task.fields["ends"] - time.monotonic()))
        hours, minutes = seconds // 3600, seconds // 60 % 60
        return Text(
            f"up to {hours}:{minutes:02}:{seconds % 60:02} left" if hours else f"up to {minutes}:{seconds % 60:02} left"
        )
