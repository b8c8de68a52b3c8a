"""The history of a training: losses and accuracy of each epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

_SHOWN = 5  # epochs at the start and at the end of a table


@dataclass(frozen=True)
class PaperEpoch:
    """One epoch of the paper's algorithm. Values that do not apply are None.

    Attributes
    ----------
    epoch, max_epochs : int
        Number of the epoch, from 1, and the maximum.
    stage : str
        "pretrain" while labels do not train the vectors, then "train"; "refit" on all labels after model selection.
    path_loss : float
        Mean loss of a fixed sample of paths, all with weight 1.
    supervised_loss : float
        Mean loss on the training labels.
    validation_accuracy : float or None
        Accuracy; micro-F1 with multilabel targets.
    outer_loss : float or None
        Mean loss of the outer labels after the virtual step (`outer="paper"`: the weighted path loss); None in epochs
        that do not train the weighting.
    weight_mean, weight_std : float or None
        Mean and standard deviation of A over the distinct paths.
    effective_fraction : float or None
        (Σa)²/Σa² relative to the number of distinct paths: 1 if all have the same weight.
    seconds : float
        Duration of the epoch.
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
    effective_fraction: float | None
    seconds: float


@dataclass(frozen=True)
class Epoch:
    """One epoch of the path encoder. Validation values are None without validation labels.

    Attributes
    ----------
    epoch, max_epochs : int
        Number of the epoch, from 1, and the maximum.
    stage : {"compare", "train", "select", "refit"}
        "compare": a candidate of the model search; "train": the selected model, or "select" if a refit follows;
        "refit": the selected model again, on all labels.
    supervised_loss : float
        Mean loss on the training labels over the augmentations.
    consistency_loss : float
        Squared distance of the augmented predictions from their sharpened mean, or with "distilled" the cross-entropy
        from the propagated labels; 0 while only labels are trained on.
    validation_accuracy, validation_loss : float or None
        The score by which epochs are selected: accuracy, micro-F1 (multilabel), R² (regression) or macro-F1
        (`scoring="macro_f1"`); and the loss.
    seconds : float
        Duration of the epoch.
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
    """The epochs of a training, in order; `print` shows the first and last ones as a table.

    >>> epoch = PaperEpoch(1, 1, "train", 2.5, 1.9, 0.5, None, None, None, None, 0.1)
    >>> History([epoch]).column("path_loss")
    [2.5]
    """

    def __init__(self, epochs: Sequence[PaperEpoch] | Sequence[Epoch] = ()) -> None:
        self._epochs: tuple[Any, ...] = tuple(epochs)

    def __len__(self) -> int:
        return len(self._epochs)

    def __getitem__(self, index: Any) -> Any:
        return History(self._epochs[index]) if isinstance(index, slice) else self._epochs[index]

    def column(self, name: str) -> list[Any]:
        """Return one value of every epoch."""
        return [getattr(epoch, name) for epoch in self._epochs]

    def rows(self) -> list[dict[str, Any]]:
        """Return the epochs as dictionaries."""
        return [asdict(epoch) for epoch in self._epochs]

    def __repr__(self) -> str:
        return f"History({len(self)} epochs)"

    def __str__(self) -> str:
        names = [field.name for field in fields(self._epochs[0])] if self._epochs else []
        shown = self._epochs if len(self) <= 2 * _SHOWN else self._epochs[:_SHOWN] + self._epochs[-_SHOWN:]
        table = [names] + [[_cell(value) for value in asdict(epoch).values()] for epoch in shown]
        widths = [max(len(row[k]) for row in table) for k in range(len(names))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in table]
        if len(shown) < len(self):
            lines.insert(1 + _SHOWN, "…".rjust(widths[0]))
        return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
