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

from cge.errors import CgeWarning
from cge.models.gates import StepPooling, StepWeighting
from cge.models.weighting import PathWeighting, make_weighting
from cge.training.guard import Screened, better, difference, priors, profiles, surprise_saved
from cge.training.parameters import seeded
from cge.training.path_data import PathWeights
from cge.training.path_weights import learn_weights
from cge.training.recipes import READERS
from cge.training.trials import Compared, Trials

__all__ = ["FEWEST_SELECTING", "Compared", "Plan", "PlanMaker"]

Array = npt.NDArray[Any]

_Challenger: TypeAlias = tuple[PathWeights, tuple[str, ...], float]  # readers, and the standard errors to win by

FEWEST_SELECTING = 5  # labels that can tell candidates apart at all
_NETWORK_NODES = 200  # labeled nodes whose paths a network weighs in a step
_VOTES_WORK = 2e10  # labels times steps: excluding a node's own label from its votes costs five to ten times as many
_AGREEMENT = 0.2  # more than that agreement never brought


@dataclass(frozen=True, eq=False)
class Plan:
    """What was chosen: the weights, the readers whose chances are averaged, whether labels vote, and the comparison.

    `over_none` is by how much the weights are right more often than A ≡ 1 on the selection labels, with the standard
    error of that; None where nobody asked.
    """

    weights: PathWeights
    readers: tuple[str, ...]
    votes: bool
    compared: tuple[Compared, ...] = field(default=())
    over_none: tuple[float, float] | None = None


def _kind(reader: str) -> tuple[bool, bool]:
    recipe = READERS[reader]
    return recipe.scores, recipe.settings.taught


