"""How much memory there is for a fit, and whether one needs more."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cge.errors import InputError

if TYPE_CHECKING:
    from cge.estimators.fit_plan import FitPlan

__all__ = ["available_memory", "refuse_too_large", "size_of"]


def available_memory(root: Path = Path("/")) -> int | None:
    """Return the bytes that this process may have in all, None where the system does not say.

    That is what it has and what is free, of the machine, of the control group (a container's limit, say) or of what
    `ulimit` allows, whichever is least.
    """
    own = _number(root / "proc/self/statm", place=1)
    free = [left for left in (_free(root), *_groups(root), *_limits(root)) if left is not None]
    return min(free) + 4096 * (own or 0) if free else None


def _limits(root: Path) -> list[int]:
    """Return what is left of the limits on the addresses and on the data of this process."""
    found = []
    with suppress(ImportError, OSError):
        import resource

        for limit, place in ((resource.RLIMIT_AS, 0), (resource.RLIMIT_DATA, 5)):
            most, used = resource.getrlimit(limit)[0], _number(root / "proc/self/statm", place=place)
            if most != resource.RLIM_INFINITY and used is not None:
                found.append(max(most - 4096 * used, 0))
    return found


def _free(root: Path) -> int | None:
    with suppress(OSError, ValueError):
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    return None


def _groups(root: Path) -> list[int]:
    """Return what is free in each control group with a limit that this process is in, of both versions."""
    found = []
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
                most, now = _number(group / limit), _number(group / used)
                if most is not None and now is not None:
                    found.append(max(most - now + _cached(group / "memory.stat"), 0))
                if group == top:
                    break
    return found


def _cached(stat: Path) -> int:
    """Return the bytes of files that the system lets go when memory is asked for."""
    with suppress(OSError, ValueError):
        facts = dict(line.split() for line in stat.read_text().splitlines())
        return int(facts.get("inactive_file", 0))
    return 0


def _number(file: Path, place: int = 0) -> int | None:
    with suppress(OSError, ValueError, IndexError):
        return int(file.read_text().split()[place])
    return None


def size_of(count: float) -> str:
    """Return a number of bytes in words.

    >>> size_of(583e6), size_of(41.2e9)
    ('580 MB', '41 GB')
    """
    if count < 0.995e9:
        return f"{round(count / 1e7) * 10:.0f} MB"
    return f"{count / 1e9:.1f} GB" if count < 9.95e9 else f"{count / 1e9:,.0f} GB"


def refuse_too_large(plan: FitPlan, available: int | None) -> None:
    """Refuse a fit that is going to need more memory than there is."""
    if available is None or plan.cost.peak_bytes <= available:
        return
    if plan.encoder != "paths":
        hint = "take fewer --walks-per-node, a smaller --window or --dim, or --weighting none"
    elif len(plan.weightings) > 1 or len(plan.classifiers) > 1:
        hint = "compare less (--weighting degree --reader plain), or take a smaller --dim"
    elif plan.inputs == "learned":
        hint = "take a smaller --dim, or give --features"
    else:
        hint = "take a smaller --dim, or fewer features"
    raise InputError(
        f"this fit needs about {size_of(plan.cost.peak_bytes)} of memory, and {size_of(available)} are available; "
        f"{hint}, or try it all the same with --no-memory-check"
    )
