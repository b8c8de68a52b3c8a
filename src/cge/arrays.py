"""The type of arrays in signatures; their shapes are in the docstrings."""

from typing import Any, TypeAlias

import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
