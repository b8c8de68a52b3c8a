"""`load`: the way back from a folder to a trained estimator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cge.errors import CgeError, FileFormatError, InputError, format_value
from cge.estimators.baselines import SGC, FeatureClassifier, LabelPropagation, WalkClassifier
from cge.estimators.cge import CGE
from cge.estimators.configs import make_estimator
from cge.estimators.embeddings import DeepWalk, Node2Vec
from cge.estimators.graph_networks import APPNP, GCN
from cge.estimators.paper_cge import PaperCGE
from cge.estimators.settings import check_settings
from cge.estimators.storing import CUSTOM, name_of
from cge.models.path_networks import PathWeighting
from cge.parallel import resolve_jobs
from cge.store import Stored, read_folder, unpack_graph

__all__ = ["load"]

_KINDS: tuple[Any, ...] = (
    CGE,
    PaperCGE,
    DeepWalk,
    Node2Vec,
    FeatureClassifier,
    SGC,
    LabelPropagation,
    WalkClassifier,
    GCN,
    APPNP,
)
# What Python, NumPy and PyTorch raise where parts do not go together; a folder with a right hash may hold anything.
_PROBLEMS = (ArithmeticError, AttributeError, CgeError, LookupError, RuntimeError, TypeError, ValueError)
_CLASSES: dict[str, Any] = {one.__name__: one for one in _KINDS}


def load(
    folder: str | Path, *, weighting: Callable[[int], PathWeighting] | None = None, n_jobs: int | None = None
) -> Any:
    """Return the estimator that `save` wrote to a folder.

    A damaged or foreign folder, or one of a newer version, raises `FileFormatError` with one sentence. No code in the
    folder is ever run; a weighting of your own must therefore be given again.

    Parameters
    ----------
    folder : path
        What `save` was given.
    weighting : callable, optional
        What made the `PathWeighting`, where the model was trained with one of your own.
    threads : int, optional
        How many threads it uses from now on; by default as many as in training. Results are the same.

    Returns
    -------
    CGE, DeepWalk, Node2Vec or another estimator of this package
        As it was saved: it predicts the same, to the last bit.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from cge.graph import Graph
    >>> model = DeepWalk(dim=8, walks_per_node=2, walk_length=5).fit(Graph.from_edges([("a", "b"), ("b", "c")]))
    >>> with TemporaryDirectory() as folder:
    ...     model.save(folder)
    ...     again = load(folder)
    >>> bool((again.embedding_ == model.embedding_).all())
    True
    """
    stored = read_folder(folder, tuple(_CLASSES))
    settings = stored.metadata.get("settings")
    if not isinstance(settings, dict):
        raise FileFormatError(folder, "the settings are missing; save the model again")
    custom = settings.get("weighting")
    if isinstance(custom, dict):
        if weighting is None:
            problem = f"this model weighs paths with {custom.get(CUSTOM)!r}, which is not part of the folder"
            raise InputError(problem, parameter="weighting", hint="pass it as load(…, weighting=…)")
        if name_of(weighting) != custom.get(CUSTOM):
            raise InputError(
                f"this model weighs paths with {custom.get(CUSTOM)!r}, but weighting is {name_of(weighting)!r}",
                parameter="weighting",
                hint="pass the one it was trained with",
            )
        settings = settings | {"weighting": weighting}
    elif weighting is not None:
        raise InputError("this model was not trained with a weighting of your own; leave weighting out")
    if n_jobs is not None:
        settings = settings | ({"n_jobs": resolve_jobs(n_jobs)} if "n_jobs" in settings else {})
    try:
        with np.errstate(all="ignore"):  # what is not finite is told below
            return _restored(stored, settings, folder)
    except FileFormatError:
        raise
    except MemoryError:
        raise FileFormatError(folder, "this model needs more memory than this machine can give") from None
    except _PROBLEMS as wrong:
        what = format_value(str(wrong)) if not isinstance(wrong, CgeError) else wrong
        raise FileFormatError(folder, f"this is no whole {stored.kind} ({what}); save the model again") from None


def _restored(stored: Stored, settings: dict[str, Any], folder: str | Path) -> Any:
    estimator = make_estimator(_CLASSES[stored.kind], settings)
    check_settings(estimator)
    graph = unpack_graph(stored.metadata.get("graph", {}), stored.arrays, where=folder)
    estimator._unpack(graph, stored.metadata, stored.arrays)
    if not np.isfinite(getattr(estimator, "embedding_", 0.0)).all():
        raise InputError("its vectors are not finite")
    return estimator