class PlanMaker(Trials):
    """Decides how a task is learned, by trials on its selection labels."""

    @property
    def _selecting(self) -> bool:
        return len(self.task.validation) >= FEWEST_SELECTING

    @cached_property
    def _priors(self) -> dict[str, StepWeighting]:
        return priors(self.data.scale.names, self.settings.hops)

    def make(self) -> Plan:
        """Return the plan. Without selection labels nothing is compared, and what is open follows a fixed choice."""
        self.voting = self.settings.label_votes == "yes" or self.settings.reader == "taught"
        weights = self._first_weights()
        affordable = len(self.task.train) * len(self.data.steps) < _VOTES_WORK
        open_votes = self.settings.label_votes == "auto" and not self.voting and self._selecting and affordable
        if open_votes:
            self.voting = self._votes_help(weights)
        readers = self.readers(weights)
        if self.settings.weighting == "auto" and self._selecting:
            first, weights = weights.name, self._challenged(weights, readers)
            if weights.name != first:
                readers = self.readers(weights)  # other weights may suit other readers
        over_none = self._over_none(weights, readers[0])
        self.keep(weights.name)
        return Plan(weights, readers, self.voting, tuple(self.compared), over_none)

    # ------------------------------------------------------------------ weights

    def _first_weights(self) -> PathWeights:
        """Return the weights that were asked for, or with "auto" those that others will challenge."""
        asked = self.settings.weighting
        if isinstance(asked, str) and asked in self._priors:
            return self._prior(asked)
        if asked == "auto":
            # Vectors of walks hold already what paths of many steps bring: a node's own is the simplest to read.
            return self._prior("degree") if self.data.table is None else self._profile("own")
        start = self.likelier("degree", "none", "cosine")
        for name in self._priors:
            self.let_go(name)
        return self.learned(asked, start)

    def _prior(self, name: str) -> PathWeights:
        return PathWeights(name, self._priors[name])

    def _profile(self, name: str) -> PathWeights:
        return PathWeights(name, profiles(self.data.scale.names, self.settings.hops)[name])

    def likelier(self, *names: str) -> PathWeights:
        """Return the prior that the plain reader does best with; the first one where they are level."""
        there = [name for name in names if name in self._priors]
        if not self._selecting or len(there) == 1:
            return self._prior(there[0])
        judged = {name: self.judge(self._prior(name), "plain") for name in there}
        return self._prior(max(judged, key=lambda name: judged[name].accuracy))

    def learned(self, kind: str | Callable[[int], PathWeighting], start: PathWeights) -> PathWeights:
        """Return weights learned on folds of the training labels: of steps, from a start, or of a network."""
        settings = replace(self.settings.outer(self.extent, len(self.task.folds)), threads=self.data.threads)
        if kind in ("gates", "steps"):
            module: Any = deepcopy(start.module)
            weights = PathWeights(str(kind), module)
            pooling: Any = StepPooling(self.data.steps, self.data.inputs, module, gates_only=kind == "gates")
        else:
            with seeded(self.settings.seed, "network"):
                network: Any = make_weighting(kind, int(self.data.items(self.settings.seed).shape[1]))
            network.even()
            sampled = (self.settings.walks_per_node, self.settings.seed)
            weights = PathWeights(kind if isinstance(kind, str) else "custom", network, sampled, start)
            pooling = weights.learnable(self.data, self.task.train.numpy())
            settings = replace(settings, nodes=_NETWORK_NODES)
        payload = self.data.payload("l2")
        learned = learn_weights(self.task, payload, pooling, settings, class_weights=self.class_weights)
        if not learned.taught and self.settings.weighting != "auto":
            warnings.warn(
                f"the training labels taught weighting={weights.name!r} nothing: with weights learned on some of them, "
                f"others were not predicted better than by guessing; the weights are those of {start.name!r}",
                CgeWarning,
                stacklevel=8,  # who called `fit`
            )
        weights.module.eval()
        return weights

    def _challenged(self, base: PathWeights, readers: tuple[str, ...]) -> PathWeights:
        """Let A ≡ 1, closed-form and learned weights challenge the base; return what is kept."""
        holder = self._best(base, readers)
        if base.name == "degree":
            found, lost = self._best(self._prior("none"), readers, holder), "none"
            # It is as simple as the degree discount, so no margin is asked for; but hits and surprise have to agree.
            if found.accuracy > holder.accuracy and surprise_saved(found, holder)[0] > 0:
                base, holder, lost = self._prior("none"), found, base.name
            self.let_go(lost)
        first = base.name
        base, holder = self._contest(self._closed_form(base, readers), base, holder)
        return self._contest(self._learned_ones(first, base, readers), base, holder)[0]

    def _contest(
        self, challengers: Iterator[_Challenger], base: PathWeights, holder: Screened
    ) -> tuple[PathWeights, Screened]:
        """Let challengers try one by one; each has to beat what is left. Return that, and how it does."""
        for challenger, readers, errors in challengers:
            found, lost = self._best(challenger, readers, holder), challenger.name
            if better(found, holder, errors, more=1):
                base, holder, lost = challenger, found, base.name
            if lost != base.name:
                self.let_go(lost)
        return base, holder

    def _closed_form(self, base: PathWeights, readers: tuple[str, ...]) -> Iterator[_Challenger]:
        """Yield closed-form weights: the simpler ones first, as long as work is left.

        Hop profiles are many: they leave what learning weights once costs.
        """
        for name in ("none", "degree", "cosine") if base.name == "own" else ("cosine",):
            if name in self._priors and self.affords(readers):
                yield self._prior(name), readers, 1.0
        if self._may_differ(readers):
            learning = self._learning() if len(self.task.folds) > 1 else 0.0
            kept_back = learning + self.judging(readers) if learning and self.affords(readers, learning) else 0.0
            for name, module in profiles(self.data.scale.names, self.settings.hops).items():
                if self.affords(("plain",), kept_back):
                    # One of a dozen is ahead by chance more easily than one alone.
                    yield PathWeights(name, module), ("plain",), 1.0 if name == "own" else 2.0

    def _learned_ones(self, first: str, kept: PathWeights, readers: tuple[str, ...]) -> Iterator[_Challenger]:
        """Yield learned weights, as long as work is left.

        They start from the better of the first base and the cosine, or from a hop profile that beat them.
        """
        learning, profile = self._learning(), kept.name not in self._priors
        for kind in ("gates", "steps")[: 1 + self._may_differ(readers)] if len(self.task.folds) > 1 else ():
            if kind == "gates" and kept.name == "own":  # there are no steps to weigh
                continue
            if self.affords(readers, learning):
                self.left -= learning
                firsts = (first,) if first in self._priors else ("degree", "none")
                start = kept if profile else self.likelier(*firsts, "cosine")
                yield self.learned(kind, start), readers, 1.0

    def _may_differ(self, readers: tuple[str, ...]) -> bool:
        """Say whether neighbors may differ: agreement is of no use and a plain reader best; there hops and b matter."""
        return "plain" in readers and not self.voting

    def _learning(self) -> float:
        """Return the products in learning weights once."""
        return self.settings.learning(self.extent, len(self.task.folds))

    def _best(self, weights: PathWeights, readers: tuple[str, ...], holder: Screened | None = None) -> Screened:
        """Return how weights do with the reader that does best with them."""
        judged = {reader: self.judge(weights, reader) for reader in readers}
        best = max(judged, key=lambda reader: judged[reader].accuracy)
        self._note(weights.name, best, judged[best], holder)
        return judged[best]

    def _over_none(self, weights: PathWeights, reader: str) -> tuple[float, float] | None:
        """Return how weights that were learned or chosen do against A ≡ 1, in the first epochs."""
        asked = self.settings.weighting
        if not self._selecting or weights.name == "none" or (isinstance(asked, str) and asked in self._priors):
            return None
        judged = [one for (name, _, votes), one in self.judged.items() if (name, votes) == ("none", self.voting)]
        equal = judged or [self.judge(self._prior("none"), reader)]
        return difference(self.judge(weights, reader), max(equal, key=lambda one: one.accuracy))

    # ------------------------------------------------------------------ readers and votes

    def readers(self, weights: PathWeights) -> tuple[str, ...]:
        """Return the readers that are left after the first epochs, the best first."""
        asked = self.settings.reader
        if asked != "auto" or not self._selecting:
            return ("plain" if asked == "auto" else asked,)  # agreement needs watching, lest all agree on one class
        asked_of: tuple[str, ...] = ("plain", "deep", "sparse")
        if self.voting:  # where the selection labels said so, agreement has lost already
            asked_of = ("plain", "taught") if self.settings.label_votes == "auto" else (*asked_of, "taught")
        judged = {reader: self.judge(weights, reader) for reader in self._bearable(asked_of)}
        best = max(judged, key=lambda reader: judged[reader].accuracy)
        if best == "sparse":
            judged["gentle"] = self.judge(weights, "gentle")
            best = "gentle" if better(judged["gentle"], judged[best]) else best
        for reader, one in judged.items():
            self._note(weights.name, reader, one, None if reader == best else judged[best])
        # Readers that err differently are worth averaging: sparse and deep ones, pupils and others.
        level = [reader for reader in judged if reader != best and not better(judged[best], judged[reader])]
        partner = [reader for reader in level if _kind(reader) != _kind(best)]
        return (best, *sorted(partner, key=lambda reader: -judged[reader].accuracy)[:1])

    def _bearable(self, readers: tuple[str, ...]) -> list[str]:
        return [reader for reader in readers if self.settings.bearable(reader, self._width(reader))]

    def _votes_help(self, weights: PathWeights) -> bool:
        """Say whether known labels at the ends of paths help a plain reader, clearly, and more than agreement does."""
        found, holder = self.judge(weights, "plain", votes=True), self.judge(weights, "plain", votes=False)
        self._note(f"{weights.name} + labels", "plain", found, holder)
        gain, error = difference(found, holder)
        if gain <= 2 * error:
            return False
        if gain > _AGREEMENT or self.settings.reader != "auto":
            return True
        others = self._bearable(("deep", "sparse"))
        agreeing = max((self.judge(weights, name, votes=False).accuracy for name in others), default=0.0)
        return max(found.accuracy, self.judge(weights, "taught", votes=True).accuracy) > agreeing

    def _note(self, weights: str, reader: str, found: Screened, holder: Screened | None) -> None:
        told: tuple[float | None, ...] = (None,) * 4
        if holder is not None:
            told = *difference(found, holder), *surprise_saved(found, holder)
        self.compared.append(Compared(weights, reader, found.accuracy, *told))
