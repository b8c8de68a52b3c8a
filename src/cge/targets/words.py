"""What texts of reports and commands call a prediction: a class with its probability, or a value."""

from __future__ import annotations

from dataclasses import dataclass

_NO_INFORMATION = "There is no information about this node: its paths reach no label and only inputs of zeros."


@dataclass(frozen=True)
class Words:
    """The words for a kind of target; the defaults are those of one class for each node.

    `kind` is what is predicted, `output` what a model returns, `predicted` the output that is explained, `score` the
    score behind it. Scores of models are multiplied by `scale` and printed with `digits`, followed by `unit`, their
    differences by `points`.
    """

    kind: str = "class"
    output: str = "probability"
    explained_output: str = "probability"
    outputs: str = "probabilities"
    predicted: str = "probability of the predicted class"
    score: str = "score (logit) of the predicted class"
    contribution: str = "contribution to the score of the predicted class minus the mean over all classes"
    explained: str = "Why {node} is predicted as {label}"
    explained_other: str = "What contributes to {label} at {node}"
    unknown: str = "class frequencies"  # predicted for a node of which nothing is known
    no_information: str = (
        f"{_NO_INFORMATION} Its probabilities are the class frequencies of the training (after a prior correction, "
        "validation) labels."
    )
    linear_model: str = "logistic regression"
    distillation: str = "cross-entropy with the propagated labels as soft targets"
    reliability: str = "Accuracy of predictions, by their confidence"
    reliability_axes: tuple[str, str] = ("confidence", "accuracy")
    colors: str = ""  # what colors of nodes mean, where it is not clear
    as_given: str = "{score:.3f} predicted as given"
    better: str = "more accurate than"
    worse: str = "less accurate than"
    equal: str = "as accurate as"
    output_format: str = ".2f"  # in columns of this `width`
    width: int = 6
    scores: str = ""  # what scores and contributions are, where it is not clear
    scale: float = 100.0
    digits: int = 1
    unit: str = " %"
    points: str = " percentage points"

    def number(self, score: float, sign: str = "") -> str:
        """Return the score of a model, or with the sign "+" a difference, as text without its unit.

        >>> Words().number(0.8512), Words(scale=1, digits=3).number(-0.04, "+")
        ('85.1', '−0.040')
        """
        return f"{self.scale * score:{sign}.{self.digits}f}".replace("-", "−")


SINGLE_LABEL = Words()
MULTILABEL = Words(
    contribution="contribution to the predicted score",
    reliability="Share of nodes that have a class, by its predicted probability, over all classes",
    reliability_axes=("predicted probability", "share of nodes that have the class"),
    colors="A node with several labels has the color of its largest class, a node without labels that of its most "
    "probable class. ",
)
NUMERIC = Words(
    kind="value",
    output="value",
    explained_output="predicted",
    outputs="values",
    predicted="predicted value",
    score="predicted value (in standard deviations of the training labels)",
    contribution="contribution to the predicted value, in standard deviations of the training labels",
    explained="Paths that contribute most to the value of {node}",
    explained_other="Paths that contribute most to the value of {node}",
    unknown="mean of the training labels",
    no_information=f"{_NO_INFORMATION} Its value is the mean of the training labels.",
    linear_model="ridge regression",
    distillation="squared distance from the propagated labels",
    colors="Colors stand for ranges of values with about as many labels each. ",
    as_given="R² {score:.3f}",
    better="better in R² than",
    worse="worse in R² than",
    equal="as good in R² as",
    output_format=".4g",
    width=11,
    scores="The score is the difference from the mean of the training labels, in standard deviations of these.",
    scale=1.0,
    digits=3,
    unit="",
    points="",
)
