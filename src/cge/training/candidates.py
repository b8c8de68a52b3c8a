"""The candidates of the model search and the memory of a fit, which `cge fit --dry-run` prints.

Candidates are derived from the registries of weightings and classifiers, the settings and the size of the problem,
before anything is trained; their conditions on earlier results are evaluated just before each. The *reference* is the
weighting with which the search begins: that of the settings or, with "auto", `degree` (`0 hops` for inputs="walks").
The stages:

- *weight initialization*: which closed form a learned weighting starts from. It comes first if the settings name a
  learned weighting; with "auto" it is within the stage *weighting*, after the closed forms;
- *label propagation*: whether propagated training labels are added to the class scores;
- *classifier*: which classifiers suit the reference;
- *weighting*: which weighting replaces the reference, closed forms first, as far as the work budget allows;
- *final classifier*: which classifiers suit the selected weighting, if it is not the reference;
- *uniform weights*: for comparison, if they were not evaluated before;
- *final training*: the selected model, which is trained until it stops.

With fewer than five validation labels, or if the settings leave nothing open, only the last stage remains. There is no
estimate of seconds: the time depends on which candidates win and when early stopping ends their training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from cge.models.weightings import WEIGHTINGS, WeightingSpec, is_hop_profile
from cge.training.classifier_registry import CLASSIFIERS, DEFAULT_CLASSIFIER
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


@dataclass
class SearchState:
    """What the search has selected so far, for the conditions of candidates."""

    reference: str
    label_propagation: bool
    propagation_gain: float = 0.0  # in accuracy, with the default classifier; 0 unless above two standard errors
    best_classifier: str = ""
    classifiers: tuple[str, ...] = ()
    closed_form: str = ""  # the best closed form
    weighting: str = ""
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
    f"if label propagation gains more than 2 standard errors, at most {100 * MAX_GAIN:.0f} points",
    lambda state: 0 < state.propagation_gain <= MAX_GAIN,
)
_MLP_ONLY = Condition(
    f"if {DEFAULT_CLASSIFIER} is best or ties with the best, without label propagation",
    lambda state: DEFAULT_CLASSIFIER in state.classifiers and not state.label_propagation,
)
_USES_EDGES = Condition("unless 0 hops is best", lambda state: state.closed_form != "0 hops")
_CHANGED = Condition("if it tied and another weighting is selected", lambda state: state.weighting != state.reference)
_NOT_UNIFORM = Condition("unless uniform was compared", lambda state: "uniform" not in state.evaluated)
_NO_HOP_PROFILE = Condition("unless a hop profile is best", lambda state: not is_hop_profile(state.closed_form))


def _best_is(classifier: str) -> Condition:
    return Condition(f"if {classifier} is best", lambda state: state.best_classifier == classifier)


def reference_name(settings: EncoderSettings, inputs: str) -> str:
    """Return the name of the reference: the weighting of the settings, or with "auto" a closed form."""
    if not isinstance(settings.weighting, str):
        return CUSTOM
    if settings.weighting != "auto":
        return settings.weighting
    return "0 hops" if inputs == "walks" else "degree"  # DeepWalk vectors already describe the neighborhood


def list_candidates(problem: SearchProblem, settings: EncoderSettings) -> list[Candidate]:
    """Return all candidates that a search may evaluate, in their order."""
    return list(_Listing(problem, settings).candidates())


class _Listing:
    def __init__(self, problem: SearchProblem, settings: EncoderSettings) -> None:
        self.problem, self.settings, self.work = problem, settings, Work(settings, problem.size)
        self.reference = reference_name(settings, problem.inputs)
        required = settings.classifier != "auto" and CLASSIFIERS[settings.classifier].requires_label_propagation
        self.selecting = problem.n_validation >= MIN_VALIDATION
        affordable = problem.n_train * problem.size.transitions < _LABEL_WORK
        optional = settings.label_propagation == "auto" and not required
        self.labels_open = optional and self.selecting and affordable
        self.labels = "yes" if settings.label_propagation is True or required else "no"
        self.classifiers_open = settings.classifier == "auto" and self.selecting
        self.weighting_open = settings.weighting == "auto" and self.selecting
        self.selected_labels = SELECTED if self.labels_open else self.labels

    def candidates(self) -> Iterator[Candidate]:
        if self.selecting:
            learned = self.reference not in WEIGHTINGS or WEIGHTINGS[self.reference].kind != "closed form"
            if learned:
                yield from self._starts(self.labels)
            if self.labels_open:
                yield from self._label_propagation()
            if self.classifiers_open:
                yield from self._classifiers("classifier", self.reference)
            if self.weighting_open:
                yield from self._weightings()
                if self.classifiers_open:
                    yield from self._classifiers("final classifier", SELECTED, _CHANGED)
            if (learned or self.weighting_open) and self.reference != "uniform":
                yield self._candidate(
                    "uniform weights", "uniform", self._classifier(), self.selected_labels, _NOT_UNIFORM
                )
        weighting = SELECTED if self.weighting_open else self.reference
        yield self._candidate("final training", weighting, self._classifier(), self.selected_labels)

    def _candidate(self, stage: str, weighting: str, classifier: str, labels: str, *conditions: Condition) -> Candidate:
        affordable = [name for name in CLASSIFIERS if self.work.affordable(name)]
        work = max(map(self.work.evaluation, affordable if classifier == SELECTED else [classifier]))
        return Candidate(stage, weighting, classifier, labels, self.problem.inputs, work, conditions)

    def _classifier(self) -> str:
        if self.classifiers_open:
            return SELECTED
        return DEFAULT_CLASSIFIER if self.settings.classifier == "auto" else self.settings.classifier

    def _specs(self, *groups: str) -> list[WeightingSpec]:
        """Return the weightings of some groups that can be used, group by group."""
        problem = self.settings.hops, self.problem.features, self.problem.relations
        specs = [spec for spec in WEIGHTINGS.values() if spec.applies(*problem)]
        return [spec for group in groups for spec in specs if spec.search is not None and spec.search.group == group]

    def _starts(self, labels: str, *conditions: Condition) -> Iterator[Candidate]:
        specs = sorted(self._specs("simple", "closed form"), key=lambda spec: spec.name != "degree")
        for spec in specs:
            yield self._candidate("weight initialization", spec.name, DEFAULT_CLASSIFIER, labels, *conditions)

    def _label_propagation(self) -> Iterator[Candidate]:
        for labels in ("yes", "no"):
            yield self._candidate("label propagation", self.reference, DEFAULT_CLASSIFIER, labels)
        if not self.classifiers_open:
            return
        for name, spec in CLASSIFIERS.items():
            if spec.search and spec.alternative_to_label_propagation and self.work.affordable(name):
                yield self._candidate("label propagation", self.reference, name, "no", _SMALL_GAIN)
        for name, spec in CLASSIFIERS.items():
            if spec.search and spec.requires_label_propagation:
                yield self._candidate("label propagation", self.reference, name, "yes", _SMALL_GAIN)

    def _classifiers(self, stage: str, weighting: str, *conditions: Condition) -> Iterator[Candidate]:
        labels = self.selected_labels
        for name, spec in CLASSIFIERS.items():
            if not spec.search or spec.refines is not None or not self.work.affordable(name):
                continue
            if spec.requires_label_propagation and labels == "no":
                continue
            propagation: tuple[Condition, ...] = ()
            if self.labels_open and spec.requires_label_propagation:
                propagation = (_WITH_PROPAGATION,)
            elif self.labels_open and spec.alternative_to_label_propagation:
                propagation = (_WITHOUT_PROPAGATION,)
            yield self._candidate(stage, weighting, name, labels, *propagation, *conditions)
        for name, spec in CLASSIFIERS.items():
            if spec.search and spec.refines is not None:
                yield self._candidate(stage, weighting, name, labels, _best_is(spec.refines), *conditions)

    def _weightings(self) -> Iterator[Candidate]:
        """Yield the weightings that may replace the reference."""
        simple = self._specs("simple")
        simple_open = self.reference in {spec.name for spec in simple}
        for spec in self._specs("simple", "closed form", "hop profile"):
            if spec.name != self.reference:
                classifier = DEFAULT_CLASSIFIER if is_hop_profile(spec.name) else self._classifier()
                yield from self._weighting(spec, classifier, required=simple_open and spec in simple)
        for spec in self._specs("metapaths"):
            for classifier in self._metapath_classifiers():
                yield from self._weighting(spec, classifier)
        learning = self.work.learning(self.problem.n_folds)
        if self.problem.n_folds >= 2 and learning <= self.work.search_budget():
            yield from self._starts(self.selected_labels, _NO_HOP_PROFILE)
            for spec in self._specs("learned"):
                conditions = () if spec.train_hops else (_USES_EDGES,)
                for classifier in self._metapath_classifiers() if spec.metapaths else (self._classifier(),):
                    for candidate in self._weighting(spec, classifier, *conditions):
                        yield replace(candidate, work=candidate.work + learning)

    def _metapath_classifiers(self) -> Sequence[str]:
        """Return the classifiers with which weights of metapaths are compared: fast ones, which suit short paths."""
        return (DEFAULT_CLASSIFIER, "logistic-unit") if self.classifiers_open else (self._classifier(),)

    def _weighting(
        self, spec: WeightingSpec, classifier: str, *conditions: Condition, required: bool = False
    ) -> Iterator[Candidate]:
        mlp_possible = self._classifier() in (SELECTED, DEFAULT_CLASSIFIER) and self.selected_labels != "yes"
        if spec.search is not None and (mlp_possible or not spec.search.mlp_only):
            conditions = (_MLP_ONLY, *conditions) if spec.search.mlp_only else conditions
            candidate = self._candidate("weighting", spec.name, classifier, self.selected_labels, *conditions)
            yield replace(candidate, required=required)


def encoder_memory(candidates: Sequence[Candidate], work: Work, *, nodes: int, entries: int, columns: int) -> float:
    """Return about how many bytes a fit of the path encoder needs; `entries` and `columns` are those of the inputs.

    The training runs of the reference, of a candidate compared with it, and of averaged weightings are in memory at
    the same time.
    """
    settings, size, name = work.settings, work.size, candidates[-1].weighting
    first = {(each.classifier, each.label_propagation) for each in candidates if each.stage != "weighting"}
    named = [classifier for classifier, _ in first if classifier != SELECTED]
    compared = set(named) if any(each.stage == "weighting" for each in candidates) else set()
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
