"""What `cge fit --dry-run` prints: what a fit would train and compare, and about how much memory it needs."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from cge.cli.fit_summary import describe_labels
from cge.cli.memory import format_bytes
from cge.cli.printing import print_pairs, print_table

if TYPE_CHECKING:
    from cge.estimators.fit_plan import FitPlan
    from cge.graph import Graph

_COLUMNS = ("stage", "weighting", "classifier", "label propagation", "condition")


def plan_json(plan: FitPlan, graph: Graph, out: str, available: int | None) -> dict[str, Any]:
    """Return a plan as a JSON object."""
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "folder": out,
        "dry_run": True,
        "labels": plan.labels,
        "refit": plan.refit,
        "sizes": plan.sizes,
        "inputs": plan.inputs,
        "candidates": plan.rows(),
        "peak_bytes": round(plan.peak_bytes),
        "available_bytes": available,
    }


def print_plan(plan: FitPlan, graph: Graph, out: str, available: int | None) -> None:
    """Print a plan, and that nothing was done."""
    counts = describe_labels(plan.labels, plan.refit, "is learned" if not plan.candidates else "may be learned")
    refit = "; then refitted on all labels" if plan.refit else ""
    memory = "" if available is None else f", of {format_bytes(available)} available"
    print_pairs(
        [
            ("nodes", f"{graph.num_nodes:,}"),
            ("edges", f"{graph.num_edges:,}"),
            ("labels", counts + refit),
            *(_path_encoder(plan, graph) if plan.candidates else _paper(plan)),
            ("memory", f"about {format_bytes(plan.peak_bytes)} at most{memory}"),
            ("output folder", out),
        ]
    )
    if plan.candidates:
        print()
        print_table([(title, "left") for title in _COLUMNS], _candidates(plan))
        print()
    print("nothing was trained or written (--dry-run)")


def _path_encoder(plan: FitPlan, graph: Graph) -> list[tuple[str, str]]:
    sizes, features = plan.sizes, graph.features if plan.inputs == "features" else None
    inputs = {"learned": "a learned embedding table", "walks": "vectors of random walks"}.get(
        str(plan.inputs), "features"
    )
    inputs += "" if features is None else f", {features.shape[1]:,} per node"
    return [
        ("inputs", inputs),
        ("sizes", f"paths of up to {sizes['hops']} edges, vectors of {sizes['dim']} dimensions"),
    ]


def _candidates(plan: FitPlan) -> list[list[str]]:
    """Return the rows of the table of candidates; those that differ in one column are put in one row."""
    rows = [
        [row["stage"], row["weighting"], row["classifier"], row["label_propagation"], row["condition"]]
        for row in plan.rows()
    ]
    for column in (2, 1):
        groups = groupby(rows, key=lambda row, column=column: [*row[:column], *row[column + 1 :]])  # type: ignore[misc]
        rows = [[*key[:column], _shortened([row[column] for row in group]), *key[column:]] for key, group in groups]
    return rows


def _shortened(names: list[str]) -> str:
    from cge.models.weightings import is_hop_profile

    if len(names) > 1 and all(map(is_hop_profile, names)):
        return f"{len(names)} hop profiles"
    return ", ".join(names)


def _paper(plan: FitPlan) -> list[tuple[str, str]]:
    sizes = plan.sizes
    loss = "softmax over all nodes" if sizes["loss"] == "softmax" else f"{sizes['negatives']} negative samples"
    walks = f"{sizes['walks_per_node']} per node with {sizes['walk_length']} nodes, window {sizes['window']}"
    return [
        ("weighting", sizes["weighting"]),
        ("walks", walks),
        ("path loss", loss),
        ("sizes", f"vectors of {sizes['dim']} dimensions"),
        ("epochs", f"at most {sizes['max_epochs']}"),
    ]
