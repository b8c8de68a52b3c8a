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

from cge.cli.output import Checkpoint

if TYPE_CHECKING:
    from cge.training.history import Round

__all__ = ["Watch", "line_of"]


def line_of(one: Round) -> str:
    """Return what there is to say about a round, in one line."""
    parts = [f"path loss {one.path_loss:.3f}", f"label loss {one.supervised_loss:.3f}"]
    if one.validation_accuracy is not None:
        parts.append(f"validation {one.validation_accuracy:.1%}")
    if one.weight_mean is not None and one.weight_spread is not None:
        parts.append(f"weights {one.weight_mean:.2f} ± {one.weight_spread:.2f}")
    return " · ".join(parts)


class Watch(AbstractContextManager["Watch"]):
    """Shows the rounds of a fit on the error stream; called with each `Round`.

    Parameters
    ----------
    checkpoint : Checkpoint
        Where the fit keeps its rounds: those of an earlier run count as done.
    rounds : int
        Rounds at most of one training.
    again : bool
        Whether a second training on all labels is to be expected.
    shown : bool
        Whether to show anything.
    """

    def __init__(self, checkpoint: Checkpoint, rounds: int, again: bool, shown: bool) -> None:
        self._checkpoint, self._shown = checkpoint, shown
        self._first = checkpoint.rounds("select") or checkpoint.rounds("train")
        self._seconds: list[float] = []
        self._bar = _Bar(rounds * (2 if again else 1), f"round {self._first}/{rounds}")

    def __enter__(self) -> Watch:
        if self._shown:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._bar.stop()

    def __call__(self, one: Round) -> None:
        """Show a round that is done."""
        if not self._shown:
            return
        self._seconds.append(one.seconds)
        done, of, total = one.number, one.of, self._bar.total
        if one.stage == "refit":  # which ends after the round that the first training has chosen
            of = self._checkpoint.best_round() or one.of
            done, total = self._first + one.number, self._first + of
        else:
            self._first = one.number
        left = (total - done) * sum(self._seconds) / len(self._seconds)
        self._bar.advance_to(done, total, f"{one.stage} · round {one.number}/{of}", line_of(one), left)


class _Bar(Progress):
    """One bar, with a line of numbers under it."""

    def __init__(self, total: int, words: str) -> None:
        self.numbers, self.total = "", total
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), _TimeLeft())
        super().__init__(*columns, console=Console(stderr=True), transient=True, refresh_per_second=4)
        self._task = self.add_task(words, total=total, ends=None)

    def get_renderables(self) -> Iterable[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        if self.numbers:
            yield Text(f"  {self.numbers}", style="dim", no_wrap=True, overflow="ellipsis")

    def advance_to(self, done: int, total: int, words: str, numbers: str, left: float) -> None:
        self.numbers, self.total = numbers, total
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
