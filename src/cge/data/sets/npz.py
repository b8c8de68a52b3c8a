"""Archives of plain arrays (`.npz`), without pickles."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.errors import FileFormatError

__all__ = ["read_npz"]


def read_npz(path: str | Path, names: Iterable[str]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays with these names; an archive that lacks one raises `FileFormatError`."""
    path, names = Path(path), list(names)
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise FileFormatError(path, "holds one array; an .npz archive of several is needed")
            missing = [name for name in names if name not in archive.files]
            if missing:
                raise FileFormatError(path, f"lacks the array {missing[0]!r}; found {', '.join(archive.files)}")
            return {name: archive[name] for name in names}
    except FileFormatError:
        raise
    except OSError as error:
        raise FileFormatError(path, f"cannot be read: {error.strerror or error}") from None
    except (ValueError, EOFError, MemoryError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise FileFormatError(path, f"is not a readable .npz archive of plain arrays ({error}); get it again") from None
