"""Graph neural networks as estimators: GCN, APPNP, and GCN with the class probabilities of `CGE` as features."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
import torch

from cge.arrays import Array
from cge.estimators.cge import CGE
from cge.estimators.classifier import NodeClassifier, TaskLabels
from cge.estimators.embeddings import Jobs, Seed
from cge.estimators.settings import Setting, documented
from cge.graph import Graph
from cge.models.classifiers import Appnp, Gcn
from cge.models.sparse_products import NodeFeatures, SparseFeatures
from cge.training.classifier_training import NetworkSettings, train_network
from cge.training.encoder_data import EncoderData
from cge.training.torch_state import seeded

HiddenSize = Annotated[int, Setting("hidden units", low=1, high=4096)]
DropoutRate = Annotated[float, Setting("dropout of the features and of the hidden layer", low=0, high=0.95)]
Rate = Annotated[float, Setting("learning rate of Adam", above=0, high=10)]
Decay = Annotated[float, Setting("weight decay of the first layer", low=0, high=10)]
Epochs = Annotated[int, Setting("largest number of epochs", low=1, high=1_000_000)]
Patience = Annotated[
    int,
    Setting("epochs without a better validation accuracy after which training stops", low=1, high=1_000_000),
]


class _Network(NodeClassifier):
    """A classifier that trains a network; a subclass implements `_network`."""

    def _train(self, graph: Graph, task: TaskLabels) -> tuple[Array, int]:
        params = self.get_params()
        data = EncoderData(graph, n_jobs=params["n_jobs"])
        features = self._features(data, task)
        with seeded(params["random_state"], type(self).__name__):
            network = self._network(data, int(features.shape[1]), len(task.classes))
        settings = NetworkSettings(
            epochs=task.choice or params["epochs"],
            patience=params["patience"],
            dropout=params["dropout"],
            learning_rate=params["learning_rate"],
            weight_decay=params["weight_decay"],
            seed=params["random_state"],
        )
        labels, train, validation = (torch.tensor(array) for array in (task.codes, task.train, task.validation))
        scores, epochs = train_network(network, features, labels, train, validation, settings)
        probabilities: Array = task.target.outputs(scores).numpy()
        return probabilities, epochs

    def _features(self, data: EncoderData, task: TaskLabels) -> NodeFeatures:  # noqa: ARG002 - for subclasses
        return data.inputs("l1")

    def _network(self, data: EncoderData, features: int, classes: int) -> Any:
        raise NotImplementedError


@documented
class GCN(_Network):
    """The graph convolutional network of Kipf and Welling (2017), with two layers.

    With `append="cge"` a `CGE` is trained on the same labels first, and its class probabilities are appended to the
    node features, as in the CGE paper.
    """

    def __init__(
        self,
        append: Annotated[
            str | None,
            Setting("'cge' appends the class probabilities of `CGE` to the features", choices=("cge",), optional=True),
        ] = None,
        *,
        hidden: HiddenSize = 16,
        dropout: DropoutRate = 0.5,
        learning_rate: Rate = 0.01,
        weight_decay: Decay = 5e-4,
        epochs: Epochs = 200,
        patience: Patience = 100,
        random_state: Seed = 0,
        n_jobs: Jobs = None,
    ) -> None:
        self.append = append
        self.hidden = hidden
        self.dropout = dropout
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.epochs = epochs
        self.patience = patience
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _features(self, data: EncoderData, task: TaskLabels) -> NodeFeatures:
        own = data.inputs("l1")
        if self.append is None:
            return own
        y, validation = (task.target.unlabeled(len(task.codes)) for _ in range(2))
        y[task.train], validation[task.validation] = task.codes[task.train], task.codes[task.validation]
        # Without the prior correction: validation labels are for model selection only.
        model = CGE(prior_correction="no", random_state=self.random_state, n_jobs=self.n_jobs)
        model.fit(data.graph, y, validation if len(task.validation) else None)
        self._outer_labels = model.labels_seen_["outer"]
        probabilities = np.zeros((len(data.graph), len(task.classes)), np.float32)
        probabilities[:, model.classes_] = model.predict_proba()
        if isinstance(own, SparseFeatures):
            return SparseFeatures(sp.csr_array(sp.hstack([own.rows, probabilities])).astype(np.float32), own.n_jobs)
        return torch.cat([own, torch.from_numpy(probabilities)], dim=1)

    def _network(self, data: EncoderData, features: int, classes: int) -> Gcn:
        return Gcn(data.transitions, features, self.hidden, classes, _weights(data))


@documented
class APPNP(_Network):
    """Predictions of an MLP, propagated by personalized PageRank (Gasteiger et al. 2019)."""

    def __init__(
        self,
        hops: Annotated[int, Setting("steps of propagation", low=1, high=1000)] = 10,
        alpha: Annotated[float, Setting("teleport probability of personalized PageRank", above=0, high=1)] = 0.1,
        *,
        hidden: HiddenSize = 64,
        dropout: DropoutRate = 0.5,
        learning_rate: Rate = 0.01,
        weight_decay: Decay = 5e-3,
        epochs: Epochs = 500,
        patience: Patience = 100,
        random_state: Seed = 0,
        n_jobs: Jobs = None,
    ) -> None:
        self.hops = hops
        self.alpha = alpha
        self.hidden = hidden
        self.dropout = dropout
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.epochs = epochs
        self.patience = patience
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _network(self, data: EncoderData, features: int, classes: int) -> Appnp:
        return Appnp(data.transitions, features, self.hidden, classes, _weights(data), self.hops, self.alpha)


def _weights(data: EncoderData) -> torch.Tensor | None:
    return None if data.graph.weights is None else torch.tensor(data.graph.weights)
