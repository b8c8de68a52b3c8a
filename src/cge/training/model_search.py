"""The model search: which path weighting, classifiers and label propagation to use, decided on the validation labels.

`cge.training.candidates` lists the stages; their rules are:

- Label propagation is used if the classifier `mlp` is more accurate with it than without it by more than two standard
  errors. A classifier that is named in the settings is then combined with it. With `classifier="auto"`, if `mlp` gains
  at most 20 percentage points, the best classifier with it (`mlp` or `distilled`) must also be more accurate than
  `consistency` and `sparse` without it; these two are never combined with label propagation that the search selected.
- `mlp` and the most accurate classifier of the reference are evaluated with other weightings; the latter not with those
  that are worse than the reference by two standard errors with `mlp` (`uniform` is always evaluated if the reference is
  `degree`). Hop profiles are evaluated with `mlp` only, weights of metapaths with `mlp` and `logistic-unit`. If another
  weighting is more accurate, this classifier and those that tied with it are compared again with that weighting; if it
  is better by one standard error with the same classifier, all classifiers are, trained from scratch.
- Under another weighting, a classifier with a consistency or distillation loss is not trained from scratch: it starts
  from the parameters it reached under the reference and gets 30 % more epochs. The reference itself gets as many, so
  that the comparison is fair. `sparse-light` starts from `sparse` in the same way.
- `edges` and `relations`, which are candidates whichever classifier is selected, are learned while classifiers are
  compared, if the reference is `degree` and the budget allows. With `weighting="auto"`, none is learned if label
  propagation more than doubles the accuracy, since weightings are learned with classifiers that see no propagated
  labels.
- The most accurate candidate is selected; if accuracies are equal, the one with the lower log loss. Its probabilities
  may be averaged with those of up to four others that tie with it (see `ties_with_best`), with weights that
  `ensemble_weights` finds when their training has ended; of a classifier and its variant
  (`ClassifierSpec.refines`), only one is used.
"""

from __future__ import annotations

from collections.abc import Collection

from cge.models.weightings import WEIGHTINGS, is_learned
from cge.training.candidate_evaluation import (
    CandidateEvaluator,
    CandidateKey,
    CandidateScore,
    is_better,
    ties_with_best,
)
from cge.training.candidates import AVERAGING_MARGIN, MAX_AVERAGED
from cge.training.classifier_registry import CLASSIFIERS, DEFAULT_CLASSIFIER
from cge.training.named_weighting import NamedWeighting
from cge.training.selection import Selection
from cge.training.weighting_search import WeightingSearch


