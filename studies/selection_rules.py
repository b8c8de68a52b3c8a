"""Rules that select candidates of a model search, or average them, and their nested validation.

A rule sees the probabilities of all candidates on some validation nodes and returns the weight of each candidate in the
mean of probabilities. Nested validation selects, epochs included, on a random half of the validation nodes, and scores
on the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.metrics import COARSE_TEMPERATURES, log_losses, scale_probabilities
from cge.training.candidate_evaluation import CandidateScore, is_better, ties_with_best
from cge.training.selection import ensemble_weights

__all__ = ["RULES", "Halves", "Outputs", "weights_of"]

Array = npt.NDArray[Any]
Rule = Callable[[list[str], list[CandidateScore], Array, Array], Array]


@dataclass(frozen=True)
class TwoStages:
    """A rule that selects some candidates after the search, and another that combines them when their training ends."""

    select: Rule
    combine: Rule


Rules = Mapping[str, Rule | TwoStages]


@dataclass(frozen=True, eq=False)
class Outputs:
    """Probabilities `(m, n, c)` of m candidates for n nodes, and the labels of these."""

    names: list[str]
    probabilities: Array
    labels: Array

    def accuracy(self, weights: Array) -> float:
        """Return the accuracy of the weighted mean of probabilities, as they are."""
        mean = np.tensordot(weights / weights.sum(), self.probabilities.astype(np.float64), axes=1)
        return float((mean.argmax(1) == self.labels).mean())

    def temperatures(self) -> list[float]:
        """Return the temperature of each candidate with the lowest log loss, out of nine."""
        losses = [
            [
                log_losses(scale_probabilities(each.astype(np.float64), temperature), self.labels).mean()
                for each in self.probabilities
            ]
            for temperature in COARSE_TEMPERATURES
        ]
        return [COARSE_TEMPERATURES[int(column.argmin())] for column in np.array(losses).T]

    def calibrated_by(self, other: Outputs) -> Outputs:
        """Return the probabilities at the temperatures that are best for other nodes: so the model averages them."""
        pairs = zip(self.probabilities, other.temperatures(), strict=True)
        return replace(
            self, probabilities=np.array([scale_probabilities(each.astype(np.float64), t) for each, t in pairs])
        )


@dataclass(frozen=True, eq=False)
class Halves:
    """Halves of the validation nodes, `halves (h, k)`, and probabilities `(m, h, n, c)` of the epochs best on each.

    `final` are those after the final training; selection sees only those of the search.
    """

    names: list[str]
    probabilities: Array
    final: Array
    halves: Array
    labels: Array

    def parts(self, final: bool) -> Iterator[tuple[Outputs, Outputs, Outputs]]:
        """Yield what rules see of each half, what they see when the training has ended, and what they are scored on."""
        ended = self.final if final else self.probabilities
        for place, half in enumerate(self.halves):
            rest = np.setdiff1d(np.arange(len(self.labels)), half)
            seen, seen_at_end, unseen = (
                Outputs(self.names, array[:, place, rows].astype(np.float64), self.labels[rows])
                for array, rows in ((self.probabilities, half), (ended, half), (ended, rest))
            )
            yield seen, seen_at_end, unseen

    def nested_accuracy(self, rules: Rules, final: bool = False) -> dict[str, float]:
        """Return the mean accuracy of each rule on the nodes that neither it nor early stopping has seen.

        With `final`, what was selected is trained until it stops.
        """
        accuracy: dict[str, list[float]] = {name: [] for name in rules}
        for seen, seen_at_end, unseen in self.parts(final):
            unseen = unseen.calibrated_by(seen_at_end)
            for name, weights in weights_of(rules, seen, seen_at_end).items():
                accuracy[name].append(unseen.accuracy(weights))
        return {name: float(np.mean(values)) for name, values in accuracy.items()}


def _calibrated(outputs: Outputs) -> tuple[Array, list[CandidateScore]]:
    """Return probabilities at the best temperatures, and the scores by which candidates are compared."""
    calibrated, scores = outputs.calibrated_by(outputs).probabilities, []
    for each in calibrated:
        correct = (each.argmax(1) == outputs.labels).astype(np.float64)
        scores.append(CandidateScore(float(correct.mean()), correct, log_losses(each, outputs.labels)))
    return calibrated, scores


def _single(place: int, count: int) -> Array:
    return np.asarray(np.eye(count)[place])


def most_accurate(names: list[str], scores: list[CandidateScore], *_: Array) -> Array:
    """Return the most accurate candidate; the lowest log loss decides among equals."""
    ranks = [(score.accuracy, -float(score.log_losses.mean())) for score in scores]
    return _single(ranks.index(max(ranks)), len(names))


def lowest_loss(names: list[str], scores: list[CandidateScore], *_: Array) -> Array:
    """Return the candidate with the lowest log loss."""
    return _single(int(np.argmin([score.log_losses.mean() for score in scores])), len(names))


def by_margin(margin: float) -> Rule:
    """Return the rule by which a later candidate replaces an earlier one if it is better by a margin."""

    def rule(names: list[str], scores: list[CandidateScore], *_: Array) -> Array:
        best = 0
        for place, score in enumerate(scores):
            if is_better(score, scores[best], margin):
                best = place
        return _single(best, len(names))

    return rule


def level(margin: float, most: int, same_classifier: bool = False) -> Rule:
    """Return the rule that averages the most accurate candidate with others that it is not better than by a margin.

    With `same_classifier` these have the same classifier, with or without label propagation, but other weightings.
    """

    def rule(names: list[str], scores: list[CandidateScore], *_: Array) -> Array:
        by_name = dict(zip(names, scores, strict=True))
        best = names[int(most_accurate(names, scores).argmax())]
        if same_classifier:
            classifier = best.partition(", ")[2]
            by_name = {name: score for name, score in by_name.items() if name.partition(", ")[2] == classifier}
        used = ties_with_best(by_name, margin)[:most]
        return np.array([float(name in used) for name in names])

    return rule


def level_with_second(margin: float, most: int) -> Rule:
    """Return the rule of level weightings, with the best other classifier of the first weighting if it is level."""

    def rule(names: list[str], scores: list[CandidateScore], *others: Array) -> Array:
        weights = level(margin, most, same_classifier=True)(names, scores, *others)
        first = int(most_accurate(names, scores).argmax())
        weighting, _, classifier = names[first].partition(", ")
        second = [
            place
            for place, name in enumerate(names)
            if name.partition(", ")[0] == weighting and name.partition(", ")[2] != classifier
            if not is_better(scores[first], scores[place])
        ]
        if second:
            weights[max(second, key=lambda place: scores[place].rank)] = 1
        return weights

    return rule


def forward(most: int) -> Rule:
    """Return forward selection: from the most accurate candidate on, add what lowers the log loss of the mean most.

    It ends when nothing lowers it, or with `most` candidates.
    """

    def rule(names: list[str], scores: list[CandidateScore], probabilities: Array, labels: Array) -> Array:
        used = [int(most_accurate(names, scores).argmax())]
        lowest = np.inf
        while len(used) <= most:
            loss = float(log_losses(probabilities[used].mean(0), labels).mean())
            if loss >= lowest:
                used.pop()
                break
            lowest, others = loss, [place for place in range(len(names)) if place not in used]
            if not others or len(used) == most:
                break
            means = [probabilities[[*used, place]].mean(0) for place in others]
            used.append(others[int(np.argmin([log_losses(mean, labels).mean() for mean in means]))])
        return np.array([float(place in used) for place in range(len(names))])

    return rule


def half_selected(names: list[str], scores: list[CandidateScore], probabilities: Array, labels: Array) -> Array:
    """Return the weights of `ensemble_weights`: half for the most accurate one, the rest by ensemble selection."""
    best = int(most_accurate(names, scores).argmax())
    order = [best, *(place for place in range(len(names)) if place != best)]
    weights = np.empty(len(names))
    weights[order] = ensemble_weights([*probabilities[order]], lambda mean: log_losses(mean, labels))
    return weights


def greedy(steps: int, most: int) -> Rule:
    """Return ensemble selection (Caruana et al. 2004): add, with replacement, what lowers the log loss most.

    The mean has at most `most` different candidates.
    """

    def rule(names: list[str], _: list[CandidateScore], probabilities: Array, labels: Array) -> Array:
        weights, total = np.zeros(len(names)), np.zeros(probabilities.shape[1:])
        for step in range(steps):
            means = (total + probabilities) / (step + 1)
            losses = -np.log(np.maximum(means[:, np.arange(len(labels)), labels], 1e-12)).mean(1)
            if np.count_nonzero(weights) >= most:
                losses[weights == 0] = np.inf
            best = int(losses.argmin())
            weights[best] += 1
            total = total + probabilities[best]
        return weights

    return rule


_SIZES = {2: "two", 3: "three", 5: "five", 8: "eight", 99: "all"}
RULES: dict[str, Rule | TwoStages] = {
    "most accurate": most_accurate,
    "lowest log loss": lowest_loss,
    **{f"better by {margin:g} standard errors than a simpler one": by_margin(margin) for margin in (0.5, 1.0, 2.0)},
    **{
        f"mean of {_SIZES[most]} level by {margin:g} standard errors": level(margin, most)
        for most in (2, 3, 5, 8)
        for margin in (1.0, 2.0)
    },
    **{
        f"mean of {_SIZES[most]} weightings level by {margin:g} standard errors": level(margin, most, True)
        for most in (2, 3, 5, 99)
        for margin in (1.0, 2.0)
    },
    "mean of five weightings level by 2 standard errors, and a second classifier": level_with_second(2.0, 5),
    "ensemble selection, 5 steps": greedy(5, 5),
    "ensemble selection, 20 steps": greedy(20, 20),
    "ensemble selection, 20 steps, at most five": greedy(20, 5),
    "forward selection": forward(5),
    **{
        f"five level by {margin:g} standard errors, then {name}": TwoStages(level(margin, 5), combine)
        for margin in (1.0, 2.0)
        for name, combine in {
            "the most accurate": most_accurate,
            "the mean of those level by 1": level(1.0, 5),
            "the mean of those level by 2": level(2.0, 5),
            "forward selection": forward(5),
            "ensemble selection": greedy(20, 5),
            "half for the most accurate, the rest by ensemble selection": half_selected,
        }.items()
    },
    "ensemble selection, at most five, then ensemble selection": TwoStages(greedy(20, 5), greedy(20, 5)),
}


def weights_of(rules: Rules, outputs: Outputs, at_end: Outputs | None = None) -> dict[str, Array]:
    """Return the weights of candidates by each rule; `at_end` are their outputs when their training has ended."""
    early = _evidence(outputs)
    late = early if at_end is None else _evidence(at_end)
    return {name: _weights(rule, early, late) for name, rule in rules.items()}


_Evidence = tuple[list[str], list[CandidateScore], Array, Array]  # the arguments of a rule


def _evidence(outputs: Outputs) -> _Evidence:
    calibrated, scores = _calibrated(outputs)
    return outputs.names, scores, calibrated, outputs.labels


def _weights(rule: Rule | TwoStages, early: _Evidence, late: _Evidence) -> Array:
    if not isinstance(rule, TwoStages):
        return rule(*early)
    names, scores, probabilities, labels = late
    used = np.flatnonzero(rule.select(*early))
    weights = np.zeros(len(names))
    weights[used] = rule.combine(
        [names[place] for place in used], [scores[place] for place in used], probabilities[used], labels
    )
    return weights
