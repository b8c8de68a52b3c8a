"""`CGE`: vectors and predictions from weighted paths, the path encoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cge.arrays import Array
from cge.errors import InputError, Message
from cge.estimators.cge_parameters import (
    ClassifierName,
    ClassWeight,
    Dim,
    Hops,
    Inputs,
    LabelPropagationMode,
    NEstimators,
    OuterProblem,
    PriorCorrection,
    Refit,
    SampledWalks,
    TaskName,
    Training,
    ValidationFraction,
    Weighting,
)
from cge.estimators.checkpoints import Checkpoints
from cge.estimators.classifier import TaskLabels
from cge.estimators.embeddings import Jobs, Seed
from cge.estimators.encoder_fit import fit_encoder
from cge.estimators.encoder_model import EncoderModel
from cge.estimators.encoder_store import encoder_arrays, encoder_metadata, restore_encoder
from cge.estimators.path_estimator import PathEstimator
from cge.estimators.settings import documented
from cge.graph import Graph
from cge.models.weightings import WEIGHTINGS
from cge.training.classifier_registry import CLASSIFIERS


@documented
class CGE(PathEstimator):
    """Customized graph embedding: classify the nodes of a graph from a few labels.

    The vector of a node is a sum over all paths of up to `hops` edges that start at it, with path weights selected or
    learned for these labels: each path adds the inputs (by default the features) of its last node, times the weight of
    the path. A classifier maps vectors to classes. Parameters set to "auto" are chosen by a model search on the
    validation labels. `docs/concepts.md` defines the terms and has the equations.

    This is the package's own model; `PaperCGE` is the algorithm of the paper.

    Attributes
    ----------
    weight_parameters_ : dict
        What determines the weight of an edge: "coefficients" (for each edge input, such as the cosine of the two nodes'
        features; positive: edges with large values get more weight), "self_loop" (that of self-loops), "normalization"
        (the exponent b: 0 normalizes rows, ½ is symmetric) and "hops" (the weight of paths with 0, 1, … edges). Empty
        for networks.
    classifiers_ : list of str
        The classifiers whose probabilities are averaged.
    label_propagation_ : bool
        Whether propagated training labels are added to the class scores.
    prior_correction_ : bool
        Whether class scores are shifted to the class frequencies of the validation labels.
    search_results_ : list of dict
        The candidates of the model search: "stage" of the search, "weighting", "classifier", "label_propagation",
        validation "accuracy", and "accuracy_gain" and "log_loss_gain" over the candidate it was compared with, with
        standard errors ("accuracy_gain_se", "log_loss_gain_se"). Gains are None where others were compared with it.

    Examples
    --------
    >>> graph = Graph.from_edges([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)])
    >>> model = CGE().fit(graph, {0: "left", 1: "left", 3: "right", 4: "right"})
    >>> model.predict([2, 5]).tolist()
    ['left', 'right']
    >>> model.weighting_, model.classifiers_
    ('degree', ['mlp'])
    >>> model.path_weights([[2, 3]]).tolist()  # 2 and 3 are not neighbors
    [0.0]
    >>> model.explain(2, top=3)
    Explanation(node 2, 3 paths)
    """

    def __init__(
        self,
        weighting: Weighting = "auto",
        dim: Dim = None,
        *,
        hops: Hops = 4,
        inputs: Inputs = "auto",
        classifier: ClassifierName = "auto",
        label_propagation: LabelPropagationMode = "auto",
        prior_correction: PriorCorrection = "auto",
        n_estimators: NEstimators = 1,
        class_weight: ClassWeight = None,
        walks_per_node: SampledWalks = 20,
        task: TaskName = "classification",
        validation_fraction: ValidationFraction = 0.2,
        refit: Refit = True,
        training: Training = None,
        outer_problem: OuterProblem = None,
        random_state: Seed = 0,
        n_jobs: Jobs = None,
    ) -> None:
        self.weighting = weighting
        self.dim = dim
        self.hops = hops
        self.inputs = inputs
        self.classifier = classifier
        self.label_propagation = label_propagation
        self.prior_correction = prior_correction
        self.n_estimators = n_estimators
        self.class_weight = class_weight
        self.walks_per_node = walks_per_node
        self.task = task
        self.validation_fraction = validation_fraction
        self.refit = refit
        self.training = training
        self.outer_problem = outer_problem
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _check_task(self, graph: Graph, labels: TaskLabels) -> None:  # noqa: ARG002 - any labels will do
        spec = WEIGHTINGS.get(self.weighting) if isinstance(self.weighting, str) else None
        if spec is not None and not spec.applies(self.hops, graph.features is not None):
            problem = Message.of("{weighting} needs node features, and the graph has none", weighting=spec.name)
            if spec.min_hops > self.hops:
                problem = Message.of(f"{{weighting}} needs paths of {spec.min_hops} edges", weighting=spec.name)
            raise InputError(problem, parameter="weighting", hint=Message.of("use {weighting}", weighting="auto"))
        requires_label_propagation = (
            self.classifier != "auto" and CLASSIFIERS[self.classifier].requires_label_propagation
        )
        if requires_label_propagation and self.label_propagation == "no":
            template = "{classifier} is trained on the result of label propagation, and {label_propagation} forbids it"
            problem = Message.of(template, classifier=self.classifier, label_propagation="no")
            raise InputError(problem, parameter="classifier")
        if self.inputs == "features" and graph.features is None:
            problem = Message.of("{inputs} needs node features, and the graph has none", inputs="features")
            raise InputError(problem, parameter="inputs", hint=Message.of("use {inputs}", inputs="auto"))

    def _train(
        self, graph: Graph, labels: TaskLabels, checkpoints: Checkpoints, callback: Callable[[Any], None] | None
    ) -> EncoderModel:
        return fit_encoder(self, graph, labels, checkpoints, callback)

    def _set_model(self, model: Any) -> None:
        super()._set_model(model)
        self.classifiers_, self.label_propagation_ = model.classifier_names, model.label_propagation
        self.prior_correction_, self.search_results_ = model.calibration.prior_corrected, model.search_results
        self.weight_parameters_ = model.weight_parameters

    def _stored(self) -> tuple[dict[str, Any], dict[str, Array]]:
        model: Any = self.fitted_
        return encoder_metadata(model), encoder_arrays(model)

    def _restore(
        self, graph: Graph, classes: Array, metadata: dict[str, Any], arrays: dict[str, Array]
    ) -> EncoderModel:
        return restore_encoder(self, graph, classes, metadata, arrays)
