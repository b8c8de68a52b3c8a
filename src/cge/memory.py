"""How much memory there is: of the machine, of the container, and of the limits of the process."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.errors import InputError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_LARGE = 1 << 26  # bytes: smaller arrays are not checked, since reading /proc takes time


def parse_bytes(text: str) -> int:
    """Return the number of bytes that text such as "4GB" or "512MiB" stands for.

    >>> parse_bytes("4GB"), parse_bytes("1.5 MiB"), parse_bytes("100")
    (4000000000, 1572864, 100)
    """
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(i?)b?", text.strip().lower())
    if match is None:
        raise InputError(parameter="memory", expected="a size such as 4GB or 512MB", found=text)
    number, unit, binary = match.groups()
    factor = 1024 ** ("kmgt".index(unit) + 1) if binary and unit else _UNITS[unit]
    return int(float(number) * factor)


def available_memory(root: Path = Path("/")) -> int | None:
    """Return the bytes that this process may use in all, those in use included; None where they are not known."""
    free = free_memory(root)
    return None if free is None else free + 4096 * (_number(root / "proc/self/statm", place=1) or 0)


def free_memory(root: Path = Path("/")) -> int | None:
    """Return the bytes that are free: the least of the machine, its control groups and what `ulimit` allows."""
    machine = _number(root / "proc/meminfo", "MemAvailable:")
    free = [*([] if machine is None else [1024 * machine]), *_groups(root), *_limits(root)]
    return min(free, default=None)


def require_memory(size: int) -> None:
    """Raise `MemoryError` where so many bytes are not free; Linux would end the process only when they are used."""
    if size >= _LARGE:
        free = free_memory()
        if free is not None and size > free:
            raise MemoryError(f"{size:,} bytes are needed, {free:,} are free")


def allocate(shape: tuple[int, ...], dtype: Any) -> Array:
    """Return an uninitialized array, if there is memory for it."""
    require_memory(math.prod(shape) * np.dtype(dtype).itemsize)
    return np.empty(shape, dtype)


def _limits(root: Path) -> list[int]:
    """Return what is free of the limits on the address space and the data segment of this process."""
    free = []
    with suppress(ImportError, OSError):
        import resource

        for limit, place in ((resource.RLIMIT_AS, 0), (resource.RLIMIT_DATA, 5)):
            maximum, used = resource.getrlimit(limit)[0], _number(root / "proc/self/statm", place=place)
            if maximum != resource.RLIM_INFINITY and used is not None:
                free.append(max(maximum - 4096 * used, 0))
    return free


def _groups(root: Path) -> list[int]:
    """Return what is free in each control group of this process that has a limit, of both versions."""
    free = []
    with suppress(OSError, ValueError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            v2 = names == ""
            if not v2 and "memory" not in names.split(","):
                continue
            top = root / ("sys/fs/cgroup" if v2 else "sys/fs/cgroup/memory")
            limit, used = ("memory.max", "memory.current") if v2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
            here = top / path.lstrip("/")
            for group in (here, *here.parents):
                maximum, now = _number(group / limit), _number(group / used)
                if maximum is not None and now is not None:
                    cached = _number(group / "memory.stat", "inactive_file") or 0  # files that can be released
                    free.append(max(maximum - now + cached, 0))
                if group == top:
                    break
    return free


def _number(file: Path, name: str = "", place: int = 0) -> int | None:
    """Return a number in a file: the one after a name, or the one at a place; None where there is none."""
    with suppress(OSError, ValueError, IndexError):
        words = file.read_text().split()
        return int(words[words.index(name) + 1 if name else place])
    return None
