"""The model search: which path weighting, classifiers and label propagation to use, decided on the validation labels.

Three words have one meaning each here. The *reference* is the weighting with which the search begins, the *incumbent*
the best one so far, and the *start* the closed form from which a weighting is learned. In a *closed form*, such as
`degree`, nothing is learned. `cge.training.candidates` lists the stages; their rules are:

- Label propagation is used if the classifier `mlp` is more accurate with it than without it by more than two standard
  errors. If it gains at most 20 percentage points, the best classifier with it (`mlp` or `distilled`) must also be more
  accurate than the classifiers with a consistency loss, which do not use it.
- The most accurate classifier of the reference is evaluated with other weightings, but for those that are worse than
  the reference by two standard errors with `mlp`. If another weighting is more accurate, this classifier and those that
  tied with it are compared again with that weighting.
- The most accurate candidate is selected; the lower log loss decides among equals. Its probabilities are averaged with
  those of up to four others that tie with it, which `ties_with_best` defines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from cge.errors import Message
from cge.models.path_networks import PathWeighting
from cge.models.weightings import WEIGHTINGS, is_hop_profile, is_learned, same_metapath_forms
from cge.training.candidate_evaluation import (
    CandidateEvaluator,
    CandidateKey,
    CandidateScore,
    is_better,
    ties_with_best,
)
from cge.training.candidates import (
    AVERAGING_MARGIN,
    MAX_AVERAGED,
    MIN_VALIDATION,
    SELECTED,
    Candidate,
    SearchProblem,
    SearchState,
    list_candidates,
    reference_name,
)
from cge.training.classifier_registry import CLASSIFIERS, DEFAULT_CLASSIFIER
from cge.training.learned_weighting import OuterResult
from cge.training.named_weighting import NamedWeighting
from cge.training.selection import SearchResult, Selection
from cge.training.weighting_learning import closed_form_weighting, learn_weighting

_CLEAR_MARGIN = 2.0  # standard errors


class ModelSearch:
    """Selects a model: evaluates `candidates` on the validation labels of the task and collects `results`."""

    def __init__(self, evaluator: CandidateEvaluator) -> None:
        self.evaluator, self.task, self.data = evaluator, evaluator.task, evaluator.data
        task, data, settings = self.task, self.data, evaluator.settings
        inputs = "features" if data.uses_features else "learned" if data.walk_vectors is None else "walks"
        counts = len(task.train), len(task.validation), len(task.folds)
        graph = data.graph.features is not None, inputs, data.graph.num_relations > 1
        problem = SearchProblem(evaluator.work.size, *counts, *graph)
        self.candidates = list_candidates(problem, settings)
        final_candidate = self.candidates[-1]
        self.state = SearchState(
            reference=reference_name(settings, inputs),
            label_propagation=final_candidate.label_propagation == "yes",
            classifiers=(DEFAULT_CLASSIFIER if final_candidate.classifier == SELECTED else final_candidate.classifier,),
        )
        self.results: list[SearchResult] = []
        self.tied: dict[str, NamedWeighting] = {}  # the best weighting so far, and those that tie with it
        self.compared_classifiers: set[str] = set()
        self.notices: list[Message] = []

    def run(self) -> Selection:
        """Return the selected model; with fewer than five validation labels nothing is compared."""
        state = self.state
        weighting = self._reference()
        state.label_propagation = self._select_label_propagation(weighting)
        state.classifiers = self.select_classifiers("classifier", weighting)
        if any(candidate.stage == "weighting" for candidate in self.candidates):
            weighting = self._select_weighting(weighting)
            state.classifiers = self.select_classifiers("final classifier", weighting)
        members = self._select_members(weighting)
        (weighting, classifier), *averaged = members
        gain = self._gain_over_uniform(weighting, classifier)
        self.evaluator.release_others({each.name for each, _ in members}, state.label_propagation)
        results, notices = tuple(self.results), tuple(self.notices)
        return Selection(weighting, classifier, state.label_propagation, results, gain, notices, tuple(averaged))

    def _select_members(self, weighting: NamedWeighting) -> list[tuple[NamedWeighting, str]]:
        """Return the most accurate candidate and those that tie with it, to be averaged.

        With label propagation, which is computed for one weighting only, all have the weighting of the first.
        """
        state, evaluator = self.state, self.evaluator
        classifiers = self.compared_classifiers or state.classifiers
        weightings = self.tied or {weighting.name: weighting}
        scores = {
            (weightings[key.weighting], key.classifier): score
            for key, score in evaluator.scores.items()
            if key.weighting in weightings and key.classifier in classifiers and key in evaluator.trainers
            if key.label_propagation == state.label_propagation
        }
        if not scores:
            return [(weighting, state.classifiers[0])]
        members = ties_with_best(scores, AVERAGING_MARGIN)
        if state.label_propagation:
            members = [member for member in members if member[0] is members[0][0]]
        return members[:MAX_AVERAGED]

    def _active_candidates(self, stage: str) -> Iterator[Candidate]:
        """Yield the candidates of a stage whose conditions hold; conditions are checked just before each."""
        return (each for each in self.candidates if each.stage == stage and each.is_active(self.state))

    def _evaluate(self, weighting: NamedWeighting, classifier: str) -> CandidateScore:
        return self.evaluator.evaluate(weighting, classifier, self.state.label_propagation)

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
        if not scores:
            return self.state.label_propagation
        for key, score in scores.items():
            baseline = None if key == without_propagation else scores[without_propagation]
            self._record("label propagation", CandidateKey(weighting.name, *key), score, baseline)
        best = max(score.accuracy for (_, label_propagation), score in scores.items() if label_propagation)
        alternatives = [score.accuracy for key, score in scores.items() if not key[1] and key != without_propagation]
        return self.state.propagation_gain > 0 and best > max(alternatives, default=0.0)

    def _propagation_keys(self) -> list[tuple[str, bool]]:
        """Return the classifiers to be compared with and without label propagation, as far as is known now."""
        active = self._active_candidates("label propagation")
        return [(candidate.classifier, candidate.label_propagation == "yes") for candidate in active]

    def select_classifiers(self, stage: str, weighting: NamedWeighting) -> tuple[str, ...]:
        """Return the best classifier for a weighting, and those that tie with it.

        At the stage "final classifier", only those are compared that tied with the best one under the reference.
        """
        scores: dict[str, CandidateScore] = {}
        best, tied = "", self.state.classifiers
        self.state.best_classifier = ""
        while pending := [name for name in self._classifier_names(stage, tied) if name not in scores]:
            candidates = [(weighting, name, self.state.label_propagation) for name in pending]
            scores |= zip(pending, self.evaluator.evaluate_all(candidates), strict=True)
            for name in pending:
                if CLASSIFIERS[name].refines is None:
                    best = max(scores, key=lambda each: scores[each].accuracy)
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
        """Return the classifiers to be compared, as far as is known now."""
        names = [candidate.classifier for candidate in self._active_candidates(stage)]
        return [name for name in names if stage != "final classifier" or name in tied]

    def _reference(self) -> NamedWeighting:
        """Return the reference: the weighting of the settings, learned if need be, or with "auto" a closed form."""
        if not is_learned(self.evaluator.settings.weighting):
            return self._closed_form(self.state.reference)
        learned = self.learn(self.evaluator.settings.weighting, self.initial_weighting())
        for name, spec in WEIGHTINGS.items():
            if not spec.learned:
                self.evaluator.release(name)
        return learned

    def _closed_form(self, name: str) -> NamedWeighting:
        return closed_form_weighting(self.evaluator, name)

    def initial_weighting(self) -> NamedWeighting:
        """Return the closed form from which learning starts: the most accurate with the default classifier."""
        names = [candidate.weighting for candidate in self._active_candidates("weight initialization")] or ["degree"]
        if len(names) == 1:
            return self._closed_form(names[0])
        candidates = [(self._closed_form(name), DEFAULT_CLASSIFIER, self.state.label_propagation) for name in names]
        scores = dict(zip(names, self.evaluator.evaluate_all(candidates), strict=True))
        return self._closed_form(max(scores, key=lambda name: scores[name].accuracy))

    def learn(self, weighting: str | Callable[[int], PathWeighting], start: NamedWeighting) -> NamedWeighting:
        """Learn a weighting on held-out folds of the training labels, from the weights of `start`."""
        spec = WEIGHTINGS.get(weighting) if isinstance(weighting, str) else None
        if spec is not None and spec.metapaths:
            start = self._same_metapaths()
        learned, outcome = learn_weighting(self.evaluator, weighting, start, self.state.reference)
        self._check_outcome(outcome, learned, start)
        return learned

    def _check_outcome(self, outcome: OuterResult, learned: NamedWeighting, start: NamedWeighting) -> None:
        """Tell users who asked for a learned weighting if nothing was learned."""
        if not outcome.better_than_prior and self.evaluator.settings.weighting != "auto":
            problem = (
                "learning {weighting} did not predict held-out training labels better than a constant; the weights of "
            )
            self.notices.append(Message(Message.of(problem, weighting=learned.name), f"{start.name!r} are used"))

    def _same_metapaths(self) -> NamedWeighting:
        """Return the closed form from which weights of metapaths are learned: the most accurate one."""
        forms = [self._closed_form(spec.name) for spec in same_metapath_forms(self.evaluator.settings.hops)]
        if len(self.task.validation) < MIN_VALIDATION:
            return forms[-1]
        return max(forms, key=lambda form: self._evaluate(form, DEFAULT_CLASSIFIER).rank)

    def _select_weighting(self, reference: NamedWeighting) -> NamedWeighting:
        """Return the most accurate weighting: closed forms are compared first, then learned ones."""
        state, classifier = self.state, self.state.classifiers[0]
        self.tied = {reference.name: reference}
        state.closed_form = state.weighting = reference.name
        score = self._evaluate(reference, classifier)
        self._record("weighting", CandidateKey(reference.name, classifier, state.label_propagation), score)
        closed_forms = self._closed_form_candidates()
        compared = [reference.name, *(weighting.name for weighting, _ in closed_forms)]
        starts = any(is_hop_profile(name) or WEIGHTINGS[name].same_metapaths is not None for name in compared)
        learned = [] if starts else self._affordable_learned(closed_forms)
        incumbent, weightings = self._compare_weightings((reference, score), closed_forms, learned)
        state.closed_form = incumbent[0].name
        if starts:  # learning starts from the best of them
            learned = self._affordable_learned([])
            start = incumbent[0] if is_hop_profile(incumbent[0].name) else None
            _, weightings = self._compare_weightings(incumbent, [], learned, start)
        return self._compare_weightings(incumbent, [(weightings[each.weighting], each) for each in learned])[0][0]

    def _compare_weightings(
        self,
        incumbent: tuple[NamedWeighting, CandidateScore],
        compared: Sequence[tuple[NamedWeighting, Candidate]],
        learned: Sequence[Candidate] = (),
        start: NamedWeighting | None = None,
    ) -> tuple[tuple[NamedWeighting, CandidateScore], dict[str, NamedWeighting]]:
        """Return the most accurate weighting with its score, and other weightings that are learned at the same time."""
        state, names = self.state, list(dict.fromkeys(each.weighting for each in learned))
        start = self.initial_weighting() if names and start is None else start or incumbent[0]
        compared = [pair for pair in compared if not self._clearly_worse(*pair)]
        keys = [(weighting, self._classifier_of(each), state.label_propagation) for weighting, each in compared]
        tasks = [lambda _send, name=name: self.learn(name, start) for name in names]
        evaluator, at_once, weightings = self.evaluator, self.evaluator.max_at_once, []
        evaluator.budget -= evaluator.work.learning(len(self.task.folds)) * len(names)
        for first in range(0, max(len(keys), 1), at_once):  # what is worse is dropped before the next are trained
            group = keys[first : first + at_once]
            scores, results = evaluator.evaluate_beside(group, tasks if first == 0 else ())
            weightings += results
            for (weighting, classifier, labels), score in zip(group, scores, strict=True):
                self._record("weighting", CandidateKey(weighting.name, classifier, labels), score, incumbent[1])
                if score.rank > incumbent[1].rank:
                    incumbent, state.weighting = (weighting, score), weighting.name
                self._release_worse(weighting)
        return incumbent, dict(zip(names, weightings, strict=True))

    def _clearly_worse(self, weighting: NamedWeighting, candidate: Candidate) -> bool:
        """Return whether a weighting is worse than the reference by two standard errors with the default classifier.

        Then it is not evaluated with another classifier, which takes longer to train, unless it is required.
        """
        names = weighting.name, self.state.reference
        key, reference_key = (CandidateKey(name, DEFAULT_CLASSIFIER, self.state.label_propagation) for name in names)
        score, reference = self.evaluator.scores.get(key), self.evaluator.scores.get(reference_key)
        same = self._classifier_of(candidate) == DEFAULT_CLASSIFIER
        if candidate.required or same or score is None or reference is None:
            return False
        if worse := is_better(reference, score, _CLEAR_MARGIN):
            self._record("weighting", key, score, reference)
        return worse

    def _classifier_of(self, candidate: Candidate) -> str:
        return self.state.classifiers[0] if candidate.classifier == SELECTED else candidate.classifier

    def _closed_form_candidates(self) -> list[tuple[NamedWeighting, Candidate]]:
        """Return the closed forms that the budget allows, without the work that is reserved for a learned weighting."""
        work, budget, affordable = self.evaluator.work, self.evaluator.budget, []
        reserved: float | None = None
        for candidate in self._active_candidates("weighting"):
            spec = WEIGHTINGS[candidate.weighting]
            if spec.learned:
                continue
            needed = evaluation = work.evaluation(self._classifier_of(candidate))
            if is_hop_profile(spec.name) or spec.by_relation or spec.same_metapaths is not None:
                reserved = self._work_reserved_for_learning(budget) if reserved is None else reserved
                needed += reserved
            if candidate.required or needed <= budget:
                budget -= evaluation
                affordable.append((self._closed_form(spec.name), candidate))
        return affordable

    def _affordable_learned(self, closed_forms: Sequence[tuple[NamedWeighting, Candidate]]) -> list[Candidate]:
        """Return the learned weightings that the budget allows besides some closed forms."""
        work, affordable, names = self.evaluator.work, [], set()
        budget = self.evaluator.budget - sum(work.evaluation(self._classifier_of(each)) for _, each in closed_forms)
        for candidate in self._active_candidates("weighting"):
            learning = 0.0 if candidate.weighting in names else work.learning(len(self.task.folds))
            needed = work.evaluation(self._classifier_of(candidate)) + learning
            if WEIGHTINGS[candidate.weighting].learned and needed <= budget:
                budget -= needed
                affordable.append(candidate)
                names.add(candidate.weighting)
        return affordable

    def _release_worse(self, weighting: NamedWeighting) -> None:
        """Drop the trained models of weightings that cannot be averaged with the best."""
        self.tied[weighting.name] = weighting
        known = {key: score for key, score in self.evaluator.scores.items() if key in self.evaluator.trainers}
        tied = {key.weighting for key in ties_with_best(known, AVERAGING_MARGIN)[:MAX_AVERAGED]}
        for name in [name for name in self.tied if name not in tied]:
            self.evaluator.release(name)
            del self.tied[name]

    def _work_reserved_for_learning(self, budget: float) -> float:
        """Return the work of learning and evaluating one weighting, which other closed forms must not use up."""
        n_folds, work = len(self.task.folds), self.evaluator.work
        needed = work.learning(n_folds) + work.evaluation(self.state.classifiers[0])
        return needed if n_folds > 1 and needed <= budget else 0.0

    def _gain_over_uniform(self, weighting: NamedWeighting, classifier: str) -> tuple[float, float] | None:
        """Return the gain in validation accuracy over uniform weights; None if they were not compared."""
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

    def _record(
        self, stage: str, key: CandidateKey, score: CandidateScore, other: CandidateScore | None = None
    ) -> None:
        """Add a candidate to the results, with its gains over another; without another, only if not listed yet."""
        if other is not None or all(
            (row.weighting, row.classifier, row.label_propagation) != key for row in self.results
        ):
            self.results.append(SearchResult(stage, *key, score.accuracy, *self.evaluator.gains(score, other)))
