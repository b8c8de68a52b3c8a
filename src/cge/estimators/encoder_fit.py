"""A whole fit of the path encoder: plan, trainings, calibration, and a second training on all labels."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cge.errors import InputError, Message
from cge.estimators.checkpoints import Checkpoints
from cge.estimators.encoder_model import EncoderModel, encoder_settings, mean_probabilities, plan_facts, plan_from
from cge.estimators.label_roles import Progress, ValidationLabels, folds_of, hold_out, membership
from cge.estimators.missing_inputs import missing_input_temperatures
from cge.graph import Graph
from cge.metrics import class_prior_ratio, fit_temperature, log_losses, scale_probabilities
from cge.models.classifiers import PathClassifier
from cge.randomness import key
from cge.sampling import Walker
from cge.training.classifier_recipes import CLASSIFIERS
from cge.training.classifier_training import ClassifierTrainer
from cge.training.encoder_data import EncoderData
from cge.training.history import History
from cge.training.model_comparison import CandidateScore, accuracy_gain, level, log_loss_gain, score_candidate
from cge.training.model_search import MIN_VALIDATION, ModelSearch, Selection
from cge.training.task import Task
from cge.training.torch_state import TrainerState, module_arrays
from cge.training.walk_embedding import embed_walks
from cge.training.walk_factorization import MAX_FACTORIZED_NODES, factorize_walks

__all__ = ["WALK_VECTORS", "check_encoder_task", "fit_encoder", "resolve_inputs"]

Array = npt.NDArray[Any]

_SAVED_EVERY = 5.0  # seconds between checkpoints
_SHIFT_ERRORS = 3.0  # standard errors by which shares of classes have to make selection labels less surprising
_SHIFT_LABELS = 50  # selection labels that can tell shares at all: of fewer, the spread proves nothing
_WALKS = (80, 10)  # nodes in a walk and walks from each node, where nodes carry vectors of walks
WALK_VECTORS: dict[str, Any] = {"dim": 128, "window": 3, "negatives": 5}  # a short window: paths bring what is farther


def fit_encoder(
    model: Any, graph: Graph, codes: Array, classes: Array, roles: tuple[Array, Array], store: Checkpoints, on: Progress
) -> EncoderModel:
    """Weigh paths, choose readers and train them; a second training on all labels where some were held out.

    `roles` are the nodes whose labels train and those whose labels choose.
    """
    check_encoder_task(model, graph)
    return _Fitting(model, graph, codes, classes, store, on).run(*roles)


def check_encoder_task(model: Any, graph: Graph) -> None:
    """Refuse settings that do not fit the path encoder or the graph."""
    if model.outer == "paper":
        raise InputError(Message.of("{outer} is a rule of the paper's algorithm", outer="paper"), parameter="outer")
    if model.outer_labels == "validation":
        problem = Message.of("{outer_labels} is an option of the paper's algorithm", outer_labels="validation")
        raise InputError(problem, parameter="outer_labels")
    if model.weighting == "cosine" and graph.features is None:
        problem = Message.of("{weighting} needs node features, and the graph has none", weighting="cosine")
        raise InputError(problem, parameter="weighting", hint=Message.of("use {weighting}", weighting="auto"))
    if model.classifier == "distilled" and model.label_propagation == "no":
        template = "{classifier} is trained on the result of label propagation, and {label_propagation} forbids it"
        problem = Message.of(template, classifier="distilled", label_propagation="no")
        raise InputError(problem, parameter="classifier")
    if model.inputs == "features" and graph.features is None:
        problem = Message.of("{inputs} needs node features, and the graph has none", inputs="features")
        raise InputError(problem, parameter="inputs", hint=Message.of("use {inputs}", inputs="auto"))


def resolve_inputs(asked: str, graph: Graph, codes: Array) -> str:
    """Return what nodes carry: "features", "table" (each itself) or "walks"."""
    if asked != "auto":
        return asked
    if graph.features is not None:
        return "features"
    return "walks" if codes.ndim == 2 else "learned"


class _Fitting:
    """The parts of a fit that its steps share."""

    def __init__(
        self, model: Any, graph: Graph, codes: Array, classes: Array, store: Checkpoints, on: Progress
    ) -> None:
        self.model, self.graph, self.codes, self.classes = model, graph, codes, classes
        self.store, self.on = store, on
        self.data = EncoderData(graph, model.inputs, model.n_jobs, walk_vectors=self._table())
        self.settings = encoder_settings(model, len(classes))

    def _table(self) -> Array | None:
        """Return the vectors of walks that nodes carry: where asked for, and for several labels without features."""
        model, graph = self.model, self.graph
        if resolve_inputs(model.inputs, graph, self.codes) != "walks":
            return None
        told: dict[str, Any] = {"dim": WALK_VECTORS["dim"], "seed": model.random_state, "n_jobs": model.n_jobs}
        if len(graph) <= MAX_FACTORIZED_NODES:
            found = factorize_walks(graph, **told)
        else:
            walker = Walker(graph, *_WALKS, seed=model.random_state, n_jobs=model.n_jobs, shuffle=True)
            found = embed_walks(walker, **(WALK_VECTORS | told)).sources
            found = (found - found.mean(axis=0)) / np.maximum(found.std(axis=0), np.float32(1e-6))  # as dense features
        unit: Array = found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), np.float32(1e-12))
        return unit

    def run(self, trained_on: Array, chosen_on: Array) -> EncoderModel:
        model, given = self.model, len(chosen_on) > 0
        kept, held = (trained_on, chosen_on) if given else self._held_out(trained_on)
        maker = self._maker(kept, held)
        plan = self._planned(maker)
        again = model.refit and not given and len(held) > 0
        members = self._members(maker, plan, "select" if again else "train")
        ensemble = _level([one for one in members if one.classifier in plan.classifiers])
        probabilities, temperature, shift = self._calibrated(ensemble, given)
        chosen = ValidationLabels(held, self._matrix(held), probabilities)
        temperatures: dict[str, float] = {}
        if len(held) >= MIN_VALIDATION:
            classifiers = [(one.classifier, _shifted(one.trainer.best_classifier(), shift)) for one in ensemble]
            uses_label_propagation = kept, self._matrix(kept)
            temperatures = missing_input_temperatures(
                self.data, plan, classifiers, uses_label_propagation, chosen, self.codes.ndim == 2
            )
        first = ensemble[0]
        history, selection, best = _history(first, "select" if again else "train"), None, first.trainer.best_epoch
        vectors = next((one for one in members if not CLASSIFIERS[one.classifier].scores), members[0])
        if again:
            selection = history
            maker = self._maker(trained_on, np.empty(0, np.int64))
            wanted = list(dict.fromkeys([*ensemble, vectors]))
            refitted = {id(one): self._refit(maker, plan, one) for one in wanted}
            ensemble, vectors = [refitted[id(one)] for one in ensemble], refitted[id(vectors)]
            history = _history(ensemble[0], "refit")
        known = trained_on if again else kept
        seen = {
            "train": len(known),
            "outer": len(kept) if self._learns(plan) else 0,
            "selection": len(held),
        }
        return EncoderModel(
            self.data,
            plan,
            tuple((one.classifier, _shifted(one.trainer.best_classifier(), shift)) for one in ensemble),
            (vectors.classifier, vectors.trainer.best_classifier()),
            known,
            self._matrix(known),
            chosen,
            self.codes.ndim == 2,
            temperature,
            shift is not None,
            history,
            best,
            selection,
            seen,
            temperatures,
        )

    def _calibrated(self, members: list[_Member], given: bool) -> tuple[Array, float, Array | None]:
        """Return the chances of the selection labels, the heat they are taken at, and what is added to class scores.

        Training labels are often drawn so that every class has as many; nodes are not. Where selection labels were
        given, a class may be worth as much more as it is commoner among them. Each label is judged by what the others
        say, and has to be less surprising by more than chance explains; hits count less, as the epoch was chosen by
        them.
        """
        task, several = members[0].trainer.task, self.codes.ndim == 2
        labels, trained = task.labels[task.validation].numpy(), task.labels[task.train].numpy()
        scores = [one.trainer.best_scores(task.validation) for one in members]
        probabilities = mean_probabilities(scores, several)
        if len(labels) < MIN_VALIDATION:
            return probabilities, 1.0, None
        temperature = fit_temperature(probabilities, labels)
        plain = scale_probabilities(probabilities, temperature, several)
        asked = self.model.prior_correction == "auto" and self.model.class_weight != "balanced"
        if several or not given or not asked or len(labels) < _SHIFT_LABELS:
            return plain, temperature, None
        whole, others = class_prior_ratio(labels, np.bincount(trained, minlength=task.classes))
        moved = mean_probabilities([one + temperature * torch.from_numpy(others) for one in scores], several)
        again = fit_temperature(moved, labels)
        found = scale_probabilities(moved, again)
        judged, incumbent = (_judged(one, labels) for one in (found, plain))
        saved, error = log_loss_gain(judged, incumbent)
        gain, doubt = accuracy_gain(judged, incumbent)
        if saved <= _SHIFT_ERRORS * error or gain < -doubt:
            return plain, temperature, None
        return found, again, temperature * whole

    def _learns(self, plan: Selection) -> bool:
        """Say whether any weights were learned."""
        if self.model.weighting == "auto":
            return any(one.weighting in ("edges", "edges+hops") for one in plan.results)
        return self.model.weighting not in ("uniform", "degree", "cosine")

    def _held_out(self, nodes: Array) -> tuple[Array, Array]:
        return hold_out(self.codes, nodes, self.model.validation_fraction, self.model.random_state)

    def _maker(self, train: Array, selecting: Array) -> ModelSearch:
        folds = folds_of(self.codes, train, self.model.folds, self.model.random_state) if len(train) > 3 else []
        if not folds and self.model.weighting not in ("auto", "uniform", "degree", "cosine"):
            problem = f"learned weightings need at least four training labels, found {len(train)}"
            raise InputError(problem, parameter="weighting", hint=Message.of("use {weighting}", weighting="auto"))
        numbers = [torch.from_numpy(np.ascontiguousarray(one)) for one in (train, selecting, *folds)]
        labels = torch.from_numpy(self.codes)
        task = Task(self.graph, None, labels, len(self.classes), numbers[0], numbers[1], numbers[2:])
        return ModelSearch(task, self.data, self.settings, self._class_weights(train), self._train)

    def _class_weights(self, train: Array) -> Tensor | None:
        """Return weights that make every class count alike, with `class_weight="balanced"`."""
        if self.model.class_weight != "balanced":
            return None
        count = np.maximum(self._matrix(train).sum(axis=0), 1)
        weights = len(train) / (len(count) * count) if self.codes.ndim == 1 else (len(train) - count) / count
        return torch.from_numpy(np.clip(weights, 0.01, 100).astype(np.float32))

    def _matrix(self, nodes: Array) -> Array:
        return membership(self.codes, nodes, len(self.classes))

    def _planned(self, maker: ModelSearch) -> Selection:
        saved = self.store.read("plan")
        if saved is not None:
            return plan_from(self.data, self.settings, saved)
        plan = maker.make()
        writer = self.store.writer("plan")
        if writer is not None:
            facts = {"plan": plan_facts(plan)}
            writer(lambda: TrainerState(facts, module_arrays(plan.weighting.module, "weights")))
        return plan

    def _members(self, maker: ModelSearch, plan: Selection, stage: str) -> list[_Member]:
        """Train every reader of the plan to its end, and one for vectors where the plan has none."""
        classifiers = [*plan.classifiers]
        if all(CLASSIFIERS[classifier].scores for classifier in classifiers):
            classifiers.append("mlp")
        found = []
        for classifier in classifiers:
            models = self.model.n_estimators if classifier in plan.classifiers else 1
            for number in range(models):
                seed = self._seed(number)
                trainer = (
                    maker.trainers.get((plan.weighting.name, classifier, plan.label_propagation))
                    if number == 0
                    else None
                )
                if trainer is None:
                    trainer = maker.trainer(plan.weighting, classifier, plan.label_propagation, seed, stage)
                trainer.stage = stage
                self._train(trainer, f"{stage}-{classifier}-{number}")
                found.append(_Member(classifier, number, trainer))
        return found

    def _refit(self, maker: ModelSearch, plan: Selection, member: _Member) -> _Member:
        """Train a reader again, on all labels, for as many epochs as were best."""
        trainer = maker.trainer(
            plan.weighting, member.classifier, plan.label_propagation, self._seed(member.number), "refit"
        )
        self._train(trainer, f"refit-{member.classifier}-{member.number}", member.trainer.best_epoch)
        return _Member(member.classifier, member.number, trainer)

    def _seed(self, number: int) -> int:
        return self.settings.seed if number == 0 else int(key(self.settings.seed, "model", number) >> np.uint64(1))

    def _train(self, trainer: ClassifierTrainer, stage: str, stop_after: int | None = None) -> None:
        saved = self.store.read(stage)
        if saved is not None:
            trainer.load(saved)
        write = self.store.writer(stage)
        trainer.run(stop_after, self.on, None if write is None else _sometimes(write))
        if write is not None:
            write(trainer.state)


@dataclass(frozen=True, eq=False)
class _Member:
    classifier: str
    number: int
    trainer: ClassifierTrainer


def _history(member: _Member, stage: str) -> History:
    """Return a member's epochs; those of the comparison count as the training that they began."""
    return History([replace(one, stage=stage) for one in member.trainer.epochs])


