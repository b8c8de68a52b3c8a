"""Metrics of classification: accuracy, F1, log loss, calibration error, temperature scaling.

Labels have one of two forms: `(n,)` class numbers, or an `(n, c)` indicator matrix of zeros and ones, where a node may
have any number of classes (multilabel).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cge.arrays import Array

_SMALLEST = 1e-12  # probabilities below this count as this, so that their logarithm is finite
_TEMPERATURES = 5.0 ** (np.arange(-97, 41) / 40)  # 0.02 to 5
_STRIDE = 12  # every how many temperatures the first search goes
COARSE_TEMPERATURES = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)


def predicted_indicators(probabilities: Array, multilabel: bool) -> Array:
    """Return the class of highest probability, with `multilabel` every class above one half, as indicators `(n, c)`."""
    if multilabel:
        return np.asarray(probabilities > 0.5)
    return np.asarray(np.eye(probabilities.shape[1], dtype=bool)[probabilities.argmax(1)])


def top_k_indicators(scores: Array, labels: Array) -> Array:
    """Return the k classes with the highest scores of each node, `(n, c)`, where k is its number of `labels (n, c)`."""
    rank = np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1)
    return np.asarray(rank < np.count_nonzero(labels, axis=1)[:, None])


def accuracy(predicted: Array, labels: Array) -> float:
    """Return the share of predictions `(n,)` that equal the labels `(n,)`; NaN without any."""
    return float(np.mean(predicted == labels)) if len(labels) else float("nan")


def micro_f1(predicted: Array, labels: Array) -> float:
    """Return micro-F1, 2 TP / (2 TP + FP + FN) over all classes, of boolean `(n, c)`; 0 without positives."""
    return float(2 * np.sum(predicted & labels) / max(int(np.sum(predicted) + np.sum(labels)), 1))


def macro_f1(predicted: Array, labels: Array) -> float:
    """Return macro-F1, the mean of the classes' F1, of boolean indicators `(n, c)`; a class without positives has 0."""
    return float(np.mean(2 * (predicted & labels).sum(0) / np.maximum(predicted.sum(0) + labels.sum(0), 1)))


def node_macro_f1(predicted: Array, labels: Array) -> Array:
    """Return what each node contributes to `macro_f1`, `(n,)`, linearized; the mean over nodes is macro-F1.

    Differences of these compare two models node by node: their standard error is that of the delta method.
    """
    hits, size = predicted & labels, predicted.astype(np.float64) + labels
    total = np.maximum(size.sum(0), 1)  # (c,)
    f1 = 2 * hits.sum(0) / total
    return np.asarray(f1.mean() + len(labels) * ((2 * hits - f1 * size) / total).mean(1))


def accuracy_or_f1(scores: Array, labels: Array) -> float:
    """Return the accuracy of the classes with the highest `scores (n, c)`; micro-F1 of the top k with multilabel."""
    if labels.ndim == 1:
        return accuracy(scores.argmax(1), labels)
    return micro_f1(top_k_indicators(scores, labels), labels > 0)


def node_accuracy(scores: Array, labels: Array) -> Array:
    """Return for each node whether the class of highest score is its label, as 0 or 1, `(n,)`.

    With multilabel, the share of the node's k labels among its k top classes (precision at k); 1 without labels.
    """
    if labels.ndim == 1:
        return np.asarray(scores.argmax(1) == labels, np.float64)
    top, true = top_k_indicators(scores, labels), labels > 0
    return np.asarray(((top & true).sum(1) + 1e-9) / (top.sum(1) + 1e-9))


def node_f1(predicted: Array, labels: Array) -> Array:
    """Return the F1 of each node's classes, `(n,)`, from indicators `(n, c)`; 0 or 1 where a node has one class."""
    positive, true = predicted > 0, labels > 0
    return np.asarray(2 * (positive & true).sum(1) / np.maximum(positive.sum(1) + true.sum(1), 1))


def classification_metrics(probabilities: Array, labels: Array) -> dict[str, float]:
    """Return accuracy; with multilabel micro- and macro-F1.

    A node of k labels is predicted its k classes of highest probability, as in the DeepWalk and node2vec papers; and,
    where k is unknown, every class above one half (`above_half`).
    """
    if labels.ndim == 1:
        return {"accuracy": accuracy(probabilities.argmax(1), labels)}
    scores = {}
    top_k, above_half = top_k_indicators(probabilities, labels), predicted_indicators(probabilities, True)
    for suffix, predicted in (("", top_k), ("_above_half", above_half)):
        scores[f"micro_f1{suffix}"] = micro_f1(predicted, labels > 0)
        scores[f"macro_f1{suffix}"] = macro_f1(predicted, labels > 0)
    return scores


def r2_score(predicted: Array, labels: Array) -> float:
    """Return R², 1 − Σ(y − ŷ)² / Σ(y − ȳ)²; NaN where the labels do not vary."""
    total = float(((labels - labels.mean()) ** 2).sum()) if len(labels) else 0.0
    return 1 - float(((labels - predicted) ** 2).sum()) / total if total else float("nan")


