"""`CGE` with the path encoder: what lies at the ends of weighted paths makes vectors and predictions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cge.errors import InputError
from cge.estimators.checkpoints import Checkpoints
from cge.estimators.roles import Progress, folds_of, hold_out
from cge.explain.paths import PathShare, strongest_paths
from cge.graph import Graph
from cge.models.ends import Reader
from cge.models.gates import Scale, StepPooling, StepWeighting
from cge.models.weighting import make_weighting
from cge.randomness import key
from cge.training.consistency import ConsistencyTrainer
from cge.training.guard import better, screened
from cge.training.history import Epoch, History
from cge.training.parameters import load_module, module_arrays
from cge.training.path_data import PathData, PathWeights
from cge.training.paths import FEWEST_SELECTING, READERS, Compared, PathSettings, Plan, PlanMaker, make_reader
from cge.training.settings import Task
from cge.training.trainer import Saved

__all__ = ["PathFit", "fit_paths"]

Array = npt.NDArray[Any]

_SAVED_EVERY = 5.0  # seconds between checkpoints
_DEFAULTS: dict[str, Any] = {"dim": 32, "patience": 100, "walks_per_node": 20}  # what `CGE` leaves open


def chosen(model: Any, name: str) -> Any:
    """Return a setting of `CGE`, or the default of this encoder where it is left open."""
    value = getattr(model, name)
    return _DEFAULTS[name] if name in _DEFAULTS and value is None else value


def _settings_of(model: Any) -> PathSettings:
    names = [field.name for field in fields(PathSettings) if field.name != "seed"]
    return PathSettings(**{name: chosen(model, name) for name in names}, seed=model.random_state)


def fit_paths(
    model: Any, graph: Graph, codes: Array, classes: Array, roles: tuple[Array, Array], store: Checkpoints, on: Progress
) -> PathFit:
    """Weigh paths, choose readers and train them; a second training on all labels where some were held out.

    `roles` are the nodes whose labels train and those whose labels choose.
    """
    _refuse(model, graph)
    return _Fitting(model, graph, codes, classes, store, on).run(*roles)


def _refuse(model: Any, graph: Graph) -> None:
    if model.outer == "paper":
        raise InputError("outer='paper' is a rule for pairs of path ends; use encoder='table' or 'features' with it")
    if model.outer_labels == "validation":
        raise InputError("outer_labels='validation' needs encoder 'table' or 'features'; 'paths' learns from folds")
    if model.weighting == "cosine" and graph.features is None:
        raise InputError("weighting='cosine' needs node features, and the graph has none; use 'auto' or 'degree'")
    if model.payload == "features" and graph.features is None:
        raise InputError("payload='features' needs node features, and the graph has none; use 'auto' or 'table'")


class _Fitting:
    """The parts of a fit that its steps share."""

    def __init__(
        self, model: Any, graph: Graph, codes: Array, classes: Array, store: Checkpoints, on: Progress
    ) -> None:
        self.model, self.graph, self.codes, self.classes = model, graph, codes, classes
        self.store, self.on = store, on
        self.data = PathData(graph, model.payload, model.threads)
        self.settings = _settings_of(model)

    def run(self, trained_on: Array, chosen_on: Array) -> PathFit:
        model, given = self.model, len(chosen_on) > 0
        kept, held = (trained_on, chosen_on) if given else self._held_out(trained_on)
        maker = self._maker(kept, held)
        plan = self._planned(maker)
        again = model.refit and not given and len(held) > 0
        members = self._members(maker, plan, "select" if again else "train")
        leaders = _level([one for one in members if one.reader in plan.readers])
        heat = _heat(leaders) if len(held) >= FEWEST_SELECTING else 1.0
        first = leaders[0]
        history, selection, best = _history(first, "select" if again else "train"), None, first.trainer.best_epoch
        vectors = next((one for one in members if one.reader != "sparse"), members[0])
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
            tuple((one.reader, one.trainer.best_reader()) for one in leaders),
            (vectors.reader, vectors.trainer.best_reader()),
            known,
            self._matrix(known),
            self.codes.ndim == 2,
            heat,
            history,
            best,
            selection,
            seen,
        )

    def _learns(self, plan: Plan) -> bool:
        """Say whether any weights were learned."""
        closed = self.model.weighting in ("none", "degree", "cosine")
        return not closed and (self.model.weighting != "auto" or any(one.weights == "steps" for one in plan.compared))

    def _held_out(self, nodes: Array) -> tuple[Array, Array]:
        return hold_out(self.codes, nodes, self.model.held_out, self.model.random_state)

    def _maker(self, train: Array, selecting: Array) -> PlanMaker:
        folds = folds_of(self.codes, train, self.model.folds, self.model.random_state) if len(train) > 3 else []
        if not folds and self.model.weighting not in ("auto", "none", "degree", "cosine"):
            raise InputError(f"weights are learned from at least four labels, found {len(train)}; use weighting='auto'")
        numbers = [torch.from_numpy(np.ascontiguousarray(one)) for one in (train, selecting, *folds)]
        labels = torch.from_numpy(self.codes)
        task = Task(self.graph, None, labels, len(self.classes), numbers[0], numbers[1], numbers[2:])
        return PlanMaker(task, self.data, self.settings, self._class_weights(train), self.on)

    def _class_weights(self, train: Array) -> Tensor | None:
        """Return weights that make every class count alike, with `class_weight="balanced"`."""
        if self.model.class_weight != "balanced":
            return None
        count = np.maximum(self._matrix(train).sum(axis=0), 1)
        weights = len(train) / (len(count) * count) if self.codes.ndim == 1 else (len(train) - count) / count
        return torch.from_numpy(np.clip(weights, 0.01, 100).astype(np.float32))

    def _matrix(self, nodes: Array) -> Array:
        codes = self.codes[nodes]
        return np.eye(len(self.classes), dtype=np.int64)[codes] if codes.ndim == 1 else codes

    def _planned(self, maker: PlanMaker) -> Plan:
        saved = self.store.read("plan")
        if saved is not None:
            return _plan_from(self.data, self.settings, saved)
        plan = maker.make()
        writer = self.store.writer("plan")
        if writer is not None:
            facts = {"plan": _plan_facts(plan)}
            writer(lambda: Saved(facts, module_arrays(plan.weights.module, "weights")))
        return plan

    def _members(self, maker: PlanMaker, plan: Plan, stage: str) -> list[_Member]:
        """Train every reader of the plan to its end, and one for vectors where the plan has none."""
        readers = [*plan.readers] if set(plan.readers) != {"sparse"} else [*plan.readers, "plain"]
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
    judged = {reader: screened(trainer) for reader, trainer in first.items()}
    best = max(judged, key=lambda reader: judged[reader].accuracy)
    left = [best, *(reader for reader in judged if reader != best and not better(judged[best], judged[reader]))]
    return [one for reader in left for one in members if one.reader == reader]


def _heat(members: list[_Member]) -> float:
    """Return the temperature that makes the mean chances of the selection labels likeliest."""
    task = members[0].trainer.task
    labels = task.labels[task.validation].numpy()
    chances = _mean([one.trainer.best_scores()[task.validation] for one in members], labels.ndim == 2)
    heats = np.exp(np.linspace(np.log(0.2), np.log(5.0), 81))
    surprises = np.array([_surprise(_heated(chances, heat, labels.ndim == 2), labels) for heat in heats])
    doubt = 2 * np.log(heats) ** 2 / len(labels)  # few labels move the temperature little
    return float(heats[int(np.argmin(surprises + doubt))])


def _mean(scores: Sequence[Tensor], several: bool) -> Array:
    """Return the mean chances of several readers' scores."""
    chances = [torch.sigmoid(one) if several else torch.softmax(one, dim=1) for one in scores]
    found: Array = torch.stack(chances).double().mean(0).numpy()
    return found


