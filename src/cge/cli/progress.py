"""The progress of a fit on a terminal: epoch, stage, losses, accuracy, path weights, time left."""

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

_LOSSES = {"path loss": "path_loss", "label loss": "supervised_loss", "consistency loss": "consistency_loss"}


def epoch_line(epoch: PaperEpoch | Epoch) -> str:
    """Return the numbers of an epoch in one line."""
    values = vars(epoch)
    parts = [f"{title} {values[name]:.3f}" for title, name in _LOSSES.items() if name in values]
    if epoch.validation_accuracy is not None:
        parts.append(f"validation accuracy {epoch.validation_accuracy:.1%}")
    if values.get("weight_mean") is not None and values.get("weight_std") is not None:
        parts.append(f"path weights {values['weight_mean']:.2f} ± {values['weight_std']:.2f}")
    return " · ".join(parts)


class FitProgress(AbstractContextManager["FitProgress"]):
    """Shows the epochs of a fit on the error stream; the callback of `fit`.

    Parameters
    ----------
    checkpoint : Checkpoint
        Where the fit stores its epochs: those of an earlier run count as done.
    refit : bool
        Whether a second training on all labels is to be expected.
    visible : bool
        Whether to show anything.
    """

    def __init__(self, checkpoint: Checkpoint, refit: bool, visible: bool) -> None:
        self._checkpoint, self._refit, self._visible = checkpoint, refit, visible
        self._first = checkpoint.epochs("select") or checkpoint.epochs("train")
        self._seconds: list[float] = []
        self._bar = _Bar(f"after epoch {self._first}" if self._first else "preparing the graph")

    def __enter__(self) -> FitProgress:
        if self._visible:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._visible:
            self._bar.stop()

    def __call__(self, epoch: PaperEpoch | Epoch) -> None:
        """Show an epoch that is done."""
        if not self._visible:
            return
        if epoch.epoch == 1:
            self._seconds = []
        self._seconds.append(epoch.seconds)
        done, total, last = epoch.epoch, epoch.max_epochs, epoch.max_epochs
        if hasattr(epoch, "path_loss"):  # the paper's algorithm: one training, and perhaps a second on all labels
            total = epoch.max_epochs * (2 if self._refit else 1)
            if epoch.stage == "refit":  # it ends after the epoch that the first training selected
                last = self._checkpoint.best_epoch() or epoch.max_epochs
                done, total = self._first + epoch.epoch, self._first + last
            else:
                self._first = epoch.epoch
        remaining = (total - done) * sum(self._seconds) / len(self._seconds)
        self._bar.advance_to(done, total, f"{epoch.stage} · epoch {epoch.epoch}/{last}", epoch_line(epoch), remaining)


class _Bar(Progress):
    """One bar, with a line of numbers under it."""

    def __init__(self, description: str) -> None:
        self.numbers = ""
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), _TimeLeft())
        super().__init__(*columns, console=Console(stderr=True), transient=True, refresh_per_second=4)
        self._task = self.add_task(description, total=None, ends=None)

    def get_renderables(self) -> Iterable[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        if self.numbers:
            yield Text(f"  {self.numbers}", style="dim", no_wrap=True, overflow="ellipsis")

    def advance_to(self, done: int, total: int, description: str, numbers: str, remaining: float) -> None:
        self.numbers = numbers
        fields: dict[str, Any] = {"ends": time.monotonic() + remaining}
        self.update(self._task, completed=done, total=total, description=description, refresh=True, **fields)


class _TimeLeft(TextColumn):
    """Time until the last epoch, if training does not stop early; it counts down between epochs."""

    def __init__(self) -> None:
        super().__init__("")

    def render(self, task: Task) -> Text:
        if task.fields["ends"] is None:
            return Text("")
        seconds = max(0, math.ceil(task.fields["ends"] - time.monotonic()))
        hours, minutes = seconds // 3600, seconds // 60 % 60
        clock = f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes}:{seconds % 60:02}"
        return Text(f"up to {clock} left")
