"""One progress bar over the whole plan of a fit: it never goes back, and says how many candidates there are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cge.cli.fit_output import FitProgress
from cge.cli.output_folder import Checkpoint
from cge.targets import SingleLabel
from cge.training.history import Epoch


def epochs(stage: str, numbers: range, maximum: int) -> list[Epoch]:
    return [Epoch(number, maximum, stage, 1.0, 0.0, 0.5, 1.0, 0.1) for number in numbers]


def test_one_bar_for_candidates_final_training_and_refit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = [
        *epochs("compare", range(1, 4), 10),
        *epochs("compare", range(1, 3), 4),
        *epochs("compare", range(1, 3), 10),
        *epochs("select", range(4, 11), 10),  # continues the first candidate
        *epochs("refit", range(1, 6), 10),
    ]
    done, texts = [], []
    with FitProgress(
        Checkpoint(tmp_path), SingleLabel(np.arange(2)), refit=True, visible=True, candidates=6
    ) as progress:
        for epoch in plan:
            progress(epoch)
            (task,) = progress.tasks
            done.append(task.completed)
            texts.append(task.description)
    assert task.total == 7
    assert done == sorted(done)
    assert done[:5] == pytest.approx([0.1, 0.2, 0.3, 1.25, 1.5])
    assert done[7] == pytest.approx(5.4)  # two candidates were not needed
    assert done[-1] == pytest.approx(6.5)
    assert texts[0] == "candidate 1 of at most 5 · epoch 1/10"
    assert texts[4] == "candidate 2 of at most 5 · epoch 2/4"
    assert texts[6] == "candidate 3 of at most 5 · epoch 2/10"
    assert texts[7] == "final training · epoch 4/10"
    assert texts[-1] == "training on all labels · epoch 5/10"
    capsys.readouterr()