def _sometimes(write: Callable[[Callable[[], TrainerState]], None]) -> Callable[[Callable[[], TrainerState]], None]:
    """Return what writes only now and then."""
    last = time.monotonic()

    def maybe(state: Callable[[], TrainerState]) -> None:
        nonlocal last
        if time.monotonic() - last > _SAVED_EVERY:
            write(state)
            last = time.monotonic()

    return maybe


def _level(members: list[_Member]) -> list[_Member]:
    """Return the members of the best reader, and of others that the selection labels do not find worse."""
    if not len(members[0].trainer.task.validation):
        return members
    first = {one.classifier: one.trainer for one in reversed(members)}
    left = level({classifier: score_candidate(trainer) for classifier, trainer in first.items()})
    return [one for classifier in left for one in members if one.classifier == classifier]


def _judged(probabilities: Array, labels: Array) -> CandidateScore:
    """Return how chances, as they are, do on labels."""
    right = (probabilities.argmax(axis=1) == labels).astype(np.float64)
    return CandidateScore(float(right.mean()), right, log_losses(probabilities, labels))


def _shifted(classifier: PathClassifier, shift: Array | None) -> PathClassifier:
    """Return a reader to whose class scores `shift (c,)` was added."""
    if shift is not None:
        with torch.no_grad():
            classifier.class_bias().add_(torch.from_numpy(shift))
    return classifier
