"""The texts of commands and reports that depend on the kind of target: names of outputs and scores, and sentences."""

from __future__ import annotations

from dataclasses import dataclass

_NO_INFORMATION = "There is no information about this node: its paths reach no label and only inputs of zeros."


@dataclass(frozen=True)
class TargetTexts:
    """The texts of a kind of target; the defaults are those of one class for each node."""

    # What is predicted: "predicted class", "3 of 40 changed class".
    noun: str = "class"
    # What a model returns for a node, in the singular and the plural: "mean of their probabilities".
    output: str = "probability"
    outputs: str = "probabilities"
    # The output, and the score behind it, that explanations and faithfulness are about.
    predicted_output: str = "probability of the predicted class"
    predicted_score: str = "score (logit) of the predicted class"
    # What contributions of paths are contributions to; "path p contributes most (…, averaged over nodes)".
    contribution: str = "contribution to the score of the predicted class minus the mean over all classes"
    # A sentence on what scores and contributions are, where the table of an explanation does not say it; "" if it does.
    score_meaning: str = ""
    # The titles of explanations by `cge explain`: of the prediction for a {node}, and of another class {label}.
    prediction_title: str = "Why {node} is predicted as {label}"
    class_title: str = "What contributes to {label} at {node}"
    # The name of the explained output in the row under these titles.
    output_title: str = "probability"
    # What is predicted for a node of which nothing is known, and the sentence that says so.
    prior: str = "class frequencies"
    no_information: str = (
        f"{_NO_INFORMATION} Its probabilities are the class frequencies of the training (after a prior correction, "
        "validation) labels."
    )
    # The method of `Target.linear_outputs`, and the loss of `Target.distillation_losses`.
    linear_model: str = "logistic regression"
    distillation: str = "cross-entropy with the propagated labels as soft targets"
    # What a reliability diagram shows, and its axes; not used where outputs are no probabilities.
    reliability: str = "Accuracy of predictions, by their confidence"
    reliability_axes: tuple[str, str] = ("confidence", "accuracy")
    # A sentence on what the colors of nodes stand for, followed by a blank; "" if the legend of classes says it.
    color_meaning: str = ""
    # The score that `cge update` prints: that of the predictions, made before the update, of the new labels.
    new_label_score: str = "{score:.3f} predicted as given"
    # How a score compares with another one: "1.2 percentage points more accurate than uniform weights".
    better_than: str = "more accurate than"
    worse_than: str = "less accurate than"
    equal_to: str = "as accurate as"
    # The format of outputs, and the width of their columns, in the table of faithfulness.
    output_format: str = ".2f"
    output_width: int = 6
    # Scores of models are printed multiplied by `scale`, with `digits` decimals and a unit; differences have their own.
    scale: float = 100.0
    digits: int = 1
    unit: str = " %"
    difference_unit: str = " percentage points"

    def number(self, score: float, sign: str = "") -> str:
        """Return the score of a model, or with the sign "+" a difference, as text without its unit.

        >>> TargetTexts().number(0.8512), TargetTexts(scale=1, digits=3).number(-0.04, "+")
        ('85.1', '−0.040')
        """
        return f"{self.scale * score:{sign}.{self.digits}f}".replace("-", "−")


SINGLE_LABEL = TargetTexts()
MULTILABEL = TargetTexts(
    contribution="contribution to the predicted score",
    reliability="Share of nodes that have a class, by its predicted probability, over all classes",
    reliability_axes=("predicted probability", "share of nodes that have the class"),
    color_meaning="A node with several labels has the color of its largest class, a node without labels that of its "
    "most probable class. ",
)
NUMERIC = TargetTexts(
    noun="value",
    output="value",
    outputs="values",
    predicted_output="predicted value",
    predicted_score="predicted value (in standard deviations of the training labels)",
    contribution="contribution to the predicted value, in standard deviations of the training labels",
    score_meaning="The score is the difference from the mean of the training labels, in standard deviations of these.",
    prediction_title="Paths that contribute most to the value of {node}",
    class_title="Paths that contribute most to the value of {node}",
    output_title="predicted",
    prior="mean of the training labels",
    no_information=f"{_NO_INFORMATION} Its value is the mean of the training labels.",
    linear_model="ridge regression",
    distillation="squared distance from the propagated labels",
    color_meaning="Colors stand for ranges of values with about as many labels each. ",
    new_label_score="R² {score:.3f}",
    better_than="better in R² than",
    worse_than="worse in R² than",
    equal_to="as good in R² as",
    output_format=".4g",
    output_width=11,
    scale=1.0,
    digits=3,
    unit="",
    difference_unit="",
)
