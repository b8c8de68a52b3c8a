"""What happened in each round of training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

__all__ = ["Epoch", "History", "PaperEpoch"]


@dataclass(frozen=True)
class PaperEpoch:
    """One round: losses, accuracy, the weights of paths, and time. None stands where there is nothing to tell.

    Attributes
    ----------
    epoch, max_epochs : int
        Number of the epoch, from 1, and the maximum.
    stage : str
        "pretrain" while labels do not touch the vectors, then "train"; "refit" on all labels once the round is chosen.
    path_loss : float
        Mean loss of a fixed sample of paths, every path alike.
    supervised_loss : float
        Mean loss of the training labels.
    validation_accuracy : float or None
        Share of right predictions; with several labels per node, micro-F1.
    outer_loss : float or None
        Mean loss of outer labels after the virtual step (`outer="paper"`: the weighted path loss); None in rounds that
        do not train the weights.
    weight_mean, weight_std : float or None
        Mean and standard deviation of A over the distinct paths.
    effective_paths : float or None
        (Σa)²/Σa² as a share of the distinct paths: 1 where all weigh alike.
    seconds : float
        Time that the round took.
    """

    epoch: int
    max_epochs: int
    stage: str
    path_loss: float
    supervised_loss: float
    validation_accuracy: float | None
    outer_loss: float | None
    weight_mean: float | None
    weight_std: float | None
    effective_paths: float | None
    seconds: float


@dataclass(frozen=True)
class Epoch:
    """One epoch of the path encoder. None stands where there are no validation labels.

    Attributes
    ----------
    epoch, max_epochs : int
        Number of the epoch, from 1, and the maximum.
    stage : str
        What is trained, "refit" on all labels once the epoch is chosen.
    supervised_loss : float
        Mean loss of the training labels over the disturbed passes.
    consistency_loss : float
        How far the passes' predictions are from their sharpened mean; 0 while only labels are learned.
    validation_accuracy, validation_loss : float or None
    seconds : float
        Time that the epoch took.
    """

    epoch: int
    max_epochs: int
    stage: str
    supervised_loss: float
    consistency_loss: float
    validation_accuracy: float | None
    validation_loss: float | None
    seconds: float


class History(Sequence[Any]):
    """The rounds or epochs of a training, in order; `print` shows them as a table.

    >>> one = PaperEpoch(1, 1, "train", 2.5, 1.9, 0.5, None, None, None, None, 0.1)
    >>> History([one]).column("path_loss")
    [2.5]
    """

    def __init__(self, epochs: Sequence[PaperEpoch] | Sequence[Epoch] = ()) -> None:
        self._rounds: tuple[Any, ...] = tuple(epochs)

    def __len__(self) -> int:
        return len(self._rounds)

    def __getitem__(self, place: Any) -> Any:
        return History(self._rounds[place]) if isinstance(place, slice) else self._rounds[place]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rounds)

    def column(self, name: str) -> list[Any]:
        """Return one value of every round."""
        return [getattr(one, name) for one in self._rounds]

    def rows(self) -> list[dict[str, Any]]:
        """Return the rounds as plain dictionaries, for tables and files."""
        return [asdict(one) for one in self._rounds]

    def __repr__(self) -> str:
        return f"History({len(self)} rounds)"

    def __str__(self) -> str:
        names = [field.name for field in fields(self._rounds[0])] if self._rounds else []
        table = [names] + [[_cell(value) for value in asdict(one).values()] for one in self._rounds]
        widths = [max(len(row[k]) for row in table) for k in range(len(names))]
        lines = ("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in table)
        return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