class ModelSearch(WeightingSearch):
    """Selects a model: evaluates `candidates` on the validation labels of the task and collects `results`."""

    def __init__(self, evaluator: CandidateEvaluator) -> None:
        super().__init__(evaluator)
        # all classifiers evaluated so far; `state.classifiers`: the best one and those that tie with it
        self.compared_classifiers: set[str] = set()

    def run(self) -> Selection:
        """Return the selected model; with fewer than five validation labels nothing is compared."""
        state, weighting = self.state, self._reference()
        state.label_propagation = self._select_label_propagation(weighting)
        state.classifiers = self.select_classifiers("classifier", weighting)
        if any(candidate.stage == "weighting" for candidate in self.candidates):
            reference, weighting = weighting, self._select_weighting(weighting)
            state.weighting_gains = self._gains(weighting, reference)
            if state.weighting_gains:
                self.evaluator.forget_continued(weighting.name)
            state.classifiers = self.select_classifiers("final classifier", weighting)
        ensemble = self._select_ensemble(weighting)
        (weighting, classifier), *averaged = ensemble
        gain = self._gain_over_uniform(weighting, classifier)
        self.evaluator.release_others({each.name for each, _ in ensemble}, state.label_propagation)
        results, notices = tuple(self.results), tuple(self.notices)
        return Selection(weighting, classifier, state.label_propagation, results, gain, notices, tuple(averaged))

    def _select_ensemble(self, weighting: NamedWeighting) -> list[tuple[NamedWeighting, str]]:
        """Return the most accurate candidate and those that tie with it, to be averaged.

        With label propagation, which is computed for one weighting only, all have the weighting of the first.
        """
        state, evaluator = self.state, self.evaluator
        classifiers = set(self.compared_classifiers or state.classifiers)
        classifiers -= _replaced(classifiers, state.classifiers[0])
        weightings = self.tied or {weighting.name: weighting}
        scores = {
            (weightings[key.weighting], key.classifier): score
            for key, score in evaluator.scores.items()
            if key.weighting in weightings and key.classifier in classifiers and key in evaluator.trainers
            if key.label_propagation == state.label_propagation
        }
        if not scores:
            return [(weighting, state.classifiers[0])]
        tied = ties_with_best(scores, AVERAGING_MARGIN)
        if state.label_propagation:
            tied = [candidate for candidate in tied if candidate[0] is tied[0][0]]
        return tied[:MAX_AVERAGED]

    def _select_label_propagation(self, weighting: NamedWeighting) -> bool:
        """Return whether label propagation helps the default classifier, more than the alternatives without it."""
        scores: dict[tuple[str, bool], CandidateScore] = {}
        with_propagation, without_propagation = (DEFAULT_CLASSIFIER, True), (DEFAULT_CLASSIFIER, False)
        while pending := [key for key in self._propagation_keys() if key not in scores]:
            candidates = [(weighting, *key) for key in pending]
            scores |= zip(pending, self.evaluator.evaluate_all(candidates), strict=True)
            if without_propagation in pending:
                gain, error = scores[with_propagation].accuracy_gain(scores[without_propagation])
                self.state.propagation_gain = gain if gain > 2 * error else 0.0
                self.state.propagation_doubles = self.state.propagation_gain > scores[without_propagation].accuracy
        if not scores:
            return self.state.label_propagation
        for key, score in scores.items():
            baseline = None if key == without_propagation else scores[without_propagation]
            self._record("label propagation", CandidateKey(weighting.name, *key), score, baseline)
        best = max(score.accuracy for (_, label_propagation), score in scores.items() if label_propagation)
        alternatives = [score.accuracy for key, score in scores.items() if not key[1] and key != without_propagation]
        return self.state.propagation_gain > 0 and best > max(alternatives, default=0.0)

    def _propagation_keys(self) -> list[tuple[str, bool]]:
        """Return the classifiers to compare with and without label propagation that are known at this point."""
        active = self._active_candidates("label propagation")
        return [(candidate.classifier, candidate.label_propagation == "yes") for candidate in active]

    def select_classifiers(self, stage: str, weighting: NamedWeighting) -> tuple[str, ...]:
        """Return the best classifier for a weighting, and those that tie with it.

        At the stage "final classifier", only those are compared that tied with the best one under the reference, unless
        the weighting is better than the reference. Then all are trained from scratch (`sparse-light` starts from
        `sparse`): consistency under worse weights reinforces errors.
        """
        scores: dict[str, CandidateScore] = {}
        start = "" if stage == "final classifier" and self.state.weighting_gains else self.state.reference
        best, tied, self.state.best_classifier = "", self.state.classifiers, ""
        while pending := [name for name in self._classifier_names(stage, tied) if name not in scores]:
            learned, tasks = self._early_learning() if stage == "classifier" and not scores else ([], [])
            candidates = [(weighting, name, self.state.label_propagation) for name in [*scores, *pending]]
            evaluated, results = self.evaluator.evaluate_with_tasks(candidates, tasks, start)
            scores = dict(zip([*scores, *pending], evaluated, strict=True))
            self.learned |= zip(learned, results, strict=True)
            for name in pending:
                if CLASSIFIERS[name].refines is None:
                    best = max(scores, key=lambda other: scores[other].accuracy)
                elif is_better(scores[name], scores[best]):
                    best = name
            self.state.best_classifier = best
        if not scores:
            return self.state.classifiers
        for name, score in scores.items():
            key = CandidateKey(weighting.name, name, self.state.label_propagation)
            self._record(stage, key, score, None if name == best else scores[best])
        self.compared_classifiers |= set(scores)
        return (best, *(name for name in ties_with_best(scores) if name != best))

    def _classifier_names(self, stage: str, tied: tuple[str, ...]) -> list[str]:
        """Return the classifiers to compare that are known at this point."""
        names = [candidate.classifier for candidate in self._active_candidates(stage)]
        all_compared = stage != "final classifier" or self.state.weighting_gains
        return [name for name in names if all_compared or name in tied]

    def _gains(self, weighting: NamedWeighting, reference: NamedWeighting) -> bool:
        """Return whether a weighting is better than the reference by one standard error, with the same classifier."""
        scores = self.evaluator.scores
        compared = [
            (score, scores[key._replace(weighting=reference.name)])
            for key, score in scores.items()
            if key.weighting == weighting.name and key._replace(weighting=reference.name) in scores
        ]
        return any(is_better(score, other) for score, other in compared)

    def _reference(self) -> NamedWeighting:
        """Return the reference: the weighting of the settings, learned if need be, or with "auto" a closed form."""
        if not is_learned(self.evaluator.settings.weighting):
            return self._closed_form(self.state.reference)
        learned = self.learn(self.evaluator.settings.weighting, self.initial_weighting())
        for name, spec in WEIGHTINGS.items():
            if not spec.learned:
                self.evaluator.release(name)
        return learned

    def _gain_over_uniform(self, weighting: NamedWeighting, classifier: str) -> tuple[float, float] | None:
        """Return the gain in validation accuracy over uniform weights with its error; None if they were not compared.

        It is the accuracy of the selected candidate minus the best with uniform weights, with any classifier that was
        evaluated.
        """
        state, scores = self.state, self.evaluator.scores
        uniform_candidates = [candidate for candidate in self.candidates if candidate.stage == "uniform weights"]
        if not uniform_candidates or weighting.name == "uniform":
            return None
        state.evaluated = {key.weighting for key in scores if key.label_propagation == state.label_propagation}
        if uniform_candidates[0].is_active(state):
            self._evaluate(self._closed_form("uniform"), classifier)
        uniform = [key for key in scores if key[::2] == ("uniform", state.label_propagation)]
        best_uniform = max(uniform, key=lambda key: scores[key].accuracy)
        score = self._evaluate(weighting, classifier)
        if all(result.weighting != "uniform" for result in self.results):
            selected = CandidateKey(weighting.name, classifier, state.label_propagation)
            self._record("uniform weights", best_uniform, scores[best_uniform])
            self._record("uniform weights", selected, score, scores[best_uniform])
        return score.accuracy_gain(scores[best_uniform])


def _replaced(classifiers: Collection[str], selected: str) -> set[str]:
    """Return, for each classifier that was compared with the one that refines it, the one of the two to leave out.

    That is the refining one, unless it was selected.
    """
    refining = [name for name in classifiers if CLASSIFIERS[name].refines in classifiers]
    return {str(CLASSIFIERS[name].refines) if name == selected else name for name in refining}
