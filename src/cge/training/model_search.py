"""The model search: which path weighting, classifiers and label propagation to use, decided on the validation labels.

Three words have one meaning each here. The *reference* is the weighting with which the search begins, the *incumbent*
the best one so far, and the *start* the closed form from which a weighting is learned. In a *closed form*, such as
`degree`, nothing is learned. `cge.training.candidates` lists the stages; their rules are:

- Label propagation is used where the classifier `mlp` is more accurate with it than without it by more than two
  standard errors. Where it gains at most 20 percentage points, the best classifier with it (`mlp` or `distilled`) must
  also be more accurate than the classifiers with a consistency loss, which do not use it.
- The most accurate classifier of the reference is evaluated with other weightings. If another weighting is more
  accurate, the classifiers are compared again with it.
- The most accurate candidate is selected; the lower log loss decides among equals. Its probabilities are averaged with
  those of other candidates, up to five in all, than which it is not better by one standard error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

from cge.errors import Message
from cge.models.edge_weighting import EdgePropagation
from cge.models.metapath_weighting import MetapathWeighting, list_metapaths
from cge.models.path_networks import PathWeighting
from cge.models.weightings import (
    WEIGHTINGS,
    closed_form,
    is_hop_profile,
    is_learned,
    make_network,
    same_metapath_forms,
)
from cge.training.candidate_evaluation import (
    CandidateEvaluator,
    CandidateScore,
    is_better,
    not_worse,
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
from cge.training.learned_weighting import OuterProblem, OuterResult
from cge.training.metapath_learning import learn_metapath_weights
from cge.training.named_weighting import NamedWeighting
from cge.training.selection import SearchResult, Selection
from cge.training.torch_state import seeded

_NETWORK_NODES = 200  # labeled nodes whose paths a network weights per outer step


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
        self.level: dict[str, NamedWeighting] = {}  # the best weighting so far, and those that are level with it
        self.learned: dict[str, NamedWeighting] = {}
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
        """Return the most accurate candidate and those than which it is not significantly better, to be averaged.

        With label propagation, which is computed for one weighting only, all have the weighting of the first.
        """
        state, evaluator = self.state, self.evaluator
        classifiers = self.compared_classifiers or state.classifiers
        weightings = self.level or {weighting.name: weighting}
        scores = {
            (weightings[key[0]], key[1]): score
            for key, score in evaluator.scores.items()
            if key[0] in weightings and key[1] in classifiers and key[2] == state.label_propagation
            if key in evaluator.trainers
        }
        if not scores:
            return [(weighting, state.classifiers[0])]
        members = not_worse(scores, AVERAGING_MARGIN)
        if state.label_propagation:
            members = [member for member in members if member[0] is members[0][0]]
        return members[:MAX_AVERAGED]

    def _active_candidates(self, stage: str) -> Iterator[Candidate]:
        """Yield the candidates of a stage whose conditions hold; conditions are checked just before each."""
        return (each for each in self.candidates if each.stage == stage and each.is_active(self.state))

    def _evaluate(self, weighting: NamedWeighting, classifier: str) -> CandidateScore:
        return self.evaluator.evaluate(weighting, classifier, self.state.label_propagation)

    def _select_label_propagation(self, weighting: NamedWeighting) -> bool:
        """Return whether label propagation helps the default classifier and beats the alternatives without it."""
        scores: dict[tuple[str, bool], CandidateScore] = {}
        with_propagation, without_propagation = (DEFAULT_CLASSIFIER, True), (DEFAULT_CLASSIFIER, False)
        for candidate in self._active_candidates("label propagation"):
            key = candidate.classifier, candidate.label_propagation == "yes"
            scores[key] = self.evaluator.evaluate(weighting, *key)
            if key == without_propagation:
                name = (weighting.name, *with_propagation)
                self._record("label propagation", name, scores[with_propagation], scores[without_propagation])
                gain, error = scores[with_propagation].accuracy_gain(scores[without_propagation])
                self.state.propagation_gain = gain if gain > 2 * error else 0.0
        if not scores:
            return self.state.label_propagation
        best = max(score.accuracy for (_, label_propagation), score in scores.items() if label_propagation)
        alternatives = [score.accuracy for key, score in scores.items() if not key[1] and key != without_propagation]
        return self.state.propagation_gain > 0 and best > max(alternatives, default=0.0)

    def select_classifiers(self, stage: str, weighting: NamedWeighting) -> tuple[str, ...]:
        """Return the best classifier for a weighting, and those that are level with it.

        With the final weighting, only those are compared that are level with the reference.
        """
        scores: dict[str, CandidateScore] = {}
        best, level = "", self.state.classifiers
        self.state.best_classifier = ""
        for candidate in self._active_candidates(stage):
            name = candidate.classifier
            if stage == "final classifier" and name not in level:
                continue
            scores[name] = self._evaluate(weighting, name)
            if CLASSIFIERS[name].refines is None:
                best = max(scores, key=lambda each: scores[each].accuracy)
            elif is_better(scores[name], scores[best]):
                best = name
            self.state.best_classifier = best
        if not scores:
            return self.state.classifiers
        for name, score in scores.items():
            key = weighting.name, name, self.state.label_propagation
            self._record(stage, key, score, None if name == best else scores[best])
        self.compared_classifiers |= set(scores)
        return (best, *(name for name in not_worse(scores) if name != best))

    def _reference(self) -> NamedWeighting:
        """Return the reference: the weighting of the settings, learned if need be, or with "auto" a closed form."""
        if not is_learned(self.evaluator.settings.weighting):
            return self._closed_form(self.state.reference)
        learned = self.learn(self.evaluator.settings.weighting, self.start_of_learning())
        for name, spec in WEIGHTINGS.items():
            if not spec.learned:
                self.evaluator.release(name)
        return learned

    def _closed_form(self, name: str) -> NamedWeighting:
        same, hops = WEIGHTINGS[name].same_metapaths, self.evaluator.settings.hops
        if same is not None:
            edges, b = same
            metapaths = list_metapaths(self.data.edge_inputs, self.task.train.numpy(), hops if edges is None else edges)
            module = MetapathWeighting(metapaths, [1 / len(metapaths)] * len(metapaths), b)
            return NamedWeighting(name, module, start=self._closed_form("degree" if b else "uniform"))
        return NamedWeighting(name, closed_form(name, self.data.edge_scale.names, self.evaluator.settings.hops))

    def start_of_learning(self) -> NamedWeighting:
        """Return the closed form from which learning starts: the most accurate with the default classifier."""
        names = [candidate.weighting for candidate in self._active_candidates("start of learning")] or ["degree"]
        if len(names) == 1:
            return self._closed_form(names[0])
        scores = {name: self._evaluate(self._closed_form(name), DEFAULT_CLASSIFIER) for name in names}
        return self._closed_form(max(scores, key=lambda name: scores[name].accuracy))

    def learn(self, weighting: str | Callable[[int], PathWeighting], start: NamedWeighting) -> NamedWeighting:
        """Learn edge weights, from those of `start`, or a path network, on held-out folds of the training labels."""
        data, seed = self.data, self.evaluator.settings.seed
        settings = replace(self.evaluator.work.outer_settings(len(self.task.folds)), n_jobs=data.n_jobs)
        spec = WEIGHTINGS.get(weighting) if isinstance(weighting, str) else None
        if spec is not None and spec.metapaths:
            return self._learn_metapaths(spec.name)
        if spec is not None and spec.network is None:
            learned = NamedWeighting(spec.name, deepcopy(start.module))
            learned.edge_weighting.by_relation = spec.by_relation
            edges = (data.transitions, data.edge_inputs, learned.edge_weighting)
            propagation: Any = EdgePropagation(*edges, train_hops=spec.train_hops)
        else:
            with seeded(seed, "network"):
                network: Any = make_network(weighting, int(data.step_vectors(seed).shape[1]))
            network.init_uniform()
            sampled = (self.evaluator.settings.walks_per_node, seed)
            learned = NamedWeighting(self.state.reference if spec is None else spec.name, network, sampled, start)
            propagation = learned.trainable(data, self.task.train.numpy())
            settings = replace(settings, nodes=_NETWORK_NODES)
        inputs, class_weights = self.data.tensor_inputs("l2"), self.evaluator.class_weights
        outcome = OuterProblem(self.task, inputs, propagation, settings, class_weights).run()
        self._check_outcome(outcome, learned, start)
        if isinstance(learned.module, PathWeighting):
            learned.module.eval()
        return learned

    def _learn_metapaths(self, name: str) -> NamedWeighting:
        """Learn weights of metapaths, from the closed form in which all have the same."""
        data, start = self.data, self._same_metapaths()
        module: Any = deepcopy(start.module)
        inputs, seed = data.inputs("l2"), self.evaluator.settings.seed
        outcome = learn_metapath_weights(
            self.task, data.edge_inputs, inputs, module, seed, self.evaluator.class_weights
        )
        learned = replace(start, name=name, module=module)
        self._check_outcome(outcome, learned, start)
        return learned

    def _check_outcome(self, outcome: OuterResult, learned: NamedWeighting, start: NamedWeighting) -> None:
        """Tell users who asked for a learned weighting where it learned nothing."""
        if not outcome.beats_chance and self.evaluator.settings.weighting != "auto":
            problem = (
                "learning {weighting} did not beat chance on held-out folds of the training labels; the weights of "
            )
            self.notices.append(Message(Message.of(problem, weighting=learned.name), f"{start.name!r} are used"))

    def _same_metapaths(self) -> NamedWeighting:
        """Return the closed form from which weights of metapaths are learned: the most accurate one."""
        forms = [self._closed_form(spec.name) for spec in same_metapath_forms(self.evaluator.settings.hops)]
        if len(self.task.validation) < MIN_VALIDATION:
            return forms[-1]
        return max(forms, key=lambda form: self._evaluate(form, DEFAULT_CLASSIFIER).rank)

    def _select_weighting(self, incumbent: NamedWeighting) -> NamedWeighting:
        """Return the most accurate weighting."""
        state, best_closed_form = self.state, incumbent
        self.level = {incumbent.name: incumbent}
        learning = self.evaluator.work.learning(len(self.task.folds))
        work_reserved: float | None = None  # for learning, while other closed forms are evaluated
        state.simple = state.closed_form = state.weighting = incumbent.name
        incumbent_score = self._evaluate(incumbent, state.classifiers[0])
        self._record("weighting", (incumbent.name, state.classifiers[0], state.label_propagation), incumbent_score)
        for candidate in self._active_candidates("weighting"):
            spec = WEIGHTINGS[candidate.weighting]
            classifier = state.classifiers[0] if candidate.classifier == SELECTED else candidate.classifier
            evaluation, extra_work = self.evaluator.work.evaluation(classifier), 0.0
            if spec.learned and spec.name not in self.learned:
                extra_work = learning
            elif is_hop_profile(spec.name) or spec.by_relation or spec.same_metapaths is not None:
                if work_reserved is None:
                    work_reserved = self._work_reserved_for_learning(learning)
                extra_work = work_reserved
            if not candidate.required and extra_work + evaluation > self.evaluator.budget:
                continue
            if spec.learned:
                if spec.name not in self.learned:
                    self.evaluator.budget -= extra_work
                    start = best_closed_form if is_hop_profile(best_closed_form.name) else self.start_of_learning()
                    self.learned[spec.name] = self.learn(spec.name, start)
                weighting = self.learned[spec.name]
            else:
                weighting = self._closed_form(spec.name)
            score = self._evaluate(weighting, classifier)
            key = weighting.name, classifier, state.label_propagation
            self._record("weighting", key, score, incumbent_score)
            if score.rank > incumbent_score.rank:
                incumbent, incumbent_score, state.weighting = weighting, score, weighting.name
                if spec.closed_form is not None:
                    best_closed_form, state.closed_form = incumbent, incumbent.name
                if candidate.required:
                    state.simple = incumbent.name
            self._release_worse(weighting)
        return incumbent

    def _release_worse(self, weighting: NamedWeighting) -> None:
        """Forget the trainings of weightings that cannot be averaged with the best."""
        self.level[weighting.name] = weighting
        known = {key: score for key, score in self.evaluator.scores.items() if key in self.evaluator.trainers}
        level = {key[0] for key in not_worse(known, AVERAGING_MARGIN)[:MAX_AVERAGED]}
        for name in [name for name in self.level if name not in level]:
            self.evaluator.release(name)
            del self.level[name]

    def _work_reserved_for_learning(self, learning: float) -> float:
        """Return the work of learning and evaluating one weighting, which other closed forms must not use up."""
        needed = learning + self.evaluator.work.evaluation(self.state.classifiers[0])
        return needed if len(self.task.folds) > 1 and needed <= self.evaluator.budget else 0.0

    def _gain_over_uniform(self, weighting: NamedWeighting, classifier: str) -> tuple[float, float] | None:
        """Return the gain in validation accuracy over uniform weights; None if they were not compared."""
        state, scores = self.state, self.evaluator.scores
        uniform_candidates = [candidate for candidate in self.candidates if candidate.stage == "uniform weights"]
        if not uniform_candidates or weighting.name == "uniform":
            return None
        state.evaluated = {key[0] for key in scores if key[2] == state.label_propagation}
        if uniform_candidates[0].is_active(state):
            self._evaluate(self._closed_form("uniform"), classifier)
        uniform = [key for key in scores if (key[0], key[2]) == ("uniform", state.label_propagation)]
        best_uniform = max(uniform, key=lambda key: scores[key].accuracy)
        score = self._evaluate(weighting, classifier)
        if all(result.weighting != "uniform" for result in self.results):
            selected = weighting.name, classifier, state.label_propagation
            self._record("uniform weights", best_uniform, scores[best_uniform])
            self._record("uniform weights", selected, score, scores[best_uniform])
        return score.accuracy_gain(scores[best_uniform])

    def _record(
        self,
        stage: str,
        key: tuple[str, str, bool],
        score: CandidateScore,
        other: CandidateScore | None = None,
    ) -> None:
        """Add a candidate to the results, with its gains over another; without another, only if not listed yet."""
        gains: tuple[Any, ...] = (None,) * 5
        if other is not None:
            evaluated = (key for key, value in self.evaluator.scores.items() if value is other)
            *names, with_propagation = next(evaluated)
            compared_with = ", ".join([*names, *["label propagation"] * with_propagation])
            gains = *score.accuracy_gain(other), *score.log_loss_gain(other), compared_with
        elif any((row.weighting, row.classifier, row.label_propagation) == key for row in self.results):
            return
        self.results.append(SearchResult(stage, *key, score.accuracy, *gains))
