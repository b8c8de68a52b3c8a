"""The error of an estimator that is used before `fit`; not in `cge.errors`, since scikit-learn is slow to import."""

from __future__ import annotations

import sklearn.exceptions

from cge.errors import CgeError


class NotFittedError(CgeError, sklearn.exceptions.NotFittedError):  # type: ignore[misc]
    """`fit` was not called; an error of `cge` as well as of scikit-learn."""
