"""How much memory is available, and whether a fit needs more."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cge.errors import InputError

if TYPE_CHECKING:
    from cge.estimators.fit_plan import FitPlan


def available_memory(root: Path = Path("/")) -> int | None:
    """Return the bytes that this process may use in all, None where the system does not report it.

    That is what it uses now and what is free: of the machine, of the control group (the limit of a container) or of
    what `ulimit` allows, whichever is least.
    """
    used = _number(root / "proc/self/statm", place=1)
    free = [size for size in (_free(root), *_groups(root), *_limits(root)) if size is not None]
    return min(free) + 4096 * (used or 0) if free else None


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


def _free(root: Path) -> int | None:
    with suppress(OSError, ValueError):
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    return None


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
                    free.append(max(maximum - now + _cached(group / "memory.stat"), 0))
                if group == top:
                    break
    return free


def _cached(stat: Path) -> int:
    """Return the bytes of cached files that the system can release."""
    with suppress(OSError, ValueError):
        counters = dict(line.split() for line in stat.read_text().splitlines())
        return int(counters.get("inactive_file", 0))
    return 0


def _number(file: Path, place: int = 0) -> int | None:
    with suppress(OSError, ValueError, IndexError):
        return int(file.read_text().split()[place])
    return None


def format_bytes(count: float) -> str:
    """Return a number of bytes in words.

    >>> format_bytes(583e6), format_bytes(41.2e9)
    ('580 MB', '41 GB')
    """
    if count < 0.995e9:
        return f"{round(count / 1e7) * 10:.0f} MB"
    return f"{count / 1e9:.1f} GB" if count < 9.95e9 else f"{count / 1e9:,.0f} GB"


def refuse_too_large(plan: FitPlan, available: int | None) -> None:
    """Refuse a fit that needs more memory than there is."""
    if available is None or plan.peak_bytes <= available:
        return
    if not plan.candidates:
        hint = "use fewer --walks-per-node, a smaller --window or --dim, or --weighting uniform"
    elif len(plan.candidates) > 1:
        hint = "compare fewer candidates (--weighting degree --classifier mlp), or use a smaller --dim"
    elif plan.inputs == "learned":
        hint = "use a smaller --dim, or add --features"
    else:
        hint = "use a smaller --dim, or fewer features"
    raise InputError(
        f"this fit needs about {format_bytes(plan.peak_bytes)} of memory, {format_bytes(available)} are available",
        hint=f"{hint}; --no-memory-check starts it anyway",
    )
