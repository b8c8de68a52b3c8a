"""What `cge fit --dry-run` prints: what a fit would train, and about what it costs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cge.cli.memory import format_bytes
from cge.cli.printing import print_pairs

if TYPE_CHECKING:
    from cge.estimators.fit_plan import FitPlan
    from cge.graph import Graph

__all__ = ["format_duration", "plan_json", "print_plan"]


def plan_json(plan: FitPlan, graph: Graph, out: str, available: int | None) -> dict[str, Any]:
    """Return a plan as a JSON object."""
    content = asdict(plan)
    cost = content.pop("cost")
    estimate = {"seconds": round(cost["seconds"], 1), "peak_bytes": round(cost["peak_bytes"])}
    size = {"nodes": graph.num_nodes, "edges": graph.num_edges, "folder": out, "dry_run": True}
    return size | content | {"estimate": estimate, "available_bytes": available}


def print_plan(plan: FitPlan, graph: Graph, out: str, available: int | None) -> None:
    """Print a plan, and that nothing was done."""
    labels, cost = plan.labels, plan.cost
    counts = f"{labels['train']:,} training, {labels['validation']:,} validation"
    counts += f"; {labels['outer']:,} of them train a weighting" if labels["outer"] else ""
    refit = ", then a second training on all labels" if plan.refit else ""
    memory = "" if available is None else f", of {format_bytes(available)} available"
    print_pairs(
        [
            ("nodes", f"{graph.num_nodes:,}"),
            ("edges", f"{graph.num_edges:,}"),
            ("labels", counts + refit),
            *(_path_encoder(plan, graph) if plan.classifiers else _paper(plan)),
            ("time", f"about {format_duration(cost.seconds)}, a rough estimate"),
            ("memory", f"about {format_bytes(cost.peak_bytes)} at most{memory}"),
            ("output folder", out),
            ("", "nothing was trained or written (--dry-run)"),
        ]
    )


def _path_encoder(plan: FitPlan, graph: Graph) -> list[tuple[str, str]]:
    sizes, features = plan.sizes, graph.features if plan.inputs == "features" else None
    inputs = {"learned": "a learned embedding table", "walks": "vectors of random walks"}.get(
        str(plan.inputs), "features"
    )
    inputs += "" if features is None else f", {features.shape[1]:,} per node"
    epochs = ", ".join(f"{count} {name}" for name, count in sizes["epochs"].items())
    return [
        ("inputs", inputs),
        ("weighting", _candidates(plan.weightings)),
        ("classifier", _candidates(plan.classifiers)),
        ("label propagation", str(plan.label_propagation)),
        ("sizes", f"paths of up to {sizes['hops']} edges, vectors of {sizes['dim']} dimensions"),
        ("epochs", f"at most {epochs}"),
    ]


def _candidates(names: tuple[str, ...]) -> str:
    """Return the candidate in use, or those that are compared."""
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} or {names[-1]}, selected by validation accuracy"


def _paper(plan: FitPlan) -> list[tuple[str, str]]:
    sizes = plan.sizes
    loss = "softmax over all nodes" if sizes["loss"] == "softmax" else f"{sizes['negatives']} negative samples"
    walks = f"{sizes['walks_per_node']} per node with {sizes['walk_length']} nodes, window {sizes['window']}"
    return [
        ("weighting", plan.weightings[0]),
        ("walks", walks),
        ("path loss", loss),
        ("sizes", f"vectors of {sizes['dim']} dimensions"),
        ("epochs", f"at most {sizes['max_epochs']}"),
    ]


def format_duration(seconds: float) -> str:
    """Return a rough time in words.

    >>> format_duration(31.1), format_duration(257), format_duration(9000)
    ('30 seconds', '4 minutes', '2.5 hours')
    """
    if seconds < 90:
        return f"{max(round(seconds / 5) * 5, 5)} seconds"
    return f"{round(seconds / 60)} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