def _heated(chances: Array, heat: float, several: bool) -> Array:
    """Return chances that are less certain (heat above 1) or more."""
    if heat == 1.0:
        return chances
    power = np.maximum(chances, 1e-12) ** (1 / heat)
    other = np.maximum(1 - chances, 1e-12) ** (1 / heat) if several else None
    found: Array = power / (power + other if other is not None else power.sum(axis=1, keepdims=True))
    return found


def _surprise(chances: Array, labels: Array) -> float:
    if labels.ndim == 1:
        return float(-np.log(np.maximum(chances[np.arange(len(labels)), labels], 1e-12)).mean())
    right = np.where(labels > 0, chances, 1 - chances)
    return float(-np.log(np.maximum(right, 1e-12)).mean())


@dataclass(eq=False)
class PathFit:
    """A trained model: weights of paths, readers whose chances are averaged, and a reader that gives vectors.

    `known (k,)` are the nodes whose labels paths carry, `matrix (k, c)` their classes.
    """

    data: PathData
    plan: Plan
    leaders: tuple[tuple[str, Reader], ...]
    reader: tuple[str, Reader]
    known: Array
    matrix: Array
    several: bool
    heat: float
    history: History
    best_round: int
    selection_history: History | None
    labels_seen: dict[str, int]

    def __post_init__(self) -> None:
        self.graph = self.data.graph
        self.own = self._vectors(self.data)
        self._last: tuple[Graph, PathData] | None = None

    @property
    def weights_name(self) -> str:
        """What weighs paths."""
        return self.plan.weights.name

    @property
    def reader_names(self) -> list[str]:
        """Which readers predict."""
        return list(dict.fromkeys(name for name, _ in self.leaders))

    @property
    def weight_parameters(self) -> dict[str, Any]:
        """The numbers that weigh steps and hops."""
        module = self.plan.weights.module
        if not isinstance(module, StepWeighting):
            return {}
        gate = dict(zip(self.data.scale.names, module.gate.tolist(), strict=True))
        hops = module.hop_weights().tolist()
        return {"gate": gate, "stay": module.stay.item(), "discount": module.discount.item(), "hops": hops}

    @property
    def voting(self) -> bool:
        """Whether known labels vote."""
        return self.plan.votes

    @property
    def comparison(self) -> list[dict[str, Any]]:
        """What was compared, as rows."""
        return [asdict(one) for one in self.plan.compared]

    def _like(self, graph: Graph | None) -> PathData:
        """Return the data of a graph, the trained one by default; the last other one is kept."""
        if graph is None:
            return self.data
        if self._last is None or self._last[0] is not graph:
            width = int(self.data.graph.features.shape[1]) if self.data.graph.features is not None else 0
            found = 0 if graph.features is None else int(graph.features.shape[1])
            if self.data.by_features and found != width:
                raise InputError(f"new nodes need {width:,} features, as in training, found {found:,}")
            self._last = graph, PathData(graph, threads=self.data.threads, like=self.data)
        return self._last[1]

    def _vectors(self, data: PathData) -> Array:
        name, reader = self.reader
        with torch.no_grad():
            carried = reader.project(data.payload(READERS[name].rows))
            found: Array = (self.plan.weights.pooling(data)(carried) + reader.offset()).numpy()
        return found

    def vectors(self, graph: Graph | None = None) -> Array:
        """Return vectors, `(n, dim)`."""
        return self.own if graph is None else self._vectors(self._like(graph))

    def chances(self, graph: Graph | None, rows: Array) -> Array:
        """Return the calibrated probability of each class for some nodes, `(k, c)`."""
        data, nodes = self._like(graph), torch.from_numpy(rows)
        pooling, votes = self.plan.weights.pooling(data), None
        if self.plan.votes:
            votes = torch.from_numpy(self.plan.weights.votes(data, *self._known_in(graph), self.several))[nodes]
        scores = []
        with torch.no_grad():
            for name, reader in self.leaders:
                pooled = pooling(reader.project(data.payload(READERS[name].rows)))[nodes]
                found = reader.scores(pooled + reader.offset())
                scores.append(found if votes is None else found + reader.votes * votes)
        return _heated(_mean(scores, self.several), self.heat, self.several).astype(np.float32)

    def _known_in(self, graph: Graph | None) -> tuple[Array, Array]:
        """Return the nodes of a graph whose labels are known from training, and their classes."""
        if graph is None:
            return self.known, self.matrix
        ids = self.graph.node_ids[self.known]
        there = graph.contains(ids)
        return graph.indices_of(ids[there]), self.matrix[there]

    def path_weights(self, paths: Sequence[Array]) -> Array:
        """Return A of paths of node numbers, `(k,)`; 0 for what is no path of the graph."""
        steps, module = self.data.steps, self.plan.weights.module
        found = np.zeros(len(paths), np.float32)
        keys = steps.rows * steps.nodes + steps.indices
        sequences: list[tuple[int, Array]] = []
        for place, path in enumerate(paths):
            wanted = path[:-1] * steps.nodes + path[1:]
            entries = np.searchsorted(keys, wanted)
            entries = np.minimum(entries, len(keys) - 1)
            if (keys[entries] == wanted).all():
                sequences.append((place, entries))
        if isinstance(module, StepWeighting):
            values = module.step_values(steps, self.data.inputs).detach().double().numpy()
            plain = StepWeighting([0.0] * len(self.data.scale.names), 0.0, 0.0, [1.0])
            walk = plain.step_values(steps, self.data.inputs).detach().double().numpy()
            hops = module.hop_weights().detach().double().numpy() * len(module.hops)
            for place, entries in sequences:
                if len(entries) < len(hops):
                    found[place] = hops[len(entries)] * np.prod(values[entries] / walk[entries])
            return found
        if sequences:
            length = np.array([len(entries) + 1 for _, entries in sequences])
            items = np.full((len(sequences), int(length.max())), -1)
            for row, (place, entries) in enumerate(sequences):
                items[row, 0], items[row, 1 : length[row]] = len(steps) + paths[place][0], entries
            vectors = self.data.items(self.plan.weights.sampled[2])
            with torch.no_grad():
                weights = module(vectors, torch.from_numpy(items), torch.from_numpy(length)).numpy()
            found[[place for place, _ in sequences]] = weights
        return found

    def explain(self, node: int, top: int) -> list[PathShare]:
        """Return the paths that bring most to the score of the class predicted for a node.

        It is the first reader's score, where several are averaged. What all paths bring, and a constant, add up to it:
        ReLU is linear as long as the same hidden numbers are on. Votes of labels are not part of it.
        """
        name, reader = self.leaders[0]
        predicted = int(self.chances(None, np.array([node]))[0].argmax())
        carried = reader.project(self.data.payload(READERS[name].rows)).detach()
        pooled = self.plan.weights.pooling(self.data)(carried)[[node]]
        vector = (pooled + reader.offset().detach()).requires_grad_()
        scores = reader.scores(vector)
        (slope,) = torch.autograd.grad(scores[0, predicted], vector)
        worth = (carried @ slope[0]).double().numpy()
        steps, weights = self.data.steps, self.plan.weights
        if isinstance(weights.module, StepWeighting):
            pooling = StepPooling(steps, self.data.inputs, weights.module)
            values = pooling.values().double().numpy()
            found = strongest_paths(steps.indptr, steps.indices, values, pooling.hops(), worth, node, top)
        else:
            found = weights.learnable(self.data, np.array([node])).strongest(worth, top)
        known = self.path_weights([np.array(path) for path, _ in found])
        ids = self.graph.node_ids
        return [
            PathShare(tuple(ids[path].tolist()), float(weight), brings)
            for (path, brings), weight in zip(found, known, strict=True)
        ]

    # ------------------------------------------------------------------ keeping it

    def facts(self) -> dict[str, Any]:
        """Return what a file of facts says of it."""
        return {
            "best_round": self.best_round,
            "by_features": self.data.by_features,
            "heat": self.heat,
            "history": self.history.rows(),
            "inputs": list(self.data.scale.names),
            "labels_seen": self.labels_seen,
            "leaders": [name for name, _ in self.leaders],
            "plan": _plan_facts(self.plan),
            "reader": self.reader[0],
            "selection_history": None if self.selection_history is None else self.selection_history.rows(),
            "several": self.several,
        }

    def arrays(self) -> dict[str, Array]:
        """Return its arrays by name."""
        scale, dense = self.data.scale, self.data.dense
        found: dict[str, Array] = {
            "known.nodes": self.known.astype(np.int64),
            "known.classes": self.matrix.astype(np.int8),
            "scale.mean": scale.mean,
            "scale.spread": scale.spread,
            "scale.rarity": scale.rarity,
            "dense.center": dense[0],
            "dense.spread": dense[1],
        }
        for place, (_, reader) in enumerate(self.leaders):
            found |= module_arrays(reader, f"leader.{place}")
        found |= module_arrays(self.reader[1], "reader")
        return found | module_arrays(self.plan.weights.module, "weights")

    @classmethod
    def restored(
        cls, model: Any, graph: Graph, classes: Array, facts: dict[str, Any], arrays: dict[str, Array]
    ) -> PathFit:
        """Return what `facts` and `arrays` tell."""
        names = tuple(str(name) for name in facts["inputs"])
        scale = Scale(names, *(np.array(arrays[f"scale.{part}"], np.float64) for part in ("mean", "spread", "rarity")))
        if len(scale.mean) != len(scale.spread) or len(scale.mean) > len(names):
            raise InputError("the inputs of steps and their scale do not agree")
        dense = np.array(arrays["dense.center"], np.float32), np.array(arrays["dense.spread"], np.float32)
        carried = "auto" if facts["by_features"] else "table"
        data = PathData(graph, carried, model.threads, scale=scale, dense=dense)
        settings = _settings_of(model)
        plan = _plan_from(data, settings, Saved({"plan": facts["plan"]}, arrays))

        def reader(name: str, where: str) -> tuple[str, Reader]:
            made = make_reader(name, data, settings.dim, len(classes), 0)
            load_module(made, where, arrays)
            return name, made

        known, matrix = np.array(arrays["known.nodes"]), np.array(arrays["known.classes"], np.int64)
        inside = not len(known) or 0 <= known.min() <= known.max() < len(graph)
        if matrix.shape != (len(known), len(classes)) or not inside:
            raise InputError("the known labels do not belong to this graph")
        rows = facts["selection_history"]
        return cls(
            data,
            plan,
            tuple(reader(name, f"leader.{place}") for place, name in enumerate(facts["leaders"])),
            reader(facts["reader"], "reader"),
            known,
            matrix,
            bool(facts["several"]),
            float(facts["heat"]),
            History([Epoch(**one) for one in facts["history"]]),
            int(facts["best_round"]),
            None if rows is None else History([Epoch(**one) for one in rows]),
            dict(facts["labels_seen"]),
        )


