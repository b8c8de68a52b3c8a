"""The candidates of the model search and the memory of a fit, which `cge fit --dry-run` prints.

Candidates are derived from the registries of weightings and classifiers, the settings and the size of the problem,
before anything is trained; their conditions on earlier results are evaluated just before each. The *reference* is the
weighting with which the search begins: that of the settings or, with "auto", `degree` (`0 hops` for inputs="walks" if
there are validation labels to compare it with others).
The stages:

- *weight initialization*: which closed form a learned weighting starts from. It comes first if the settings name a
  learned weighting; with "auto" it runs during the stage *classifier* if a weighting is learned there, otherwise in the
  stage *weighting*, after the fixed ones if hop profiles or equal weights of metapaths are among them;
- *label propagation*: whether propagated training labels are added to the class scores;
- *classifier*: which classifiers suit the reference;
- *weighting*: which weighting replaces the reference, fixed ones first, as far as the work budget allows;
- *final classifier*: which classifiers suit the selected weighting, if it is not the reference;
- *uniform weights*: for comparison, if they were not evaluated before;
- *final training*: the selected model and those averaged with it, which are trained until they stop.

With fewer than five validation labels only the last stage remains. With more, but nothing 'auto', a learned weighting
also has the stages weight initialization and uniform weights. There is no estimate of seconds: the time depends on
which candidates win and when early stopping ends their training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from cge.models.weightings import WEIGHTINGS, WeightingSpec, is_hop_profile
from cge.training.classifier_registry import CLASSIFIERS, DEFAULT_CLASSIFIER
from cge.training.data_size import DataSize
from cge.training.encoder_settings import EncoderSettings, ProblemSize, Work

SELECTED = "as selected"  # by earlier stages
CUSTOM = "custom"  # the name of a weighting that was passed as a callable
MIN_VALIDATION = 5  # validation labels; fewer cannot distinguish candidates
MAX_GAIN = 0.2  # accuracy: with a larger gain, label propagation is used without comparing its alternatives
MAX_AVERAGED = 5  # candidates whose probabilities are averaged
AVERAGING_MARGIN = 1.0  # standard error by which the best candidate must be better than one that is not averaged
_BASE_MEMORY = 560e6  # bytes of Python, PyTorch and compiled kernels
_LABEL_WORK = 2e10  # training labels times transitions: leave-one-out label propagation takes 5 to 10 times as much


@dataclass(frozen=True)
class SearchProblem:
    """What the candidates depend on besides settings: sizes, numbers of labels, and the node inputs."""

    size: ProblemSize
    n_train: int
    n_validation: int
    n_folds: int
    features: bool
    inputs: str  # "features", "learned" or "walks"
    relations: bool = False  # whether the graph has several relations

    @classmethod
    def of(cls, data: DataSize, size: ProblemSize, labels: tuple[int, int], n_folds: int) -> SearchProblem:
        """Return the problem of some data, with the numbers of training and validation labels."""
        return cls(size, *labels, n_folds, data.features, data.inputs, data.relations)


@dataclass
class SearchState:
    """What the search has selected so far, for the conditions of candidates."""

    reference: str
    label_propagation: bool
    propagation_gain: float = 0.0  # in accuracy, with the default classifier; 0 unless above two standard errors
    propagation_doubles: bool = False  # whether the gain is larger than the accuracy without label propagation
    best_classifier: str = ""
    classifiers: tuple[str, ...] = ()
    fixed_weighting: str = ""  # the best weighting in which nothing is learned
    weighting: str = ""
    weighting_gains: bool = False  # whether the selected weighting is better than the reference by one standard error
    evaluated: set[str] = field(default_factory=set)  # weightings, with label propagation as selected


@dataclass(frozen=True)
class Condition:
    """A condition on earlier results, in words and as a function of the state of the search."""

    text: str
    holds: Callable[[SearchState], bool]


@dataclass(frozen=True)
class Candidate:
    """A model that the search trains for some epochs and compares, if all its `conditions` hold by then.

    `weighting`, `classifier` and `label_propagation` ("yes" or "no") are names or `SELECTED`. Those that are `required`
    are evaluated whatever remains of the budget. `work` is in multiplications.
    """

    stage: str
    weighting: str
    classifier: str
    label_propagation: str
    inputs: str
    work: float
    conditions: tuple[Condition, ...] = ()
    required: bool = False

    def is_active(self, state: SearchState) -> bool:
        """Return whether its conditions hold."""
        return all(condition.holds(state) for condition in self.conditions)

    def row(self) -> dict[str, str | float]:
        """Return it as a row of a table."""
        names = ("stage", "weighting", "classifier", "label_propagation", "inputs", "work")
        condition = ", ".join(condition.text for condition in self.conditions)
        return {name: getattr(self, name) for name in names} | {"condition": condition}


_WITH_PROPAGATION = Condition("if label propagation is selected", lambda state: state.label_propagation)
_WITHOUT_PROPAGATION = Condition("if label propagation is not selected", lambda state: not state.label_propagation)
_SMALL_GAIN = Condition(
    f"if label propagation gains more than 2 standard errors and at most {100 * MAX_GAIN:.0f} percentage points",
    lambda state: 0 < state.propagation_gain <= MAX_GAIN,
)
_MLP_ONLY = Condition(
    f"if {DEFAULT_CLASSIFIER} is best or ties with the best, without label propagation",
    lambda state: DEFAULT_CLASSIFIER in state.classifiers and not state.label_propagation,
)
_USES_EDGES = Condition("unless 0 hops is best", lambda state: state.fixed_weighting != "0 hops")
_CHANGED = Condition(
    "if the selected weighting is not the reference, and better by one standard error or this classifier was best or "
    "tied with the best",
    lambda state: state.weighting != state.reference,
)
_NOT_UNIFORM = Condition("unless uniform was compared", lambda state: "uniform" not in state.evaluated)
_NOT_DOUBLED = Condition(
    "unless label propagation more than doubles the accuracy", lambda state: not state.propagation_doubles
)
_NOT_DEFAULT = Condition(
    f"if {DEFAULT_CLASSIFIER} is not the best", lambda state: state.classifiers[:1] != (DEFAULT_CLASSIFIER,)
)
_NO_HOP_PROFILE = Condition("unless a hop profile is best", lambda state: not is_hop_profile(state.fixed_weighting))


def _best_is(classifier: str) -> Condition:
    return Condition(f"if {classifier} is best", lambda state: state.best_classifier == classifier)


def reference_name(settings: EncoderSettings, inputs: str, n_validation: int) -> str:
    """Return the name of the reference: the weighting of the settings, or with "auto" a closed form.

    Walk vectors already describe the neighborhood; but where nothing is compared, explanations should have paths.
    """
    if not isinstance(settings.weighting, str):
        return CUSTOM
    if settings.weighting != "auto":
        return settings.weighting
    return "0 hops" if inputs == "walks" and n_validation >= MIN_VALIDATION else "degree"


def list_candidates(problem: SearchProblem, settings: EncoderSettings) -> list[Candidate]:
    """Return all candidates that a search may evaluate, in their order."""
    return list(_CandidateList(problem, settings).candidates())


class _CandidateList:
    """Derives the candidates of a search from its settings and the size of the problem."""

    def __init__(self, problem: SearchProblem, settings: EncoderSettings) -> None:
        self.problem, self.settings, self.work = problem, settings, Work(settings, problem.size)
        self.reference = reference_name(settings, problem.inputs, problem.n_validation)
        required = settings.classifier != "auto" and CLASSIFIERS[settings.classifier].requires_label_propagation
        self.can_select = problem.n_validation >= MIN_VALIDATION
        affordable = problem.n_train * problem.size.transitions < _LABEL_WORK
        optional = settings.label_propagation == "auto" and not required
        self.select_propagation = optional and self.can_select and affordable
        self.propagation = "yes" if settings.label_propagation is True or required else "no"
        self.select_classifier = settings.classifier == "auto" and self.can_select
        self.select_weighting = settings.weighting == "auto" and self.can_select
        self.selected_propagation = SELECTED if self.select_propagation else self.propagation

    def candidates(self) -> Iterator[Candidate]:
        if self.can_select:
            learned = self.reference not in WEIGHTINGS or WEIGHTINGS[self.reference].kind != "closed form"
            if learned:
                yield from self._initial_weightings(self.propagation)
            if self.select_propagation:
                yield from self._label_propagation()
            if self.select_classifier:
                yield from self._classifiers("classifier", self.reference)
            if self.select_weighting:
                yield from self._weightings()
                if self.select_classifier:
                    yield from self._classifiers("final classifier", SELECTED, _CHANGED)
            if (learned or self.select_weighting) and self.reference != "uniform":
                yield self._candidate(
                    "uniform weights", "uniform", self._classifier(), self.selected_propagation, _NOT_UNIFORM
                )
        weighting = SELECTED if self.select_weighting else self.reference
        yield self._candidate("final training", weighting, self._classifier(), self.selected_propagation)

    def _candidate(
        self, stage: str, weighting: str, classifier: str, propagation: str, *conditions: Condition
    ) -> Candidate:
        names = [name for name in CLASSIFIERS if self.work.affordable(name)] if classifier == SELECTED else [classifier]
        continued = weighting not in (self.reference, SELECTED)
        work = max(self.work.evaluation(name, continued=continued) for name in names)
        return Candidate(stage, weighting, classifier, propagation, self.problem.inputs, work, conditions)

    def _classifier(self) -> str:
        if self.select_classifier:
            return SELECTED
        return DEFAULT_CLASSIFIER if self.settings.classifier == "auto" else self.settings.classifier

    def _specs(self, *groups: str) -> list[WeightingSpec]:
        """Return the weightings of some groups that can be used, group by group."""
        problem = self.settings.hops, self.problem.features, self.problem.relations
        specs = [spec for spec in WEIGHTINGS.values() if spec.applies(*problem)]
        return [spec for group in groups for spec in specs if spec.search is not None and spec.search.group == group]

    def _initial_weightings(self, propagation: str, *conditions: Condition) -> Iterator[Candidate]:
        specs = sorted(self._specs("simple", "closed form"), key=lambda spec: spec.name != "degree")
        for spec in specs:
            yield self._candidate("weight initialization", spec.name, DEFAULT_CLASSIFIER, propagation, *conditions)

    def _label_propagation(self) -> Iterator[Candidate]:
        for propagation in ("yes", "no"):
            yield self._candidate("label propagation", self.reference, DEFAULT_CLASSIFIER, propagation)
        if not self.select_classifier:
            return
        for name, spec in CLASSIFIERS.items():
            if spec.search and spec.alternative_to_label_propagation and self.work.affordable(name):
                yield self._candidate("label propagation", self.reference, name, "no", _SMALL_GAIN)
        for name, spec in CLASSIFIERS.items():
            if spec.search and spec.requires_label_propagation:
                yield self._candidate("label propagation", self.reference, name, "yes", _SMALL_GAIN)

    def _classifiers(self, stage: str, weighting: str, *conditions: Condition) -> Iterator[Candidate]:
        propagation = self.selected_propagation
        for name, spec in CLASSIFIERS.items():
            if not spec.search or spec.refines is not None or not self.work.affordable(name):
                continue
            if spec.requires_label_propagation and propagation == "no":
                continue
            needed: tuple[Condition, ...] = ()
            if self.select_propagation and spec.requires_label_propagation:
                needed = (_WITH_PROPAGATION,)
            elif self.select_propagation and spec.alternative_to_label_propagation:
                needed = (_WITHOUT_PROPAGATION,)
            yield self._candidate(stage, weighting, name, propagation, *needed, *conditions)
        for name, spec in CLASSIFIERS.items():
            if spec.search and spec.refines is not None:
                yield self._candidate(stage, weighting, name, propagation, _best_is(spec.refines), *conditions)

    def _weightings(self) -> Iterator[Candidate]:
        """Yield the weightings that may replace the reference."""
        simple = self._specs("simple")
        reference_is_simple = self.reference in {spec.name for spec in simple}
        closed_forms = [
            spec for spec in self._specs("simple", "closed form", "hop profile") if spec.name != self.reference
        ]
        pairs = [(spec, *each) for spec in closed_forms for each in self._weighting_classifiers(spec)]
        for spec, classifier, conditions in sorted(pairs, key=lambda pair: _NOT_DEFAULT in pair[2]):
            required = reference_is_simple and spec in simple
            yield from self._weighting(spec, classifier, *conditions, required=required)
        for spec in self._specs("metapaths"):
            for classifier, _ in self._weighting_classifiers(spec):
                yield from self._weighting(spec, classifier)
        learning = self.work.learning(self.problem.n_folds)
        if self.problem.n_folds >= 2 and learning <= self.work.search_budget():
            not_doubled = (_NOT_DOUBLED,) if self.select_propagation else ()
            yield from self._initial_weightings(self.selected_propagation, _NO_HOP_PROFILE, *not_doubled)
            for spec in self._specs("learned"):
                conditions = not_doubled if spec.train_hops else (_USES_EDGES, *not_doubled)
                for classifier, needed in self._weighting_classifiers(spec):
                    for candidate in self._weighting(spec, classifier, *needed, *conditions):
                        yield replace(candidate, work=candidate.work + learning)

    def _weighting_classifiers(self, spec: WeightingSpec) -> list[tuple[str, tuple[Condition, ...]]]:
        """Return the classifiers with which a weighting is compared, with their conditions.

        Besides the best one under the reference it is the default: consistency may fail under bad weights, so that the
        best classifier under a better weighting is another one.
        """
        if is_hop_profile(spec.name):
            return [(DEFAULT_CLASSIFIER, ())]
        if not self.select_classifier:
            return [(self._classifier(), ())]
        if spec.metapaths:  # fast ones, which suit short paths
            return [(DEFAULT_CLASSIFIER, ()), ("logistic-unit", ())]
        return [(SELECTED, ()), (DEFAULT_CLASSIFIER, (_NOT_DEFAULT,))]

    def _weighting(
        self, spec: WeightingSpec, classifier: str, *conditions: Condition, required: bool = False
    ) -> Iterator[Candidate]:
        mlp_possible = self._classifier() in (SELECTED, DEFAULT_CLASSIFIER) and self.selected_propagation != "yes"
        if spec.search is not None and (mlp_possible or not spec.search.mlp_only):
            conditions = (_MLP_ONLY, *conditions) if spec.search.mlp_only else conditions
            candidate = self._candidate("weighting", spec.name, classifier, self.selected_propagation, *conditions)
            yield replace(candidate, required=required)


def encoder_memory(candidates: Sequence[Candidate], work: Work, *, nodes: int, entries: int, columns: int) -> float:
    """Return about how many bytes a fit of the path encoder needs; `entries` and `columns` are those of the inputs.

    The training runs of the reference, of a candidate compared with it, and of averaged weightings are in memory at
    the same time.
    """
    settings, size, name = work.settings, work.size, candidates[-1].weighting
    first = {
        (candidate.classifier, candidate.label_propagation)
        for candidate in candidates
        if candidate.stage != "weighting"
    }
    named = [classifier for classifier, _ in first if classifier != SELECTED]
    compared = set(named) if any(candidate.stage == "weighting" for candidate in candidates) else set()
    widest = max((work.spec(name).settings.n_augmentations * work.propagated_dim(name) for name in named), default=0)
    averaged = MAX_AVERAGED - 1 if compared else 0
    in_memory = sum(map(work.propagated_dim, [*named, *compared])) + averaged * settings.dim
    network = name != SELECTED and (name not in WEIGHTINGS or WEIGHTINGS[name].network is not None)
    sampled = settings.walks_per_node * (settings.hops + 1) if network else 0
    counted = (
        200 * size.transitions
        + 60 * entries
        + 4 * nodes * (6 * widest + 8 * size.classes)
        + 20 * columns * in_memory  # parameters, their gradient, two moments, the best epoch
        + 60 * nodes * sampled
        + 4 * nodes * size.columns * averaged  # dense inputs, propagated
    )
    return _BASE_MEMORY + 1.3 * counted  # a margin for everything else


def paper_memory(
    weighting: str, nodes: int, entries: int, *, dim: int, walks_per_node: int, walk_length: int, window: int
) -> float:
    """Return about how many bytes a fit of the paper's algorithm needs; `entries` are those of the features."""
    pairs = nodes * walks_per_node * sum(walk_length - gap for gap in range(1, min(window, walk_length)))
    paths = 0 if weighting == "uniform" else 120 * pairs  # the table of distinct paths
    return _BASE_MEMORY + 1.1 * (paths + 12 * nodes * dim + 24 * entries)
