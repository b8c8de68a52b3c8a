"""The model search: which path weighting, classifiers and label propagation to use, decided on the validation labels.

Three words have one meaning each here. The *reference* is the weighting with which the search begins, the *incumbent*
the best one so far, and the *start* the closed form from which a weighting is learned. In a *closed form*, such as
`degree`, nothing is learned. `cge.training.candidates` lists the stages; their rules are:

- Label propagation is used where the classifier `mlp` is more accurate with it than without it by more than two
  standard errors. Where it gains at most 20 percentage points, the best classifier with it (`mlp` or `distilled`) must
  also be more accurate than the classifiers with a consistency loss, which do not use it.
- The most accurate classifier is used, averaged with the most accurate of another family (MLP, linear, distilled)
  among those that are not significantly worse.
- The reference `degree` is replaced by `uniform` where that has both a higher accuracy and a lower log loss. Closed
  forms, then learned weightings replace the incumbent if they are better by their margin; then, classifiers are
  compared again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

from cge.errors import Message
from cge.models.edge_weighting import EdgePropagation, EdgeWeighting
from cge.models.metapath_weighting import MetapathPropagation, MetapathWeighting, list_metapaths
from cge.models.path_networks import PathWeighting
from cge.models.weightings import WEIGHTINGS, closed_form, is_hop_profile, is_learned, make_network
from cge.training.candidate_evaluation import (
    CandidateEvaluator,
    CandidateScore,
    is_better,
    not_worse,
    score_candidate,
)
from cge.training.candidates import (
    MAX_RUNNERS_UP,
    SELECTED,
    Candidate,
    SearchProblem,
    SearchState,
    list_candidates,
    reference_name,
)
from cge.training.classifier_registry import CLASSIFIERS, DEFAULT_CLASSIFIER
from cge.training.encoder_data import NamedWeighting
from cge.training.learned_weighting import OuterProblem
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
        self.runners_up: dict[str, tuple[NamedWeighting, CandidateScore]] = {}  # not selected, but not worse
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
        weighting, runners_up = self._compare_runners_up(weighting)
        gain, kept = self._gain_over_uniform(weighting), {weighting.name, *(other.name for other, _ in runners_up)}
        self.evaluator.release_others(kept, state.label_propagation)
        results, notices = tuple(self.results), tuple(self.notices)
        return Selection(weighting, state.classifiers, state.label_propagation, results, gain, notices, runners_up)

    def _compare_runners_up(
        self, incumbent: NamedWeighting
    ) -> tuple[NamedWeighting, tuple[tuple[NamedWeighting, str], ...]]:
        """Train runners-up and the incumbent until they stop; return the best weighting and those that are level.

        The incumbent remains the first if it is level.

        Label propagation has no runners-up: it would have to be computed for each weighting.
        """
        scores, evaluator = self.evaluator.scores, self.evaluator
        own = [(incumbent.name, classifier, False) for classifier in self.state.classifiers]
        others = [key for key in evaluator.trainers if key[0] in self.runners_up and key[0] != incumbent.name]
        if self.state.label_propagation or not others:
            return incumbent, ()
        best = max((scores[key] for key in own), key=lambda score: score.accuracy)
        level = [key for key in others if not key[2] and not is_better(best, scores[key])]
        keys = [*own, *sorted(level, key=lambda key: -scores[key].accuracy)[:MAX_RUNNERS_UP]]
        weightings = {name: weighting for name, (weighting, _) in self.runners_up.items()} | {incumbent.name: incumbent}
        finished = {key: score_candidate(evaluator.finish(weightings[key[0]], *key[1:])) for key in keys}
        kept = not_worse(finished)
        for key in keys:
            self._record("runner-up", key, finished[key], None if key == kept[0] else finished[kept[0]], kept[0])
        name = incumbent.name if any(key in kept for key in own) else kept[0][0]
        self.state.classifiers = tuple(classifier for weighting, classifier, _ in kept if weighting == name)
        return weightings[name], tuple((weightings[key[0]], key[1]) for key in kept if key[0] != name)

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
        """Return the best classifier for a weighting, and a second one to average with."""
        scores: dict[str, CandidateScore] = {}
        best = self.state.best_classifier = ""
        for candidate in self._active_candidates(stage):
            name = candidate.classifier
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
        not_worse = [name for name in scores if name != best and not is_better(scores[best], scores[name])]
        others = [name for name in not_worse if CLASSIFIERS[name].family != CLASSIFIERS[best].family]
        return (best, *sorted(others, key=lambda name: -scores[name].accuracy)[:1])

    def _reference(self) -> NamedWeighting:
        """Return the reference: the weighting of the settings, learned if need be, or with "auto" a closed form."""
        if not is_learned(self.evaluator.settings.weighting):
            return self._closed_form(self.state.reference)
        start = self.start_of_learning()
        for name, spec in WEIGHTINGS.items():
            if spec.closed_form is not None:
                self.evaluator.release(name)
        return self.learn(self.evaluator.settings.weighting, start)

    def _closed_form(self, name: str) -> NamedWeighting:
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
            metapaths = list_metapaths(data.edge_inputs, self.task.train.numpy(), self.evaluator.settings.hops)
            uniform = [1 / len(metapaths)] * len(metapaths)
            module = MetapathWeighting(metapaths, uniform, start.edge_weighting.normalization.item())
            learned = NamedWeighting(spec.name, module, start=start)
            propagation: Any = MetapathPropagation(data.edge_inputs, module, data.n_jobs)
        elif spec is not None and spec.network is None:
            learned = NamedWeighting(spec.name, deepcopy(start.module))
            learned.edge_weighting.by_relation = spec.by_relation
            edges = (data.transitions, data.edge_inputs, learned.edge_weighting)
            propagation = EdgePropagation(*edges, train_hops=spec.train_hops)
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
        if not outcome.beats_chance and self.evaluator.settings.weighting != "auto":
            problem = (
                "learning {weighting} did not beat chance on held-out folds of the training labels; the weights of "
            )
            self.notices.append(Message(Message.of(problem, weighting=learned.name), f"{start.name!r} are used"))
        if isinstance(learned.module, MetapathWeighting):
            learned.module.make_sparse()
        elif not isinstance(learned.module, EdgeWeighting):
            learned.module.eval()
        return learned

    def _select_weighting(self, incumbent: NamedWeighting) -> NamedWeighting:
        """Return the incumbent after all candidates, each of which replaces it if it is better by its margin."""
        state, best_closed_form = self.state, incumbent
        learning = self.evaluator.work.learning(len(self.task.folds))
        work_reserved: float | None = None  # for learning, while hop profiles are evaluated
        state.simple = state.closed_form = state.weighting = incumbent.name
        incumbent_score = self._best_score(incumbent, state.classifiers)
        for candidate in self._active_candidates("weighting"):
            spec = WEIGHTINGS[candidate.weighting]
            classifiers = state.classifiers if candidate.classifier == SELECTED else (candidate.classifier,)
            evaluation, extra_work = self.evaluator.evaluation_work(classifiers), 0.0
            if spec.closed_form is None:
                extra_work = learning
            elif is_hop_profile(spec.name):
                if work_reserved is None:
                    work_reserved = self._work_reserved_for_learning(learning)
                extra_work = work_reserved
            if candidate.margin is not None and extra_work + evaluation > self.evaluator.budget:
                continue
            if spec.closed_form is None:
                self.evaluator.budget -= extra_work
                start = best_closed_form if is_hop_profile(best_closed_form.name) else self.start_of_learning()
                weighting = self.learn(spec.name, start)
            else:
                weighting = self._closed_form(spec.name)
            score = self._best_score(weighting, classifiers, incumbent_score)
            loser = weighting, score
            if candidate.margin is None:  # degree and uniform: accuracy and log loss must both improve
                better = score.accuracy > incumbent_score.accuracy and score.log_loss_gain(incumbent_score)[0] > 0
            else:
                better = is_better(score, incumbent_score, candidate.margin, min_extra_correct=1)
            if better:
                loser, incumbent, incumbent_score = (incumbent, incumbent_score), weighting, score
                state.weighting = incumbent.name
                if spec.closed_form is not None:
                    best_closed_form, state.closed_form = incumbent, incumbent.name
                if candidate.margin is None:
                    state.simple = incumbent.name
            self._release_worse(loser, incumbent_score)
        return incumbent

    def _release_worse(self, loser: tuple[NamedWeighting, CandidateScore], best_score: CandidateScore) -> None:
        """Forget the trainings of a weighting that was not selected, unless it is a runner-up."""
        self.runners_up[loser[0].name] = loser
        names = sorted(self.runners_up, key=lambda name: -self.runners_up[name][1].accuracy)
        level = [name for name in names if not is_better(best_score, self.runners_up[name][1])]
        for name in set(names) - set(level[:MAX_RUNNERS_UP]):
            self.evaluator.release(name)
            del self.runners_up[name]

    def _work_reserved_for_learning(self, learning: float) -> float:
        """Return the work of learning and evaluating one weighting, which hop profiles must not use up."""
        needed = learning + self.evaluator.evaluation_work(self.state.classifiers)
        return needed if len(self.task.folds) > 1 and needed <= self.evaluator.budget else 0.0

    def _best_score(
        self, weighting: NamedWeighting, classifiers: tuple[str, ...], incumbent: CandidateScore | None = None
    ) -> CandidateScore:
        """Return the score of a weighting with the most accurate of some classifiers."""
        scores = {classifier: self._evaluate(weighting, classifier) for classifier in classifiers}
        best = max(scores, key=lambda classifier: scores[classifier].accuracy)
        self._record("weighting", (weighting.name, best, self.state.label_propagation), scores[best], incumbent)
        return scores[best]

    def _gain_over_uniform(self, weighting: NamedWeighting) -> tuple[float, float] | None:
        """Return the gain in validation accuracy over uniform weights; None if they were not compared."""
        state, scores = self.state, self.evaluator.scores
        uniform_candidates = [candidate for candidate in self.candidates if candidate.stage == "uniform weights"]
        if not uniform_candidates or weighting.name == "uniform":
            return None
        state.evaluated = {key[0] for key in scores if key[2] == state.label_propagation}
        if uniform_candidates[0].is_active(state):
            self._evaluate(self._closed_form("uniform"), state.classifiers[0])
        uniform = [key for key in scores if (key[0], key[2]) == ("uniform", state.label_propagation)]
        best_uniform = max(uniform, key=lambda key: scores[key].accuracy)
        score = self._evaluate(weighting, state.classifiers[0])
        if all(result.weighting != "uniform" for result in self.results):
            selected = weighting.name, state.classifiers[0], state.label_propagation
            self._record("uniform weights", best_uniform, scores[best_uniform])
            self._record("uniform weights", selected, score, scores[best_uniform])
        return score.accuracy_gain(scores[best_uniform])

    def _record(
        self,
        stage: str,
        key: tuple[str, str, bool],
        score: CandidateScore,
        other: CandidateScore | None = None,
        other_key: Any = None,
    ) -> None:
        """Add a candidate to the results, with its gains over another; without another, only if not listed yet."""
        gains: tuple[Any, ...] = (None,) * 5
        if other is not None:
            evaluated = (key for key, value in self.evaluator.scores.items() if value is other)
            *names, with_propagation = next(evaluated, other_key)
            compared_with = ", ".join([*names, *["label propagation"] * with_propagation])
            gains = *score.accuracy_gain(other), *score.log_loss_gain(other), compared_with
        elif any((row.weighting, row.classifier, row.label_propagation) == key for row in self.results):
            return
        self.results.append(SearchResult(stage, *key, score.accuracy, *gains))
