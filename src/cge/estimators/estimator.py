"""The scikit-learn interface of estimators, without importing scikit-learn before it is needed."""

from __future__ import annotations

import inspect
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from cge.errors import CgeError

if TYPE_CHECKING:
    from cge.estimators.fitted_model import FittedModel


class Estimator:
    """An estimator for `sklearn.base.clone`, pipelines and searches.

    It has the interface of `sklearn.base.BaseEstimator` and borrows its methods, but does not inherit from it:
    importing scikit-learn takes longer than loading a model and predicting.
    """

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted(inspect.signature(cls).parameters)

    @property
    def fitted_model(self) -> FittedModel | None:
        """The trained model behind a `CGE` or `PaperCGE`; None for other estimators, and before `fit`."""
        return None

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002 - settings are no estimators
        """Return the settings by name."""
        return {name: getattr(self, name) for name in self._get_param_names()}

    def set_params(self, **params: Any) -> Self:
        """Change settings."""
        return _base().set_params(self, **params)  # type: ignore[no-any-return]

    def __sklearn_tags__(self) -> Any:
        return _base().__sklearn_tags__(self)

    def __repr__(self) -> str:
        """Return the constructor call with the settings that differ from their defaults."""
        default = {name: argument.default for name, argument in inspect.signature(type(self)).parameters.items()}
        params = {name: repr(value) for name, value in self.get_params().items()}
        changed = [f"{name}={text}" for name, text in params.items() if text != repr(default[name])]
        return f"{type(self).__name__}({', '.join(changed)})"


def _base() -> Any:
    from sklearn.base import BaseEstimator

    return BaseEstimator


def not_fitted(message: str) -> CgeError:
    """Return the error of an estimator that is used before `fit`."""
    return _not_fitted_error()(message)


@cache
def _not_fitted_error() -> type[CgeError]:
    import sklearn.exceptions

    text = {"__module__": __name__, "__doc__": "`fit` was not called; this is scikit-learn's error of that name, too."}
    return type("NotFittedError", (CgeError, sklearn.exceptions.NotFittedError), text)


def __getattr__(name: str) -> Any:
    if name == "NotFittedError":
        return _not_fitted_error()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
