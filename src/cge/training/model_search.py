"""The plan of the path encoder: how paths are weighed and who reads what they bring, chosen by short trainings.

What is chosen on the selection labels, where it is left open ("auto"):

1. Paths carry the known training labels as well, where a plain reader is right more often with them than without by
   more than two standard errors, and readers that they help by less than 20 points beat those that agree instead.
2. Three readers start on paths with a degree discount: plain (labels only), deep and sparse (both with consistency).
   After the first epochs the best one is kept, and averaged with another one that is behind by less than one standard
   error. Where sparse is best, a gentle one, with a fifth of its consistency, is asked as well. Where labels vote,
   plain and taught (by the votes) are asked instead of these.
3. The better of degree discount and A ≡ 1, each with the reader that suits it, is the base (where nodes carry vectors
   of walks, a node's own). Closed-form and then
   learned weights challenge what is left; they have to be right more often by more than one standard error, or as often
   and less surprised by more than two. For weights that win the readers are chosen again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy.typing as npt

from cge.errors import CgeWarning, Message
from cge.models.edge_weighting import EdgePropagation, EdgeWeighting
from cge.models.path_networks import PathWeighting, make_network
from cge.training.candidates import CandidateTraining, SearchResult
from cge.training.classifier_recipes import CLASSIFIERS
from cge.training.learned_weighting import learn_weighting
from cge.training.model_comparison import (
    CandidateScore,
    accuracy_gain,
    closed_form_weightings,
    hop_profiles,
    is_better,
    log_loss_gain,
)
from cge.training.named_weighting import NamedWeighting
from cge.training.torch_state import seeded

__all__ = ["MIN_VALIDATION", "ModelSearch", "SearchResult", "Selection"]

Array = npt.NDArray[Any]

_Challenger: TypeAlias = tuple[NamedWeighting, tuple[str, ...], float]  # readers, and the standard errors to win by

MIN_VALIDATION = 5  # labels that can tell candidates apart at all
_NETWORK_NODES = 200  # labeled nodes whose paths a network weighs in a step
_VOTES_WORK = 2e10  # labels times steps: excluding a node's own label from its votes costs five to ten times as many
_AGREEMENT = 0.2  # more than that agreement never brought


@dataclass(frozen=True, eq=False)
class Selection:
    """What was chosen: the weights, the readers whose chances are averaged, whether labels vote, and the comparison.

    `over_uniform` is by how much the weights are right more often than A ≡ 1 on the selection labels, with the standard
    error of that; None where nobody asked.
    """

    weighting: NamedWeighting
    classifiers: tuple[str, ...]
    label_propagation: bool
    results: tuple[SearchResult, ...] = field(default=())
    gain_over_uniform: tuple[float, float] | None = None


def _kind(classifier: str) -> tuple[bool, bool]:
    recipe = CLASSIFIERS[classifier]
    return recipe.scores, recipe.settings.distilled


class ModelSearch(CandidateTraining):
    """Decides how a task is learned, by trials on its selection labels."""

    @property
    def _selecting(self) -> bool:
        return len(self.task.validation) >= MIN_VALIDATION

    @cached_property
    def _priors(self) -> dict[str, EdgeWeighting]:
        return closed_form_weightings(self.data.edge_scale.names, self.settings.hops)

    def make(self) -> Selection:
        """Return the plan. Without selection labels nothing is compared, and what is open follows a fixed choice."""
        self.label_propagation = self.settings.label_propagation == "yes" or self.settings.classifier == "distilled"
        weights = self._first_weights()
        affordable = len(self.task.train) * len(self.data.transitions) < _VOTES_WORK
        undecided = (
            self.settings.label_propagation == "auto" and not self.label_propagation and self._selecting and affordable
        )
        if undecided:
            self.label_propagation = self._label_propagation_helps(weights)
        classifiers = self.classifiers(weights)
        if self.settings.weighting == "auto" and self._selecting:
            first, weights = weights.name, self._search_weightings(weights, classifiers)
            if weights.name != first:
                classifiers = self.classifiers(weights)  # other weights may suit other readers
        over_uniform = self._over_none(weights, classifiers[0])
        self.keep(weights.name)
        return Selection(weights, classifiers, self.label_propagation, tuple(self.results), over_uniform)

    # ------------------------------------------------------------------ weights

    def _first_weights(self) -> NamedWeighting:
        """Return the weights that were asked for, or with "auto" those that others will challenge."""
        asked = self.settings.weighting
        if isinstance(asked, str) and asked in self._priors:
            return self._prior(asked)
        if asked == "auto":
            # Vectors of walks hold already what paths of many steps bring: a node's own is the simplest to read.
            return self._prior("degree") if self.data.walk_vectors is None else self._hop_profile("own")
        start = self.best_closed_form("degree", "uniform", "cosine")
        for name in self._priors:
            self.release(name)
        return self.learned(asked, start)

    def _prior(self, name: str) -> NamedWeighting:
        return NamedWeighting(name, self._priors[name])

    def _hop_profile(self, name: str) -> NamedWeighting:
        return NamedWeighting(name, hop_profiles(self.data.edge_scale.names, self.settings.hops)[name])

    def best_closed_form(self, *names: str) -> NamedWeighting:
        """Return the prior that the plain reader does best with; the first one where they are level."""
        there = [name for name in names if name in self._priors]
        if not self._selecting or len(there) == 1:
            return self._prior(there[0])
        judged = {name: self.evaluate_candidate(self._prior(name), "mlp") for name in there}
        return self._prior(max(judged, key=lambda name: judged[name].accuracy))

    def learned(self, kind: str | Callable[[int], PathWeighting], start: NamedWeighting) -> NamedWeighting:
        """Return weights learned on folds of the training labels: of steps, from a start, or of a network."""
        settings = replace(self.settings.outer(self.problem_size, len(self.task.folds)), n_jobs=self.data.n_jobs)
        if kind in ("edges", "edges+hops"):
            module: Any = deepcopy(start.module)
            weights = NamedWeighting(str(kind), module)
            propagation: Any = EdgePropagation(
                self.data.transitions, self.data.edge_inputs, module, train_hops=kind != "edges"
            )
        else:
            with seeded(self.settings.seed, "network"):
                network: Any = make_network(kind, int(self.data.token_vectors(self.settings.seed).shape[1]))
            network.init_uniform()
            sampled = (self.settings.walks_per_node, self.settings.seed)
            weights = NamedWeighting(kind if isinstance(kind, str) else "custom", network, sampled, start)
            propagation = weights.trainable(self.data, self.task.train.numpy())
            settings = replace(settings, nodes=_NETWORK_NODES)
        inputs = self.data.inputs("l2")
        learned = learn_weighting(self.task, inputs, propagation, settings, class_weights=self.class_weights)
        if not learned.learned and self.settings.weighting != "auto":
            problem = Message.of(
                "training {weighting} changed nothing: with weights learned on some of the training labels, the others "
                "were predicted no better than by chance; the weights are those of ",
                weighting=weights.name,
            )
            warnings.warn(CgeWarning(Message(problem, repr(start.name))), stacklevel=8)  # the line that called `fit`
        weights.module.eval()
        return weights

    def _search_weightings(self, base: NamedWeighting, classifiers: tuple[str, ...]) -> NamedWeighting:
        """Let A ≡ 1, closed-form and learned weights challenge the base; return what is kept."""
        incumbent = self._best(base, classifiers)
        if base.name == "degree":
            found, lost = self._best(self._prior("uniform"), classifiers, incumbent), "uniform"
            # It is as simple as the degree discount, so no margin is asked for; but hits and surprise have to agree.
            if found.accuracy > incumbent.accuracy and log_loss_gain(found, incumbent)[0] > 0:
                base, incumbent, lost = self._prior("uniform"), found, base.name
            self.release(lost)
        first = base.name
        base, incumbent = self._compare_candidates(self._closed_form(base, classifiers), base, incumbent)
        return self._compare_candidates(self._learned_ones(first, base, classifiers), base, incumbent)[0]

    def _compare_candidates(
        self, challengers: Iterator[_Challenger], base: NamedWeighting, incumbent: CandidateScore
    ) -> tuple[NamedWeighting, CandidateScore]:
        """Let challengers try one by one; each has to beat what is left. Return that, and how it does."""
        for candidate, classifiers, errors in challengers:
            found, lost = self._best(candidate, classifiers, incumbent), candidate.name
            if is_better(found, incumbent, errors, more=1):
                base, incumbent, lost = candidate, found, base.name
            if lost != base.name:
                self.release(lost)
        return base, incumbent

    def _closed_form(self, base: NamedWeighting, classifiers: tuple[str, ...]) -> Iterator[_Challenger]:
        """Yield closed-form weights: the simpler ones first, as long as work is left.

        Hop profiles are many: they leave what learning weights once costs.
        """
        for name in ("uniform", "degree", "cosine") if base.name == "own" else ("cosine",):
            if name in self._priors and self.within_budget(classifiers):
                yield self._prior(name), classifiers, 1.0
        if self._may_differ(classifiers):
            learning = self._learning() if len(self.task.folds) > 1 else 0.0
            kept_back = (
                learning + self.evaluation_cost(classifiers)
                if learning and self.within_budget(classifiers, learning)
                else 0.0
            )
            for name, module in hop_profiles(self.data.edge_scale.names, self.settings.hops).items():
                if self.within_budget(("mlp",), kept_back):
                    # One of a dozen is ahead by chance more easily than one alone.
                    yield NamedWeighting(name, module), ("mlp",), 1.0 if name == "own" else 2.0

    def _learned_ones(self, first: str, kept: NamedWeighting, classifiers: tuple[str, ...]) -> Iterator[_Challenger]:
        """Yield learned weights, as long as work is left.

        They start from the better of the first base and the cosine, or from a hop profile that beat them.
        """
        learning, profile = self._learning(), kept.name not in self._priors
        for kind in ("edges", "edges+hops")[: 1 + self._may_differ(classifiers)] if len(self.task.folds) > 1 else ():
            if kind == "edges" and kept.name == "own":  # there are no steps to weigh
                continue
            if self.within_budget(classifiers, learning):
                self.budget -= learning
                firsts = (first,) if first in self._priors else ("degree", "uniform")
                start = kept if profile else self.best_closed_form(*firsts, "cosine")
                yield self.learned(kind, start), classifiers, 1.0

    def _may_differ(self, classifiers: tuple[str, ...]) -> bool:
        """Say whether neighbors may differ: agreement is of no use and a plain reader best; there hops and b matter."""
        return "mlp" in classifiers and not self.label_propagation

    def _learning(self) -> float:
        """Return the products in learning weights once."""
        return self.settings.learning(self.problem_size, len(self.task.folds))

    def _best(
        self, weights: NamedWeighting, classifiers: tuple[str, ...], incumbent: CandidateScore | None = None
    ) -> CandidateScore:
        """Return how weights do with the reader that does best with them."""
        judged = {classifier: self.evaluate_candidate(weights, classifier) for classifier in classifiers}
        best = max(judged, key=lambda classifier: judged[classifier].accuracy)
        self._note(weights.name, best, judged[best], incumbent)
        return judged[best]

    def _over_none(self, weights: NamedWeighting, classifier: str) -> tuple[float, float] | None:
        """Return how weights that were learned or chosen do against A ≡ 1, in the first epochs."""
        asked = self.settings.weighting
        if not self._selecting or weights.name == "uniform" or (isinstance(asked, str) and asked in self._priors):
            return None
        judged = [
            one
            for (name, _, label_propagation), one in self.scores.items()
            if (name, label_propagation) == ("uniform", self.label_propagation)
        ]
        equal = judged or [self.evaluate_candidate(self._prior("uniform"), classifier)]
        return accuracy_gain(self.evaluate_candidate(weights, classifier), max(equal, key=lambda one: one.accuracy))

    # ------------------------------------------------------------------ readers and votes

    def classifiers(self, weights: NamedWeighting) -> tuple[str, ...]:
        """Return the readers that are left after the first epochs, the best first."""
        asked = self.settings.classifier
        if asked != "auto" or not self._selecting:
            return ("mlp" if asked == "auto" else asked,)  # agreement needs watching, lest all agree on one class
        asked_of: tuple[str, ...] = ("mlp", "consistency", "sparse")
        if self.label_propagation:  # where the selection labels said so, agreement has lost already
            asked_of = ("mlp", "distilled") if self.settings.label_propagation == "auto" else (*asked_of, "distilled")
        judged = {classifier: self.evaluate_candidate(weights, classifier) for classifier in self._affordable(asked_of)}
        best = max(judged, key=lambda classifier: judged[classifier].accuracy)
        if best == "sparse":
            judged["sparse-light"] = self.evaluate_candidate(weights, "sparse-light")
            best = "sparse-light" if is_better(judged["sparse-light"], judged[best]) else best
        for classifier, one in judged.items():
            self._note(weights.name, classifier, one, None if classifier == best else judged[best])
        # Readers that err differently are worth averaging: sparse and deep ones, pupils and others.
        level = [
            classifier
            for classifier in judged
            if classifier != best and not is_better(judged[best], judged[classifier])
        ]
        partner = [classifier for classifier in level if _kind(classifier) != _kind(best)]
        return (best, *sorted(partner, key=lambda classifier: -judged[classifier].accuracy)[:1])

    def _affordable(self, classifiers: tuple[str, ...]) -> list[str]:
        return [
            classifier for classifier in classifiers if self.settings.affordable(classifier, self._width(classifier))
        ]

    def _label_propagation_helps(self, weights: NamedWeighting) -> bool:
        """Say whether known labels at the ends of paths help a plain reader, clearly, and more than agreement does."""
        found, incumbent = (
            self.evaluate_candidate(weights, "mlp", label_propagation=True),
            self.evaluate_candidate(weights, "mlp", label_propagation=False),
        )
        self._note(weights.name, "mlp", found, incumbent, label_propagation=True)
        gain, error = accuracy_gain(found, incumbent)
        if gain <= 2 * error:
            return False
        if gain > _AGREEMENT or self.settings.classifier != "auto":
            return True
        others = self._affordable(("consistency", "sparse"))
        agreeing = max(
            (self.evaluate_candidate(weights, name, label_propagation=False).accuracy for name in others), default=0.0
        )
        return (
            max(found.accuracy, self.evaluate_candidate(weights, "distilled", label_propagation=True).accuracy)
            > agreeing
        )

    def _note(
        self,
        weights: str,
        classifier: str,
        found: CandidateScore,
        incumbent: CandidateScore | None,
        label_propagation: bool | None = None,
    ) -> None:
        told: tuple[float | None, ...] = (None,) * 4
        if incumbent is not None:
            told = *accuracy_gain(found, incumbent), *log_loss_gain(found, incumbent)
        labels = self.label_propagation if label_propagation is None else label_propagation
        self.results.append(SearchResult(weights, classifier, labels, found.accuracy, *told))
