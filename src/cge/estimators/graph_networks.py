"""Graph neural networks as estimators: GCN, APPNP, and GCN with the class probabilities of `CGE` as features."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch

from cge.arrays import Array
from cge.estimators.cge import CGE
from cge.estimators.classifier import BaselineClassifier, TaskLabels
from cge.estimators.configs import make_estimator
from cge.estimators.paper_cge import PaperCGE
from cge.estimators.settings import N_JOBS, RANDOM_STATE, documented, param
from cge.graph import Graph
from cge.models.autograd import NodeFeatures
from cge.models.classifiers import Appnp, Gcn
from cge.models.sparse_products import SparseFeatures
from cge.training.classifier_training import NetworkSettings, train_network
from cge.training.encoder_data import EncoderData
from cge.training.torch_state import seeded


@dataclass(eq=False, repr=False)
class NetworkClassifier(BaselineClassifier):
    """A classifier that trains a network; a subclass implements `_network`."""

    _: KW_ONLY
    hidden: int = param(16, "hidden units", low=1, high=4096)
    dropout: float = param(0.5, "dropout of the features and of the hidden layer", low=0, high=0.95)
    learning_rate: float = param(0.01, "learning rate of Adam", above=0, high=10)
    weight_decay: float = param(5e-4, "weight decay of the first layer", low=0, high=10)
    epochs: int = param(200, "largest number of epochs", low=1, high=1_000_000)
    patience: int = param(
        100, "epochs without a better validation accuracy after which training stops", low=1, high=1_000_000
    )
    random_state: int = param(0, **RANDOM_STATE)
    n_jobs: int | None = param(None, **N_JOBS)

    def _train(self, graph: Graph, task: TaskLabels) -> tuple[Array, int]:
        data = self._data(graph)
        features = self._features(data, task)
        network = partial(self._network, data, int(features.shape[1]), len(task.classes))
        return self._fit_network(network, features, task, np.arange(len(graph)))

    def _fit_network(
        self, make: Callable[[], Any], features: NodeFeatures, task: TaskLabels, nodes: Array
    ) -> tuple[Array, int]:
        """Train the network of `make()`; return the probabilities of `nodes (k,)`, of which it has the features."""
        with seeded(self.random_state, type(self).__name__):
            network = make()
        names = ("patience", "dropout", "learning_rate", "weight_decay")
        options: dict[str, Any] = {name: getattr(self, name) for name in names}
        settings = NetworkSettings(epochs=task.choice or self.epochs, seed=self.random_state, **options)
        train, validation = (torch.tensor(np.searchsorted(nodes, part)) for part in (task.train, task.validation))
        labels = torch.tensor(task.codes[nodes])
        scores, epochs = train_network(network, features, labels, task.target, train, validation, settings)
        probabilities: Array = task.target.outputs(scores).numpy()
        return probabilities, epochs

    def _data(self, graph: Graph) -> EncoderData:
        return EncoderData(graph, n_jobs=self.n_jobs)

    def _features(self, data: EncoderData, task: TaskLabels) -> NodeFeatures:  # noqa: ARG002 - for subclasses
        return data.tensor_inputs("l1")

    def _network(self, data: EncoderData, features: int, classes: int) -> Any:
        raise NotImplementedError


@documented
@dataclass(eq=False, repr=False)
class GCN(NetworkClassifier):
    """The graph convolutional network of Kipf and Welling (2017), with two layers.

    With `append` another model is trained on the same labels first, and its class probabilities are appended to the
    node features, as in the CGE paper: `CGE` ("cge"), or the paper's own models, `PaperCGE("transductive", "lstm")`
    ("cge-t") or `PaperCGE("inductive", "lstm")` ("cge-i").

    Attributes
    ----------
    append_settings : dict
        Settings of an appended `PaperCGE` that differ from its defaults, by their flat names.
    """

    append_settings: ClassVar[Mapping[str, Any]] = {}

    append: str | None = param(
        None,
        "further features",
        choices={
            "cge": "the class probabilities of `CGE`",
            "cge-t": "those of the paper's CGE-T",
            "cge-i": "those of the paper's CGE-I",
        },
        optional=True,
    )

    def _features(self, data: EncoderData, task: TaskLabels) -> NodeFeatures:
        own = data.tensor_inputs("l1")
        if self.append is None:
            return own
        y, validation = (task.target.unlabeled(len(task.codes)) for _ in range(2))
        y[task.train], validation[task.validation] = task.codes[task.train], task.codes[task.validation]
        model = self._appended_model()
        model.fit(data.graph, y, validation if len(task.validation) else None)
        self._outer_labels = model.labels_seen_["outer"]
        probabilities = np.zeros((len(data.graph), len(task.classes)), np.float32)
        probabilities[:, model.classes_] = model.predict_proba(data.graph.node_ids)
        if isinstance(own, SparseFeatures):
            return SparseFeatures(sp.csr_array(sp.hstack([own.csr, probabilities])).astype(np.float32), own.n_jobs)
        return torch.cat([own, torch.from_numpy(probabilities)], dim=1)

    def _appended_model(self) -> Any:
        if self.append == "cge":  # without the prior correction: validation labels are for model selection only
            return CGE(prior_correction=False, random_state=self.random_state, n_jobs=self.n_jobs)
        own: dict[str, Any] = {"setting": "transductive" if self.append == "cge-t" else "inductive"}
        own |= {"weighting": "lstm", "random_state": self.random_state, "n_jobs": self.n_jobs}
        return make_estimator(PaperCGE, {**self.append_settings, **own})

    def _network(self, data: EncoderData, features: int, classes: int) -> Gcn:
        return Gcn(data.transitions, features, self.hidden, classes, _weights(data))


@documented
@dataclass(eq=False, repr=False)
class APPNP(NetworkClassifier):
    """Predictions of an MLP, propagated by personalized PageRank (Gasteiger et al. 2019)."""

    hops: int = param(10, "steps of propagation", low=1, high=1000)
    alpha: float = param(0.1, "teleport probability of personalized PageRank", above=0, high=1)
    _: KW_ONLY
    hidden: int = param(64, "hidden units", low=1, high=4096)
    weight_decay: float = param(5e-3, "weight decay of the first layer", low=0, high=10)
    epochs: int = param(500, "largest number of epochs", low=1, high=1_000_000)

    def _network(self, data: EncoderData, features: int, classes: int) -> Appnp:
        return Appnp(data.transitions, features, self.hidden, classes, _weights(data), self.hops, self.alpha)


def _weights(data: EncoderData) -> torch.Tensor | None:
    return None if data.graph.weights is None else torch.tensor(data.graph.weights)
