# mypy: disable-error-code="import-not-found"
"""A whole run of CGE and of its twin without weights, with a clock in each part of the training."""

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
    (Trainer, "__init__", "set-up"),
    (InnerTraining, "train_paths", "paths"),
    (InnerTraining, "train_head", "head"),
    (PathWeightLearner, "update_weights", "weights"),
    (PathWeightLearner, "batch_weights", "weights"),
    (PathWeightLearner, "train", "outer problem"),
    (Trainer, "_validate", "looking"),
    (Trainer, "_path_loss", "looking"),
]


class Clock:
    """Seconds spent in each part, not counting the parts it calls."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.pairs = 0
        self._inside: list[float] = []
        for place, method, part in _PARTS:
            setattr(place, method, self._wrapped(getattr(place, method), part))

    def _wrapped(self, function: Callable[..., Any], part: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self._inside.append(0.0)
            began = time.perf_counter()
            found = function(*arguments, **named)
            whole = time.perf_counter() - began
            self.seconds[part] += whole - self._inside.pop()
            if self._inside:
                self._inside[-1] += whole
            if part == "paths":
                self.pairs += found
            return found

        return call


def main() -> None:
    """Do the job."""
    task = job()
    warnings.simplefilter("ignore")
    data: Any = cge.load_dataset(task["data"])
    small = cge.load_dataset("cora")
    clock = Clock()

    def fit(of: Any, weighting: str, **training: Any) -> cge.PaperCGE:
        labels = [np.full(of.graph.num_nodes, -1) for _ in range(2)]
        for known, nodes in zip(labels, (of.split.train, of.split.validation), strict=True):
            known[nodes] = of.labels[nodes]
        common = {"random_state": task["seed"], "n_jobs": task["n_jobs"]}
        model = cge.PaperCGE(task["setting"], weighting, training=training, **common)
        return model.fit(of.graph, *labels)

    for weighting in ("uniform", task["weighting"]):
        fit(small, weighting, pretrain=1, max_epochs=1)  # compiles
    twin, twin_wall, _ = timed(lambda: fit(data, "uniform"))
    clock.seconds.clear()
    clock.pairs = 0
    model, wall, cpu = timed(lambda: fit(data, task["weighting"]))
    per_round, twins = (float(np.mean(one.history_.column("seconds"))) for one in (model, twin))
    test = data.graph.node_ids[data.split.test], data.labels[data.split.test]
    accuracy = {"accuracy": model.score(*test), "twin_accuracy": twin.score(*test)}
    shares = sorted(((part, seconds / wall) for part, seconds in clock.seconds.items()), key=lambda one: -one[1])
    named = ", ".join(f"{part} {share:.0%}" for part, share in shares if share >= 0.005)
    report(
        work=clock.pairs,
        seconds=wall,
        cpu_seconds=cpu,
        peak_mb=peak_mb(),
        max_epochs=len(model.history_),
        seconds_per_round=per_round,
        twin_seconds=twin_wall,
        times_twin=per_round / twins,
        **accuracy,
        split={part: round(seconds, 3) for part, seconds in clock.seconds.items()},
        note=f"{wall:.1f} s a run, {per_round:.2f} s a round: {per_round / twins:.2f} × the twin's; test "
        f"{accuracy['accuracy']:.3f}, twin {accuracy['twin_accuracy']:.3f}; {named}",
    )


if __name__ == "__main__":
    main()
