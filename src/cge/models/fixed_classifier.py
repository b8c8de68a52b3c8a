"""A trained classifier as NumPy arrays: what predictions and explanations need of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cge.arrays import Array
from cge.models.sparse_products import SparseFeatures, dense_product, input_product


@dataclass(frozen=True, eq=False)
class FixedClassifier:
    """Vectors z = Σ_paths A(p) x(endpoint) W + o and class scores ReLU(z) Vᵀ + c, or z + c where there is no V.

    `projection (f, d)` is W, `offset (d,)` the bias o, `label_weight` the coefficient β of the label scores in the
    class scores, and `output_weight (classes, d)` V, `output_bias (classes,)` c. `cge.models.classifiers` trains them.
    """

    projection: Array
    offset: Array
    label_weight: Array
    output_weight: Array | None = None
    output_bias: Array | None = None

    def project(self, inputs: Array | SparseFeatures) -> Array:
        """Return x W of every node, `(n, d)`."""
        return input_product(inputs, self.projection)

    def scores(self, vectors: Array) -> Array:
        """Return the class scores of vectors `(k, d)`, `(k, c)`."""
        scores = vectors
        if self.output_weight is not None:
            scores = dense_product(np.maximum(vectors, 0), self.output_weight.T)
        return np.asarray(scores if self.output_bias is None else scores + self.output_bias)

    def scaled(self, factor: float) -> FixedClassifier:
        """Return the classifier whose class scores are `factor` times as large."""
        if factor == 1:
            return self
        fixed = ("projection", "offset") if self.output_weight is not None else ()
        scaled = {
            name: array if name in fixed else np.asarray(array * factor, array.dtype)
            for name, array in self.arrays().items()
        }
        return FixedClassifier(**scaled)

    def gradients(self, vectors: Array, classes: int | Array) -> Array:
        """Return the gradient of the score of a class, the same or one for each row, by the vectors, `(k, d)`."""
        if self.output_weight is None:
            return np.broadcast_to(np.eye(vectors.shape[1])[classes], vectors.shape)
        return np.asarray(self.output_weight[classes] * (vectors > 0), np.float64)

    def arrays(self) -> dict[str, Array]:
        """Return the parameters by name."""
        return {name: array for name, array in vars(self).items() if array is not None}
