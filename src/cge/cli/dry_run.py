"""What `cge fit --dry-run` says: what a fit would do, and about what it costs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cge.cli.memory import size_of
from cge.cli.printing import facts

if TYPE_CHECKING:
    from cge.estimators.fit_plan import FitPlan
    from cge.graph import Graph

__all__ = ["content_of", "duration", "print_plan"]


def content_of(plan: FitPlan, graph: Graph, out: str, available: int | None) -> dict[str, Any]:
    """Return a plan as JSON holds it."""
    told = asdict(plan)
    cost = told.pop("cost")
    estimate = {"seconds": round(cost["seconds"], 1), "peak_bytes": round(cost["peak_bytes"])}
    size = {"nodes": graph.num_nodes, "edges": graph.num_edges, "folder": out, "dry_run": True}
    return size | told | {"estimate": estimate, "available_bytes": available}


def print_plan(plan: FitPlan, graph: Graph, out: str, available: int | None) -> None:
    """Print a plan, and that nothing was done."""
    labels, cost = plan.labels, plan.cost
    what = "epoch" if plan.encoder == "paths" else "round"
    served = f"{labels['train']:,} train, {labels['outer']:,} weigh paths, {labels['selection']:,} choose the {what}"
    again = ", then a second training on all of them" if plan.refit else ""
    memory = "" if available is None else f", of {size_of(available)} available"
    facts(
        [
            ("nodes", f"{graph.num_nodes:,}"),
            ("edges", f"{graph.num_edges:,}"),
            ("labels", served + again),
            ("encoder", plan.encoder),
            *(_of_paths(plan, graph) if plan.encoder == "paths" else _of_pairs(plan)),
            ("time", f"about {duration(cost.seconds)}, a rough estimate"),
            ("memory", f"about {size_of(cost.peak_bytes)} at most{memory}"),
            ("would save to", out),
            ("", "nothing was trained or written (--dry-run)"),
        ]
    )


def _of_paths(plan: FitPlan, graph: Graph) -> list[tuple[str, str]]:
    sizes, features = plan.sizes, graph.features if plan.inputs == "features" else None
    carried = {"learned": "a learned table", "walks": "vectors of random walks"}.get(str(plan.inputs), "features")
    carried += "" if features is None else f", {features.shape[1]:,} for each node"
    epochs = ", ".join(f"{count} {name}" for name, count in sizes["epochs"].items())
    weights, classifiers = _compared(plan.weightings), _compared(plan.classifiers)
    if len(plan.weightings) > 1 and "mlp" in plan.classifiers:
        weights += "; where a plain reader is best, also hop profiles and steps"
    if len(plan.classifiers) > 1 and plan.label_propagation != "no":
        classifiers += "; where labels vote, also taught"
    return [
        ("nodes carry", carried),
        ("path weights", weights),
        ("read by", classifiers),
        ("labels vote", str(plan.label_propagation).replace("asked for", "if the selection labels say so")),
        ("sizes", f"paths of up to {sizes['hops']} steps, vectors of {sizes['dim']} numbers"),
        ("epochs", f"at most {epochs}"),
    ]


def _compared(names: tuple[str, ...]) -> str:
    """Say what is used, or among what the selection labels choose."""
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} or {names[-1]}, by the selection labels"


def _of_pairs(plan: FitPlan) -> list[tuple[str, str]]:
    sizes = plan.sizes
    loss = "softmax over all nodes" if sizes["loss"] == "softmax" else f"{sizes['negatives']} negatives"
    return [
        ("path weights", plan.weightings[0]),
        (
            "walks",
            f"{sizes['walks_per_node']} of {sizes['walk_length']} nodes from each node, window {sizes['window']}",
        ),
        ("path loss", loss),
        ("sizes", f"vectors of {sizes['dim']} numbers"),
        ("max_epochs", f"at most {sizes['max_epochs']}"),
    ]


def duration(seconds: float) -> str:
    """Return a time in words that promise no more than is known.

    >>> duration(31.1), duration(257), duration(9000)
    ('30 seconds', '4 minutes', '2.5 hours')
    """
    if seconds < 90:
        return f"{max(round(seconds / 5) * 5, 5)} seconds"
    return f"{round(seconds / 60)} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
