# mypy: disable-error-code="import-not-found"
"""A whole run of `PaperCGE`, after one with uniform weights, with the time spent in each part of the training."""

import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import job, peak_mb, report, timed

import cge
from cge.training.paper_inner import InnerTraining
from cge.training.paper_outer import PathWeightLearner
from cge.training.paper_training import Trainer

_PARTS: list[tuple[Any, str, str]] = [
    (Trainer, "__init__", "setup"),
    (InnerTraining, "train_paths", "paths"),
    (InnerTraining, "train_head", "head"),
    (PathWeightLearner, "update_weights", "path weights"),
    (PathWeightLearner, "batch_weights", "path weights"),
    (PathWeightLearner, "step", "outer problem"),
    (Trainer, "_validate", "validation"),
    (Trainer, "_path_loss", "validation"),
]


class Profile:
    """Seconds spent in each part, without the parts it calls."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.pairs = 0
        self._nested: list[float] = []
        for owner, method, part in _PARTS:
            setattr(owner, method, self._wrapped(getattr(owner, method), part))

    def _wrapped(self, function: Callable[..., Any], part: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self._nested.append(0.0)
            start = time.perf_counter()
            result = function(*arguments, **named)
            seconds = time.perf_counter() - start
            self.seconds[part] += seconds - self._nested.pop()
            if self._nested:
                self._nested[-1] += seconds
            if part == "paths":
                self.pairs += result
            return result

        return call


def main() -> None:
    """Do the job."""
    task = job()
    warnings.simplefilter("ignore")
    data: Any = cge.load_dataset(task["data"])
    small = cge.load_dataset("cora")
    profile = Profile()

    def fit(dataset: Any, weighting: str, **training: Any) -> cge.PaperCGE:
        split = dataset.split
        common = {"random_state": task["seed"], "n_jobs": task["n_jobs"]}
        model = cge.PaperCGE(task["setting"], weighting, training=training, **common)
        return model.fit(dataset.graph, dataset.labels_of(split.train), dataset.labels_of(split.validation))

    for weighting in ("uniform", task["weighting"]):
        fit(small, weighting, pretrain=1, max_epochs=1)  # compiles
    uniform, uniform_wall, _ = timed(lambda: fit(data, "uniform"))
    profile.seconds.clear()
    profile.pairs = 0
    model, wall, cpu = timed(lambda: fit(data, task["weighting"]))
    per_epoch, uniform_per_epoch = (float(np.mean(fitted.history_.column("seconds"))) for fitted in (model, uniform))
    test = data.graph.node_ids[data.split.test], data.labels[data.split.test]
    accuracy = {"accuracy": model.score(*test), "uniform_accuracy": uniform.score(*test)}
    shares = {part: seconds / wall for part, seconds in profile.seconds.items()}
    largest = sorted((part for part in shares if shares[part] >= 0.005), key=lambda part: -shares[part])
    report(
        work=profile.pairs,
        seconds=wall,
        cpu_seconds=cpu,
        peak_mb=peak_mb(),
        epochs=len(model.history_),
        seconds_per_epoch=per_epoch,
        uniform_seconds=uniform_wall,
        times_uniform=per_epoch / uniform_per_epoch,
        **accuracy,
        profile={part: round(seconds, 3) for part, seconds in profile.seconds.items()},
        note=f"{wall:.1f} s per run, {per_epoch:.2f} s per epoch: {per_epoch / uniform_per_epoch:.2f} × uniform "
        f"weights; test accuracy {accuracy['accuracy']:.3f}, with uniform weights {accuracy['uniform_accuracy']:.3f}; "
        + ", ".join(f"{part} {shares[part]:.0%}" for part in largest),
    )


if __name__ == "__main__":
    main()
