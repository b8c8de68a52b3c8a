"""BlogCatalog: bloggers, their friendships and the groups they joined, as DeepWalk uses it."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse as sp
from scipy.io.matlab import MatReadError

from cge.data.dataset import Dataset
from cge.errors import FileFormatError, InputError
from cge.graph import Graph

__all__ = ["load_blogcatalog"]

_PROBLEMS = (ArithmeticError, EOFError, LookupError, MemoryError, NotImplementedError, TypeError, ValueError)


def load_blogcatalog(path: str | Path) -> Dataset:
    """Read the `.mat` file with `network` (n, n) and `group` (n, 39); a blogger can be in several groups."""
    try:
        parts = scipy.io.loadmat(path, variable_names=["network", "group"])
    except OSError as error:
        raise FileFormatError(path, f"cannot be read: {error.strerror or error}") from None
    except (*_PROBLEMS, MatReadError, zlib.error) as error:
        raise FileFormatError(path, f"is not a readable MATLAB file ({error}); get it again") from None
    missing = {"network", "group"} - parts.keys()
    if missing:
        raise FileFormatError(path, f"lacks the matrix {min(missing)!r}")
    group = parts["group"]
    labels = (np.asarray(group.todense()) if sp.issparse(group) else np.asarray(group)) != 0
    try:
        return Dataset(
            "blogcatalog",
            Graph.from_scipy(parts["network"], directed=False),
            labels.astype(np.int64),
            tuple(str(number + 1) for number in range(labels.shape[1])),
            notes="several labels per node; no features; no published split",
            citation="L. Tang, H. Liu: Relational learning via latent social dimensions. KDD 2009",
        )
    except InputError as error:
        raise FileFormatError(path, str(error)) from None
