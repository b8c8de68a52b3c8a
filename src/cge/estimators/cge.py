"""`CGE`: vectors and predictions from weighted paths, the path encoder."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterable
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cge.arrays import Array
from cge.data.graph_update import GraphUpdate
from cge.errors import CgeWarning, InputError, Message
from cge.estimators.calibration import MIN_PRIOR_LABELS
from cge.estimators.classifier import TaskLabels, task_labels
from cge.estimators.configs import OuterConfig, TrainingConfig
from cge.estimators.encoder_model import EncoderModel
from cge.estimators.fitted_model import FittedModel
from cge.estimators.path_estimator import REFIT, VALIDATION_FRACTION, Callback, PathEstimator
from cge.estimators.persistence import Checkpoints
from cge.estimators.settings import N_JOBS, RANDOM_STATE, documented, param
from cge.estimators.stored_encoder import restore_encoder
from cge.graph import Graph
from cge.models.weightings import WEIGHTINGS, weighting_descriptions
from cge.store.atomic import write_files
from cge.targets import TASKS
from cge.training.classifier_registry import CLASSIFIERS, classifier_descriptions

if TYPE_CHECKING:
    from cge.estimators.model_update import UpdateSummary
    from cge.models.path_networks import PathWeighting

_INPUTS = {
    "auto": "features where the graph has them, else 'walks'; node types without features have learned inputs if the "
    "features are sparse or passed separately for each node type (in one dense table they have rows of it)",
    "features": "the node features",
    "learned": "an embedding table, trained with the classifier",
    "walks": "walk embeddings computed from the graph alone (NetMF factorization; ProNE above 20,000 nodes)",
}


@documented
@dataclass(eq=False, repr=False)
class CGE(PathEstimator):
    """Customized graph embedding: classify the nodes of a graph from a few labels.

    The propagated inputs of a node are a weighted sum over all paths of up to `hops` hops that start at it: each path
    adds the inputs (by default the features) of its endpoint, times the weight of the path. The weights are selected,
    or learned, on your labels; neural networks ('average', 'cnn', 'lstm') weight a sample of the paths instead of all.
    A path is a walk: nodes may repeat, and every node has a self-loop (except with learned or equal weights of
    metapaths). A classifier maps the propagated inputs to class scores (logits). The vector (embedding) of a node,
    `embedding_`, contains what its predictions depend on. `weighting`, `classifier` and `label_propagation` set to
    'auto' are selected by a model search on the validation labels. `docs/concepts.md` defines the terms and has the
    equations.

    This is the package's own model; `PaperCGE` is the algorithm of the paper it started from, Hou et al. 2019
    (arXiv:1911.09454).

    Attributes
    ----------
    weight_parameters_ : dict
        What determines path weights: "coefficients" of the edge inputs, "self_loop" (the coefficient of self-loops),
        "normalization" (the exponent b: 0 normalizes rows, ½ is symmetric) and "hop_weights" (of paths with 0, 1, …
        hops). Edge inputs are numbers computed for each edge: similarity, degrees, edge features, types; "cosine" is
        the context cosine of features aggregated over neighborhoods. With a positive coefficient, edges with large
        values have larger weights. Empty for neural networks and metapaths (see `metapaths()`).
    classifiers_ : list of str
        The names of the averaged classifiers, each once; `ensemble_` lists all models.
    ensemble_ : list of (str, str)
        The weighting and the classifier of each averaged model. The first is the most accurate of the model search; the
        others are in the order of their weights.
    ensemble_weights_ : list of float
        Their weights in the mean of probabilities; they sum to 1, and the first is at least ½.
    label_propagation_ : bool
        Whether leave-one-out propagated training labels are added to the class scores (logits).
    prior_correction_ : bool
        Whether class scores are adjusted to the class frequencies of the validation labels.
    search_results_ : list of dict
        The comparisons of the model search: "stage", "weighting", "classifier", "label_propagation", "accuracy" on the
        validation labels (micro-F1 or R² by kind of target, or `scoring`), and "accuracy_gain" and "log_loss_gain" over
        the candidate "compared_with", with standard errors ("accuracy_gain_se", "log_loss_gain_se"). Gains and
        "compared_with" are None for a candidate that was only the baseline of other comparisons. The stages "weight
        initialization", which selects the weighting that a learned one starts from, and "final training" have no rows.

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

    weighting: str | Callable[[int], PathWeighting] = param(
        "auto",
        "how paths are weighted (docs/concepts.md)",
        choices={
            "auto": "selected on the validation labels among hop profiles (only paths of certain numbers of hops), "
            "equal weights of metapaths, and the weightings below except the neural networks"
        },
        registry=weighting_descriptions,
        callables="a callable takes the dimension of the step vectors (docs/concepts.md#weighting) and returns a "
        "`PathWeighting`",
    )
    dim: int | None = param(
        None,
        "dimension to which a classifier projects the propagated inputs; not used by the linear classifiers: 'sparse', "
        "'sparse-light', 'logistic', 'logistic-unit'",
        low=1,
        high=4096,
        optional=True,
        none="32, or 64 with more than 32 classes",
    )
    _: KW_ONLY
    hops: int = param(
        4,
        "maximum number of hops (edges) to a node whose features (or other inputs) are used; "
        "propagated labels: up to ten",
        low=0,
        high=100,
    )
    inputs: str = param(
        "auto",
        "node inputs that are propagated along paths",
        choices=_INPUTS,
    )
    classifier: str = param(
        "auto",
        "classifier of the propagated inputs",
        choices={
            "auto": "selected on the validation labels; up to four others that it does not beat by more than one "
            "standard error may be averaged with it (docs/concepts.md#model-search)"
        },
        registry=classifier_descriptions,
    )
    label_propagation: bool | str = param(
        "auto",
        "whether leave-one-out propagated training labels are added to the class scores (logits)",
        choices={"auto": "selected on the validation labels"},
    )
    prior_correction: bool | str = param(
        "auto",
        "whether class scores are adjusted to the class frequencies of the validation labels (requires at least 50 "
        "labels passed as validation)",
        choices={
            "auto": "only if it lowers their log loss by more than three standard errors without a clear loss of "
            "accuracy (docs/concepts.md)"
        },
    )
    n_estimators: int = param(
        1, "number of models of the selected candidate, trained with different seeds and averaged", low=1, high=100
    )
    class_weight: str | None = param(
        None,
        "weights of classes in the loss",
        choices={"balanced": "inverse class frequencies (multilabel: negatives over positives of each class)"},
        optional=True,
    )
    scoring: str | None = param(
        None,
        "score on the validation labels by which models, epochs and values of C are selected",
        choices={"macro_f1": "the mean F1 of the classes; prior_correction='auto' then means no correction"},
        optional=True,
        none="accuracy, micro-F1 in a multilabel task, R² in regression",
    )
    walks_per_node: int = param(
        20, "number of random walks from each node; a neural network weights their prefixes", low=1
    )
    task: str = param("classification", "kind of target", choices=TASKS)
    validation_fraction: float = param(0.2, VALIDATION_FRACTION, low=0, high=0.5)
    refit: bool = param(True, REFIT)
    training: TrainingConfig | dict[str, Any] | None = param(
        None, "how the classifiers are trained: epochs, learning rate, augmentation", config=TrainingConfig
    )
    outer_problem: OuterConfig | dict[str, Any] | None = param(
        None, "how a weighting is learned (outer problem); 'metapaths' uses only `n_folds`", config=OuterConfig
    )
    random_state: int = param(0, **RANDOM_STATE)
    n_jobs: int | None = param(None, **N_JOBS)

    cross_fits: ClassVar[bool] = True

    @property
    def inductive(self) -> bool:
        """Whether nodes of other graphs than the training graph can be predicted: True."""
        return True

    def _task_labels(self, graph: Graph, y: Any, validation: Any) -> TaskLabels:
        labels = task_labels(graph, y, validation, self.task)
        return replace(labels, target=labels.target.with_scoring(self.scoring))

    def _check_task(self, graph: Graph, labels: TaskLabels) -> None:
        spec = WEIGHTINGS.get(self.weighting) if isinstance(self.weighting, str) else None
        if spec is not None and not spec.applies(self.hops, graph.features is not None, graph.num_relations > 1):
            needed = "several node or edge types" if spec.by_relation or spec.metapaths else "node features"
            problem = Message.of(f"{{weighting}} needs {needed}, and the graph has none", weighting=spec.name)
            if spec.min_hops > self.hops:
                problem = Message.of(f"{{weighting}} needs paths of {spec.min_hops} hops", weighting=spec.name)
            raise InputError(problem, parameter="weighting", hint=Message.of("use {weighting}", weighting="auto"))
        classifier = None if self.classifier == "auto" else CLASSIFIERS[self.classifier]
        if classifier is not None and classifier.requires_label_propagation and self.label_propagation is False:
            template = "{classifier} is trained on the result of label propagation, and {label_propagation} forbids it"
            problem = Message.of(template, classifier=self.classifier, label_propagation=False)
            raise InputError(problem, parameter="classifier")
        too_few_labels = len(labels.validation) < MIN_PRIOR_LABELS
        if self.prior_correction is True and (
            too_few_labels or self.class_weight or not labels.target.exclusive_classes
        ):
            needed = f"a single-label task, no {{class_weight}} and {MIN_PRIOR_LABELS} labels in {{validation}}"
            raise InputError(Message.of(f"{{prior_correction}} needs {needed}"), parameter="prior_correction")
        if self.inputs == "features" and graph.features is None:
            problem = Message.of("{inputs} needs node features, and the graph has none", inputs="features")
            raise InputError(problem, parameter="inputs", hint=Message.of("use {inputs}", inputs="auto"))

    def update(self, update: GraphUpdate, y: Any = None) -> UpdateSummary:
        """Change the graph of the trained model: add and remove edges, add nodes, replace features, add labels.

        Only nodes that a change can reach are computed again; predictions and vectors are the same, to the last bit, as
        if all were. Parameters and temperatures stay as they were trained: the summary, and a warning, say when the
        graph has changed so much that a new fit is advisable. `docs/predictions.md` has an example.

        Parameters
        ----------
        update : GraphUpdate
            By node id; features of existing nodes are replaced.
        y : {node id: label}, optional
            Further training labels, which are propagated if the model propagates labels.

        Returns
        -------
        UpdateSummary
            How many nodes changed and were recomputed, predictions and confidence before and after, and the advice.
        """
        from cge.estimators.model_update import update_estimator

        self._need_fit()
        summary = update_estimator(self, update, y)
        if summary.advice:
            warnings.warn(CgeWarning(f"{'; '.join(summary.advice)}: fit again on the new graph"), stacklevel=2)
        return summary

    def to_numpy(self, file: str | Path | None = None) -> dict[str, Array]:
        """Return the parameters of the classifiers as arrays, and write them to an .npz file.

        They apply to P, L = `propagated_inputs(nodes, i)` of classifier i, which the model computes: P are the
        propagated inputs, L the label scores (docs/concepts.md):

            z = P @ projection_i + offset_i
            scores = max(z, 0) @ output_weight_i.T + output_bias_i + label_weight_i * L

        Without output_weight_i, scores have z instead of the product; without output_bias_i, it is 0.
        Probabilities are the mean of the softmax of all classifiers, with the weights `weight_i`, to the power
        1 / temperature and normalized; in a multilabel task the mean of the sigmoid, whose log-odds are divided by the
        temperature. Nodes without information have the class frequencies instead: those whose paths reach no label and
        only inputs of zeros.
        """
        from cge.estimators.numpy_export import inference_arrays

        self._need_fit()
        arrays = inference_arrays(self)
        if file is not None:
            write_files({Path(file): lambda stream: _write_npz(stream, arrays)})
        return arrays

    def propagated_inputs(self, nodes: Iterable[Hashable], classifier: int = 0) -> tuple[Array, Array]:
        """Return what a classifier of the ensemble reads: propagated inputs, `(k, f)`, and label scores, `(k, c)`."""
        from cge.estimators.numpy_export import propagated_inputs

        self._need_fit()
        return propagated_inputs(self, nodes, classifier)

    def to_atlas(self, file: str | Path, *, vectors: bool = False) -> None:
        """Write a Parquet table of all nodes for tools such as embedding-atlas and jupyter-scatter.

        Columns: node; class and confidence, in regression value; training_label; x and y, the first two principal
        components of the vectors; with `vectors` also the vectors, as v0, v1, ….
        """
        from cge.estimators.numpy_export import write_atlas

        self._need_fit()
        write_atlas(self, file, vectors)

    def _train(self, graph: Graph, labels: TaskLabels, checkpoints: Checkpoints, callback: Callback) -> EncoderModel:
        from cge.estimators.encoder_fit import fit_encoder
        from cge.estimators.labeled_fit import fit_large, fits_labeled_rows

        if fits_labeled_rows(self, graph):
            return fit_large(self, graph, labels, checkpoints, callback)
        return fit_encoder(self, graph, labels, checkpoints, callback)

    def _set_model(self, model: FittedModel) -> None:
        if not isinstance(model, EncoderModel):
            raise TypeError(f"a CGE has an EncoderModel, found {type(model).__name__}")
        super()._set_model(model)
        self.classifiers_ = model.registered_classifiers
        self.ensemble_ = [(each.weighting.name, each.name) for each in model.ensemble]
        self.ensemble_weights_ = [each.weight for each in model.ensemble]
        self.label_propagation_, self.prior_correction_ = model.label_propagation, model.calibration.prior_corrected
        self.search_results_, self.weight_parameters_ = model.selected["search_results"], model.weight_parameters

    def _restore(self, graph: Graph, classes: Array, metadata: dict[str, Any], arrays: dict[str, Array]) -> FittedModel:
        return restore_encoder(self, graph, classes, metadata, arrays)


def _write_npz(stream: Any, arrays: dict[str, Array]) -> None:
    """Write arrays without pickle: classes that are objects as text."""
    plain: dict[str, Any] = {
        name: each.astype(str) if each.dtype.kind == "O" else each for name, each in arrays.items()
    }
    np.savez(stream, **plain)
