"""BlogCatalog: bloggers, their friendships and the groups they joined, as DeepWalk uses it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse as sp

from cge.data.dataset import Dataset
from cge.errors import FileFormatError
from cge.graph import Graph

__all__ = ["load_blogcatalog"]


def load_blogcatalog(path: str | Path, sha256: str) -> Dataset:
    """Read the `.mat` file with `network` (n, n) and `group` (n, 39); a blogger can be in several groups.

    Only the file with this hash is read: SciPy's reader may end the whole process on a damaged one.
    """
    try:
        with Path(path).open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise FileFormatError(path, f"cannot be read: {error.strerror or error}") from None
    if found != sha256:
        raise FileFormatError(path, f"is not the file with the SHA256 {sha256}; get it again")
    parts = scipy.io.loadmat(path, variable_names=["network", "group"])
    group = parts["group"]
    labels = (np.asarray(group.todense()) if sp.issparse(group) else np.asarray(group)) != 0
    return Dataset(
        "blogcatalog",
        Graph.from_scipy(parts["network"], directed=False),
        labels.astype(np.int64),
        tuple(str(number + 1) for number in range(labels.shape[1])),
        notes="several labels per node; no features; no published split",
        citation="L. Tang, H. Liu: Relational learning via latent social dimensions. KDD 2009",
    )
