"""`load`: read a saved estimator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cge.errors import CgeError, FileFormatError, InputError, format_value
from cge.estimators.base import CUSTOM, name_of
from cge.estimators.configs import make_estimator
from cge.estimators.methods import estimator_classes
from cge.estimators.settings import check_settings
from cge.models.path_networks import PathWeighting
from cge.parallel import resolve_jobs
from cge.store import Stored, read_folder, unpack_graph

# What Python, NumPy and PyTorch raise where contents are inconsistent; a folder with a valid hash may hold anything.
_PROBLEMS = (ArithmeticError, AttributeError, CgeError, LookupError, RuntimeError, TypeError, ValueError)


def load(
    folder: str | Path, *, weighting: Callable[[int], PathWeighting] | None = None, n_jobs: int | None = None
) -> Any:
    """Return the estimator that `save` wrote to a folder; it makes exactly the same predictions.

    A damaged folder, or one of another format version, raises `FileFormatError`. Folders contain no code, so your own
    weighting has to be passed again.

    Parameters
    ----------
    folder : path
        The folder that was passed to `save`.
    weighting : callable, optional
        The `PathWeighting` class that the model was trained with, if it was your own.
    n_jobs : int, optional
        Number of threads from now on; by default as in training. Results do not depend on it.

    Returns
    -------
    CGE, PaperCGE, DeepWalk, Node2Vec or a baseline
        As it was saved.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from cge.estimators.embeddings import DeepWalk
    >>> from cge.graph import Graph
    >>> model = DeepWalk(dim=8, walks_per_node=2, walk_length=5).fit(Graph.from_edges([("a", "b"), ("b", "c")]))
    >>> with TemporaryDirectory() as folder:
    ...     model.save(folder)
    ...     loaded = load(folder)
    >>> bool((loaded.embedding_ == model.embedding_).all())
    True
    """
    stored = read_folder(folder, tuple(estimator_classes()))
    settings = stored.metadata.get("settings")
    if not isinstance(settings, dict):
        raise FileFormatError(folder, "the settings are missing; save the model again")
    custom = settings.get("weighting")
    if isinstance(custom, dict):
        if weighting is None:
            problem = f"this model has the weighting {custom.get(CUSTOM)!r}, which is not part of the folder"
            raise InputError(problem, parameter="weighting", hint="pass it as load(…, weighting=…)")
        if name_of(weighting) != custom.get(CUSTOM):
            raise InputError(
                f"this model has the weighting {custom.get(CUSTOM)!r}, but weighting is {name_of(weighting)!r}",
                parameter="weighting",
                hint="pass the one it was trained with",
            )
        settings = settings | {"weighting": weighting}
    elif weighting is not None:
        raise InputError("this model was not trained with a weighting of your own; leave weighting out")
    if n_jobs is not None:
        settings = settings | ({"n_jobs": resolve_jobs(n_jobs)} if "n_jobs" in settings else {})
    try:
        with np.errstate(all="ignore"):  # vectors that are not finite are refused below
            return _restored(stored, settings, folder)
    except FileFormatError:
        raise
    except MemoryError:
        raise FileFormatError(folder, "this model needs more memory than this machine has") from None
    except _PROBLEMS as error:
        reason = error if isinstance(error, CgeError) else format_value(str(error))
        raise FileFormatError(
            folder, f"this folder does not hold a complete {stored.kind} model ({reason}); save the model again"
        ) from None


def _restored(stored: Stored, settings: dict[str, Any], folder: str | Path) -> Any:
    estimator = make_estimator(estimator_classes()[stored.kind], settings)
    check_settings(estimator)
    graph = unpack_graph(stored.metadata.get("graph", {}), stored.arrays, where=folder)
    estimator._unpack(graph, stored.metadata, stored.arrays)
    if not np.isfinite(getattr(estimator, "embedding_", 0.0)).all():
        raise InputError("its vectors are not finite")
    return estimator
