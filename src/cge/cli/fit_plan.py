"""The plan of a fit: what would be trained and compared (`cge fit --dry-run`), and whether the memory suffices."""

from __future__ import annotations

from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cge.cli.fit_output import describe_labels
from cge.cli.printing import print_pairs, print_table
from cge.errors import InputError

if TYPE_CHECKING:
    from cge.estimators.fit_plan import FitPlan
    from cge.graph import Graph

_COLUMNS = ("stage", "weighting", "classifier", "label propagation", "condition")


def plan_json(plan: FitPlan, graph: Graph, out: str, available: int | None) -> dict[str, Any]:
    """Return a plan as a JSON object."""
    sizes = {"nodes": graph.num_nodes, "edges": graph.num_edges, "folder": out, "dry_run": True}
    settings = {name: getattr(plan, name) for name in ("labels", "refit", "sizes", "inputs")}
    memory = {"peak_bytes": round(plan.peak_bytes), "available_bytes": available}
    return {**sizes, **settings, "candidates": plan.rows(), **memory}


def print_plan(plan: FitPlan, graph: Graph, out: str, available: int | None) -> None:
    """Print a plan, and that nothing was done."""
    counts = describe_labels(plan.labels, plan.refit, "is learned" if not plan.candidates else "may be learned")
    refit = "; then refitted on all labels" if plan.refit else ""
    memory = "" if available is None else f", of {format_bytes(available)} available"
    rows = [("nodes", f"{graph.num_nodes:,}"), ("edges", f"{graph.num_edges:,}"), ("labels", counts + refit)]
    rows += _path_encoder_rows(plan, graph) if plan.candidates else _paper_rows(plan.sizes)
    print_pairs([*rows, ("memory", f"about {format_bytes(plan.peak_bytes)} at most{memory}"), ("output folder", out)])
    if plan.candidates:
        print()
        print_table([(title, "left") for title in _COLUMNS], _candidates(plan))
        print()
    print("nothing was trained or written (--dry-run)")


def _path_encoder_rows(plan: FitPlan, graph: Graph) -> list[tuple[str, str]]:
    names = {"learned": "a learned embedding table", "walks": "DeepWalk vectors"}
    inputs = names.get(str(plan.inputs), "features")
    if plan.inputs == "features" and graph.features is not None:
        inputs += f", {graph.features.shape[1]:,} per node"
    sizes = f"paths of up to {plan.sizes['hops']} hops, projected to {plan.sizes['dim']} dimensions"
    return [("inputs", inputs), ("sizes", sizes)]


def _paper_rows(sizes: dict[str, Any]) -> list[tuple[str, str]]:
    walks = f"{sizes['walks_per_node']} per node with {sizes['walk_length']} nodes, window {sizes['window']}"
    loss = "softmax over all nodes" if sizes["loss"] == "softmax" else f"{sizes['negatives']} negative samples"
    rows = [("weighting", sizes["weighting"]), ("walks", walks), ("path loss", loss)]
    return [*rows, ("sizes", f"vectors of {sizes['dim']} dimensions"), ("epochs", f"at most {sizes['max_epochs']}")]


def _candidates(plan: FitPlan) -> list[list[str]]:
    """Return the rows of the table of candidates; those that differ in one column are put in one row."""
    rows = [[row[title.replace(" ", "_")] for title in _COLUMNS] for row in plan.rows()]
    for column in (2, 1):
        groups = groupby(rows, key=lambda row, column=column: [*row[:column], *row[column + 1 :]])  # type: ignore[misc]
        rows = [[*key[:column], _shortened([row[column] for row in group]), *key[column:]] for key, group in groups]
    return rows


def _shortened(names: list[str]) -> str:
    from cge.models.weightings import is_hop_profile

    if len(names) > 1 and all(map(is_hop_profile, names)):
        return f"hop profiles ({len(names)})"
    return ", ".join(names)


def available_memory(root: Path = Path("/")) -> int | None:
    """Return the bytes that this process may use in all, those in use included; None where they are not known.

    What is free is the least of the machine, the control groups (the limit of a container) and what `ulimit` allows.
    """
    used, machine = _number(root / "proc/self/statm", place=1), _number(root / "proc/meminfo", "MemAvailable:")
    free = [*([] if machine is None else [1024 * machine]), *_groups(root), *_limits(root)]
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