def log_losses(probabilities: Array, labels: Array) -> Array:
    """Return −log of the probability of each node's label, `(n,)`; with multilabel the mean over classes."""
    if labels.ndim == 1:
        return np.asarray(-np.log(np.maximum(probabilities[np.arange(len(labels)), labels], _SMALLEST)))
    of_labels = np.where(labels > 0, probabilities, 1 - probabilities)
    return np.asarray(-np.log(np.maximum(of_labels, _SMALLEST)).mean(1))


def log_loss(probabilities: Array, labels: Array) -> float:
    """Return the mean of `log_losses`."""
    return float(log_losses(probabilities, labels).mean())


def logit_log_losses(logits: Array, labels: Array) -> Array:
    """Return `log_losses` of the softmax of `logits (n, c)`, or with multilabel of their sigmoid, in float64."""
    logits = np.asarray(logits, np.float64)
    if labels.ndim == 1:
        shifted = logits - logits.max(1, keepdims=True)
        return np.asarray(np.log(np.exp(shifted).sum(1)) - shifted[np.arange(len(labels)), labels])
    return np.asarray(np.logaddexp(0.0, np.where(labels > 0, -logits, logits)).mean(1))


def calibrated_log_losses(logits: Array, labels: Array) -> Array:
    """Return `logit_log_losses` at the best of nine temperatures, so that the scale of logits does not matter."""
    losses = [logit_log_losses(logits / temperature, labels) for temperature in COARSE_TEMPERATURES]
    return min(losses, key=lambda each: float(each.mean()))


def scale_probabilities(probabilities: Array, temperature: float | Array, multilabel: bool = False) -> Array:
    """Return probabilities `(n, c)` at a temperature T, one or `(n,)`: p^(1/T), normalized (Guo et al. 2017).

    With `multilabel` each class is normalized against its own complement.
    """
    if np.all(temperature == 1.0):
        return probabilities
    exponent = 1 / np.reshape(temperature, (-1, 1))
    power = np.maximum(probabilities, _SMALLEST) ** exponent
    if multilabel:
        return np.asarray(power / (np.maximum(1 - probabilities, _SMALLEST) ** exponent + power))
    return np.asarray(power / power.sum(axis=1, keepdims=True))


def fit_temperature(probabilities: Array, labels: Array) -> float:
    """Return the temperature of the lowest log loss plus 2 (log T)² / n, which keeps that of few labels near 1."""
    loss = _loss_by_temperature(probabilities, labels)

    def best_of(temperatures: Array) -> int:
        losses = np.array([loss(temperature) for temperature in temperatures])
        return int(np.argmin(losses + 2 * np.log(temperatures) ** 2 / len(labels)))

    middle = _STRIDE * best_of(_TEMPERATURES[::_STRIDE])  # the loss has one minimum
    first = max(middle - _STRIDE, 0)
    return float(_TEMPERATURES[first + best_of(_TEMPERATURES[first : middle + _STRIDE + 1])])


def _loss_by_temperature(probabilities: Array, labels: Array) -> Callable[[float], float]:
    """Return the log loss as a function of the temperature, the mean of `logit_log_losses` of the scaled logits."""
    logits = np.log(np.maximum(probabilities, _SMALLEST))
    if labels.ndim == 2:
        logits -= np.log(np.maximum(1 - probabilities, _SMALLEST))
        against = np.where(labels > 0, -logits, logits)
        return lambda temperature: float(np.logaddexp(0.0, against / temperature).mean())
    shifted = np.ascontiguousarray((logits - logits.max(1, keepdims=True)).T, np.float64)  # sums over rows are fast
    of_labels = shifted[labels, np.arange(len(labels))].mean()
    return lambda temperature: float(np.log(np.exp(shifted / temperature).sum(0)).mean() - of_labels / temperature)


def class_prior_ratio(counts: Array, train_counts: Array) -> Array:
    """Return log π(y) / π_train(y), the ratio of class priors estimated from numbers of labels `(c,)`.

    Every class counts one label more than it has, so that no prior is zero.
    """
    priors, train_priors = ((each + 1) / (each.sum() + len(each)) for each in (counts, train_counts))
    return np.asarray(np.log(priors / train_priors))


@dataclass(frozen=True, eq=False)
class Reliability:
    """A reliability diagram: mean `confidence`, `accuracy` and `count` of each bin with predictions, `(b,)` each.

    `error` is the expected calibration error: the mean distance between confidence and accuracy (Naeini et al. 2015).
    """

    confidence: Array
    accuracy: Array
    count: Array
    error: float


def reliability(probabilities: Array, labels: Array, bins: int = 10) -> Reliability:
    """Return how well probabilities `(n, c)`, with multilabel each of them, agree with the labels, in equal `bins`."""
    if labels.ndim == 1:
        confidence, correct = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    else:
        confidence, correct = probabilities.ravel(), labels.ravel() > 0
    bin_of = np.minimum((confidence.astype(np.float64) * bins).astype(np.int64), bins - 1)
    count = np.bincount(bin_of, minlength=bins)
    used = np.flatnonzero(count)
    means = [np.bincount(bin_of, values, minlength=bins)[used] / count[used] for values in (confidence, correct)]
    error = float(np.abs(means[0] - means[1]) @ count[used] / max(count.sum(), 1))
    return Reliability(means[0], means[1], count[used], error)
