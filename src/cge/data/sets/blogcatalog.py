"""BlogCatalog: bloggers, their friendships and the groups they joined, as DeepWalk uses it."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse as sp

from cge.data.dataset import Dataset
from cge.errors import FileFormatError
from cge.graph import Graph


def load_blogcatalog(path: str | Path) -> Dataset:
    """Read the `.mat` file with `network` (n, n) and `group` (n, 39); a blogger may be in several groups.

    `load_dataset` checks the file's SHA256 first: SciPy may end the whole process on a damaged one.
    """
    try:
        parts = scipy.io.loadmat(path, variable_names=["network", "group"])
        network, group = parts["network"], parts["group"]
    except (OSError, KeyError, TypeError, ValueError, zlib.error, scipy.io.matlab.MatReadError) as error:
        raise FileFormatError(path, f"cannot be read as MATLAB arrays network and group: {error}") from None
    labels = (np.asarray(group.todense()) if sp.issparse(group) else np.asarray(group)) != 0
    return Dataset(
        "blogcatalog",
        Graph.from_scipy(network, directed=False),
        labels.astype(np.int64),
        tuple(str(number + 1) for number in range(labels.shape[1])),
        notes="several labels per node; no features; no published split",
        citation="L. Tang, H. Liu: Relational learning via latent social dimensions. KDD 2009",
    )
