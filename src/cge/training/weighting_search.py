"""The part of the model search that learns, compares and selects path weightings.

Terms: the *reference* is the weighting with which the search begins; the *incumbent* is the best one so far; in a
*fixed* weighting nothing is learned: it is a closed form, such as `degree`, or gives all metapaths equal weights; the
*initial weighting* is the one from which a weighting is learned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cge.errors import Message
from cge.models.weightings import WEIGHTINGS, Network, equal_metapath_forms, is_hop_profile
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
from cge.training.classifier_registry import DEFAULT_CLASSIFIER
from cge.training.learned_weighting import OuterResult
from cge.training.named_weighting import NamedWeighting
from cge.training.parallel_tasks import ParallelTask
from cge.training.selection import SearchResult
from cge.training.weighting_learning import fixed_weighting, learn_weighting

_CLEAR_MARGIN = 2.0  # standard errors
_Evaluated = tuple[NamedWeighting, CandidateKey]


class WeightingSearch:
    """Compares weightings among `candidates` on the validation labels of the task and collects `results`."""

    def __init__(self, evaluator: CandidateEvaluator) -> None:
        self.evaluator, self.task, self.data = evaluator, evaluator.task, evaluator.data
        task, settings = self.task, evaluator.settings
        labels = len(task.train), len(task.validation)
        self.problem = SearchProblem.of(self.data.size, evaluator.work.size, labels, len(task.folds))
        self.candidates = list_candidates(self.problem, settings)
        final_candidate = self.candidates[-1]
        self.state = SearchState(
            reference=reference_name(settings, self.problem.inputs, self.problem.n_validation),
            label_propagation=final_candidate.label_propagation == "yes",
            classifiers=(DEFAULT_CLASSIFIER if final_candidate.classifier == SELECTED else final_candidate.classifier,),
        )
        self.results: list[SearchResult] = []
        self.tied: dict[str, NamedWeighting] = {}  # the best weighting so far, and those that tie with it
        self.learned: dict[str, NamedWeighting] = {}
        self.notices: list[Message] = []

    def _active_candidates(self, stage: str) -> Iterator[Candidate]:
        """Yield the candidates of a stage whose conditions hold; conditions are checked just before each."""
        of_stage = (candidate for candidate in self.candidates if candidate.stage == stage)
        return (candidate for candidate in of_stage if candidate.is_active(self.state))

    def _evaluate(self, weighting: NamedWeighting, classifier: str) -> CandidateScore:
        candidate = weighting, classifier, self.state.label_propagation
        return self.evaluator.evaluate_all([candidate], self.state.reference)[0]

    def _closed_form(self, name: str) -> NamedWeighting:
        return fixed_weighting(self.evaluator, name)

    def initial_weighting(self) -> NamedWeighting:
        """Return the closed form from which learning starts: the most accurate with the default classifier."""
        names = [candidate.weighting for candidate in self._active_candidates("weight initialization")] or ["degree"]
        if len(names) == 1:
            return self._closed_form(names[0])
        candidates = [(self._closed_form(name), DEFAULT_CLASSIFIER, self.state.label_propagation) for name in names]
        scores = dict(zip(names, self.evaluator.evaluate_all(candidates), strict=True))
        return self._closed_form(max(scores, key=lambda name: scores[name].accuracy))

    def learn(self, weighting: str | Network, initial_weighting: NamedWeighting) -> NamedWeighting:
        """Learn a weighting on held-out folds of the training labels, from the weights of `initial_weighting`."""
        spec = WEIGHTINGS.get(weighting) if isinstance(weighting, str) else None
        if spec is not None and spec.metapaths:
            initial_weighting = self._equal_metapath_weights()
        learned, outcome = learn_weighting(self.evaluator, weighting, initial_weighting, self.state.reference)
        self._check_outcome(outcome, learned, initial_weighting)
        return learned

    def _check_outcome(self, outcome: OuterResult, learned: NamedWeighting, initial_weighting: NamedWeighting) -> None:
        """Tell users who asked for a learned weighting if nothing was learned."""
        if not outcome.better_than_prior and self.evaluator.settings.weighting != "auto":
            problem = "the learned weights of {weighting} do not predict held-out training labels clearly better than "
            used = f"the class frequencies do; those of {initial_weighting.name!r} are used instead"
            self.notices.append(Message(Message.of(problem, weighting=learned.name), used))

    def _equal_metapath_weights(self) -> NamedWeighting:
        """Return the equal weights from which weights of metapaths are learned: the most accurate ones."""
        specs = equal_metapath_forms(self.evaluator.settings.hops)
        weightings = [fixed_weighting(self.evaluator, spec.name) for spec in specs]
        if len(self.task.validation) < MIN_VALIDATION:
            return weightings[-1]
        return max(weightings, key=lambda weighting: self._evaluate(weighting, DEFAULT_CLASSIFIER).rank)

    def _early_learning(self) -> tuple[list[str], list[ParallelTask]]:
        """Return the weightings to be learned while classifiers are compared, and the tasks that learn them.

        These are candidates whatever classifier is selected. Learning them may take half of the work that the
        comparison of classifiers leaves; if they are learned again later, from a hop profile, it is given back.
        """
        work, state = self.evaluator.work, self.state
        specs = [WEIGHTINGS[candidate.weighting] for candidate in self._active_candidates("weighting")]
        learned = [spec for spec in specs if spec.learned and not spec.metapaths and spec.search is not None]
        names = [spec.name for spec in learned if spec.search is not None and not spec.search.mlp_only]
        budget = self.evaluator.budget - sum(candidate.work for candidate in self._active_candidates("classifier"))
        affordable = max(int(budget / 2 / work.learning(len(self.task.folds))), 0)
        if is_hop_profile(state.reference) or not (names := names[:affordable]):
            return [], []
        return names, self._learning_tasks(names, self.initial_weighting())

    def _learning_tasks(self, names: Sequence[str], initial_weighting: NamedWeighting) -> list[ParallelTask]:
        self.evaluator.budget -= self.evaluator.work.learning(len(self.task.folds)) * len(names)
        return [lambda _send, name=name: self.learn(name, initial_weighting) for name in names]  # type: ignore[misc]

    def _select_weighting(self, reference: NamedWeighting) -> NamedWeighting:
        """Return the most accurate weighting: fixed ones are compared first, then those that were learned later."""
        state, classifier = self.state, self.state.classifiers[0]
        self.tied = {reference.name: reference}
        state.fixed_weighting = state.weighting = reference.name
        self._evaluate(reference, classifier)
        incumbent = reference, CandidateKey(reference.name, classifier, state.label_propagation)
        fixed = self._fixed_candidates()
        names = [reference.name, *(weighting.name for weighting, _ in fixed)]
        learn_after_fixed = any(is_hop_profile(name) or WEIGHTINGS[name].equal_metapaths for name in names)
        learned = [] if learn_after_fixed else self._affordable_learned(fixed)
        incumbent, pending = self._compare_and_learn(incumbent, fixed, learned)
        state.fixed_weighting = incumbent[0].name
        if learn_after_fixed:
            if is_hop_profile(incumbent[0].name):  # learning starts from it, and has its whole budget
                self.evaluator.budget += self.evaluator.work.learning(len(self.task.folds)) * len(self.learned)
                self.learned.clear()
            incumbent, pending = self._compare_and_learn(incumbent, [], self._affordable_learned([]))
        return self._compare(incumbent, [(self.learned[candidate.weighting], candidate) for candidate in pending])[0]

    def _compare_and_learn(
        self,
        incumbent: _Evaluated,
        fixed: Sequence[tuple[NamedWeighting, Candidate]],
        learned: Sequence[Candidate],
    ) -> tuple[_Evaluated, list[Candidate]]:
        """Compare fixed weightings and those already learned, while learning the rest; return the best, and the rest.

        Learning starts from the incumbent if that is a hop profile.
        """
        known = [(self.learned[each.weighting], each) for each in learned if each.weighting in self.learned]
        pending = [candidate for candidate in learned if candidate.weighting not in self.learned]
        names, tasks = list(dict.fromkeys(candidate.weighting for candidate in pending)), list[ParallelTask]()
        if names:
            initial = incumbent[0] if is_hop_profile(incumbent[0].name) else self.initial_weighting()
            tasks = self._learning_tasks(names, initial)
        return self._compare(incumbent, [*fixed, *known], names, tasks), pending

    def _compare(
        self,
        incumbent: _Evaluated,
        compared: Sequence[tuple[NamedWeighting, Candidate]],
        names: Sequence[str] = (),
        tasks: Sequence[ParallelTask] = (),
    ) -> _Evaluated:
        """Return the most accurate weighting; the weightings `names` are learned by `tasks` at the same time."""
        state, evaluator, max_parallel = self.state, self.evaluator, self.evaluator.max_parallel
        compared = [pair for pair in compared if not self._clearly_worse(*pair)]
        for first in range(0, max(len(compared), 1), max_parallel):  # worse ones are dropped before the next group
            group = [
                (weighting, CandidateKey(weighting.name, self._classifier_of(candidate), state.label_propagation))
                for weighting, candidate in compared[first : first + max_parallel]
            ]
            candidates = [(weighting, *key[1:]) for weighting, key in group]
            scores, learned = evaluator.evaluate_with_tasks(candidates, tasks if first == 0 else (), state.reference)
            self.learned |= zip(names if first == 0 else (), learned, strict=True)
            self._record("weighting", incumbent[1], evaluator.scores[incumbent[1]])
            for (weighting, key), score in zip(group, scores, strict=True):
                best = evaluator.scores[incumbent[1]]
                self._record("weighting", key, score, best)
                if score.rank > best.rank:
                    incumbent, state.weighting = (weighting, key), weighting.name
                self._release_worse(weighting)
        return incumbent

    def _clearly_worse(self, weighting: NamedWeighting, candidate: Candidate) -> bool:
        """Return whether a weighting is worse than the reference by two standard errors with the default classifier.

        Then it is not evaluated with another classifier, which takes longer to train, unless it is evaluated whatever
        remains of the budget (`required`).
        """
        names = weighting.name, self.state.reference
        key, reference_key = (CandidateKey(name, DEFAULT_CLASSIFIER, self.state.label_propagation) for name in names)
        score, reference = self.evaluator.scores.get(key), self.evaluator.scores.get(reference_key)
        uses_default_classifier = self._classifier_of(candidate) == DEFAULT_CLASSIFIER
        if candidate.required or uses_default_classifier or score is None or reference is None:
            return False
        if worse := is_better(reference, score, _CLEAR_MARGIN):
            self._record("weighting", key, score, reference)
        return worse

    def _classifier_of(self, candidate: Candidate) -> str:
        return self.state.classifiers[0] if candidate.classifier == SELECTED else candidate.classifier

    def _evaluation_work(self, candidate: Candidate) -> float:
        return self.evaluator.work.evaluation(self._classifier_of(candidate), continued=True)

    def _fixed_candidates(self) -> list[tuple[NamedWeighting, Candidate]]:
        """Return the fixed weightings that the budget allows, without the work reserved for a learned weighting."""
        budget, affordable, reserved = self.evaluator.budget, [], None
        for candidate in self._active_candidates("weighting"):
            spec = WEIGHTINGS[candidate.weighting]
            if spec.learned:
                continue
            needed = evaluation = self._evaluation_work(candidate)
            if is_hop_profile(spec.name) or spec.by_relation or spec.equal_metapaths is not None:
                reserved = self._work_reserved_for_learning(budget) if reserved is None else reserved
                needed += reserved
            if candidate.required or needed <= budget:
                budget -= evaluation
                affordable.append((fixed_weighting(self.evaluator, spec.name), candidate))
        return affordable

    def _affordable_learned(self, fixed: Sequence[tuple[NamedWeighting, Candidate]]) -> list[Candidate]:
        """Return the learned weightings that the budget allows besides some fixed ones."""
        affordable, known = [], set(self.learned)
        budget = self.evaluator.budget - sum(self._evaluation_work(candidate) for _, candidate in fixed)
        for candidate in self._active_candidates("weighting"):
            learning = 0.0 if candidate.weighting in known else self.evaluator.work.learning(len(self.task.folds))
            needed = self._evaluation_work(candidate) + learning
            if WEIGHTINGS[candidate.weighting].learned and needed <= budget:
                budget -= needed
                affordable.append(candidate)
                known.add(candidate.weighting)
        return affordable

    def _release_worse(self, weighting: NamedWeighting) -> None:
        """Drop the trained models of weightings that cannot be averaged with the best."""
        self.tied[weighting.name] = weighting
        trained_scores = {key: score for key, score in self.evaluator.scores.items() if key in self.evaluator.trainers}
        tied = {key.weighting for key in ties_with_best(trained_scores, AVERAGING_MARGIN)[:MAX_AVERAGED]}
        for name in [name for name in self.tied if name not in tied]:
            self.evaluator.release(name)
            del self.tied[name]

    def _work_reserved_for_learning(self, budget: float) -> float:
        """Return the work of learning and evaluating one weighting; 0 if the budget does not allow it.

        Hop profiles, closed forms by relation and equal weights of metapaths are evaluated only if it remains after.
        """
        n_folds, work = len(self.task.folds), self.evaluator.work
        learning = 0.0 if self.learned else work.learning(n_folds)
        needed = learning + work.evaluation(self.state.classifiers[0], continued=True)
        return needed if n_folds > 1 and needed <= budget else 0.0

    def _record(
        self, stage: str, key: CandidateKey, score: CandidateScore, other: CandidateScore | None = None
    ) -> None:
        """Add a candidate to the results, with gains over another; without another, only if not in the results yet."""
        listed = {(row.weighting, row.classifier, row.label_propagation, row.accuracy) for row in self.results}
        if other is not None or (*key, score.accuracy) not in listed:
            self.results.append(SearchResult(stage, *key, score.accuracy, *self.evaluator.gains(score, other)))
