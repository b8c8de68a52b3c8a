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

from cge.errors import InputError
from cge.estimators.checkpoints import Checkpoints
from cge.estimators.lacking import heats_lacking
from cge.estimators.path_model import PathFit, mean_chances, path_settings, plan_facts, plan_from
from cge.estimators.roles import Chosen, Progress, folds_of, hold_out, membership
from cge.evaluation.calibration import best_heat, commoner, heated, surprises
from cge.graph import Graph
from cge.models.ends import Reader
from cge.randomness import key
from cge.sampling import Walker
from cge.training.consistency import ConsistencyTrainer
from cge.training.embedding import embed_walks
from cge.training.factors import FACTORED_UP_TO, path_factors
from cge.training.guard import Screened, difference, level, screened, surprise_saved
from cge.training.history import History
from cge.training.parameters import module_arrays
from cge.training.path_data import PathData
from cge.training.paths import FEWEST_SELECTING, Plan, PlanMaker
from cge.training.recipes import READERS
from cge.training.settings import Task
from cge.training.trainer import Saved

__all__ = ["WALK_VECTORS", "fit_paths", "payload_of", "refuse_paths"]

Array = npt.NDArray[Any]

_SAVED_EVERY = 5.0  # seconds between checkpoints
_SHIFT_ERRORS = 3.0  # standard errors by which shares of classes have to make selection labels less surprising
_SHIFT_LABELS = 50  # selection labels that can tell shares at all: of fewer, the spread proves nothing
_WALKS = (80, 10)  # nodes in a walk and walks from each node, where nodes carry vectors of walks
WALK_VECTORS: dict[str, Any] = {"dim": 128, "window": 3, "negatives": 5}  # a short window: paths bring what is farther


def fit_paths(
    model: Any, graph: Graph, codes: Array, classes: Array, roles: tuple[Array, Array], store: Checkpoints, on: Progress
) -> PathFit:
    """Weigh paths, choose readers and train them; a second training on all labels where some were held out.

    `roles` are the nodes whose labels train and those whose labels choose.
    """
    refuse_paths(model, graph)
    return _Fitting(model, graph, codes, classes, store, on).run(*roles)


def refuse_paths(model: Any, graph: Graph) -> None:
    """Refuse settings that do not fit the path encoder or the graph."""
    if model.outer == "paper":
        raise InputError("outer='paper' is a rule for pairs of path ends; use encoder='table' or 'features' with it")
    if model.outer_labels == "validation":
        raise InputError("outer_labels='validation' needs encoder 'table' or 'features'; 'paths' learns from folds")
    if model.weighting == "cosine" and graph.features is None:
        raise InputError("weighting='cosine' needs node features, and the graph has none; use 'auto' or 'degree'")
    if model.reader == "taught" and model.label_votes == "no":
        raise InputError("reader='taught' is taught by votes of known labels, and label_votes='no' forbids them")
    if model.payload == "features" and graph.features is None:
        raise InputError("payload='features' needs node features, and the graph has none; use 'auto' or 'table'")


def payload_of(asked: str, graph: Graph, codes: Array) -> str:
    """Return what nodes carry: "features", "table" (each itself) or "walks"."""
    if asked != "auto":
        return asked
    if graph.features is not None:
        return "features"
    return "walks" if codes.ndim == 2 else "table"


