"""What `fit(verbose=True)` shows: a line on the error stream for every tenth epoch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

_EVERY = 10  # epochs between two lines


def verbose_callback(callback: Callable[[Any], None] | None) -> Callable[[Any], None]:
    """Return a callback that prints every tenth epoch on the error stream, and calls another one first."""

    def follow(epoch: Any) -> None:
        if callback is not None:
            callback(epoch)
        if epoch.epoch % _EVERY and epoch.epoch != 1:
            return
        score = epoch.validation_accuracy
        validation = "" if score is None else f", validation {score:.3f}"
        sys.stderr.write(f"{epoch.stage}: epoch {epoch.epoch} of at most {epoch.max_epochs}{validation}\n")

    return follow