def _plan_facts(plan: Plan) -> dict[str, Any]:
    return {
        "weights": plan.weights.name,
        "sampled": list(plan.weights.sampled),
        "hops": len(plan.weights.module.hops) if isinstance(plan.weights.module, StepWeighting) else None,
        "readers": list(plan.readers),
        "votes": plan.votes,
        "compared": [asdict(one) for one in plan.compared],
    }


def _plan_from(data: PathData, settings: PathSettings, saved: Saved) -> Plan:
    """Return a plan that `_plan_facts` and the arrays of its weights tell."""
    facts = saved.facts["plan"]
    sampled = tuple(int(part) for part in facts["sampled"])
    if facts["hops"] is not None:
        module: Any = StepWeighting([0.0] * len(data.scale.names), 0.0, 0.0, [1.0] * int(facts["hops"]))
    else:
        module = make_weighting(settings.weighting, int(data.items(sampled[2]).shape[1]))
        if module is None:
            raise InputError("a plan without weights")
        module.eval()
    load_module(module, "weights", saved.arrays)
    readers = tuple(str(name) for name in facts["readers"])
    compared = tuple(Compared(**one) for one in facts["compared"])
    weights = PathWeights(str(facts["weights"]), module, (sampled[0], sampled[1], sampled[2]))
    return Plan(weights, readers, bool(facts["votes"]), compared)