class _Fitting:
    """The parts of a fit that its steps share."""

    def __init__(
        self, model: Any, graph: Graph, codes: Array, classes: Array, store: Checkpoints, on: Progress
    ) -> None:
        self.model, self.graph, self.codes, self.classes = model, graph, codes, classes
        self.store, self.on = store, on
        self.data = PathData(graph, model.payload, model.threads, table=self._table())
        self.settings = path_settings(model, len(classes))

    def _table(self) -> Array | None:
        """Return the vectors of walks that nodes carry: where asked for, and for several labels without features."""
        model, graph = self.model, self.graph
        if payload_of(model.payload, graph, self.codes) != "walks":
            return None
        told: dict[str, Any] = {"dim": WALK_VECTORS["dim"], "seed": model.random_state, "threads": model.threads}
        if len(graph) <= FACTORED_UP_TO:
            found = path_factors(graph, **told)
        else:
            walker = Walker(graph, *_WALKS, seed=model.random_state, threads=model.threads, shuffle=True)
            found = embed_walks(walker, **(WALK_VECTORS | told)).sources
            found = (found - found.mean(axis=0)) / np.maximum(found.std(axis=0), np.float32(1e-6))  # as dense features
        unit: Array = found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), np.float32(1e-12))
        return unit

    def run(self, trained_on: Array, chosen_on: Array) -> PathFit:
        model, given = self.model, len(chosen_on) > 0
        kept, held = (trained_on, chosen_on) if given else self._held_out(trained_on)
        maker = self._maker(kept, held)
        plan = self._planned(maker)
        again = model.refit and not given and len(held) > 0
        members = self._members(maker, plan, "select" if again else "train")
        leaders = _level([one for one in members if one.reader in plan.readers])
        chances, heat, shift = self._calibrated(leaders, given)
        chosen = Chosen(held, self._matrix(held), chances)
        heats: dict[str, float] = {}
        if len(held) >= FEWEST_SELECTING:
            readers = [(one.reader, _shifted(one.trainer.best_reader(), shift)) for one in leaders]
            voting = kept, self._matrix(kept)
            heats = heats_lacking(self.data, plan, readers, voting, chosen, self.codes.ndim == 2)
        first = leaders[0]
        history, selection, best = _history(first, "select" if again else "train"), None, first.trainer.best_epoch
        vectors = next((one for one in members if not READERS[one.reader].scores), members[0])
        if again:
            selection = history
            maker = self._maker(trained_on, np.empty(0, np.int64))
            wanted = list(dict.fromkeys([*leaders, vectors]))
            refitted = {id(one): self._refit(maker, plan, one) for one in wanted}
            leaders, vectors = [refitted[id(one)] for one in leaders], refitted[id(vectors)]
            history = _history(leaders[0], "refit")
        known = trained_on if again else kept
        seen = {
            "train": len(known),
            "outer": len(kept) if self._learns(plan) else 0,
            "selection": len(held),
        }
        return PathFit(
            self.data,
            plan,
            tuple((one.reader, _shifted(one.trainer.best_reader(), shift)) for one in leaders),
            (vectors.reader, vectors.trainer.best_reader()),
            known,
            self._matrix(known),
            chosen,
            self.codes.ndim == 2,
            heat,
            shift is not None,
            history,
            best,
            selection,
            seen,
            heats,
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
        chances = mean_chances(scores, several)
        if len(labels) < FEWEST_SELECTING:
            return chances, 1.0, None
        heat = best_heat(chances, labels)
        plain = heated(chances, heat, several)
        asked = self.model.label_shift == "auto" and self.model.class_weight != "balanced"
        if several or not given or not asked or len(labels) < _SHIFT_LABELS:
            return plain, heat, None
        whole, others = commoner(labels, np.bincount(trained, minlength=task.classes))
        moved = mean_chances([one + heat * torch.from_numpy(others) for one in scores], several)
        again = best_heat(moved, labels)
        found = heated(moved, again)
        judged, holder = (_judged(one, labels) for one in (found, plain))
        saved, error = surprise_saved(judged, holder)
        gain, doubt = difference(judged, holder)
        if saved <= _SHIFT_ERRORS * error or gain < -doubt:
            return plain, heat, None
        return found, again, heat * whole

    def _learns(self, plan: Plan) -> bool:
        """Say whether any weights were learned."""
        if self.model.weighting == "auto":
            return any(one.weights in ("gates", "steps") for one in plan.compared)
        return self.model.weighting not in ("none", "degree", "cosine")

    def _held_out(self, nodes: Array) -> tuple[Array, Array]:
        return hold_out(self.codes, nodes, self.model.held_out, self.model.random_state)

    def _maker(self, train: Array, selecting: Array) -> PlanMaker:
        folds = folds_of(self.codes, train, self.model.folds, self.model.random_state) if len(train) > 3 else []
        if not folds and self.model.weighting not in ("auto", "none", "degree", "cosine"):
            raise InputError(f"weights are learned from at least four labels, found {len(train)}; use weighting='auto'")
        numbers = [torch.from_numpy(np.ascontiguousarray(one)) for one in (train, selecting, *folds)]
        labels = torch.from_numpy(self.codes)
        task = Task(self.graph, None, labels, len(self.classes), numbers[0], numbers[1], numbers[2:])
        return PlanMaker(task, self.data, self.settings, self._class_weights(train), self._train)

    def _class_weights(self, train: Array) -> Tensor | None:
        """Return weights that make every class count alike, with `class_weight="balanced"`."""
        if self.model.class_weight != "balanced":
            return None
        count = np.maximum(self._matrix(train).sum(axis=0), 1)
        weights = len(train) / (len(count) * count) if self.codes.ndim == 1 else (len(train) - count) / count
        return torch.from_numpy(np.clip(weights, 0.01, 100).astype(np.float32))

    def _matrix(self, nodes: Array) -> Array:
        return membership(self.codes, nodes, len(self.classes))

    def _planned(self, maker: PlanMaker) -> Plan:
        saved = self.store.read("plan")
        if saved is not None:
            return plan_from(self.data, self.settings, saved)
        plan = maker.make()
        writer = self.store.writer("plan")
        if writer is not None:
            facts = {"plan": plan_facts(plan)}
            writer(lambda: Saved(facts, module_arrays(plan.weights.module, "weights")))
        return plan

    def _members(self, maker: PlanMaker, plan: Plan, stage: str) -> list[_Member]:
        """Train every reader of the plan to its end, and one for vectors where the plan has none."""
        readers = [*plan.readers]
        if all(READERS[reader].scores for reader in readers):
            readers.append("plain")
        found = []
        for reader in readers:
            models = self.model.n_models if reader in plan.readers else 1
            for number in range(models):
                seed = self._seed(number)
                trainer = maker.begun.get((plan.weights.name, reader, plan.votes)) if number == 0 else None
                if trainer is None:
                    trainer = maker.trainer(plan.weights, reader, plan.votes, seed, stage)
                trainer.stage = stage
                self._train(trainer, f"{stage}-{reader}-{number}")
                found.append(_Member(reader, number, trainer))
        return found

    def _refit(self, maker: PlanMaker, plan: Plan, member: _Member) -> _Member:
        """Train a reader again, on all labels, for as many epochs as were best."""
        trainer = maker.trainer(plan.weights, member.reader, plan.votes, self._seed(member.number), "refit")
        self._train(trainer, f"refit-{member.reader}-{member.number}", member.trainer.best_epoch)
        return _Member(member.reader, member.number, trainer)

    def _seed(self, number: int) -> int:
        return self.settings.seed if number == 0 else int(key(self.settings.seed, "model", number) >> np.uint64(1))

    def _train(self, trainer: ConsistencyTrainer, stage: str, stop_after: int | None = None) -> None:
        saved = self.store.read(stage)
        if saved is not None:
            trainer.load(saved)
        write = self.store.writer(stage)
        trainer.run(stop_after, self.on, None if write is None else _sometimes(write))
        if write is not None:
            write(trainer.state)


@dataclass(frozen=True, eq=False)
class _Member:
    reader: str
    number: int
    trainer: ConsistencyTrainer


def _history(member: _Member, stage: str) -> History:
    """Return a member's epochs; those of the comparison count as the training that they began."""
    return History([replace(one, stage=stage) for one in member.trainer.epochs])


def _sometimes(write: Callable[[Callable[[], Saved]], None]) -> Callable[[Callable[[], Saved]], None]:
    """Return what writes only now and then."""
    last = time.monotonic()

    def maybe(state: Callable[[], Saved]) -> None:
        nonlocal last
        if time.monotonic() - last > _SAVED_EVERY:
            write(state)
            last = time.monotonic()

    return maybe


def _level(members: list[_Member]) -> list[_Member]:
    """Return the members of the best reader, and of others that the selection labels do not find worse."""
    if not len(members[0].trainer.task.validation):
        return members
    first = {one.reader: one.trainer for one in reversed(members)}
    left = level({reader: screened(trainer) for reader, trainer in first.items()})
    return [one for reader in left for one in members if one.reader == reader]


def _judged(chances: Array, labels: Array) -> Screened:
    """Return how chances, as they are, do on labels."""
    right = (chances.argmax(axis=1) == labels).astype(np.float64)
    return Screened(float(right.mean()), right, surprises(chances, labels))


def _shifted(reader: Reader, shift: Array | None) -> Reader:
    """Return a reader to whose class scores `shift (c,)` was added."""
    if shift is not None:
        with torch.no_grad():
            reader.constants().add_(torch.from_numpy(shift))
    return reader
